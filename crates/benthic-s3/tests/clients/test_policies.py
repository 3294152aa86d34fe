"""Policies of buckets and users, access control lists, and the settings that limit both."""

import datetime
import hashlib
import json
import time

import pytest
import raw
from test_buckets import fetch
from test_forms import form
from test_forms import post as post_form

# A gateway applies changes of users within this time.
KEY_CACHE_S = 2


def statement(bucket, action, resource="/*", effect="Allow", principal="*", **more):
    resources = [f"arn:aws:s3:::{bucket}{part}" for part in ([resource] if isinstance(resource, str) else resource)]
    principals = {} if principal is None else {"Principal": principal}
    return {"Effect": effect, "Action": action, "Resource": resources, **principals, **more}


def policy(*statements):
    return json.dumps({"Version": "2012-10-17", "Statement": statements})


@pytest.fixture
def other(gateway, bucket):
    """A client of another account, and the name of the account."""
    account = f"other-{bucket}"
    gateway.run("account", "create", account)
    gateway.run("user", "create", f"{account}/eve")
    key = gateway.run("key", "create", f"{account}/eve")[0]
    return gateway.client(key["access_key"], key["secret_key"]), account


@pytest.fixture
def member(gateway, bucket):
    """A client of another user of the account that owns the bucket, and a function that sets the user's policies."""
    user = f"main/user-{bucket}"
    gateway.run("user", "create", user)
    key = gateway.run("key", "create", user)[0]

    def limit(**policies):
        for name, text in policies.items():
            file = gateway.dir / f"{bucket}-{name}.json"
            file.write_text(text)
            gateway.run("user", "policy", "put", user, name, str(file))
        time.sleep(KEY_CACHE_S)

    limit.user = user
    return gateway.client(key["access_key"], key["secret_key"]), limit


def test_a_bucket_policy_opens_a_prefix(gateway, s3, bucket, other, code_of):
    eve, account = other
    for key in ["open/a", "closed/a"]:
        s3.put_object(Bucket=bucket, Key=key, Body=b"1")
    assert code_of(s3.get_bucket_policy, Bucket=bucket) == ("NoSuchBucketPolicy", 404)
    text = policy(
        statement(bucket, "s3:GetObject", "/open/*"),
        statement(bucket, "s3:ListBucket", "", principal={"AWS": account}, Condition={"StringLike": {"s3:prefix": "open/*"}}),
        statement(bucket, ["s3:PutObject", "s3:DeleteObject"], "/open/in/*", principal={"AWS": f"arn:aws:iam::{account}:user/eve"}),
    )
    s3.put_bucket_policy(Bucket=bucket, Policy=text)
    assert s3.get_bucket_policy(Bucket=bucket)["Policy"] == text
    assert s3.get_bucket_policy_status(Bucket=bucket)["PolicyStatus"] == {"IsPublic": True}

    assert fetch(gateway, "GET", f"/{bucket}/open/a")[:2] == (200, b"1")
    assert fetch(gateway, "GET", f"/{bucket}/closed/a")[0] == 403
    assert fetch(gateway, "GET", f"/{bucket}/open/missing")[0] == 403
    assert fetch(gateway, "GET", f"/{bucket}?prefix=open/")[0] == 403
    assert eve.get_object(Bucket=bucket, Key="open/a")["Body"].read() == b"1"
    assert eve.list_objects_v2(Bucket=bucket, Prefix="open/")["KeyCount"] == 1
    for call, given in [
        (eve.list_objects_v2, {}),
        (eve.list_objects_v2, {"Prefix": "closed/"}),
        (eve.get_object, {"Key": "closed/a"}),
        (eve.put_object, {"Key": "open/a", "Body": b"2"}),
        (eve.put_object, {"Key": "open/in/../a", "Body": b"2", "ACL": "public-read"}),
        (eve.get_bucket_policy, {}),
        (eve.put_bucket_policy, {"Policy": text}),
        (eve.delete_bucket_policy, {}),
    ]:
        assert code_of(call, Bucket=bucket, **given) == ("AccessDenied", 403), (call, given)
    # A caller that may list the keys with this prefix finds out that an object is missing.
    assert code_of(eve.get_object, Bucket=bucket, Key="open/missing") == ("NoSuchKey", 404)
    assert code_of(eve.head_object, Bucket=bucket, Key="open/missing") == ("404", 404)
    for key in ("closed/missing", "closed/a", "ope"):
        assert code_of(eve.head_object, Bucket=bucket, Key=key) == ("403", 403), key
    eve.put_object(Bucket=bucket, Key="open/in/b", Body=b"3")
    assert s3.get_object(Bucket=bucket, Key="open/in/b")["Body"].read() == b"3"
    deleted = eve.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": "open/in/b"}, {"Key": "open/a"}]})
    assert [entry["Key"] for entry in deleted["Deleted"]] == ["open/in/b"]
    assert [(entry["Key"], entry["Code"]) for entry in deleted["Errors"]] == [("open/a", "AccessDenied")]

    s3.delete_bucket_policy(Bucket=bucket)
    assert code_of(eve.get_object, Bucket=bucket, Key="open/a") == ("AccessDenied", 403)


def test_a_denial_binds_the_owner_too(s3, bucket, code_of):
    s3.put_object(Bucket=bucket, Key="keep/a", Body=b"1")
    s3.put_bucket_policy(Bucket=bucket, Policy=policy(statement(bucket, ["s3:Delete*", "s3:*Policy"], ["/keep/*", ""], "Deny")))
    assert code_of(s3.delete_object, Bucket=bucket, Key="keep/a") == ("AccessDenied", 403)
    assert code_of(s3.delete_bucket, Bucket=bucket) == ("AccessDenied", 403)
    # Nobody locks himself out.
    s3.delete_bucket_policy(Bucket=bucket)
    s3.delete_object(Bucket=bucket, Key="keep/a")


