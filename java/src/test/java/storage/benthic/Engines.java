package storage.benthic;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.function.Executable;

/** Runs tests with an empty pool of every engine: memory, a directory, and a cluster if there is one. */
final class Engines {
    private static final String CEPH_CONF = System.getenv("BENTHIC_TEST_CEPH_CONF");
    private static final AtomicInteger POOLS = new AtomicInteger();

    private Engines() {}

    interface Test {
        void run(Store store, Pool pool) throws Exception;
    }

    static void all(Test test) throws Exception {
        List<String> uris = new ArrayList<>(List.of("mem:", "file:" + directory()));
        if (CEPH_CONF != null && !CEPH_CONF.isEmpty()) {
            uris.add("ceph:?conf=" + CEPH_CONF);
        }
        for (String uri : uris) {
            String name = "java-test-" + ProcessHandle.current().pid() + "-" + POOLS.incrementAndGet();
            try (Store store = Store.openOrCreate(uri)) {
                store.createPool(name);
                try (Pool pool = store.openPool(name)) {
                    test.run(store, pool);
                }
            } finally {
                if (uri.startsWith("ceph:")) {
                    try (Store store = Store.open(uri)) {
                        store.removePool(name);
                    }
                }
            }
        }
    }

    /** A directory that is removed when the tests end. */
    static String directory() throws IOException {
        java.nio.file.Path directory = Files.createTempDirectory("benthic-java");
        Runtime.getRuntime().addShutdownHook(new Thread(() -> remove(directory.toFile())));
        return directory + "/store";
    }

    private static void remove(java.io.File file) {
        java.io.File[] files = file.listFiles();
        for (java.io.File inside : files == null ? new java.io.File[0] : files) {
            remove(inside);
        }
        file.delete();
    }

    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static String text(byte[] bytes) {
        return new String(bytes, StandardCharsets.UTF_8);
    }

    static void fails(Kind kind, Executable call) {
        BenthicException error = assertThrows(BenthicException.class, call);
        assertEquals(kind, error.kind(), error.getMessage());
        assertFalse(error.getMessage().isBlank());
    }
}
