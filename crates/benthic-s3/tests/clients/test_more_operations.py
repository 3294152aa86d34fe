"""Conditional deletions, renaming, request payment, the tags of S3 Control, and pages of buckets."""

import datetime
import json
import uuid

import boto3
import botocore.config
import pytest
from raw import send_signed
from test_buckets import fetch


@pytest.fixture
def other(gateway, bucket):
    """A client of another account."""
    gateway.run("account", "create", f"other-{bucket}")
    gateway.run("user", "create", f"other-{bucket}/eve")
    key = gateway.run("key", "create", f"other-{bucket}/eve")[0]
    return gateway.client(key["access_key"], key["secret_key"])


def test_deletions_can_depend_on_size_and_time(s3, bucket, code_of):
    s3.put_object(Bucket=bucket, Key="a", Body=b"123")
    head = s3.head_object(Bucket=bucket, Key="a")
    old = datetime.datetime(2015, 1, 1, tzinfo=datetime.UTC)
    delete = lambda **given: s3.delete_object(Bucket=bucket, Key="a", **given)
    for wrong in (
        {"IfMatchSize": 4}, {"IfMatchSize": 0}, {"IfMatchSize": -3}, {"IfMatchLastModifiedTime": old},
        {"IfMatchSize": 3, "IfMatchLastModifiedTime": old}, {"IfMatchSize": 3, "IfMatch": '"0"'},
        {"IfMatchSize": 4, "IfMatch": head["ETag"]},
    ):
        assert code_of(delete, **wrong) == ("PreconditionFailed", 412), wrong
    delete(IfMatchSize=3, IfMatchLastModifiedTime=head["LastModified"], IfMatch=head["ETag"])
    assert code_of(s3.head_object, Bucket=bucket, Key="a") == ("404", 404)
    delete(IfMatchSize=3)
    assert code_of(delete, IfMatchSize=3, IfMatch=head["ETag"]) == ("NoSuchKey", 404)


def test_many_deletions_can_depend_on_size_and_time(s3, bucket):
    for key in "abcd":
        s3.put_object(Bucket=bucket, Key=key, Body=key.encode())
    time = s3.head_object(Bucket=bucket, Key="b")["LastModified"]
    objects = [
        {"Key": "a", "Size": 1}, {"Key": "b", "LastModifiedTime": time}, {"Key": "c", "Size": 2},
        {"Key": "d", "LastModifiedTime": time - datetime.timedelta(seconds=1)}, {"Key": "e", "Size": 9},
    ]
    answer = s3.delete_objects(Bucket=bucket, Delete={"Objects": objects})
    assert sorted(entry["Key"] for entry in answer["Deleted"]) == ["a", "b", "e"]
    assert [(entry["Key"], entry["Code"]) for entry in answer["Errors"]] == [("c", "PreconditionFailed"), ("d", "PreconditionFailed")]
    assert [entry["Key"] for entry in s3.list_objects_v2(Bucket=bucket)["Contents"]] == ["c", "d"]


def test_conditional_deletions_of_versions(s3, bucket, code_of):
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    first = s3.put_object(Bucket=bucket, Key="a", Body=b"1")["VersionId"]
    second = s3.put_object(Bucket=bucket, Key="a", Body=b"22")["VersionId"]
    delete = lambda **given: s3.delete_object(Bucket=bucket, Key="a", **given)
    assert code_of(delete, VersionId=first, IfMatchSize=2) == ("PreconditionFailed", 412)
    delete(VersionId=first, IfMatchSize=1)
    marker = delete(IfMatchSize=2)
    assert marker["DeleteMarker"] is True
    # The marker has no size.
    assert code_of(delete, IfMatchSize=2) == ("PreconditionFailed", 412)
    assert code_of(delete, VersionId=marker["VersionId"], IfMatchSize=0) == ("PreconditionFailed", 412)
    delete(VersionId=marker["VersionId"])
    delete(VersionId=second, IfMatchSize=2)
    delete(VersionId=second, IfMatchSize=2)
    assert "Versions" not in s3.list_object_versions(Bucket=bucket)