def test_conditions_see_the_request(gateway, s3, bucket, other, code_of):
    eve, _ = other
    s3.put_object(Bucket=bucket, Key="a", Body=b"1", Tagging="level=open")
    s3.put_object(Bucket=bucket, Key="b", Body=b"1", Tagging="level=secret")
    for condition, allowed in [
        ({"IpAddress": {"aws:SourceIp": "127.0.0.0/8"}}, True),
        ({"NotIpAddress": {"aws:SourceIp": "127.0.0.0/8"}}, False),
        ({"Bool": {"aws:SecureTransport": "false"}}, True),
        ({"Bool": {"aws:SecureTransport": "true"}}, False),
        ({"StringEquals": {"aws:username": "eve"}}, True),
        ({"StringLike": {"aws:UserAgent": "*Botocore*"}}, True),
        ({"DateGreaterThan": {"aws:CurrentTime": "2020-01-01T00:00:00Z"}}, True),
        ({"NumericLessThan": {"aws:EpochTime": "1600000000"}}, False),
        ({"StringEquals": {"s3:ExistingObjectTag/level": "open"}}, True),
        ({"StringEquals": {"s3:ExistingObjectTag/level": "secret"}}, False),
        ({"StringEquals": {"s3:authType": "REST-HEADER"}}, True),
        ({"StringEquals": {"s3:signatureversion": "AWS4-HMAC-SHA256"}}, True),
        ({"NumericLessThan": {"s3:signatureAge": "600000"}}, True),
        ({"NumericGreaterThan": {"s3:signatureAge": "600000"}}, False),
        ({"NumericGreaterThanEquals": {"s3:TlsVersion": "1.2"}}, False),
        ({"Null": {"s3:TlsVersion": "true"}}, True),
        ({"StringEquals": {"aws:RequestedRegion": "us-east-1"}}, True),
        ({"Bool": {"aws:ViaAWSService": "false"}}, True),
        ({"Bool": {"aws:MultiFactorAuthPresent": "false"}}, False),
        ({"BoolIfExists": {"aws:MultiFactorAuthPresent": "true"}}, True),
        ({"Null": {"aws:MultiFactorAuthAge": "true", "aws:TokenIssueTime": "true"}}, True),
    ]:
        s3.put_bucket_policy(Bucket=bucket, Policy=policy(statement(bucket, "s3:GetObject", Condition=condition)))
        if allowed:
            eve.get_object(Bucket=bucket, Key="a")
        else:
            assert code_of(eve.get_object, Bucket=bucket, Key="a") == ("AccessDenied", 403), condition

    writes = statement(bucket, ["s3:PutObject", "s3:PutObjectTagging", "s3:PutObjectAcl"])
    tags = {"StringEquals": {"s3:RequestObjectTag/level": "open"}}
    s3.put_bucket_policy(Bucket=bucket, Policy=policy(writes | {"Condition": tags}))
    eve.put_object(Bucket=bucket, Key="c", Body=b"1", Tagging="level=open")
    assert code_of(eve.put_object, Bucket=bucket, Key="c", Body=b"1") == ("AccessDenied", 403)
    wanted = lambda level: {"Bucket": bucket, "Key": "b", "Tagging": {"TagSet": [{"Key": "level", "Value": level}]}}
    eve.put_object_tagging(**wanted("open"))
    assert code_of(eve.put_object_tagging, **wanted("secret")) == ("AccessDenied", 403)

    public = statement(bucket, "s3:PutObject", effect="Deny", Condition={"StringLike": {"s3:x-amz-acl": "public*"}})
    s3.put_bucket_policy(Bucket=bucket, Policy=policy(writes, public))
    eve.put_object(Bucket=bucket, Key="d", Body=b"1", ACL="private")
    assert code_of(eve.put_object, Bucket=bucket, Key="d", Body=b"1", ACL="public-read") == ("AccessDenied", 403)


def test_conditions_see_the_age_of_a_presigned_url(gateway, s3, bucket):
    s3.put_object(Bucket=bucket, Key="a", Body=b"1")
    path = lambda call: s3.generate_presigned_url(call, {"Bucket": bucket, "Key": "a"}, ExpiresIn=600).removeprefix(gateway.url)
    get, begin = path("get_object"), path("create_multipart_upload")
    fields = s3.generate_presigned_post(bucket, "b")["fields"]
    old = lambda age_ms: {"NumericGreaterThan": {"s3:signatureAge": str(age_ms)}}
    time.sleep(2)
    for age_ms, status in [(600_000, 200), (1_000, 403)]:
        denial = statement(bucket, ["s3:GetObject", "s3:PutObject"], effect="Deny", Condition=old(age_ms))
        s3.put_bucket_policy(Bucket=bucket, Policy=policy(denial))
        assert fetch(gateway, "GET", get)[0] == status, age_ms
        assert post_form(gateway, bucket, fields)[0] == (204 if status == 200 else status), age_ms
        # The signature does not cover this header, which is almost that of a form.
        assert fetch(gateway, "POST", begin, {"Content-Type": "multipart/form-datax; boundary=b"})[0] == status, age_ms


def test_a_presigned_url_signs_no_data(gateway, s3, bucket):
    path = s3.generate_presigned_url("put_object", {"Bucket": bucket, "Key": "a"}, ExpiresIn=600).removeprefix(gateway.url)
    unsigned = {"StringEquals": {"s3:x-amz-content-sha256": "UNSIGNED-PAYLOAD"}}
    s3.put_bucket_policy(Bucket=bucket, Policy=policy(statement(bucket, "s3:PutObject", effect="Deny", Condition=unsigned)))
    for given in ({}, {"x-amz-content-sha256": hashlib.sha256(b"x").hexdigest()}):
        assert raw.send(gateway, "PUT", path, b"x", given) == (403, "AccessDenied")
    assert raw.send_signed(gateway, "PUT", f"/{bucket}/a", b"x")[0] == 200
    given = {"x-amz-content-sha256": "UNSIGNED-PAYLOAD"}
    assert raw.send_signed(gateway, "PUT", f"/{bucket}/a", b"x", given) == (403, "AccessDenied")


