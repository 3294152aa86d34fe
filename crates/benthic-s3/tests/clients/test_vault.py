"""SSE-KMS with keys in the transit engine of a real Vault: OpenBao or HashiCorp's.

BENTHIC_TEST_VAULT names the program `bao` or `vault`; without it, the tests look for it in PATH.
"""

import contextlib
import json
import os
import shutil
import subprocess
import time
import urllib.request

import pytest
from gateway import free_port, running
from test_encryption import arn

PROGRAM = os.environ.get("BENTHIC_TEST_VAULT") or shutil.which("bao") or shutil.which("vault")
pytestmark = pytest.mark.skipif(not PROGRAM, reason="needs OpenBao or Vault; BENTHIC_TEST_VAULT names the program")
ROOT_TOKEN = "root-token"
POLICY = 'path "transit/encrypt/lab" { capabilities = ["update"] } path "transit/decrypt/lab" { capabilities = ["update"] }'


class Vault:
    """A Vault in memory, in development mode."""

    def __init__(self, dir):
        self.dir = dir
        self.address = f"127.0.0.1:{free_port()}"
        self.url = f"http://{self.address}"
        self.process = None

    def start(self):
        command = [PROGRAM, "server", "-dev", "-dev-no-store-token", f"-dev-root-token-id={ROOT_TOKEN}"]
        with open(self.dir / "vault.log", "a") as log:
            command += [f"-dev-listen-address={self.address}"]
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env=os.environ | {"HOME": str(self.dir)})
        deadline = time.monotonic() + 60
        while True:
            with contextlib.suppress(OSError):
                self.call("GET", "sys/health")
                return
            assert self.process.poll() is None and time.monotonic() < deadline, (self.dir / "vault.log").read_text()
            time.sleep(0.1)

    def stop(self):
        self.process.terminate()
        self.process.wait(30)

    def call(self, method, path, **document):
        data = json.dumps(document).encode() if document or method == "POST" else None
        headers = {"X-Vault-Token": ROOT_TOKEN}
        request = urllib.request.Request(f"{self.url}/v1/{path}", data, headers, method=method)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.loads(answer.read() or b"{}")

    def prepare(self):
        """Creates a key, and a token and a role that may use only this key."""
        self.call("POST", "sys/mounts/transit", type="transit")
        self.call("POST", "transit/keys/lab")
        self.call("POST", "sys/policies/acl/gateway", policy=POLICY)
        self.call("POST", "sys/auth/approle", type="approle")
        self.call("POST", "auth/approle/role/gateway", token_policies=["gateway"], token_ttl="1h")
        self.token_file = self.dir / "token"
        self.token_file.write_text(self.call("POST", "auth/token/create", policies=["gateway"])["auth"]["client_token"])
        self.secret_id_file = self.dir / "secret-id"
        self.secret_id_file.write_text(self.call("POST", "auth/approle/role/gateway/secret-id")["data"]["secret_id"])
        self.role_id = self.call("GET", "auth/approle/role/gateway/role-id")["data"]["role_id"]


@pytest.fixture
def vault(tmp_path):
    vault = Vault(tmp_path)
    vault.start()
    try:
        vault.prepare()
        yield vault
    finally:
        vault.stop()


def in_vault(gateway, name="lab"):
    return gateway.run("kms", "key", "create", "main", "--vault-key", name)[0]


@pytest.mark.parametrize("by_role", [False, True])
def test_keys_of_vault_encrypt_objects(vault, tmp_path, by_role, code_of):
    by = ["--vault-role-id", vault.role_id, "--vault-secret-id-file", str(vault.secret_id_file)]
    options = ["--vault", vault.url, *(by if by_role else ["--vault-token-file", str(vault.token_file)])]
    with running("file", tmp_path, *options) as gateway:
        key = in_vault(gateway)
        s3 = gateway.client()
        s3.create_bucket(Bucket="b")
        sealed = {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": key["id"]}
        s3.put_object(Bucket="b", Key="a", Body=b"x" * 100_000, SSEKMSEncryptionContext="eyJhIjogImIifQ==", **sealed)
        found = s3.get_object(Bucket="b", Key="a")
        assert (found["SSEKMSKeyId"], found["Body"].read()) == (arn(key), b"x" * 100_000)
        s3.copy_object(Bucket="b", Key="copy", CopySource="b/a", **sealed)
        upload = s3.create_multipart_upload(Bucket="b", Key="parts", **sealed)["UploadId"]
        part = s3.upload_part(Bucket="b", Key="parts", UploadId=upload, PartNumber=1, Body=b"y" * 10)
        parts = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
        s3.complete_multipart_upload(Bucket="b", Key="parts", UploadId=upload, MultipartUpload=parts)

        # New objects get the new version, and old ones stay readable, also for a gateway that has cached nothing.
        vault.call("POST", "transit/keys/lab/rotate")
        s3.put_object(Bucket="b", Key="new", Body=b"z", **sealed)
        failed = gateway.spawn("kms", "key", "rotate", key["id"])
        assert "transit/keys/NAME/rotate" in failed.communicate(timeout=60)[1] and failed.returncode != 0
        other = gateway.start_another()
        try:
            objects = {"a": b"x" * 100_000, "copy": b"x" * 100_000, "parts": b"y" * 10, "new": b"z"}
            for name, data in objects.items():
                assert other.client().get_object(Bucket="b", Key=name)["Body"].read() == data
        finally:
            other.stop()
        # Vault can end the use of old versions. The gateway forgets a data key after a minute, so another one shows it.
        vault.call("POST", "transit/keys/lab/config", min_decryption_version=2)
        other = gateway.start_another()
        try:
            assert code_of(other.client().get_object, Bucket="b", Key="a") == ("KMS.KMSInvalidStateException", 400)
            assert other.client().get_object(Bucket="b", Key="new")["Body"].read() == b"z"
        finally:
            other.stop()


def test_without_vault_only_its_objects_fail(vault, tmp_path, code_of):
    with running("file", tmp_path, "--vault", vault.url, "--vault-token-file", str(vault.token_file)) as gateway:
        key, missing, own = in_vault(gateway), in_vault(gateway, "missing"), gateway.run("kms", "key", "create", "main")[0]
        s3 = gateway.client()
        s3.create_bucket(Bucket="b")

        def put(name, key):
            return s3.put_object(Bucket="b", Key=name, Body=b"x", ServerSideEncryption="aws:kms", SSEKMSKeyId=key["id"])

        for name, chosen in [("vault", key), ("own", own)]:
            put(name, chosen)
        s3.put_object(Bucket="b", Key="plain", Body=b"x")
        assert code_of(put, "missing", missing) == ("KMS.KMSInternalException", 500)
        gateway.run("kms", "key", "disable", key["id"])
        assert code_of(s3.get_object, Bucket="b", Key="vault")[0] == "KMS.DisabledException"
        gateway.run("kms", "key", "disable", key["id"], "--end")
        vault.stop()
        gateway.stop()
        gateway.start()
        s3 = gateway.client()
        for call in [lambda: s3.get_object(Bucket="b", Key="vault"), lambda: put("new", key)]:
            assert code_of(call) == ("KMS.DependencyTimeoutException", 503)
        for name in ["own", "plain"]:
            assert s3.get_object(Bucket="b", Key=name)["Body"].read() == b"x"
        put("own", own)
        assert "cannot connect" in gateway.log()
        # A gateway that does not use Vault.
        gateway.stop()
        gateway.options = []
        gateway.start()
        assert code_of(gateway.client().get_object, Bucket="b", Key="vault") == ("KMS.KMSInternalException", 500)
        vault.start()
