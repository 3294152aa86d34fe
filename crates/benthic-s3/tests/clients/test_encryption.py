"""Server-side encryption: SSE-S3, SSE-KMS and SSE-C."""

import base64
import hashlib
import itertools
import json
import os
import pathlib
import socket
import uuid

import pytest
from gateway import running
from test_buckets import fetch
from test_exec import execute, target
from test_forms import post
from test_policies import KEY_CACHE_S, member, other, policy, statement  # noqa: F401

MIB = 1 << 20
SIZES = [0, 1, 65_536, 65_537, 9 * MIB + 5]


def customer(seed=1):
    """Parameters for a key of the client. boto3 adds its MD5."""
    return {"SSECustomerAlgorithm": "AES256", "SSECustomerKey": bytes([seed]) * 32}


def as_text(key):
    """A key of the client for GetObjectAttributes, for which boto3 does not encode it."""
    if not key:
        return {}
    secret = key["SSECustomerKey"]
    texts = {"SSECustomerKey": secret, "SSECustomerKeyMD5": hashlib.md5(secret).digest()}
    return key | {name: base64.b64encode(value).decode() for name, value in texts.items()}


def of_source(key):
    return {f"CopySource{name}": value for name, value in key.items()}


def md5(data):
    return f'"{hashlib.md5(data).hexdigest()}"'


def arn(key):
    return f"arn:aws:kms:us-east-1:{key['account']}:key/{key['id']}"


@pytest.fixture(scope="session")
def kms_key(gateway):
    """A key of the account `main`."""
    return gateway.run("kms", "key", "create", "main", "--description", "for tests")[0]