def test_a_policy_can_demand_conditional_writes(gateway, s3, bucket, code_of):
    denied = ("AccessDenied", 403)
    creates = {"Bool": {"s3:ObjectCreationOperation": "true"}}
    missing = {"Null": {"s3:if-none-match": "true"}}
    s3.put_object(Bucket=bucket, Key="old", Body=b"1")
    s3.put_bucket_policy(
        Bucket=bucket,
        Policy=policy(
            statement(bucket, "s3:PutObject", effect="Deny", Condition=creates | missing),
            statement(bucket, "s3:DeleteObject", effect="Deny", Condition={"Null": {"s3:if-match": "true"}}),
            statement(bucket, "s3:PutObject"),
        ),
    )
    assert code_of(s3.put_object, Bucket=bucket, Key="a", Body=b"1") == denied
    # With an entity tag, the condition would not protect the object.
    assert code_of(s3.put_object, Bucket=bucket, Key="old", Body=b"2", IfNoneMatch='"x"') == denied
    assert code_of(s3.copy_object, Bucket=bucket, Key="b", CopySource=f"{bucket}/old") == denied
    assert code_of(s3.rename_object, Bucket=bucket, Key="b", RenameSource="old") == denied
    etag = s3.put_object(Bucket=bucket, Key="a", Body=b"1", IfNoneMatch="*")["ETag"]
    assert code_of(s3.put_object, Bucket=bucket, Key="a", Body=b"1", IfNoneMatch="*") == ("PreconditionFailed", 412)
    # The headers of a form have no effect, but its fields have.
    body, headers = form({"key": "old"}, b"2")
    assert raw.send(gateway, "POST", f"/{bucket}", body, headers | {"If-None-Match": "*"}) == denied[::-1]
    assert post_form(gateway, bucket, {"key": "old", "if-none-match": "*"}, b"2")[0] == 412
    assert post_form(gateway, bucket, {"key": "new", "if-none-match": "*"}, b"2")[0] == 204
    upload = {"Bucket": bucket, "Key": "large"}
    upload["UploadId"] = s3.create_multipart_upload(**upload)["UploadId"]
    part = s3.upload_part(**upload, PartNumber=1, Body=b"1")
    parts = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
    assert code_of(s3.complete_multipart_upload, **upload, MultipartUpload=parts) == denied
    s3.complete_multipart_upload(**upload, MultipartUpload=parts, IfNoneMatch="*")

    assert code_of(s3.delete_object, Bucket=bucket, Key="a") == denied
    path, document = f"/{bucket}?delete", b"<Delete><Object><Key>a</Key></Object></Delete>"
    status, text = raw.send_signed(gateway, "POST", path, document, {"If-Match": etag})
    assert (status, text) == (200, "AccessDenied")
    delete = lambda **given: s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": "a"} | given]})
    assert [entry["Code"] for entry in delete(ETag='"x"')["Errors"]] == ["PreconditionFailed"]
    assert [entry["Code"] for entry in delete()["Errors"]] == ["AccessDenied"]
    assert [entry["Key"] for entry in delete(ETag=etag)["Deleted"]] == ["a"]
    assert code_of(s3.delete_object, Bucket=bucket, Key="large") == denied
    s3.delete_object(Bucket=bucket, Key="large", IfMatch="*")
    assert s3.get_object(Bucket=bucket, Key="old")["Body"].read() == b"1"


def test_conditions_tell_nothing_to_callers_that_may_not_read(s3, bucket, other, code_of):
    eve, _ = other
    etag = s3.put_object(Bucket=bucket, Key="a", Body=b"secret")["ETag"]
    writes = statement(bucket, ["s3:PutObject", "s3:DeleteObject"])
    s3.put_bucket_policy(Bucket=bucket, Policy=policy(writes))
    denied, named = ("AccessDenied", 403), {"Bucket": bucket, "Key": "a"}
    begin = lambda: eve.create_multipart_upload(**named)["UploadId"]
    for guess in (etag, '"other"'):
        assert code_of(eve.put_object, **named, Body=b"x", IfMatch=guess) == denied
        assert code_of(eve.put_object, **named, Body=b"x", IfNoneMatch=guess) == denied
        assert code_of(eve.delete_object, **named, IfMatch=guess) == denied
        found = eve.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": "a", "ETag": guess}]})
        assert [entry["Code"] for entry in found["Errors"]] == ["AccessDenied"]
        upload = named | {"UploadId": begin()}
        part = eve.upload_part(**upload, PartNumber=1, Body=b"x")
        parts = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
        assert code_of(eve.complete_multipart_upload, **upload, MultipartUpload=parts, IfMatch=guess) == denied
    for size in (6, 7):
        assert code_of(eve.delete_object, **named, IfMatchSize=size) == denied
    assert s3.get_object(**named)["Body"].read() == b"secret"
    # Whether there is an object is no secret of a writer.
    assert code_of(eve.put_object, **named, Body=b"x", IfNoneMatch="*") == ("PreconditionFailed", 412)
    s3.put_bucket_policy(Bucket=bucket, Policy=policy(writes, statement(bucket, "s3:GetObject")))
    etag = eve.put_object(**named, Body=b"x", IfMatch=etag)["ETag"]
    eve.delete_object(**named, IfMatch=etag)


def test_permissions_of_versions_and_copies(s3, bucket, other, code_of):
    eve, account = other
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    first = s3.put_object(Bucket=bucket, Key="a", Body=b"1")["VersionId"]
    s3.put_object(Bucket=bucket, Key="a", Body=b"2")
    s3.put_bucket_policy(Bucket=bucket, Policy=policy(statement(bucket, ["s3:GetObject", "s3:DeleteObject"])))
    assert eve.get_object(Bucket=bucket, Key="a")["Body"].read() == b"2"
    assert code_of(eve.get_object, Bucket=bucket, Key="a", VersionId=first) == ("AccessDenied", 403)
    assert code_of(eve.delete_object, Bucket=bucket, Key="a", VersionId=first) == ("AccessDenied", 403)
    eve.create_bucket(Bucket=f"{bucket}-copy")
    eve.copy_object(Bucket=f"{bucket}-copy", Key="a", CopySource={"Bucket": bucket, "Key": "a"})
    old = {"Bucket": bucket, "Key": "a", "VersionId": first}
    assert code_of(eve.copy_object, Bucket=f"{bucket}-copy", Key="b", CopySource=old) == ("AccessDenied", 403)
    assert code_of(eve.copy_object, Bucket=bucket, Key="b", CopySource={"Bucket": bucket, "Key": "a"}) == ("AccessDenied", 403)
    assert code_of(eve.get_object_attributes, Bucket=bucket, Key="a", ObjectAttributes=["ETag"]) == ("AccessDenied", 403)
    s3.put_bucket_policy(Bucket=bucket, Policy=policy(statement(bucket, ["s3:GetObject*", "s3:DeleteObjectVersion"])))
    assert eve.get_object_attributes(Bucket=bucket, Key="a", ObjectAttributes=["ObjectSize"])["ObjectSize"] == 1
    eve.delete_object(Bucket=bucket, Key="a", VersionId=first)
    assert code_of(eve.delete_object, Bucket=bucket, Key="a") == ("AccessDenied", 403)
    assert account


