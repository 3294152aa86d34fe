import java.nio.charset.StandardCharsets;
import java.util.concurrent.CompletableFuture;
import storage.benthic.BenthicException;
import storage.benthic.Kind;
import storage.benthic.Pool;
import storage.benthic.ReadOp;
import storage.benthic.Reply;
import storage.benthic.Stat;
import storage.benthic.Step;
import storage.benthic.Store;
import storage.benthic.WriteOp;

/**
 * A tour of Benthic for Java: a compound write with a guard, a method of a class beside the data, a read in the
 * background, and listings. docs/guide/java.md says how to run it; the argument is the store.
 */
public final class Tour {
    private Tour() {}

    public static void main(String[] arguments) {
        try (Store store = Store.openOrCreate(arguments.length > 0 ? arguments[0] : "mem:")) {
            try {
                store.createPool("tour");
            } catch (BenthicException error) {
                if (error.kind() != Kind.ALREADY_EXISTS) {
                    throw error;
                }
            }
            try (Pool pool = store.openPool("tour")) {
                tour(pool);
            }
        }
    }

    private static void tour(Pool pool) {
        // All steps happen, or none: data, an attribute and an omap entry.
        WriteOp write = new WriteOp().writeFull(bytes("hello, world")).setXattr("language", bytes("en"))
                .omapSet(bytes("seen"), bytes("1"));
        long version = pool.write("greeting", write);

        // A guard: the write happens only if the object still has the version that this program saw.
        WriteOp extend = new WriteOp().ifVersion(version).append(bytes("!"));
        pool.write("greeting", extend);
        try {
            pool.write("greeting", extend);
            throw new AssertionError("the second append must fail");
        } catch (BenthicException error) {
            System.out.println("the second append failed, as it must: " + error.getMessage());
        }

        // A method of a class runs beside the data: only the hash travels.
        System.out.println("sha256 = " + text(pool.exec("greeting", "digest", "compute", bytes("sha256"))));

        // A read in the background: the size and the data, of one state of the object.
        ReadOp read = new ReadOp();
        Step<Stat> stat = read.stat();
        Step<byte[]> data = read.read(0, 1024);
        CompletableFuture<Reply> reading = pool.readAsync("greeting", read);
        Reply reply = reading.join();
        System.out.println(reply.get(stat).sizeBytes() + " bytes: " + text(reply.get(data)));

        pool.omap("greeting", bytes("")).forEach(entry ->
                System.out.println(text(entry.key()) + " = " + text(entry.value())));
        pool.objects("").forEach(object -> System.out.println("object " + object.name()));
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static String text(byte[] bytes) {
        return new String(bytes, StandardCharsets.UTF_8);
    }
}
