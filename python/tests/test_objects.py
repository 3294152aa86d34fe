"""Objects, through the public interface."""

import json
import struct
from datetime import UTC, datetime, timedelta

import benthic
import numpy
import pytest


def test_an_object_is_put_read_and_removed(pool):
    version = pool.put("reef.txt", b"a picture")
    assert pool.get("reef.txt") == b"a picture"
    assert pool.get("reef.txt", 2) == b"picture"
    assert pool.get("reef.txt", 2, 3) == b"pic"
    assert pool.get("reef.txt", length=1) == b"a"
    assert pool.get("reef.txt", 100, 3) == b""
    stat = pool.stat("reef.txt")
    assert (stat.size_bytes, stat.version) == (9, version)
    assert abs(datetime.now(UTC) - stat.modified) < timedelta(minutes=10)
    assert "reef.txt" in pool
    pool.rm("reef.txt")
    assert "reef.txt" not in pool and not pool.exists("reef.txt")
    with pytest.raises(benthic.NotFoundError):
        pool.rm("reef.txt")


@pytest.mark.parametrize("data", [b"abc", bytearray(b"abc"), memoryview(b"abc"), numpy.array([97, 98, 99], dtype="int8")])
def test_data_can_be_any_buffer(in_memory, data):
    pool = in_memory.pool()
    pool.put("o", data)
    assert pool.get("o") == b"abc"


def test_text_is_not_bytes(in_memory):
    with pytest.raises(TypeError):
        in_memory.pool().put("o", "text")


def test_large_objects_are_whole(durable):
    pool = durable.pool()
    data = numpy.random.default_rng(1).bytes(70 * 1024 * 1024)
    pool.put("large", data)
    assert pool.get("large") == data
    assert pool.get("large", 60 * 1024 * 1024, 1000) == data[60 * 1024 * 1024 :][:1000]
    for offset in (1, len(data) - 1, len(data), 2 * len(data)):
        assert pool.get("large", offset) == data[offset:]
    before = durable.store.moved()
    assert pool.get("large", 68 * 1024 * 1024) == data[68 * 1024 * 1024 :]
    assert (durable.store.moved() - before).received_bytes < 3 * 1024 * 1024
    with pytest.raises(benthic.LimitExceededError) as failure:
        pool.put("large", bytes(128 * 1024 * 1024 + 1))
    assert failure.value.context["size_bytes_max"] == str(128 * 1024 * 1024)


def test_append_grows_an_object(pool):
    first = pool.append("log", b"one,")
    assert pool.append("log", b"two") > first
    assert pool.get("log") == b"one,two"


def test_objects_are_listed(pool):
    names = {f"2026/{number}" for number in range(30)} | {"other"}
    for name in names:
        pool.put(name, b"")
    assert set(pool.ls()) == set(pool) == names
    assert set(pool.ls("2026/")) == names - {"other"}
    listing = pool.ls()
    assert next(listing) in names


def test_a_listing_has_more_than_a_page(in_memory):
    pool = in_memory.pool()
    for number in range(10_050):
        pool.write(str(number), benthic.WriteOp().create(), durable=False)
    assert sum(1 for _ in pool.ls()) == 10_050


def test_namespaces_are_separate(place):
    one, two = place.pool(), place.pool()
    one.put("o", b"1")
    two.put("o", b"2")
    assert one.get("o") == b"1" and two.get("o") == b"2"
    assert one.with_namespace(two.namespace).get("o") == b"2"
    everything = set(place.store.pool(place.pool_name).ls_all())
    assert {(one.namespace, "o"), (two.namespace, "o")} <= everything


