"""Storage classes: which requests accept them, which answers show them, and transitions."""

import contextlib
import time

import pytest
from gateway import ERASURE_CODED, ONLY_LONG, create_erasure_coded_pool, running
from test_lifecycle import put_rules

MIB = 1 << 20


@contextlib.contextmanager
def with_class(store, dir, *options):
    """A gateway, its client, and the pool of the class STANDARD_IA, which is erasure-coded on Ceph."""
    with running(store, dir, *options) as gateway:
        pool = f"{gateway.pool}-cold"
        if store == "file":
            gateway.create_pool(pool)
        else:
            create_erasure_coded_pool(pool)
        try:
            gateway.run("storage-class", "set", "STANDARD_IA", "--to", pool)
            s3 = gateway.client()
            s3.create_bucket(Bucket="photos")
            yield gateway, s3, pool
        finally:
            if store != "file":
                gateway.stop()
                gateway.remove_pool(pool)


def classes(s3):
    return {found["Key"]: found["StorageClass"] for found in s3.list_objects_v2(Bucket="photos").get("Contents", [])}


@pytest.mark.parametrize("store", ["file", ERASURE_CODED])
def test_objects_have_storage_classes(store, tmp_path, code_of):
    with with_class(store, tmp_path) as (gateway, s3, pool):
        cold = {"Bucket": "photos", "StorageClass": "STANDARD_IA"}
        s3.put_object(Key="put", Body=b"1", **cold)
        s3.put_object(Bucket="photos", Key="warm", Body=b"2", StorageClass="STANDARD")
        upload = s3.create_multipart_upload(Key="parts", **cold)["UploadId"]
        assert s3.list_multipart_uploads(Bucket="photos")["Uploads"][0]["StorageClass"] == "STANDARD_IA"
        of_upload = {"Bucket": "photos", "Key": "parts", "UploadId": upload}
        parts = []
        for number, body in [(1, b"a" * 5 * MIB), (2, b"b")]:
            etag = s3.upload_part(PartNumber=number, Body=body, **of_upload)["ETag"]
            parts.append({"PartNumber": number, "ETag": etag})
        assert s3.list_parts(**of_upload)["StorageClass"] == "STANDARD_IA"
        s3.complete_multipart_upload(MultipartUpload={"Parts": parts}, **of_upload)
        # The name of the pool's objects has the id of the write.
        assert len(gateway.objects(pool)) == 4
        assert classes(s3) == {"parts": "STANDARD_IA", "put": "STANDARD_IA", "warm": "STANDARD"}
        for operation in [s3.get_object, s3.head_object]:
            assert operation(Bucket="photos", Key="put")["StorageClass"] == "STANDARD_IA"
            assert "StorageClass" not in operation(Bucket="photos", Key="warm")
        asked = {"Bucket": "photos", "ObjectAttributes": ["StorageClass"]}
        assert s3.get_object_attributes(Key="put", **asked)["StorageClass"] == "STANDARD_IA"
        assert s3.get_object_attributes(Key="warm", **asked)["StorageClass"] == "STANDARD"
        assert s3.list_object_versions(Bucket="photos", Prefix="put")["Versions"][0]["StorageClass"] == "STANDARD_IA"
        # A copy onto itself moves an object; a copy without a class is STANDARD.
        s3.copy_object(Key="warm", CopySource="photos/warm", **cold)
        s3.copy_object(Bucket="photos", Key="copy", CopySource="photos/parts")
        assert classes(s3) == {"copy": "STANDARD", "parts": "STANDARD_IA", "put": "STANDARD_IA", "warm": "STANDARD_IA"}
        for key, data in [("warm", b"2"), ("copy", b"a" * 5 * MIB + b"b"), ("parts", b"a" * 5 * MIB + b"b")]:
            assert s3.get_object(Bucket="photos", Key=key)["Body"].read() == data
        itself = {"Bucket": "photos", "Key": "warm", "CopySource": "photos/warm"}
        assert code_of(s3.copy_object, **itself) == ("InvalidRequest", 400)
        for call, given in [(s3.put_object, {"Body": b""}), (s3.create_multipart_upload, {}), (s3.copy_object, {"CopySource": "photos/put"})]:
            for name in ["GLACIER", "standard", "with space"]:
                refused = {"Bucket": "photos", "Key": "new", "StorageClass": name, **given}
                assert code_of(call, **refused) == ("InvalidStorageClass", 400)
        gateway.check("photos", {"objects": 4, "bytes": 2 * (5 * MIB + 1) + 2})
        gateway.run("storage-class", "rm", "STANDARD_IA")
        assert code_of(s3.put_object, Key="put", Body=b"", **cold) == ("InvalidStorageClass", 400)
        assert s3.get_object(Bucket="photos", Key="put")["Body"].read() == b"1"
        lines = gateway.run("storage-class", "ls")
        assert [(line["class"], line["offered"]) for line in lines] == [("STANDARD", True), ("STANDARD_IA", False)]
        for key in ["copy", "parts", "put", "warm"]:
            s3.delete_object(Bucket="photos", Key=key)
        gateway.run("gc", "run", "--all")
        assert gateway.objects(pool) == []


@pytest.mark.parametrize("store", ["file", pytest.param("ceph", marks=ONLY_LONG), ERASURE_CODED])
def test_rules_move_objects(store, tmp_path):
    with with_class(store, tmp_path, "--lifecycle-day", "1", "--lifecycle-every", "1") as (gateway, s3, pool):
        big = b"abc" * 2 * MIB
        s3.put_object(Bucket="photos", Key="archive/big", Body=big, Tagging="a=b", Metadata={"from": "a ship"})
        s3.put_object(Bucket="photos", Key="archive/secret", Body=b"secret", ServerSideEncryption="AES256")
        s3.put_object(Bucket="photos", Key="keep", Body=b"1")
        before = {key: s3.head_object(Bucket="photos", Key=key) for key in ["archive/big", "archive/secret"]}
        rule = {
            "ID": "cold",
            "Status": "Enabled",
            "Filter": {"Prefix": "archive/"},
            "Transitions": [{"Days": 2, "StorageClass": "STANDARD_IA"}],
            "NoncurrentVersionTransitions": [{"NoncurrentDays": 1, "NewerNoncurrentVersions": 2, "StorageClass": "STANDARD_IA"}],
        }
        put_rules(s3, "photos", rule)
        assert s3.get_bucket_lifecycle_configuration(Bucket="photos")["Rules"] == [rule]
        moved = {"archive/big": "STANDARD_IA", "archive/secret": "STANDARD_IA", "keep": "STANDARD"}
        for _ in range(120):
            if classes(s3) == moved:
                break
            time.sleep(0.5)
        assert classes(s3) == moved
        for key, old in before.items():
            new = s3.head_object(Bucket="photos", Key=key)
            assert new["StorageClass"] == "STANDARD_IA"
            for field in ["ETag", "LastModified", "ContentLength", "Metadata", "TagCount", "ServerSideEncryption"]:
                assert new.get(field) == old.get(field), field
        assert s3.get_object(Bucket="photos", Key="archive/big")["Body"].read() == big
        assert s3.get_object(Bucket="photos", Key="archive/big", Range="bytes=4194300-4194310")["Body"].read() == big[4194300:4194311]
        assert s3.get_object(Bucket="photos", Key="archive/secret")["Body"].read() == b"secret"
        assert len(gateway.objects(pool)) == 3
        gateway.check("photos", {"objects": 3, "bytes": len(big) + 7})
        assert "failed" not in gateway.log()
