"""Buckets, listings, versions, ACLs, CORS."""

import http.client
import urllib.parse

import pytest


def names(page):
    return [entry["Key"] for entry in page.get("Contents", [])]


def prefixes(page):
    return [entry["Prefix"] for entry in page.get("CommonPrefixes", [])]


def fetch(gateway, method, path, headers=None):
    """Sends an unsigned request."""
    connection = http.client.HTTPConnection(urllib.parse.urlsplit(gateway.url).netloc, timeout=30)
    connection.request(method, path, headers=headers or {})
    answer = connection.getresponse()
    return answer.status, answer.read(), answer.headers


def test_a_bucket_is_created_and_deleted(s3, code_of):
    s3.create_bucket(Bucket="made-and-deleted")
    assert "made-and-deleted" in [bucket["Name"] for bucket in s3.list_buckets()["Buckets"]]
    s3.head_bucket(Bucket="made-and-deleted")
    assert s3.get_bucket_location(Bucket="made-and-deleted")["LocationConstraint"] is None
    # In the region us-east-1, a bucket can be created again.
    s3.create_bucket(Bucket="made-and-deleted")
    s3.put_object(Bucket="made-and-deleted", Key="a", Body=b"")
    assert code_of(s3.delete_bucket, Bucket="made-and-deleted") == ("BucketNotEmpty", 409)
    s3.delete_object(Bucket="made-and-deleted", Key="a")
    s3.delete_bucket(Bucket="made-and-deleted")
    assert code_of(s3.head_bucket, Bucket="made-and-deleted") == ("404", 404)
    assert code_of(s3.list_objects_v2, Bucket="made-and-deleted") == ("NoSuchBucket", 404)
    assert code_of(s3.put_object, Bucket="made-and-deleted", Key="a", Body=b"") == ("NoSuchBucket", 404)


@pytest.mark.parametrize("engine_of_listing", ["list_objects", "list_objects_v2"])
@pytest.mark.parametrize("size", [1, 2, 3, 1000])
def test_listings_page(s3, bucket, engine_of_listing, size):
    keys = ["a", "b/1", "b/2", "b/c/3", "d", "e/4", "ü", "z%2F"]
    for key in keys:
        s3.put_object(Bucket=bucket, Key=key, Body=b"")
    pages = s3.get_paginator(engine_of_listing)
    listed = [key for page in pages.paginate(Bucket=bucket, PaginationConfig={"PageSize": size}) for key in names(page)]
    assert listed == sorted(keys, key=str.encode)
    found = list(pages.paginate(Bucket=bucket, Delimiter="/", PaginationConfig={"PageSize": size}))
    assert [key for page in found for key in names(page)] == ["a", "d", "z%2F", "ü"]
    assert [prefix for page in found for prefix in prefixes(page)] == ["b/", "e/"]
    found = list(pages.paginate(Bucket=bucket, Prefix="b/", Delimiter="/", PaginationConfig={"PageSize": size}))
    assert [key for page in found for key in names(page)] == ["b/1", "b/2"]
    assert [prefix for page in found for prefix in prefixes(page)] == ["b/c/"]


def test_listings_start_after_their_marker(s3, bucket, code_of):
    for key in "abc":
        s3.put_object(Bucket=bucket, Key=key, Body=b"1")
    assert names(s3.list_objects_v2(Bucket=bucket, StartAfter="a")) == ["b", "c"]
    assert names(s3.list_objects(Bucket=bucket, Marker="b")) == ["c"]
    none = s3.list_objects_v2(Bucket=bucket, MaxKeys=0)
    assert (names(none), none["IsTruncated"]) == ([], False)
    assert code_of(s3.list_objects_v2, Bucket=bucket, ContinuationToken="zz") == ("InvalidArgument", 400)