@pytest.mark.parametrize(
    "text, reason",
    [
        ("{", "EOF"),
        (policy(), "no statement"),
        ('{"Statement": ' + "[" * 5_000, "expected"),
        (policy(statement("another", "s3:GetObject")), "not in this bucket"),
        (policy(statement("{bucket}", "s3:GetObject", principal={"AWS": "arn:aws:iam::x:group/y"})), "invalid principal"),
        (policy(statement("{bucket}", "s3:GetObject", Condition={"StringSame": {"aws:username": "x"}})), "unknown condition operator"),
        (policy(statement("{bucket}", "s3:GetObject", Sid="x" * 21_000)), "larger than"),
        (policy(statement("{bucket}", "s3:ListObjects", "", "Deny")), "unknown action"),
    ],
)
def test_invalid_policies_change_nothing(s3, bucket, code_of, text, reason):
    before = policy(statement(bucket, "s3:GetObject"))
    s3.put_bucket_policy(Bucket=bucket, Policy=before)
    with pytest.raises(s3.exceptions.ClientError, match=reason) as refused:
        s3.put_bucket_policy(Bucket=bucket, Policy=text.replace("{bucket}", bucket))
    assert refused.value.response["Error"]["Code"] == "MalformedPolicy"
    assert s3.get_bucket_policy(Bucket=bucket)["Policy"] == before


def test_the_public_access_block_wins_over_policies_and_lists(gateway, s3, bucket, other, code_of):
    eve, _ = other
    block = lambda **settings: s3.put_public_access_block(Bucket=bucket, PublicAccessBlockConfiguration=settings)
    assert code_of(s3.get_public_access_block, Bucket=bucket) == ("NoSuchPublicAccessBlockConfiguration", 404)
    public = policy(statement(bucket, "s3:GetObject"))
    s3.put_object(Bucket=bucket, Key="listed", Body=b"1", ACL="public-read")
    assert fetch(gateway, "GET", f"/{bucket}/listed")[0] == 200
    block(IgnorePublicAcls=True)
    expected = {"BlockPublicAcls": False, "IgnorePublicAcls": True, "BlockPublicPolicy": False, "RestrictPublicBuckets": False}
    assert s3.get_public_access_block(Bucket=bucket)["PublicAccessBlockConfiguration"] == expected
    assert fetch(gateway, "GET", f"/{bucket}/listed")[0] == 403
    s3.put_bucket_policy(Bucket=bucket, Policy=public)
    assert fetch(gateway, "GET", f"/{bucket}/listed")[0] == 200
    block(RestrictPublicBuckets=True, IgnorePublicAcls=True)
    assert fetch(gateway, "GET", f"/{bucket}/listed")[0] == 403
    assert code_of(eve.get_object, Bucket=bucket, Key="listed") == ("AccessDenied", 403)
    block(BlockPublicPolicy=True, BlockPublicAcls=True)
    assert code_of(s3.put_bucket_policy, Bucket=bucket, Policy=public) == ("AccessDenied", 403)
    assert code_of(s3.put_object, Bucket=bucket, Key="b", Body=b"1", ACL="public-read") == ("AccessDenied", 403)
    assert code_of(s3.put_bucket_acl, Bucket=bucket, ACL="authenticated-read") == ("AccessDenied", 403)
    s3.put_object(Bucket=bucket, Key="b", Body=b"1", ACL="private")
    s3.delete_public_access_block(Bucket=bucket)
    s3.put_bucket_acl(Bucket=bucket, ACL="public-read")


def test_lists_grant_rights_to_accounts_and_groups(gateway, s3, bucket, other, code_of):
    eve, account = other
    s3.put_object(Bucket=bucket, Key="a", Body=b"1")
    s3.put_object_acl(Bucket=bucket, Key="a", GrantRead=f'id="{account}"', GrantReadACP=f'id="{account}"')
    grants = eve.get_object_acl(Bucket=bucket, Key="a")["Grants"]
    assert sorted((grant["Grantee"]["ID"], grant["Permission"]) for grant in grants) == [(account, "READ"), (account, "READ_ACP")]
    eve.get_object(Bucket=bucket, Key="a")
    assert fetch(gateway, "GET", f"/{bucket}/a")[0] == 403
    assert code_of(eve.put_object_acl, Bucket=bucket, Key="a", ACL="public-read") == ("AccessDenied", 403)
    s3.put_object_acl(Bucket=bucket, Key="a", ACL="authenticated-read")
    eve.get_object(Bucket=bucket, Key="a")
    assert fetch(gateway, "GET", f"/{bucket}/a")[0] == 403

    s3.put_bucket_acl(Bucket=bucket, ACL="public-read-write")
    assert fetch(gateway, "PUT", f"/{bucket}/b")[0] == 200
    s3.put_bucket_acl(Bucket=bucket, GrantFullControl=f'id="{account}"')
    eve.put_object(Bucket=bucket, Key="c", Body=b"1")
    # Objects belong to the owner of the bucket.
    assert code_of(eve.get_object, Bucket=bucket, Key="c") == ("AccessDenied", 403)
    eve.put_bucket_acl(Bucket=bucket, ACL="private")
    assert code_of(eve.put_object, Bucket=bucket, Key="c", Body=b"2") == ("AccessDenied", 403)
    assert code_of(s3.put_bucket_acl, Bucket=bucket, GrantRead='id="nobody-here"') == ("InvalidArgument", 400)
    assert code_of(s3.put_bucket_acl, Bucket=bucket, GrantRead="uri=http://example.com") == ("InvalidArgument", 400)
    by_mail = {"Bucket": bucket, "GrantRead": "emailAddress=a@example.com"}
    assert code_of(s3.put_bucket_acl, **by_mail) == ("UnresolvableGrantByEmailAddress", 400)


