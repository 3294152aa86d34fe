"""The verbs of `benthic s3` while a gateway runs, and restarts of the gateway."""

import json
import os
import pathlib
import stat
import subprocess
import sys

import pytest
import urllib3
from gateway import PROGRAMS


def test_the_sealing_key_is_not_in_the_store(own_gateway):
    path = pathlib.Path(own_gateway.key_file)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    key = path.read_text().strip().encode()
    secret = own_gateway.secret_key.encode()
    own_gateway.stop()
    for file in (own_gateway.dir / "store").rglob("*"):
        if file.is_file():
            data = file.read_bytes()
            assert key not in data and secret not in data
    log = (own_gateway.dir / "gateway.log").read_bytes()
    assert secret not in log and key not in log
    own_gateway.start()


def test_client_errors_are_not_in_the_log(own_gateway, code_of):
    s3 = own_gateway.client()
    s3.create_bucket(Bucket="calm")
    assert code_of(s3.get_object, Bucket="calm", Key="missing") == ("NoSuchKey", 404)
    assert code_of(s3.head_object, Bucket="calm", Key="missing") == ("404", 404)
    assert code_of(s3.list_objects_v2, Bucket="missing") == ("NoSuchBucket", 404)
    assert code_of(s3.abort_multipart_upload, Bucket="calm", Key="a", UploadId="0" * 32)[1] == 404
    s3.put_object(Bucket="calm", Key="a", Body=b"x")
    assert code_of(s3.put_object, Bucket="calm", Key="a", Body=b"y", IfNoneMatch="*") == ("PreconditionFailed", 412)
    assert code_of(s3.delete_bucket, Bucket="calm") == ("BucketNotEmpty", 409)
    own_gateway.run("quota", "calm", "--bytes-max", "10")
    assert code_of(s3.put_object, Bucket="calm", Key="b", Body=b"x" * 11) == ("QuotaExceeded", 403)
    assert own_gateway.log() == ""


def test_keys_are_created_suspended_and_removed(gateway):
    gateway.run("account", "create", "lab")
    gateway.run("user", "create", "lab/ada")
    key = gateway.run("key", "create", "lab/ada")[0]
    access_key = key["access_key"]
    shown = gateway.run("key", "show", access_key)[0]
    assert shown["account"] == "lab" and "secret_key" not in shown
    client = gateway.client(access_key, key["secret_key"])
    assert client.list_buckets()["Buckets"] == []
    gateway.run("key", "rm", access_key)
    assert access_key not in [found["access_key"] for found in gateway.run("key", "ls")]
    second = gateway.run("key", "create", "lab/ada")[0]
    gateway.run("key", "suspend", second["access_key"])
    refused = gateway.client(second["access_key"], second["secret_key"])
    with pytest.raises(refused.exceptions.ClientError, match="InvalidAccessKeyId"):
        refused.list_buckets()
    gateway.run("key", "rm", second["access_key"])
    gateway.run("user", "rm", "lab/ada")
    gateway.run("account", "rm", "lab")


def test_usage_quota_and_check(gateway, s3, bucket, code_of):
    s3.put_object(Bucket=bucket, Key="a", Body=b"x" * 1_000)
    s3.put_object(Bucket=bucket, Key="b", Body=b"x" * 2_000)
    used = gateway.run("usage", bucket)[0]
    assert (used["objects"], used["bytes"]) == (2, 3_000)
    gateway.run("quota", bucket, "--bytes-max", "4000")
    put = lambda size: s3.put_object(Bucket=bucket, Key="c", Body=b"x" * size)
    assert code_of(put, 1_001) == ("QuotaExceeded", 403)
    put(1_000)
    gateway.run("quota", bucket, "--none")
    put(10_000)
    assert gateway.run("bucket", "check", bucket)[0]["findings"] == []
    assert bucket in [found["bucket"] for found in gateway.run("bucket", "ls")]
    assert gateway.run("bucket", "stat", bucket)[0]["usage"]["objects"] == 3
    assert gateway.run("gc", "status")[0]["entries"] >= 1
    gateway.run("gc", "run")


def test_a_gateway_starts_again(own_gateway):
    s3 = own_gateway.client()
    s3.create_bucket(Bucket="kept")
    s3.put_object(Bucket="kept", Key="a", Body=b"data" * 10_000)
    own_gateway.kill()
    own_gateway.start()
    assert own_gateway.client().get_object(Bucket="kept", Key="a")["Body"].read() == b"data" * 10_000
    assert own_gateway.run("bucket", "check", "kept")[0]["findings"] == []


