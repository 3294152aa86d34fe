package storage.benthic;

import com.sun.jna.Callback;
import com.sun.jna.Native;
import com.sun.jna.NativeLibrary;
import com.sun.jna.Pointer;
import com.sun.jna.ptr.ByteByReference;
import com.sun.jna.ptr.LongByReference;
import com.sun.jna.ptr.PointerByReference;
import java.util.Arrays;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * The functions of the C library; its header documents them. A handle is a number, which the library looks up.
 * The library runs on 64-bit systems only, so a {@code size_t} is a {@code long}.
 */
final class Library {
    static final String VERSION_MIN = "0.1.0";
    private static final String NAME = "libbenthic.so.1";
    private static final Pattern VERSION = Pattern.compile("v?(\\d{1,9})\\.(\\d{1,9})\\.(\\d{1,9}).*");

    /** Why the library cannot be used; null if it can. */
    private static final BenthicException FAILURE = load();

    private Library() {}

    /** Throws if the library cannot be used. */
    static void require() {
        if (FAILURE != null) {
            throw new BenthicException(FAILURE.kind(), FAILURE.getMessage(), FAILURE);
        }
    }

    private static BenthicException load() {
        NativeLibrary library;
        try {
            library = NativeLibrary.getInstance(NAME);
        } catch (UnsatisfiedLinkError error) {
            String message = "the C library " + NAME + " cannot be loaded; build it and set the property "
                    + "jna.library.path to its directory, see docs/guide/java.md: " + error.getMessage();
            return new BenthicException(Kind.UNSUPPORTED, message, error);
        }
        try {
            Native.register(Library.class, library);
            return checkVersion(benthic_version().getString(0, "UTF-8"));
        } catch (UnsatisfiedLinkError error) {
            String message = "the C library " + NAME + " is too old; install version " + VERSION_MIN + " or a newer one: "
                    + error.getMessage();
            return new BenthicException(Kind.UNSUPPORTED, message, error);
        }
    }

    /** Returns why a version is too old; null if it is not. */
    static BenthicException checkVersion(String version) {
        int[] found = numbers(version);
        if (found != null && Arrays.compare(found, numbers(VERSION_MIN)) >= 0) {
            return null;
        }
        String message = "the C library " + NAME + " is too old; install a newer one version=" + version + " version_min="
                + VERSION_MIN;
        return new BenthicException(Kind.UNSUPPORTED, message);
    }

    private static int[] numbers(String version) {
        Matcher parts = VERSION.matcher(version);
        if (!parts.matches()) {
            return null;
        }
        return new int[] {Integer.parseInt(parts.group(1)), Integer.parseInt(parts.group(2)), Integer.parseInt(parts.group(3))};
    }

    /** A call that stores its error. */
    interface Call {
        int run(LongByReference error);
    }

    /** Runs a call, and throws its error. */
    static void call(Call call) {
        LongByReference error = new LongByReference();
        int kind = call.run(error);
        if (kind == 0) {
            return;
        }
        Pointer message = benthic_error_message(error.getValue());
        String text = message == null ? "the call failed" : message.getString(0, "UTF-8");
        benthic_error_free(error.getValue());
        throw new BenthicException(Kind.of(kind), text);
    }

    /** The library calls it when an operation is complete. */
    interface Completed extends Callback {
        void invoke(long completion, long context);
    }

    static native Pointer benthic_version();

    static native Pointer benthic_error_message(long error);

    static native int benthic_error_free(long error);

    static native int benthic_store_open(byte[] uri, byte create, LongByReference store, LongByReference error);

    static native int benthic_store_close(long store, LongByReference error);

    static native int benthic_store_flush(long store, LongByReference error);

    static native int benthic_store_classes(long store, LongByReference json, LongByReference error);

    static native int benthic_pool_create(long store, byte[] name, LongByReference error);

    static native int benthic_pool_remove(long store, byte[] name, LongByReference error);

    static native int benthic_pool_list(long store, LongByReference page, LongByReference error);

    static native int benthic_pool_open(
            long store, byte[] name, byte[] namespace, LongByReference pool, LongByReference error);

    static native int benthic_pool_close(long pool);

    static native int benthic_exec(
            long pool, byte[] object, byte[] className, byte[] method, byte[] input, long lenBytes,
            LongByReference reply, LongByReference error);

    static native int benthic_exec_start(
            long pool, byte[] object, byte[] className, byte[] method, byte[] input, long lenBytes,
            Completed callback, long context, LongByReference completion, LongByReference error);

    static native int benthic_read_op_new(LongByReference op, LongByReference error);

    static native int benthic_read_op_free(long op);

    static native int benthic_read_op_assert_exists(long op, LongByReference error);

    static native int benthic_read_op_assert_version(long op, long version, LongByReference error);

