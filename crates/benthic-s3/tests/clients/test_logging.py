"""Server access logs, and appending to objects."""

import concurrent.futures
import json
import re
import shlex
import time
import uuid

import pytest
from gateway import LONG, running
from test_upstream import metric

FIELDS = """owner bucket time address requester request operation key uri status error sent size total turnaround referer agent version
host_id signature cipher auth host tls access_point acl""".split()


@pytest.fixture
def logging_gateway(tmp_path):
    with running("file", tmp_path, "--access-log-every", "1") as gateway:
        yield gateway


def allow(s3, target, source, prefix="log/", principal="logging.s3.amazonaws.com", action="s3:PutObject"):
    """Lets the service write the log of a bucket, with the policy that AWS documents."""
    statement = {
        "Sid": "S3ServerAccessLogsPolicy",
        "Effect": "Allow",
        "Principal": {"Service": principal},
        "Action": action,
        "Resource": f"arn:aws:s3:::{target}/{prefix}*",
        "Condition": {
            "ArnLike": {"aws:SourceArn": f"arn:aws:s3:::{source}"},
            "StringEquals": {"aws:SourceAccount": "main"},
        },
    }
    s3.put_bucket_policy(Bucket=target, Policy=json.dumps({"Version": "2012-10-17", "Statement": [statement]}))


def enable(s3, source, target, prefix="log/", **more):
    enabled = {"TargetBucket": target, "TargetPrefix": prefix, **more}
    s3.put_bucket_logging(Bucket=source, BucketLoggingStatus={"LoggingEnabled": enabled})


def parse(line):
    fields = shlex.split(line.replace("[", '"').replace("]", '"'))
    assert len(fields) == len(FIELDS), line
    return dict(zip(FIELDS, fields, strict=True))


def lines(s3, target, prefix="log/"):
    keys = [entry["Key"] for entry in s3.list_objects_v2(Bucket=target, Prefix=prefix).get("Contents", [])]
    texts = [s3.get_object(Bucket=target, Key=key)["Body"].read().decode() for key in keys]
    return [parse(line) for text in texts for line in text.splitlines()]


def wait_for(s3, target, operation, prefix="log/"):
    """The lines, once there is one about the operation."""
    for _ in range(100):
        found = lines(s3, target, prefix)
        if any(line["operation"] == operation for line in found):
            return found
        time.sleep(0.1)
    raise AssertionError((operation, found))


def test_requests_become_lines(logging_gateway):
    s3 = logging_gateway.client(user_agent="agent \"with\" quotes")
    s3.create_bucket(Bucket="source")
    s3.create_bucket(Bucket="logs")
    allow(s3, "logs", "source")
    assert "LoggingEnabled" not in s3.get_bucket_logging(Bucket="source")
    enable(s3, "source", "logs")
    enabled = {"TargetBucket": "logs", "TargetPrefix": "log/", "TargetObjectKeyFormat": {"SimplePrefix": {}}}
    assert s3.get_bucket_logging(Bucket="source")["LoggingEnabled"] == enabled
    written = s3.put_object(Bucket="source", Key="a b/\u00e9", Body=b"12345")
    s3.get_object(Bucket="source", Key="a b/\u00e9", Range="bytes=1-2")["Body"].read()
    with pytest.raises(s3.exceptions.NoSuchKey):
        s3.get_object(Bucket="source", Key="missing")
    s3.copy_object(Bucket="source", Key="copy", CopySource={"Bucket": "source", "Key": "a b/\u00e9"})
    s3.list_objects_v2(Bucket="source")
    s3.delete_objects(Bucket="source", Delete={"Objects": [{"Key": "copy"}, {"Key": "other"}]})
    s3.delete_object(Bucket="source", Key="a b/\u00e9")
    found = wait_for(s3, "logs", "REST.DELETE.OBJECT")
    assert {line["bucket"] for line in found} == {"source"} and {line["owner"] for line in found} == {"main"}
    assert all(line["requester"].startswith("arn:aws:iam::main:user/") for line in found)
    by_operation = {line["operation"]: line for line in found}
    put, get = by_operation["REST.PUT.OBJECT"], [line for line in found if line["operation"] == "REST.GET.OBJECT"]
    assert (put["key"], put["status"], put["size"], put["error"]) == ("a%20b/%C3%A9", "200", "5", "-")
    assert put["uri"].startswith("PUT /source/a%20b/%C3%A9 HTTP/1.1") and put["address"] == "127.0.0.1"
    assert (put["signature"], put["auth"], put["tls"], put["acl"]) == ("SigV4", "AuthHeader", "-", "-")
    assert "agent %22with%22 quotes" in put["agent"]
    assert re.fullmatch(r"\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d \+0000", put["time"])
    assert sorted((line["status"], line["error"], line["sent"], line["size"]) for line in get)[0] == ("206", "-", "2", "5")
    missing = [line for line in get if line["status"] == "404"]
    assert [line["error"] for line in missing] == ["NoSuchKey"] and int(missing[0]["sent"]) > 50
    assert {"REST.COPY.OBJECT", "REST.COPY.OBJECT_GET", "REST.GET.BUCKET", "REST.POST.MULTI_OBJECT_DELETE"} <= set(by_operation)
    batch = [(line["key"], line["status"]) for line in found if line["operation"] == "BATCH.DELETE.OBJECT"]
    assert sorted(batch) == [("copy", "204"), ("other", "204")]
    # The deletions and the read of the copy have the ids of their requests.
    assert len({line["request"] for line in found}) == len(found) - 3
    assert put["request"] == written["ResponseMetadata"]["RequestId"]
    # Reading the log and writing it makes no lines, and a stop writes the rest.
    count = len(lines(s3, "logs"))
    s3.put_object(Bucket="source", Key="late", Body=b"")
    logging_gateway.stop()
    logging_gateway.start()
    s3 = logging_gateway.client()
    found = lines(s3, "logs")
    # Log objects of one second have no order.
    assert len(found) == count + 1 and [line["key"] for line in found].count("late") == 1
    s3.put_bucket_logging(Bucket="source", BucketLoggingStatus={})
    assert "LoggingEnabled" not in s3.get_bucket_logging(Bucket="source")


