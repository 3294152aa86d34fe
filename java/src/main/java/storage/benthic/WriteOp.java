package storage.benthic;

import static storage.benthic.Arguments.bytes;
import static storage.benthic.Arguments.flag;
import static storage.benthic.Arguments.notNegative;
import static storage.benthic.Arguments.notNull;
import static storage.benthic.Arguments.text;

import com.sun.jna.ptr.LongByReference;
import java.util.ArrayList;
import java.util.List;

/**
 * A compound write operation: all guards hold and all steps happen, or nothing changes. {@link Pool#write} runs it.
 * An operation may run many times, also at the same time, but its guards and steps must be complete before. It keeps
 * the given arrays, so they must not change until the last run.
 */
public final class WriteOp {
    private final List<ReadOp.Part> guards = new ArrayList<>();
    private final List<ReadOp.Part> steps = new ArrayList<>();

    /** Adds a guard: the object exists. Otherwise the operation fails with NOT_FOUND. */
    public WriteOp ifExists() {
        return guard(Library::benthic_write_op_assert_exists);
    }

    /** Adds a guard: the object has this version. Otherwise the operation fails with CONFLICT. */
    public WriteOp ifVersion(long version) {
        return guard((op, error) -> Library.benthic_write_op_assert_version(op, version, error));
    }

    /** Adds a guard on an attribute; a missing one compares as empty. Otherwise the operation fails with CONFLICT. */
    public WriteOp ifXattr(String name, Comparison comparison, byte[] value) {
        byte[] cName = text("name", name);
        int number = notNull("comparison", comparison).ordinal();
        bytes("value", value);
        return guard((op, error) ->
                Library.benthic_write_op_compare_xattr(op, cName, number, value, value.length, error));
    }

    /** Adds a guard: an omap key has this value; a missing one counts as empty. Otherwise it fails with CONFLICT. */
    public WriteOp ifOmap(byte[] key, byte[] value) {
        bytes("key", key);
        bytes("value", value);
        return guard((op, error) ->
                Library.benthic_write_op_compare_omap(op, key, key.length, value, value.length, error));
    }

    /**
     * Lets the engine acknowledge the operation before it is durable. A later {@link Store#flush} or durable
     * operation makes it durable. On Ceph every write is durable.
     */
    public WriteOp buffered() {
        return step(Library::benthic_write_op_set_buffered);
    }

    /** Adds a step: creates the object. If {@code exclusive}, an existing object fails with ALREADY_EXISTS. */
    public WriteOp create(boolean exclusive) {
        return step((op, error) -> Library.benthic_write_op_create(op, flag(exclusive), error));
    }

    /** Adds a step: writes data at an offset. */
    public WriteOp write(long offsetBytes, byte[] data) {
        notNegative("offset_bytes", offsetBytes);
        bytes("data", data);
        return step((op, error) -> Library.benthic_write_op_write(op, offsetBytes, data, data.length, error));
    }

    /** Adds a step: replaces all data. Attributes and omap are kept. */
    public WriteOp writeFull(byte[] data) {
        bytes("data", data);
        return step((op, error) -> Library.benthic_write_op_write_full(op, data, data.length, error));
    }

    /** Adds a step: writes data at the end of the object. */
    public WriteOp append(byte[] data) {
        bytes("data", data);
        return step((op, error) -> Library.benthic_write_op_append(op, data, data.length, error));
    }

    /** Adds a step: cuts the data, or extends it with zeros. On a missing object the step does nothing. */
    public WriteOp truncate(long sizeBytes) {
        notNegative("size_bytes", sizeBytes);
        return step((op, error) -> Library.benthic_write_op_truncate(op, sizeBytes, error));
    }

    /**
     * Adds a step: makes a range of at least one byte read as zeros. If the range reaches the end of the object, the
     * object is truncated to the offset.
     */
    public WriteOp zero(long offsetBytes, long lenBytes) {
        notNegative("offset_bytes", offsetBytes);
        notNegative("len_bytes", lenBytes);
        return step((op, error) -> Library.benthic_write_op_zero(op, offsetBytes, lenBytes, error));
    }

    /** Adds a step: removes the object. A missing object fails with NOT_FOUND. */
    public WriteOp remove() {
        return step(Library::benthic_write_op_remove);
    }

    /** Adds a step: sets an attribute. */
    public WriteOp setXattr(String name, byte[] value) {
        byte[] cName = text("name", name);
        bytes("value", value);
        return step((op, error) -> Library.benthic_write_op_set_xattr(op, cName, value, value.length, error));
    }

    /** Adds a step: removes an attribute. A missing attribute is not an error. */
    public WriteOp removeXattr(String name) {
        byte[] cName = text("name", name);
        return step((op, error) -> Library.benthic_write_op_remove_xattr(op, cName, error));
    }

    /** Adds a step: sets an omap entry. Entries that are added one after the other are one step. */
    public WriteOp omapSet(byte[] key, byte[] value) {
        bytes("key", key);
        bytes("value", value);
        return step((op, error) ->
                Library.benthic_write_op_omap_set(op, key, key.length, value, value.length, error));
    }

    /** Adds a step: removes an omap key. Keys that are added one after the other are one step. */
    public WriteOp omapRemove(byte[] key) {
        bytes("key", key);
        return step((op, error) -> Library.benthic_write_op_omap_remove(op, key, key.length, error));
    }

    /** Adds a step: removes all omap entries. */
    public WriteOp omapClear() {
        return step(Library::benthic_write_op_omap_clear);
    }

    /** Adds a step: runs a method of one of the store's classes. It must be the first step, and the only one of its kind. */
    public WriteOp exec(String className, String method, byte[] input) {
        byte[] cClass = text("class", className);
        byte[] cMethod = text("method", method);
        bytes("input", input);
        return step((op, error) -> Library.benthic_write_op_exec(op, cClass, cMethod, input, input.length, error));
    }

    private WriteOp guard(ReadOp.Part guard) {
        guards.add(guard);
        return this;
    }

    private WriteOp step(ReadOp.Part step) {
        steps.add(step);
        return this;
    }

    /** Makes the library's operation, which the caller frees. */
    long build() {
        LongByReference op = new LongByReference();
        Library.call(error -> Library.benthic_write_op_new(op, error));
        try {
            for (List<ReadOp.Part> added : List.of(guards, steps)) {
                for (ReadOp.Part part : added) {
                    Library.call(error -> part.add(op.getValue(), error));
                }
            }
        } catch (Throwable failure) {
            Library.benthic_write_op_free(op.getValue());
            throw failure;
        }
        return op.getValue();
    }
}
