"""The families of commands. Each function prepares data in a healthy store and returns the steps
of its family, which are independent of each other.
"""

import csv
import io
import json

import botocore.exceptions
from gateway import Gateway
from place import AnsweredRequest, Answer, Change, Changes, ChangingRequest, md5

OLD, NEW = b"old" * 50_000, b"new!" * 70_000
FILES = {f"file{number:03}": f"{number} ".encode() * 4_000 for number in range(60)}
ROWS = 2_000


def objects(place):
    pool, put = place.pool, lambda name: place.ok("put", f"{place.pool}/{name}", "old.bin")
    place.file("old.bin", OLD)
    place.file("new.bin", NEW)
    for name in ("replaced", "removed", "attributes", "read", "fetched"):
        put(name)
    for name, data in FILES.items():
        place.file(f"tree/{name}", data)
    place.ok("cp", "-r", "tree", f"{pool}/many")
    many = dict.fromkeys(FILES)

    def present():
        names = place.names()
        return {name: "present" if f"many/{name}" in names else None for name in FILES}

    attribute = lambda: place.stored("xattr", "get", f"{pool}/attributes", "user.a")
    value = lambda: place.stored("omap", "get", f"{pool}/attributes", "key")
    fetched = lambda: (place.dir / "fetched").read_bytes() if (place.dir / "fetched").exists() else None
    return [
        Change(place, ["put", f"{pool}/new", "new.bin"], lambda: place.data("new"), NEW),
        Change(place, ["put", f"{pool}/replaced", "new.bin"], lambda: place.data("replaced"), NEW),
        Change(place, ["rm", f"{pool}/removed"], lambda: place.data("removed"), None),
        Change(place, ["xattr", "set", f"{pool}/attributes", "user.a", "x"], attribute, b"x"),
        Change(place, ["omap", "set", f"{pool}/attributes", "key", "y"], value, b"y"),
        Changes(
            place, ["rm", *(f"{pool}/many/{name}" for name in FILES)], present, many, lambda line: line["object"].rpartition("/")[2]
        ),
        Change(place, ["get", f"{pool}/fetched", "fetched"], fetched, OLD),
        Answer(place, ["ls", pool, "--prefix", "read"]),
        Answer(place, ["stat", f"{pool}/read"]),
    ]


def cp(place):
    pool = place.pool
    for name, data in FILES.items():
        place.file(f"tree/{name}", data)
    place.file("large", NEW * 20)
    place.ok("cp", "-r", "tree", f"{pool}/down")
    place.ok("put", f"{pool}/from", "large")
    name_of = lambda line: line["object"].rpartition("/")[2]
    # A copy to a file is complete under its name, or absent.
    local = lambda dir: {file.name: file.read_bytes() for file in (place.dir / dir).glob("file*")}

    def up():
        if any(name.startswith("up/") for name in place.names()):
            place.ok("cp", "-r", f"{pool}/up", "check")
        found = local("check")
        for name in found:
            (place.dir / "check" / name).unlink()
        return found

    def striped():
        done = place.run("cp", "--stripe", f"{pool}/large", "striped")
        return (place.dir / "striped").read_bytes() if done.returncode == 0 else None

    moved = lambda: (place.data("from"), place.data("to"))
    content = moved()[0]
    return [
        Changes(place, ["cp", "-r", "--outage-wait", "8", "tree", f"{pool}/up"], up, FILES, name_of),
        Changes(place, ["cp", "-r", "--outage-wait", "8", f"{pool}/down", "back"], lambda: local("back"), FILES, name_of),
        Change(place, ["cp", "--stripe", "large", f"{pool}/"], striped, NEW * 20),
        Change(place, ["mv", f"{pool}/from", f"{pool}/to"], moved, (None, content), between=[(content, content)]),
    ]


def exec(place):
    pool = place.pool
    place.file("data", OLD)
    place.ok("put", f"{pool}/o", "data")
    for name, data in FILES.items():
        place.file(f"tree/{name}", data)
    place.ok("cp", "-r", "tree", f"{pool}/all")
    digest = lambda name: place.stored("xattr", "get", f"{pool}/{name}", "digest.md5")
    digests = lambda: {name: found.decode().strip() for name in FILES if (found := digest(f"all/{name}"))}
    all = ["exec", "--all", "--outage-wait", "8", "--prefix", "all/", pool, "digest", "md5"]
    after = {name: md5(data) for name, data in FILES.items()}
    return [
        Change(place, ["exec", f"{pool}/o", "digest", "md5"], lambda: digest("o"), md5(OLD).encode()),
        Changes(place, all, digests, after, lambda line: line["object"].rpartition("/")[2]),
        Answer(place, ["exec", f"{pool}/o", "digest", "compute", "sha256"]),
    ]


def rows(first):
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(["id", "name"])
    writer.writerows([number, f"name {number % 17}"] for number in range(first, first + ROWS))
    return text.getvalue().encode()