def test_versions(s3, bucket, code_of):
    put = lambda body: s3.put_object(Bucket=bucket, Key="a", Body=body).get("VersionId")
    assert put(b"0") is None and "Status" not in s3.get_bucket_versioning(Bucket=bucket)
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    first, second = put(b"1"), put(b"2")
    read = lambda **given: s3.get_object(Bucket=bucket, Key="a", **given)["Body"].read()
    assert [read(), read(VersionId=first), read(VersionId="null")] == [b"2", b"1", b"0"]
    marker = s3.delete_object(Bucket=bucket, Key="a")
    assert marker["DeleteMarker"] is True
    assert code_of(s3.get_object, Bucket=bucket, Key="a") == ("NoSuchKey", 404)
    assert code_of(s3.get_object, Bucket=bucket, Key="a", VersionId=marker["VersionId"]) == ("MethodNotAllowed", 405)
    listed = s3.list_object_versions(Bucket=bucket)
    assert [version["VersionId"] for version in listed["Versions"]] == [second, first, "null"]
    assert [found["VersionId"] for found in listed["DeleteMarkers"]] == [marker["VersionId"]]
    pages = s3.get_paginator("list_object_versions").paginate(Bucket=bucket, PaginationConfig={"PageSize": 1})
    assert [version["VersionId"] for page in pages for version in page.get("Versions", [])] == [second, first, "null"]
    removed = s3.delete_object(Bucket=bucket, Key="a", VersionId=marker["VersionId"])
    assert (removed["DeleteMarker"], removed["VersionId"]) == (True, marker["VersionId"])
    assert read() == b"2"
    s3.delete_object(Bucket=bucket, Key="a", VersionId=second)
    assert read() == b"1"
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Suspended"})
    assert put(b"3") == "null" and read(VersionId="null") == b"3" and read(VersionId=first) == b"1"
    assert code_of(s3.get_object, Bucket=bucket, Key="a", VersionId=second) == ("NoSuchVersion", 404)
    assert code_of(s3.get_object, Bucket=bucket, Key="a", VersionId="none") == ("InvalidArgument", 400)


def test_acls_grant_access(gateway, s3, bucket, code_of):
    s3.put_object(Bucket=bucket, Key="open", Body=b"1", ACL="public-read")
    s3.put_object(Bucket=bucket, Key="closed", Body=b"2")
    assert fetch(gateway, "GET", f"/{bucket}/open")[:2] == (200, b"1")
    assert fetch(gateway, "GET", f"/{bucket}/closed")[0] == 403
    assert fetch(gateway, "GET", f"/{bucket}/missing")[0] == 403
    assert fetch(gateway, "GET", f"/{bucket}")[0] == 403
    assert fetch(gateway, "PUT", f"/{bucket}/open")[0] == 403
    assert fetch(gateway, "DELETE", f"/{bucket}/open")[0] == 403
    assert fetch(gateway, "GET", "/")[0] == 403
    s3.put_bucket_acl(Bucket=bucket, ACL="public-read")
    assert fetch(gateway, "GET", f"/{bucket}")[0] == 200
    assert fetch(gateway, "GET", f"/{bucket}/missing")[0] == 404
    assert fetch(gateway, "GET", f"/{bucket}/closed")[0] == 403
    assert len(s3.get_bucket_acl(Bucket=bucket)["Grants"]) == 2
    s3.put_object_acl(Bucket=bucket, Key="open", ACL="private")
    assert fetch(gateway, "GET", f"/{bucket}/open")[0] == 403
    assert len(s3.get_object_acl(Bucket=bucket, Key="open")["Grants"]) == 1
    assert code_of(s3.put_bucket_acl, Bucket=bucket, ACL="log-delivery-write") == ("NotImplemented", 501)


def test_accounts_see_only_their_own_buckets(gateway, s3, bucket, code_of):
    gateway.run("account", "create", f"other-{bucket}")
    gateway.run("user", "create", f"other-{bucket}/eve")
    key = gateway.run("key", "create", f"other-{bucket}/eve")[0]
    eve = gateway.client(key["access_key"], key["secret_key"])
    s3.put_object(Bucket=bucket, Key="a", Body=b"1")
    assert eve.list_buckets()["Buckets"] == []
    for call, given in [
        (eve.list_objects_v2, {}),
        (eve.get_object, {"Key": "a"}),
        (eve.put_object, {"Key": "a", "Body": b"2"}),
        (eve.delete_object, {"Key": "a"}),
        (eve.put_bucket_acl, {"ACL": "public-read"}),
        (eve.delete_bucket, {}),
        (eve.list_multipart_uploads, {}),
        (eve.get_bucket_versioning, {}),
    ]:
        assert code_of(call, Bucket=bucket, **given) == ("AccessDenied", 403)
    assert code_of(eve.create_bucket, Bucket=bucket) == ("BucketAlreadyExists", 409)
    copy = lambda: eve.copy_object(Bucket=f"{bucket}-eve", Key="a", CopySource={"Bucket": bucket, "Key": "a"})
    eve.create_bucket(Bucket=f"{bucket}-eve")
    assert code_of(copy) == ("AccessDenied", 403)
    assert s3.get_object(Bucket=bucket, Key="a")["Body"].read() == b"1"


