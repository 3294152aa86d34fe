"""Websites of buckets, as a browser and as their owner see them."""

import json

import pytest
from gateway import running
from raw import request
from test_buckets import fetch

SITE = {"IndexDocument": {"Suffix": "index.html"}, "ErrorDocument": {"Key": "error.html"}}


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    """A gateway that serves websites."""
    dir = tmp_path_factory.mktemp("website")
    with running("file", dir, "--domain", "s3.test", "--website-domain", "web.test") as gateway:
        yield gateway


@pytest.fixture
def site(host, request):
    """A bucket that everybody may read, with a website."""
    s3, name = host.client(), request.node.name.replace("_", "-")[:50].strip("-")
    s3.create_bucket(Bucket=name)
    allow = {"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject", "Resource": f"arn:aws:s3:::{name}/*"}
    s3.put_bucket_policy(Bucket=name, Policy=json.dumps({"Version": "2012-10-17", "Statement": [allow]}))
    s3.put_bucket_website(Bucket=name, WebsiteConfiguration=SITE)
    for key in ["index.html", "error.html", "a/index.html", "a b/ü.txt"]:
        s3.put_object(Bucket=name, Key=key, Body=key.encode(), ContentType="text/html")
    return name


def visit(host, site, path, method="GET", **headers):
    """Status, body and Location of a page."""
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    status, body, answered = fetch(host, method, path, {"Host": f"{site}.web.test:80"} | headers)
    return status, body, answered["location"]


def test_pages_are_served(host, site):
    assert visit(host, site, "/") == (200, b"index.html", None)
    assert visit(host, site, "/?X-Amz-Signature=x&list-type=2") == (200, b"index.html", None)
    assert visit(host, site, "/a/") == (200, b"a/index.html", None)
    assert visit(host, site, "/a") == (302, b"", "/a/")
    host.client().put_object(Bucket=site, Key="/evil.test/x/index.html", Body=b"there")
    assert visit(host, site, "//evil.test/x") == (302, b"", "/%2Fevil.test/x/")
    assert visit(host, site, "/%2Fevil.test/x/") == (200, b"there", None)
    assert visit(host, site, "/a", Host=f"{site}.web.test:@evil.test")[2] is None
    assert visit(host, site, "/a%20b/%C3%BC.txt") == (200, "a b/ü.txt".encode(), None)
    assert visit(host, site, "/index.html", Range="bytes=0-4") == (206, b"index", None)
    assert visit(host, site, "/", "HEAD") == (200, b"", None)
    status, _, headers = fetch(host, "GET", "/", {"Host": f"{site}.web.test"})
    assert (status, headers["content-type"]) == (200, "text/html")
    assert visit(host, site, "/", If_None_Match=headers["etag"])[0] == 304
    # A caller that signs is as anonymous as every other.
    assert visit(host, site, "/", Authorization="AWS4-HMAC-SHA256 Credential=x")[:2] == (200, b"index.html")


def test_errors_are_pages(host, site):
    s3 = host.client()
    assert visit(host, site, "/missing") == (403, b"error.html", None)
    list_ = {"Effect": "Allow", "Principal": "*", "Action": ["s3:GetObject", "s3:ListBucket"],
             "Resource": [f"arn:aws:s3:::{site}", f"arn:aws:s3:::{site}/*"]}
    s3.put_bucket_policy(Bucket=site, Policy=json.dumps({"Version": "2012-10-17", "Statement": [list_]}))
    assert visit(host, site, "/missing") == (404, b"error.html", None)
    assert visit(host, site, "/missing/") == (404, b"error.html", None)
    assert visit(host, site, "/missing", "HEAD")[0] == 404
    s3.delete_object(Bucket=site, Key="error.html")
    status, body, _ = visit(host, site, "/%3Cmissing%3E")
    assert status == 404 and body.startswith(b"<!doctype html>") and b"NoSuchKey" in body and b"<missing>" not in body
    for method in ("PUT", "POST", "DELETE"):
        status, body, _ = visit(host, site, "/x", method)
        assert status == 405 and b"MethodNotAllowed" in body
    assert b"NoSuchBucket" in visit(host, "no-such-bucket", "/")[1]
    s3.delete_bucket_website(Bucket=site)
    status, body, _ = visit(host, site, "/")
    assert status == 404 and b"NoSuchWebsiteConfiguration" in body


