"""On-put rules: methods of classes that run on new objects."""

import concurrent.futures
import hashlib
import os
import uuid

import pytest
import raw
from gateway import running
from target import running_target, wait_until
from test_events import create_target, notify, rule, status
from test_policies import other, policy, statement  # noqa: F401

MIB = 1 << 20
SUM = ["digest.compute", "--input", "sha256", "--metadata", "sha256"]


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def metadata(s3, bucket, key):
    return s3.head_object(Bucket=bucket, Key=key)["Metadata"]


def put_at(gateway, path, body, **headers):
    """Sends a signed PUT; returns the status, and where the method ran."""
    signed = raw.signed(gateway, "PUT", path, body, headers=headers)
    code, answered, text = raw.request(gateway, "PUT", path, body, signed)
    return code, answered.get("x-benthic-exec-at"), text


def test_rules_are_added_replaced_and_removed(gateway, bucket):
    assert gateway.run("on-put", bucket) == []
    added = gateway.run("on-put", bucket, *SUM, "--prefix", "raw/", "--suffix", ".jpg")[0]
    assert added == {
        "bucket": bucket,
        "rule": "digest.compute",
        "prefix": "raw/",
        "suffix": ".jpg",
        "method": "digest.compute",
        "input": "sha256",
        "metadata": "sha256",
        "result": None,
        "content_type": None,
    }
    gateway.run("on-put", bucket, "digest.compute", "--input", "md5")
    gateway.run("on-put", bucket, "picture.scale", "--name", "small", "--result", "small/{key}", "--content-type", "image/jpeg")
    assert [(found["rule"], found["input"], found["result"]) for found in gateway.run("on-put", bucket)] == [
        ("digest.compute", "md5", None),
        ("small", "", "small/{key}"),
    ]
    for name in ["digest.compute", "small"]:
        gateway.run("on-put", bucket, "--remove", name)
    assert gateway.run("on-put", bucket) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["digest"], "CLASS.METHOD"),
        (["digest.compute", "--metadata", "A B"], "lower-case"),
        (["digest.compute", "--result", "{key}"], "{key}"),
        (["digest.compute", "--result", "same"], "{key}"),
        (["digest.compute", "--name", "a b"], "id of a rule"),
        (["digest.compute", "--input", "x" * 5000], "4 KiB"),
        (["digest.compute", "--prefix", "x" * 1025], "1,024"),
        (["digest.compute", "--result", "x{key}", "--content-type", "a\nb"], "content type"),
        (["--remove", "none"], "no such rule"),
        (["--prefix", "x"], "METHOD"),
    ],
)
def test_bad_rules_are_refused(gateway, bucket, options, message):
    verb = gateway.spawn("on-put", bucket, *options)
    out, err = verb.communicate(timeout=60)
    assert verb.returncode != 0 and message in err, out + err
    assert gateway.run("on-put", bucket) == []


def test_a_result_becomes_metadata(gateway, s3, bucket):
    gateway.run("on-put", bucket, *SUM, "--prefix", "raw/")
    small, large = os.urandom(100_000), os.urandom(9 * MIB)
    assert put_at(gateway, f"/{bucket}/raw/small", small)[:2] == (200, gateway.methods_at)
    assert put_at(gateway, f"/{bucket}/raw/large", large)[:2] == (200, "gateway")
    assert put_at(gateway, f"/{bucket}/raw/empty", b"")[:2] == (200, "gateway")
    assert put_at(gateway, f"/{bucket}/other", small)[:2] == (200, None)
    s3.put_object(Bucket=bucket, Key="raw/named", Body=small, Metadata={"sha256": "forged", "colour": "blue"})
    assert metadata(s3, bucket, "raw/small") == {"sha256": sha256(small)}
    assert metadata(s3, bucket, "raw/large") == {"sha256": sha256(large)}
    assert metadata(s3, bucket, "raw/empty") == {"sha256": sha256(b"")}
    assert metadata(s3, bucket, "other") == {}
    assert metadata(s3, bucket, "raw/named") == {"sha256": sha256(small), "colour": "blue"}
    assert s3.get_object(Bucket=bucket, Key="raw/large")["Body"].read() == large


