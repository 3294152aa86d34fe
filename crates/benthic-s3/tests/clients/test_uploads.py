"""Multipart uploads."""

import hashlib

import pytest

MIB = 1 << 20
PART = bytes(range(256)) * (5 * MIB // 256)


def begin(s3, bucket, key="a", **given):
    return s3.create_multipart_upload(Bucket=bucket, Key=key, **given)["UploadId"]


def put(s3, bucket, upload, number, data, key="a", **given):
    answer = s3.upload_part(Bucket=bucket, Key=key, UploadId=upload, PartNumber=number, Body=data, **given)
    return {"PartNumber": number, "ETag": answer["ETag"]}


def complete(s3, bucket, upload, parts, key="a", **given):
    return s3.complete_multipart_upload(
        Bucket=bucket, Key=key, UploadId=upload, MultipartUpload={"Parts": parts}, **given
    )


def test_an_object_of_parts(s3, bucket):
    upload = begin(s3, bucket, Metadata={"m": "1"}, ContentType="text/x")
    parts = [put(s3, bucket, upload, number, PART[number:] + b"x" * number) for number in (1, 3)]
    parts.append(put(s3, bucket, upload, 7, b"end"))
    put(s3, bucket, upload, 9, b"left out")
    listed = s3.list_parts(Bucket=bucket, Key="a", UploadId=upload)
    assert [part["PartNumber"] for part in listed["Parts"]] == [1, 3, 7, 9]
    assert [found["Key"] for found in s3.list_multipart_uploads(Bucket=bucket)["Uploads"]] == ["a"]
    done = complete(s3, bucket, upload, parts)
    whole = PART[1:] + b"x" + PART[3:] + b"xxx" + b"end"
    md5s = b"".join(hashlib.md5(data).digest() for data in (PART[1:] + b"x", PART[3:] + b"xxx", b"end"))
    assert done["ETag"] == f'"{hashlib.md5(md5s).hexdigest()}-3"'
    got = s3.get_object(Bucket=bucket, Key="a")
    assert got["Body"].read() == whole
    assert (got["Metadata"], got["ContentType"], got["ETag"]) == ({"m": "1"}, "text/x", done["ETag"])
    second = s3.get_object(Bucket=bucket, Key="a", PartNumber=2)
    assert (second["Body"].read(), second["PartsCount"]) == (PART[3:] + b"xxx", 3)
    assert "Uploads" not in s3.list_multipart_uploads(Bucket=bucket)
    again = complete(s3, bucket, upload, parts)
    assert again["ETag"] == done["ETag"]


def test_the_last_write_of_a_part_wins(s3, bucket):
    upload = begin(s3, bucket)
    old = put(s3, bucket, upload, 1, b"old")
    new = put(s3, bucket, upload, 1, b"new")
    with pytest.raises(s3.exceptions.ClientError, match="InvalidPart"):
        complete(s3, bucket, upload, [old])
    complete(s3, bucket, upload, [new])
    assert s3.get_object(Bucket=bucket, Key="a")["Body"].read() == b"new"


def test_invalid_parts_are_refused(s3, bucket, code_of):
    upload = begin(s3, bucket)
    first, second = put(s3, bucket, upload, 1, b"small"), put(s3, bucket, upload, 2, b"end")
    done = lambda parts: complete(s3, bucket, upload, parts)
    assert code_of(done, [second, first]) == ("InvalidPartOrder", 400)
    assert code_of(done, [first, first]) == ("InvalidPartOrder", 400)
    assert code_of(done, [first, second]) == ("EntityTooSmall", 400)
    assert code_of(done, [first | {"PartNumber": 3}]) == ("InvalidPart", 400)
    assert code_of(done, [])[0] == "MalformedXML"
    assert code_of(put, s3, bucket, upload, 10_001, b"") == ("InvalidArgument", 400)
    assert code_of(put, s3, bucket, "0" * 32, 1, b"") == ("NoSuchUpload", 404)
    assert code_of(put, s3, bucket, "no upload", 1, b"") == ("NoSuchUpload", 404)
    assert code_of(s3.head_object, Bucket=bucket, Key="a") == ("404", 404)
    done([second])
    assert s3.get_object(Bucket=bucket, Key="a")["Body"].read() == b"end"


def test_an_upload_is_aborted(s3, bucket, code_of):
    upload = begin(s3, bucket)
    part = put(s3, bucket, upload, 1, b"x")
    s3.abort_multipart_upload(Bucket=bucket, Key="a", UploadId=upload)
    assert code_of(complete, s3, bucket, upload, [part]) == ("NoSuchUpload", 404)
    assert code_of(s3.list_parts, Bucket=bucket, Key="a", UploadId=upload) == ("NoSuchUpload", 404)
    assert code_of(s3.abort_multipart_upload, Bucket=bucket, Key="a", UploadId=upload) == ("NoSuchUpload", 404)


def test_parts_are_copied(s3, bucket, code_of):
    s3.put_object(Bucket=bucket, Key="source", Body=PART + b"tail")
    upload = begin(s3, bucket)
    source = {"Bucket": bucket, "Key": "source"}
    copy = lambda number, **given: {
        "PartNumber": number,
        "ETag": s3.upload_part_copy(
            Bucket=bucket, Key="a", UploadId=upload, PartNumber=number, CopySource=source, **given
        )["CopyPartResult"]["ETag"],
    }
    parts = [copy(1), copy(2, CopySourceRange="bytes=5242880-5242883")]
    complete(s3, bucket, upload, parts)
    assert s3.get_object(Bucket=bucket, Key="a")["Body"].read() == PART + b"tail" + b"tail"
    upload = begin(s3, bucket)
    assert code_of(copy, 1, CopySourceRange="bytes=0-99999999") == ("InvalidRange", 416)
    assert code_of(copy, 1, CopySourceRange="bytes=0-")[0] == "InvalidArgument"


@pytest.mark.parametrize(
    "algorithm, kind",
    [("CRC32", "COMPOSITE"), ("CRC32", "FULL_OBJECT"), ("CRC32C", "FULL_OBJECT"), ("CRC64NVME", "FULL_OBJECT"),
     ("SHA1", "COMPOSITE"), ("SHA256", "COMPOSITE")],
)
def test_checksums_of_parts(s3, bucket, algorithm, kind):
    field = f"Checksum{algorithm}"
    upload = begin(s3, bucket, ChecksumAlgorithm=algorithm, ChecksumType=kind)
    parts = []
    for number, data in ((1, PART), (2, b"end")):
        answer = s3.upload_part(
            Bucket=bucket, Key="a", UploadId=upload, PartNumber=number, Body=data, ChecksumAlgorithm=algorithm
        )
        parts.append({"PartNumber": number, "ETag": answer["ETag"], field: answer[field]})
    done = complete(s3, bucket, upload, parts)
    assert done["ChecksumType"] == kind
    if kind == "FULL_OBJECT":
        whole = s3.put_object(Bucket=bucket, Key="whole", Body=PART + b"end", ChecksumAlgorithm=algorithm)
        assert done[field] == whole[field]
    else:
        assert done[field].endswith("-2")
    assert s3.head_object(Bucket=bucket, Key="a", ChecksumMode="ENABLED")[field] == done[field]
    attributes = s3.get_object_attributes(Bucket=bucket, Key="a", ObjectAttributes=["ObjectParts"], MaxParts=1)["ObjectParts"]
    assert (attributes["TotalPartsCount"], attributes["IsTruncated"]) == (2, True)
    rest = {"MaxParts": 5, "PartNumberMarker": attributes["NextPartNumberMarker"]}
    more = s3.get_object_attributes(Bucket=bucket, Key="a", ObjectAttributes=["ObjectParts"], **rest)["ObjectParts"]
    sums = [(part["PartNumber"], part["Size"], part[field]) for part in attributes["Parts"] + more["Parts"]]
    assert sums == [(part["PartNumber"], size, part[field]) for part, size in zip(parts, (len(PART), 3))]
    for number, part in enumerate(parts, 1):
        for call in (s3.head_object, s3.get_object):
            assert call(Bucket=bucket, Key="a", PartNumber=number, ChecksumMode="ENABLED")[field] == part[field]
        assert field not in s3.head_object(Bucket=bucket, Key="a", PartNumber=number)
    s3.get_object(Bucket=bucket, Key="a", PartNumber=1, ChecksumMode="ENABLED")["Body"].read()


def test_completing_has_conditions(s3, bucket, code_of):
    s3.put_object(Bucket=bucket, Key="a", Body=b"there")
    upload = begin(s3, bucket)
    parts = [put(s3, bucket, upload, 1, b"new")]
    assert code_of(complete, s3, bucket, upload, parts, IfNoneMatch="*") == ("PreconditionFailed", 412)
    etag = s3.head_object(Bucket=bucket, Key="a")["ETag"]
    complete(s3, bucket, upload, parts, IfMatch=etag)
    assert s3.get_object(Bucket=bucket, Key="a")["Body"].read() == b"new"


def test_a_copy_has_the_checksums_of_its_parts(s3, bucket):
    upload = begin(s3, bucket, ChecksumAlgorithm="CRC32", ChecksumType="COMPOSITE")
    parts = []
    for number, data in ((1, PART), (2, b"end")):
        given = {"UploadId": upload, "PartNumber": number, "Body": data, "ChecksumAlgorithm": "CRC32"}
        answer = s3.upload_part(Bucket=bucket, Key="a", **given)
        parts.append({"PartNumber": number, "ETag": answer["ETag"], "ChecksumCRC32": answer["ChecksumCRC32"]})
    complete(s3, bucket, upload, parts)
    source = {"Bucket": bucket, "Key": "a"}
    head = lambda key: s3.head_object(Bucket=bucket, Key=key, PartNumber=2, ChecksumMode="ENABLED")
    s3.copy_object(Bucket=bucket, Key="same", CopySource=source)
    assert head("same")["ChecksumCRC32"] == parts[1]["ChecksumCRC32"]
    s3.copy_object(Bucket=bucket, Key="other", CopySource=source, ChecksumAlgorithm="CRC32C")
    assert not [field for field in head("other") if field.startswith("ChecksumCRC")]