def test_nobody_sees_more_than_everybody_may(host, site):
    s3 = host.client()
    s3.delete_bucket_policy(Bucket=site)
    status, body, _ = visit(host, site, "/")
    assert status == 403 and b"AccessDenied" in body and b"index.html" not in body
    s3.put_object_acl(Bucket=site, Key="index.html", ACL="public-read")
    assert visit(host, site, "/")[:2] == (200, b"index.html")
    for path in ("/../other/index.html", "/%2e%2e/x", "//index.html", "/%FF", "/%zz", "/" + "x" * 3_000):
        assert visit(host, site, path)[0] in (400, 403, 404)


def test_redirects(host, site):
    s3 = host.client()
    rules = [
        {"Condition": {"KeyPrefixEquals": "old/"}, "Redirect": {"ReplaceKeyPrefixWith": "new/"}},
        {"Condition": {"HttpErrorCodeReturnedEquals": "403"},
         "Redirect": {"HostName": "far.example", "Protocol": "https", "HttpRedirectCode": "307", "ReplaceKeyWith": "lost"}},
    ]
    s3.put_bucket_website(Bucket=site, WebsiteConfiguration=SITE | {"RoutingRules": rules})
    assert s3.get_bucket_website(Bucket=site)["RoutingRules"] == rules
    assert visit(host, site, "/old/a%20b") == (301, b"", f"http://{site}.web.test:80/new/a%20b")
    assert visit(host, site, "/missing") == (307, b"", "https://far.example/lost")
    s3.put_object(Bucket=site, Key="moved", Body=b"", WebsiteRedirectLocation="/index.html")
    assert visit(host, site, "/moved") == (301, b"", "/index.html")
    elsewhere = {"RedirectAllRequestsTo": {"HostName": "far.example"}}
    s3.put_bucket_website(Bucket=site, WebsiteConfiguration=elsewhere)
    assert visit(host, site, "/a%20b?c") == (301, b"", "http://far.example/a%20b?c")


def test_cors_applies_to_websites(host, site):
    rule = {"AllowedOrigins": ["https://a.example"], "AllowedMethods": ["GET"]}
    host.client().put_bucket_cors(Bucket=site, CORSConfiguration={"CORSRules": [rule]})
    headers = {"Host": f"{site}.web.test", "Origin": "https://a.example"}
    assert fetch(host, "GET", "/", headers)[2]["access-control-allow-origin"] == "https://a.example"
    preflight = headers | {"Access-Control-Request-Method": "GET"}
    assert fetch(host, "OPTIONS", "/", preflight)[0] == 200


def test_configurations(s3, bucket, code_of):
    assert code_of(s3.get_bucket_website, Bucket=bucket) == ("NoSuchWebsiteConfiguration", 404)
    s3.put_bucket_website(Bucket=bucket, WebsiteConfiguration=SITE)
    for wrong, code in [
        ({}, "InvalidRequest"),
        ({"ErrorDocument": {"Key": "error.html"}}, "InvalidRequest"),
        ({"IndexDocument": {"Suffix": "a/b"}}, "InvalidArgument"),
        (SITE | {"RedirectAllRequestsTo": {"HostName": "a.example"}}, "InvalidRequest"),
        (SITE | {"RoutingRules": [{"Redirect": {"HttpRedirectCode": "200"}}]}, "InvalidArgument"),
        (SITE | {"RoutingRules": [{"Redirect": {"HostName": "a b"}}]}, "InvalidArgument"),
    ]:
        put = lambda: s3.put_bucket_website(Bucket=bucket, WebsiteConfiguration=wrong)
        assert code_of(put) == (code, 400)
    answer = s3.get_bucket_website(Bucket=bucket)
    assert {name: answer[name] for name in SITE} == SITE and "RoutingRules" not in answer
    s3.delete_bucket_website(Bucket=bucket)
    assert code_of(s3.get_bucket_website, Bucket=bucket) == ("NoSuchWebsiteConfiguration", 404)


def test_an_invalid_domain_is_refused(own_gateway):
    assert request(own_gateway, "GET", "/-/health")[0] == 200
    from test_http import refused

    assert "the domain is not valid" in refused(own_gateway, "--website-domain", "a b")
