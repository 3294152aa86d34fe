"""SSE-KMS with keys in the transit engine of a real Vault: OpenBao or HashiCorp's.

`make test-long` installs OpenBao. BENTHIC_TEST_VAULT names another program `bao` or `vault`.
"""

import contextlib
import json
import os
import shutil
import ssl
import subprocess
import time
import urllib.request

import pytest
from gateway import PROGRAMS, free_port, running
from test_encryption import arn

OPENBAO = PROGRAMS.parent / "openbao-env" / "bin"
PROGRAM = os.environ.get("BENTHIC_TEST_VAULT") or shutil.which("bao", path=OPENBAO) or shutil.which("bao") or shutil.which("vault")
pytestmark = pytest.mark.skipif(not PROGRAM, reason="needs OpenBao or Vault: `make openbao` installs OpenBao")
ROOT_TOKEN = "root-token"
POLICY = 'path "transit/encrypt/lab" { capabilities = ["update"] } path "transit/decrypt/lab" { capabilities = ["update"] }'


class Vault:
    """A Vault in memory, in development mode, which forgets everything when it stops."""

    def __init__(self, dir, tls):
        self.dir = dir
        self.address = f"127.0.0.1:{free_port()}"
        self.url = f"https://{self.address}" if tls else f"http://{self.address}"
        # The authority that signs the certificate; `None` without TLS.
        self.ca = dir / "ca.pem" if tls else None
        self.process = None

    def start(self):
        command = [PROGRAM, "server", "-dev", "-dev-no-store-token", f"-dev-root-token-id={ROOT_TOKEN}"]
        command += [f"-dev-listen-address={self.address}"]
        if self.ca:
            command += ["-dev-tls", f"-dev-tls-cert-dir={self.dir}"]
        with open(self.dir / "vault.log", "a") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env=os.environ | {"HOME": str(self.dir)})
        deadline = time.monotonic() + 60
        while True:
            with contextlib.suppress(OSError):
                if self.ca:
                    # Vault removes its own file when it stops.
                    shutil.copy(self.dir / "vault-ca.pem", self.ca)
                self.call("GET", "sys/health")
                return
            assert self.process.poll() is None and time.monotonic() < deadline, self.log()
            time.sleep(0.1)

    def stop(self):
        self.process.terminate()
        self.process.wait(30)

    def log(self):
        return (self.dir / "vault.log").read_text()

    def call(self, method, path, **document):
        data = json.dumps(document).encode() if document or method == "POST" else None
        request = urllib.request.Request(f"{self.url}/v1/{path}", data, {"X-Vault-Token": ROOT_TOKEN}, method=method)
        context = ssl.create_default_context(cafile=self.ca) if self.ca else None
        with urllib.request.urlopen(request, timeout=30, context=context) as answer:
            return json.loads(answer.read() or b"{}")

    def prepare(self):
        """Creates a key, and a token and a role that may use only this key."""
        self.call("POST", "sys/mounts/transit", type="transit")
        self.call("POST", "transit/keys/lab")
        self.call("POST", "sys/policies/acl/gateway", policy=POLICY)
        self.call("POST", "sys/auth/approle", type="approle")
        self.call("POST", "auth/approle/role/gateway", token_policies=["gateway"], token_ttl="1h")
        self.token_file = self.dir / "token"
        self.write_token()
        self.secret_id_file = self.dir / "secret-id"
        self.secret_id_file.write_text(self.call("POST", "auth/approle/role/gateway/secret-id")["data"]["secret_id"])
        self.role_id = self.call("GET", "auth/approle/role/gateway/role-id")["data"]["role_id"]

    def write_token(self):
        """Writes a new token into the file that the gateway reads."""
        self.token = self.call("POST", "auth/token/create", policies=["gateway"])["auth"]["client_token"]
        self.token_file.write_text(self.token)

    def seal(self):
        self.call("POST", "sys/seal")

    def unseal(self):
        key = next(line for line in self.log().splitlines() if line.startswith("Unseal Key: ")).split()[-1]
        self.call("POST", "sys/unseal", key=key)

    def options(self, by_role=False):
        """The options of a gateway that uses this Vault."""
        ca = ["--vault-ca", str(self.ca)] if self.ca else []
        by = ["--vault-token-file", str(self.token_file)]
        if by_role:
            by = ["--vault-role-id", self.role_id, "--vault-secret-id-file", str(self.secret_id_file)]
        return ["--vault", self.url, *ca, *by]


