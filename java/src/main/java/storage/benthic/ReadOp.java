package storage.benthic;

import static storage.benthic.Arguments.bytes;
import static storage.benthic.Arguments.notNegative;
import static storage.benthic.Arguments.notNull;
import static storage.benthic.Arguments.text;

import com.sun.jna.ptr.LongByReference;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/**
 * A compound read operation: guards and steps that all see one state of the object, in one round trip.
 * {@link Pool#read} runs it, and fails at the first guard or step that fails. An operation may run many times, also
 * at the same time, but its guards and steps must be complete before. It keeps the given arrays.
 */
public final class ReadOp {
    /** Adds a guard or a step to an operation of the library. */
    interface Part {
        int add(long op, LongByReference error);
    }

    private final List<Part> guards = new ArrayList<>();
    private final List<Part> parts = new ArrayList<>();
    private final List<Step<?>> steps = new ArrayList<>();

    /** Adds a guard: the object exists. Otherwise the operation fails with NOT_FOUND. */
    public ReadOp ifExists() {
        return guard(Library::benthic_read_op_assert_exists);
    }

    /** Adds a guard: the object has this version. Otherwise the operation fails with CONFLICT. */
    public ReadOp ifVersion(long version) {
        return guard((op, error) -> Library.benthic_read_op_assert_version(op, version, error));
    }

    /** Adds a guard on an attribute; a missing one compares as empty. Otherwise the operation fails with CONFLICT. */
    public ReadOp ifXattr(String name, Comparison comparison, byte[] value) {
        byte[] cName = text("name", name);
        int number = notNull("comparison", comparison).ordinal();
        bytes("value", value);
        return guard((op, error) ->
                Library.benthic_read_op_compare_xattr(op, cName, number, value, value.length, error));
    }

    /** Adds a guard: an omap key has this value; a missing one counts as empty. Otherwise it fails with CONFLICT. */
    public ReadOp ifOmap(byte[] key, byte[] value) {
        bytes("key", key);
        bytes("value", value);
        return guard((op, error) ->
                Library.benthic_read_op_compare_omap(op, key, key.length, value, value.length, error));
    }

    /** Adds a step: data from an offset. The output is short at the end of the object. */
    public Step<byte[]> read(long offsetBytes, long lenBytes) {
        notNegative("offset_bytes", offsetBytes);
        notNegative("len_bytes", lenBytes);
        return step(Reply::data, (op, error) -> Library.benthic_read_op_read(op, offsetBytes, lenBytes, error));
    }

    /** Adds a step: the size of the object, and the time of its last change. */
    public Step<Stat> stat() {
        return step(Reply::stat, Library::benthic_read_op_stat);
    }

    /** Adds a step: the value of an attribute. A missing attribute fails with NOT_FOUND. */
    public Step<byte[]> xattr(String name) {
        byte[] cName = text("name", name);
        return step(Reply::data, (op, error) -> Library.benthic_read_op_get_xattr(op, cName, error));
    }

    /** Adds a step: all attributes. */
    public Step<Map<String, byte[]>> xattrs() {
        return step(Reply::xattrs, Library::benthic_read_op_list_xattrs);
    }

    /** Adds a step: the value of an omap key; null if the key is missing. */
    public Step<byte[]> omapGet(byte[] key) {
        bytes("key", key);
        return step(Reply::omapValue, (op, error) -> Library.benthic_read_op_omap_get(op, key, key.length, error));
    }

    /**
     * Adds a step: a page of omap entries in the bytewise order of keys, only of keys after {@code after} and with
     * {@code prefix}. An {@code after} or {@code prefix} that is empty selects all.
     */
    public Step<OmapPage> omapRange(byte[] after, byte[] prefix, int entriesMax) {
        bytes("after", after);
        bytes("prefix", prefix);
        notNegative("entries_max", entriesMax);
        return step(Reply::entries, (op, error) -> Library.benthic_read_op_omap_range(
                op, after, after.length, prefix, prefix.length, entriesMax, error));
    }

    /** Adds a step: the output of a method of one of the store's classes that does not write. */
    public Step<byte[]> exec(String className, String method, byte[] input) {
        byte[] cClass = text("class", className);
        byte[] cMethod = text("method", method);
        bytes("input", input);
        return step(Reply::data, (op, error) ->
                Library.benthic_read_op_exec(op, cClass, cMethod, input, input.length, error));
    }

    private ReadOp guard(Part guard) {
        guards.add(guard);
        return this;
    }

    private <T> Step<T> step(Step.Decoder<T> decoder, Part part) {
        Step<T> step = new Step<>(this, steps.size(), decoder);
        parts.add(part);
        steps.add(step);
        return step;
    }

    List<Step<?>> steps() {
        return steps;
    }

    /** Makes the library's operation, which the caller frees. */
    long build() {
        LongByReference op = new LongByReference();
        Library.call(error -> Library.benthic_read_op_new(op, error));
        try {
            for (List<Part> added : List.of(guards, parts)) {
                for (Part part : added) {
                    Library.call(error -> part.add(op.getValue(), error));
                }
            }
        } catch (Throwable failure) {
            Library.benthic_read_op_free(op.getValue());
            throw failure;
        }
        return op.getValue();
    }
}
