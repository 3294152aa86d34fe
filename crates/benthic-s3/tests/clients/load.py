"""Concurrent writers, and an oracle of the results that reads may return during and after the
load.
"""

import contextlib
import dataclasses
import hashlib
import itertools
import math
import random
import re
import threading
import time

import botocore.exceptions

PART_BYTES = 5 << 20
SIZES = [20, 4_096, 70_000, 300_000]
KEYS = 16
THREADS = 6
UNANSWERED = (
    botocore.exceptions.HTTPClientError, botocore.exceptions.ConnectionError, botocore.exceptions.IncompleteReadError,
)
STAMP = re.compile(rb"([0-9]{9}) ([0-9]{8});")


def content(number, size):
    """Data in which every 19 bytes name the write and its size."""
    stamp = b"%09d %08d;" % (number, size)
    return (stamp * (size // len(stamp) + 1))[:size]


def number_of(data):
    """Returns the write that the data belong to, after checking that the data are complete and
    unmixed.
    """
    number, size = map(int, STAMP.match(data).groups())
    assert data == content(number, size), f"{len(data)} bytes differ from those of write {number}"
    return number


@dataclasses.dataclass(eq=False)
class Write:
    """The effect of one request on a key. It happens at one moment between `begun` and `ended`,
    or possibly not at all if `ended` is infinite.
    """

    number: int
    key: str
    begun: float = -math.inf
    ended: float = math.inf
    deletes: bool = False
    copies: bool = False
    size: int | None = None
    etag: str | None = None
    version: str | None = None

    @property
    def is_acknowledged(self):
        return self.ended < math.inf


class Load:
    """Threads that put, overwrite, copy, upload in parts, delete, read and list a few keys of a
    bucket.
    """

    def __init__(self, clients, bucket, seed, errors_allowed=(), late=False):
        self.clients = clients
        self.bucket = bucket
        self.random = random.Random(seed)
        self.errors_allowed = set(errors_allowed)
        # Whether an unacknowledged write may still become visible after its gateway died.
        self.late = late
        self.keys = [f"dir{number % 3}/key {number}" for number in range(KEYS)]
        self.numbers = itertools.count(1)
        self.lock = threading.Lock()
        self.writes = {}
        self.history = {key: [Write(0, key, ended=-math.inf, deletes=True)] for key in self.keys}
        self.ended_uploads = set()
        self.unexpected = []
        self.acknowledged = self.failed = 0
        self.progress = threading.Condition(self.lock)
        self.stopping = threading.Event()
        self.threads = []

    @property
    def client(self):
        """A client of a random gateway."""
        return random.choice(self.clients)

    def begin(self):
        self.stopping.clear()
        seeds = [self.random.random() for _ in range(THREADS)]
        self.threads = [threading.Thread(target=self._work, args=(random.Random(seed),)) for seed in seeds]
        for thread in self.threads:
            thread.start()

    def wait(self, count, timeout=120):
        """Waits until `count` more requests are acknowledged."""
        with self.progress:
            wanted = self.acknowledged + count
            assert self.progress.wait_for(lambda: self.acknowledged >= wanted or self.unexpected, timeout), "the load makes no progress"

    def end(self):
        self.stopping.set()
        for thread in self.threads:
            thread.join()
        assert not self.unexpected, self.unexpected

    @contextlib.contextmanager
    def running(self):
        self.begin()
        try:
            yield
        finally:
            self.end()

    def check(self, client):
        """Checks every key and the listing against the oracle. No writer may run meanwhile."""
        found = {}
        for key in self.keys:
            write = self._read(client, key)
            if not write.deletes:
                found[key] = (write.etag, write.size)
            late = [other for other in self.history[key] if self.late and not other.is_acknowledged and other is not write]
            self.history[key] = [dataclasses.replace(write, begun=-math.inf, ended=-math.inf), *late]
        pages = client.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, PaginationConfig={"PageSize": 7})
        entries = [entry for page in pages for entry in page.get("Contents", [])]
        assert {entry["Key"]: (entry["ETag"], entry["Size"]) for entry in entries} == found
        return {"objects": len(found), "bytes": sum(size for _, size in found.values())}

    def check_versions(self, client):
        """Checks that every acknowledged version exists, and that every existing version is
        complete and of one write.
        """
        pages = list(client.get_paginator("list_object_versions").paginate(Bucket=self.bucket))
        name = lambda entry: (entry["Key"], entry["VersionId"])
        versions = {name(entry): entry for page in pages for entry in page.get("Versions", [])}
        markers = {name(entry) for page in pages for entry in page.get("DeleteMarkers", [])}
        for write in self.writes.values():
            if write.is_acknowledged:
                assert (write.key, write.version) in (markers if write.deletes else versions), write
        for (key, version), entry in versions.items():
            got = client.get_object(Bucket=self.bucket, Key=key, VersionId=version)
            write = self._identify(key, got)
            assert entry["ETag"] == got["ETag"] and write.version in (version, None)
        return {"versions": len(versions), "delete_markers": len(markers), "bytes": sum(entry["Size"] for entry in versions.values())}

    def empty(self, client):
        """Removes everything in the bucket, including uploads. Completed and aborted uploads must
        not be listed.
        """
        uploads = client.list_multipart_uploads(Bucket=self.bucket).get("Uploads", [])
        assert not self.ended_uploads & {upload["UploadId"] for upload in uploads}
        for upload in uploads:
            client.abort_multipart_upload(Bucket=self.bucket, Key=upload["Key"], UploadId=upload["UploadId"])
        for page in client.get_paginator("list_object_versions").paginate(Bucket=self.bucket):
            entries = page.get("Versions", []) + page.get("DeleteMarkers", [])
            objects = [{"Key": entry["Key"], "VersionId": entry["VersionId"]} for entry in entries]
            if objects:
                assert "Errors" not in client.delete_objects(Bucket=self.bucket, Delete={"Objects": objects, "Quiet": True})

    def _work(self, rng):
        choices = [self._put] * 8 + [self._delete] * 2 + [self._delete_many, self._abort, self._list] + [self._copy] * 3
        choices += [self._upload] * 2 + [self._get] * 6
        while not self.stopping.is_set():
            try:
                rng.choice(choices)(rng, rng.choice(self.keys))
                self._count("acknowledged")
            except botocore.exceptions.ClientError as error:
                self._refused(error.response)
            except UNANSWERED as error:
                self._count("failed")
                if "connection" not in self.errors_allowed:
                    self._report_unexpected(error)
                self.stopping.wait(0.02)
            except Exception as error:
                self._report_unexpected(error)

    def _refused(self, response):
        code, status = response["Error"]["Code"], response["ResponseMetadata"]["HTTPStatusCode"]
        self._count("failed")
        # NoSuchKey is allowed: another thread may have deleted the source of a copy.
        if code != "NoSuchKey" and status not in self.errors_allowed:
            self._report_unexpected(response)

    def _report_unexpected(self, what):
        with self.progress:
            self.unexpected.append(what)
            self.progress.notify_all()
        self.stopping.set()

    def _count(self, what):
        with self.progress:
            setattr(self, what, getattr(self, what) + 1)
            self.progress.notify_all()

    def _begin(self, key, number=None, **given):
        with self.lock:
            write = Write(number or next(self.numbers), key, time.monotonic(), **given)
            self.writes[write.number] = write
            self.history[key].append(write)
            return write

    def _acknowledge(self, write, answer):
        with self.lock:
            write.ended = time.monotonic()
            write.version = answer.get("VersionId")

    def _put(self, rng, key):
        size = rng.choice(SIZES)
        write = self._begin(key, size=size)
        data = content(write.number, size)
        write.etag = f'"{hashlib.md5(data).hexdigest()}"'
        metadata = {"write": str(write.number)}
        answer = self.client.put_object(Bucket=self.bucket, Key=key, Body=data, Metadata=metadata)
        assert answer["ETag"] == write.etag
        self._acknowledge(write, answer)

    def _copy(self, rng, key):
        source = rng.choice([other for other in self.keys if other != key])
        write = self._begin(key, copies=True)
        answer = self.client.copy_object(
            Bucket=self.bucket, Key=key, CopySource={"Bucket": self.bucket, "Key": source},
            Metadata={"write": str(write.number)}, MetadataDirective="REPLACE",
        )
        write.etag = answer["CopyObjectResult"]["ETag"]
        self._acknowledge(write, answer)

    def _parts(self, rng, key):
        """Uploads parts without completing the upload. The data carry the number of a write that
        has not begun yet.
        """
        size = PART_BYTES + rng.choice(SIZES) if rng.random() < 0.1 else rng.choice(SIZES)
        with self.lock:
            number = next(self.numbers)
        metadata = {"write": str(number)}
        upload = self.client.create_multipart_upload(Bucket=self.bucket, Key=key, Metadata=metadata)["UploadId"]
        data = content(number, size)
        parts, digests = [], b""
        for start in range(0, size, PART_BYTES):
            piece = data[start : start + PART_BYTES]
            digests += hashlib.md5(piece).digest()
            answer = self.client.upload_part(
                Bucket=self.bucket, Key=key, UploadId=upload, PartNumber=len(parts) + 1, Body=piece
            )
            parts.append({"PartNumber": len(parts) + 1, "ETag": answer["ETag"]})
        etag = f'"{hashlib.md5(digests).hexdigest()}-{len(parts)}"'
        return upload, parts, number, size, etag

    def _upload(self, rng, key):
        upload, parts, number, size, etag = self._parts(rng, key)
        write = self._begin(key, number=number, size=size, etag=etag)
        answer = self.client.complete_multipart_upload(
            Bucket=self.bucket, Key=key, UploadId=upload, MultipartUpload={"Parts": parts}
        )
        assert answer["ETag"] == etag
        self._acknowledge(write, answer)
        self.ended_uploads.add(upload)

    def _abort(self, rng, key):
        upload, *_ = self._parts(rng, key)
        self.client.abort_multipart_upload(Bucket=self.bucket, Key=key, UploadId=upload)
        self.ended_uploads.add(upload)

    def _delete(self, rng, key):
        write = self._begin(key, deletes=True)
        self._acknowledge(write, self.client.delete_object(Bucket=self.bucket, Key=key))

    def _delete_many(self, rng, key):
        writes = {key: self._begin(key, deletes=True) for key in rng.sample(self.keys, 3)}
        objects = [{"Key": key} for key in writes]
        answer = self.client.delete_objects(Bucket=self.bucket, Delete={"Objects": objects})
        for deleted in answer.get("Deleted", []):
            version = deleted.get("DeleteMarkerVersionId")
            self._acknowledge(writes[deleted["Key"]], {"VersionId": version} if version else {})

    def _get(self, rng, key):
        self._read(self.client, key)

    def _list(self, rng, key):
        listed = self.client.list_objects_v2(Bucket=self.bucket, Prefix=rng.choice(["", "dir0/", "dir1/"]))
        for entry in listed.get("Contents", []):
            assert entry["Key"] in self.history

    def _read(self, client, key):
        begun = time.monotonic()
        try:
            got = client.get_object(Bucket=self.bucket, Key=key)
            write = self._identify(key, got)
        except client.exceptions.NoSuchKey:
            got = write = None
        ended = time.monotonic()
        with self.lock:
            allowed = self._allowed(key, begun, ended)
        if write is None:
            deletes = [other for other in allowed if other.deletes]
            assert deletes, f"{key} does not exist, but one of these writes must be visible: {allowed}"
            # Any delete would do. Take the latest one.
            return max(deletes, key=lambda write: write.begun)
        assert write.number in [other.number for other in allowed], f"{key} reads as {write}, but one of these writes must be visible: {allowed}"
        write.etag, write.size = got["ETag"], got["ContentLength"]
        return write

    def _identify(self, key, got):
        """Returns the write that an answer shows: data, entity tag and metadata must be of the
        same write.
        """
        data = got["Body"].read()
        author = number_of(data)
        with self.lock:
            write = self.writes.get(int(got["Metadata"]["write"]))
        assert write and write.key == key, (key, got["Metadata"])
        assert write.etag in (got["ETag"], None), (write, got["ETag"])
        assert write.copies or author == write.number, (write, author)
        if "-" not in got["ETag"]:
            assert got["ETag"] == f'"{hashlib.md5(data).hexdigest()}"'
        return write

    def _allowed(self, key, begun, ended):
        """The writes that a read may return: begun before the read ended, and not certainly
        overwritten before the read began.
        """
        writes = [write for write in self.history[key] if write.begun < ended]
        over = max((write.begun for write in writes if write.ended < begun), default=-math.inf)
        return [write for write in writes if write.ended >= over]