def test_tags_of_buckets(s3, bucket, code_of):
    assert code_of(s3.get_bucket_tagging, Bucket=bucket) == ("NoSuchTagSet", 404)
    tags = [{"Key": "k", "Value": "v"}]
    s3.put_bucket_tagging(Bucket=bucket, Tagging={"TagSet": tags})
    assert s3.get_bucket_tagging(Bucket=bucket)["TagSet"] == tags
    s3.delete_bucket_tagging(Bucket=bucket)
    assert code_of(s3.get_bucket_tagging, Bucket=bucket) == ("NoSuchTagSet", 404)


def test_cors(gateway, s3, bucket, code_of):
    assert code_of(s3.get_bucket_cors, Bucket=bucket) == ("NoSuchCORSConfiguration", 404)
    rule = {"AllowedOrigins": ["https://*.example.org"], "AllowedMethods": ["GET", "PUT"], "AllowedHeaders": ["x-amz-*"],
            "ExposeHeaders": ["ETag"], "MaxAgeSeconds": 60}
    s3.put_bucket_cors(Bucket=bucket, CORSConfiguration={"CORSRules": [rule]})
    assert s3.get_bucket_cors(Bucket=bucket)["CORSRules"] == [rule]
    ask = {"Origin": "https://a.example.org", "Access-Control-Request-Method": "PUT"}
    status, _, headers = fetch(gateway, "OPTIONS", f"/{bucket}/a", ask | {"Access-Control-Request-Headers": "X-Amz-Date"})
    assert (status, headers["access-control-allow-origin"]) == (200, "https://a.example.org")
    assert headers["access-control-max-age"] == "60"
    for origin in ("https://b", "https://.example.org.evil", "http://a.example.org", "https://example.org", ""):
        assert fetch(gateway, "OPTIONS", f"/{bucket}/a", ask | {"Origin": origin})[0] == 403
    assert fetch(gateway, "OPTIONS", f"/{bucket}/a", ask | {"Access-Control-Request-Method": "DELETE"})[0] == 403
    assert fetch(gateway, "OPTIONS", f"/{bucket}/a", {"Origin": "https://a.example.org"})[0] == 400
    for wrong in ({"AllowedOrigins": ["*.*"], "AllowedMethods": ["GET"]}, {"AllowedOrigins": ["*"], "AllowedMethods": ["PATCH"]}):
        put = lambda: s3.put_bucket_cors(Bucket=bucket, CORSConfiguration={"CORSRules": [wrong]})
        assert code_of(put) == ("InvalidRequest", 400)
    assert s3.get_bucket_cors(Bucket=bucket)["CORSRules"] == [rule]
    assert fetch(gateway, "OPTIONS", f"/{bucket}/a", ask | {"Access-Control-Request-Headers": "Cookie"})[0] == 403
    s3.put_object(Bucket=bucket, Key="a", Body=b"1", ACL="public-read")
    status, _, headers = fetch(gateway, "GET", f"/{bucket}/a", {"Origin": "https://a.example.org"})
    assert (status, headers["access-control-expose-headers"]) == (200, "ETag")
    s3.delete_bucket_cors(Bucket=bucket)
    assert code_of(s3.get_bucket_cors, Bucket=bucket) == ("NoSuchCORSConfiguration", 404)


def test_health_and_metrics(gateway, s3, bucket):
    s3.put_object(Bucket=bucket, Key="secret-name", Body=b"1")
    assert fetch(gateway, "GET", "/-/health")[:2] == (200, b"ok\n")
    status, text, _ = fetch(gateway, "GET", "/-/metrics")
    assert status == 200 and b'benthic_s3_operations_total{operation="PutObject"}' in text
    assert b"secret-name" not in text and bucket.encode() not in text
