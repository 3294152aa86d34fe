"""HTTP below S3: TLS, host names, options from a file, and slow clients."""

import http.client
import socket
import ssl
import subprocess
import sys
import time
import urllib.parse

import boto3
import botocore.config
import pytest
from gateway import running
from raw import connect, head_text, is_empty, request, send, signed


def refused(gateway, *options):
    """The error output of a gateway that refuses to start."""
    command = gateway.command(["s3", "serve", "--listen", "127.0.0.1:0", "--pool", gateway.pool, *options])
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode != 0
    return done.stderr


def test_tls(certificate, tmp_path):
    cert, key = certificate
    with running("file", tmp_path, "--tls-cert", cert, "--tls-key", key) as gateway:
        assert gateway.url.startswith("https://127.0.0.1:")
        s3 = gateway.client(verify=cert)
        s3.create_bucket(Bucket="secret")
        # Over TLS, boto3 sends an unsigned body with its checksum in a trailer.
        s3.put_object(Bucket="secret", Key="a", Body=b"data" * 100_000, ChecksumAlgorithm="CRC32")
        s3.upload_fileobj(open(gateway.dir / "sealing.key", "rb"), "secret", "b")
        assert s3.get_object(Bucket="secret", Key="a")["Body"].read() == b"data" * 100_000
        assert [entry["Key"] for entry in s3.list_objects_v2(Bucket="secret")["Contents"]] == ["a", "b"]
        aws = [f"{sys.prefix}/bin/aws", "s3", "cp", "s3://secret/a", "-"]
        environment = gateway.environment() | {"AWS_CA_BUNDLE": cert}
        assert subprocess.run(aws, env=environment, capture_output=True, timeout=60).stdout == b"data" * 100_000
        with pytest.raises(ssl.SSLError), connect(gateway) as stream:
            ssl.create_default_context().wrap_socket(stream, server_hostname="127.0.0.1")
        with connect(gateway) as stream:
            stream.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            assert b"HTTP" not in stream.recv(1_000)
        assert s3.head_object(Bucket="secret", Key="a")["ContentLength"] == 400_000


def test_invalid_tls_files_are_refused(certificate, own_gateway):
    cert, key = certificate
    assert "--tls-key" in refused(own_gateway, "--tls-cert", cert)
    for given in [(key, key), (cert, cert), (own_gateway.key_file, key), (cert, own_gateway.key_file), (cert, "missing")]:
        said = refused(own_gateway, "--tls-cert", given[0], "--tls-key", given[1])
        assert any(f'"path":"{file}"' in said for file in given)


@pytest.fixture
def hosted(tmp_path, monkeypatch):
    """A gateway with a domain, whose subdomains resolve to the gateway."""
    with running("file", tmp_path, "--domain", "s3.test", "--domain", "s3.other") as gateway:
        resolve = socket.getaddrinfo
        here = lambda host, *rest, **named: resolve("127.0.0.1" if str(host).endswith("s3.test") else host, *rest, **named)
        monkeypatch.setattr(socket, "getaddrinfo", here)
        yield gateway


def test_a_bucket_may_be_in_the_host(hosted):
    url = f"http://s3.test:{urllib.parse.urlsplit(hosted.url).port}"
    config = botocore.config.Config(s3={"addressing_style": "virtual"}, signature_version="s3v4")
    s3 = boto3.client(
        "s3", endpoint_url=url, region_name="us-east-1", config=config,
        aws_access_key_id=hosted.access_key, aws_secret_access_key=hosted.secret_key,
    )
    s3.create_bucket(Bucket="photos")
    s3.put_object(Bucket="photos", Key="photos/a b", Body=b"data", ACL="public-read")
    assert s3.get_object(Bucket="photos", Key="photos/a b")["Body"].read() == b"data"
    assert [entry["Key"] for entry in s3.list_objects_v2(Bucket="photos")["Contents"]] == ["photos/a b"]
    presigned = s3.generate_presigned_url("get_object", {"Bucket": "photos", "Key": "photos/a b"})
    assert presigned.startswith(f"http://photos.{url.removeprefix('http://')}/photos/a%20b?")
    assert send(hosted, "GET", "/" + presigned.split("/", 3)[3], headers={"Host": presigned.split("/")[2]}) == (200, b"data")
    assert [bucket["Name"] for bucket in s3.list_buckets()["Buckets"]] == ["photos"]
    for host, path in [
        ("photos.s3.test", "/photos/a%20b"), ("photos.s3.other:1", "/photos/a%20b"), ("s3.test", "/photos/photos/a%20b"),
        ("S3.TEST", "/photos/photos/a%20b"), (urllib.parse.urlsplit(hosted.url).netloc, "/photos/photos/a%20b"),
    ]:
        assert send(hosted, "GET", path, headers={"Host": host}) == (200, b"data"), host
    assert send(hosted, "GET", "/photos/a%20b", headers={"Host": "other.s3.test"})[0] in (403, 404)
    for host in ("-.s3.test", "a b.s3.test", "..s3.test", "/", "x" * 300 + ".s3.test"):
        assert send(hosted, "GET", "/photos/a%20b", headers={"Host": host})[0] in (400, 403, 404), host
    s3.delete_object(Bucket="photos", Key="photos/a b")
    s3.delete_bucket(Bucket="photos")


