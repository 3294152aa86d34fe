package storage.benthic;

import static storage.benthic.Arguments.flag;
import static storage.benthic.Arguments.text;

import com.sun.jna.ptr.LongByReference;
import java.lang.ref.Cleaner;
import java.lang.ref.Reference;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.atomic.AtomicBoolean;

/** An open store. Close it; a store that is forgotten gets closed at some time. */
public final class Store implements AutoCloseable {
    static final Cleaner CLEANER = Cleaner.create();

    private final long handle;
    private final AtomicBoolean closed = new AtomicBoolean();

    private Store(long handle) {
        this.handle = handle;
        // The handle that close has closed is not open any more, and closing it does nothing.
        CLEANER.register(this, () -> Library.benthic_store_close(handle, null));
    }

    /**
     * Opens a store: {@code file:DIR}, {@code mem:}, or {@code ceph:} with options, such as
     * {@code ceph:?conf=FILE&id=client.x}. Any number of processes can open the same directory.
     *
     * @throws BenthicException UNSUPPORTED if the C library is missing or too old
     */
    public static Store open(String uri) {
        return open(uri, false);
    }

    /** Opens a store, and creates one in a directory that has none. */
    public static Store openOrCreate(String uri) {
        return open(uri, true);
    }

    private static Store open(String uri, boolean create) {
        Library.require();
        byte[] cUri = text("uri", uri);
        LongByReference store = new LongByReference();
        Library.call(error -> Library.benthic_store_open(cUri, flag(create), store, error));
        return new Store(store.getValue());
    }

    /** Waits until every write that was acknowledged before is durable. Only buffered writes need it. */
    public void flush() {
        call(error -> Library.benthic_store_flush(handle, error));
    }

    /** Describes the classes of the store, as a JSON text. */
    public String classes() {
        LongByReference json = new LongByReference();
        call(error -> Library.benthic_store_classes(handle, json, error));
        return Pool.take(json.getValue(), reply -> new String(Reply.data(reply, 0), StandardCharsets.UTF_8));
    }

    /** Creates a pool. */
    public void createPool(String name) {
        byte[] cName = text("name", name);
        call(error -> Library.benthic_pool_create(handle, cName, error));
    }

    /** Removes a pool with all its objects. */
    public void removePool(String name) {
        byte[] cName = text("name", name);
        call(error -> Library.benthic_pool_remove(handle, cName, error));
    }

    /** The names of all pools, sorted. */
    public List<String> pools() {
        LongByReference page = new LongByReference();
        call(error -> Library.benthic_pool_list(handle, page, error));
        return ObjectPage.take(page.getValue()).objects().stream().map(ObjectName::name).toList();
    }

    /** Opens a pool, and the default namespace of its objects. */
    public Pool openPool(String name) {
        return openPool(name, "");
    }

    /** Opens a pool, and a namespace of its objects. */
    public Pool openPool(String name, String namespace) {
        byte[] cName = text("name", name);
        byte[] cNamespace = text("namespace", namespace);
        LongByReference pool = new LongByReference();
        call(error -> Library.benthic_pool_open(handle, cName, cNamespace, pool, error));
        return new Pool(this, pool.getValue(), name);
    }

    /**
     * Closes the store. Afterwards all acknowledged writes are on disk, and calls with the store and its pools fail
     * with INVALID_ARGUMENT. Operations in flight still become complete. Closing it again does nothing.
     */
    @Override
    public void close() {
        if (!closed.getAndSet(true)) {
            call(error -> Library.benthic_store_close(handle, error));
        }
    }

    /** Runs a call while the store stays open. */
    private void call(Library.Call call) {
        try {
            Library.call(call);
        } finally {
            Reference.reachabilityFence(this);
        }
    }
}
