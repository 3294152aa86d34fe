package storage.benthic;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assertions.fail;
import static storage.benthic.Engines.bytes;
import static storage.benthic.Engines.text;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(value = 300)
class AsyncTest {
    private static Kind kindOf(CompletableFuture<?> future) {
        CompletionException error = assertThrows(CompletionException.class, future::join);
        return ((BenthicException) error.getCause()).kind();
    }

    @Test
    void operationsRunWhileTheCallerDoesSomethingElse() throws Exception {
        Engines.all((store, pool) -> {
            long version = pool.writeAsync("reef", new WriteOp().writeFull(bytes("abc"))).get();
            ReadOp op = new ReadOp().ifVersion(version);
            Step<byte[]> data = op.read(0, 10);
            assertEquals("abc", text(pool.readAsync("reef", op).get().get(data)));
            assertEquals("Hello, ada!", text(pool.execAsync("reef", "hello", "say", bytes("ada")).get()));
            assertEquals(Kind.NOT_FOUND, kindOf(pool.readAsync("missing", op)));
            assertEquals(Kind.UNSUPPORTED, kindOf(pool.execAsync("reef", "no-such-class", "a", bytes(""))));
            // Dependent stages may call the library and wait.
            String chained = pool.execAsync("reef", "hello", "say", bytes("1"))
                    .thenApply(said -> text(said) + text(pool.exec("reef", "hello", "say", bytes("2"))))
                    .thenCompose(said -> pool.execAsync("reef", "hello", "say", bytes("3")).thenApply(more -> said + text(more)))
                    .get();
            assertEquals("Hello, 1!Hello, 2!Hello, 3!", chained);
        });
    }

    @Test
    void aFutureThatEndsEarlyEndsTheOperation() throws Exception {
        Engines.all((store, pool) -> {
            byte[] data = new byte[1 << 20];
            int ended = 0;
            for (int at = 0; at < 100; at++) {
                String object = "reef" + at;
                CompletableFuture<Long> write = pool.writeAsync(object, new WriteOp().writeFull(data));
                if (at % 2 == 0) {
                    ended += write.cancel(true) ? 1 : 0;
                } else {
                    write.orTimeout(at * 20L, TimeUnit.MICROSECONDS);
                }
                try {
                    write.join();
                    assertEquals(data.length, pool.stat(object).sizeBytes());
                } catch (CancellationException error) {
                    assertEquals(0, at % 2);
                } catch (CompletionException error) {
                    assertTrue(error.getCause() instanceof TimeoutException, error.toString());
                }
            }
            assertTrue(ended > 0);
            pool.put("after", bytes("it still works"));
        });
    }

    @Test
    void manyThreadsShareAPool() throws Exception {
        Engines.all((store, pool) -> {
            int threads = 64;
            int rounds = 10;
            ExecutorService executor = Executors.newFixedThreadPool(threads);
            List<Future<?>> running = new ArrayList<>();
            for (int at = 0; at < threads; at++) {
                String own = "own" + at;
                byte[] id = {(byte) at};
                running.add(executor.submit(() -> {
                    for (int round = 0; round < rounds; round++) {
                        pool.put(own, bytes(own));
                        pool.writeAsync("shared", new WriteOp().append(id)).join();
                        assertEquals("Hello, " + own + "!", text(pool.exec(own, "hello", "say", bytes(own))));
                        assertEquals(own, text(pool.get(own, 0, 100)));
                    }
                }));
            }
            for (Future<?> thread : running) {
                thread.get();
            }
            executor.shutdown();
            int[] counts = new int[threads];
            for (byte by : pool.get("shared", 0, 100_000)) {
                counts[by]++;
            }
            for (int count : counts) {
                assertEquals(rounds, count);
            }
        });
    }

    @Test
    void moreOperationsThanTheLimitAreBusy() throws Exception {
        Engines.all((store, pool) -> {
            List<CompletableFuture<Long>> writes = new ArrayList<>();
            for (int at = 0; at < 5_000; at++) {
                writes.add(pool.writeAsync("reef", new WriteOp().create(false)));
            }
            int done = 0;
            for (CompletableFuture<Long> write : writes) {
                try {
                    write.join();
                    done++;
                } catch (CompletionException error) {
                    assertEquals(Kind.BUSY, ((BenthicException) error.getCause()).kind());
                }
            }
            assertTrue(done >= 1_024, "done " + done);
        });
    }

    @Test
    void aStoreMayBeClosedWhileOperationsAreInFlight() {
        for (int round = 0; round < 20; round++) {
            Store store = Store.open("mem:");
            store.createPool("reef");
            Pool pool = store.openPool("reef");
            List<CompletableFuture<Long>> writes = new ArrayList<>();
            for (int at = 0; at < 200; at++) {
                writes.add(pool.writeAsync("reef" + at, new WriteOp().writeFull(new byte[4_096])));
            }
            pool.close();
            store.close();
            for (CompletableFuture<Long> write : writes) {
                try {
                    write.join();
                } catch (CompletionException error) {
                    Kind kind = ((BenthicException) error.getCause()).kind();
                    if (kind != Kind.INVALID_ARGUMENT && kind != Kind.UNAVAILABLE) {
                        fail(error);
                    }
                }
            }
            assertEquals(Kind.INVALID_ARGUMENT, kindOf(pool.writeAsync("reef", new WriteOp().create(false))));
        }
    }
}