def test_the_owner_can_turn_lists_off(s3, bucket, code_of):
    controls = lambda ownership: {"Rules": [{"ObjectOwnership": ownership}]}
    assert code_of(s3.get_bucket_ownership_controls, Bucket=bucket) == ("OwnershipControlsNotFoundError", 404)
    enforced = {"Bucket": bucket, "OwnershipControls": controls("BucketOwnerEnforced")}
    s3.put_bucket_acl(Bucket=bucket, ACL="public-read")
    assert code_of(s3.put_bucket_ownership_controls, **enforced) == ("InvalidBucketAclWithObjectOwnership", 400)
    s3.put_bucket_acl(Bucket=bucket, ACL="private")
    s3.put_bucket_ownership_controls(**enforced)
    assert s3.get_bucket_ownership_controls(Bucket=bucket)["OwnershipControls"] == controls("BucketOwnerEnforced")
    refused = ("AccessControlListNotSupported", 400)
    assert code_of(s3.put_bucket_acl, Bucket=bucket, ACL="public-read") == refused
    assert code_of(s3.put_object, Bucket=bucket, Key="a", Body=b"", ACL="public-read") == refused
    s3.put_object(Bucket=bucket, Key="a", Body=b"", ACL="bucket-owner-full-control")
    s3.delete_bucket_ownership_controls(Bucket=bucket)
    s3.put_object(Bucket=bucket, Key="a", Body=b"", ACL="public-read")
    assert code_of(s3.put_bucket_ownership_controls, Bucket=bucket, OwnershipControls=controls("None")) == ("MalformedXML", 400)


def test_objects_can_belong_to_their_writers(gateway, s3, bucket, other, code_of):
    eve, account = other
    s3.put_bucket_policy(Bucket=bucket, Policy=policy(statement(bucket, "s3:*", ["", "/*"])))
    own = lambda ownership: s3.put_bucket_ownership_controls(
        Bucket=bucket, OwnershipControls={"Rules": [{"ObjectOwnership": ownership}]}
    )
    owner = lambda client, key: client.get_object_acl(Bucket=bucket, Key=key)["Owner"]["ID"]
    denied = ("AccessDenied", 403)
    eve.put_object(Bucket=bucket, Key="before", Body=b"1")
    own("ObjectWriter")
    eve.put_object(Bucket=bucket, Key="a", Body=b"1", Tagging="a=b")
    assert owner(eve, "a") == account and owner(eve, "before") == "main"
    # Nothing that the owner of the bucket allows counts, except for deletions and tags.
    for call in [s3.get_object, s3.get_object_acl, s3.head_object]:
        assert code_of(call, Bucket=bucket, Key="a")[1] == 403, call
    assert s3.get_object_tagging(Bucket=bucket, Key="a")["TagSet"] == [{"Key": "a", "Value": "b"}]
    assert code_of(s3.put_object_acl, Bucket=bucket, Key="a", ACL="public-read") == denied
    assert code_of(s3.copy_object, Bucket=bucket, Key="copy", CopySource=f"{bucket}/a") == denied
    assert fetch(gateway, "GET", f"/{bucket}/a")[0] == 403
    deny = statement(bucket, "s3:GetObject", "/a", effect="Deny")
    s3.put_bucket_policy(Bucket=bucket, Policy=policy(statement(bucket, "s3:*", ["", "/*"]), deny))
    assert code_of(eve.get_object, Bucket=bucket, Key="a") == denied
    s3.put_bucket_policy(Bucket=bucket, Policy=policy(statement(bucket, "s3:*", ["", "/*"])))

    eve.put_object_acl(Bucket=bucket, Key="a", ACL="bucket-owner-read")
    assert s3.get_object(Bucket=bucket, Key="a")["Body"].read() == b"1"
    assert code_of(s3.get_object_acl, Bucket=bucket, Key="a") == denied
    s3.copy_object(Bucket=bucket, Key="copy", CopySource=f"{bucket}/a", TaggingDirective="REPLACE")
    assert owner(s3, "copy") == "main"
    upload = eve.create_multipart_upload(Bucket=bucket, Key="large", ACL="bucket-owner-full-control")["UploadId"]
    part = eve.upload_part(Bucket=bucket, Key="large", UploadId=upload, PartNumber=1, Body=b"1")
    assert eve.list_parts(Bucket=bucket, Key="large", UploadId=upload)["Owner"]["ID"] == account
    parts = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
    eve.complete_multipart_upload(Bucket=bucket, Key="large", UploadId=upload, MultipartUpload=parts)
    assert owner(s3, "large") == account
    s3.delete_object(Bucket=bucket, Key="large")

    own("BucketOwnerPreferred")
    eve.put_object(Bucket=bucket, Key="b", Body=b"1", ACL="private")
    eve.put_object(Bucket=bucket, Key="c", Body=b"1", ACL="bucket-owner-full-control")
    assert owner(eve, "b") == account and owner(s3, "c") == "main"
    s3.put_object(Bucket=bucket, Key="b", Body=b"2")
    assert owner(s3, "b") == "main"
    # Without these settings, all objects belong to the owner of the bucket.
    own("BucketOwnerEnforced")
    assert owner(s3, "a") == "main" and s3.get_object(Bucket=bucket, Key="a")["Body"].read() == b"1"


@pytest.fixture
def writers(gateway, s3, bucket, other):
    """A bucket with object lock whose objects belong to their writers, the client of another account, and a
    function that sets what the policy of the bucket allows to others.
    """
    name = f"writers-{bucket}"
    s3.create_bucket(Bucket=name, ObjectLockEnabledForBucket=True, ObjectOwnership="ObjectWriter")

    def allow(*actions):
        s3.put_bucket_policy(Bucket=name, Policy=policy(statement(name, list(actions))))

    return name, other[0], allow