    static native int benthic_read_op_compare_xattr(
            long op, byte[] name, int comparison, byte[] value, long valueBytes, LongByReference error);

    static native int benthic_read_op_compare_omap(
            long op, byte[] key, long keyBytes, byte[] value, long valueBytes, LongByReference error);

    static native int benthic_read_op_read(long op, long offsetBytes, long lenBytes, LongByReference error);

    static native int benthic_read_op_stat(long op, LongByReference error);

    static native int benthic_read_op_get_xattr(long op, byte[] name, LongByReference error);

    static native int benthic_read_op_list_xattrs(long op, LongByReference error);

    static native int benthic_read_op_omap_get(long op, byte[] key, long keyBytes, LongByReference error);

    static native int benthic_read_op_omap_range(
            long op, byte[] after, long afterBytes, byte[] prefix, long prefixBytes, long entriesMax,
            LongByReference error);

    static native int benthic_read_op_exec(
            long op, byte[] className, byte[] method, byte[] input, long lenBytes, LongByReference error);

    static native int benthic_read_op_run(
            long pool, byte[] object, long op, LongByReference reply, LongByReference error);

    static native int benthic_read_op_start(
            long pool, byte[] object, long op, Completed callback, long context, LongByReference completion,
            LongByReference error);

    static native int benthic_write_op_new(LongByReference op, LongByReference error);

    static native int benthic_write_op_free(long op);

    static native int benthic_write_op_assert_exists(long op, LongByReference error);

    static native int benthic_write_op_assert_version(long op, long version, LongByReference error);

    static native int benthic_write_op_compare_xattr(
            long op, byte[] name, int comparison, byte[] value, long valueBytes, LongByReference error);

    static native int benthic_write_op_compare_omap(
            long op, byte[] key, long keyBytes, byte[] value, long valueBytes, LongByReference error);

    static native int benthic_write_op_set_buffered(long op, LongByReference error);

    static native int benthic_write_op_create(long op, byte exclusive, LongByReference error);

    static native int benthic_write_op_write(
            long op, long offsetBytes, byte[] data, long lenBytes, LongByReference error);

    static native int benthic_write_op_write_full(long op, byte[] data, long lenBytes, LongByReference error);

    static native int benthic_write_op_append(long op, byte[] data, long lenBytes, LongByReference error);

    static native int benthic_write_op_truncate(long op, long sizeBytes, LongByReference error);

    static native int benthic_write_op_zero(long op, long offsetBytes, long lenBytes, LongByReference error);

    static native int benthic_write_op_remove(long op, LongByReference error);

    static native int benthic_write_op_set_xattr(
            long op, byte[] name, byte[] value, long valueBytes, LongByReference error);

    static native int benthic_write_op_remove_xattr(long op, byte[] name, LongByReference error);

    static native int benthic_write_op_omap_set(
            long op, byte[] key, long keyBytes, byte[] value, long valueBytes, LongByReference error);

    static native int benthic_write_op_omap_remove(long op, byte[] key, long keyBytes, LongByReference error);

    static native int benthic_write_op_omap_clear(long op, LongByReference error);

    static native int benthic_write_op_exec(
            long op, byte[] className, byte[] method, byte[] input, long lenBytes, LongByReference error);

    static native int benthic_write_op_run(
            long pool, byte[] object, long op, LongByReference version, LongByReference error);

    static native int benthic_write_op_start(
            long pool, byte[] object, long op, Completed callback, long context, LongByReference completion,
            LongByReference error);

    static native int benthic_reply_version(long reply, LongByReference version, LongByReference error);

    static native int benthic_reply_data(
            long reply, long step, PointerByReference data, LongByReference lenBytes, LongByReference error);

    static native int benthic_reply_stat(
            long reply, long step, LongByReference sizeBytes, LongByReference modifiedUnixNs, LongByReference error);

    static native int benthic_reply_count(
            long reply, long step, LongByReference count, ByteByReference more, LongByReference error);

    static native int benthic_reply_entry(
            long reply, long step, long at, PointerByReference key, LongByReference keyBytes,
            PointerByReference value, LongByReference valueBytes, LongByReference error);

    static native int benthic_reply_free(long reply);

    static native int benthic_list(
            long pool, byte[] prefix, byte allNamespaces, byte[] after, long afterBytes, long objectsMax,
            LongByReference page, LongByReference error);

    static native int benthic_page_count(long page, LongByReference count, LongByReference error);

    static native int benthic_page_entry(
            long page, long at, PointerByReference namespace, PointerByReference name, LongByReference error);

    static native int benthic_page_next(
            long page, PointerByReference after, LongByReference afterBytes, LongByReference error);

    static native int benthic_page_free(long page);

    static native int benthic_completion_result(long completion, LongByReference reply, LongByReference error);

    static native int benthic_completion_cancel(long completion, LongByReference error);

    static native int benthic_completion_free(long completion);
}
