"""Views: read-only buckets that show the objects of a pool."""

import concurrent.futures
import datetime
import json
import random
import shutil
import subprocess
import sys
import sysconfig
import time
import uuid

import botocore.exceptions
import pytest
from gateway import PROGRAMS
from operations import record_operations
from raw import send, send_signed
from test_exec import execute, md5, target
from test_programs import HERE, OTHER_PYTHON, program

PIECE = bytes(range(256)) * 4_096
LARGE = PIECE * 10
ODD = ["zarr.json", "../up", "..", "/lead", "a//b", "a/./b", "a b+c%d&e", "ü/日本/😀", "~", "?x=y#z", "x" * 1_000, "a\tb"]


class Pool:
    """A pool that has nothing to do with the gateway, and a view of it."""

    def __init__(self, gateway):
        self.gateway = gateway
        self.name = f"climate-{uuid.uuid4().hex[:8]}"
        self.benthic("pool", "create", self.name)
        self.views = 0

    def benthic(self, *args, data=None):
        command = [str(PROGRAMS / "benthic"), "--store", self.gateway.store, *args]
        done = subprocess.run(command, input=data, capture_output=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout

    def put(self, name, data):
        self.benthic("put", f"{self.name}/{name}", "-", data=data)

    def put_all(self, objects):
        with concurrent.futures.ThreadPoolExecutor(4) as threads:
            list(threads.map(self.put, objects, objects.values()))

    def view(self, of=""):
        self.views += 1
        bucket = f"{self.name}-{self.views}"
        (created,) = self.gateway.run("bucket", "create", bucket, "--view", self.name + of)
        assert created["bucket"] == bucket and created["view"].startswith(f"{self.name}")
        return bucket

    def names(self):
        return sorted(json.loads(line)["object"] for line in self.benthic("--json", "ls", self.name).splitlines())


@pytest.fixture
def pool(gateway):
    pool = Pool(gateway)
    yield pool
    pool.benthic("pool", "rm", pool.name, "--yes", pool.name)


def keys(s3, bucket, **named):
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, **named)
    return [entry["Key"] for page in pages for entry in page.get("Contents", [])]


def test_names_are_keys_and_data_are_read(gateway, s3, pool, code_of):
    pool.put_all({name: name.encode() for name in ODD} | {"large": LARGE, "empty": b""})
    pool.benthic("put", f"{pool.name}:hidden/a", "-", data=b"x")
    bucket = pool.view()
    listed = keys(s3, bucket)
    assert listed == sorted([*ODD, "large", "empty"], key=str.encode)
    for name in ODD:
        got = s3.get_object(Bucket=bucket, Key=name)
        assert got["Body"].read() == name.encode()
        head = s3.head_object(Bucket=bucket, Key=name)
        assert (head["ETag"], head["ContentLength"]) == (got["ETag"], len(name.encode()))
    assert s3.get_object(Bucket=bucket, Key="large")["Body"].read() == LARGE
    assert s3.get_object(Bucket=bucket, Key="empty")["Body"].read() == b""
    (entry,) = s3.list_objects_v2(Bucket=bucket, Prefix="large")["Contents"]
    head = s3.head_object(Bucket=bucket, Key="large")
    assert (entry["Size"], entry["ETag"]) == (len(LARGE), head["ETag"])
    assert entry["LastModified"].replace(microsecond=0) == head["LastModified"]
    assert abs(datetime.datetime.now(datetime.UTC) - head["LastModified"]) < datetime.timedelta(minutes=5)
    for key in ["hidden", ":hidden/a", "a", "none"]:
        assert code_of(s3.get_object, Bucket=bucket, Key=key) == ("NoSuchKey", 404)
    assert keys(s3, pool.view(":hidden")) == ["a"]
    assert keys(s3, pool.view("/a")) == ["./b", "/b"]
    s3.head_bucket(Bucket=bucket)
    assert s3.get_bucket_location(Bucket=bucket)["LocationConstraint"] is None
    assert bucket in [found["Name"] for found in s3.list_buckets()["Buckets"]]
    assert s3.get_bucket_versioning(Bucket=bucket).get("Status") is None
    (version,) = s3.list_object_versions(Bucket=bucket, Prefix="large")["Versions"]
    assert (version["VersionId"], version["IsLatest"]) == ("null", True)