@pytest.fixture(scope="module")
def short_timeout_gateway(tmp_path_factory):
    """A gateway with a client time-out of one second."""
    with running("file", tmp_path_factory.mktemp("hasty"), "--timeout", "1") as gateway:
        s3 = gateway.client()
        s3.create_bucket(Bucket="slow")
        yield gateway


def test_a_client_that_sends_no_body_times_out(short_timeout_gateway):
    s3 = short_timeout_gateway.client()
    body = b"data" * 100_000
    with connect(short_timeout_gateway) as stream:
        head = signed(short_timeout_gateway, "PUT", "/slow/a", body) | {"Content-Length": str(len(body))}
        stream.sendall(head_text(short_timeout_gateway, "PUT", "/slow/a", head) + body[:-1])
        answer = stream.recv(65_536)
        assert b" 400 " in answer.split(b"\r\n")[0] and b"<Code>RequestTimeout</Code>" in answer
        assert b"connection: close" in answer.lower() or stream.recv(1) == b""
    assert is_empty(s3, "slow")


def test_a_slow_client_is_served(short_timeout_gateway):
    """A slow client is served as long as each byte arrives within the time-out."""
    s3 = short_timeout_gateway.client()
    body = b"data" * 100
    with connect(short_timeout_gateway) as stream:
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        head = signed(short_timeout_gateway, "PUT", "/slow/b", body) | {"Content-Length": str(len(body))}
        stream.sendall(head_text(short_timeout_gateway, "PUT", "/slow/b", head))
        for start in range(len(body)):
            stream.sendall(body[start : start + 1])
        assert b" 200 " in stream.recv(65_536).split(b"\r\n")[0]
    assert s3.get_object(Bucket="slow", Key="b")["Body"].read() == body
    s3.delete_object(Bucket="slow", Key="b")


def test_a_client_that_sends_no_head_is_disconnected(short_timeout_gateway):
    for begin in (b"", b"GET /slow HTTP/1.1\r\nHost: a\r\n"):
        with connect(short_timeout_gateway) as stream:
            stream.sendall(begin)
            assert b" 200 " not in stream.recv(1_000)


def test_a_client_that_accepts_nothing_is_disconnected(short_timeout_gateway):
    """The gateway closes the connection of a client that does not read, before it has sent
    everything.
    """
    s3 = short_timeout_gateway.client()
    size = 64 << 20
    s3.put_object(Bucket="slow", Key="large", Body=bytes(size))
    with connect(short_timeout_gateway) as stream:
        stream.sendall(head_text(short_timeout_gateway, "GET", "/slow/large", signed(short_timeout_gateway, "GET", "/slow/large")))
        # Read nothing until the gateway's only connection is the one that reads the metrics.
        until = time.monotonic() + 60
        while b"benthic_s3_connections 1\n" not in request(short_timeout_gateway, "GET", "/-/metrics")[2]:
            assert time.monotonic() < until
        taken = 0
        try:
            while data := stream.recv(1 << 20):
                taken += len(data)
        except ConnectionResetError:
            pass
        assert taken < size
    s3.delete_object(Bucket="slow", Key="large")


