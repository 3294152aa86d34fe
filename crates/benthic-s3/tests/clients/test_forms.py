"""Uploads from browsers: HTML forms with a policy."""

import base64
import datetime
import hashlib
import json
import re
import uuid

import botocore.auth
import pytest
from raw import is_empty, request


def form(fields, data, name="picture.png"):
    """A form's body and headers."""
    boundary = uuid.uuid4().hex
    parts = [f'--{boundary}\r\nContent-Disposition: form-data; name="{key}"\r\n\r\n{value}\r\n' for key, value in fields.items()]
    parts.append(f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\nContent-Type: image/png\r\n\r\n')
    body = "".join(parts).encode() + data + f"\r\n--{boundary}--\r\n".encode()
    return body, {"Content-Type": f"multipart/form-data; boundary={boundary}"}


def post(gateway, bucket, fields, data=b"data", **given):
    body, headers = form(fields, data, **given)
    status, headers, text = request(gateway, "POST", f"/{bucket}", body, headers)
    code = re.search(rb"<Code>(.*?)</Code>", text)
    return status, code.group(1).decode() if code else text, headers


@pytest.fixture
def policy(s3, bucket):
    """The fields of a form with a signed policy."""

    def policy(key="a", fields=None, conditions=None, expires=60):
        fields = fields or {}
        conditions = [{name: value} for name, value in fields.items()] + (conditions or [])
        return s3.generate_presigned_post(bucket, key, Fields=fields, Conditions=conditions, ExpiresIn=expires)["fields"]

    return policy


def test_a_form_creates_an_object(gateway, s3, bucket, policy):
    fields = policy(fields={"Content-Type": "text/x", "x-amz-meta-who": "ada", "Cache-Control": "max-age=5"})
    status, text, _ = post(gateway, bucket, fields, b"data" * 50_000)
    assert (status, text) == (204, b"")
    got = s3.get_object(Bucket=bucket, Key="a")
    assert got["Body"].read() == b"data" * 50_000
    assert (got["ContentType"], got["Metadata"], got["CacheControl"]) == ("text/x", {"who": "ada"}, "max-age=5")
    assert got["ETag"] == f'"{hashlib.md5(b"data" * 50_000).hexdigest()}"'


@pytest.mark.parametrize("days, expected", [(6, (204, b"")), (8, (403, "RequestTimeTooSkewed"))])
def test_a_form_is_valid_long_after_its_signature(gateway, bucket, policy, days, expected):
    earlier = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(days=days)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(botocore.auth, "get_current_datetime", lambda *_, **__: earlier.replace(tzinfo=None))
        fields = policy()
    assert fields["x-amz-date"].startswith(earlier.strftime("%Y%m%dT%H%M"))
    assert post(gateway, bucket, fields)[:2] == expected


def test_a_key_may_have_the_files_name(gateway, s3, bucket, policy):
    assert post(gateway, bucket, policy(key="dir/${filename}"), name="ü b.png")[0] == 204
    assert s3.get_object(Bucket=bucket, Key="dir/ü b.png")["Body"].read() == b"data"


def test_answers_to_forms(gateway, s3, bucket, policy):
    status, text, _ = post(gateway, bucket, policy(fields={"success_action_status": "201"}))
    assert status == 201
    assert f"<Bucket>{bucket}</Bucket>".encode() in text and b"<Key>a</Key>" in text and b"<ETag>" in text
    assert post(gateway, bucket, policy(fields={"success_action_status": "200"}))[0] == 200
    there = "http://example.org/done"
    status, _, headers = post(gateway, bucket, policy(fields={"success_action_redirect": there}))
    assert status == 303
    assert headers["location"].startswith(there) and f"bucket={bucket}" in headers["location"] and "key=a" in headers["location"]


@pytest.mark.parametrize(
    "change, expected",
    [
        ({"key": "b"}, (403, "AccessDenied")),
        ({"x-amz-meta-more": "1"}, (403, "AccessDenied")),
        ({"acl": "public-read"}, (403, "AccessDenied")),
        ({"x-amz-signature": "0" * 64}, (403, "SignatureDoesNotMatch")),
        ({"policy": base64.b64encode(b'{"expiration": "2100-01-01T00:00:00Z", "conditions": []}').decode()},
         (400, "InvalidPolicyDocument")),
        ({"policy": "no policy"}, (400, None)),
        ({"x-amz-credential": "nobody"}, (400, None)),
        ({"policy": None}, (400, None)),
        ({"x-amz-signature": None}, (403, None)),
        ({"key": None}, (400, None)),
    ],
)
def test_a_changed_form_is_refused(gateway, s3, bucket, policy, change, expected):
    fields = {name: value for name, value in (policy() | change).items() if value is not None}
    status, code, _ = post(gateway, bucket, fields)
    assert (status, code) == expected if expected[1] else status in (400, 403), (status, code)
    assert is_empty(s3, bucket)


def test_conditions_of_a_policy(gateway, s3, bucket, policy):
    sizes = policy(conditions=[["content-length-range", 2, 10]])
    assert post(gateway, bucket, sizes, b"x")[:2] == (400, "EntityTooSmall")
    assert post(gateway, bucket, sizes, b"x" * 11)[:2] == (400, "EntityTooLarge")
    images = policy(key="user/${filename}", conditions=[["starts-with", "$Content-Type", "image/"]])
    assert post(gateway, bucket, images | {"Content-Type": "text/html"})[:2] == (403, "AccessDenied")
    assert post(gateway, bucket, policy(expires=-60))[:2] == (403, "AccessDenied")
    assert is_empty(s3, bucket)
    assert post(gateway, bucket, sizes, b"x" * 10)[0] == 204
    assert post(gateway, bucket, images | {"Content-Type": "image/gif"}, name="b")[0] == 204
    assert s3.head_object(Bucket=bucket, Key="user/b")["ContentType"] == "image/gif"


TAGS = "<Tagging><TagSet><Tag><Key>b</Key><Value>2 &amp; 3</Value></Tag><Tag><Key>a</Key><Value>1</Value></Tag></TagSet></Tagging>"


def test_a_form_has_tags_and_an_acl(gateway, s3, bucket, policy):
    fields = policy(fields={"acl": "public-read", "tagging": TAGS})
    # The policy binds these fields, too.
    for change in ({"acl": "public-read-write"}, {"tagging": TAGS.replace("1", "2")}, {"Tagging": TAGS.replace("1", "2")}):
        assert post(gateway, bucket, fields | change)[:2] == (403, "AccessDenied"), change
    many = "".join(f"<Tag><Key>{number}</Key><Value/></Tag>" for number in range(11))
    for given, code in [
        ({"acl": "all"}, "InvalidArgument"),
        ({"acl": "private", "x-amz-acl": "private"}, "InvalidRequest"),
        ({"tagging": "<Tagging>"}, "MalformedXML"),
        ({"tagging": TAGS.replace("<Value>1<", "<Value><![CDATA[1]]><")}, "MalformedXML"),
        ({"tagging": TAGS.replace("<TagSet>", "<TagSet><tag/>")}, "MalformedXML"),
        ({"tagging": TAGS, "x-amz-tagging": "a=1"}, "InvalidRequest"),
        ({"tagging": f"<Tagging><TagSet>{many}</TagSet></Tagging>"}, "InvalidTag"),
    ]:
        assert post(gateway, bucket, policy(fields=given))[:2] == (400, code), given
    # Too large are one field, all fields together, and all fields with their names.
    for large in ({"x-ignore-0": "x" * 65_600}, *({f"x-ignore-{number}": "x" * 1_000 for number in range(count)} for count in (70, 63))):
        assert post(gateway, bucket, policy() | large)[:2] == (400, "MaxPostPreDataLengthExceededError"), len(large)
    assert is_empty(s3, bucket)
    assert post(gateway, bucket, fields)[0] == 204
    assert request(gateway, "GET", f"/{bucket}/a")[::2] == (200, b"data")
    tags = [{"Key": "a", "Value": "1"}, {"Key": "b", "Value": "2 & 3"}]
    assert s3.get_object_tagging(Bucket=bucket, Key="a")["TagSet"] == tags
    assert post(gateway, bucket, policy("b", fields={"x-amz-tagging": "a=1"}))[0] == 204
    assert s3.get_object_tagging(Bucket=bucket, Key="b")["TagSet"] == tags[:1]


def test_a_form_cannot_hide_a_field(gateway, s3, bucket, policy):
    """The gateway finds the fields that it checks against the policy, also in unusual forms."""
    body, headers = form({"tagging": TAGS} | policy(fields={"tagging": TAGS}), b"data")
    boundary = headers["Content-Type"].split("=")[1]
    hidden = [b"x" + body]
    for disposition in (
        'form-data; filename="; name=file"; name="x-ignore-1"',
        'form-data; name="file"\r\nContent-Disposition: form-data; name="x-ignore-1"',
    ):
        hidden.append(f"--{boundary}\r\nContent-Disposition: {disposition}\r\n\r\n\r\n".encode() + body)
    for text in hidden:
        assert request(gateway, "POST", f"/{bucket}", text, headers)[0] == 204
        found = s3.get_object_tagging(Bucket=bucket, Key="a")["TagSet"]
        assert {tag["Key"]: tag["Value"] for tag in found} == {"a": "1", "b": "2 & 3"}
        s3.delete_object(Bucket=bucket, Key="a")


def test_a_form_needs_a_length(gateway, s3, bucket, policy):
    """Otherwise its file would have to stay in memory until its size is known."""
    for fields in (policy(), {"key": "a"}):
        body, headers = form(fields, b"data")
        chunked = {"Transfer-Encoding": "chunked"}
        # One piece, because the gateway answers before it has read all.
        sent = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
        for given in (chunked, chunked | {"Content-Length": str(len(body))}):
            status, _, text = request(gateway, "POST", f"/{bucket}", sent, headers | given)
            assert status == 411 and b"<Code>MissingContentLength</Code>" in text
    assert is_empty(s3, bucket)


def test_a_policy_of_another_bucket(gateway, s3, bucket, policy):
    other = f"{bucket}-other"
    s3.create_bucket(Bucket=other)
    assert post(gateway, other, policy())[0] == 403
    assert is_empty(s3, other)


def test_malformed_forms_are_refused(gateway, s3, bucket, policy):
    fields = policy()
    body, headers = form(fields, b"data")
    for wrong in (body[: len(body) // 2], body[:-40], b"", b"no form", body.replace(b'name="file"', b'name="other"')):
        status, _, _ = request(gateway, "POST", f"/{bucket}", wrong, headers)
        assert status == 400
    assert request(gateway, "POST", f"/{bucket}", body, {"Content-Type": "multipart/form-data"})[0] == 400
    assert request(gateway, "POST", f"/{bucket}", body, {"Content-Type": "text/plain"})[0] in (400, 403, 405, 501)
    assert json.loads(base64.b64decode(fields["policy"]))["conditions"]
    assert is_empty(s3, bucket)


def test_a_form_without_a_policy(gateway, s3, bucket):
    assert post(gateway, bucket, {"key": "a"})[:2] == (403, "AccessDenied")
    s3.put_bucket_acl(Bucket=bucket, ACL="public-read")
    assert post(gateway, bucket, {"key": "a"})[:2] == (403, "AccessDenied")
    assert is_empty(s3, bucket)
    s3.put_bucket_acl(Bucket=bucket, ACL="public-read-write")
    assert post(gateway, bucket, {"key": "a", "acl": "public-read", "tagging": TAGS})[0] == 204
    assert [tag["Key"] for tag in s3.get_object_tagging(Bucket=bucket, Key="a")["TagSet"]] == ["a", "b"]