def test_objects_of_tables_are_hidden_and_read_only(place):
    place.table({"x": [1]})
    pool = place.store.pool(place.pool_name)
    assert not [namespace for namespace, _ in pool.ls_all() if namespace.startswith("benthic.")]
    heads = pool.with_namespace("benthic.tables")
    head = next(heads.ls())
    assert heads.exec(head, "digest", "compute", b"md5")
    for change in (
        lambda: heads.rm(head),
        lambda: heads.put(head, b""),
        lambda: heads.write(head, benthic.WriteOp().truncate(0)),
    ):
        with pytest.raises(benthic.PermissionDeniedError, match="drop_table"):
            change()
    with pytest.raises(benthic.InvalidArgumentError):
        heads.exec(head, "hello", "record", b"x")


def test_attributes(pool):
    pool.set_xattr("o", "owner", b"ada")
    pool.set_xattr("o", "empty", b"")
    assert pool.xattrs("o") == {"owner": b"ada", "empty": b""}
    assert pool.get_xattr("o", "owner") == b"ada"
    pool.rm_xattr("o", "owner")
    assert pool.xattrs("o") == {"empty": b""}
    with pytest.raises(benthic.NotFoundError):
        pool.get_xattr("o", "owner")


def test_omap(pool):
    entries = {b"label/%04d" % number: b"%d" % number for number in range(3000)}
    for start in range(0, 3000, 1000):
        part = dict(list(entries.items())[start : start + 1000])
        pool.omap_set("o", part)
    pool.omap_set("o", {b"other": b"x", b"\xff\x00": b"y"})
    assert dict(pool.omap("o")) == {**entries, b"other": b"x", b"\xff\x00": b"y"}
    assert list(pool.omap("o", b"label/")) == sorted(entries.items())
    assert [key for key, _ in pool.omap("o", after=b"label/2998")] == [b"label/2999", b"other", b"\xff\x00"]
    assert pool.omap_get("o", [b"other", b"nothing"]) == {b"other": b"x"}
    pool.omap_rm("o", [b"other", b"nothing"])
    assert pool.omap_get("o", [b"other"]) == {}
    pool.omap_clear("o")
    assert list(pool.omap("o")) == []


def test_methods_run_beside_objects(pool):
    pool.put("o", b"hello")
    assert pool.exec("o", "digest", "compute", b"md5") == b"5d41402abc4b2a76b9719d911017c592"
    assert pool.exec("o", "digest", "md5") == b"5d41402abc4b2a76b9719d911017c592"
    assert pool.get_xattr("o", "digest.md5") == b"5d41402abc4b2a76b9719d911017c592"
    assert pool.exec("new", "hello", "record", b"Ada") == b"Hello, Ada!"
    assert pool.exec("o", "hello", "nothing") == b""
    with pytest.raises(benthic.ClassFailedError):
        pool.exec("o", "hello", "panic")
    assert pool.get("o") == b"hello"
    with pytest.raises(benthic.UnsupportedError):
        pool.exec("o", "nothing", "nothing")


def test_classes_are_described(place):
    digest = place.store.classes()["digest"]
    assert digest.methods["compute"].reads and not digest.methods["compute"].writes
    assert digest.methods["md5"].result_xattr == "digest.md5"
    assert digest.summary and digest.methods["compute"].input


def test_an_operation_is_atomic(pool):
    version = pool.write("o", benthic.WriteOp().create().write_full(b"one").set_xattr("n", b"1"))
    op = benthic.WriteOp().if_version(version).write_full(b"two").set_xattr("n", b"2").omap_set({b"k": b"v"})
    newer = pool.write("o", op)
    with pytest.raises(benthic.ConflictError):
        pool.write("o", op)
    with pytest.raises(benthic.AlreadyExistsError):
        pool.write("o", benthic.WriteOp().create().write_full(b"three"))
    read = benthic.ReadOp().if_xattr("n", "==", b"2").if_omap(b"k", b"v").if_exists()
    read = read.read(0, 2).stat().get_xattr("n").xattrs().omap_get([b"k"]).omap_range().exec("digest", "compute", b"md5")
    seen, outputs = pool.read("o", read)
    assert seen == newer
    assert outputs[0] == b"tw" and outputs[1][0] == 3 and outputs[2] == b"2"
    assert outputs[3] == {"n": b"2"} and outputs[4] == outputs[5] == ([(b"k", b"v")], False)
    assert len(outputs[6]) == 32
    with pytest.raises(benthic.ConflictError):
        pool.read("o", benthic.ReadOp().if_xattr("n", ">", b"2").stat())
    for compare in ("<=", ">=", "=="):
        pool.read("o", benthic.ReadOp().if_xattr("n", compare, b"2").stat())
    pool.write("o", benthic.WriteOp().write(5, b"x").append(b"y").zero(0, 1).rm_xattr("n").omap_rm([b"k"]))
    assert pool.get("o") == b"\0wo\0\0xy" and pool.xattrs("o") == {}
    pool.write("o", benthic.WriteOp().truncate(2).omap_clear(), durable=False)
    assert pool.get("o") == b"\0w"
    pool.write("o", benthic.WriteOp().exec("digest", "md5"))
    pool.write("o", benthic.WriteOp().remove())
    assert "o" not in pool


