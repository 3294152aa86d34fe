"""Runs the catalog as a separate program, and connects clients to it."""

import contextlib
import json
import pathlib
import subprocess

import boto3
import botocore.config
import duckdb
import duckdb_extension_iceberg
import pyiceberg.catalog
import requests

EXTENSIONS = pathlib.Path(duckdb_extension_iceberg.__file__).parent.parent


class Catalog:
    """A running server, with the key of its first start."""

    def __init__(self, store, *options):
        self.store, self.options = store, options

    def start(self):
        self.log_file = self.store.dir / "catalog.log"
        command = self.store.command("benthic-catalog", "catalog", "serve", "--listen", "127.0.0.1:0", *self.options)
        self.process = subprocess.Popen(
            command, env=self.store.environment, stdout=subprocess.PIPE, stderr=open(self.log_file, "a")
        )
        line = self.process.stdout.readline()
        assert line, self.log()
        started = json.loads(line)
        self.url = started["url"]
        if started["access_key"]:
            self.store.first_key = started["access_key"], started["secret_key"]
        self.key = self.store.first_key
        return self

    def log(self):
        return self.log_file.read_text()

    def stop(self):
        self.process.terminate()
        return self.process.wait(30)

    def token(self, key=None):
        user, secret = key or self.key
        form = {"grant_type": "client_credentials", "client_id": user, "client_secret": secret, "scope": "catalog"}
        return requests.post(f"{self.url}/v1/oauth/tokens", data=form, timeout=30)

    def request(self, method, path, token=None, **options):
        """Sends a request to the catalog with a valid token, or with this header."""
        header = f"Bearer {self.token().json()['access_token']}" if token is None else token
        return requests.request(method, self.url + path, headers={"Authorization": header}, timeout=30, **options)

    def pyiceberg(self, key=None):
        return pyiceberg.catalog.load_catalog("benthic", uri=self.url, credential=":".join(key or self.key))

    def duckdb(self, key=None):
        """A connection with the store's pools as schemas of `lakes`."""
        connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
        for name in ["httpfs", "avro", "iceberg"]:
            load(connection, name)
        user, secret = key or self.key
        connection.execute(
            f"CREATE SECRET (TYPE iceberg, CLIENT_ID '{user}', CLIENT_SECRET '{secret}',"
            f" OAUTH2_SERVER_URI '{self.url}/v1/oauth/tokens')"
        )
        connection.execute(f"ATTACH '' AS lakes (TYPE iceberg, ENDPOINT '{self.url}')")
        return connection

    def s3(self, access_key, secret, token=None):
        return boto3.client(
            "s3",
            endpoint_url=self.url,
            aws_access_key_id=access_key,
            aws_secret_access_key=secret,
            aws_session_token=token,
            region_name="us-east-1",
            config=botocore.config.Config(s3={"addressing_style": "path"}, retries={"total_max_attempts": 1}),
        )

    def s3_of(self, table):
        """A client with the temporary key of a table, and the prefix of its keys."""
        pool, name = table.split("/")
        loaded = self.request("GET", f"/v1/namespaces/{pool}/tables/{name}").json()
        config = loaded["config"]
        prefix = loaded["metadata"]["location"].removeprefix("s3://tables/") + "/"
        return self.s3(config["s3.access-key-id"], config["s3.secret-access-key"]), prefix


def load(connection, extension):
    """Loads an extension that a package has. DuckDB would download it."""
    [path] = EXTENSIONS.glob(f"duckdb_extension_{extension}/extensions/*/{extension}.duckdb_extension")
    connection.execute(f"LOAD '{path}'")


@contextlib.contextmanager
def running(store, *options):
    server = Catalog(store, *options).start()
    try:
        yield server
    finally:
        server.stop()
        # A panic of a connection would not end the server.
        assert "panicked" not in server.log(), server.log()
