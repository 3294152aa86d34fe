"""Users, rights and temporary keys; invalid requests."""

import base64
import subprocess
import time

import botocore.exceptions
import pyiceberg.exceptions
import pytest
import requests
from catalog import running


@pytest.fixture(scope="module")
def limited(store, server):
    """A server where `lab` sees one pool, and `guest` nothing."""
    with running(store, "--allow", "main", "--allow", "lab=lake", "--credential-seconds", "60") as limited:
        yield limited


def failure(answer):
    """The status, the type and the message of an error."""
    error = answer.json()["error"]
    assert error["code"] == answer.status_code
    return answer.status_code, error["type"], error["message"]


def refused(call, **args):
    with pytest.raises(botocore.exceptions.ClientError) as failed:
        call(**args)
    return failed.value.response["Error"]["Code"]


def test_wrong_secrets_and_unknown_keys_are_not_told_apart(server):
    user, secret = server.key
    for key in [(user, secret[:-1]), (user, ""), ("BN" + "A" * 18, secret), ("nobody", "nothing")]:
        answer = server.token(key)
        assert (answer.status_code, answer.json()["error"]) == (401, "invalid_client")
    with pytest.raises(pyiceberg.exceptions.OAuthError, match="wrong secret key"):
        server.pyiceberg((user, "wrong"))


def test_a_missing_pool_of_accounts_is_not_created(store):
    command = store.command("benthic-catalog", "catalog", "serve", "--listen", "127.0.0.1:0", "--s3-pool", "s33")
    refused = subprocess.run(command, env=store.environment, capture_output=True, text=True, timeout=30)
    assert refused.returncode == 3 and "no such pool" in refused.stderr + refused.stdout
    assert "s33" not in [pool["pool"] for pool in store.run("benthic", "pool", "ls")]


@pytest.mark.parametrize(
    ("allowed", "writer"), [(["main"], "lab"), (["main"], "lab=lake"), (["lab=other", "main"], "lab=lake,other")]
)
def test_an_account_that_writes_must_read(store, allowed, writer):
    options = [option for grant in allowed for option in ["--allow", grant]]
    command = store.command("benthic-catalog", "catalog", "serve", *options, "--allow-writes", writer)
    refused = subprocess.run(command, env=store.environment, capture_output=True, text=True, timeout=30)
    assert refused.returncode == 6 and f"add `--allow {writer}`" in refused.stderr + refused.stdout


def test_tokens_are_checked(server):
    valid = server.token().json()["access_token"]
    key, expires, tag = valid.split(".")
    for token in [
        "",
        "Bearer",
        "Bearer ",
        "Bearer x",
        f"Basic {valid}",
        f"Bearer {key}.{int(expires) + 1}.{tag}",
        f"Bearer {key}.{expires}.{tag[:-1]}",
        f"Bearer {key}.{expires}.{'0' * 64}",
        f"Bearer BN{'A' * 18}.{expires}.{tag}",
        f"Bearer {key}.{expires}",
    ]:
        answer = server.request("GET", "/v1/config", token)
        assert failure(answer)[:2] == (401, "NotAuthorizedException"), token
    assert server.request("GET", "/v1/config", f"Bearer {valid}").json()["endpoints"]
    assert server.request("GET", "/v1/config", f"bearer {valid}").ok


def test_a_client_can_log_in_with_a_header(server):
    encoded = base64.b64encode(":".join(server.key).encode()).decode()
    answer = requests.post(
        f"{server.url}/v1/oauth/tokens",
        data={"grant_type": "client_credentials"},
        headers={"Authorization": f"Basic {encoded}"},
        timeout=30,
    )
    assert answer.json()["token_type"] == "bearer"
    assert answer.headers["Keep-Alive"] == "timeout=58"


