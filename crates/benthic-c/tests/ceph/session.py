"""A session of python3-rados, which finds our librados first."""

import errno
import json
import threading

import rados

cluster = rados.Rados(conffile="")
cluster.connect()
assert len(cluster.get_fsid()) == 36
cluster.create_pool("pool")
assert cluster.list_pools() == ["pool"] and cluster.pool_exists("pool")
assert cluster.pool_reverse_lookup(cluster.pool_lookup("pool")) == "pool"
pool = cluster.open_ioctx("pool")

pool.write_full("a", b"0123456789")
pool.write("a", b"xy", 2)
pool.append("a", b"!")
assert pool.read("a") == b"01xy456789!"
assert pool.read("a", 4, 9) == b"9!"
assert pool.stat("a")[0] == 11
pool.trunc("a", 3)
assert pool.read("a") == b"01x"
pool.set_xattr("a", "name", b"\0value")
assert pool.get_xattr("a", "name") == b"\0value"
assert list(pool.get_xattrs("a")) == [("name", b"\0value")]
for call in [lambda: pool.read("none"), lambda: pool.remove_object("none")]:
    try:
        call()
        raise AssertionError("the object exists")
    except rados.ObjectNotFound:
        pass

# Comparisons of data are conditions of writes.
with rados.WriteOpCtx() as op:
    op.cmpext(b"01x", 0)
    op.write_full(b"second")
    pool.operate_write_op(op, "a")
with rados.WriteOpCtx() as op:
    op.cmpext(b"seXond", 0)
    op.write_full(b"third")
    try:
        pool.operate_write_op(op, "a")
        raise AssertionError("the data compare as equal")
    except rados.Error as error:
        assert error.errno == 4095 + 2, error
assert pool.read("a") == b"second"

# Pages of omap entries, and the removal of a range.
keys = [f"key{number:04}" for number in range(2000)]
with rados.WriteOpCtx() as op:
    pool.set_omap(op, tuple(keys), tuple(key.encode() for key in keys))
    pool.operate_write_op(op, "a")
with rados.WriteOpCtx() as op:
    pool.remove_omap_range2(op, "key0001", "key1999")
    pool.operate_write_op(op, "a")
with rados.WriteOpCtx() as op:
    pool.remove_omap_range2(op, "key1999", "key0000")
    pool.operate_write_op(op, "a")
with rados.ReadOpCtx() as op:
    entries, _ = pool.get_omap_vals(op, "", "", 10)
    pool.operate_read_op(op, "a")
    assert list(entries) == [("key0000", b"key0000"), ("key1999", b"key1999")]

# Operations of a client on one object run in their order, without waiting.
done, seen = threading.Semaphore(0), []
for number in range(100):
    pool.aio_append("log", b"%02d" % number, oncomplete=lambda _: done.release())
pool.aio_read("log", 1000, 0, lambda _, data: (seen.append(data), done.release()))
for _ in range(101):
    assert done.acquire(timeout=60)
assert seen == [b"".join(b"%02d" % number for number in range(100))], seen

assert pool.execute("a", "digest", "compute", b"md5")[1] == b"a9f0e61a137d86aa9db53465e0801612"
pool.lock_exclusive("a", "lock", "cookie")
try:
    pool.lock_exclusive("a", "lock", "other")
    raise AssertionError("two sessions have the lock")
except rados.ObjectBusy:
    pass
pool.unlock("a", "lock", "cookie")

pool.set_namespace("space")
pool.write_full("b", b"")
pool.set_namespace(rados.LIBRADOS_ALL_NSPACES)
assert sorted((found.nspace, found.key) for found in pool.list_objects()) == [("", "a"), ("", "log"), ("space", "b")]

# Calls for features that a directory does not have fail, and the reason is the errno.
try:
    pool.create_snap("snapshot")
    raise AssertionError("the pool has snapshots")
except rados.Error as error:
    assert error.errno == errno.EOPNOTSUPP, error
assert cluster.mon_command('{"prefix": "status"}', b"")[0] == -errno.EOPNOTSUPP

# Applications, and the commands about pools.
pool.application_enable("app1")
try:
    pool.application_enable("app2")
    raise AssertionError("the pool has a second application")
except rados.Error as error:
    assert error.errno == errno.EPERM, error
pool.application_enable("app2", True)
pool.application_metadata_set("app1", "key1", "value1")
pool.application_metadata_set("app1", "key2", "value2")
pool.application_metadata_remove("app1", "key1")
assert pool.application_list() == ["app1", "app2"]
assert pool.application_metadata_list("app1") == [("key2", "value2")]
assert pool.application_metadata_list("app2") == []
assert pool.application_metadata_get("app1", "key2") == "value2"
pool.set_namespace("")
assert pool.execute("a", "hello", "say_hello", b"nose")[1] == b"Hello, nose!"
create = json.dumps({"prefix": "osd pool create", "pool": "\u9ec5", "pg_num": 16})
assert cluster.mon_command(create, b"") == (0, b"", "pool '\u9ec5' created")
listed = cluster.mon_command('{"prefix": "osd pool ls", "format": "json"}', b"")[1]
assert json.loads(listed) == ["pool", "\u9ec5"]
cluster.delete_pool("\u9ec5")

pool.close()
cluster.delete_pool("pool")
cluster.shutdown()
