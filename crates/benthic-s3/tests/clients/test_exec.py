"""Code on GET: methods of classes that run on the data of objects."""

import concurrent.futures
import hashlib
import json
import os
import re
import subprocess
import time
import urllib.parse

import botocore
import pytest
import raw
from gateway import PROGRAMS
from test_buckets import fetch
from test_policies import KEY_CACHE_S, policy, statement

MIB = 1 << 20


def target(bucket, key, name, **parameters):
    query = urllib.parse.urlencode({"x-benthic-exec": name, **parameters}, quote_via=urllib.parse.quote)
    return f"/{bucket}/{urllib.parse.quote(key)}?{query}"


def execute(gateway, path, headers=None, **keys):
    """Sends a signed GET; returns the status, the body or the error's code, and where the method ran."""
    signed = raw.signed(gateway, "GET", path, headers=headers, **keys)
    status, answered, body = raw.request(gateway, "GET", path, headers=signed)
    if status >= 300:
        body = body.split(b"<Code>")[1].split(b"</Code>")[0].decode()
    return status, body, answered.get("x-benthic-exec-at")


def md5(data):
    return hashlib.md5(data).hexdigest().encode()


def methods(gateway):
    """How many methods have run in the store, and in the gateway."""
    counted = raw.request(gateway, "GET", "/-/metrics")[2].decode()
    return {at: int(count) for at, count in re.findall(r'benthic_s3_methods_total\{at="(\w+)"\} (\d+)', counted)}


def test_a_method_runs_in_the_store_if_the_data_are_in_one_piece(gateway, s3, bucket):
    small, large = os.urandom(100_000), os.urandom(9 * MIB)
    s3.put_object(Bucket=bucket, Key="small", Body=small)
    s3.put_object(Bucket=bucket, Key="large", Body=large)
    s3.put_object(Bucket=bucket, Key="empty", Body=b"")
    s3.copy_object(Bucket=bucket, Key="copies/of small", CopySource={"Bucket": bucket, "Key": "small"})
    call, before = {"name": "digest.compute", "x-benthic-input": "md5"}, methods(gateway)
    assert execute(gateway, target(bucket, "small", **call)) == (200, md5(small), gateway.methods_at)
    assert execute(gateway, target(bucket, "copies/of small", **call)) == (200, md5(small), gateway.methods_at)
    assert execute(gateway, target(bucket, "large", **call)) == (200, md5(large), "gateway")
    assert execute(gateway, target(bucket, "empty", **call)) == (200, md5(b""), "gateway")
    assert s3.get_object(Bucket=bucket, Key="small")["Body"].read() == small
    after = methods(gateway)
    counts = (after["store"] - before["store"], after["gateway"] - before["gateway"])
    assert counts == ((0, 4) if gateway.data_pool else (2, 2))


def test_parts_versions_and_conditions(gateway, s3, bucket):
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    first = s3.put_object(Bucket=bucket, Key="k", Body=b"first")
    second = s3.put_object(Bucket=bucket, Key="k", Body=b"second")
    call = {"name": "digest.compute", "x-benthic-input": "md5"}
    assert execute(gateway, target(bucket, "k", **call))[1] == md5(b"second")
    old = target(bucket, "k", versionId=first["VersionId"], **call)
    assert execute(gateway, old)[1] == md5(b"first")
    assert execute(gateway, target(bucket, "k", **call), {"if-match": second["ETag"]})[0] == 200
    assert execute(gateway, target(bucket, "k", **call), {"if-match": first["ETag"]})[:2] == (412, "PreconditionFailed")
    for header in [{"if-none-match": '"x"'}, {"if-modified-since": "Thu, 01 Jan 2026 00:00:00 GMT"}]:
        assert execute(gateway, target(bucket, "k", **call), header)[:2] == (400, "InvalidRequest")
    assert execute(gateway, target(bucket, "k", **call), {"range": "bytes=0-1"})[:2] == (400, "InvalidRequest")
    assert execute(gateway, target(bucket, "none", **call))[:2] == (404, "NoSuchKey")
    marker = s3.delete_object(Bucket=bucket, Key="k")["VersionId"]
    assert execute(gateway, target(bucket, "k", **call))[:2] == (404, "NoSuchKey")
    assert execute(gateway, target(bucket, "k", versionId=marker, **call))[:2] == (405, "MethodNotAllowed")

    upload = s3.create_multipart_upload(Bucket=bucket, Key="parts")["UploadId"]
    parts = [os.urandom(5 * MIB), os.urandom(1000)]
    done = [
        {"PartNumber": n, "ETag": s3.upload_part(Bucket=bucket, Key="parts", UploadId=upload, PartNumber=n, Body=part)["ETag"]}
        for n, part in enumerate(parts, 1)
    ]
    s3.complete_multipart_upload(Bucket=bucket, Key="parts", UploadId=upload, MultipartUpload={"Parts": done})
    assert execute(gateway, target(bucket, "parts", **call)) == (200, md5(b"".join(parts)), "gateway")


