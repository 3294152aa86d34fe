"""Bodies that contradict their headers: each gets the right error, and nothing is stored or
changed.
"""

import base64
import hashlib
import hmac
import zlib

import pytest
from raw import connect, head_text, is_empty, request, send, send_signed, signed

MIB = 1 << 20

DOCUMENTS = {
    "PUT ?acl": b"<AccessControlPolicy><Owner><ID>main</ID></Owner><AccessControlList/></AccessControlPolicy>",
    "PUT ?cors": b"<CORSConfiguration><CORSRule><AllowedOrigin>*</AllowedOrigin><AllowedMethod>GET</AllowedMethod></CORSRule>"
    b"</CORSConfiguration>",
    "PUT ?tagging": b"<Tagging><TagSet><Tag><Key>k</Key><Value>v</Value></Tag></TagSet></Tagging>",
    "PUT ?versioning": b"<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>",
    "POST ?delete": b"<Delete><Object><Key>a</Key></Object></Delete>",
    "PUT /a?acl": b"<AccessControlPolicy><Owner><ID>main</ID></Owner><AccessControlList/></AccessControlPolicy>",
    "PUT /a?tagging": b"<Tagging><TagSet><Tag><Key>k</Key><Value>v</Value></Tag></TagSet></Tagging>",
    "POST /a?uploadId=ID": b"<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>TAG</ETag></Part></CompleteMultipartUpload>",
    "PUT -new": b"<CreateBucketConfiguration><LocationConstraint>us-east-1</LocationConstraint></CreateBucketConfiguration>",
}


def state(s3, bucket, upload):
    """Everything that one of the documents could change."""
    found = [s3.get_bucket_acl(Bucket=bucket)["Grants"], s3.get_bucket_versioning(Bucket=bucket).get("Status")]
    for call in (s3.get_bucket_cors, s3.get_bucket_tagging):
        with pytest.raises(s3.exceptions.ClientError, match="NoSuch"):
            call(Bucket=bucket)
    found += [s3.get_object_acl(Bucket=bucket, Key="a")["Grants"], s3.get_object_tagging(Bucket=bucket, Key="a")["TagSet"]]
    found += [s3.get_object(Bucket=bucket, Key="a")["Body"].read()]
    found += [len(s3.list_parts(Bucket=bucket, Key="a", UploadId=upload)["Parts"])]
    found += [bucket + "-new" in [made["Name"] for made in s3.list_buckets()["Buckets"]]]
    return found