def test_repr_of_an_operation():
    op = benthic.WriteOp().if_version(3).write_full(b"").set_xattr("a", b"")
    assert repr(op) == "<benthic.WriteOp if_version, write_full, set_xattr>"


def test_wrong_arguments_are_refused(in_memory):
    pool = in_memory.pool()
    with pytest.raises(benthic.InvalidArgumentError):
        pool.get("o", -1)
    with pytest.raises(benthic.InvalidArgumentError, match="comparison"):
        pool.read("o", benthic.ReadOp().if_xattr("a", "~", b""))
    with pytest.raises(benthic.InvalidArgumentError):
        pool.put("", b"")
    with pytest.raises(benthic.InvalidArgumentError, match="no step"):
        pool._native.write("o", [], [("explode",)], True)
    with pytest.raises(TypeError):
        pool.write("o", benthic.WriteOp().truncate("long"))


def test_pools_are_created_and_removed(tmp_path):
    with benthic.connect(f"file:{tmp_path}/s") as store:
        assert store.pools() == []
        pool = store.create_pool("photos")
        assert store.pools() == ["photos"]
        with pytest.raises(benthic.AlreadyExistsError):
            store.create_pool("photos")
        store.create_pool("photos", exist_ok=True)
        with pytest.raises(benthic.NotFoundError, match='did you mean "photos"'):
            store.pool("photo")
        store.remove_pool("photos")
        with pytest.raises(benthic.NotFoundError):
            pool.put("o", b"")
        store.flush()


def test_a_store_is_found_by_its_uri(tmp_path, monkeypatch):
    with pytest.raises(benthic.NotFoundError, match="create=True"):
        benthic.connect(f"file:{tmp_path}/s", create=False)
    monkeypatch.setenv("BENTHIC_STORE", f"file:{tmp_path}/s")
    with benthic.connect() as store:
        assert store.uri == f"file:{tmp_path}/s"
        assert repr(store) == f"<benthic.Store file:{tmp_path}/s>"
        store.create_pool("p").put("o", b"kept")
    with benthic.connect(create=False) as store:
        assert store.pool("p").get("o") == b"kept"
    with pytest.raises(benthic.InvalidArgumentError, match="did you mean file:"):
        benthic.connect(str(tmp_path))


def test_traffic_is_counted(pool, place):
    pool.put("o", bytes(10_000))
    before = place.store.moved()
    pool.get("o")
    moved = place.store.moved() - before
    assert moved.operations == 1 and 10_000 <= moved.received_bytes < 10_100


