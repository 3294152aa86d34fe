"""Roles for callers with a token of an identity provider (OpenID Connect)."""

import base64
import contextlib
import http.server
import json
import os
import pathlib
import shutil
import ssl
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

import boto3
import botocore.config
import pytest
from gateway import LONG, free_port, running
from test_iam import client
from test_policies import policy, statement
from test_roles import session_client

ROOT = pathlib.Path(__file__).resolve().parents[4]
KEYCLOAK = ROOT / "target" / "keycloak"
EVERYTHING = {"Effect": "Allow", "Action": "s3:*", "Resource": "*"}


def encode(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class Issuer:
    """An identity provider of this test, which signs with RS256."""

    def __init__(self, dir, certificate=None):
        self.key = str(dir / "issuer.pem")
        options = ["-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out", self.key]
        subprocess.run(["openssl", "genpkey", *options], check=True, capture_output=True)
        shown = subprocess.run(["openssl", "rsa", "-in", self.key, "-noout", "-modulus"], check=True, capture_output=True, text=True)
        modulus = bytes.fromhex(shown.stdout.strip().removeprefix("Modulus="))
        self.keys = {"keys": [{"kty": "RSA", "kid": "1", "use": "sig", "alg": "RS256", "n": encode(modulus), "e": "AQAB"}]}
        self.requests = 0
        issuer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                issuer.requests += 1
                document = {
                    "/idp/.well-known/openid-configuration": {"issuer": issuer.url, "jwks_uri": f"{issuer.url}/keys"},
                    "/idp/keys": issuer.keys,
                }.get(self.path)
                body = json.dumps(document).encode()
                self.send_response(200 if document else 404)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificate)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.name = f"127.0.0.1:{self.server.server_port}/idp"
        self.url = f"{'https' if certificate else 'http'}://{self.name}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def token(self, header=None, **claims):
        now = int(time.time())
        claims = {"iss": self.url, "sub": "ada", "aud": "s3", "iat": now, "exp": now + 600} | claims
        parts = [{"alg": "RS256", "kid": "1", "typ": "JWT"} | (header or {}), claims]
        signed = ".".join(encode(json.dumps(part).encode()) for part in parts)
        command = ["openssl", "dgst", "-sha256", "-sign", self.key]
        signature = subprocess.run(command, input=signed.encode(), check=True, capture_output=True).stdout
        return f"{signed}.{encode(signature)}"


@pytest.fixture(scope="module")
def idp_gateway(tmp_path_factory):
    with running("file", tmp_path_factory.mktemp("gateway"), "--oidc-private") as gateway:
        yield gateway


@pytest.fixture(scope="module")
def issuer(tmp_path_factory):
    issuer = Issuer(tmp_path_factory.mktemp("issuer"))
    yield issuer
    issuer.server.shutdown()


@pytest.fixture(scope="module")
def iam(idp_gateway):
    return client(idp_gateway, "iam")


@pytest.fixture(scope="module")
def provider(iam, issuer):
    """The ARN of the identity provider."""
    created = iam.create_open_id_connect_provider(Url=issuer.url, ClientIDList=["s3"])
    return created["OpenIDConnectProviderArn"]


@pytest.fixture(scope="module")
def sts(idp_gateway):
    return anonymous_sts(idp_gateway)


def anonymous_sts(gateway):
    """A client of STS that has no key."""
    config = botocore.config.Config(signature_version=botocore.UNSIGNED, retries={"total_max_attempts": 1, "mode": "standard"})
    return boto3.client("sts", endpoint_url=gateway.url, region_name="us-east-1", config=config)


def trust(provider, **condition):
    allows = {"Effect": "Allow", "Principal": {"Federated": provider}, "Action": "sts:AssumeRoleWithWebIdentity"}
    return policy(allows | ({"Condition": condition} if condition else {}))


@pytest.fixture
def role(iam, provider, issuer, request):
    """A role that trusts the provider for the client id `s3`, and has all rights."""
    name = f"role-{abs(hash(request.node.name)) % 10**9}"
    document = trust(provider, StringEquals={f"{issuer.name}:aud": "s3"})
    arn = iam.create_role(RoleName=name, AssumeRolePolicyDocument=document)["Role"]["Arn"]
    iam.put_role_policy(RoleName=name, PolicyName="all", PolicyDocument=policy(EVERYTHING))
    return arn


