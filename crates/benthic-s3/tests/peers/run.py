"""Runs ceph/s3-tests, a test suite of another project, against a gateway on a new store.

    run.py CHECKOUT [PYTEST ARGUMENT ...]

CHECKOUT is the path of a checkout of https://github.com/ceph/s3-tests. The results go to target/s3-tests.txt, those of
another engine to target/s3-tests-ENGINE.txt. Tests marked `fails_on_aws`, except those of transitions, and those of
signature version 2 do not count, because no gateway should pass them. With BENTHIC_TEST_ENGINE=ceph or erasure-coded
(for the data and the storage classes), the gateway uses the cluster of BENTHIC_TEST_CEPH_CONF.
"""

import collections
import configparser
import contextlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml

ROOT = pathlib.Path(__file__).resolve().parents[4]
sys.path.insert(0, str(ROOT / "crates/benthic-s3/tests/clients"))

from gateway import create_erasure_coded_pool, running

ENVIRONMENT = ROOT / "target" / "s3-tests-env"
ENGINE = os.environ.get("BENTHIC_TEST_ENGINE", "file")
RESULTS = ROOT / "target" / ("s3-tests.txt" if ENGINE == "file" else f"s3-tests-{ENGINE}.txt")
# The users that the suite needs, by the section of its configuration.
USERS = ["s3 main", "s3 alt", "s3 tenant", "iam", "iam root", "iam alt root"]
# Tests of transitions have the mark `fails_on_aws` because of their short days.
COUNTED = "(not fails_on_aws or lifecycle_transition) and not auth_aws2"
# These tests run last and one at a time. Some change the rights of the user `s3 alt`, and expect that
# `iam` administers its account. Those of SNS remove all topics of their account.
ALONE = "(user_policy and iam_tenant) or sns"
# Functions of tests that sign with version 2, but do not have its mark.
SIGNS_WITH_VERSION_2 = re.compile(r"hashlib\.sha1|get_v2_(tenant_)?client")
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
    # Tests of different processes must not see each other's users.
    config["fixtures"] = {"bucket prefix": "peers-{random}-", "iam name prefix": "peers-{random}-", "iam path prefix": "/peers-{random}/"}
    for section in USERS:
        name = section.replace(" ", "-")
        gateway.run("account", "create", name)
        gateway.run("user", "create", f"{name}/{name}")
        config[section] = {
            "display_name": name,
            "user_id": name,
            "email": f"{name}@example.com",
            "api_name": "us-east-1",
            "tenant": "tenant",
            "kms_keyid": arn(gateway, name),
            "kms_keyid2": arn(gateway, name),
            # The suite wants keys of the accounts themselves.
            **key_of(gateway, name if section.endswith("root") else f"{name}/{name}"),
        }
    for name in STORAGE_CLASSES:
        pool = class_pool(gateway, name)
        if gateway.data_pool:
            create_erasure_coded_pool(pool)
        else:
            gateway.create_pool(pool)
        gateway.run("storage-class", "set", name, "--to", pool)
    config["s3 main"].update({"storage_classes": " ".join(STORAGE_CLASSES), "lc_debug_interval": "10"})
    config["webidentity"] = {name: "" for name in ["token", "aud", "sub", "azp", "user_token", "thumbprint", "KC_REALM"]}
    return config


def key_of(gateway, user):
    """A new key of a user."""
    key = gateway.run("key", "create", user)[0]
    return {name: key[name] for name in ("access_key", "secret_key")}


def class_pool(gateway, name):
    return f"{gateway.pool}-{name.lower()}"


@contextlib.contextmanager
def removed_at_the_end(gateway):
    """Removes the pools of the storage classes at the end."""
    try:
        yield
    finally:
        gateway.stop()
        for name in STORAGE_CLASSES if ENGINE != "file" else []:
            gateway.remove_pool(class_pool(gateway, name))


