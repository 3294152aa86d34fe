"""Invalid requests: each gets the right error, and nothing is stored."""

import datetime
import email.utils
import http.client
import socket
import time
import urllib.parse

import botocore.auth
import botocore.awsrequest
import botocore.credentials
import pytest
from raw import is_empty, send, signed


def test_a_signed_request_is_accepted(gateway, s3, bucket):
    path = f"/{bucket}/a"
    assert send(gateway, "PUT", path, b"data", signed(gateway, "PUT", path, b"data"))[0] == 200
    assert s3.get_object(Bucket=bucket, Key="a")["Body"].read() == b"data"


@pytest.mark.parametrize(
    "change, expected",
    [
        ({"Authorization": "nonsense"}, (400, "InvalidRequest")),
        ({"x-amz-date": "20200101T000000Z"}, None),
        ({"x-amz-acl": "public-read"}, (403, "AccessDenied")),
        ({"x-amz-copy-source": "/some/where"}, (403, "AccessDenied")),
    ],
)
def test_a_changed_head_is_refused(gateway, s3, bucket, change, expected):
    path = f"/{bucket}/a"
    answer = send(gateway, "PUT", path, b"data", signed(gateway, "PUT", path, b"data") | change)
    assert answer == expected if expected else answer[0] in (400, 403)
    assert is_empty(s3, bucket)


def test_the_header_date_is_enough(gateway, s3, bucket):
    """As on AWS, a signature takes its time from `Date` if there is no `x-amz-date`."""
    path = f"/{bucket}/a"
    head = signed(gateway, "PUT", path, b"data", {"Date": ""})
    assert head["Date"].endswith("-0000") and "x-amz-date" not in {name.lower() for name in head}
    other = email.utils.formatdate(time.time() - 60)
    for change in ({"Date": other}, {"Date": "nonsense"}, {"x-amz-date": "20200101T000000Z"}):
        assert send(gateway, "PUT", path, b"data", head | change)[0] in (400, 403), change
    assert is_empty(s3, bucket)
    assert send(gateway, "PUT", path, b"data", head)[0] == 200
    assert s3.get_object(Bucket=bucket, Key="a")["Body"].read() == b"data"


def test_wrong_keys(gateway, s3, bucket):
    path = f"/{bucket}/a"
    secret = "x" + gateway.secret_key[1:] if gateway.secret_key[0] != "x" else "y" + gateway.secret_key[1:]
    wrong = signed(gateway, "PUT", path, b"data", secret_key=secret)
    assert send(gateway, "PUT", path, b"data", wrong) == (403, "SignatureDoesNotMatch")
    for unknown in ("BNAAAAAAAAAAAAAAAAAA", "A", "B" * 1_000):
        wrong = signed(gateway, "PUT", path, b"data", access_key=unknown)
        assert send(gateway, "PUT", path, b"data", wrong) == (403, "InvalidAccessKeyId")
    assert send(gateway, "PUT", path, b"other", signed(gateway, "PUT", path, b"data"))[0] == 400
    assert send(gateway, "PUT", path + "b", b"data", signed(gateway, "PUT", path, b"data")) == (403, "SignatureDoesNotMatch")
    assert is_empty(s3, bucket)


def test_a_body_that_ends_too_early(gateway, s3, bucket):
    path = f"/{bucket}/a"
    head = signed(gateway, "PUT", path, b"data" * 1_000, {"Content-Length": "4000"})
    address = urllib.parse.urlsplit(gateway.url)
    with socket.create_connection((address.hostname, address.port), timeout=30) as connection:
        lines = [f"PUT {path} HTTP/1.1", f"Host: {address.netloc}", *(f"{name}: {value}" for name, value in head.items())]
        connection.sendall(("\r\n".join(lines) + "\r\n\r\n").encode() + b"data" * 500)
        connection.shutdown(socket.SHUT_WR)
        connection.recv(65_536)
    assert is_empty(s3, bucket)


def test_presigned_urls(gateway, s3, bucket):
    s3.put_object(Bucket=bucket, Key="a", Body=b"data")
    url = s3.generate_presigned_url("get_object", {"Bucket": bucket, "Key": "a"}, ExpiresIn=60)
    path = url.removeprefix(gateway.url)
    assert send(gateway, "GET", path) == (200, b"data")
    assert send(gateway, "PUT", path, b"x")[1] == "SignatureDoesNotMatch"
    assert send(gateway, "GET", path.replace("/a?", "/b?"))[1] == "SignatureDoesNotMatch"
    assert send(gateway, "GET", path.replace("X-Amz-Expires=60", "X-Amz-Expires=600"))[1] == "SignatureDoesNotMatch"
    put = s3.generate_presigned_url("put_object", {"Bucket": bucket, "Key": "b"}, ExpiresIn=60).removeprefix(gateway.url)
    unsigned = {"x-amz-copy-source": f"/{bucket}/a"}
    assert send(gateway, "PUT", put, b"", unsigned) == (403, "AccessDenied")
    assert send(gateway, "PUT", put, b"", {"x-amz-tagging": "a=b"}) == (403, "AccessDenied")
    assert send(gateway, "PUT", put, b"new")[0] == 200