def test_writers_cannot_lock_their_objects(s3, writers, code_of):
    bucket, eve, allow = writers
    allow("s3:PutObject")
    version = eve.put_object(Bucket=bucket, Key="a", Body=b"1")["VersionId"]
    denied = ("AccessDenied", 403)
    until = datetime.datetime.now(datetime.timezone.utc).replace(microsecond=0) + datetime.timedelta(days=1)
    retention = {"Bucket": bucket, "Key": "a", "Retention": {"Mode": "GOVERNANCE", "RetainUntilDate": until}}
    hold = lambda status: {"Bucket": bucket, "Key": "a", "LegalHold": {"Status": status}}
    assert code_of(eve.put_object_retention, **retention) == denied
    assert code_of(eve.put_object_legal_hold, **hold("ON")) == denied
    assert code_of(eve.get_object_legal_hold, Bucket=bucket, Key="a") == denied
    # The owner of the bucket may grant this, and releases every hold.
    allow("s3:PutObject", "s3:PutObjectLegalHold")
    eve.put_object_legal_hold(**hold("ON"))
    assert code_of(s3.delete_object, Bucket=bucket, Key="a", VersionId=version) == denied
    assert s3.get_object_legal_hold(Bucket=bucket, Key="a")["LegalHold"] == {"Status": "ON"}
    s3.put_object_legal_hold(**hold("OFF"))
    s3.put_object_retention(**retention)
    s3.delete_object(Bucket=bucket, Key="a", VersionId=version, BypassGovernanceRetention=True)


def test_tags_of_objects_depend_on_the_owner_of_the_bucket(s3, writers, code_of):
    bucket, eve, allow = writers
    allow("s3:PutObject")
    version = eve.put_object(Bucket=bucket, Key="a", Body=b"1")["VersionId"]
    tags = {"TagSet": [{"Key": "scanned", "Value": "clean"}]}
    denied = ("AccessDenied", 403)
    for named in ({}, {"VersionId": version}):
        address = {"Bucket": bucket, "Key": "a", **named}
        assert code_of(eve.put_object_tagging, **address, Tagging=tags) == denied
        assert code_of(eve.get_object_tagging, **address) == denied
        assert code_of(eve.delete_object_tagging, **address) == denied
        s3.put_object_tagging(**address, Tagging=tags)
        assert s3.get_object_tagging(**address)["TagSet"] == tags["TagSet"]
        s3.delete_object_tagging(**address)
    # A copy gets its tags only with the permission, even if it replaces an object of the caller.
    s3.put_object(Bucket=bucket, Key="tagged", Body=b"2", Tagging="scanned=clean")
    copy = {"Bucket": bucket, "Key": "a", "CopySource": f"{bucket}/tagged"}
    allow("s3:PutObject", "s3:GetObject", "s3:GetObjectTagging")
    assert code_of(eve.copy_object, **copy) == denied
    is_clean = {"StringEquals": {"s3:RequestObjectTag/scanned": "clean"}}
    s3.put_bucket_policy(
        Bucket=bucket,
        Policy=policy(
            statement(bucket, ["s3:PutObject", "s3:GetObject", "s3:GetObjectTagging"]),
            statement(bucket, "s3:PutObjectTagging", Condition=is_clean),
        ),
    )
    eve.copy_object(**copy)
    assert s3.get_object_tagging(Bucket=bucket, Key="a")["TagSet"] == tags["TagSet"]
    allow("s3:PutObject", "s3:PutObjectTagging")
    eve.put_object_tagging(Bucket=bucket, Key="a", Tagging=tags)


def test_others_do_not_change_the_data_of_writers(gateway, s3, bucket, other, code_of):
    eve, account = other
    s3.put_bucket_ownership_controls(Bucket=bucket, OwnershipControls={"Rules": [{"ObjectOwnership": "ObjectWriter"}]})
    gateway.run("user", "create", f"{account}/ann")
    key = gateway.run("key", "create", f"{account}/ann")[0]
    ann = gateway.client(key["access_key"], key["secret_key"])
    s3.put_bucket_policy(Bucket=bucket, Policy=policy(statement(bucket, "s3:*", ["", "/*"])))
    denied = ("AccessDenied", 403)
    append = lambda client, body, offset: client.put_object(Bucket=bucket, Key="log", Body=body, WriteOffsetBytes=offset)
    read = lambda client, key: client.get_object(Bucket=bucket, Key=key)["Body"].read()
    append(eve, b"1", 0)
    for body in (b"2", b""):
        # A wrong offset would tell the size.
        for offset in (1, 5):
            assert code_of(append, s3, body, offset) == denied, (body, offset)
    append(eve, b"2", 1)
    append(ann, b"3", 2)
    assert read(eve, "log") == b"123"
    assert eve.get_object_acl(Bucket=bucket, Key="log")["Owner"]["ID"] == account

    eve.put_object_acl(Bucket=bucket, Key="log", ACL="public-read")
    assert code_of(s3.rename_object, Bucket=bucket, Key="moved", RenameSource="log") == denied
    eve.rename_object(Bucket=bucket, Key="moved", RenameSource="log")
    assert eve.get_object_acl(Bucket=bucket, Key="moved")["Owner"]["ID"] == account

    upload = {"Bucket": bucket, "Key": "large"}
    upload["UploadId"] = eve.create_multipart_upload(**upload)["UploadId"]
    part = ann.upload_part(**upload, PartNumber=1, Body=b"1")
    s3.put_object(Bucket=bucket, Key="source", Body=b"x")
    parts = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
    assert code_of(s3.upload_part, **upload, PartNumber=1, Body=b"2") == denied
    assert code_of(s3.upload_part_copy, **upload, PartNumber=1, CopySource=f"{bucket}/source") == denied
    assert code_of(s3.complete_multipart_upload, **upload, MultipartUpload=parts) == denied
    assert len(s3.list_parts(**upload)["Parts"]) == 1
    eve.complete_multipart_upload(**upload, MultipartUpload=parts)
    # A retry succeeds, but not for others.
    eve.complete_multipart_upload(**upload, MultipartUpload=parts)
    assert code_of(s3.complete_multipart_upload, **upload, MultipartUpload=parts) == denied
    assert read(eve, "large") == b"1"
    aborted = {"Bucket": bucket, "Key": "large"}
    aborted["UploadId"] = eve.create_multipart_upload(**aborted)["UploadId"]
    s3.abort_multipart_upload(**aborted)