def test_a_bucket_for_many_keys_has_more_shards(gateway, s3):
    assert gateway.run("bucket", "create", "many-keys", "--shards", "40")[0]["shards"] == 40
    keys = [f"{number:03}" for number in range(100)]
    for key in keys:
        s3.put_object(Bucket="many-keys", Key=key, Body=b"x")
    assert [found["Key"] for found in s3.list_objects_v2(Bucket="many-keys")["Contents"]] == keys
    assert gateway.run("bucket", "stat", "many-keys")[0]["shards"] == 40
    assert gateway.run("bucket", "check", "many-keys")[0]["findings"] == []


def test_the_removal_of_the_pool_names_the_buckets(own_gateway):
    s3 = own_gateway.client()
    for bucket in ["photos", "video"]:
        s3.create_bucket(Bucket=bucket)
    command = [str(PROGRAMS / "benthic"), "--store", own_gateway.store, "pool", "rm", own_gateway.pool]
    refused = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert refused.returncode == 2 and "2 S3 buckets (photos, video)" in refused.stderr, refused.stderr
    assert f"add --yes {own_gateway.pool} to confirm" in refused.stderr
    assert [found["bucket"] for found in own_gateway.run("bucket", "ls")] == ["photos", "video"]


def test_another_sealing_key_is_refused(own_gateway):
    own_gateway.stop()
    pathlib.Path(own_gateway.key_file).write_text("0" * 64 + "\n")
    refused = subprocess.run(
        own_gateway.command(["s3", "serve", "--listen", "127.0.0.1:0", "--pool", own_gateway.pool]),
        capture_output=True, text=True, timeout=60,
    )
    assert refused.returncode == 8 and "sealing-key" in refused.stderr
    pathlib.Path(own_gateway.key_file).unlink()
    own_gateway.options = ()
    own_gateway.process = subprocess.Popen([sys.executable, "-c", "pass"])




def test_users_of_an_account_sign_in_to_the_console(own_gateway, certificate):
    """Over TLS, as on an address that other hosts reach."""

    def user(account):
        own_gateway.run("account", "create", account)
        own_gateway.run("user", "create", f"{account}/ada")
        key = own_gateway.run("key", "create", f"{account}/ada")[0]
        return {"access_key": key["access_key"], "secret_key": key["secret_key"]}

    operator, stranger = user("operators"), user("lab")
    command = [str(PROGRAMS / "benthic"), "--store", own_gateway.store, "--json", "console", "serve", "--listen"]
    command += ["127.0.0.1:0", "--account", "operators", "--s3-pool", own_gateway.pool]
    command += ["--tls-cert", certificate[0], "--tls-key", certificate[1]]
    environment = {**os.environ, "BENTHIC_S3_SEALING_KEY": own_gateway.key_file}
    console = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment)
    try:
        url = json.loads(console.stdout.readline())["url"]
        http = urllib3.PoolManager(ca_certs=certificate[0], retries=False)

        def sign_in(secrets):
            headers = {"content-type": "application/json", "origin": url.rstrip("/")}
            return http.request("POST", f"{url}api/sign-in", body=json.dumps(secrets), headers=headers)

        for wrong in [
            stranger,
            {**operator, "secret_key": stranger["secret_key"]},
            {**operator, "secret_key": ""},
            {**operator, "access_key": "--help"},
        ]:
            refused = sign_in(wrong)
            assert refused.status == 403 and "set-cookie" not in refused.headers, refused.data
        assert sign_in({**operator, "token": "x"}).status == 400
        cookie = sign_in(operator).headers["set-cookie"]
        assert cookie.startswith("__Host-") and "Max-Age=3600" in cookie and cookie.endswith("; Secure")
        pools = http.request("GET", f"{url}api/pools", headers={"cookie": cookie.split(";")[0]})
        assert own_gateway.pool in pools.json()["pools"]
        own_gateway.run("user", "create", "operators/bob")
        key = own_gateway.run("key", "create", "operators/bob")[0]
        limited = {"access_key": key["access_key"], "secret_key": key["secret_key"]}
        policy = own_gateway.dir / "policy.json"
        statement = {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"}
        policy.write_text(json.dumps({"Version": "2012-10-17", "Statement": [statement]}))
        own_gateway.run("user", "policy", "put", "operators/bob", "read", str(policy))
        assert sign_in(limited).status == 403
        own_gateway.run("key", "suspend", operator["access_key"])
        assert sign_in(operator).status == 403
    finally:
        console.terminate()
        console.wait(30)
