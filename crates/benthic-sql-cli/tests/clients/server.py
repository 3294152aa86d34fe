"""Runs the SQL server as a separate program, and connects clients to it."""

import contextlib
import json
import os
import pathlib
import subprocess

import adbc_driver_flightsql.dbapi
import psycopg
import sqlalchemy

class Server:
    """A running server, with the key of its first start."""

    def __init__(self, store, *options):
        self.store, self.options = store, options
        self.key = getattr(store, "first_key", None)

    def start(self):
        args = ["sql", "serve", "--postgres", "127.0.0.1:0", "--flight", "127.0.0.1:0", *self.options]
        self.log_file = self.store.dir / "server.log"
        command = self.store.command("benthic-sql", *args)
        self.process = subprocess.Popen(
            command, env=self.store.environment, stdout=subprocess.PIPE, stderr=open(self.log_file, "a")
        )
        line = self.process.stdout.readline()
        assert line, self.log()
        started = json.loads(line)
        self.port = int(started["postgres_url"].split(":")[-1].split("/")[0])
        self.flight_url = started["flight_url"]
        if started["access_key"]:
            self.key = self.store.first_key = started["access_key"], started["secret_key"]
        return self

    def log(self):
        return self.log_file.read_text()

    def stop(self):
        self.process.terminate()
        return self.process.wait(30)

    def memory_mib(self):
        """The largest size of the server's memory so far."""
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) // 1024

    def parameters(self, key=None, **more):
        user, password = key or self.key
        named = {"host": "127.0.0.1", "port": self.port, "user": user, "password": password, "dbname": "benthic"}
        return {**named, "connect_timeout": 20, **more}

    def connect(self, key=None, **more):
        return psycopg.connect(**self.parameters(key, **more), autocommit=True)

    def engine(self):
        user, password = self.key
        return sqlalchemy.create_engine(f"postgresql+psycopg://{user}:{password}@127.0.0.1:{self.port}/benthic")

    def flight(self, key=None, **options):
        user, password = key or self.key
        options = {"username": user, "password": password, **options}
        return adbc_driver_flightsql.dbapi.connect(self.flight_url, db_kwargs=options, autocommit=True)

    def psql(self, *commands, **environment):
        """Runs psql, and returns its output."""
        args = [arg for command in commands for arg in ("-c", command)]
        named = {"PGHOST": "127.0.0.1", "PGPORT": str(self.port), "PGDATABASE": "benthic"}
        named |= {"PGUSER": self.key[0], "PGPASSWORD": self.key[1], "PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}
        named |= environment
        command = ["psql", "-X", "--no-align", "--tuples-only", *args]
        done = subprocess.run(command, env=named, capture_output=True, text=True, timeout=60)
        return done.stdout + done.stderr


@contextlib.contextmanager
def running(store, *options):
    server = Server(store, *options).start()
    try:
        yield server
    finally:
        server.stop()
        # A panic of a connection would not end the server.
        assert "panicked" not in server.log(), server.log()