def assume(sts, role, token, **options):
    return sts.assume_role_with_web_identity(RoleArn=role, RoleSessionName="dive", WebIdentityToken=token, **options)


def test_a_provider_lives_from_creation_to_deletion(iam, code_of):
    print_ = "990f4193972f2becf12ddeda5237f9c952f20d9e"
    given = {"Url": "https://idp.example/realms/lab", "ClientIDList": ["a", "b"], "ThumbprintList": [print_.upper()]}
    arn = iam.create_open_id_connect_provider(**given)["OpenIDConnectProviderArn"]
    assert arn == "arn:aws:iam::main:oidc-provider/idp.example/realms/lab"
    assert code_of(iam.create_open_id_connect_provider, **given) == ("EntityAlreadyExists", 409)
    named = {"OpenIDConnectProviderArn": arn}
    found = iam.get_open_id_connect_provider(**named)
    assert (found["Url"], found["ClientIDList"], found["ThumbprintList"]) == ("idp.example/realms/lab", ["a", "b"], [print_])
    assert arn in [found["Arn"] for found in iam.list_open_id_connect_providers()["OpenIDConnectProviderList"]]
    for _ in range(2):
        iam.add_client_id_to_open_id_connect_provider(**named, ClientID="c")
        iam.remove_client_id_from_open_id_connect_provider(**named, ClientID="a")
    iam.update_open_id_connect_provider_thumbprint(**named, ThumbprintList=[])
    found = iam.get_open_id_connect_provider(**named)
    assert (found["ClientIDList"], found["ThumbprintList"]) == (["b", "c"], [])
    for _ in range(2):
        iam.delete_open_id_connect_provider(**named)
    assert code_of(iam.get_open_id_connect_provider, **named) == ("NoSuchEntity", 404)


@pytest.mark.parametrize(
    "given",
    [
        {"Url": "http://idp.example"},
        {"Url": "https://idp.example?x=y"},
        {"Url": "https://user@idp.example"},
        {"Url": "https://idp.example", "ThumbprintList": ["x" * 40]},
        {"Url": "https://idp.example", "ThumbprintList": [f"{number:040}" for number in range(6)]},
        {"Url": "https://idp.example", "ClientIDList": ["x" * 255 + "\n"]},
        {"Url": "https://idp.example", "Tags": [{"Key": "a", "Value": "b"}]},
    ],
)
def test_bad_providers_are_not_created(idp_gateway, iam, code_of, given):
    before = iam.list_open_id_connect_providers()["OpenIDConnectProviderList"]
    lenient = boto3.client(
        "iam",
        endpoint_url=idp_gateway.url,
        region_name="us-east-1",
        aws_access_key_id=idp_gateway.access_key,
        aws_secret_access_key=idp_gateway.secret_key,
        config=botocore.config.Config(parameter_validation=False),
    )
    assert code_of(lenient.create_open_id_connect_provider, **given) == ("ValidationError", 400)
    assert iam.list_open_id_connect_providers()["OpenIDConnectProviderList"] == before


def test_only_permitted_users_administer_providers(idp_gateway, iam, provider, code_of):
    iam.create_user(UserName="limited")
    key = iam.create_access_key(UserName="limited")["AccessKey"]
    limited = client(idp_gateway, "iam", key["AccessKeyId"], key["SecretAccessKey"])
    named = {"OpenIDConnectProviderArn": provider}
    for call, given in [
        (limited.create_open_id_connect_provider, {"Url": "https://idp.example"}),
        (limited.get_open_id_connect_provider, named),
        (limited.list_open_id_connect_providers, {}),
        (limited.add_client_id_to_open_id_connect_provider, named | {"ClientID": "x"}),
        (limited.update_open_id_connect_provider_thumbprint, named | {"ThumbprintList": []}),
        (limited.delete_open_id_connect_provider, named),
    ]:
        assert code_of(call, **given) == ("AccessDenied", 403)
    # Providers of other accounts cannot be named.
    other = provider.replace("::main:", "::other:")
    assert code_of(iam.delete_open_id_connect_provider, OpenIDConnectProviderArn=other) == ("ValidationError", 400)


