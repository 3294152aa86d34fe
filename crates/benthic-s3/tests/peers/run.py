"""Runs ceph/s3-tests, a test suite of another project, against a gateway on a new store.

    run.py CHECKOUT [PYTEST ARGUMENT ...]

CHECKOUT is the path of a checkout of https://github.com/ceph/s3-tests. The results go to
target/s3-tests.txt. Tests marked `fails_on_aws`, except those of transitions, and those of signature version 2 do not count,
because no gateway should pass them.
"""

import collections
import configparser
import pathlib
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml

ROOT = pathlib.Path(__file__).resolve().parents[4]
sys.path.insert(0, str(ROOT / "crates/benthic-s3/tests/clients"))

from gateway import Gateway

ENVIRONMENT = ROOT / "target" / "s3-tests-env"
RESULTS = ROOT / "target" / "s3-tests.txt"
# The users that the suite needs, by the section of its configuration.
USERS = ["s3 main", "s3 alt", "s3 tenant", "iam", "iam root", "iam alt root"]
# Tests of transitions have the mark `fails_on_aws` because of their short days.
COUNTED = "(not fails_on_aws or lifecycle_transition) and not auth_aws2"
# Names that AWS does not have, so that the gateway knows no order of them.
STORAGE_CLASSES = ["COLD", "COLDER"]


def python(checkout):
    """The Python of an environment with the suite's requirements."""
    program = ENVIRONMENT / "bin" / "python"
    if not program.exists():
        print("==> creating", ENVIRONMENT.relative_to(ROOT), file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", ENVIRONMENT], check=True)
        packages = ["-r", str(checkout / "requirements.txt"), "pytest-timeout", "pytest-xdist"]
        subprocess.run([program, "-m", "pip", "install", "-q", *packages], check=True)
    return program


def configuration(gateway, host, port):
    """The suite's configuration, with one account for each of its users."""
    config = configparser.RawConfigParser()
    config["DEFAULT"] = {"host": host, "port": port, "is_secure": "False", "ssl_verify": "False"}
    config["fixtures"] = {"bucket prefix": "peers-{random}-", "iam name prefix": "s3-tests-", "iam path prefix": "/s3-tests/"}
    for section in USERS:
        name = section.replace(" ", "-")
        gateway.run("account", "create", name)
        gateway.run("user", "create", f"{name}/{name}")
        key = gateway.run("key", "create", f"{name}/{name}")[0]
        config[section] = {
            "display_name": name,
            "user_id": name,
            "email": f"{name}@example.com",
            "access_key": key["access_key"],
            "secret_key": key["secret_key"],
            "api_name": "us-east-1",
            "tenant": "tenant",
            "kms_keyid": arn(gateway, name),
            "kms_keyid2": arn(gateway, name),
        }
    # Tests of policies let the user `iam` administer a user with this name, which belongs to another account. Once a user got a
    # policy, it has no rights without one, so this must not be the user of the other tests.
    gateway.run("user", "create", "iam/s3-alt")
    for name in STORAGE_CLASSES:
        gateway.create_pool(name.lower())
        gateway.run("storage-class", "set", name, "--to", name.lower())
    config["s3 main"].update({"storage_classes": " ".join(STORAGE_CLASSES), "lc_debug_interval": "10"})
    config["webidentity"] = {name: "" for name in ["token", "aud", "sub", "azp", "user_token", "thumbprint", "KC_REALM"]}
    return config


def arn(gateway, account):
    """A new key of an account."""
    key = gateway.run("kms", "key", "create", account)[0]
    return f"arn:aws:kms:us-east-1:{account}:key/{key['id']}"


def main():
    if len(sys.argv) < 2 or not (pathlib.Path(sys.argv[1]) / "s3tests").is_dir():
        sys.exit(__doc__)
    checkout = pathlib.Path(sys.argv[1]).resolve()
    program = python(checkout)
    with tempfile.TemporaryDirectory(prefix="benthic-s3-tests-") as dir:
        dir = pathlib.Path(dir)
        # The suite expects that a day of lifecycle rules lasts ten seconds.
        options = ["--lifecycle-day", "10", "--lifecycle-every", "5"]
        gateway = Gateway(f"file:{dir}/store", dir, "s3", *options).start()
        try:
            host, port = gateway.listen.split(":")
            with open(dir / "s3tests.conf", "w") as file:
                configuration(gateway, host, port).write(file)
            pytest = [program, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "3", "--timeout", "240", "--tb", "line"]
            pytest += ["-m", COUNTED, f"--junitxml={dir}/results.xml", *(sys.argv[2:] or ["s3tests/functional"])]
            subprocess.run(pytest, cwd=checkout, env={**gateway.environment(), "S3TEST_CONF": f"{dir}/s3tests.conf"})
            report(dir / "results.xml")
        finally:
            gateway.stop()


def report(path):
    """Writes the result of each test to a file, and prints the sums."""
    results = {}
    for case in xml.parse(path).iter("testcase"):
        kinds = [child.tag for child in case if child.tag in ("failure", "error", "skipped")]
        message = next((child.get("message", "") for child in case if child.tag in kinds), "")
        results[case.get("name")] = (kinds[0] if kinds else "passed", " ".join(message.split())[:160])
    lines = [f"{kind}\t{name}\t{message}" for name, (kind, message) in sorted(results.items())]
    RESULTS.write_text("\n".join(lines) + "\n")
    sums = collections.Counter(kind for kind, _ in results.values())
    ran = len(results) - sums["skipped"]
    print(f"passed {sums['passed']} of {ran}, skipped {sums['skipped']}; {RESULTS.relative_to(ROOT)} has each result")


if __name__ == "__main__":
    main()