def test_ranges_and_conditions(s3, pool, code_of):
    pool.put("large", LARGE)
    bucket = pool.view()
    for header, start, end in [("0-0", 0, 1), ("4194300-4194309", 4_194_300, 4_194_310), ("-7", len(LARGE) - 7, len(LARGE)),
                               ("5-", 5, len(LARGE)), ("100-999999999", 100, len(LARGE))]:
        got = s3.get_object(Bucket=bucket, Key="large", Range=f"bytes={header}")
        assert got["Body"].read() == LARGE[start:end]
        assert got["ContentRange"] == f"bytes {start}-{end - 1}/{len(LARGE)}"
    assert code_of(s3.get_object, Bucket=bucket, Key="large", Range=f"bytes={len(LARGE)}-") == ("InvalidRange", 416)
    head = s3.head_object(Bucket=bucket, Key="large")
    etag = head["ETag"]
    get = lambda **given: s3.get_object(Bucket=bucket, Key="large", **given)
    assert get(IfMatch=etag, Range="bytes=0-9")["Body"].read() == LARGE[:10]
    assert code_of(get, IfNoneMatch=etag)[1] == 304
    assert code_of(get, IfModifiedSince=head["LastModified"])[1] == 304
    assert code_of(get, IfMatch='"other"') == ("PreconditionFailed", 412)
    pool.put("large", LARGE)
    changed = s3.head_object(Bucket=bucket, Key="large")["ETag"]
    assert changed != etag and code_of(get, IfMatch=etag) == ("PreconditionFailed", 412)
    # Clients take 32 digits for the MD5 of the data.
    assert len(changed) == 36 and changed.endswith('-1"')


def test_pages_equal_the_listing_of_the_pool(s3, pool, tmp_path, seed):
    rng = random.Random(seed)
    names = {"/".join(rng.choices(["a", "b", "ü", "c c", "0-"], k=rng.randrange(1, 6))) + f"/{number}" for number in range(300)}
    for number, name in enumerate(sorted(names)):
        path = tmp_path / "tree" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"%d" % number)
    pool.benthic("cp", "-r", str(tmp_path / "tree"), f"{pool.name}/")
    bucket = pool.view()
    wanted = sorted(names, key=str.encode)
    for size in [7, 100, 1_000]:
        assert keys(s3, bucket, PaginationConfig={"PageSize": size}) == wanted
    for prefix in ["", "a/", "ü", "none"]:
        below = [name for name in wanted if name.startswith(prefix)]
        groups = sorted({name[: name.index("/", len(prefix)) + 1] for name in below if "/" in name[len(prefix) :]}, key=str.encode)
        for operation in ["list_objects", "list_objects_v2"]:
            pages = list(s3.get_paginator(operation).paginate(
                Bucket=bucket, Prefix=prefix, Delimiter="/", PaginationConfig={"PageSize": 2}))
            assert [group["Prefix"] for page in pages for group in page.get("CommonPrefixes", [])] == groups
    start = wanted[50]
    assert keys(s3, bucket, StartAfter=start) == wanted[51:]
    marked = s3.list_objects(Bucket=bucket, Marker=start, MaxKeys=3)
    assert [entry["Key"] for entry in marked["Contents"]] == wanted[51:54] and marked["IsTruncated"]