@pytest.fixture(params=["http", "https"])
def vault(request, tmp_path):
    vault = Vault(tmp_path, tls=request.param == "https")
    vault.start()
    try:
        vault.prepare()
        yield vault
    finally:
        vault.stop()


def in_vault(gateway, name="lab"):
    return gateway.run("kms", "key", "create", "main", "--vault-key", name)[0]


def under(key):
    """The parameters of a write under a key."""
    return {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": key["id"]}


def read(gateway, name, **options):
    return gateway.client().get_object(Bucket="lab", Key=name, **options)["Body"].read()


@contextlib.contextmanager
def another(gateway):
    """Another gateway on the same store, which has no data key in memory."""
    other = gateway.start_another()
    try:
        yield other
    finally:
        other.stop()


@pytest.mark.parametrize("by_role", [False, True], ids=["token", "role"])
def test_keys_of_vault_encrypt_objects(vault, tmp_path, by_role, code_of):
    with running("file", tmp_path, *vault.options(by_role)) as gateway:
        key = in_vault(gateway)
        s3 = gateway.client()
        s3.create_bucket(Bucket="lab")
        sealed = under(key)
        data = bytes(range(256)) * 1_000
        s3.put_object(Bucket="lab", Key="a", Body=data, SSEKMSEncryptionContext="eyJhIjogImIifQ==", **sealed)
        found = s3.get_object(Bucket="lab", Key="a")
        assert (found["SSEKMSKeyId"], found["Body"].read()) == (arn(key), data)
        s3.copy_object(Bucket="lab", Key="copy", CopySource="lab/a", **sealed)
        upload = s3.create_multipart_upload(Bucket="lab", Key="parts", **sealed)["UploadId"]
        parts = []
        for number, part in [(1, b"y" * (5 << 20)), (2, b"z" * 100)]:
            put = s3.upload_part(Bucket="lab", Key="parts", UploadId=upload, PartNumber=number, Body=part)
            parts.append({"PartNumber": number, "ETag": put["ETag"]})
        s3.complete_multipart_upload(Bucket="lab", Key="parts", UploadId=upload, MultipartUpload={"Parts": parts})

        # New objects get the new version, and old ones stay readable, also for a gateway that has cached nothing.
        vault.call("POST", "transit/keys/lab/rotate")
        s3.put_object(Bucket="lab", Key="new", Body=b"z", **sealed)
        failed = gateway.spawn("kms", "key", "rotate", key["id"])
        assert "transit/keys/NAME/rotate" in failed.communicate(timeout=60)[1] and failed.returncode != 0
        with another(gateway) as other:
            assert [read(other, name) for name in ["a", "copy", "new"]] == [data, data, b"z"]
            assert read(other, "parts") == b"y" * (5 << 20) + b"z" * 100
        with another(gateway) as other:
            assert read(other, "a", Range="bytes=70000-70009") == data[70_000:70_010]
            assert read(other, "parts", Range=f"bytes={(5 << 20) - 1}-{5 << 20}") == b"yz"
        # Vault can end the use of old versions. The gateway forgets a data key after a minute, so another one shows it.
        vault.call("POST", "transit/keys/lab/config", min_decryption_version=2)
        with another(gateway) as other:
            assert code_of(read, other, "a") == ("KMS.KMSInvalidStateException", 400)
            assert read(other, "new") == b"z"


@pytest.mark.parametrize("by_role", [False, True], ids=["token", "role"])
def test_a_revoked_token_and_a_sealed_vault_are_errors(vault, tmp_path, by_role, code_of):
    denied, unavailable = ("KMS.KMSInternalException", 500), ("KMS.DependencyTimeoutException", 503)
    with running("file", tmp_path, *vault.options(by_role)) as gateway:
        key = in_vault(gateway)
        s3 = gateway.client()
        s3.create_bucket(Bucket="lab")

        def put(name):
            return s3.put_object(Bucket="lab", Key=name, Body=name.encode(), **under(key))

        put("old")
        if by_role:
            # The gateway logs in again.
            for accessor in vault.call("LIST", "auth/token/accessors")["data"]["keys"]:
                token = vault.call("POST", "auth/token/lookup-accessor", accessor=accessor)["data"]
                if token["path"] == "auth/approle/login":
                    vault.call("POST", "auth/token/revoke-accessor", accessor=accessor)
            put("new")
        else:
            vault.call("POST", "auth/token/revoke", token=vault.token)
            assert code_of(put, "new") == denied
            with another(gateway) as other:
                assert code_of(read, other, "old") == denied
                assert "permission denied" in other.log()
            # The data key is still in the memory of this gateway, which reads a new token without a restart.
            assert read(gateway, "old") == b"old"
            vault.write_token()
            put("new")
        with another(gateway) as other:
            assert read(other, "old") == b"old"

        vault.seal()
        assert code_of(put, "newer") == unavailable
        with another(gateway) as other:
            assert code_of(read, other, "old") == unavailable
            assert "sealed" in other.log()
            vault.unseal()
            assert read(other, "old") == b"old"
        put("newer")


def test_without_vault_only_its_objects_fail(vault, tmp_path, code_of):
    with running("file", tmp_path, *vault.options()) as gateway:
        key, missing, own = in_vault(gateway), in_vault(gateway, "missing"), gateway.run("kms", "key", "create", "main")[0]
        s3 = gateway.client()
        s3.create_bucket(Bucket="lab")

        def put(name, key):
            return s3.put_object(Bucket="lab", Key=name, Body=b"x", **under(key))

        for name, chosen in [("vault", key), ("own", own)]:
            put(name, chosen)
        s3.put_object(Bucket="lab", Key="plain", Body=b"x")
        assert code_of(put, "missing", missing) == ("KMS.KMSInternalException", 500)
        gateway.run("kms", "key", "disable", key["id"])
        assert code_of(read, gateway, "vault")[0] == "KMS.DisabledException"
        gateway.run("kms", "key", "disable", key["id"], "--end")
        vault.stop()
        gateway.stop()
        gateway.start()
        s3 = gateway.client()
        for call in [lambda: read(gateway, "vault"), lambda: put("new", key)]:
            assert code_of(call) == ("KMS.DependencyTimeoutException", 503)
        for name in ["own", "plain"]:
            assert read(gateway, name) == b"x"
        put("own", own)
        assert "cannot connect" in gateway.log()
        # A gateway that does not use Vault.
        gateway.stop()
        gateway.options = []
        gateway.start()
        assert code_of(read, gateway, "vault") == ("KMS.KMSInternalException", 500)


def test_a_certificate_of_another_authority_is_refused(tmp_path, code_of):
    vault, other = [Vault(tmp_path / name, tls=True) for name in ["vault", "other"]]
    for each in [vault, other]:
        each.dir.mkdir()
    try:
        for each in [vault, other]:
            each.start()
        vault.prepare()
        options = vault.options()
        options[options.index("--vault-ca") + 1] = str(other.ca)
        with running("file", tmp_path, *options) as gateway:
            s3 = gateway.client()
            s3.create_bucket(Bucket="lab")
            write = {"Bucket": "lab", "Key": "a", "Body": b"x"}
            assert code_of(s3.put_object, **write, **under(in_vault(gateway))) == ("KMS.DependencyTimeoutException", 503)
            assert "certificate" in gateway.log()
    finally:
        for each in [vault, other]:
            if each.process:
                each.stop()