def test_connections_stay_open_after_reports_and_close_after_refused_bodies(server):
    with requests.Session() as session:
        session.headers["Authorization"] = f"Bearer {server.token().json()['access_token']}"
        url = f"{server.url}/v1/namespaces/lake/tables/"
        for _ in range(2):
            answer = session.post(f"{url}trips/metrics", data=b"{}" * 10_000, timeout=30)
            assert answer.status_code == 204 and "Connection" not in answer.headers
        answer = session.post(f"{url}nope/nope/nope", data=b"x" * 10_000, timeout=30)
        assert answer.status_code == 406 and answer.headers["Connection"] == "close"


def test_paths_are_decoded_as_each_client_encodes_them(server):
    for name in ["Str%C3%B6mung%20%237", "Str%C3%B6mung+%237"]:
        assert server.request("GET", f"/v1/namespaces/lake/tables/{name}").ok, name
    assert failure(server.request("GET", "/v1/namespaces/lake/tables/Str%C3%B6mung%2B%237"))[0] == 404


def test_an_account_sees_only_its_pools(store, limited):
    lab = limited.pyiceberg(store.key("lab/ada"))
    assert lab.list_namespaces() == [("lake",)]
    assert lab.load_namespace_properties("lake") == {"location": "s3://tables/lake"}
    assert ("lake", "trips") in lab.list_tables("lake")
    assert lab.load_table("lake.trips").scan().to_arrow().num_rows == 400
    for hidden in ["other.secret", "other.nothing", "nothing.at_all"]:
        with pytest.raises(pyiceberg.exceptions.NoSuchTableError):
            lab.load_table(hidden)
    with pytest.raises(pyiceberg.exceptions.NoSuchNamespaceError):
        lab.list_tables("other")
    assert limited.pyiceberg().load_table("other.secret").scan().to_arrow().num_rows == 1
    guest = limited.token(store.key("guest/bob"))
    assert (guest.status_code, guest.json()["error"]) == (400, "unauthorized_client")


def test_keys_reach_only_what_their_account_may_read(store, limited):
    lab = limited.s3(*store.key("lab/eve"))
    listed = lab.list_objects_v2(Bucket="tables", Prefix="lake/", Delimiter="/")
    assert any(found["Prefix"].startswith("lake/trips-") for found in listed["CommonPrefixes"])
    _, secret = limited.s3_of("other/secret")
    for prefix in ["", "other/", "lake", secret]:
        assert refused(lab.list_objects_v2, Bucket="tables", Prefix=prefix) == "AccessDenied"
    assert refused(lab.get_object, Bucket="tables", Key=secret + "metadata/version-hint.text") == "AccessDenied"
    guest = limited.s3(*store.key("guest/mallory"))
    assert refused(guest.list_objects_v2, Bucket="tables", Prefix="lake/") == "AccessDenied"


def test_a_temporary_key_reads_one_table(limited):
    client, prefix = limited.s3_of("lake/trips")
    listed = client.list_objects_v2(Bucket="tables", Prefix=prefix)["Contents"]
    for item in listed:
        answer = client.get_object(Bucket="tables", Key=item["Key"])
        assert len(answer["Body"].read()) == item["Size"] > 0
        assert answer["ETag"] == item["ETag"]
    _, other = limited.s3_of("lake/months")
    assert refused(client.get_object, Bucket="tables", Key=other + "metadata/version-hint.text") == "AccessDenied"
    for prefix in ["", "lake/", prefix[:-1], other]:
        assert refused(client.list_objects_v2, Bucket="tables", Prefix=prefix) == "AccessDenied"


def test_a_temporary_key_may_come_with_its_session_token(server):
    loaded = server.request("GET", "/v1/namespaces/lake/tables/trips").json()
    key, secret, token = (loaded["config"][f"s3.{name}"] for name in ["access-key-id", "secret-access-key", "session-token"])
    file = {"Bucket": "tables", "Key": loaded["metadata-location"].removeprefix("s3://tables/")}
    for given in [token, None]:
        assert server.s3(key, secret, given).get_object(**file)["Body"].read()
    for credentials in [(key, secret, token[:-1]), (*server.key, token)]:
        assert refused(server.s3(*credentials).get_object, **file) == "InvalidToken"


