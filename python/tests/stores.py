"""A store on each durable engine, used through the programs, as the tests of servers need it."""

import contextlib
import json
import os
import pathlib
import subprocess

import pyarrow.ipc
import pyarrow.parquet
import pytest

ENGINES = ["file", pytest.param("ceph", marks=pytest.mark.ceph)]
PROGRAMS = pathlib.Path(__file__).resolve().parents[2] / "target" / "release"


class Store:
    """A store with tables, and the accounts of the S3 gateway."""

    def __init__(self, engine, dir):
        self.dir = dir
        uri = f"file:{dir}/store"
        if engine == "ceph":
            conf = os.environ.get("BENTHIC_TEST_CEPH_CONF")
            assert conf, "this test needs a real Ceph cluster; `make test-ceph` starts one and runs the test"
            uri = f"ceph:?conf={conf}"
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(dir),
            "BENTHIC_STORE": uri,
            "BENTHIC_S3_SEALING_KEY": str(dir / "sealing.key"),
        }

    def command(self, program, *args):
        return [str(PROGRAMS / program), "--json", *args]

    def run(self, program, *args):
        """Runs a verb, and returns its JSON lines."""
        done = subprocess.run(self.command(program, *args), env=self.environment, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    def key(self, user):
        """A new key of a user, whose account may be new, too."""
        account = user.split("/")[0]
        if account not in [found["account"] for found in self.run("benthic-s3", "s3", "account", "ls")]:
            self.run("benthic-s3", "s3", "account", "create", account)
        with contextlib.suppress(AssertionError):
            self.run("benthic-s3", "s3", "user", "create", user)
        created = self.run("benthic-s3", "s3", "key", "create", user)[0]
        return created["access_key"], created["secret_key"]

    def create(self, name, table, *options):
        """Creates a table with these rows."""
        path = self.dir / "rows.parquet"
        pyarrow.parquet.write_table(table, path)
        self.run("benthic-sql", "table", "create", name, str(path), *options)

    def query(self, sql):
        """The rows of a query, by `benthic sql`."""
        command = [str(PROGRAMS / "benthic-sql"), "sql", "--output", "arrow", sql]
        done = subprocess.run(command, env=self.environment, capture_output=True, timeout=120)
        assert done.returncode == 0, done.stderr.decode()
        return pyarrow.ipc.open_stream(done.stdout).read_all()

    def pools(self):
        return {found["pool"] for found in self.run("benthic", "pool", "ls")}


@contextlib.contextmanager
def opened(engine, dir):
    """Opens a store. Removes the pools that were created meanwhile, because a cluster stays."""
    store = Store(engine, dir)
    before = store.pools() if engine == "ceph" else set()
    try:
        yield store
    finally:
        if engine == "ceph":
            for pool in store.pools() - before:
                store.run("benthic", "pool", "rm", pool, "--yes", pool)