def test_copies_parts_and_encrypted_objects(gateway, s3, bucket):
    data = os.urandom(6 * MIB)
    s3.put_object(Bucket=bucket, Key="plain", Body=data)
    s3.put_object(Bucket=bucket, Key="sealed", Body=data, ServerSideEncryption="AES256")
    gateway.run("on-put", bucket, *SUM, "--prefix", "raw/")
    for key in ["plain", "sealed"]:
        s3.copy_object(Bucket=bucket, Key=f"raw/{key}", CopySource={"Bucket": bucket, "Key": key})
        assert metadata(s3, bucket, f"raw/{key}") == {"sha256": sha256(data)}
    s3.put_object(Bucket=bucket, Key="raw/sse", Body=data, ServerSideEncryption="AES256")
    customer = {"SSECustomerAlgorithm": "AES256", "SSECustomerKey": "k" * 32}
    s3.put_object(Bucket=bucket, Key="raw/sse-c", Body=data, **customer)
    assert metadata(s3, bucket, "raw/sse") == {"sha256": sha256(data)}
    assert s3.head_object(Bucket=bucket, Key="raw/sse-c", **customer)["Metadata"] == {"sha256": sha256(data)}
    for key, encryption in [("raw/parts", {}), ("raw/parts of sse", {"ServerSideEncryption": "AES256"})]:
        upload = s3.create_multipart_upload(Bucket=bucket, Key=key, **encryption)["UploadId"]
        parts = [
            {"PartNumber": n, "ETag": s3.upload_part(Bucket=bucket, Key=key, UploadId=upload, PartNumber=n, Body=part)["ETag"]}
            for n, part in enumerate([data, b"unused", b"the end"], 1)
            if n != 2
        ]
        s3.complete_multipart_upload(Bucket=bucket, Key=key, UploadId=upload, MultipartUpload={"Parts": parts})
        assert metadata(s3, bucket, key) == {"sha256": sha256(data + b"the end")}
        assert s3.get_object(Bucket=bucket, Key=key)["Body"].read() == data + b"the end"


def test_a_rule_reads_nothing_for_others(gateway, s3, bucket, other, code_of):  # noqa: F811
    """A rule acts for the operator, so callers must not have it read data that they may not read."""
    eve, _ = other
    secret = f"{bucket}-secret"
    s3.create_bucket(Bucket=secret)
    s3.put_object(Bucket=secret, Key="a", Body=b"secret")
    gateway.run("on-put", bucket, *SUM, "--prefix", "raw/")
    s3.put_bucket_policy(Bucket=bucket, Policy=policy(statement(bucket, ["s3:PutObject", "s3:GetObject"], "/raw/*")))
    copy = {"Bucket": bucket, "Key": "raw/a", "CopySource": f"{secret}/a"}
    assert code_of(eve.copy_object, **copy) == ("AccessDenied", 403)
    upload = eve.create_multipart_upload(Bucket=bucket, Key="raw/a")["UploadId"]
    assert code_of(eve.upload_part_copy, **copy, UploadId=upload, PartNumber=1) == ("AccessDenied", 403)
    # Nor do they choose the result of the method.
    forged = {"Metadata": {"sha256": "forged"}}
    eve.put_object(Bucket=bucket, Key="raw/b", Body=b"mine", **forged)
    eve.copy_object(Bucket=bucket, Key="raw/c", CopySource=f"{bucket}/raw/b", MetadataDirective="REPLACE", **forged)
    found = {entry["Key"]: metadata(s3, bucket, entry["Key"]) for entry in s3.list_objects_v2(Bucket=bucket)["Contents"]}
    assert found == dict.fromkeys(["raw/b", "raw/c"], {"sha256": sha256(b"mine")})


