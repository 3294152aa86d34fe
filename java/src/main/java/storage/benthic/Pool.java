package storage.benthic;

import static storage.benthic.Arguments.bytes;
import static storage.benthic.Arguments.flag;
import static storage.benthic.Arguments.notNegative;
import static storage.benthic.Arguments.notNull;
import static storage.benthic.Arguments.text;

import com.sun.jna.ptr.LongByReference;
import java.lang.ref.Cleaner;
import java.lang.ref.Reference;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.function.LongFunction;
import java.util.stream.Stream;

/**
 * An open pool, and a namespace of its objects. Close it; a pool that is forgotten gets closed at some time.
 *
 * <p>An object has data, attributes, and an ordered map of keys to values, its omap. Every operation on one object is
 * atomic. There is no operation on several objects.
 *
 * <p>Methods that end with {@code Async} return a future. If it is cancelled or times out, the operation ends early.
 * At most 1,024 of them may be in flight in a store; another one fails with BUSY.
 */
public final class Pool implements AutoCloseable {
    private static final int PAGE = 1_024;

    private final Store store;
    private final long handle;
    private final String name;
    private final Cleaner.Cleanable cleanable;

    Pool(Store store, long handle, String name) {
        this.store = store;
        this.handle = handle;
        this.name = name;
        this.cleanable = Store.CLEANER.register(this, () -> Library.benthic_pool_close(handle));
    }

    /** The name of the pool. */
    public String name() {
        return name;
    }

    /** Runs a method of a class beside an object, and returns its output, or the attribute with its result. */
    public byte[] exec(String object, String className, String method, byte[] input) {
        byte[] cObject = text("object", object);
        byte[] cClass = text("class", className);
        byte[] cMethod = text("method", method);
        bytes("input", input);
        LongByReference reply = new LongByReference();
        call(error -> Library.benthic_exec(
                handle, cObject, cClass, cMethod, input, input.length, reply, error));
        return take(reply.getValue(), handle -> Reply.data(handle, 0));
    }

    /** Starts {@link #exec}. */
    public CompletableFuture<byte[]> execAsync(String object, String className, String method, byte[] input) {
        byte[] cObject = text("object", object);
        byte[] cClass = text("class", className);
        byte[] cMethod = text("method", method);
        bytes("input", input);
        return Completions.start((callback, context, completion, error) -> Library.benthic_exec_start(
                handle, cObject, cClass, cMethod, input, input.length, callback, context, completion, error),
                reply -> Reply.data(reply, 0));
    }

    /** Runs a compound read operation. */
    public Reply read(String object, ReadOp op) {
        byte[] cObject = text("object", object);
        LongByReference reply = new LongByReference();
        long built = notNull("op", op).build();
        try {
            call(error -> Library.benthic_read_op_run(handle, cObject, built, reply, error));
        } finally {
            Library.benthic_read_op_free(built);
        }
        return take(reply.getValue(), handle -> new Reply(op, handle));
    }

    /** Starts {@link #read}. */
    public CompletableFuture<Reply> readAsync(String object, ReadOp op) {
        byte[] cObject = text("object", object);
        long built = notNull("op", op).build();
        try {
            return Completions.start((callback, context, completion, error) -> Library.benthic_read_op_start(
                    handle, cObject, built, callback, context, completion, error),
                    reply -> new Reply(op, reply));
        } finally {
            Library.benthic_read_op_free(built);
        }
    }

    /** Runs a compound write operation, and returns the version of the object after it. */
    public long write(String object, WriteOp op) {
        byte[] cObject = text("object", object);
        LongByReference version = new LongByReference();
        long built = notNull("op", op).build();
        try {
            call(error -> Library.benthic_write_op_run(handle, cObject, built, version, error));
        } finally {
            Library.benthic_write_op_free(built);
        }
        return version.getValue();
    }

    /** Starts {@link #write}. */
    public CompletableFuture<Long> writeAsync(String object, WriteOp op) {
        byte[] cObject = text("object", object);
        long built = notNull("op", op).build();
        try {
            return Completions.start((callback, context, completion, error) -> Library.benthic_write_op_start(
                    handle, cObject, built, callback, context, completion, error),
                    Reply::version);
        } finally {
            Library.benthic_write_op_free(built);
        }
    }

    /** Replaces an object's data durably, and returns the new version. Attributes and omap are kept. */
    public long put(String object, byte[] data) {
        return write(object, new WriteOp().writeFull(data));
    }

    /** Reads data from an offset. The result is shorter at the end of the object. */
    public byte[] get(String object, long offsetBytes, long lenBytes) {
        ReadOp op = new ReadOp();
        Step<byte[]> data = op.read(offsetBytes, lenBytes);
        return read(object, op).get(data);
    }

    /** The size of an object, and the time of its last change. */
    public Stat stat(String object) {
        ReadOp op = new ReadOp();
        Step<Stat> stat = op.stat();
        return read(object, op).get(stat);
    }

    /** Removes an object durably, with its attributes and omap. */
    public void remove(String object) {
        write(object, new WriteOp().remove());
    }

    /**
     * Lists a page of the pool's objects, in the store's order. {@code after} is the {@code next} of the page before,
     * and null for the first page. A page has at most {@code objectsMax} objects, and no more than a limit of the
     * engine.
     */
    public ObjectPage list(String prefix, boolean allNamespaces, byte[] after, int objectsMax) {
        byte[] cPrefix = text("prefix", prefix);
        notNegative("objects_max", objectsMax);
        long size = after == null ? 0 : after.length;
        LongByReference page = new LongByReference();
        call(error -> Library.benthic_list(
                handle, cPrefix, flag(allNamespaces), after, size, objectsMax, page, error));
        return ObjectPage.take(page.getValue());
    }

    /** Lists the objects of the namespace whose names have a prefix. The stream holds one page in memory. */
    public Stream<ObjectName> objects(String prefix) {
        return Stream.iterate(list(prefix, false, null, PAGE), Objects::nonNull,
                        page -> page.next() == null ? null : list(prefix, false, page.next(), PAGE))
                .flatMap(page -> page.objects().stream());
    }

    /** Lists the omap entries of an object whose keys have a prefix. The stream holds one page in memory. */
    public Stream<Entry> omap(String object, byte[] prefix) {
        return Stream.iterate(omapPage(object, new byte[0], prefix), Objects::nonNull, page -> !page.more()
                        ? null : omapPage(object, page.entries().get(page.entries().size() - 1).key(), prefix))
                .flatMap(page -> page.entries().stream());
    }

    private OmapPage omapPage(String object, byte[] after, byte[] prefix) {
        ReadOp op = new ReadOp();
        Step<OmapPage> page = op.omapRange(after, prefix, PAGE);
        return read(object, op).get(page);
    }

    /** Closes the handle of the pool. Later calls with it fail with INVALID_ARGUMENT. */
    @Override
    public void close() {
        cleanable.clean();
    }

    /** Runs a call while the pool and its store stay open. */
    private void call(Library.Call call) {
        try {
            Library.call(call);
        } finally {
            Reference.reachabilityFence(this);
            Reference.reachabilityFence(store);
        }
    }

    /** Reads a reply of the library, and frees it. */
    static <T> T take(long reply, LongFunction<T> decode) {
        try {
            return decode.apply(reply);
        } finally {
            Library.benthic_reply_free(reply);
        }
    }
}