def with_user_policies(gateway, config, dir):
    """Makes `s3 alt` a user of the account `iam`, which has a policy with all rights in S3."""
    (dir / "all.json").write_text(json.dumps({"Version": "2012-10-17", "Statement": {"Effect": "Allow", "Action": "s3:*", "Resource": "*"}}))
    gateway.run("user", "create", "iam/s3-alt")
    gateway.run("user", "policy", "put", "iam/s3-alt", "all", str(dir / "all.json"))
    config["s3 alt"].update(key_of(gateway, "iam/s3-alt"))


def arn(gateway, account):
    """A new key of an account."""
    key = gateway.run("kms", "key", "create", account)[0]
    return f"arn:aws:kms:us-east-1:{account}:key/{key['id']}"


def main():
    if len(sys.argv) < 2 or not (pathlib.Path(sys.argv[1]) / "s3tests").is_dir():
        sys.exit(__doc__)
    if ENGINE not in ("file", "ceph", "erasure-coded"):
        sys.exit(f"BENTHIC_TEST_ENGINE={ENGINE} is no engine; use file, ceph or erasure-coded")
    if ENGINE != "file" and "BENTHIC_TEST_CEPH_CONF" not in os.environ:
        sys.exit("BENTHIC_TEST_CEPH_CONF must be the path of the ceph.conf of a cluster; `benthic cluster up --osds 3` starts one")
    checkout = pathlib.Path(sys.argv[1]).resolve()
    program = python(checkout)
    with tempfile.TemporaryDirectory(prefix="benthic-s3-tests-") as dir:
        dir = pathlib.Path(dir)
        # The suite expects that a day of lifecycle rules lasts ten seconds. Its topics have no endpoint.
        options = ["--lifecycle-day", "10", "--lifecycle-every", "5", "--sns-endpoint", "http://127.0.0.1:1/"]
        with running(ENGINE, dir, *options) as gateway, removed_at_the_end(gateway):
            config = configuration(gateway, *gateway.listen.split(":"))

            def run(marks, results, *more):
                with open(dir / "s3tests.conf", "w") as file:
                    config.write(file)
                pytest = [program, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--timeout", "240", "--tb", "line", *more]
                pytest += ["-m", marks, f"--junitxml={results}", *(sys.argv[2:] or ["s3tests/functional"])]
                subprocess.run(pytest, cwd=checkout, env={**gateway.environment(), "S3TEST_CONF": f"{dir}/s3tests.conf"})

            results = [dir / "results.xml", dir / "user-policies.xml"]
            run(f"({COUNTED}) and not ({ALONE})", results[0], "-n", "3")
            with_user_policies(gateway, config, dir)
            run(f"({COUNTED}) and ({ALONE})", results[1])
            report(checkout, results)


def report(checkout, paths):
    """Writes the result of each test to a file, and prints the failures of each file and the sums."""
    results = {}
    for case in (case for path in paths for case in xml.parse(path).iter("testcase")):
        kinds = [child.tag for child in case if child.tag in ("failure", "error", "skipped")]
        message = next((child.get("message", "") for child in case if child.tag in kinds), "")
        file = case.get("classname").split(".")[-1]
        results[file, case.get("name")] = (kinds[0] if kinds else "passed", " ".join(message.split())[:160])
    lines = ["\t".join([kind, file, name, message]) for (file, name), (kind, message) in sorted(results.items())]
    RESULTS.write_text("\n".join(lines) + "\n")
    ran = {test: kind for test, (kind, _) in results.items() if kind != "skipped"}
    failures = collections.Counter(file for (file, _), kind in ran.items() if kind != "passed")
    print("failures:", ", ".join(f"{file} {count}" for file, count in sorted(failures.items())))
    text = (checkout / "s3tests/functional/test_s3.py").read_text()
    sources = {source.split("(", 1)[0]: source for source in text.split("\ndef ")}
    others = {test: kind for test, kind in ran.items() if not SIGNS_WITH_VERSION_2.search(sources.get(test[1], ""))}
    for what, tests in ("", ran), (" without those that sign with version 2", others):
        print(f"passed {sum(kind == 'passed' for kind in tests.values())} of {len(tests)}{what}")
    print(f"skipped {len(results) - len(ran)}; {RESULTS.relative_to(ROOT)} has each result")


if __name__ == "__main__":
    main()