def test_a_refused_object_is_not_there(gateway, s3, bucket, code_of):
    s3.put_object(Bucket=bucket, Key="raw/old", Body=b"old")
    gateway.run("on-put", bucket, "picture.scale", "--prefix", "raw/")
    for body in [b"no picture", b"", os.urandom(6 * MIB)]:
        for key in ["raw/new", "raw/old"]:
            assert code_of(s3.put_object, Bucket=bucket, Key=key, Body=body) == ("InvalidRequest", 400)
    answer = put_at(gateway, f"/{bucket}/raw/new", b"no picture")[2]
    assert b"picture.scale&apos; failed: the data are not a JPEG or PNG image" in answer
    s3.put_object(Bucket=bucket, Key="text", Body=b"text")
    assert code_of(s3.copy_object, Bucket=bucket, Key="raw/new", CopySource={"Bucket": bucket, "Key": "text"})[0] == "InvalidRequest"
    upload = s3.create_multipart_upload(Bucket=bucket, Key="raw/new")["UploadId"]
    part = s3.upload_part(Bucket=bucket, Key="raw/new", UploadId=upload, PartNumber=1, Body=b"text")
    parts = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
    call = s3.complete_multipart_upload
    assert code_of(call, Bucket=bucket, Key="raw/new", UploadId=upload, MultipartUpload=parts)[0] == "InvalidRequest"
    # The upload is still there, and can be completed without the rule.
    gateway.run("on-put", bucket, "--remove", "picture.scale")
    call(Bucket=bucket, Key="raw/new", UploadId=upload, MultipartUpload=parts)
    s3.delete_object(Bucket=bucket, Key="raw/new")
    assert [found["Key"] for found in s3.list_objects_v2(Bucket=bucket)["Contents"]] == ["raw/old", "text"]
    assert s3.get_object(Bucket=bucket, Key="raw/old")["Body"].read() == b"old"
    gateway.check(bucket, {"objects": 2, "uploads": 0})


@pytest.mark.parametrize(
    ("method", "message"),
    [
        ("digest.md5", "only methods that read"),
        ("picture.index", "only methods that read"),
        ("digest.none", "no such method"),
        ("none.none", "no such class"),
        ("hello.say", "no such class"),
        ("wasm.run_read", "no such class"),
        ("bucket.get", "no such class"),
    ],
)
def test_methods_that_may_not_run_are_refused(gateway, bucket, method, message):
    verb = gateway.spawn("on-put", bucket, method)
    err = verb.communicate(timeout=60)[1]
    assert verb.returncode != 0 and message in err, err
    assert gateway.run("on-put", bucket) == []


def test_a_long_result_is_no_metadata(gateway, s3, bucket, code_of):
    picture = jpeg()
    gateway.run("on-put", bucket, "picture.scale", "--metadata", "small")
    assert code_of(s3.put_object, Bucket=bucket, Key="k", Body=picture) == ("InvalidRequest", 400)


def jpeg():
    path = os.path.join(os.path.dirname(__file__), "../../../benthic-testkit/data/cmyk.jpg")
    with open(path, "rb") as file:
        return file.read()