def test_a_token_gives_a_session_of_the_role(idp_gateway, issuer, sts, provider, role):
    got = assume(sts, role, issuer.token(), DurationSeconds=900)
    assert (got["SubjectFromWebIdentityToken"], got["Provider"], got["Audience"]) == ("ada", issuer.url, "s3")
    name = role.rsplit("/", 1)[1]
    assert got["AssumedRoleUser"]["Arn"] == f"arn:aws:sts::main:assumed-role/{name}/dive"
    assert 800 < got["Credentials"]["Expiration"].timestamp() - time.time() <= 900
    session = session_client(idp_gateway, got["Credentials"])
    session.create_bucket(Bucket="by-token")
    session.put_object(Bucket="by-token", Key="a", Body=b"x")
    assert session.get_object(Bucket="by-token", Key="a")["Body"].read() == b"x"
    identity = session_client(idp_gateway, got["Credentials"], "sts").get_caller_identity()
    assert identity["Arn"] == got["AssumedRoleUser"]["Arn"]


def test_a_policy_of_the_session_limits_it(idp_gateway, issuer, sts, role, code_of):
    limit = policy({"Effect": "Allow", "Action": "s3:ListAllMyBuckets", "Resource": "*"})
    session = session_client(idp_gateway, assume(sts, role, issuer.token(), Policy=limit)["Credentials"])
    session.list_buckets()
    assert code_of(session.create_bucket, Bucket="not-this-one") == ("AccessDenied", 403)


def test_the_policy_of_a_role_uses_the_subject_of_the_token(idp_gateway, issuer, iam, sts, provider, code_of):
    s3 = idp_gateway.client()
    s3.create_bucket(Bucket="folders")
    document = trust(provider, StringLike={f"{issuer.name}:sub": "a*"}, **{"ForAnyValue:StringEquals": {f"{issuer.name}:groups": "divers"}})
    role = iam.create_role(RoleName="folders", AssumeRolePolicyDocument=document)["Role"]["Arn"]
    own = statement("folders", "s3:*", f"/${{{issuer.name}:sub}}/*", principal=None)
    iam.put_role_policy(RoleName="folders", PolicyName="own", PolicyDocument=policy(own))
    groups = ["staff", "divers"]
    ada, abe = (session_client(idp_gateway, assume(sts, role, issuer.token(sub=sub, groups=groups))["Credentials"]) for sub in ["ada", "abe"])
    ada.put_object(Bucket="folders", Key="ada/1", Body=b"x")
    for call in [abe.get_object, abe.delete_object]:
        assert code_of(call, Bucket="folders", Key="ada/1") == ("AccessDenied", 403)
    for claims in [{"sub": "eve", "groups": groups}, {"sub": "ada"}, {"sub": "ada", "groups": ["staff"]}]:
        assert code_of(assume, sts, role, issuer.token(**claims)) == ("AccessDenied", 403)


def test_roles_that_do_not_trust_the_provider_cannot_be_assumed(issuer, iam, sts, provider, code_of):
    trusts_callers = policy({"Effect": "Allow", "Principal": "*", "Action": "sts:*"})
    role = iam.create_role(RoleName="other", AssumeRolePolicyDocument=trusts_callers)["Role"]["Arn"]
    token = issuer.token()
    assert code_of(assume, sts, role, token) == ("AccessDenied", 403)
    assert code_of(assume, sts, role.replace("/other", "/missing"), token) == ("AccessDenied", 403)
    # The provider belongs to the account `main`.
    assert code_of(assume, sts, "arn:aws:iam::missing:role/other", token)[0] == "InvalidIdentityToken"


