package storage.benthic;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static storage.benthic.Engines.bytes;
import static storage.benthic.Engines.fails;
import static storage.benthic.Engines.text;

import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.junit.jupiter.api.Test;

class PoolTest {
    @Test
    void aCompoundOperationHappensAsAWhole() throws Exception {
        Engines.all((store, pool) -> {
            WriteOp op = new WriteOp().create(true).writeFull(bytes("hello")).write(5, bytes(", world"))
                    .setXattr("owner", bytes("ada")).setXattr("empty", bytes(""))
                    .omapSet(bytes("b"), bytes("2")).omapSet(new byte[] {'a', 0, -1}, bytes("1"))
                    .omapSet(bytes("empty"), bytes(""));
            long version = pool.write("reef", op);
            fails(Kind.ALREADY_EXISTS, () -> pool.write("reef", op));

            ReadOp read = new ReadOp().ifExists().ifVersion(version).ifOmap(bytes("b"), bytes("2"))
                    .ifXattr("owner", Comparison.LESS_OR_EQUAL, bytes("ada"));
            Step<Stat> stat = read.stat();
            Step<byte[]> data = read.read(7, 100);
            Step<byte[]> owner = read.xattr("owner");
            var xattrs = read.xattrs();
            Step<byte[]> empty = read.omapGet(bytes("empty"));
            Step<byte[]> missing = read.omapGet(bytes("missing"));
            Step<OmapPage> page = read.omapRange(new byte[] {'a', 0, -1}, bytes(""), 1);
            Step<byte[]> said = read.exec("hello", "say", bytes("ada"));
            Reply reply = pool.read("reef", read);
            assertEquals(version, reply.version());
            assertEquals(12, reply.get(stat).sizeBytes());
            Duration age = Duration.between(reply.get(stat).modified(), Instant.now());
            assertTrue(age.abs().toSeconds() < 60, age.toString());
            assertEquals("world", text(reply.get(data)));
            assertEquals("ada", text(reply.get(owner)));
            assertEquals(Set.of("owner", "empty"), reply.get(xattrs).keySet());
            assertEquals(0, reply.get(empty).length);
            assertNull(reply.get(missing));
            assertEquals("b", text(reply.get(page).entries().get(0).key()));
            assertTrue(reply.get(page).more());
            assertEquals("Hello, ada!", text(reply.get(said)));
            fails(Kind.INVALID_ARGUMENT, () -> reply.get(new ReadOp().stat()));

            WriteOp change = new WriteOp().ifVersion(version).ifExists().ifOmap(bytes("b"), bytes("2"))
                    .ifXattr("owner", Comparison.EQUAL, bytes("ada")).zero(0, 2).truncate(4).append(bytes("!"))
                    .removeXattr("empty").omapRemove(bytes("b"));
            assertTrue(pool.write("reef", change) > version);
            fails(Kind.CONFLICT, () -> pool.write("reef", change));
            assertEquals("\0\0ll!", text(pool.get("reef", 0, 100)));
            pool.write("reef", new WriteOp().buffered().omapClear());
            store.flush();
            assertEquals(0, pool.omap("reef", bytes("")).count());
            pool.remove("reef");
            fails(Kind.NOT_FOUND, () -> pool.stat("reef"));
        });
    }

    @Test
    void methodsRunBesideTheObject() throws Exception {
        Engines.all((store, pool) -> {
            pool.put("reef", bytes("abc"));
            assertEquals("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
                    text(pool.exec("reef", "digest", "sha256", bytes(""))));
            WriteOp record = new WriteOp().exec("hello", "record", bytes("ada")).setXattr("owner", bytes("bob"));
            pool.write("greeting", record);
            assertEquals("Hello, ada!", text(pool.exec("greeting", "hello", "replay", bytes(""))));
            fails(Kind.ALREADY_EXISTS, () -> pool.write("greeting", record));
            fails(Kind.UNSUPPORTED, () -> pool.exec("reef", "no-such-class", "a", bytes("")));
            fails(Kind.NOT_FOUND, () -> pool.exec("missing", "digest", "sha256", bytes("")));
            assertTrue(store.classes().contains("\"digest\""));
        });
    }