def test_heads_have_limits(gateway):
    for headers, status in [
        ({"x-a": "x" * 70_000}, 431), ({f"x-{number}": "" for number in range(150)}, 431), ({"x" * 70_000: "a"}, 431),
        ({"x-a": "x" * 20_000}, 403), ({f"x-{number}": "" for number in range(100)}, 403),
    ]:
        assert request(gateway, "GET", "/", headers=headers)[0] == status
    assert request(gateway, "GET", "/" + "x" * 70_000)[0] in (414, 431)
    for head in (b"GET / HTTP/1.1\r\nHost: a\r\nno header\r\n\r\n", b"\x00\x01\x02\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n",
                 b"GET  / HTTP/1.1\r\nHost: a\r\n\r\n", b"GET / HTTP/1.1\r\nHost: a\r\nx: \x00\r\n\r\n"):
        with connect(gateway) as stream:
            stream.sendall(head)
            answer = stream.recv(65_536)
            assert not answer or b" 400 " in answer.split(b"\r\n")[0]


def test_connections_have_a_limit(tmp_path):
    """Connections above the limit wait until another one ends."""
    with running("file", tmp_path, "--connections-max", "2") as gateway:
        netloc = urllib.parse.urlsplit(gateway.url).netloc
        first, second, third = [http.client.HTTPConnection(netloc, timeout=60) for _ in range(3)]
        for connection in (first, second):
            connection.request("GET", "/-/health")
            assert connection.getresponse().read() == b"ok\n"
        third.request("GET", "/-/health")
        assert b"benthic_s3_connections 2\n" in metrics_over(first)
        first.close()
        assert third.getresponse().read() == b"ok\n"


def metrics_over(connection):
    connection.request("GET", "/-/metrics")
    return connection.getresponse().read()


def test_options_from_a_file(tmp_path, certificate):
    file = tmp_path / "s3.toml"
    file.write_text('region = "eu-central-1"\ntimeout = 7\ndomain = ["s3.test"]\nlisten = "192.0.2.1:1"\npool = "not this"\noidc-private = true\n')
    with running("file", tmp_path, "--config", str(file)) as gateway:
        client = boto3.client(
            "s3", endpoint_url=gateway.url, region_name="eu-central-1", config=botocore.config.Config(s3={"addressing_style": "path"}),
            aws_access_key_id=gateway.access_key, aws_secret_access_key=gateway.secret_key,
        )
        client.create_bucket(Bucket="here", CreateBucketConfiguration={"LocationConstraint": "eu-central-1"})
        assert client.get_bucket_location(Bucket="here")["LocationConstraint"] == "eu-central-1"
        assert request(gateway, "GET", "/a", headers={"Host": "here.s3.test"})[0] == 403
        keys = {"aws_access_key_id": gateway.access_key, "aws_secret_access_key": gateway.secret_key}
        iam = boto3.client("iam", endpoint_url=gateway.url, region_name="eu-central-1", **keys)
        iam.create_open_id_connect_provider(Url="http://localhost:8080/idp")
        for text, said in [
            ("regoin = 1", "key=regoin"), ("region = ", "not valid TOML"), ("timeout = 0", "--timeout"), ("timeout = 1.5", "key=timeout"),
            ("timeout = [1]", "key=timeout"), ('config = "a"', "key=config"), ("[serve]\nregion = 'a'", "key=serve"),
            ("listen = 'nowhere'", "--listen"), ("json = true", "key=json"), ("#" * (2 << 20), "too large"),
            ("oidc-private = 1", "key=oidc-private"),
        ]:
            file.write_text(text)
            command = gateway.command(["s3", "serve", "--config", str(file)])
            done = subprocess.run(command, capture_output=True, text=True, timeout=60)
            assert done.returncode == 2 and said in done.stderr, (text, done.stderr)
        missing = gateway.command(["s3", "serve", "--config", str(tmp_path / "missing.toml")])
        done = subprocess.run(missing, capture_output=True, text=True, timeout=60)
        assert done.returncode == 2 and "missing.toml" in done.stderr


def test_every_answer_has_the_id_of_its_request(s3, bucket):
    s3.put_object(Bucket=bucket, Key="a", Body=b"data")
    ids = [s3.head_object(Bucket=bucket, Key="a")["ResponseMetadata"]["RequestId"] for _ in range(2)]
    with pytest.raises(s3.exceptions.NoSuchKey) as failed:
        s3.get_object(Bucket=bucket, Key="b")
    answer = failed.value.response
    ids.append(answer["ResponseMetadata"]["HTTPHeaders"]["x-amz-request-id"])
    assert answer["ResponseMetadata"]["RequestId"] == ids[-1]
    assert len(set(ids)) == 3 and all(len(id) == 16 for id in ids)
