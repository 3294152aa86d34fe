package storage.benthic;

import com.sun.jna.CallbackThreadInitializer;
import com.sun.jna.Native;
import com.sun.jna.ptr.LongByReference;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.LongConsumer;
import java.util.function.LongFunction;

/** Operations in flight, as futures. */
final class Completions {
    /** Operations in flight by the number that the library passes to the callback. The library limits them. */
    private static final Map<Long, LongConsumer> IN_FLIGHT = new ConcurrentHashMap<>();

    private static final AtomicLong NEXT = new AtomicLong();

    /** The only callback. It is never collected, so the library may call it at any time. */
    private static final Library.Completed COMPLETED = (completion, context) -> {
        LongConsumer finish = IN_FLIGHT.remove(context);
        if (finish != null) {
            finish.accept(completion);
        }
    };

    static {
        // The library's thread stays attached between callbacks, and lets the process end.
        Native.setCallbackThreadInitializer(COMPLETED, new CallbackThreadInitializer(true, false, "benthic-callback"));
    }

    private Completions() {}

    /** Starts an operation. */
    interface Start {
        int start(Library.Completed callback, long context, LongByReference completion, LongByReference error);
    }

    /**
     * Starts an operation, and returns its result as a future. If the future ends early, for example by a
     * cancellation or a time-out, the operation does, too.
     */
    static <T> CompletableFuture<T> start(Start start, LongFunction<T> decode) {
        CompletableFuture<T> future = new CompletableFuture<>();
        long context = NEXT.incrementAndGet();
        IN_FLIGHT.put(context, completion -> finish(completion, future, decode));
        LongByReference completion = new LongByReference();
        try {
            Library.call(error -> start.start(COMPLETED, context, completion, error));
        } catch (BenthicException error) {
            IN_FLIGHT.remove(context);
            return CompletableFuture.failedFuture(error);
        }
        // The handle of an operation that is complete is closed, and cancelling it does nothing.
        future.whenComplete((result, error) -> Library.benthic_completion_cancel(completion.getValue(), null));
        return future;
    }

    /** Reads the result on the library's thread, and completes the future on another one, which may wait. */
    private static <T> void finish(long completion, CompletableFuture<T> future, LongFunction<T> decode) {
        try {
            T result = result(completion, decode);
            future.completeAsync(() -> result);
        } catch (Throwable error) {
            future.defaultExecutor().execute(() -> future.completeExceptionally(error));
        } finally {
            Library.benthic_completion_free(completion);
        }
    }

    private static <T> T result(long completion, LongFunction<T> decode) {
        LongByReference reply = new LongByReference();
        Library.call(error -> Library.benthic_completion_result(completion, reply, error));
        return Pool.take(reply.getValue(), decode);
    }
}