def test_a_forged_temporary_key_is_refused(limited):
    client, prefix = limited.s3_of("lake/trips")
    _, other = limited.s3_of("other/secret")
    credentials = client._request_signer._credentials
    key, secret = credentials.access_key, credentials.secret_key
    later = f"{key[:2]}{int(key[2:12], 16) + 1000:010X}{key[12:]}"
    for forged in [later, key[:-1] + ("0" if key[-1] != "0" else "1"), key.lower(), key + "00", "BT", "BT" + "Z" * 42]:
        wrong = limited.s3(forged, secret)
        code = refused(wrong.get_object, Bucket="tables", Key=prefix + "metadata/version-hint.text")
        assert code in ["InvalidAccessKeyId", "SignatureDoesNotMatch"], forged


def test_tokens_and_temporary_keys_expire(store, limited):
    """The shortest life is a minute, which a test cannot wait for: a token of the past is as old."""
    token = limited.token().json()
    assert token["expires_in"] == 60
    assert 50 <= int(token["access_token"].split(".")[1]) - time.time() <= 60
    key = limited.s3_of("lake/trips")[0]._request_signer._credentials.access_key
    assert 50 <= int(key[2:12], 16) - time.time() <= 60


def test_the_bucket_takes_no_writes(server):
    client, prefix = server.s3_of("lake/trips")
    key = prefix + "data/new.parquet"
    hint = prefix + "metadata/version-hint.text"
    main = server.s3(*server.key)
    for caller in [client, main]:
        assert refused(caller.put_object, Bucket="tables", Key=key, Body=b"x") == "AccessDenied"
        assert refused(caller.delete_object, Bucket="tables", Key=hint) == "AccessDenied"
        assert refused(caller.create_multipart_upload, Bucket="tables", Key=key) == "AccessDenied"
        assert refused(caller.copy_object, Bucket="tables", Key=key, CopySource=f"tables/{hint}") == "AccessDenied"
        assert refused(caller.put_bucket_acl, Bucket="tables", ACL="public-read") == "AccessDenied"
    assert refused(main.create_bucket, Bucket="more") == "AccessDenied"
    anonymous = requests.get(f"{server.url}/tables/{hint}", timeout=30)
    assert anonymous.status_code == 403


@pytest.mark.parametrize("table", ["unsigned", "nested_unsigned"])
def test_a_table_that_iceberg_cannot_read_says_why(server, table):
    status, kind, message = failure(server.request("GET", f"/v1/namespaces/lake/tables/{table}"))
    assert (status, kind) == (406, "UnsupportedOperationException")
    assert "column=" in message
    # It does not disturb listings.
    main = server.s3(*server.key)
    listed = main.list_objects_v2(Bucket="tables", Prefix="lake/", Delimiter="/")
    assert any(found["Prefix"].startswith(f"lake/{table}-") for found in listed["CommonPrefixes"])


def test_what_the_catalog_does_not_do_is_refused(server):
    for method, path in [
        ("POST", "/v1/namespaces"),
        ("DELETE", "/v1/namespaces/lake"),
        ("POST", "/v1/namespaces/lake/tables"),
        ("POST", "/v1/namespaces/lake/tables/trips"),
        ("DELETE", "/v1/namespaces/lake/tables/trips"),
        ("POST", "/v1/tables/rename"),
        ("GET", "/v1/namespaces/lake/views"),
        ("GET", "/v1/"),
        ("GET", "/v1/namespaces/lake/tables/trips/../secret"),
    ]:
        status, kind, _ = failure(server.request(method, path, json={}))
        assert status in [403, 404, 406], path
    assert server.request("GET", "/v1/namespaces/lake/tables/trips").ok


