"""Objects: writing, reading, deleting and copying them."""

import datetime
import hashlib
import re

import pytest
from raw import send_signed

DATA = bytes(range(256)) * 1_000


def names(page):
    return [entry["Key"] for entry in page.get("Contents", [])]


@pytest.mark.parametrize("size", [0, 1, 4_096, 70_000, 5_000_000, 20_000_000])
def test_objects_are_read_back(s3, bucket, size):
    data = (DATA * (size // len(DATA) + 1))[:size]
    put = s3.put_object(Bucket=bucket, Key="a", Body=data, ContentType="text/x", Metadata={"who": "ada"})
    assert put["ETag"] == f'"{hashlib.md5(data).hexdigest()}"'
    got = s3.get_object(Bucket=bucket, Key="a")
    assert got["Body"].read() == data
    head = s3.head_object(Bucket=bucket, Key="a")
    for answer in (got, head):
        assert (answer["ContentLength"], answer["ETag"]) == (size, put["ETag"])
        assert (answer["ContentType"], answer["Metadata"]) == ("text/x", {"who": "ada"})


@pytest.mark.parametrize(
    "key", ["a/../b", "..", "/", "//x//", "a b+c%d&e", "ü/日本/😀", "x" * 1024, "a\tb", "~", ".", "a/./b", "?x=y#z"]
)
def test_keys_are_data(s3, bucket, key):
    s3.put_object(Bucket=bucket, Key=key, Body=key.encode())
    assert s3.get_object(Bucket=bucket, Key=key)["Body"].read() == key.encode()
    assert names(s3.list_objects_v2(Bucket=bucket)) == [key]
    s3.copy_object(Bucket=bucket, Key="copy", CopySource={"Bucket": bucket, "Key": key})
    assert s3.get_object(Bucket=bucket, Key="copy")["Body"].read() == key.encode()
    s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": key}, {"Key": "copy"}]})
    assert names(s3.list_objects_v2(Bucket=bucket)) == []


def test_a_key_has_a_limit(s3, bucket, code_of):
    assert code_of(s3.put_object, Bucket=bucket, Key="x" * 1025, Body=b"") == ("KeyTooLongError", 400)


def test_ranges(s3, bucket, code_of):
    s3.put_object(Bucket=bucket, Key="a", Body=DATA)
    for header, start, end in [("0-0", 0, 1), ("10-19", 10, 20), ("255990-", 255_990, 256_000), ("-5", 255_995, 256_000),
                               ("100-999999999", 100, 256_000), ("-999999999", 0, 256_000)]:
        got = s3.get_object(Bucket=bucket, Key="a", Range=f"bytes={header}")
        assert got["Body"].read() == DATA[start:end]
        assert got["ContentRange"] == f"bytes {start}-{end - 1}/{len(DATA)}"
        assert got["ResponseMetadata"]["HTTPStatusCode"] == 206
    assert code_of(s3.get_object, Bucket=bucket, Key="a", Range="bytes=256000-") == ("InvalidRange", 416)


def test_a_reader_chooses_headers(s3, bucket):
    s3.put_object(Bucket=bucket, Key="a", Body=b"data", ContentType="text/x", CacheControl="no-store")
    chosen = {
        "ResponseContentType": "text/y", "ResponseCacheControl": "no-cache", "ResponseContentDisposition": "attachment",
        "ResponseContentLanguage": "de", "ResponseExpires": datetime.datetime(2030, 1, 2, 3, 4, 5, tzinfo=datetime.UTC),
    }
    for call in (s3.get_object, s3.head_object):
        answer = call(Bucket=bucket, Key="a", **chosen)["ResponseMetadata"]["HTTPHeaders"]
        assert [answer[name] for name in ("content-type", "cache-control", "content-disposition", "content-language")] == [
            "text/y", "no-cache", "attachment", "de",
        ]
        assert answer["expires"] == "Wed, 02 Jan 2030 03:04:05 GMT"


def test_preconditions(s3, bucket, code_of):
    etag = s3.put_object(Bucket=bucket, Key="a", Body=b"1")["ETag"]
    modified = s3.head_object(Bucket=bucket, Key="a")["LastModified"]
    get = lambda **given: s3.get_object(Bucket=bucket, Key="a", **given)
    assert get(IfMatch=etag)["Body"].read() == b"1"
    assert get(IfNoneMatch='"other"')["Body"].read() == b"1"
    assert get(IfUnmodifiedSince=modified)["Body"].read() == b"1"
    assert code_of(get, IfMatch='"other"') == ("PreconditionFailed", 412)
    assert code_of(get, IfNoneMatch=etag) == ("304", 304)
    assert code_of(get, IfModifiedSince=modified) == ("304", 304)


def test_conditional_writes(s3, bucket, code_of):
    put = lambda **given: s3.put_object(Bucket=bucket, Key="a", Body=b"2", **given)
    assert code_of(put, IfMatch='"x"') == ("NoSuchKey", 404)
    etag = put(IfNoneMatch="*")["ETag"]
    assert code_of(put, IfNoneMatch="*") == ("PreconditionFailed", 412)
    assert code_of(put, IfMatch='"x"') == ("PreconditionFailed", 412)
    put(IfMatch=etag)
    assert code_of(s3.delete_object, Bucket=bucket, Key="a", IfMatch='"x"') == ("PreconditionFailed", 412)
    s3.delete_object(Bucket=bucket, Key="a", IfMatch=etag)
    assert code_of(s3.get_object, Bucket=bucket, Key="a") == ("NoSuchKey", 404)


def test_only_documents_cannot_name_a_key_with_a_control_character(s3, bucket, code_of):
    """As on AWS."""
    s3.put_object(Bucket=bucket, Key="a\x01", Body=b"x")
    assert names(s3.list_objects_v2(Bucket=bucket)) == ["a\x01"]
    assert code_of(s3.delete_objects, Bucket=bucket, Delete={"Objects": [{"Key": "a\x01"}], "Quiet": True}) == ("MalformedXML", 400)
    assert s3.get_object(Bucket=bucket, Key="a\x01")["Body"].read() == b"x"
    s3.delete_object(Bucket=bucket, Key="a\x01")
    assert names(s3.list_objects_v2(Bucket=bucket)) == []


def test_documents_refer_to_control_characters(gateway, s3, bucket):
    """XML cannot have them, so documents have references, as on AWS. boto3 asks for encoded keys."""
    texts = {"a\x01": "a&#x1;", "b\r": "b&#xd;", "c\ue000\ue101": "c\ue000\ue101"}
    for key in texts:
        s3.put_object(Bucket=bucket, Key=key, Body=b"x")
    for query in ("", "?list-type=2", "?versions"):
        status, document = send_signed(gateway, "GET", f"/{bucket}{query}")
        assert (status, re.findall("<Key>(.*?)</Key>", document.decode(), re.DOTALL)) == (200, list(texts.values())), query
    path = f"/{bucket}/a%01"
    status, document = send_signed(gateway, "POST", f"{path}?uploads")
    upload = re.search("<UploadId>(.*?)</UploadId>", document.decode()).group(1)
    part = s3.upload_part(Bucket=bucket, Key="a\x01", UploadId=upload, PartNumber=1, Body=b"part")
    parts = f"<Part><PartNumber>1</PartNumber><ETag>{part['ETag']}</ETag></Part>"
    complete = f"<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>".encode()
    requests = [("GET", f"/{bucket}?uploads", b""), ("GET", f"{path}?uploadId={upload}", b""), ("POST", f"{path}?uploadId={upload}", complete)]
    for method, target, body in requests:
        status, document = send_signed(gateway, method, target, body)
        assert status == 200 and b"<Key>a&#x1;</Key>" in document, target
    assert s3.get_object(Bucket=bucket, Key="a\x01")["Body"].read() == b"part"


def test_deleting_many(s3, bucket):
    for number in range(30):
        s3.put_object(Bucket=bucket, Key=f"k{number:02}", Body=b"x")
    objects = [{"Key": f"k{number:02}"} for number in range(25)] + [{"Key": "missing"}]
    answer = s3.delete_objects(Bucket=bucket, Delete={"Objects": objects})
    assert len(answer["Deleted"]) == 26 and "Errors" not in answer
    assert names(s3.list_objects_v2(Bucket=bucket)) == [f"k{number}" for number in range(25, 30)]
    quiet = s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": "k25"}], "Quiet": True})
    assert "Deleted" not in quiet


def test_copies(s3, bucket, code_of):
    s3.put_object(Bucket=bucket, Key="a", Body=DATA, ContentType="text/x", Metadata={"m": "1"}, Tagging="t=1")
    source = {"Bucket": bucket, "Key": "a"}
    s3.copy_object(Bucket=bucket, Key="b", CopySource=source)
    copy = s3.get_object(Bucket=bucket, Key="b")
    assert (copy["Body"].read(), copy["ContentType"], copy["Metadata"]) == (DATA, "text/x", {"m": "1"})
    assert s3.get_object_tagging(Bucket=bucket, Key="b")["TagSet"] == [{"Key": "t", "Value": "1"}]
    s3.copy_object(Bucket=bucket, Key="b", CopySource=source, MetadataDirective="REPLACE", Metadata={"m": "2"})
    assert s3.head_object(Bucket=bucket, Key="b")["Metadata"] == {"m": "2"}
    assert code_of(s3.copy_object, Bucket=bucket, Key="a", CopySource=source) == ("InvalidRequest", 400)
    s3.copy_object(Bucket=bucket, Key="a", CopySource=source, MetadataDirective="REPLACE", Metadata={})
    s3.delete_object(Bucket=bucket, Key="a")
    assert s3.get_object(Bucket=bucket, Key="b")["Body"].read() == DATA
    missing = {"Bucket": bucket, "Key": "a"}
    assert code_of(s3.copy_object, Bucket=bucket, Key="c", CopySource=missing) == ("NoSuchKey", 404)
    copy = lambda **given: s3.copy_object(Bucket=bucket, Key="c", CopySource={"Bucket": bucket, "Key": "b"}, **given)
    assert code_of(copy, CopySourceIfMatch='"x"') == ("PreconditionFailed", 412)


def test_a_copy_has_the_redirect_of_its_request(s3, bucket):
    s3.put_object(Bucket=bucket, Key="a", Body=b"x", WebsiteRedirectLocation="/there", Metadata={"m": "1"})
    copy = lambda key, **given: s3.copy_object(Bucket=bucket, Key=key, CopySource={"Bucket": bucket, "Key": "a"}, **given)
    redirect = lambda key: s3.head_object(Bucket=bucket, Key=key).get("WebsiteRedirectLocation")
    copy("b")
    copy("c", WebsiteRedirectLocation="/here")
    assert (redirect("a"), redirect("b"), redirect("c")) == ("/there", None, "/here")
    # That is a change, so the copy may replace its source.
    copy("a", WebsiteRedirectLocation="/here")
    assert (redirect("a"), s3.head_object(Bucket=bucket, Key="a")["Metadata"]) == ("/here", {"m": "1"})


def test_tags(s3, bucket, code_of):
    s3.put_object(Bucket=bucket, Key="a", Body=b"x", Tagging="b=2&a=1%20%2B")
    pairs = lambda: {tag["Key"]: tag["Value"] for tag in s3.get_object_tagging(Bucket=bucket, Key="a")["TagSet"]}
    assert pairs() == {"a": "1 +", "b": "2"}
    assert s3.get_object(Bucket=bucket, Key="a")["TagCount"] == 2
    tag = lambda tags: s3.put_object_tagging(Bucket=bucket, Key="a", Tagging={"TagSet": tags})
    tag([{"Key": "c", "Value": ""}])
    assert pairs() == {"c": ""}
    twice = [{"Key": "c", "Value": "1"}, {"Key": "c", "Value": "2"}]
    assert code_of(tag, twice) == ("InvalidTag", 400)
    assert code_of(tag, [{"Key": str(n), "Value": ""} for n in range(11)])[1] == 400
    # No answer in XML can have this character.
    for tagging in ["a=%01", "%00=a"]:
        assert code_of(s3.put_object, Bucket=bucket, Key="a", Body=b"y", Tagging=tagging) == ("InvalidTag", 400)
    s3.delete_object_tagging(Bucket=bucket, Key="a")
    assert pairs() == {}


@pytest.mark.parametrize("algorithm", ["CRC32", "CRC32C", "CRC64NVME", "SHA1", "SHA256"])
def test_checksums_are_stored(s3, bucket, algorithm):
    field = f"Checksum{algorithm}"
    put = s3.put_object(Bucket=bucket, Key="a", Body=DATA, ChecksumAlgorithm=algorithm)
    head = s3.head_object(Bucket=bucket, Key="a", ChecksumMode="ENABLED")
    asked = s3.get_object_attributes(Bucket=bucket, Key="a", ObjectAttributes=["Checksum", "ObjectSize", "ETag"])
    assert put[field] == head[field] == asked["Checksum"][field]
    assert (head["ChecksumType"], asked["ObjectSize"]) == ("FULL_OBJECT", len(DATA))
    assert s3.get_object(Bucket=bucket, Key="a", ChecksumMode="ENABLED")["Body"].read() == DATA
    assert field not in s3.head_object(Bucket=bucket, Key="a")


def test_wrong_checksums_store_nothing(s3, bucket, code_of):
    put = lambda **given: s3.put_object(Bucket=bucket, Key="a", Body=b"data", **given)
    assert code_of(put, ChecksumSHA256="n4bQgYhMfWWaL+qgxVrQFaO/TxsrC4Is0V1sFbDwCgg=") == ("BadDigest", 400)
    assert code_of(put, ChecksumCRC32="AAAAAA==") == ("BadDigest", 400)
    assert code_of(put, ChecksumCRC32="AAAA")[0] == "BadDigest"
    assert code_of(put, ContentMD5="1B2M2Y8AsgTpgAmY7PhCfg==") == ("BadDigest", 400)
    assert code_of(put, ContentMD5="AAAA") == ("InvalidDigest", 400)
    assert code_of(s3.head_object, Bucket=bucket, Key="a") == ("404", 404)


def test_metadata_has_a_limit(s3, bucket, code_of):
    put = lambda size: s3.put_object(Bucket=bucket, Key="a", Body=b"", Metadata={"a": "x" * size})
    put(2_047)
    assert code_of(put, 2_048) == ("MetadataTooLarge", 400)


def test_unimplemented_features_are_refused(s3, bucket, code_of):
    put = lambda **given: s3.put_object(Bucket=bucket, Key="a", Body=b"", **given)
    assert code_of(put, StorageClass="GLACIER") == ("InvalidStorageClass", 400)
    assert code_of(s3.get_bucket_replication, Bucket=bucket)[0] == "NotImplemented"
    assert code_of(s3.head_object, Bucket=bucket, Key="a") == ("404", 404)