WRITES = {
    "put_object": {"Key": "new", "Body": b"x"},
    "delete_object": {"Key": "a"},
    "create_multipart_upload": {"Key": "new"},
    "upload_part": {"Key": "new", "UploadId": "0" * 32, "PartNumber": 1, "Body": b"x"},
    "complete_multipart_upload": {"Key": "new", "UploadId": "0" * 32, "MultipartUpload": {"Parts": [{"PartNumber": 1, "ETag": "x"}]}},
    "abort_multipart_upload": {"Key": "new", "UploadId": "0" * 32},
    "put_object_acl": {"Key": "a", "ACL": "public-read"},
    "put_object_tagging": {"Key": "a", "Tagging": {"TagSet": [{"Key": "a", "Value": "b"}]}},
    "delete_object_tagging": {"Key": "a"},
    "put_object_legal_hold": {"Key": "a", "LegalHold": {"Status": "ON"}},
    "put_bucket_acl": {"ACL": "public-read"},
    "put_bucket_versioning": {"VersioningConfiguration": {"Status": "Enabled"}},
    "put_bucket_encryption": {
        "ServerSideEncryptionConfiguration": {"Rules": [{"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}]}},
    "delete_bucket_encryption": {},
    "put_bucket_lifecycle_configuration": {
        "LifecycleConfiguration": {"Rules": [{"ID": "a", "Status": "Enabled", "Filter": {"Prefix": ""}, "Expiration": {"Days": 1}}]}},
    "put_bucket_notification_configuration": {"NotificationConfiguration": {}},
    "put_bucket_ownership_controls": {"OwnershipControls": {"Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]}},
    "put_object_lock_configuration": {"ObjectLockConfiguration": {"ObjectLockEnabled": "Enabled"}},
    "delete_bucket": {},
}


def test_every_write_is_refused(gateway, s3, pool, bucket, code_of):
    pool.put("a", b"1")
    s3.put_object(Bucket=bucket, Key="own", Body=b"2")
    view = pool.view()
    for operation, parameters in WRITES.items():
        call = getattr(s3, operation)
        with pytest.raises(botocore.exceptions.ClientError, match="read-only view") as refused:
            call(Bucket=view, **parameters)
        assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 403, operation
    for source in [{"Bucket": bucket, "Key": "own"}, {"Bucket": view, "Key": "a"}]:
        assert code_of(s3.copy_object, Bucket=view, Key="new", CopySource=source) == ("AccessDenied", 403)
        part = {"Key": "new", "UploadId": "0" * 32, "PartNumber": 1}
        assert code_of(s3.upload_part_copy, Bucket=view, CopySource=source, **part) == ("AccessDenied", 403)
    deleted = s3.delete_objects(Bucket=view, Delete={"Objects": [{"Key": "a"}, {"Key": "none"}]})
    assert "Deleted" not in deleted and {error["Code"] for error in deleted["Errors"]} == {"AccessDenied"}
    for method in ["PUT", "DELETE", "POST"]:
        for path in [f"/{view}/a", f"/{view}/a?append&position=0", f"/{view}"]:
            status, _ = send_signed(gateway, method, path, b"x" if method != "DELETE" else b"")
            # The account of the bucket "creates" it again, which changes nothing.
            assert status >= 400 or (method, path) == ("PUT", f"/{view}"), (method, path, status)
    assert keys(s3, view) == ["a"] and pool.names() == ["a"]
    assert pool.benthic("cat", f"{pool.name}/a") == b"1"
    assert s3.get_bucket_versioning(Bucket=view).get("Status") is None
    assert "Uploads" not in s3.list_multipart_uploads(Bucket=view)


def test_the_owner_decides_who_reads(gateway, s3, pool):
    pool.put("open/a", b"1")
    pool.put("closed", b"2")
    view = pool.view()
    assert send(gateway, "GET", f"/{view}/open/a") == (403, "AccessDenied")
    policy = """{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": "*",
        "Action": ["s3:GetObject", "s3:PutObject", "s3:DeleteObject"], "Resource": "arn:aws:s3:::%s/open/*"}]}""" % view
    s3.put_bucket_policy(Bucket=view, Policy=policy)
    assert send(gateway, "GET", f"/{view}/open/a") == (200, b"1")
    for method, path in [("GET", "closed"), ("GET", ""), ("PUT", "open/a"), ("DELETE", "open/a")]:
        assert send(gateway, method, f"/{view}/{path}")[0] == 403
    assert pool.names() == ["closed", "open/a"]
    gateway.run("account", "create", pool.name)
    gateway.run("user", "create", f"{pool.name}/ada")
    key = gateway.run("key", "create", f"{pool.name}/ada")[0]
    other = gateway.client(key["access_key"], key["secret_key"])
    assert other.get_object(Bucket=view, Key="open/a")["Body"].read() == b"1"
    with pytest.raises(botocore.exceptions.ClientError, match="AccessDenied"):
        other.list_objects_v2(Bucket=view)
    s3.delete_bucket_policy(Bucket=view)
    assert send(gateway, "GET", f"/{view}/open/a")[0] == 403


def test_a_view_is_a_source_of_copies(s3, pool, bucket):
    pool.put("large", LARGE)
    view = pool.view()
    s3.copy_object(Bucket=bucket, Key="copy", CopySource={"Bucket": view, "Key": "large"})
    assert s3.get_object(Bucket=bucket, Key="copy")["Body"].read() == LARGE
    upload = s3.create_multipart_upload(Bucket=bucket, Key="parts")["UploadId"]
    part = {"Bucket": bucket, "Key": "parts", "UploadId": upload, "PartNumber": 1}
    source = {"Bucket": view, "Key": "large"}
    etag = s3.upload_part_copy(CopySource=source, CopySourceRange="bytes=5-6000000", **part)["CopyPartResult"]["ETag"]
    del part["PartNumber"]
    s3.complete_multipart_upload(MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": etag}]}, **part)
    assert s3.get_object(Bucket=bucket, Key="parts")["Body"].read() == LARGE[5:6_000_001]


def test_an_object_that_changes_is_never_read_as_a_mix(s3, pool):
    versions = [bytes([number]) * (9 << 20) for number in range(3)]
    pool.put("a", versions[0])
    view = pool.view()
    read = 0
    with concurrent.futures.ThreadPoolExecutor(1) as writer:
        done = writer.submit(lambda: [pool.put("a", versions[number % 3]) for number in range(12)])
        while not done.done():
            try:
                assert s3.get_object(Bucket=view, Key="a")["Body"].read() in versions
                read += 1
            except (botocore.exceptions.IncompleteReadError, botocore.exceptions.ResponseStreamingError):
                pass
            except botocore.exceptions.ClientError as error:
                assert error.response["ResponseMetadata"]["HTTPStatusCode"] == 503
            time.sleep(0.01)
        done.result()
    assert read > 0


def test_administration(gateway, s3, pool, code_of):
    refused = lambda *args: gateway.spawn("bucket", *args).wait(60) != 0
    view = pool.view("/era5")
    assert refused("create", view, "--view", pool.name)
    assert refused("create", "Bad_Name", "--view", pool.name)
    assert refused("create", f"{view}-no-pool", "--view", "no-such-pool")
    assert refused("create", f"{view}-reserved", "--view", f"{gateway.pool}:benthic.s3")
    assert refused("create", f"{view}-account", "--view", pool.name, "--account", "nobody")
    (stat,) = gateway.run("bucket", "stat", view)
    assert stat["view"] == f"{pool.name}/era5/"
    assert view in [found["bucket"] for found in gateway.run("bucket", "ls") if found["view"]]
    s3.create_bucket(Bucket=f"{view}-own")
    assert refused("rm", f"{view}-own")
    pool.put("era5/a", b"1")
    assert keys(s3, view) == ["a"]
    gateway.run("bucket", "rm", view)
    assert code_of(s3.list_objects_v2, Bucket=view) == ("NoSuchBucket", 404)
    assert pool.names() == ["era5/a"]


def test_a_view_of_a_removed_pool_is_unavailable(gateway, s3):
    def status(call, view):
        """The status of the first failure: Ceph's OSDs answer for a removed pool until they have noticed."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                call(view)
            except botocore.exceptions.ClientError as error:
                return error.response["ResponseMetadata"]["HTTPStatusCode"]
        return 200

    list_all = lambda view: s3.list_objects_v2(Bucket=view)
    # Readers of Zarr take 404 for a chunk that nobody has written.
    get = lambda view: s3.get_object(Bucket=view, Key="a")
    for calls in [(get, list_all), (list_all, get)]:
        pool = Pool(gateway)
        view = pool.view()
        pool.put("a", b"1")
        assert get(view)["Body"].read() == b"1"
        pool.benthic("pool", "rm", pool.name, "--yes", pool.name)
        for call in calls:
            assert status(call, view) == 503
        gateway.run("bucket", "rm", view)


def test_a_method_runs_on_an_object_of_a_view(gateway, s3, pool):
    pool.put("a", b"abc")
    view = pool.view()
    call = {"name": "digest.compute", "x-benthic-input": "md5"}
    assert execute(gateway, target(view, "a", **call)) == (200, md5(b"abc"), "gateway")


def test_programs_read_a_view(gateway, pool, tmp_path):
    for name in ["a", "dir/b"]:
        pool.put(name, name.encode())
    view = pool.view()
    aws = program(gateway, tmp_path, "aws", f"{sys.prefix}/bin/aws")
    assert aws("s3", "cp", f"s3://{view}/dir/b", "-") == "dir/b"
    assert aws("s3", "ls", f"s3://{view}").split()[1] == "dir/"
    aws("s3", "sync", f"s3://{view}", "by-aws")
    assert (tmp_path / "by-aws/dir/b").read_text() == "dir/b"
    assert aws("s3", "sync", f"s3://{view}", "by-aws") == ""
    found = shutil.which("rclone")
    assert found, "rclone is missing: `make test-s3` installs it where it can"
    options = ["--s3-provider", "Other", "--s3-env-auth", "--s3-endpoint", gateway.url, "--s3-region", "us-east-1"]
    rclone = program(gateway, tmp_path, "rclone", found, "--config", "", "--retries", "1", *options)
    rclone("copy", f":s3:{view}", "by-rclone")
    assert (tmp_path / "by-rclone/dir/b").read_text() == "dir/b"
    rclone("check", "--download", "by-rclone", f":s3:{view}")


def test_xarray_reads_an_array_with_s3fs(gateway, pool, tmp_path):
    import numpy as np
    import xarray as xr

    values = np.arange(4 * 30 * 60, dtype="f4").reshape(4, 30, 60)
    data = xr.Dataset({"t2m": (("time", "lat", "lon"), values, {"units": "K"})}, {"time": np.arange(4), "lat": np.arange(30.0)})
    data.to_zarr(tmp_path / "era5", zarr_format=3, consolidated=False, encoding={"t2m": {"chunks": (2, 15, 60)}})
    pool.benthic("cp", "-r", str(tmp_path / "era5"), f"{pool.name}/era5/")
    assert OTHER_PYTHON.exists(), "`make s3-clients-env` creates the Python environment for this client"
    with record_operations(gateway, "s3fs"):
        done = subprocess.run(
            [str(OTHER_PYTHON), str(HERE / "with_zarr.py"), pool.view(), gateway.url, sysconfig.get_path("purelib")],
            env=gateway.environment(), cwd=tmp_path, capture_output=True, timeout=300, check=False,
        )
    assert done.returncode == 0, done.stderr.decode()
