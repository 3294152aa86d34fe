"""Requests that ordinary clients cannot send."""

import hashlib
import http.client
import re
import socket
import urllib.parse

import botocore.auth
import botocore.awsrequest
import botocore.credentials
import operations


class Signer(botocore.auth.S3SigV4Auth):
    """A signer that takes the checksum of the body from the test."""

    def payload(self, request):
        return request.context.get("payload") or super().payload(request)


def signed(gateway, method, path, body=b"", headers=None, access_key=None, secret_key=None, service="s3"):
    """The signed headers of a request."""
    given = {"x-amz-content-sha256": hashlib.sha256(body or b"").hexdigest(), **(headers or {})}
    request = botocore.awsrequest.AWSRequest(method=method, url=gateway.url + path, data=body, headers=given)
    request.context["payload"] = given["x-amz-content-sha256"]
    keys = botocore.credentials.Credentials(access_key or gateway.access_key, secret_key or gateway.secret_key)
    Signer(keys, service, "us-east-1").add_auth(request)
    return dict(request.headers.items())


def request(gateway, method, path, body=b"", headers=None):
    """Sends a request; returns status, headers and body."""
    connection = http.client.HTTPConnection(urllib.parse.urlsplit(gateway.url).netloc, timeout=30)
    before = operations.operation_counts(gateway)
    connection.request(method, path, body=body, headers=headers or {})
    answer = connection.getresponse()
    text = answer.read()
    if answer.status < 300:
        for name in operations.operation_counts(gateway) - before:
            operations.record[name].add("HTTP")
    return answer.status, answer.headers, text


def send(gateway, method, path, body=b"", headers=None):
    """Sends a request; returns the status, and the error code or else the body."""
    status, _, text = request(gateway, method, path, body, headers)
    code = re.search(rb"<Code>(.*?)</Code>", text)
    return status, code.group(1).decode() if code else text


def send_signed(gateway, method, path, body=b"", headers=None):
    return send(gateway, method, path, body, signed(gateway, method, path, body, headers))


def connect(gateway):
    """Opens a TCP connection to the gateway."""
    address = urllib.parse.urlsplit(gateway.url)
    return socket.create_connection((address.hostname, address.port), timeout=60)


def head_text(gateway, method, path, headers):
    """The request line and headers as sent on the wire."""
    lines = [f"{method} {path} HTTP/1.1", f"Host: {urllib.parse.urlsplit(gateway.url).netloc}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def is_empty(s3, bucket):
    return "Contents" not in s3.list_objects_v2(Bucket=bucket) and "Uploads" not in s3.list_multipart_uploads(Bucket=bucket)