@pytest.fixture
def kinds(kms_key):
    """By kind, the parameters of a write and of a read."""
    kms = {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": kms_key["id"]}
    return {
        "plain": ({}, {}),
        "s3": ({"ServerSideEncryption": "AES256"}, {}),
        "kms": (kms, {}),
        "customer": (customer(), customer()),
    }


def check_answer(answer, kind, kms_key):
    """Checks the fields that tell how an object is encrypted."""
    names = ["ServerSideEncryption", "SSEKMSKeyId", "SSECustomerAlgorithm", "SSECustomerKeyMD5"]
    found = {name: answer[name] for name in names if name in answer}
    key_md5 = base64.b64encode(hashlib.md5(customer()["SSECustomerKey"]).digest()).decode()
    assert found == {
        "plain": {},
        "s3": {"ServerSideEncryption": "AES256"},
        "kms": {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": arn(kms_key)},
        "customer": {"SSECustomerAlgorithm": "AES256", "SSECustomerKeyMD5": key_md5},
    }[kind]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", ["s3", "kms", "customer"])
def test_encrypted_objects_are_read_back(gateway, s3, bucket, kinds, kms_key, kind, size):
    written, read = kinds[kind]
    data = os.urandom(size)
    put = s3.put_object(Bucket=bucket, Key="a", Body=data, **written)
    check_answer(put, kind, kms_key)
    assert (put["ETag"] == md5(data)) == (kind == "s3")
    got = s3.get_object(Bucket=bucket, Key="a", **read)
    assert got["Body"].read() == data
    head = s3.head_object(Bucket=bucket, Key="a", **read)
    for answer in (got, head):
        check_answer(answer, kind, kms_key)
        assert (answer["ContentLength"], answer["ETag"]) == (size, put["ETag"])
    assert s3.list_objects_v2(Bucket=bucket)["Contents"][0]["Size"] == size
    if size > 1:
        for start, end in [(0, 1), (size - 1, size), (size // 3, size // 2 + 1)]:
            got = s3.get_object(Bucket=bucket, Key="a", Range=f"bytes={start}-{end - 1}", **read)
            assert got["Body"].read() == data[start:end]
    attributes = s3.get_object_attributes(Bucket=bucket, Key="a", ObjectAttributes=["ObjectSize", "ETag"], **as_text(read))
    assert (attributes["ObjectSize"], attributes["ETag"]) == (size, put["ETag"].strip('"'))
    gateway.check(bucket, {"objects": 1, "bytes": size})


@pytest.mark.parametrize("kind", ["s3", "kms", "customer"])
def test_encrypted_uploads_in_parts(gateway, s3, bucket, kinds, kms_key, kind):
    written, read = kinds[kind]
    parts = [os.urandom(5 * MIB + 77), os.urandom(70_000)]
    upload = s3.create_multipart_upload(Bucket=bucket, Key="a", **written)
    check_answer(upload, kind, kms_key)
    named = []
    for number, part in enumerate(parts, 1):
        put = s3.upload_part(Bucket=bucket, Key="a", UploadId=upload["UploadId"], PartNumber=number, Body=part, **read)
        check_answer(put, kind, kms_key)
        assert (put["ETag"] == md5(part)) == (kind == "s3")
        named.append({"PartNumber": number, "ETag": put["ETag"]})
    gateway.check(bucket, {"objects": 0, "part_bytes": sum(map(len, parts))})
    done = s3.complete_multipart_upload(Bucket=bucket, Key="a", UploadId=upload["UploadId"], MultipartUpload={"Parts": named}, **read)
    if kind != "customer":
        check_answer(done, kind, kms_key)
    whole = b"".join(parts)
    got = s3.get_object(Bucket=bucket, Key="a", **read)
    assert got["Body"].read() == whole and got["ETag"].endswith('-2"')
    check_answer(got, kind, kms_key)
    border = len(parts[0])
    got = s3.get_object(Bucket=bucket, Key="a", Range=f"bytes={border - 100}-{border + 99}", **read)
    assert got["Body"].read() == whole[border - 100 : border + 100]
    assert s3.get_object(Bucket=bucket, Key="a", PartNumber=2, **read)["Body"].read() == parts[1]
    gateway.check(bucket, {"objects": 1, "bytes": len(whole)})


def test_the_store_has_no_plain_data_and_no_keys(tmp_path):
    # Texts that nothing compresses.
    names = ["plain", "s3", "kms", "customer", "part", "copy"]
    secrets = {name: uuid.uuid4().hex.encode() * 4 for name in names}
    with running("file", tmp_path) as gateway:
        s3 = gateway.client()
        s3.create_bucket(Bucket="secret")
        key = gateway.run("kms", "key", "create", "main")[0]["id"]
        kms = {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": key}
        put = lambda name, **given: s3.put_object(Bucket="secret", Key=name, Body=secrets[name], **given)
        put("plain")
        put("s3", ServerSideEncryption="AES256")
        put("kms", **kms)
        put("customer", **customer())
        put("copy", **customer())
        s3.copy_object(Bucket="secret", Key="copy", CopySource="secret/copy", **kms, **of_source(customer()))
        upload = s3.create_multipart_upload(Bucket="secret", Key="parts", **kms)["UploadId"]
        s3.upload_part(Bucket="secret", Key="parts", UploadId=upload, PartNumber=1, Body=secrets["part"])
    store = b"".join(file.read_bytes() for file in pathlib.Path(tmp_path, "store").rglob("*") if file.is_file())
    assert [name for name in names if secrets[name] in store] == ["plain"]
    secret = customer()["SSECustomerKey"]
    for text in (secret, secret.hex().encode(), base64.b64encode(secret)):
        assert text not in store


def test_a_key_of_the_client_is_needed_and_right(s3, bucket, code_of):
    s3.put_object(Bucket=bucket, Key="a", Body=b"data", **customer())
    s3.put_object(Bucket=bucket, Key="plain", Body=b"data")
    for call in (s3.get_object, s3.head_object):
        failed = ("InvalidRequest", 400) if call == s3.get_object else ("400", 400)
        assert code_of(call, Bucket=bucket, Key="a") == failed
        assert code_of(call, Bucket=bucket, Key="a", **customer(2)) == failed
        assert code_of(call, Bucket=bucket, Key="plain", **customer()) == failed
    attributes = lambda **key: s3.get_object_attributes(Bucket=bucket, Key="a", ObjectAttributes=["ETag"], **as_text(key))
    assert code_of(attributes) == code_of(attributes, **customer(2)) == ("InvalidRequest", 400)
    upload = s3.create_multipart_upload(Bucket=bucket, Key="b", **customer())["UploadId"]
    part = lambda **key: s3.upload_part(Bucket=bucket, Key="b", UploadId=upload, PartNumber=1, Body=b"data", **key)
    assert code_of(part) == code_of(part, **customer(2)) == ("InvalidRequest", 400)
    etag = part(**customer())["ETag"]
    complete = lambda **key: s3.complete_multipart_upload(
        Bucket=bucket, Key="b", UploadId=upload, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": etag}]}, **key
    )
    assert code_of(complete, **customer(2)) == ("InvalidRequest", 400)
    complete(**customer())
    assert s3.get_object(Bucket=bucket, Key="b", **customer())["Body"].read() == b"data"


def test_bad_encryption_headers_have_no_effect(gateway, s3, bucket, kms_key, code_of):
    key, key_md5 = "A" * 43 + "=", base64.b64encode(hashlib.md5(bytes(32)).digest()).decode()
    sse = "x-amz-server-side-encryption"
    c = f"{sse}-customer"
    invalid = ("InvalidArgument", 400)
    cases = [
        ({sse: "aes:kms"}, invalid),
        ({sse: "AES128"}, invalid),
        ({sse: "aws:kms"}, invalid),
        ({sse: "aws:kms:dsse", f"{sse}-aws-kms-key-id": kms_key["id"]}, ("NotImplemented", 501)),
        ({sse: "AES256", f"{sse}-aws-kms-key-id": kms_key["id"]}, invalid),
        ({f"{sse}-aws-kms-key-id": kms_key["id"]}, invalid),
        ({f"{sse}-context": "e30="}, invalid),
        ({sse: "aws:kms", f"{sse}-aws-kms-key-id": "none"}, ("KMS.NotFoundException", 400)),
        ({sse: "aws:kms", f"{sse}-aws-kms-key-id": "a\tb"}, ("KMS.NotFoundException", 400)),
        ({sse: "aws:kms", f"{sse}-aws-kms-key-id": "k" * 5_000}, ("KMS.NotFoundException", 400)),
        ({sse: "aws:kms", f"{sse}-aws-kms-key-id": "arn:aws:kms:us-east-1:main:alias/x"}, ("KMS.NotFoundException", 400)),
        ({sse: "aws:kms", f"{sse}-aws-kms-key-id": kms_key["id"], f"{sse}-context": "{}"}, invalid),
        ({sse: "aws:kms", f"{sse}-aws-kms-key-id": kms_key["id"], f"{sse}-context": "WzFd"}, invalid),
        ({f"{c}-algorithm": "AES256"}, invalid),
        ({f"{c}-key": "AA=="}, invalid),
        ({f"{c}-key-md5": "AA=="}, invalid),
        ({f"{c}-algorithm": "AES256", f"{c}-key": key}, invalid),
        ({f"{c}-algorithm": "AES256", f"{c}-key": key, f"{c}-key-md5": "AA=="}, invalid),
        ({f"{c}-algorithm": "AES256", f"{c}-key": "AA==", f"{c}-key-md5": key_md5}, invalid),
        ({f"{c}-algorithm": "AES256", f"{c}-key": "?", f"{c}-key-md5": key_md5}, invalid),
        ({f"{c}-algorithm": "AES128", f"{c}-key": key, f"{c}-key-md5": key_md5}, ("InvalidEncryptionAlgorithmError", 400)),
        ({sse: "AES256", f"{c}-algorithm": "AES256", f"{c}-key": key, f"{c}-key-md5": key_md5}, invalid),
    ]
    for headers, expected in cases:
        client = gateway.client()
        set_headers = lambda params, headers=headers, **_: params["headers"].update(headers)
        for operation in ("PutObject", "CreateMultipartUpload"):
            client.meta.events.register(f"before-call.s3.{operation}", set_headers)
        assert code_of(client.put_object, Bucket=bucket, Key="a", Body=b"data") == expected, headers
        assert code_of(client.create_multipart_upload, Bucket=bucket, Key="a") == expected, headers
    s3.put_object(Bucket=bucket, Key="plain", Body=b"data")
    reader = gateway.client()
    reader.meta.events.register("before-call.s3.GetObject", lambda params, **_: params["headers"].update({sse: "AES256"}))
    assert code_of(reader.get_object, Bucket=bucket, Key="plain") == invalid
    gateway.check(bucket, {"objects": 1, "uploads": 0})


def test_copies_between_all_kinds(gateway, s3, bucket, kinds, kms_key):
    data = os.urandom(6 * MIB + 123)
    for of, to in itertools.product(kinds, kinds):
        s3.put_object(Bucket=bucket, Key="source", Body=data, Metadata={"who": "ada"}, **kinds[of][0])
        source = s3.head_object(Bucket=bucket, Key="source", **kinds[of][1])
        copy = {"Bucket": bucket, "Key": f"{of}-{to}", "CopySource": f"{bucket}/source"}
        copied = s3.copy_object(**copy, **kinds[to][0], **of_source(kinds[of][1]))
        # Encrypted objects stay encrypted.
        kind = "s3" if (of != "plain" and to == "plain") else to
        check_answer(copied, kind, kms_key)
        got = s3.get_object(Bucket=bucket, Key=copy["Key"], **kinds[kind][1])
        assert got["Body"].read() == data, (of, to)
        assert got["Metadata"] == {"who": "ada"}
        check_answer(got, kind, kms_key)
        etag = copied["CopyObjectResult"]["ETag"]
        assert etag == got["ETag"] and (etag == md5(data)) == (kind in ("plain", "s3")), (of, to)
        if kind == of:
            assert (etag == source["ETag"]) or of != "s3"
        # The parts of an upload are encrypted as it says.
        upload = s3.create_multipart_upload(Bucket=bucket, Key="parts", **kinds[to][0])["UploadId"]
        part = {"Bucket": bucket, "Key": "parts", "UploadId": upload, "PartNumber": 1, "CopySource": f"{bucket}/source"}
        end = 5 * MIB + 9
        copied = s3.upload_part_copy(**part, CopySourceRange=f"bytes=7-{end}", **kinds[to][1], **of_source(kinds[of][1]))
        check_answer(copied, to, kms_key)
        etag = copied["CopyPartResult"]["ETag"]
        assert (etag == md5(data[7 : end + 1])) == (to in ("plain", "s3"))
        parts = {"Parts": [{"PartNumber": 1, "ETag": etag}]}
        s3.complete_multipart_upload(Bucket=bucket, Key="parts", UploadId=upload, MultipartUpload=parts)
        assert s3.get_object(Bucket=bucket, Key="parts", **kinds[to][1])["Body"].read() == data[7 : end + 1]
    s3.delete_object(Bucket=bucket, Key="source")
    for of, to in itertools.product(kinds, kinds):
        kind = "s3" if (of != "plain" and to == "plain") else to
        assert s3.get_object(Bucket=bucket, Key=f"{of}-{to}", **kinds[kind][1])["Body"].read() == data
    gateway.check(bucket, {"objects": 17})


def test_a_copy_needs_the_keys_of_source_and_target(s3, bucket, code_of):
    s3.put_object(Bucket=bucket, Key="a", Body=b"data", **customer(1))
    copy = lambda **keys: s3.copy_object(Bucket=bucket, Key="b", CopySource=f"{bucket}/a", **keys)
    invalid = ("InvalidRequest", 400)
    assert code_of(copy, **customer(1)) == invalid
    assert code_of(copy, **of_source(customer(2))) == invalid
    copy(**customer(3), **of_source(customer(1)))
    assert code_of(s3.get_object, Bucket=bucket, Key="b", **customer(1)) == invalid
    assert s3.get_object(Bucket=bucket, Key="b", **customer(3))["Body"].read() == b"data"
    # A copy onto itself changes the encryption.
    s3.copy_object(Bucket=bucket, Key="b", CopySource=f"{bucket}/b", ServerSideEncryption="AES256", **of_source(customer(3)))
    got = s3.get_object(Bucket=bucket, Key="b")
    assert (got["Body"].read(), got["ServerSideEncryption"], got["ETag"]) == (b"data", "AES256", md5(b"data"))


def test_a_bucket_encrypts_by_default(gateway, s3, bucket, kinds, kms_key, code_of):
    of = {"Bucket": bucket}
    missing = ("ServerSideEncryptionConfigurationNotFoundError", 404)
    assert code_of(s3.get_bucket_encryption, **of) == missing

    def configure(algorithm, key=None, **more):
        default = {"SSEAlgorithm": algorithm, **({"KMSMasterKeyID": key} if key else {})}
        rules = [{"ApplyServerSideEncryptionByDefault": default, **more}]
        s3.put_bucket_encryption(**of, ServerSideEncryptionConfiguration={"Rules": rules})
        return s3.get_bucket_encryption(**of)["ServerSideEncryptionConfiguration"]["Rules"]

    assert configure("AES256") == [{"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}]
    check_answer(s3.put_object(**of, Key="a", Body=b"data"), "s3", kms_key)
    assert s3.get_object(**of, Key="a")["Body"].read() == b"data"
    by_kms = {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": arn(kms_key)}
    expected = [{"ApplyServerSideEncryptionByDefault": by_kms, "BucketKeyEnabled": True}]
    assert configure("aws:kms", kms_key["id"], BucketKeyEnabled=True) == expected
    put = s3.put_object(**of, Key="a", Body=b"data")
    check_answer(put, "kms", kms_key)
    assert put["BucketKeyEnabled"] is True
    upload = s3.create_multipart_upload(**of, Key="b")
    check_answer(upload, "kms", kms_key)
    s3.abort_multipart_upload(**of, Key="b", UploadId=upload["UploadId"])
    check_answer(s3.copy_object(**of, Key="b", CopySource=f"{bucket}/a"), "kms", kms_key)
    # A request that names a kind takes precedence.
    check_answer(s3.put_object(**of, Key="b", Body=b"data", ServerSideEncryption="AES256"), "s3", kms_key)
    check_answer(s3.put_object(**of, Key="b", Body=b"data", ServerSideEncryption="aws:kms"), "kms", kms_key)
    check_answer(s3.put_object(**of, Key="b", Body=b"data", **customer()), "customer", kms_key)
    assert code_of(configure, "aws:kms") == ("InvalidArgument", 400)
    assert code_of(configure, "aws:kms", "none") == ("KMS.NotFoundException", 400)
    assert code_of(configure, "AES256", kms_key["id"]) == ("InvalidArgument", 400)
    assert code_of(configure, "AES512") == ("MalformedXML", 400)
    assert s3.get_bucket_encryption(**of)["ServerSideEncryptionConfiguration"]["Rules"] == expected
    s3.delete_bucket_encryption(**of)
    assert code_of(s3.get_bucket_encryption, **of) == missing
    check_answer(s3.put_object(**of, Key="b", Body=b"data"), "plain", kms_key)
    assert s3.get_object(**of, Key="a")["Body"].read() == b"data"


def test_a_key_is_rotated_and_disabled(gateway, s3, bucket, code_of):
    key = gateway.run("kms", "key", "create", "main")[0]
    kms = {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": arn(key)}
    s3.put_object(Bucket=bucket, Key="old", Body=b"old", **kms)
    assert len(gateway.run("kms", "key", "rotate", key["id"])[0]["versions"]) == 2
    s3.put_object(Bucket=bucket, Key="new", Body=b"new", **kms)
    upload = s3.create_multipart_upload(Bucket=bucket, Key="parts", **kms)["UploadId"]
    part = lambda: s3.upload_part(Bucket=bucket, Key="parts", UploadId=upload, PartNumber=1, Body=b"part")
    parts = {"Parts": [{"PartNumber": 1, "ETag": part()["ETag"]}]}
    complete = lambda: s3.complete_multipart_upload(Bucket=bucket, Key="parts", UploadId=upload, MultipartUpload=parts)
    read = lambda name: s3.get_object(Bucket=bucket, Key=name)["Body"].read()
    assert (read("old"), read("new")) == (b"old", b"new")
    gateway.run("kms", "key", "disable", key["id"])
    disabled = ("KMS.DisabledException", 400)
    assert code_of(read, "old") == code_of(read, "new") == disabled
    assert code_of(s3.put_object, Bucket=bucket, Key="more", Body=b"", **kms) == disabled
    assert code_of(s3.copy_object, Bucket=bucket, Key="more", CopySource=f"{bucket}/old") == disabled
    assert code_of(part) == code_of(complete) == disabled
    # The head of an object needs no key.
    assert s3.head_object(Bucket=bucket, Key="old")["SSEKMSKeyId"] == arn(key)
    gateway.run("kms", "key", "disable", key["id"], "--end")
    assert (read("old"), read("new")) == (b"old", b"new")
    complete()
    assert read("parts") == b"part"
    listed = gateway.run("kms", "key", "ls", "main")
    assert [(found["disabled"], len(found["versions"])) for found in listed if found["id"] == key["id"]] == [(False, 2)]


def test_only_those_who_may_use_a_key_do(gateway, s3, bucket, kms_key, member, other, code_of):
    kms = {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": kms_key["id"]}
    s3.put_object(Bucket=bucket, Key="a", Body=b"data", **kms)
    s3.put_object(Bucket=bucket, Key="plain", Body=b"data", ACL="private")
    # Another account may read the bucket, but not use the key.
    eve, account = other
    principal = {"AWS": f"arn:aws:iam::{account}:root"}
    s3.put_bucket_policy(Bucket=bucket, Policy=policy(statement(bucket, ["s3:GetObject", "s3:PutObject"], principal=principal)))
    denied = ("AccessDenied", 403)
    assert eve.get_object(Bucket=bucket, Key="plain")["Body"].read() == b"data"
    assert code_of(eve.get_object, Bucket=bucket, Key="a") == denied
    assert code_of(eve.put_object, Bucket=bucket, Key="b", Body=b"data", **kms) == denied
    assert code_of(eve.copy_object, Bucket=bucket, Key="b", CopySource=f"{bucket}/a") == denied
    s3.put_bucket_policy(Bucket=bucket, Policy=policy(statement(bucket, ["s3:GetObject", "s3:PutObject"])))
    assert fetch(gateway, "GET", f"/{bucket}/plain")[0] == 200
    assert fetch(gateway, "GET", f"/{bucket}/a")[0] == 403
    # Also by the default of a bucket, without naming the key.
    rule = {"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": kms_key["id"]}}
    s3.put_bucket_encryption(Bucket=bucket, ServerSideEncryptionConfiguration={"Rules": [rule]})
    assert code_of(eve.put_object, Bucket=bucket, Key="b", Body=b"data") == denied
    assert fetch(gateway, "PUT", f"/{bucket}/b", {"Content-Length": "0"})[0] == 403
    s3.delete_bucket_encryption(Bucket=bucket)
    # A user with policies needs one for the key.
    ann, limit = member
    may_s3 = {"Effect": "Allow", "Action": "s3:*", "Resource": "*"}
    may_read = {"Effect": "Allow", "Action": "kms:Decrypt", "Resource": arn(kms_key)}
    limit(s3=policy(may_s3))
    assert ann.get_object(Bucket=bucket, Key="plain")["Body"].read() == b"data"
    assert code_of(ann.get_object, Bucket=bucket, Key="a") == denied
    # Checksums tell about the data.
    head = lambda **given: ann.head_object(Bucket=bucket, Key="a", **given)
    upload = s3.create_multipart_upload(Bucket=bucket, Key="parts", **kms)["UploadId"]
    parts = lambda: ann.list_parts(Bucket=bucket, Key="parts", UploadId=upload)
    assert head()["SSEKMSKeyId"] == arn(kms_key)
    assert (code_of(head, ChecksumMode="ENABLED"), code_of(parts)) == (("403", 403), denied)
    limit(kms=policy(may_read))
    assert "ChecksumType" in head(ChecksumMode="ENABLED")
    parts()
    assert ann.get_object(Bucket=bucket, Key="a")["Body"].read() == b"data"
    assert code_of(ann.put_object, Bucket=bucket, Key="b", Body=b"data", **kms) == denied
    limit(kms=policy(may_read | {"Action": "kms:*", "Resource": "arn:aws:kms:*:*:key/*"}))
    ann.put_object(Bucket=bucket, Key="b", Body=b"data", **kms)


def test_policies_require_encryption(gateway, s3, bucket, kms_key, code_of):
    name = "s3:x-amz-server-side-encryption"
    deny = lambda condition: statement(bucket, "s3:PutObject", effect="Deny", Condition=condition)
    other_key = gateway.run("kms", "key", "create", "main")[0]
    rules = [deny({"StringNotEquals": {name: "aws:kms"}}), deny({"ArnEquals": {f"{name}-aws-kms-key-id": arn(other_key)}})]
    plain_upload = s3.create_multipart_upload(Bucket=bucket, Key="plain")["UploadId"]
    s3.put_bucket_policy(Bucket=bucket, Policy=policy(*rules))
    put = lambda **given: s3.put_object(Bucket=bucket, Key="a", Body=b"data", **given)
    denied = ("AccessDenied", 403)
    assert code_of(put) == code_of(put, ServerSideEncryption="AES256") == code_of(put, **customer()) == denied
    kms = lambda key: {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": key}
    put(**kms(kms_key["id"]))
    # A policy sees the ARN of a key, also if the request names its id.
    assert code_of(put, **kms(other_key["id"])) == code_of(put, **kms(arn(other_key))) == denied
    for wrong in (arn(other_key).replace("us-east-1", "eu-1"), arn(other_key).replace(":main:", ":lab:"), f"arn:x:key/{other_key['id']}"):
        assert code_of(put, **kms(wrong)) == ("KMS.NotFoundException", 400)
    # A part counts with the encryption of its upload.
    upload = s3.create_multipart_upload(Bucket=bucket, Key="b", **kms(kms_key["id"]))["UploadId"]
    etag = s3.upload_part(Bucket=bucket, Key="b", UploadId=upload, PartNumber=1, Body=b"data")["ETag"]
    parts = {"Parts": [{"PartNumber": 1, "ETag": etag}]}
    complete = lambda: s3.complete_multipart_upload(Bucket=bucket, Key="b", UploadId=upload, MultipartUpload=parts)["ETag"]
    # A retry of the completion, too.
    assert complete() == complete()
    liar = gateway.client()
    liar.meta.events.register(
        "before-call.s3.UploadPart", lambda params, **_: params["headers"].update({"x-amz-server-side-encryption": "aws:kms"})
    )
    part = lambda client: client.upload_part(Bucket=bucket, Key="plain", UploadId=plain_upload, PartNumber=1, Body=b"data")
    assert code_of(part, s3) == code_of(part, liar) == denied
    s3.delete_bucket_policy(Bucket=bucket)
    assert code_of(part, liar) == ("InvalidArgument", 400)
    liar = gateway.client()
    key_header = {"x-amz-server-side-encryption-aws-kms-key-id": kms_key["id"]}
    liar.meta.events.register("before-call.s3.UploadPart", lambda params, **_: params["headers"].update(key_header))
    assert code_of(part, liar) == ("InvalidArgument", 400)
    part(s3)


def test_an_encryption_context(gateway, s3, bucket, kms_key):
    context = base64.b64encode(json.dumps({"patient": "ä 7"}).encode()).decode()
    kms = {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": kms_key["id"], "SSEKMSEncryptionContext": context}
    s3.put_object(Bucket=bucket, Key="a", Body=b"data", **kms)
    assert s3.get_object(Bucket=bucket, Key="a")["Body"].read() == b"data"


def test_a_form_is_encrypted_only_by_default(gateway, s3, bucket, kms_key):
    # The signer of a form does not choose these fields, so its sender may not, either.
    fields = {"x-amz-server-side-encryption": "AES256"}
    signed = s3.generate_presigned_post(bucket, "a", Fields={}, Conditions=[])["fields"]
    assert post(gateway, bucket, signed | fields)[:2] == (501, "NotImplemented")
    secret = customer()["SSECustomerKey"]
    values = {"algorithm": "AES256", "key": base64.b64encode(secret).decode(), "key-md5": base64.b64encode(hashlib.md5(secret).digest()).decode()}
    fields = {f"x-amz-server-side-encryption-customer-{name}": value for name, value in values.items()}
    assert post(gateway, bucket, signed | fields)[:2] == (501, "NotImplemented")
    gateway.check(bucket, {"objects": 0})
    rule = {"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": kms_key["id"]}}
    s3.put_bucket_encryption(Bucket=bucket, ServerSideEncryptionConfiguration={"Rules": [rule]})
    assert post(gateway, bucket, signed)[0] == 204
    got = s3.get_object(Bucket=bucket, Key="a")
    assert got["Body"].read() == b"data"
    check_answer(got, "kms", kms_key)


def test_code_runs_on_encrypted_objects_in_the_gateway(gateway, s3, bucket):
    s3.put_object(Bucket=bucket, Key="a", Body=b"data", ServerSideEncryption="AES256")
    call = {"name": "digest.compute", "x-benthic-input": "md5"}
    assert execute(gateway, target(bucket, "a", **call)) == (200, hashlib.md5(b"data").hexdigest().encode(), "gateway")
    s3.put_object(Bucket=bucket, Key="b", Body=b"data", **customer())
    assert execute(gateway, target(bucket, "b", **call))[:2] == (400, "InvalidRequest")


def test_attributes_and_tags_change_without_the_key(s3, bucket):
    s3.put_object(Bucket=bucket, Key="a", Body=b"data", **customer())
    s3.put_object_tagging(Bucket=bucket, Key="a", Tagging={"TagSet": [{"Key": "k", "Value": "v"}]})
    s3.put_object_acl(Bucket=bucket, Key="a", ACL="public-read")
    got = s3.get_object(Bucket=bucket, Key="a", **customer())
    assert (got["Body"].read(), got["TagCount"]) == (b"data", 1)


def test_an_account_with_kms_keys_is_not_removed(gateway, bucket):
    account = f"keys-{bucket}"
    gateway.run("account", "create", account)
    key = gateway.run("kms", "key", "create", account)[0]["id"]

    def fails(*args):
        verb = gateway.spawn(*args)
        out, err = verb.communicate(timeout=60)
        assert verb.returncode != 0 and out == ""
        return err

    assert "KMS keys" in fails("account", "rm", account)
    assert "not disabled" in fails("kms", "key", "rm", key)
    gateway.run("kms", "key", "disable", key)
    gateway.run("kms", "key", "rm", key)
    gateway.run("account", "rm", account)
    assert "no such KMS key" in fails("kms", "key", "rotate", key)


def test_a_key_of_the_client_needs_a_secure_connection(tmp_path, code_of):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            pytest.skip("this machine has only the loopback address")
        address = probe.getsockname()[0]
    with running("file", tmp_path) as gateway:
        gateway.stop()
        port = gateway.listen.split(":")[1]
        gateway.listen = f"0.0.0.0:{port}"
        gateway.start()
        gateway.url = f"http://{address}:{port}"
        s3 = gateway.client(proxies={})
        s3.create_bucket(Bucket="open")
        put = lambda **given: s3.put_object(Bucket="open", Key="a", Body=b"data", **given)
        assert code_of(put, **customer()) == ("InvalidRequest", 400)
        put(ServerSideEncryption="AES256")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["create", "nobody"], "no such account"),
        (["create", "main", "--description", "x" * 257], "at most 256 bytes"),
        (["rotate", str(uuid.uuid4())], "no such KMS key"),
        (["disable", "x" * 5_000], "no such KMS key"),
        (["ls", "nobody"], "no such account"),
    ],
)
def test_commands_about_keys_explain_errors(gateway, args, message):
    verb = gateway.spawn("kms", "key", *args)
    out, err = verb.communicate(timeout=60)
    assert verb.returncode != 0 and out == "" and message in err
