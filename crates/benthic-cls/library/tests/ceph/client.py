"""A librados client for the tests: reads one JSON request per line, writes one JSON reply per line.

Bytes are hex. A reply has `errno` (0 for success) and the requested values.
"""
import hashlib
import json
import sys
import time

import rados

OUTPUT_BYTES_MAX = 80 << 20


def connect(conf):
    timeouts = {"rados_osd_op_timeout": "60", "rados_mon_op_timeout": "20"}
    cluster = rados.Rados(conffile=conf, rados_id="admin", conf=timeouts)
    cluster.connect()
    return cluster


def boots(cluster):
    """The epoch in which each OSD last came up. It grows when an OSD dies and comes back."""
    status, output, message = cluster.mon_command(json.dumps({"prefix": "osd dump", "format": "json"}), b"")
    if status:
        raise OSError(-status, message)
    return {str(osd["osd"]): osd["up_from"] if osd["up"] else 0 for osd in json.loads(output)["osds"]}


def state(io, name):
    """Everything of an object that a client can see, and its version."""
    size, _ = io.stat(name)
    data = io.read(name, size, 0) if size else b""
    version = io.get_last_version()
    with rados.ReadOpCtx() as op:
        entries, _ = io.get_omap_vals(op, "", "", 1000)
        io.operate_read_op(op, name)
        omap = {key: (value or b"").hex() for key, value in entries}
    return {
        "size": size,
        "data": data.hex() if size <= 4096 else hashlib.md5(data).hexdigest(),
        "xattrs": {key: (value or b"").hex() for key, value in io.get_xattrs(name)},
        "omap": omap,
        "version": version,
    }


def answer(cluster, io, request):
    do, name = request["do"], request.get("object")
    if do == "boots":
        return {"boots": boots(cluster)}
    if do == "conf":
        return {"value": cluster.conf_get(request["key"])}
    if do == "state":
        return {"state": state(io, name)}
    if do == "remove":
        return {"removed": io.remove_object(name)}
    if do == "put":
        data = bytes.fromhex(request["data"]) * request.get("times", 1)
        io.write_full(name, data)
        for key, value in request.get("xattrs", {}).items():
            io.set_xattr(name, key, bytes.fromhex(value))
        omap = request.get("omap", {})
        if omap:
            with rados.WriteOpCtx() as op:
                io.set_omap(op, tuple(omap), tuple(bytes.fromhex(value) for value in omap.values()))
                io.operate_write_op(op, name)
        return {}
    if do == "exec":
        started = time.monotonic()
        value, output = io.execute(
            name, request["class"], request["method"], bytes.fromhex(request["input"]), OUTPUT_BYTES_MAX
        )
        return {"value": value, "output": output.hex(), "seconds": time.monotonic() - started}
    raise ValueError(do)


def main():
    conf, pool = sys.argv[1:]
    cluster = connect(conf)
    if not cluster.pool_exists(pool):
        cluster.create_pool(pool)
    io = cluster.open_ioctx(pool)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            reply = {"errno": 0, **answer(cluster, io, request)}
        except (rados.Error, OSError) as error:
            reply = {"errno": abs(error.errno or 5), "message": str(error)}
        print(json.dumps(reply), flush=True)


main()
