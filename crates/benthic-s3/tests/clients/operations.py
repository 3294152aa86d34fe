"""Records the S3 operations that the tests ran and the client of each, for the table in
docs/reference/s3.md.

`python operations.py` writes that table from target/s3-operations.json, the record of the last
complete test run.
"""

import collections
import contextlib
import json
import pathlib
import re
import textwrap
import urllib.request

import botocore.session

ROOT = pathlib.Path(__file__).parents[4]
RECORD = ROOT / "target" / "s3-operations.json"
PAGE = ROOT / "docs" / "reference" / "s3.md"
SERVICE = ROOT / "crates" / "benthic-s3" / "src" / "gateway" / "service.rs"
# rclone's requests depend on its version. python/requirements-test.txt fixes the versions of the
# other clients.
RCLONE = "rclone v1.60."
BEGIN, END = "<!-- The tests make this table. -->\n", "<!-- The end of the table. -->\n"

NOTES = {
    "CompleteMultipartUpload": "If-Match, If-None-Match; checksums, composite and of the whole; a repetition succeeds",
    "CopyObject": "data are shared, except from plain to encrypted, from SSE-KMS or SSE-C to SSE-S3, and to another storage class; conditions on source and target; up to 5 GiB",
    "CreateBucket": "ACL, ownership, tags, object lock",
    "CreateMultipartUpload": "checksum algorithm and type; lock; encryption",
    "DeleteObject": "versions; If-Match, size and time as conditions; bypass of governance retention",
    "DeleteObjects": "entity tags, sizes and times as conditions; bypass of governance retention",
    "GetBucketVersioning": "no MFA delete",
    "GetObject": "ranges, part numbers, versions, conditions, checksums",
    "GetObjectAttributes": "parts with their checksums",
    "ListBuckets": "the caller's own; prefix, pages, region",
    "ListObjectVersions": "`version-id-marker` must come from a listing",
    "ListObjects": "prefix, delimiter, markers, `encoding-type=url`",
    "ListObjectsV2": "prefix, delimiter, markers, `encoding-type=url`",
    "PostObject": "forms with a policy",
    "PutBucketAcl": "canned or with grants to accounts and groups",
    "PutBucketEncryption": "SSE-S3 and SSE-KMS",
    "PutBucketOwnershipControls": "BucketOwnerEnforced, BucketOwnerPreferred, ObjectWriter; without it, objects belong to the owner of the bucket",
    "PutBucketLifecycleConfiguration": "see [Storage classes](#storage-classes)",
    "PutBucketPolicy": "the elements, operators and keys in [the guide](../guide/s3.md#policies)",
    "PutBucketCors": "with preflight requests",
    "PutBucketNotificationConfiguration": "TopicConfiguration and QueueConfiguration; see [Events](#events)",
    "PutBucketVersioning": "no MFA delete",
    "PutBucketLogging": "simple and partitioned keys; no target grants",
    "PutBucketRequestPayment": "nobody is charged",
    "PutBucketWebsite": "served with `--website-domain`",
    "PutObject": "If-Match, If-None-Match; metadata, tags, ACL, lock, encryption; checksums in head and trailer, Content-MD5; appending",
    "SelectObjectContent": "CSV, JSON and Parquet; see [Select](#select)",
    "PutObjectAcl": "canned or with grants to accounts and groups",
    "PutObjectLockConfiguration": "a default period, also for a bucket that exists and has versions",
    "RenameObject": "in buckets without versions",
}

record = collections.defaultdict(set)


def record_operation(model, http_response, **_):
    """Records an operation that botocore reports after a successful call."""
    if http_response.status_code < 300:
        record[model.name].add("boto3")


def operation_counts(gateway):
    """How often each operation was begun, from the gateway's metrics."""
    with urllib.request.urlopen(f"{gateway.url}/-/metrics") as answer:
        found = re.findall(r'operations_total\{operation="(\w+)"\} (\d+)', answer.read().decode())
    return collections.Counter({name: int(count) for name, count in found})


@contextlib.contextmanager
def record_operations(gateway, client):
    """Records the operations of a client that does not report their names; skips them if the
    client failed.
    """
    before = operation_counts(gateway)
    yield
    for name in operation_counts(gateway) - before:
        record[name].add(client)


def all_operations():
    """The names of all operations of S3, and of those that the gateway implements."""
    model = botocore.session.get_session().get_service_model("s3")
    there = set(re.findall(r"^    \w+: (\w+)Input -> ", SERVICE.read_text(), re.MULTILINE)) | {"PostObject"}
    # Lambda functions send the first to a separate host. The others are old forms of operations that the gateway has.
    old = {verb + name for verb in ["Get", "Put"] for name in ["BucketLifecycle", "BucketNotification"]}
    names = {*model.operation_names, *there} - {"WriteGetObjectResponse"} - old
    return sorted(names), there


def table(recorded):
    names, there = all_operations()
    lines = ["| operation | notes | tested with |", "| --- | --- | --- |"]
    row = lambda name: f"| {name} | {NOTES.get(name, '')} | {', '.join(recorded.get(name, []))} |".replace("|  |", "| |")
    lines += [row(name) for name in names if name in there]
    missing = ", ".join(name for name in names if name not in there)
    text = f"These operations answer `NotImplemented` (501), which the tests check for each: {missing}."
    return "\n".join(lines) + "\n\n" + textwrap.fill(text, 140) + "\n"


def page(recorded):
    before, rest = PAGE.read_text().split(BEGIN)
    return before + BEGIN + "\n" + table(recorded) + "\n" + END + rest.split(END)[1]


def save():
    recorded = {name: sorted(clients) for name, clients in sorted(record.items())}
    RECORD.write_text(json.dumps(recorded, indent=1) + "\n")
    return recorded


if __name__ == "__main__":
    PAGE.write_text(page(json.loads(RECORD.read_text())))