def test_policies_limit_a_user(gateway, s3, bucket, member, code_of):
    client, limit = member
    s3.put_object(Bucket=bucket, Key="home/x", Body=b"1")
    s3.put_object(Bucket=bucket, Key="other", Body=b"1")
    name = limit.user.split("/")[1]
    # A user without policies has all rights of the account.
    client.put_object(Bucket=bucket, Key=f"{name}/a", Body=b"1")
    limit(
        read=policy(statement(bucket, "s3:GetObject", "/home/*", principal=None)),
        own=policy(statement(bucket, "s3:*Object", "/${aws:username}/*", principal=None)),
    )
    client.get_object(Bucket=bucket, Key="home/x")
    client.put_object(Bucket=bucket, Key=f"{name}/b", Body=b"1")
    for call, given in [
        (client.list_objects_v2, {"Bucket": bucket}),
        (client.get_object, {"Bucket": bucket, "Key": "other"}),
        (client.put_object, {"Bucket": bucket, "Key": "home/x", "Body": b"2"}),
        (client.put_object_tagging, {"Bucket": bucket, "Key": f"{name}/b", "Tagging": {"TagSet": []}}),
        (client.put_bucket_policy, {"Bucket": bucket, "Policy": policy(statement(bucket, "s3:*"))}),
        (client.create_bucket, {"Bucket": f"{bucket}-2"}),
        (client.list_buckets, {}),
    ]:
        assert code_of(call, **given) == ("AccessDenied", 403), (call, given)
    # A policy of the bucket that names the user adds to the rights. One that denies takes some away.
    arn = {"AWS": f"arn:aws:iam::main:user/{name}"}
    s3.put_bucket_policy(
        Bucket=bucket,
        Policy=policy(
            statement(bucket, "s3:ListBucket", "", principal=arn),
            statement(bucket, "s3:GetObject", "/home/*", "Deny", principal=arn),
        ),
    )
    client.list_objects_v2(Bucket=bucket)
    assert code_of(client.get_object, Bucket=bucket, Key="home/x") == ("AccessDenied", 403)
    s3.delete_bucket_policy(Bucket=bucket)

    assert [line["policy"] for line in gateway.run("user", "policy", "ls", limit.user)] == ["own", "read"]
    assert "s3:GetObject" in gateway.run("user", "policy", "get", limit.user, "read")[0]["document"]
    gateway.run("user", "policy", "rm", limit.user, "read")
    gateway.run("user", "policy", "rm", limit.user, "own")
    time.sleep(KEY_CACHE_S)
    assert code_of(client.list_buckets) == ("AccessDenied", 403)
    gateway.run("user", "policy", "reset", limit.user)
    time.sleep(KEY_CACHE_S)
    client.list_buckets()


def test_policies_see_the_settings_of_a_new_bucket(bucket, member, code_of):
    client, limit = member
    enforced = {"StringEquals": {"s3:x-amz-object-ownership": "BucketOwnerEnforced"}}
    here = {"StringEqualsIfExists": {"s3:LocationConstraint": "us-east-1"}}
    may = lambda actions, condition: {"Effect": "Allow", "Action": actions, "Resource": f"arn:aws:s3:::{bucket}-*", "Condition": condition}
    limit(buckets=policy(may("s3:CreateBucket", enforced | here), may("s3:PutBucketOwnershipControls", enforced)))
    denied, name = ("AccessDenied", 403), f"{bucket}-own"
    assert code_of(client.create_bucket, Bucket=name) == denied
    assert code_of(client.create_bucket, Bucket=name, ObjectOwnership="ObjectWriter") == denied
    client.create_bucket(Bucket=name, ObjectOwnership="BucketOwnerEnforced")
    controls = lambda ownership: {"Bucket": name, "OwnershipControls": {"Rules": [{"ObjectOwnership": ownership}]}}
    assert code_of(client.put_bucket_ownership_controls, **controls("ObjectWriter")) == denied
    client.put_bucket_ownership_controls(**controls("BucketOwnerEnforced"))
    there = {"StringEquals": {"s3:LocationConstraint": "eu-central-1"}}
    limit(buckets=policy(may("s3:CreateBucket", there)))
    assert code_of(client.create_bucket, Bucket=f"{bucket}-there") == denied


def test_invalid_policies_of_users_are_refused(gateway, bucket, member):
    _, limit = member
    file = gateway.dir / f"{bucket}-invalid.json"
    for text, reason in [
        (policy(statement(bucket, "s3:GetObject")), "must not have a Principal"),
        ("x" * 30_000, "larger than"),
        (policy(statement(bucket, "GetObject", principal=None)), "invalid action"),
    ]:
        file.write_text(text)
        verb = gateway.spawn("user", "policy", "put", limit.user, "x", str(file))
        assert reason in verb.communicate(timeout=60)[1] and verb.returncode != 0
    assert gateway.run("user", "policy", "ls", limit.user) == []