def test_bad_tokens_are_refused(tmp_path, issuer, sts, role, code_of):
    now = int(time.time())
    stranger = Issuer(tmp_path)
    stranger.server.shutdown()
    unsigned = issuer.token(header={"alg": "none"}).rsplit(".", 1)[0] + "."
    invalid = ("InvalidIdentityToken", 400)
    for token, expected in [
        ("abcdef", invalid),
        (unsigned, invalid),
        (issuer.token(header={"alg": "HS256"}), invalid),
        (issuer.token(header={"kid": "2"}), invalid),
        (issuer.token(aud="other"), invalid),
        (issuer.token(iss="https://idp.example"), invalid),
        (issuer.token(exp=now - 100), ("ExpiredTokenException", 400)),
        (issuer.token(nbf=now + 1_000), ("IDPRejectedClaim", 403)),
        (stranger.token(), invalid),
        (stranger.token(iss=issuer.url), invalid),
        (issuer.token(x="y" * 20_000), invalid),
    ]:
        assert code_of(assume, sts, role, token) == expected
    # Only the issuer of an existing provider was asked, and not once for each token.
    assert stranger.requests == 0
    assert issuer.requests <= 8


def test_bad_requests_are_refused(idp_gateway, issuer, sts, role, code_of):
    token = issuer.token()
    for given, expected in [
        ({"DurationSeconds": 60_000}, "ValidationError"),
        ({"ProviderId": "www.amazon.com"}, "ValidationError"),
        ({"Policy": "{}"}, "MalformedPolicyDocument"),
        ({"PolicyArns": [{"arn": "arn:aws:iam::main:policy/missing"}]}, "NoSuchEntity"),
    ]:
        with pytest.raises(Exception) as failed:
            assume(sts, role, token, **given)
        if hasattr(failed.value, "response"):
            assert failed.value.response["Error"]["Code"] == expected
        else:
            assert "DurationSeconds" in given, failed.value
    # All other actions need a signature.
    for action in ["GetCallerIdentity", "AssumeRole", "ListUsers", "DeleteUser"]:
        form = urllib.parse.urlencode({"Action": action, "UserName": "admin", "RoleArn": role, "RoleSessionName": "dive"})
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(urllib.request.Request(idp_gateway.url, form.encode(), method="POST"), timeout=30)
        assert refused.value.code == 403 and b"AccessDenied" in refused.value.read()


def test_without_permission_the_gateway_visits_no_private_address(own_gateway, tmp_path, leaf_certificate, code_of):
    issuer = Issuer(tmp_path, leaf_certificate)
    iam = client(own_gateway, "iam")
    assert code_of(iam.create_open_id_connect_provider, Url="http://localhost:8080/idp") == ("ValidationError", 400)
    provider = iam.create_open_id_connect_provider(Url=issuer.url, ClientIDList=["s3"])["OpenIDConnectProviderArn"]
    role = iam.create_role(RoleName="x", AssumeRolePolicyDocument=trust(provider))["Role"]["Arn"]
    assert code_of(assume, anonymous_sts(own_gateway), role, issuer.token()) == ("IDPCommunicationError", 400)
    assert issuer.requests == 0
    assert "not on the public internet" in own_gateway.log()
    issuer.server.shutdown()


def test_a_thumbprint_makes_a_certificate_trusted(iam, sts, tmp_path, leaf_certificate, code_of):
    issuer = Issuer(tmp_path, leaf_certificate)
    provider = iam.create_open_id_connect_provider(Url=issuer.url, ClientIDList=["s3"])["OpenIDConnectProviderArn"]
    role = iam.create_role(RoleName="by-tls", AssumeRolePolicyDocument=trust(provider))["Role"]["Arn"]
    command = ["openssl", "x509", "-in", leaf_certificate[0], "-noout", "-fingerprint", "-sha1"]
    shown = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    for thumbprints, is_trusted in [
        ([], False),
        (["0" * 40], False),
        ([shown.strip().split("=")[1].replace(":", "")], True),
    ]:
        iam.update_open_id_connect_provider_thumbprint(OpenIDConnectProviderArn=provider, ThumbprintList=thumbprints)
        if is_trusted:
            assert assume(sts, role, issuer.token())["SubjectFromWebIdentityToken"] == "ada"
        else:
            assert code_of(assume, sts, role, issuer.token()) == ("IDPCommunicationError", 400)
            assert issuer.requests == 0
    issuer.server.shutdown()