def module(text: bytes, objects: list[str] | None = None) -> bytes:
    """A class ``greeter`` whose method ``run`` returns a text, or its input if it declares objects."""

    def section(number: int, content: bytes) -> bytes:
        assert len(content) < 128
        return bytes([number, len(content)]) + content

    def name(text: bytes) -> bytes:
        return bytes([len(text)]) + text

    method = {"method": "run", "reads": True, "objects": objects or []}
    manifest = json.dumps({"class": "greeter", "version": 1, "methods": [method]}).encode()
    if objects:
        # Calls take(0, 0, input()) and output(0, input()).
        code = b"\x41\x00\x41\x00\x10\x00\xa7\x10\x01\x41\x00\x10\x00\xa7\x10\x02\x1a"
    else:
        # Calls output(0, the text's length).
        code = b"\x41\x00\x41" + bytes([len(text)]) + b"\x10\x02\x1a"
    body = b"\x00" + code + b"\x41\x00\x0b"
    imports = [(b"input", b"\x00"), (b"take", b"\x01"), (b"output", b"\x02")]
    types = b"\x60\x00\x01\x7e" b"\x60\x03\x7f\x7f\x7f\x00" b"\x60\x02\x7f\x7f\x01\x7e" b"\x60\x00\x01\x7f"
    return (
        b"\0asm\1\0\0\0"
        + section(1, b"\x04" + types)
        + section(2, b"\x03" + b"".join(name(b"benthic_1") + name(n) + b"\0" + t for n, t in imports))
        + section(3, b"\x01\x03")
        + section(5, b"\x01\x00\x01")
        + section(7, b"\x02" + name(b"memory") + b"\x02\x00" + name(b"run") + b"\x00\x03")
        + section(10, b"\x01" + name(body))
        + section(11, b"\x01\x00\x41\x00\x0b" + name(text))
        + section(0, name(b"benthic") + manifest)
    )


def test_a_deployed_class_runs_and_its_next_version_replaces_it(pool):
    pool.put("o", b"data")
    name, first = pool.deploy(module(b"one"))
    assert (name, len(first)) == ("greeter", 64)
    assert pool.exec("o", "greeter", "run") == b"one"
    _, second = pool.deploy(module(b"two"), fuel=1_000_000, memory_bytes=1 << 20)
    assert first != second
    assert pool.exec("o", "greeter", "run") == b"two"
    with pytest.raises(benthic.InvalidArgumentError, match="larger than the engine allows"):
        pool.deploy(module(b"two"), memory_bytes=1 << 40)
    with pytest.raises(benthic.InvalidArgumentError, match="not a WebAssembly module"):
        pool.deploy(b"text")
    with pytest.raises(benthic.InvalidArgumentError, match="key"):
        pool.deploy(module(b"two"), key_pem="no key")
    pool.undeploy("greeter")
    with pytest.raises(benthic.UnsupportedError):
        pool.exec("o", "greeter", "run")
    with pytest.raises(benthic.NotFoundError):
        pool.undeploy("greeter")


def test_a_method_gets_the_other_objects_that_it_declares(pool):
    pool.put("o", b"data")
    pool.put("lists/one", b"1")
    pool.put("lists/two", b"")
    pool.deploy(module(b"", objects=["first", "second"]))
    both = {"second": "lists/one", "first": "lists/two"}
    # A list: the number of parts, and each part after its length.
    expected = struct.pack("<II5sIIc", 3, 5, b"input", 0, 1, b"1")
    assert pool.exec("o", "greeter", "run", b"input", objects=both) == expected
    with pytest.raises(benthic.InvalidArgumentError, match="name=first"):
        pool.exec("o", "greeter", "run", objects={"second": "lists/one"})
    with pytest.raises(benthic.InvalidArgumentError, match="its names: first, second"):
        pool.exec("o", "greeter", "run", objects=both | {"third": "lists/one"})
    with pytest.raises(benthic.NotFoundError, match="other_object=.*lists/three"):
        pool.exec("o", "greeter", "run", objects=both | {"first": "lists/three"})
    with pytest.raises(benthic.UnsupportedError, match="only methods of WebAssembly classes"):
        pool.exec("o", "digest", "compute", b"md5", objects=both)
    with pytest.raises(benthic.UnsupportedError, match="only methods of WebAssembly classes"):
        pool.with_namespace("benthic.tables").exec("o", "greeter", "run", objects=both)
    pool.undeploy("greeter")