def test_forms_of_keys_and_encrypted_targets(logging_gateway):
    s3 = logging_gateway.client()
    for bucket in ("source", "logs"):
        s3.create_bucket(Bucket=bucket)
    rule = {"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}
    s3.put_bucket_encryption(Bucket="logs", ServerSideEncryptionConfiguration={"Rules": [rule]})
    for source in ("DeliveryTime", "EventTime"):
        allow(s3, "logs", "source", prefix=source)
        enable(s3, "source", "logs", source, TargetObjectKeyFormat={"PartitionedPrefix": {"PartitionDateSource": source}})
        s3.put_object(Bucket="source", Key="k", Body=b"x")
        wait_for(s3, "logs", "REST.PUT.OBJECT", source)
        (key,) = {re.sub(r"[0-9A-F]{16}$", "U", entry["Key"]) for entry in s3.list_objects_v2(Bucket="logs", Prefix=source)["Contents"][:1]}
        clock = "00-00-00" if source == "EventTime" else r"\d\d-\d\d-\d\d"
        assert re.fullmatch(source + r"main/us-east-1/source/(\d{4})/(\d\d)/(\d\d)/\1-\2-\3-" + clock + "-U", key), key
    (entry, *_) = s3.list_objects_v2(Bucket="logs")["Contents"]
    assert s3.head_object(Bucket="logs", Key=entry["Key"])["ServerSideEncryption"] == "AES256"


def test_targets_that_are_refused(s3, bucket, code_of):
    target = f"{bucket}-logs"
    s3.create_bucket(Bucket=target)
    put = lambda name=target, **more: enable(s3, bucket, name, **more)
    assert code_of(put) == ("AccessDenied", 403)
    for wrong in ({"principal": "logging.s3.amazonaws.comx"}, {"action": "s3:GetObject"}, {"prefix": "other/"}):
        allow(s3, target, bucket, **wrong)
        assert code_of(put) == ("AccessDenied", 403), wrong
    allow(s3, target, "another-bucket")
    assert code_of(put) == ("AccessDenied", 403)
    everybody = {"Effect": "Allow", "Principal": {"AWS": "*"}, "Action": "s3:*", "Resource": f"arn:aws:s3:::{target}/*"}
    s3.put_bucket_policy(Bucket=target, Policy=json.dumps({"Version": "2012-10-17", "Statement": [everybody]}))
    assert code_of(put) == ("AccessDenied", 403)
    allow(s3, target, bucket)
    assert code_of(put, f"{bucket}-missing") == ("InvalidTargetBucketForLogging", 400)
    assert code_of(put, bucket) == ("InvalidArgument", 400)
    grantee = {"Type": "CanonicalUser", "ID": "main"}
    grants = [{"Grantee": grantee, "Permission": "READ"}]
    assert code_of(put, TargetGrants=grants) == ("AccessControlListNotSupported", 400)
    wrong = {"PartitionedPrefix": {"PartitionDateSource": "Sometime"}}
    assert code_of(put, TargetObjectKeyFormat=wrong) == ("MalformedXML", 400)
    put()
    s3.put_bucket_request_payment(Bucket=target, RequestPaymentConfiguration={"Payer": "Requester"})
    assert code_of(put) == ("InvalidArgument", 400)


def test_lines_that_the_target_refuses_are_counted(logging_gateway):
    s3 = logging_gateway.client()
    for bucket in ("source", "logs"):
        s3.create_bucket(Bucket=bucket)
    allow(s3, "logs", "source")
    enable(s3, "source", "logs")
    s3.delete_bucket_policy(Bucket="logs")
    s3.put_object(Bucket="source", Key="k", Body=b"x")
    for _ in range(100):
        if metric(logging_gateway, "dropped_log_lines_total"):
            break
        time.sleep(0.1)
    assert metric(logging_gateway, "dropped_log_lines_total") >= 1
    assert "Contents" not in s3.list_objects_v2(Bucket="logs")


def test_data_are_appended(s3, bucket, code_of):
    put = lambda offset, body, **more: s3.put_object(Bucket=bucket, Key="log", Body=body, WriteOffsetBytes=offset, **more)
    assert code_of(put, 5, b"x") == ("InvalidWriteOffset", 400)
    put(0, b"one,", Metadata={"who": "ada"})
    appended = put(4, b"two,", ChecksumAlgorithm="CRC32")
    assert appended["Size"] == 8 and appended["ETag"].endswith('-2"')
    for wrong in (0, 4, 9):
        assert code_of(put, wrong, b"x") == ("InvalidWriteOffset", 400), wrong
    assert code_of(put, -1, b"x") == ("InvalidArgument", 400)
    assert code_of(put, 8, b"x", Metadata={"a": "b"}) == ("InvalidRequest", 400)
    assert code_of(put, 8, b"x", IfMatch='"0"') == ("PreconditionFailed", 412)
    put(8, b"three", IfMatch=appended["ETag"])
    got = s3.get_object(Bucket=bucket, Key="log", ChecksumMode="ENABLED")
    # boto3 verifies the checksum of the whole.
    assert got["Body"].read() == b"one,two,three" and got["Metadata"] == {"who": "ada"}
    assert got["ChecksumType"] == "FULL_OBJECT"
    sums = s3.put_object(Bucket=bucket, Key="sha", Body=b"x", ChecksumAlgorithm="SHA256")
    assert "ChecksumSHA256" in sums
    assert code_of(s3.put_object, Bucket=bucket, Key="sha", Body=b"y", WriteOffsetBytes=1) == ("InvalidRequest", 400)
    s3.copy_object(Bucket=bucket, Key="copy", CopySource={"Bucket": bucket, "Key": "log"})
    assert code_of(s3.put_object, Bucket=bucket, Key="copy", Body=b"y", WriteOffsetBytes=13) == ("NotImplemented", 501)


def test_one_of_many_appends_wins(s3, bucket):
    s3.put_object(Bucket=bucket, Key="log", Body=b"")
    parts = [f"<{number}>".encode() for number in range(8)]

    def append(part):
        while True:
            size = s3.head_object(Bucket=bucket, Key="log")["ContentLength"]
            try:
                return s3.put_object(Bucket=bucket, Key="log", Body=part, WriteOffsetBytes=size)
            except s3.exceptions.ClientError as error:
                assert error.response["Error"]["Code"] in ("InvalidWriteOffset", "OperationAborted"), error

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(append, parts))
    data = s3.get_object(Bucket=bucket, Key="log")["Body"].read()
    assert sorted(re.findall(rb"<\d>", data)) == parts and len(data) == 24