def test_a_method_writes_an_object_later(tmp_path):
    with running("file", tmp_path, "--events-every", "1") as gateway, running_target() as target:
        s3 = gateway.client()
        s3.create_bucket(Bucket="photos")
        options = ["--prefix", "raw/", "--input", "16", "--result", "small/{key}", "--content-type", "image/jpeg"]
        gateway.run("on-put", "photos", "picture.scale", *options)
        # The result starts no further rule, but has its event.
        gateway.run("on-put", "photos", "picture.scale", "--name", "again", "--prefix", "small/", "--result", "again/{key}")
        notify(s3, "photos", rule(create_target(gateway, target.url), ["s3:ObjectCreated:Put"], prefix="small/"))
        s3.put_object(Bucket="photos", Key="raw/a.jpg", Body=jpeg())
        s3.put_object(Bucket="photos", Key="raw/b.txt", Body=b"text")
        wait_until(lambda: target.names() == [("ObjectCreated:Put", "small/raw/a.jpg")])
        assert target.taken[0]["userIdentity"] == {"principalId": "on-put/picture.scale"}
        small = s3.get_object(Bucket="photos", Key="small/raw/a.jpg", ChecksumMode="ENABLED")
        assert small["ContentType"] == "image/jpeg"
        assert small["Body"].read()[:3] == b"\xff\xd8\xff"
        wait_until(lambda: {found["queue"]: found["dead"] for found in status(gateway, "photos")}["on-put/picture.scale"] == 1)
        (dead,) = [found for found in status(gateway, "photos", "--dead") if found.get("key")]
        assert dead["key"] == "raw/b.txt" and "not a JPEG" in dead["reason"]
        keys = [found["Key"] for found in s3.list_objects_v2(Bucket="photos")["Contents"]]
        assert keys == ["raw/a.jpg", "raw/b.txt", "small/raw/a.jpg"]
        # The result has started no rule.
        assert "on-put/again" not in {found["queue"] for found in status(gateway, "photos")}
        # The rule does not run on encrypted objects.
        s3.put_object(Bucket="photos", Key="raw/sealed.jpg", Body=jpeg(), ServerSideEncryption="AES256")
        wait_until(lambda: any("encrypted" in found.get("reason", "") for found in status(gateway, "photos", "--dead")))


def test_only_the_last_version_has_a_result(tmp_path):
    with running("file", tmp_path, "--events-every", "1") as gateway:
        s3 = gateway.client()
        s3.create_bucket(Bucket="photos")
        s3.put_bucket_versioning(Bucket="photos", VersioningConfiguration={"Status": "Enabled"})
        gateway.run("on-put", "photos", "picture.scale", "--result", "small/{key}", "--prefix", "k")
        s3.put_object(Bucket="photos", Key="k", Body=b"no picture")
        wait_until(lambda: [found["dead"] for found in status(gateway, "photos")] == [1])
        s3.put_object(Bucket="photos", Key="k", Body=jpeg())
        wait_until(lambda: s3.list_objects_v2(Bucket="photos")["KeyCount"] == 2)
        # The method would fail again on the old version.
        gateway.run("events", "retry", "photos")
        wait_until(lambda: [(found["dead"], found["waiting"]) for found in status(gateway, "photos")] == [(0, 0)])
        encryption = {"Rules": [{"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}]}
        s3.put_bucket_encryption(Bucket="photos", ServerSideEncryptionConfiguration=encryption)
        verb = gateway.spawn("on-put", "photos", "picture.scale", "--name", "n", "--result", "n/{key}")
        assert "encrypts" in verb.communicate(timeout=60)[1] and verb.returncode != 0


def test_a_replaced_object_has_the_result_of_its_last_version(gateway, s3, bucket):
    gateway.run("on-put", bucket, "digest.compute", "--input", "md5", "--result", "{key}.md5", "--prefix", "k")

    def write(number):
        for _ in range(10):
            s3.put_object(Bucket=bucket, Key=f"k{number}", Body=uuid.uuid4().bytes)

    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        list(threads.map(write, range(4)))

    def is_right(number):
        try:
            found = s3.get_object(Bucket=bucket, Key=f"k{number}.md5")["Body"].read().decode()
        except s3.exceptions.NoSuchKey:
            return False
        return f'"{found}"' == s3.head_object(Bucket=bucket, Key=f"k{number}")["ETag"]

    wait_until(lambda: all(is_right(number) for number in range(4)))
    wait_until(lambda: status(gateway, bucket)[0]["waiting"] == 0)
    assert status(gateway, bucket)[0]["dead"] == 0