@contextlib.contextmanager
def keycloak(dir):
    """Keycloak with the realm `lab`; yields its URL."""
    realm = {
        "realm": "lab",
        "enabled": True,
        "sslRequired": "none",
        "clients": [{"clientId": "s3", "enabled": True, "publicClient": True, "directAccessGrantsEnabled": True}],
        "users": [
            {
                "username": name,
                "enabled": True,
                "emailVerified": True,
                "email": f"{name}@lab.example",
                "firstName": name,
                "lastName": "Diver",
                "credentials": [{"type": "password", "value": f"password of {name}"}],
            }
            for name in ["ada", "eve"]
        ],
    }
    home = dir / "keycloak"
    shutil.copytree(KEYCLOAK, home, symlinks=True)
    (home / "data" / "import").mkdir(parents=True, exist_ok=True)
    (home / "data" / "import" / "lab.json").write_text(json.dumps(realm))
    port = free_port()
    command = [home / "bin" / "kc.sh", "start-dev", "--db=dev-mem", "--import-realm", "--http-host=127.0.0.1", f"--http-port={port}"]
    with open(dir / "keycloak.log", "w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=os.environ | {"JAVA_OPTS_KC_HEAP": "-Xms64m -Xmx768m"})
    url = f"http://127.0.0.1:{port}/realms/lab"
    try:
        deadline = time.monotonic() + 600
        while True:
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"{url}/.well-known/openid-configuration", timeout=30).read()
                break
            assert process.poll() is None and time.monotonic() < deadline, (dir / "keycloak.log").read_text()
            time.sleep(1)
        yield url
    finally:
        process.terminate()
        process.wait(60)


def keycloak_token(url, user):
    form = {"grant_type": "password", "client_id": "s3", "scope": "openid", "username": user, "password": f"password of {user}"}
    with urllib.request.urlopen(f"{url}/protocol/openid-connect/token", urllib.parse.urlencode(form).encode(), timeout=60) as answer:
        return json.load(answer)["id_token"]


@pytest.mark.skipif(not LONG, reason="`make test-long` runs it, because Keycloak takes a minute")
def test_keycloak_is_an_identity_provider(idp_gateway, iam, sts, tmp_path, code_of):
    with keycloak(tmp_path) as url:
        name = url.removeprefix("http://")
        provider = iam.create_open_id_connect_provider(Url=url, ClientIDList=["s3"])["OpenIDConnectProviderArn"]
        document = trust(provider, StringEquals={f"{name}:aud": "s3", f"{name}:preferred_username": "ada"})
        role = iam.create_role(RoleName="keycloak", AssumeRolePolicyDocument=document)["Role"]["Arn"]
        iam.put_role_policy(RoleName="keycloak", PolicyName="all", PolicyDocument=policy(EVERYTHING))
        token = keycloak_token(url, "ada")
        got = assume(sts, role, token)
        assert (got["Provider"], got["Audience"]) == (url, "s3")
        session = session_client(idp_gateway, got["Credentials"])
        session.create_bucket(Bucket="keycloak")
        session.put_object(Bucket="keycloak", Key="a", Body=b"x")
        assert session.get_object(Bucket="keycloak", Key="a")["Body"].read() == b"x"
        assert code_of(assume, sts, role, keycloak_token(url, "eve")) == ("AccessDenied", 403)
        signature = token.rsplit(".", 1)[1]
        forged = token.removesuffix(signature) + ("A" if signature[0] != "A" else "B") + signature[1:]
        assert code_of(assume, sts, role, forged) == ("InvalidIdentityToken", 400)
        # As a web identity of the environment, which SDKs of AWS use by themselves.
        file = tmp_path / "token"
        file.write_text(token)
        environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")} | {
            "AWS_ENDPOINT_URL": idp_gateway.url,
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ROLE_ARN": role,
            "AWS_WEB_IDENTITY_TOKEN_FILE": str(file),
        }
        script = "import boto3; print(boto3.client('s3').list_objects_v2(Bucket='keycloak')['KeyCount'])"
        shown = subprocess.run([sys.executable, "-c", script], env=environment, check=True, capture_output=True, text=True, timeout=60)
        assert shown.stdout == "1\n"