def test_a_presigned_address_runs_a_method(gateway, s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"data")
    client = gateway.client()

    def add(request, **_):
        request.params = {**request.params, "x-benthic-exec": "digest.compute", "x-benthic-input": "md5"}

    client.meta.events.register("before-sign.s3.GetObject", lambda request, **named: add(request))
    url = client.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": "k", "ResponseContentType": "text/plain"})
    path = url.removeprefix(gateway.url)
    status, body, headers = fetch(gateway, "GET", path)
    assert (status, body, headers["content-type"]) == (200, md5(b"data"), "text/plain")
    other = path.replace("x-benthic-input=md5", "x-benthic-input=sha1")
    assert other != path and fetch(gateway, "GET", other)[0] == 403


def test_bad_calls_have_clear_errors(gateway, s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"data")
    for name, expected in [
        ("digest", (400, "InvalidArgument")),
        (".md5", (400, "InvalidArgument")),
        ("digest.", (400, "InvalidArgument")),
        ("digest.none", (400, "InvalidRequest")),
        ("none.md5", (400, "InvalidRequest")),
        ("Bad Name.md5", (400, "InvalidRequest")),
        # It stores its result.
        ("digest.md5", (400, "InvalidRequest")),
        ("picture.put", (400, "InvalidRequest")),
        ("digest.compute", (400, "InvalidRequest")),
        # It is no picture.
        ("picture.scale", (400, "InvalidRequest")),
        ("picture.thumbnail", (400, "InvalidRequest")),
        # Classes that are not for S3, and other names of those that are.
        ("wasm.run_read", (400, "InvalidRequest")),
        ("wasm.check", (400, "InvalidRequest")),
        ("wasm_1.run_read", (400, "InvalidRequest")),
        ("hello.say", (400, "InvalidRequest")),
        ("bucket.get", (400, "InvalidRequest")),
        ("lock.list", (400, "InvalidRequest")),
        ("digest_1.compute", (400, "InvalidRequest")),
    ]:
        assert execute(gateway, target(bucket, "k", name))[:2] == expected, name
    twice = target(bucket, "k", "digest.compute") + "&x-benthic-exec=digest.compute"
    assert execute(gateway, twice)[:2] == (400, "InvalidArgument")
    assert execute(gateway, f"/{bucket}/k?x-benthic-input=md5")[:2] == (400, "InvalidArgument")
    assert execute(gateway, f"/{bucket}/k?x-benthic-other=1")[:2] == (400, "InvalidArgument")
    assert execute(gateway, target(bucket, "k", "digest.compute", tagging=""))[:2] == (400, "InvalidArgument")
    assert raw.send_signed(gateway, "PUT", target(bucket, "k", "digest.compute"), b"new") == (400, "InvalidArgument")
    assert raw.send_signed(gateway, "DELETE", target(bucket, "k", "digest.compute")) == (400, "InvalidArgument")
    head = target(bucket, "k", "digest.compute")
    assert raw.request(gateway, "HEAD", head, headers=raw.signed(gateway, "HEAD", head))[0] == 400
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"data"


def test_an_object_in_several_pieces_has_a_limit(gateway, s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=bytes(64 * MIB + 1))
    path = target(bucket, "k", "digest.compute", **{"x-benthic-input": "md5"})
    assert execute(gateway, path)[:2] == (400, "InvalidRequest")


def test_policies_permit_methods(gateway, s3, bucket):
    user = f"main/user-{bucket}"
    gateway.run("user", "create", user)
    made = gateway.run("key", "create", user)[0]
    keys = {"access_key": made["access_key"], "secret_key": made["secret_key"]}
    s3.put_object(Bucket=bucket, Key="k", Body=b"data")
    call = target(bucket, "k", "digest.compute", **{"x-benthic-input": "md5"})
    denied = (403, "AccessDenied", None)

    def allow(*statements):
        file = gateway.dir / f"{bucket}.json"
        file.write_text(policy(*statements))
        gateway.run("user", "policy", "put", user, "p", str(file))
        time.sleep(KEY_CACHE_S)

    read = statement(bucket, "s3:*", ["", "/*"], principal=None)
    allow(read)
    assert execute(gateway, call, **keys) == denied
    # A method does not give access to an object that the caller may not read.
    allow(statement(bucket, "benthic:Exec", principal=None))
    assert execute(gateway, call, **keys) == denied
    only = {"Condition": {"StringLike": {"benthic:Method": "digest.*"}}}
    allow(read, statement(bucket, "benthic:Exec", principal=None, **only))
    assert execute(gateway, call, **keys) == (200, md5(b"data"), gateway.methods_at)
    assert execute(gateway, target(bucket, "k", "picture.labels"), **keys) == denied

    # An ACL permits no method. A policy of the bucket can permit everybody.
    anonymous = lambda: fetch(gateway, "GET", call)[0]
    s3.put_object_acl(Bucket=bucket, Key="k", ACL="public-read")
    assert fetch(gateway, "GET", f"/{bucket}/k")[0] == 200 and anonymous() == 403
    # As in the guide.
    only = {"Condition": {"StringLikeIfExists": {"benthic:Method": "digest.*"}}}
    s3.put_bucket_policy(Bucket=bucket, Policy=policy(statement(bucket, ["s3:GetObject", "benthic:Exec"], **only)))
    assert anonymous() == 200 and fetch(gateway, "GET", f"/{bucket}/k")[0] == 200
    assert fetch(gateway, "GET", target(bucket, "k", "picture.labels"))[0] == 403
    broken = f"/{bucket}/k?x-benthic-exec=digest.compute&x-benthic-input=%ff"
    assert raw.send(gateway, "GET", broken) == (400, "InvalidArgument")
    with pytest.raises(botocore.exceptions.ClientError, match="MalformedPolicy"):
        s3.put_bucket_policy(Bucket=bucket, Policy=policy(statement(bucket, "other:Exec")))
    deny = statement(bucket, "benthic:Exec", effect="Deny", Condition={"StringEquals": {"benthic:Method": "digest.compute"}})
    s3.put_bucket_policy(Bucket=bucket, Policy=policy(deny))
    assert execute(gateway, call) == denied
    assert execute(gateway, target(bucket, "k", "picture.labels"))[:2] == (200, b"{}")