@pytest.mark.parametrize(
    "path",
    ["/v1/namespaces/%", "/v1/namespaces/%f", "/v1/namespaces/%ff", "/v1/namespaces/%zz", "/v1/namespaces/lake%1Finner"],
)
def test_invalid_names_are_refused(server, path):
    assert failure(server.request("GET", path))[0] in [400, 404]


@pytest.mark.parametrize("name", [".hidden", "a:b", "a%2Fb", "%00", "x" * 300])
def test_tables_that_cannot_exist_do_not_exist(server, name):
    assert server.request("GET", f"/v1/namespaces/lake/tables/{name}").status_code in [400, 404]


@pytest.mark.parametrize(
    "body", [b"", b"grant_type=client_credentials", b"grant_type=password", b"\xff" * 100, b"x" * 100_000, b"{}"]
)
def test_invalid_logins_are_refused(server, body):
    answer = requests.post(f"{server.url}/v1/oauth/tokens", data=body, timeout=30)
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_request")


def test_keys_that_name_no_file_are_missing(server):
    client, prefix = server.s3_of("lake/trips")
    for name in [
        "",
        "x",
        "data/",
        "data/0-0.parquet",
        "data/0000000000000000-0.parquet",
        "metadata/v0.metadata.json",
        "metadata/v999.metadata.json",
        "metadata/v999-format3.metadata.json",
        "metadata/snapshot-999.avro",
        "metadata/snapshot-999-format3.avro",
        "metadata/0000000000000001-0-schema0-data.avro",
        "deletes/0000000000000001-0/0000000000000001-0.parquet",
        "deletes/0000000000000001-0/0000000000000001-0.puffin",
    ]:
        assert refused(client.get_object, Bucket="tables", Key=prefix + name) == "NoSuchKey", name


def test_ranges_of_computed_and_stored_files_agree_with_the_whole(server):
    client, prefix = server.s3_of("tpch/nation")
    for item in client.list_objects_v2(Bucket="tables", Prefix=prefix)["Contents"]:
        key, size = item["Key"], item["Size"]
        whole = client.get_object(Bucket="tables", Key=key)["Body"].read()
        for first, last in [(0, 0), (size - 1, size - 1), (size // 3, size // 2), (0, size - 1)]:
            part = client.get_object(Bucket="tables", Key=key, Range=f"bytes={first}-{last}")["Body"].read()
            assert part == whole[first : last + 1]
        assert client.head_object(Bucket="tables", Key=key)["ContentLength"] == size


def test_pages_of_a_listing_show_every_key_once(server):
    client, prefix = server.s3_of("lake/trips")

    def all_keys(**options):
        pages = client.get_paginator("list_objects_v2").paginate(Bucket="tables", Prefix=prefix, **options)
        found = []
        for page in pages:
            found += [item["Key"] for item in page.get("Contents", [])]
            found += [item["Prefix"] for item in page.get("CommonPrefixes", [])]
        return found

    whole = all_keys()
    assert whole == sorted(whole) and len(whole) == len(set(whole)) > 40
    assert all_keys(PaginationConfig={"PageSize": 7}) == whole
    assert all_keys(Delimiter="/", PaginationConfig={"PageSize": 1}) == [prefix + "data/", prefix + "metadata/"]


def test_a_dropped_table_is_gone(store, server):
    store.create("lake/dropped", store.types)
    client, prefix = server.s3_of("lake/dropped")
    key = prefix + "metadata/version-hint.text"
    assert client.get_object(Bucket="tables", Key=key)["Body"].read() == b"2"
    store.run("benthic-sql", "table", "drop", "lake/dropped", "--yes", "lake/dropped")
    assert refused(client.get_object, Bucket="tables", Key=key) == "NoSuchKey"
    # A new table of this name has another folder.
    store.create("lake/dropped", store.types)
    assert refused(client.get_object, Bucket="tables", Key=key) == "NoSuchKey"
    assert server.s3_of("lake/dropped")[1] != prefix