@pytest.mark.parametrize("operation", DOCUMENTS)
def test_damaged_documents_change_nothing(gateway, s3, bucket, operation):
    s3.put_object(Bucket=bucket, Key="a", Body=b"data")
    upload = s3.create_multipart_upload(Bucket=bucket, Key="a")["UploadId"]
    etag = s3.upload_part(Bucket=bucket, Key="a", UploadId=upload, PartNumber=1, Body=b"x")["ETag"]
    before = state(s3, bucket, upload)
    method, rest = operation.split(" ")
    path = f"/{bucket}{rest}".replace("ID", upload)
    right = DOCUMENTS[operation].replace(b"TAG", etag.encode())
    root = right[1 : right.index(b">")]
    for wrong in (
        b"no document", b"<", right[:-3], right[: len(right) // 2], right + b"<more/>", right.replace(root, b"Other"),
        b"<!DOCTYPE a [<!ENTITY b 'c'>]><" + root + b">&b;</" + root + b">", b"<" + root + b">\xff</" + root + b">",
        b"<a>" * 10_000, b"\x00" * 100, b"", right.replace(b"</" + root + b">", b"<Unknown>x</Unknown></" + root + b">"),
        right.replace(b"</" + root + b">", b"<![CDATA[x]]></" + root + b">"),
        right.replace(b"</" + root + b">", b"\x01</" + root + b">"),
    ):
        # CreateBucket works without a document.
        if operation == "PUT -new" and not wrong:
            continue
        status, code = send_signed(gateway, method, path, wrong)
        assert status == 400 and code in BAD_DOCUMENT, (wrong[:100], status, code)
    # Next, checksums and lengths that contradict the document.
    for headers, code in [
        ({"Content-MD5": base64.b64encode(hashlib.md5(b"other").digest()).decode()}, "BadDigest"),
        ({"Content-MD5": "short"}, "InvalidDigest"),
        ({"x-amz-checksum-crc32": base64.b64encode(bytes(4)).decode()}, "BadDigest"),
        ({"x-amz-content-sha256": hashlib.sha256(b"other").hexdigest()}, "XAmzContentSHA256Mismatch"),
    ]:
        # CompleteMultipartUpload is an exception: its checksum header is that of the object.
        assert send_signed(gateway, method, path, right, headers) == (400, code), headers
    assert send_in_chunks(gateway, method, path, right) == [(400, "InvalidRequest")] * 3
    large = b"<" + root + b">" + b" " * (9 * MIB) + b"</" + root + b">"
    with connect(gateway) as stream:
        stream.sendall(head_text(gateway, method, path, signed(gateway, method, path, large) | {"Content-Length": str(len(large))}))
        try:
            stream.sendall(large)
        except OSError:
            pass
    assert state(s3, bucket, upload) == before
    assert send_signed(gateway, method, path, right)[0] in (200, 204)


# Documents about a bucket with object lock, or about its object `a`, by the path and the query.
SETTINGS = {
    "?encryption": b"<ServerSideEncryptionConfiguration><Rule><ApplyServerSideEncryptionByDefault><SSEAlgorithm>AES256</SSEAlgorithm>"
    b"</ApplyServerSideEncryptionByDefault></Rule></ServerSideEncryptionConfiguration>",
    "?lifecycle": b"<LifecycleConfiguration><Rule><Filter><Prefix>tmp/</Prefix></Filter><Status>Enabled</Status><Expiration><Days>1</Days>"
    b"</Expiration></Rule></LifecycleConfiguration>",
    "?logging": b"<BucketLoggingStatus></BucketLoggingStatus>",
    "?notification": b"<NotificationConfiguration></NotificationConfiguration>",
    "?object-lock": b"<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled><Rule><DefaultRetention>"
    b"<Mode>GOVERNANCE</Mode><Days>1</Days></DefaultRetention></Rule></ObjectLockConfiguration>",
    "?ownershipControls": b"<OwnershipControls><Rule><ObjectOwnership>BucketOwnerEnforced</ObjectOwnership></Rule></OwnershipControls>",
    "?policy": b'{"Statement": {"Effect": "Deny", "Principal": "*", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::BUCKET/x"}}',
    "?publicAccessBlock": b"<PublicAccessBlockConfiguration><BlockPublicAcls>true</BlockPublicAcls></PublicAccessBlockConfiguration>",
    "?requestPayment": b"<RequestPaymentConfiguration><Payer>Requester</Payer></RequestPaymentConfiguration>",
    "?website": b"<WebsiteConfiguration><IndexDocument><Suffix>index.html</Suffix></IndexDocument></WebsiteConfiguration>",
    "/a?legal-hold": b"<LegalHold><Status>ON</Status></LegalHold>",
    "/a?retention": b"<Retention><Mode>GOVERNANCE</Mode><RetainUntilDate>2030-01-01T00:00:00Z</RetainUntilDate></Retention>",
}


def settings(s3, bucket):
    """Everything that one of these documents could change."""
    found = {}
    for name in [
        "bucket_encryption", "bucket_lifecycle_configuration", "bucket_logging", "bucket_notification_configuration",
        "object_lock_configuration", "bucket_ownership_controls", "bucket_policy", "public_access_block", "bucket_request_payment",
        "bucket_website", "object_legal_hold", "object_retention",
    ]:
        key = {"Key": "a"} if name in ("object_legal_hold", "object_retention") else {}
        try:
            found[name] = getattr(s3, f"get_{name}")(Bucket=bucket, **key)
            del found[name]["ResponseMetadata"]
        except s3.exceptions.ClientError as error:
            found[name] = error.response["Error"]["Code"]
    return found


@pytest.mark.parametrize("query", SETTINGS)
def test_damaged_settings_change_nothing(gateway, s3, bucket, query):
    """Also a document that `s3s` would read only in part."""
    locked = f"{bucket}-locked"
    s3.create_bucket(Bucket=locked, ObjectLockEnabledForBucket=True)
    s3.put_object(Bucket=locked, Key="a", Body=b"data")
    before = settings(s3, locked)
    path, right = f"/{locked}{query}", SETTINGS[query].replace(b"BUCKET", locked.encode())
    for headers, code in [
        ({"Content-MD5": base64.b64encode(hashlib.md5(b"other").digest()).decode()}, "BadDigest"),
        ({"Content-MD5": "short"}, "InvalidDigest"),
        ({"x-amz-checksum-sha256": base64.b64encode(bytes(32)).decode()}, "BadDigest"),
        ({"x-amz-content-sha256": hashlib.sha256(b"other").hexdigest()}, "XAmzContentSHA256Mismatch"),
    ]:
        assert send_signed(gateway, "PUT", path, right, headers) == (400, code), headers
    assert send_in_chunks(gateway, "PUT", path, right) == [(400, "InvalidRequest")] * 3
    if query != "?policy":
        root = right[1 : right.index(b">")]
        for more in (b"<Unknown/>", b"<" + root + b"/>", b"<![CDATA[x]]>", b"<Un\x00known/>", b"\x01"):
            wrong = right.replace(b"</" + root + b">", more + b"</" + root + b">")
            assert send_signed(gateway, "PUT", path, wrong) == (400, "MalformedXML"), more
    assert settings(s3, locked) == before
    assert send_signed(gateway, "PUT", path, right)[0] in (200, 204)


def test_the_data_of_an_object_are_no_document(gateway, s3, bucket):
    """Also not if the key is a slash."""
    for key in ("/", "//", "a/"):
        assert send_signed(gateway, "PUT", f"/{bucket}/{key}", b"<Delete><Unknown/></Delete>")[0] == 200, key
        assert s3.get_object(Bucket=bucket, Key=key)["Body"].read() == b"<Delete><Unknown/></Delete>"


BAD_DOCUMENT = ["MalformedXML", "MalformedACLError", "MissingSecurityHeader", "MissingRequestBodyError", "IllegalVersioningConfigurationException"]


def trailing(body, trailer):
    """A chunked body with a trailer."""
    return b"%x\r\n%s\r\n0\r\n%s\r\n\r\n" % (len(body), body, trailer)


def put_chunked(gateway, path, encoded, length, headers=None, method="PUT"):
    given = {
        "x-amz-content-sha256": "STREAMING-UNSIGNED-PAYLOAD-TRAILER", "x-amz-trailer": "x-amz-checksum-crc32",
        "x-amz-decoded-content-length": str(length), "Content-Encoding": "aws-chunked", **(headers or {}),
    }
    return send_signed(gateway, method, path, encoded, given)


def crc32(data):
    return base64.b64encode(zlib.crc32(data).to_bytes(4, "big"))


def test_trailing_checksums(gateway, s3, bucket):
    path, body = f"/{bucket}/a", b"data" * 10_000
    right = b"x-amz-checksum-crc32:" + crc32(body)
    for encoded, length, code in [
        (trailing(body, b"x-amz-checksum-crc32:" + crc32(b"other")), len(body), "BadDigest"),
        (trailing(body, b"x-amz-checksum-crc32:AAAA"), len(body), None),
        (trailing(body, b"x-amz-checksum-crc32c:" + crc32(body)), len(body), None),
        (trailing(body, b"x-amz-checksum-crc32:" + b"A" * 100_000), len(body), None),
        (trailing(body, b""), len(body), None),
        (trailing(body, right), len(body) + 1, "IncompleteBody"),
        (trailing(body, right), len(body) - 1, None),
        (trailing(body, right)[:-30], len(body), None),
        (trailing(body, right)[: len(body) // 2], len(body), "IncompleteBody"),
        (b"zz\r\n" + body, len(body), None),
        (b"-1\r\n" + body, len(body), None),
        (b"ffffffffffffffffff\r\n" + body, len(body), None),
        (b"1" * 100_000 + body, len(body), None),
        (b"%x\n%s" % (len(body), body), len(body), None),
        (body, len(body), None),
        (b"", len(body), None),
    ]:
        status, found = put_chunked(gateway, path, encoded, length)
        assert status == 400 and (code is None or found == code), (encoded[-60:], length, status, found)
    assert put_chunked(gateway, path, trailing(body, right), "x")[0] == 400
    assert is_empty(s3, bucket)
    assert put_chunked(gateway, path, trailing(body, right), len(body))[0] == 200
    assert s3.get_object(Bucket=bucket, Key="a", ChecksumMode="ENABLED")["ChecksumCRC32"] == crc32(body).decode()


def put_signed_chunks(gateway, path, pieces, tamper=lambda number, piece: piece, method="PUT", trailer=None):
    """Puts a body of individually signed chunks, and perhaps a signed trailer."""
    length = sum(map(len, pieces))
    kind = {"x-amz-content-sha256": "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"}
    if trailer:
        kind = {"x-amz-content-sha256": "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER", "x-amz-trailer": trailer.decode().split(":")[0]}
    head = signed(gateway, method, path, headers={
        "x-amz-decoded-content-length": str(length), "Content-Encoding": "aws-chunked", **kind,
    })
    date = head["X-Amz-Date"]
    scope = f"{date[:8]}/us-east-1/s3/aws4_request"
    key = b"AWS4" + gateway.secret_key.encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    signature = head["Authorization"].rsplit("Signature=", 1)[1]
    body = b""
    for number, piece in enumerate([*pieces, b""]):
        text = ["AWS4-HMAC-SHA256-PAYLOAD", date, scope, signature, hashlib.sha256(b"").hexdigest(), hashlib.sha256(piece).hexdigest()]
        signature = hmac.digest(key, "\n".join(text).encode(), "sha256").hex()
        body += tamper(number, b"%x;chunk-signature=%s\r\n%s\r\n" % (len(piece), signature.encode(), piece))
    if trailer:
        text = ["AWS4-HMAC-SHA256-TRAILER", date, scope, signature, hashlib.sha256(trailer + b"\n").hexdigest()]
        signature = hmac.digest(key, "\n".join(text).encode(), "sha256").hex()
        body += tamper("trailer", b"%s\r\nx-amz-trailer-signature:%s\r\n\r\n" % (trailer, signature.encode()))
    return send(gateway, method, path, body, head)


def send_in_chunks(gateway, method, path, document):
    """Sends a document with a checksum as the trailer, in signed chunks, and with both."""
    checksum = b"x-amz-checksum-crc32:" + crc32(document)
    return [
        put_chunked(gateway, path, trailing(document, checksum), len(document), method=method),
        put_signed_chunks(gateway, path, [document], method=method),
        put_signed_chunks(gateway, path, [document], method=method, trailer=checksum),
    ]


def test_signed_chunks(gateway, s3, bucket):
    path, pieces = f"/{bucket}/a", [b"a" * 65_536, b"b" * 65_536, b"c" * 10]
    change = lambda old, new: lambda number, piece: piece.replace(old, new, 1)
    for tamper, expected in [
        (lambda number, piece: piece.replace(b"bb", b"xx") if number == 1 else piece, (403, "SignatureDoesNotMatch")),
        (lambda number, piece: b"" if number == 1 else piece, (403, "SignatureDoesNotMatch")),
        (lambda number, piece: piece * 2 if number == 2 else piece, None),
        (change(b"chunk-signature=", b"chunk-signature=0"), None),
        (change(b";chunk-signature=", b";other="), None),
    ]:
        found = put_signed_chunks(gateway, path, pieces, tamper)
        assert found == expected if expected else found[0] in (400, 403), found
    assert is_empty(s3, bucket)
    assert put_signed_chunks(gateway, path, pieces)[0] == 200
    assert s3.get_object(Bucket=bucket, Key="a")["Body"].read() == b"".join(pieces)


def test_signed_trailers(gateway, s3, bucket):
    path, pieces = f"/{bucket}/a", [b"a" * 65_536, b"b" * 10]
    right, wrong = (b"x-amz-checksum-crc32:" + crc32(data) for data in (b"".join(pieces), b"other"))
    in_trailer = lambda old, new: lambda number, piece: piece.replace(old, new) if number == "trailer" else piece
    for trailer, tamper, expected in [
        (wrong, in_trailer(b"", b""), (400, "BadDigest")),
        (wrong, in_trailer(wrong, right), (403, "SignatureDoesNotMatch")),
        (right, in_trailer(b"trailer-signature", b"signature"), None),
        (right, lambda number, piece: b"" if number == "trailer" else piece, (400, "InvalidRequest")),
    ]:
        found = put_signed_chunks(gateway, path, pieces, tamper, trailer=trailer)
        assert found == expected if expected else found[0] in (400, 403), found
    assert is_empty(s3, bucket)
    assert put_signed_chunks(gateway, path, pieces, trailer=right)[0] == 200
    found = s3.get_object(Bucket=bucket, Key="a", ChecksumMode="ENABLED")
    assert (found["ChecksumCRC32"].encode(), found["Body"].read()) == (right.split(b":")[1], b"".join(pieces))


def test_checksums_of_parts_are_verified(gateway, s3, bucket, code_of):
    upload = s3.create_multipart_upload(Bucket=bucket, Key="a", ChecksumAlgorithm="CRC32")["UploadId"]
    put = lambda **given: s3.upload_part(Bucket=bucket, Key="a", UploadId=upload, PartNumber=1, Body=b"data", **given)
    assert code_of(put, ContentMD5="1B2M2Y8AsgTpgAmY7PhCfg==") == ("BadDigest", 400)
    assert code_of(put, ChecksumCRC32="AAAAAA==") == ("BadDigest", 400)
    assert code_of(put, ChecksumCRC32="AAAA")[1] == 400
    path = f"/{bucket}/a?partNumber=1&uploadId={upload}"
    wrong = trailing(b"data", b"x-amz-checksum-crc32:" + crc32(b"other"))
    assert put_chunked(gateway, path, wrong, 4) == (400, "BadDigest")
    for number in ("0", "-1", "10001", "x", ""):
        path = f"/{bucket}/a?partNumber={number}&uploadId={upload}"
        assert send_signed(gateway, "PUT", path, b"data")[0] == 400
    assert "Parts" not in s3.list_parts(Bucket=bucket, Key="a", UploadId=upload)
    part = put(ChecksumAlgorithm="CRC32")
    complete = lambda **given: s3.complete_multipart_upload(
        Bucket=bucket, Key="a", UploadId=upload, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": part["ETag"]} | given]}
    )
    assert code_of(complete, ChecksumCRC32="AAAAAA==")[1] == 400
    assert code_of(s3.head_object, Bucket=bucket, Key="a") == ("404", 404)
    complete(ChecksumCRC32=part["ChecksumCRC32"])
    assert s3.get_object(Bucket=bucket, Key="a")["Body"].read() == b"data"


def test_a_body_must_have_the_declared_length(gateway, s3, bucket):
    path, body = f"/{bucket}/a", b"data" * 10_000
    for sent in (0, 1, len(body) - 1):
        with connect(gateway) as stream:
            stream.sendall(head_text(gateway, "PUT", path, signed(gateway, "PUT", path, body) | {"Content-Length": str(len(body))}))
            stream.sendall(body[:sent])
            stream.shutdown(1)
            assert b" 200 " not in stream.recv(65_536).split(b"\r\n")[0]
    # The gateway parses bytes beyond the declared length as another request, which is invalid here.
    with connect(gateway) as stream:
        stream.sendall(head_text(gateway, "PUT", path, signed(gateway, "PUT", path, body) | {"Content-Length": "4"}) + body)
        assert b" 400 " in stream.recv(65_536).split(b"\r\n")[0]
    too_large = {"Content-Length": str((5 << 30) + 1), "x-amz-content-sha256": "UNSIGNED-PAYLOAD"}
    with connect(gateway) as stream:
        stream.sendall(head_text(gateway, "PUT", path, signed(gateway, "PUT", path, b"", too_large)))
        answer = stream.recv(65_536)
        assert b" 400 " in answer.split(b"\r\n")[0] and b"EntityTooLarge" in answer
    head = signed(gateway, "PUT", path, b"") | {"Transfer-Encoding": "chunked"}
    assert request(gateway, "PUT", path, None, head)[0] in (400, 411)
    assert is_empty(s3, bucket)