def module(text):
    """A WebAssembly class `greeter` whose method `run` returns a text."""

    def section(number, content):
        assert len(content) < 128
        return bytes([number, len(content)]) + content

    def name(text):
        return bytes([len(text)]) + text

    manifest = json.dumps({"class": "greeter", "version": 1, "methods": [{"method": "run", "reads": True}]}).encode()
    # Calls output(0, the text's length).
    body = b"\x00\x41\x00\x41" + bytes([len(text)]) + b"\x10\x00\x1a\x41\x00\x0b"
    return (
        b"\0asm\1\0\0\0"
        + section(1, b"\x02\x60\x02\x7f\x7f\x01\x7e\x60\x00\x01\x7f")
        + section(2, b"\x01" + name(b"benthic_1") + name(b"output") + b"\0\x00")
        + section(3, b"\x01\x01")
        + section(5, b"\x01\x00\x01")
        + section(7, b"\x02" + name(b"memory") + b"\x02\x00" + name(b"run") + b"\x00\x01")
        + section(10, b"\x01" + name(body))
        + section(11, b"\x01\x00\x41\x00\x0b" + name(text))
        + section(0, name(b"benthic") + manifest)
    )


def test_a_deployed_class_runs_in_the_store_and_in_the_gateway(own_gateway, tmp_path):
    s3 = own_gateway.client()
    s3.create_bucket(Bucket="classes")
    s3.put_object(Bucket="classes", Key="small", Body=b"data")
    s3.put_object(Bucket="classes", Key="large", Body=bytes(5 * MIB))
    assert execute(own_gateway, target("classes", "small", "greeter.run"))[:2] == (400, "InvalidRequest")

    def deploy(text):
        file = tmp_path / "greeter.wasm"
        file.write_bytes(module(text))
        command = [str(PROGRAMS / "benthic"), "--store", own_gateway.store, "class", "deploy", str(file), "--pool", own_gateway.pool]
        subprocess.run(command, check=True, capture_output=True)

    for text in [b"hello", b"hello again"]:
        deploy(text)
        assert execute(own_gateway, target("classes", "small", "greeter.run")) == (200, text, "store")
        assert execute(own_gateway, target("classes", "large", "greeter.run")) == (200, text, "gateway")


def test_many_methods_at_once_all_answer(gateway, s3, bucket):
    small, large = os.urandom(1000), os.urandom(5 * MIB)
    s3.put_object(Bucket=bucket, Key="small", Body=small)
    s3.put_object(Bucket=bucket, Key="large", Body=large)
    call = {"name": "digest.compute", "x-benthic-input": "md5"}

    def run(number):
        key, data = [("small", small), ("large", large)][number % 2]
        return execute(gateway, target(bucket, key, **call))[:2] == (200, md5(data))

    with concurrent.futures.ThreadPoolExecutor(16) as threads:
        assert all(threads.map(run, range(64)))


def test_clients_that_disconnect_leave_the_gateway_usable(gateway, s3, bucket):
    s3.put_object(Bucket=bucket, Key="large", Body=bytes(5 * MIB))
    slow = {"name": "digest.compute", "x-benthic-input": json.dumps({"algorithm": "md5", "repeat": 100})}
    path = target(bucket, "large", **slow)
    for _ in range(6):
        with raw.connect(gateway) as connection:
            connection.sendall(raw.head_text(gateway, "GET", path, raw.signed(gateway, "GET", path)))
    # Those that still run may take the places for a while.
    deadline = time.monotonic() + 60
    call = target(bucket, "large", "digest.compute", **{"x-benthic-input": "md5"})
    while (answer := execute(gateway, call))[:2] == (503, "SlowDown") and time.monotonic() < deadline:
        pass
    assert answer == (200, md5(bytes(5 * MIB)), "gateway")