def test_objects_are_renamed(s3, bucket, code_of):
    rename = lambda to, source, **given: s3.rename_object(Bucket=bucket, Key=to, RenameSource=source, **given)
    get = lambda key: s3.get_object(Bucket=bucket, Key=key)
    put = s3.put_object(
        Bucket=bucket, Key="a b", Body=b"data" * 100_000, Metadata={"k": "v"}, Tagging="t=1", ContentType="text/plain")
    rename("c", "a%20b")
    found = get("c")
    assert found["Body"].read() == b"data" * 100_000
    assert (found["ETag"], found["Metadata"], found["ContentType"], found["TagCount"]) == (put["ETag"], {"k": "v"}, "text/plain", 1)
    assert code_of(get, "a b") == ("NoSuchKey", 404)
    assert code_of(rename, "d", "a%20b") == ("NoSuchKey", 404)
    assert code_of(rename, "c", "c") == ("InvalidRequest", 400)
    assert code_of(rename, "d", "/%FF") == ("InvalidArgument", 400)
    s3.put_object(Bucket=bucket, Key="e", Body=b"e")
    for wrong in (
        {"DestinationIfNoneMatch": "*"}, {"DestinationIfMatch": '"0"'}, {"SourceIfMatch": '"0"'},
        {"SourceIfNoneMatch": put["ETag"]}, {"SourceIfUnmodifiedSince": datetime.datetime(2015, 1, 1)},
    ):
        assert code_of(rename, "e", "c", **wrong) == ("PreconditionFailed", 412), wrong
    assert get("e")["Body"].read() == b"e"
    # A repetition with the same token succeeds; it is another request without the token.
    for _ in range(2):
        rename("e", "/c", ClientToken="token", SourceIfMatch=put["ETag"])
    assert code_of(rename, "e", "c", ClientToken="other") == ("NoSuchKey", 404)
    # If only the copy was made, a repetition makes the deletion.
    s3.put_object(Bucket=bucket, Key="c", Body=b"data" * 100_000)
    to_new = {"DestinationIfNoneMatch": "*"}
    assert code_of(rename, "e", "c", ClientToken="other", **to_new) == ("PreconditionFailed", 412)
    rename("e", "c", ClientToken="token", **to_new)
    assert get("e")["Body"].read() == b"data" * 100_000
    assert [entry["Key"] for entry in s3.list_objects_v2(Bucket=bucket)["Contents"]] == ["e"]
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    assert code_of(rename, "f", "e") == ("NotImplemented", 501)


def test_an_encrypted_object_is_renamed(s3, bucket, code_of):
    s3.put_object(Bucket=bucket, Key="a", Body=b"secret", ServerSideEncryption="AES256")
    s3.rename_object(Bucket=bucket, Key="b", RenameSource="a")
    found = s3.get_object(Bucket=bucket, Key="b")
    assert (found["Body"].read(), found["ServerSideEncryption"]) == (b"secret", "AES256")
    key = {"SSECustomerAlgorithm": "AES256", "SSECustomerKey": b"k" * 32}
    s3.put_object(Bucket=bucket, Key="c", Body=b"secret", **key)
    assert code_of(s3.rename_object, Bucket=bucket, Key="d", RenameSource="c") == ("InvalidRequest", 400)
    assert s3.get_object(Bucket=bucket, Key="c", **key)["Body"].read() == b"secret"


def test_renaming_needs_rights_for_both_names(s3, bucket, other, code_of):
    s3.put_object(Bucket=bucket, Key="a", Body=b"1")

    def allow(*actions_and_keys):
        statements = [
            {"Effect": "Allow", "Principal": {"AWS": f"other-{bucket}"}, "Action": action, "Resource": f"arn:aws:s3:::{bucket}/{key}"}
            for action, key in actions_and_keys
        ]
        s3.put_bucket_policy(Bucket=bucket, Policy=json.dumps({"Version": "2012-10-17", "Statement": statements}))

    needed = [("s3:GetObject", "a"), ("s3:DeleteObject", "a"), ("s3:PutObject", "b")]
    for missing in needed:
        allow(*[right for right in needed if right != missing])
        assert code_of(other.rename_object, Bucket=bucket, Key="b", RenameSource="a") == ("AccessDenied", 403)
    assert s3.head_object(Bucket=bucket, Key="a")["ContentLength"] == 1
    allow(*needed)
    other.rename_object(Bucket=bucket, Key="b", RenameSource="a")
    assert s3.get_object(Bucket=bucket, Key="b")["Body"].read() == b"1"