def presigned(gateway, path, expires_s):
    """A path that is signed at the time of the (patched) clock."""
    request = botocore.awsrequest.AWSRequest(method="GET", url=f"{gateway.url}{path}")
    credentials = botocore.credentials.Credentials(gateway.access_key, gateway.secret_key)
    botocore.auth.S3SigV4QueryAuth(credentials, "s3", "us-east-1", expires=expires_s).add_auth(request)
    return request.url.removeprefix(gateway.url)


def test_an_expired_url(gateway, s3, bucket):
    s3.put_object(Bucket=bucket, Key="a", Body=b"data")
    earlier = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(minutes=5)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(botocore.auth, "get_current_datetime", lambda *_, **__: earlier.replace(tzinfo=None))
        path = presigned(gateway, f"/{bucket}/a", 60)
    assert earlier.strftime("%Y%m%dT%H%M") in path
    assert send(gateway, "GET", path) == (403, "AccessDenied")


@pytest.mark.parametrize("minutes", [-16, 16])
def test_the_clock_of_a_client_may_be_off_by_15_minutes(gateway, s3, bucket, minutes):
    clock = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(minutes=minutes)
    identity, form = b"Action=GetCallerIdentity&Version=2011-06-15", {"Content-Type": "application/x-www-form-urlencoded"}
    tags, account = f"/v20180820/tags/arn%3Aaws%3As3%3A%3A%3A{bucket}", {"x-amz-account-id": "main"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(botocore.auth, "get_current_datetime", lambda *_, **__: clock.replace(tzinfo=None))
        requests = [
            ("PUT", f"/{bucket}/a", b"data", signed(gateway, "PUT", f"/{bucket}/a", b"data")),
            ("POST", "/", identity, signed(gateway, "POST", "/", identity, form, service="sts")),
            ("GET", tags, b"", signed(gateway, "GET", tags, headers=account)),
        ]
        path = presigned(gateway, f"/{bucket}", 3_600)
    for request in requests:
        assert send(gateway, *request) == (403, "RequestTimeTooSkewed"), request
    # A URL says until when it is valid.
    answer = send(gateway, "GET", path)
    assert answer == (403, "RequestTimeTooSkewed") if minutes > 0 else answer[0] == 200, answer
    assert is_empty(s3, bucket)


@pytest.mark.parametrize(
    "query, body",
    [("delete", b"<Delete><Object><Key>a</Key>"), ("delete", b"no xml"), ("delete", b"<Delete></Delete>"),
     ("uploads=&uploadId=x", b""), ("delete", b"<!DOCTYPE a [<!ENTITY b 'c'>]><Delete><Object><Key>&b;</Key></Object></Delete>")],
)
def test_malformed_documents_change_nothing(gateway, s3, bucket, query, body):
    s3.put_object(Bucket=bucket, Key="a", Body=b"data")
    path = f"/{bucket}?{query}"
    status, _ = send(gateway, "POST", path, body, signed(gateway, "POST", path, body))
    assert status in (400, 501)
    assert s3.get_object(Bucket=bucket, Key="a")["Body"].read() == b"data"


def test_names_of_buckets(gateway):
    for name in ("A", "ab", "a..b", "-ab", "a_b", "x" * 64, "192.168.0.1"):
        assert send(gateway, "PUT", f"/{name}", b"", signed(gateway, "PUT", f"/{name}")) == (400, "InvalidBucketName")


def test_headers_have_limits(gateway, bucket):
    assert send(gateway, "GET", f"/{bucket}", headers={"x-long": "x" * 100_000})[0] == 431
    assert send(gateway, "GET", f"/{bucket}", headers={f"x-{number}": "x" for number in range(200)})[0] == 431


def test_two_length_headers_and_none(gateway, s3, bucket):
    path = f"/{bucket}/a"
    head = signed(gateway, "PUT", path, b"data")
    address = urllib.parse.urlsplit(gateway.url)
    for extra in (["Content-Length: 4", "Content-Length: 5"], ["Content-Length: x"], ["Content-Length: -1"]):
        with socket.create_connection((address.hostname, address.port), timeout=30) as connection:
            lines = [f"PUT {path} HTTP/1.1", f"Host: {address.netloc}", *extra]
            lines += [f"{name}: {value}" for name, value in head.items() if name.lower() != "content-length"]
            connection.sendall(("\r\n".join(lines) + "\r\n\r\n").encode() + b"data")
            assert b" 400 " in connection.recv(65_536).split(b"\r\n")[0]
    assert is_empty(s3, bucket)


@pytest.mark.parametrize("body, key", [(b"", "a"), (b"data", "x" * 1_025)])
def test_a_connection_without_100_continue_is_closed(gateway, bucket, body, key):
    """The gateway must close such a connection, because botocore would misread the next answer on
    it.
    """
    path = f"/{bucket}/{key}"
    connection = http.client.HTTPConnection(urllib.parse.urlsplit(gateway.url).netloc, timeout=30)
    connection.putrequest("PUT", path, skip_accept_encoding=True)
    head = signed(gateway, "PUT", path, body) | {"Expect": "100-continue", "Content-Length": str(len(body))}
    for name, value in head.items():
        connection.putheader(name, value)
    connection.endheaders()
    answer = connection.getresponse()
    assert answer.status == (200 if not body else 400)
    assert answer.getheader("connection") == "close"