    @Test
    void listingsAreReadPageByPage() throws Exception {
        Engines.all((store, pool) -> {
            WriteOp keys = new WriteOp();
            for (int at = 0; at < 2_500; at++) {
                keys.omapSet(bytes(String.format("key/%05d", at)), bytes("" + at));
            }
            pool.write("2026/keys", keys);
            List<String> found = new ArrayList<>();
            pool.omap("2026/keys", bytes("key/")).forEach(entry -> found.add(text(entry.value())));
            assertEquals(2_500, found.size());
            assertEquals("2499", found.get(2_499));

            for (int at = 0; at < 24; at++) {
                pool.put("2026/" + at, bytes(""));
            }
            try (Pool elsewhere = store.openPool(pool.name(), "elsewhere")) {
                elsewhere.put("there", bytes(""));
                assertEquals(List.of(new ObjectName("elsewhere", "there")), elsewhere.objects("").toList());
            }
            assertEquals(25, pool.objects("2026/").count());
            Set<ObjectName> names = new HashSet<>();
            ObjectPage page = pool.list("", true, null, 4);
            names.addAll(page.objects());
            while (page.next() != null) {
                page = pool.list("", true, page.next(), 4);
                assertTrue(page.objects().size() <= 4);
                names.addAll(page.objects());
            }
            assertEquals(26, names.size());
            assertNotNull(pool.objects("").findFirst().orElseThrow());
            fails(Kind.INVALID_ARGUMENT, () -> pool.list("", false, bytes("no token"), 4));
            fails(Kind.INVALID_ARGUMENT, () -> pool.list("", false, null, -1));
        });
    }

    @Test
    void badNamesAndSizesAreErrorsWithoutEffect() throws Exception {
        Engines.all((store, pool) -> {
            for (String name : new String[] {null, "", "a\0b", "\ud800"}) {
                fails(Kind.INVALID_ARGUMENT, () -> pool.put(name, bytes("")));
                fails(Kind.INVALID_ARGUMENT, () -> store.createPool(name));
                fails(Kind.INVALID_ARGUMENT, () -> pool.exec("a", name, "a", bytes("")));
                fails(Kind.INVALID_ARGUMENT, () -> pool.write("a", new WriteOp().setXattr(name, bytes(""))));
                fails(Kind.INVALID_ARGUMENT, () -> Store.open(name));
            }
            fails(Kind.INVALID_ARGUMENT, () -> pool.put("a", null));
            fails(Kind.INVALID_ARGUMENT, () -> pool.write("a", null));
            fails(Kind.INVALID_ARGUMENT, () -> pool.get("a", 0, -1));
            fails(Kind.LIMIT_EXCEEDED, () -> pool.put("n".repeat(5_000), bytes("")));
            fails(Kind.LIMIT_EXCEEDED, () -> pool.put("a", new byte[(64 << 20) + 1]));
            assertEquals(0, pool.objects("").count());
        });
    }

    @Test
    void poolsAreCreatedListedAndRemoved() throws Exception {
        Engines.all((store, pool) -> {
            fails(Kind.ALREADY_EXISTS, () -> store.createPool(pool.name()));
            assertTrue(store.pools().contains(pool.name()));
            fails(Kind.NOT_FOUND, () -> store.openPool(pool.name() + "-missing"));
        });
    }

    @Test
    void aStoreOfADirectoryKeepsItsData() throws Exception {
        String uri = "file:" + Engines.directory();
        fails(Kind.NOT_FOUND, () -> Store.open(uri));
        try (Store store = Store.openOrCreate(uri)) {
            store.createPool("reef");
            store.openPool("reef").put("a", bytes("kept"));
        }
        try (Store store = Store.open(uri)) {
            assertArrayEquals(bytes("kept"), store.openPool("reef").get("a", 0, 10));
        }
    }

    @Test
    void callsWithClosedHandlesFail() throws Exception {
        Engines.all((store, pool) -> {
            Pool second = store.openPool(pool.name());
            second.close();
            second.close();
            fails(Kind.INVALID_ARGUMENT, () -> second.stat("a"));
        });
        Store store = Store.open("mem:");
        store.createPool("reef");
        Pool pool = store.openPool("reef");
        store.close();
        store.close();
        fails(Kind.INVALID_ARGUMENT, store::flush);
        fails(Kind.INVALID_ARGUMENT, store::pools);
        fails(Kind.INVALID_ARGUMENT, () -> pool.put("a", bytes("")));
        fails(Kind.INVALID_ARGUMENT, () -> pool.objects(""));
    }
}