@pytest.mark.skipif(not LONG, reason="`make test-long` runs it")
def test_an_object_has_at_most_10000_pieces(s3, bucket, code_of):
    piece = lambda number: f"piece {number:05}\n".encode()
    for number in range(10_000):
        s3.put_object(Bucket=bucket, Key="log", Body=piece(number), WriteOffsetBytes=12 * number)
    assert code_of(s3.put_object, Bucket=bucket, Key="log", Body=b"x", WriteOffsetBytes=120_000) == ("TooManyParts", 400)
    # boto3 verifies the checksum of the whole.
    got = s3.get_object(Bucket=bucket, Key="log", ChecksumMode="ENABLED")
    assert got["Body"].read() == b"".join(map(piece, range(10_000))) and got["ETag"].endswith('-10000"')


def test_appending_to_encrypted_objects_and_with_versions(s3, bucket, code_of):
    s3.put_object(Bucket=bucket, Key="k", Body=b"a" * 70_000, ServerSideEncryption="AES256")
    answer = s3.put_object(Bucket=bucket, Key="k", Body=b"b" * 70_000, WriteOffsetBytes=70_000)
    assert answer["ServerSideEncryption"] == "AES256"
    got = s3.get_object(Bucket=bucket, Key="k")
    assert got["Body"].read() == b"a" * 70_000 + b"b" * 70_000 and got["ServerSideEncryption"] == "AES256"
    name = f"versions-{uuid.uuid4().hex[:8]}"
    s3.create_bucket(Bucket=name)
    s3.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Enabled"})
    assert code_of(s3.put_object, Bucket=name, Key="k", Body=b"x", WriteOffsetBytes=0) == ("NotImplemented", 501)