def test_facts_belong_to_their_actions(gateway, s3, bucket, other, code_of):
    eve, _ = other
    s3.put_object(Bucket=bucket, Key="secret", Body=b"1", Tagging="level=secret")
    everything = statement(bucket, "s3:*", ["", "/*"])
    s3.put_bucket_policy(Bucket=bucket, Policy=policy(everything | {"Condition": {"StringLike": {"s3:prefix": "home/*"}}}))
    eve.list_objects_v2(Bucket=bucket, Prefix="home/")
    # A parameter of listings opens nothing else.
    add = lambda params, **_: params["query_string"].update(prefix="home/x") if isinstance(params["query_string"], dict) else None
    eve.meta.events.register("before-call.s3", add)
    for call, given in [
        (eve.put_object, {"Key": "a", "Body": b"1"}),
        (eve.get_object, {"Key": "secret"}),
        (eve.get_object, {"Key": "missing"}),
        (eve.get_bucket_policy, {}),
    ]:
        assert code_of(call, Bucket=bucket, **given) == ("AccessDenied", 403), (call, given)
    eve.meta.events.unregister("before-call.s3", add)

    # The source of a copy has one name, and its tags need permission, too.
    source = statement(bucket, "s3:PutObject", effect="Deny", Condition={"StringLike": {"s3:x-amz-copy-source": f"{bucket}/secret"}})
    s3.put_bucket_policy(Bucket=bucket, Policy=policy(everything, source))
    for name in [f"{bucket}/secret", f"/{bucket}/secret"]:
        assert code_of(eve.copy_object, Bucket=bucket, Key="copy", CopySource=name) == ("AccessDenied", 403), name
    tags = statement(bucket, "s3:GetObjectTagging", effect="Deny")
    s3.put_bucket_policy(Bucket=bucket, Policy=policy(everything, tags))
    copy = {"Bucket": bucket, "Key": "copy", "CopySource": f"{bucket}/secret"}
    assert code_of(eve.copy_object, **copy) == ("AccessDenied", 403)
    eve.copy_object(**copy, TaggingDirective="REPLACE")
    assert code_of(eve.copy_object, **copy, Tagging="level=open") == ("InvalidRequest", 400)


def test_a_long_header_does_not_hide_a_denial(gateway, s3, bucket):
    key = "secret/" + "x" * 900
    s3.put_object(Bucket=bucket, Key=key, Body=b"1")
    denial = statement(bucket, "s3:PutObject", effect="Deny", Condition={"StringLike": {"s3:x-amz-copy-source": f"{bucket}/secret/*"}})
    s3.put_bucket_policy(Bucket=bucket, Policy=policy(denial))
    # Percent-encoding makes the name of the source three times as long.
    for source in [f"{bucket}/{key}", bucket + "/" + "".join(f"%{byte:02x}" for byte in key.encode())]:
        headers = raw.signed(gateway, "PUT", f"/{bucket}/copy", headers={"x-amz-copy-source": source})
        assert raw.send(gateway, "PUT", f"/{bucket}/copy", headers=headers) == (403, "AccessDenied")


def test_a_parameter_does_not_choose_the_operation(gateway, s3, bucket):
    """Some clients name the operation in `x-id`. As on AWS, this has no effect."""
    s3.put_object(Bucket=bucket, Key="trusted", Body=b"1")
    others = {"StringNotEquals": {"s3:x-amz-copy-source": f"{bucket}/trusted"}}
    s3.put_bucket_policy(Bucket=bucket, Policy=policy(statement(bucket, "s3:PutObject", effect="Deny", Condition=others)))
    put = lambda headers: raw.send_signed(gateway, "PUT", f"/{bucket}/a?x-id=PutObject", b"2", headers)
    assert put({}) == (403, "AccessDenied")
    assert put({"x-amz-copy-source": f"{bucket}/trusted"})[0] == 200
    assert s3.get_object(Bucket=bucket, Key="a")["Body"].read() == b"1"
    document = b"<Delete><Object><Key>a</Key></Object><Unknown/></Delete>"
    assert raw.send_signed(gateway, "POST", f"/{bucket}?x-id=DeleteObjects", document) == (501, "NotImplemented")


def test_a_bucket_with_an_acl_needs_the_permission_for_both(gateway, bucket, member, code_of):
    client, limit = member
    limit(
        all=policy({"Effect": "Allow", "Action": "s3:*", "Resource": "*"}),
        no=policy({"Effect": "Deny", "Action": "s3:PutBucketAcl", "Resource": "*"}),
    )
    assert code_of(client.create_bucket, Bucket=f"{bucket}-acl", ACL="public-read-write") == ("AccessDenied", 403)
    client.create_bucket(Bucket=f"{bucket}-acl")
    client.delete_bucket(Bucket=f"{bucket}-acl")


def test_a_form_is_checked_like_a_request(gateway, s3, bucket):
    public = statement(bucket, "s3:PutObject", effect="Deny", Condition={"StringLike": {"s3:x-amz-acl": "public*"}})
    s3.put_bucket_policy(Bucket=bucket, Policy=policy(statement(bucket, ["s3:PutObject", "s3:PutObjectAcl"]), public))
    assert post_form(gateway, bucket, {"key": "a"}, b"1")[0] == 204
    for acl in ("acl", "x-amz-acl"):
        assert post_form(gateway, bucket, {"key": "b", acl: "public-read"}, b"1")[0] == 403
    redirect = {"Null": {"s3:x-amz-website-redirect-location": "false"}}
    no_redirect = statement(bucket, "s3:PutObject", effect="Deny", Condition=redirect)
    s3.put_bucket_policy(Bucket=bucket, Policy=policy(statement(bucket, "s3:PutObject"), no_redirect))
    assert post_form(gateway, bucket, {"key": "b", "x-amz-website-redirect-location": "/a"}, b"1")[0] == 403
    assert post_form(gateway, bucket, {"key": "a"}, b"1")[0] == 204
    assert [entry["Key"] for entry in s3.list_objects_v2(Bucket=bucket)["Contents"]] == ["a"]


def test_headers_of_a_form_have_no_effect_on_policies(gateway, s3, bucket):
    body, headers = form({"key": "a"}, b"1")
    send = lambda given: raw.send(gateway, "POST", f"/{bucket}", body, headers | given)
    writes = statement(bucket, "s3:PutObject")
    encrypted = {"Null": {"s3:x-amz-server-side-encryption": "true"}}
    s3.put_bucket_policy(Bucket=bucket, Policy=policy(writes, statement(bucket, "s3:PutObject", effect="Deny", Condition=encrypted)))
    assert send({"x-amz-server-side-encryption": "AES256"}) == (403, "AccessDenied")
    copies = {"StringEquals": {"s3:x-amz-copy-source": f"{bucket}/trusted"}}
    s3.put_bucket_policy(Bucket=bucket, Policy=policy(writes | {"Condition": copies}))
    assert send({"x-amz-copy-source": f"{bucket}/trusted"}) == (403, "AccessDenied")
    assert "Contents" not in s3.list_objects_v2(Bucket=bucket)