def test_the_requester_can_pay(gateway, s3, bucket, other, code_of):
    assert s3.get_bucket_request_payment(Bucket=bucket)["Payer"] == "BucketOwner"
    s3.put_object(Bucket=bucket, Key="a", Body=b"1", ACL="public-read")
    s3.put_bucket_acl(Bucket=bucket, ACL="public-read")
    set_payer = lambda payer: s3.put_bucket_request_payment(Bucket=bucket, RequestPaymentConfiguration={"Payer": payer})
    assert code_of(set_payer, "Nobody") == ("MalformedXML", 400)
    set_payer("Requester")
    assert s3.get_bucket_request_payment(Bucket=bucket)["Payer"] == "Requester"
    get = lambda **given: other.get_object(Bucket=bucket, Key="a", **given)["Body"].read()
    assert code_of(get) == ("AccessDenied", 403)
    assert code_of(other.list_objects_v2, Bucket=bucket) == ("AccessDenied", 403)
    assert get(RequestPayer="requester") == b"1"
    assert other.list_objects_v2(Bucket=bucket, RequestPayer="requester")["KeyCount"] == 1
    presigned = other.generate_presigned_url("get_object", {"Bucket": bucket, "Key": "a", "RequestPayer": "requester"})
    path = "/" + presigned.split("/", 3)[3]
    assert fetch(gateway, "GET", path, {"x-amz-request-payer": "requester"})[:2] == (200, b"1")
    assert fetch(gateway, "GET", path)[0] == 403
    # Nobody would pay for an anonymous caller.
    assert fetch(gateway, "GET", f"/{bucket}/a")[0] == 403
    assert fetch(gateway, "GET", f"/{bucket}/a", {"x-amz-request-payer": "requester"})[0] == 403
    assert s3.get_object(Bucket=bucket, Key="a")["Body"].read() == b"1"
    set_payer("BucketOwner")
    assert get() == b"1" and fetch(gateway, "GET", f"/{bucket}/a")[0] == 200


def control(gateway, access_key=None, secret_key=None):
    """A client of S3 Control. AWS puts the account in front of the host, which a test cannot resolve."""
    client = boto3.client(
        "s3control", endpoint_url=gateway.url, region_name="us-east-1", config=botocore.config.Config(retries={"total_max_attempts": 1}),
        aws_access_key_id=access_key or gateway.access_key, aws_secret_access_key=secret_key or gateway.secret_key,
    )

    def without_account(request, **_):
        request.url = request.url.replace(f"{request.headers['x-amz-account-id']}.", "", 1)

    client.meta.events.register("before-sign.s3-control", without_account)
    return client


def test_tags_of_a_bucket_by_its_arn(gateway, s3, bucket, other, code_of):
    account = s3.get_bucket_acl(Bucket=bucket)["Owner"]["ID"]
    client = control(gateway)
    of = {"AccountId": account, "ResourceArn": f"arn:aws:s3:::{bucket}"}
    assert client.list_tags_for_resource(**of)["Tags"] == []
    client.tag_resource(**of, Tags=[{"Key": "a", "Value": "1 & <2>"}, {"Key": "b", "Value": ""}])
    client.tag_resource(**of, Tags=[{"Key": "b", "Value": "ü"}])
    tags = [{"Key": "a", "Value": "1 & <2>"}, {"Key": "b", "Value": "ü"}]
    assert client.list_tags_for_resource(**of)["Tags"] == tags
    assert s3.get_bucket_tagging(Bucket=bucket)["TagSet"] == tags
    client.untag_resource(**of, TagKeys=["a", "missing"])
    assert client.list_tags_for_resource(**of)["Tags"] == tags[1:]
    many = [{"Key": f"k{number}", "Value": ""} for number in range(50)]
    assert code_of(client.tag_resource, **of, Tags=many) == ("InvalidTag", 400)
    for wrong, code in [
        ({"ResourceArn": "arn:aws:s3:::no-such-bucket"}, ("NoSuchBucket", 404)),
        ({"ResourceArn": f"arn:aws:s3:::{bucket}/key"}, ("InvalidRequest", 400)),
        ({"ResourceArn": "arn:aws:s3:us-east-1:1:accesspoint/a"}, ("InvalidRequest", 400)),
        ({"AccountId": "another"}, ("AccessDenied", 403)),
    ]:
        assert code_of(client.list_tags_for_resource, **(of | wrong)) == code
    credentials = other._request_signer._credentials
    stranger = control(gateway, credentials.access_key, credentials.secret_key)
    assert code_of(stranger.list_tags_for_resource, **of) == ("AccessDenied", 403)
    assert code_of(control(gateway, secret_key="x").list_tags_for_resource, **of) == ("SignatureDoesNotMatch", 403)
    allow = {"Effect": "Allow", "Principal": {"AWS": f"other-{bucket}"}, "Action": "s3:ListTagsForResource", "Resource": of["ResourceArn"]}
    s3.put_bucket_policy(Bucket=bucket, Policy=json.dumps({"Version": "2012-10-17", "Statement": [allow]}))
    assert stranger.list_tags_for_resource(**of)["Tags"] == tags[1:]
    assert code_of(stranger.untag_resource, **of, TagKeys=["b"]) == ("AccessDenied", 403)