def table(place):
    pool = place.pool
    place.file("rows.csv", rows(0))
    place.file("more.csv", rows(ROWS))
    for name in ("kept", "dropped", "indexed", "altered", "shown"):
        place.ok("table", "create", f"{pool}/{name}", "rows.csv")

    def count(name):
        if place.stored("table", "show", f"{pool}/{name}") is None:
            return None
        place.ok("table", "fsck", f"{pool}/{name}")
        [answer] = place.json("sql", f'SELECT count(*) AS n, sum(id) AS s FROM "{pool}"."{name}"')
        return answer["n"], answer["s"]

    total = lambda rows: (rows, sum(range(rows)))
    indexes = lambda: place.json("table", "show", f"{pool}/indexed")[0]["indexes"]
    columns = lambda: [column["name"] for column in place.json("table", "show", f"{pool}/altered")[0]["columns"]]
    return [
        # An interrupted create can leave an empty table.
        Change(place, ["table", "create", f"{pool}/new", "rows.csv"], lambda: count("new"), total(ROWS), between=[(0, None)]),
        Change(place, ["table", "append", f"{pool}/kept", "more.csv"], lambda: count("kept"), total(2 * ROWS)),
        Change(place, ["table", "drop", f"{pool}/dropped", "--yes", f"{pool}/dropped"], lambda: count("dropped"), None),
        Change(place, ["table", "alter", f"{pool}/altered", "--add", "more int64"], columns, ["id", "name", "more"]),
        Change(place, ["table", "index", f"{pool}/indexed", "id"], indexes, [["id"]]),
        Answer(place, ["table", "show", f"{pool}/shown"]),
        Answer(place, ["table", "history", f"{pool}/shown"]),
    ]


def sql(place):
    pool = place.pool
    place.file("rows.csv", rows(0))
    place.ok("table", "create", f"{pool}/t", "rows.csv", "--object-size", "1MiB")
    ask = lambda sql, expected, *options, **known: Answer(place, ["sql", *options, sql], expected, **known)
    rows_of = lambda first: [{"id": number, "name": f"name {number % 17}"} for number in range(first, ROWS)]
    names = [row["name"] for row in rows_of(101)]
    groups = [{"name": name, "n": names.count(name)} for name in sorted(set(names))]
    return [
        ask(f'SELECT count(*) AS n, sum(id) AS s FROM "{pool}".t', [{"n": ROWS, "s": sum(range(ROWS))}]),
        ask(
            f'SELECT name, count(*) AS n FROM "{pool}".t WHERE id > 100 GROUP BY name ORDER BY name', groups, "--pushdown", "always"
        ),
        ask(f'SELECT id, name FROM "{pool}".t ORDER BY id', rows_of(0)),
        ask("SELECT count(*) AS n FROM 'rows.csv'", [{"n": ROWS}], needs_store=False),
    ]


def array(place):
    pool = place.pool
    metadata = {
        "zarr_format": 3, "node_type": "array", "shape": [64_000], "data_type": "int16", "fill_value": 0,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4_000]}},
        "chunk_key_encoding": {"name": "default"}, "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
    }  # fmt: skip
    place.file("grid.zarr/zarr.json", json.dumps(metadata).encode())
    for chunk in range(16):
        place.file(f"grid.zarr/c/{chunk}", chunk.to_bytes(2, "little") * 4_000)
    place.ok("array", "create", f"{pool}/read", "--from", "grid.zarr")
    total = lambda name: place.stored("array", "reduce", f"{pool}/{name}", "sum")
    return [
        Change(place, ["array", "create", f"{pool}/new", "--from", "grid.zarr"], lambda: total("new"), b"480000\n"),
        # The number of bytes that `auto` and `always` move varies.
        Answer(place, ["array", "reduce", f"{pool}/read", "mean", "--pushdown", "never"]),
        Answer(place, ["array", "read", f"{pool}/read", "--select", "0=3999:4001", "--pushdown", "never"]),
        Answer(place, ["array", "info", f"{pool}/read"]),
    ]


def s3(place):
    gateway = Gateway(place.store, place.dir, place.pool).start()
    place.gateways.append(gateway)
    client = gateway.client(connect_timeout=5, read_timeout=300, max_pool_connections=20)
    client.create_bucket(Bucket="bucket")
    for key in ("replaced", "deleted", "read"):
        client.put_object(Bucket="bucket", Key=key, Body=OLD)
    upload = client.create_multipart_upload(Bucket="bucket", Key="completed")["UploadId"]
    part = client.upload_part(Bucket="bucket", Key="completed", UploadId=upload, PartNumber=1, Body=NEW)
    parts = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}

    def data(key):
        try:
            return gateway.client().get_object(Bucket="bucket", Key=key)["Body"].read()
        except botocore.exceptions.ClientError as error:
            assert error.response["Error"]["Code"] == "NoSuchKey", error
            return None

    def put(key):
        client.put_object(Bucket="bucket", Key=key, Body=NEW)
        return b""

    def get():
        return client.get_object(Bucket="bucket", Key="read")["Body"].read()

    def delete():
        client.delete_object(Bucket="bucket", Key="deleted")
        return b""

    def complete():
        client.complete_multipart_upload(Bucket="bucket", Key="completed", UploadId=upload, MultipartUpload=parts)
        return b""

    verb = lambda *args: ["s3", args[0], "--pool", place.pool, *args[1:], "--sealing-key", gateway.key_file]
    accounts = lambda: sorted(line["account"] for line in place.json(*verb("account", "ls")))
    return [
        ChangingRequest("PutObject, new", lambda: put("new"), lambda: data("new"), NEW),
        ChangingRequest("PutObject, replacing", lambda: put("replaced"), lambda: data("replaced"), NEW),
        ChangingRequest("DeleteObject", delete, lambda: data("deleted"), None),
        ChangingRequest("CompleteMultipartUpload", complete, lambda: data("completed"), NEW),
        AnsweredRequest("GetObject", get),
        Change(place, verb("account", "create", "lab"), accounts, sorted([*accounts(), "lab"])),
    ]


ALL = [objects, cp, exec, table, sql, array, s3]
