package storage.benthic;

import com.sun.jna.ptr.ByteByReference;
import com.sun.jna.ptr.LongByReference;
import com.sun.jna.ptr.PointerByReference;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** The result of a {@link ReadOp}. */
public final class Reply {
    private static final long NS_PER_S = 1_000_000_000;

    private final ReadOp op;
    private final long version;
    private final List<Object> outputs = new ArrayList<>();

    Reply(ReadOp op, long reply) {
        this.op = op;
        this.version = version(reply);
        for (Step<?> step : op.steps()) {
            outputs.add(step.decoder.decode(reply, step.at));
        }
    }

    /** The version of the object that was read. */
    public long version() {
        return version;
    }

    /**
     * The output of a step. It is null only for the missing key of {@link ReadOp#omapGet}.
     *
     * @throws BenthicException INVALID_ARGUMENT if the step is of another operation
     */
    @SuppressWarnings("unchecked") // The step's decoder made the output.
    public <T> T get(Step<T> step) {
        if (step == null || step.op != op || step.at >= outputs.size()) {
            throw new BenthicException(Kind.INVALID_ARGUMENT, "the step is of another operation than the reply");
        }
        return (T) outputs.get(step.at);
    }

    static long version(long reply) {
        LongByReference version = new LongByReference();
        Library.call(error -> Library.benthic_reply_version(reply, version, error));
        return version.getValue();
    }

    static byte[] data(long reply, long step) {
        PointerByReference data = new PointerByReference();
        LongByReference size = new LongByReference();
        Library.call(error -> Library.benthic_reply_data(reply, step, data, size, error));
        return copy(data, size);
    }

    static Stat stat(long reply, long step) {
        LongByReference size = new LongByReference();
        LongByReference modified = new LongByReference();
        Library.call(error -> Library.benthic_reply_stat(reply, step, size, modified, error));
        long ns = modified.getValue();
        return new Stat(size.getValue(), Instant.ofEpochSecond(
                Long.divideUnsigned(ns, NS_PER_S), Long.remainderUnsigned(ns, NS_PER_S)));
    }

    static OmapPage entries(long reply, long step) {
        LongByReference count = new LongByReference();
        ByteByReference more = new ByteByReference();
        Library.call(error -> Library.benthic_reply_count(reply, step, count, more, error));
        List<Entry> entries = new ArrayList<>();
        PointerByReference key = new PointerByReference();
        PointerByReference value = new PointerByReference();
        LongByReference keySize = new LongByReference();
        LongByReference valueSize = new LongByReference();
        for (long at = 0; at < count.getValue(); at++) {
            long entry = at;
            Library.call(error ->
                    Library.benthic_reply_entry(reply, step, entry, key, keySize, value, valueSize, error));
            entries.add(new Entry(copy(key, keySize), copy(value, valueSize)));
        }
        return new OmapPage(List.copyOf(entries), more.getValue() != 0);
    }

    static byte[] omapValue(long reply, long step) {
        List<Entry> entries = entries(reply, step).entries();
        return entries.isEmpty() ? null : entries.get(0).value();
    }

    static Map<String, byte[]> xattrs(long reply, long step) {
        Map<String, byte[]> values = new LinkedHashMap<>();
        for (Entry entry : entries(reply, step).entries()) {
            values.put(new String(entry.key(), StandardCharsets.UTF_8), entry.value());
        }
        return values;
    }

    /** Copies bytes of the library, which are valid only until their owner is freed. */
    static byte[] copy(PointerByReference data, LongByReference size) {
        int length = Math.toIntExact(size.getValue());
        return length == 0 ? new byte[0] : data.getValue().getByteArray(0, length);
    }
}