def test_damaged_documents_change_no_tags(gateway, s3, bucket):
    account = s3.get_bucket_acl(Bucket=bucket)["Owner"]["ID"]
    path = f"/v20180820/tags/arn%3Aaws%3As3%3A%3A%3A{bucket}"
    headers = {"x-amz-account-id": account}
    post = lambda body: send_signed(gateway, "POST", path, body, headers)
    assert fetch(gateway, "GET", path, headers)[0] == 403
    for body in (
        b"", b"<", b"<Tagging/>", b"<TagResourceRequest><Tag/></TagResourceRequest>",
        b"<TagResourceRequest><Tags><Tag><Key>a</Key></Tag><More/></Tags></TagResourceRequest>",
        b"<TagResourceRequest></TagResourceRequest><x/>", b"<a>" * 10_000,
    ):
        assert post(body) == (400, "MalformedXML"), body[:40]
    right = b"<TagResourceRequest><Tags><Tag><Key>a</Key><Value>b</Value></Tag></Tags></TagResourceRequest>"
    for more, code in [
        ({"Content-MD5": "1B2M2Y8AsgTpgAmY7PhCfg=="}, "BadDigest"),
        ({"x-amz-checksum-crc32": "AAAAAA=="}, "BadDigest"),
        ({"x-amz-content-sha256": "STREAMING-UNSIGNED-PAYLOAD-TRAILER", "x-amz-decoded-content-length": "9",
          "x-amz-trailer": "x-amz-checksum-crc32"}, "InvalidRequest"),
    ]:
        assert send_signed(gateway, "POST", path, right, headers | more) == (400, code), more
    assert send_signed(gateway, "PUT", path, b"", headers)[0] == 405
    assert send_signed(gateway, "DELETE", path, b"", headers) == (400, "InvalidRequest")
    assert send_signed(gateway, "GET", path, b"", headers)[1].endswith(b"<Tags></Tags></ListTagsForResourceResult>")
    # Without the header, it is the key of an object.
    assert send_signed(gateway, "GET", path, b"") == (404, "NoSuchBucket")


def test_buckets_are_listed_in_pages(gateway, s3):
    start = f"paged-{uuid.uuid4().hex[:8]}"
    names = [f"{start}-{number}" for number in range(5)]
    for name in names:
        s3.create_bucket(Bucket=name)
    listed = lambda **given: [bucket["Name"] for bucket in s3.list_buckets(**given)["Buckets"]]
    pages = s3.get_paginator("list_buckets").paginate(Prefix=start, PaginationConfig={"PageSize": 2})
    assert [[bucket["Name"] for bucket in page["Buckets"]] for page in pages if page["Buckets"]] == [names[:2], names[2:4], names[4:]]
    first = s3.list_buckets(Prefix=start, MaxBuckets=3)
    assert [bucket["Name"] for bucket in first["Buckets"]] == names[:3] and first["Prefix"] == start
    assert listed(Prefix=start, ContinuationToken=first["ContinuationToken"]) == names[3:]
    assert listed(Prefix=f"{start}-4") == names[4:] and listed(Prefix="no-such-bucket") == []
    assert listed(Prefix=start, BucketRegion="us-east-1") == names and listed(Prefix=start, BucketRegion="eu-west-1") == []
    for wrong in (0, 10_001):
        assert send_signed(gateway, "GET", f"/?max-buckets={wrong}") == (400, "InvalidArgument")
    for name in names:
        s3.delete_bucket(Bucket=name)
