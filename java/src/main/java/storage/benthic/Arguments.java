package storage.benthic;

import java.nio.ByteBuffer;
import java.nio.CharBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/** Checks arguments, and converts them for C. */
final class Arguments {
    private Arguments() {}

    /** A text as UTF-8 with a NUL at its end. A text that contains a NUL would name another item for C. */
    static byte[] text(String name, String text) {
        if (text == null) {
            throw invalid("an argument is null argument=" + name);
        }
        if (text.indexOf('\0') >= 0) {
            throw invalid("a text contains a NUL argument=" + name);
        }
        try {
            ByteBuffer encoded = StandardCharsets.UTF_8.newEncoder().encode(CharBuffer.wrap(text));
            return Arrays.copyOf(Arrays.copyOf(encoded.array(), encoded.limit()), encoded.limit() + 1);
        } catch (CharacterCodingException error) {
            throw invalid("a text is not valid Unicode argument=" + name);
        }
    }

    static byte[] bytes(String name, byte[] bytes) {
        if (bytes == null) {
            throw invalid("an argument is null argument=" + name);
        }
        return bytes;
    }

    static <T> T notNull(String name, T value) {
        if (value == null) {
            throw invalid("an argument is null argument=" + name);
        }
        return value;
    }

    static long notNegative(String name, long number) {
        if (number < 0) {
            throw invalid("a number is negative " + name + "=" + number);
        }
        return number;
    }

    static byte flag(boolean flag) {
        return (byte) (flag ? 1 : 0);
    }

    private static BenthicException invalid(String message) {
        return new BenthicException(Kind.INVALID_ARGUMENT, message);
    }
}
