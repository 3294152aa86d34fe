"""A store with a pool, and the steps of the command families in it."""

import concurrent.futures
import hashlib
import json
import pathlib
import subprocess
import time

import botocore.exceptions
from outcome import PROGRAM, ROOT, Outcome, Running

CEPH_TABLE_CLASS = ROOT / "target" / "release" / "libcls_table_1.so"


class Place:
    """A store with a pool of its own, and a working directory for commands."""

    def __init__(self, store, dir, pool):
        self.store = store
        self.dir = pathlib.Path(dir)
        self.pool = pool
        self.gateways = []

    def start(self, args, **options):
        return Running(args, self.dir, self.store, **options)

    def run(self, *args):
        """Runs a command on a healthy store."""
        command = [str(PROGRAM), "--store", self.store, *args]
        return subprocess.run(command, cwd=self.dir, capture_output=True, timeout=120, check=False)

    def ok(self, *args):
        done = self.run(*args)
        assert done.returncode == 0, (args, done.stderr.decode())
        return done.stdout

    def json(self, *args):
        return [json.loads(line) for line in self.ok("--json", *args).splitlines()]

    def file(self, name, data):
        path = self.dir / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return name

    def stored(self, *args):
        """The output of a command that reads, or None if what it reads does not exist."""
        done = self.run(*args)
        assert done.returncode in (0, 3), (args, done.stderr.decode())
        return done.stdout if done.returncode == 0 else None

    def data(self, object):
        """The data of an object, read by Ceph's own program on a cluster."""
        if not self.store.startswith("ceph:"):
            return self.stored("get", f"{self.pool}/{object}", "-")
        conf = self.store.partition("conf=")[2]
        rados = ["rados", "--conf", conf, "-p", self.pool]
        if subprocess.run([*rados, "stat", object], capture_output=True, timeout=60, check=False).returncode != 0:
            return None
        return subprocess.run([*rados, "get", object, "-"], capture_output=True, timeout=60, check=True).stdout

    def names(self):
        return {line["object"] for line in self.json("ls", self.pool)}


class Answer:
    """A command that only reads. If it succeeds, its answer is complete and right."""

    def __init__(self, place, args, expected=None, needs_store=True):
        self.place, self.args, self.needs_store = place, args, needs_store
        self.expected = place.ok("--json", *args).splitlines()
        if expected is not None:
            assert [json.loads(line) for line in self.expected] == expected

    def start(self, **options):
        return self.place.start(self.args, **options)

    def check(self, outcome, shown=True):
        complete = [line[:-1] for line in outcome.stdout.splitlines(keepends=True) if line.endswith(b"\n")]
        if outcome.kind == "ok" and shown:
            assert complete == self.expected, outcome
        assert set(complete) <= set(self.expected), outcome


class Change:
    """A command that changes one thing, which `read` reads. A failed command has no effect, unless
    its kind says that the outcome is unknown. Then the thing may be in its old, its new, or an
    intermediate state.
    """

    needs_store = True

    def __init__(self, place, args, read, after, between=()):
        self.place, self.args, self.read, self.after = place, args, read, after
        self.before = read()
        self.between = between
        assert self.before != after

    def start(self, **options):
        return self.place.start(self.args, **options)

    def check(self, outcome, shown=True):
        stored = self.read()
        if outcome.kind == "ok":
            assert stored == self.after, outcome
        elif outcome.may_have_happened:
            assert stored in [self.before, self.after, *self.between], outcome
        else:
            assert stored == self.before, outcome


class Changes(Change):
    """A command that changes many things, which `read` returns by name. It lists each thing that is
    changed and each that failed, and counts those that it did not try.
    """

    def __init__(self, place, args, read, after, name_of):
        super().__init__(place, args, read, after)
        self.name_of = name_of

    def check(self, outcome, shown=True):
        stored = self.read()
        listed = {self.name_of(line) for line in outcome.lines}
        if outcome.kind == "ok":
            assert stored == self.after, outcome
            assert not shown or listed == set(self.after), outcome
        failed = {}
        for error in outcome.errors:
            if "subject" in error:
                failed[error["subject"].rpartition("/")[2]] = error["kind"]
        assert not listed & set(failed) and listed | set(failed) <= set(self.after), outcome
        for name, after in self.after.items():
            before, now = self.before.get(name), stored.get(name)
            if name in listed:
                assert now == after, (name, outcome)
            elif name in failed and failed[name] not in ("outcome_unknown", "interrupted"):
                assert now == before, (name, failed[name], outcome)
            else:
                assert now in (before, after), (name, outcome)
        if shown and outcome.kind != "killed" and outcome.kind != "ok":
            left = [error["context"]["not_tried"] for error in outcome.errors if "not_tried" in error.get("context", {})]
            accounted = len(listed) + len(failed)
            if left == ["all further objects"]:
                assert accounted < len(self.after), outcome
            elif accounted or left:
                assert accounted + sum(map(int, left)) == len(self.after), outcome
            else:
                # A command that cannot begin says only that.
                assert stored == self.before, outcome


class Request:
    """An S3 request, in a thread."""

    threads = concurrent.futures.ThreadPoolExecutor(32)
    KINDS = {403: "permission_denied", 500: "outcome_unknown", 503: "unavailable", 507: "limit_exceeded"}
    needs_store = True

    def __init__(self, name, call):
        self.name, self.call = name, call

    def start(self, **_options):
        self.running = self.threads.submit(self._answer)
        return self

    def says(self, _key):
        """The gateway cannot say anything before its answer."""

    def _answer(self):
        began_s = time.monotonic()
        status, answer, errors = 0, b"", []
        try:
            answer = self.call()
        except botocore.exceptions.ClientError as error:
            http = error.response["ResponseMetadata"]["HTTPStatusCode"]
            status, errors = 1, [{"kind": self.KINDS.get(http, f"status {http}"), "message": str(error)}]
        except (botocore.exceptions.HTTPClientError, botocore.exceptions.BotoCoreError) as error:
            status, errors = 1, [{"kind": "no_answer", "message": str(error)}]
        return Outcome(self.name, status, answer, errors, time.monotonic() - began_s)

    def ended(self, timeout_s=120):
        return self.running.result(timeout_s)


class AnsweredRequest(Request):
    def __init__(self, name, call):
        super().__init__(name, call)
        self.expected = call()

    def check(self, outcome, shown=True):
        if outcome.kind == "ok":
            assert outcome.stdout == self.expected, outcome


class ChangingRequest(Request):
    def __init__(self, name, call, read, after):
        super().__init__(name, call)
        self.read, self.after, self.between = read, after, ()
        self.before = read()
        assert self.before != after

    check = Change.check


def md5(data):
    return hashlib.md5(data).hexdigest()
