"""Clusters, S3 servers and Reductionist, which a benchmark starts and removes."""

from __future__ import annotations

import json
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import s3fs

_KEY = "BENCHMARKBENCHMARK00"
_SECRET = "secretsecretsecretsecretsecretsecret0000"
_START_S_MAX = 90
BUCKET = "bench"
# A new cluster has no classes but these.
_CLASSES = ("libcls_benthic_1.so", "libcls_array_1.so")


class Skipped(Exception):
    """Something is missing, and the rest of the run goes on without it."""


@dataclass(frozen=True)
class S3:
    """A running S3 server with a bucket."""

    url: str
    access_key: str
    secret_key: str

    @property
    def options(self) -> dict[str, Any]:
        """The options of s3fs."""
        return {"key": self.access_key, "secret": self.secret_key, "endpoint_url": self.url}


class Cluster:
    """A Ceph cluster on this machine, near or behind a link."""

    def __init__(self, programs: Path, name: str, site: str | None) -> None:
        self.directory = Path(tempfile.gettempdir()) / f"benthic-bench-{name}"
        self.store = f"ceph:?conf={self.directory}/ceph.conf"
        self._programs = programs
        self._site = site

    def benthic(self, *arguments: str) -> None:
        """Runs the program on the cluster. Its errors go to stderr."""
        run([str(self._programs / "benthic"), "--store", self.store, *arguments])

    @property
    def address(self) -> str:
        """The address of the OSDs."""
        found = re.search(r"mon_host = v2:([\d.]+)", (self.directory / "ceph.conf").read_text())
        if found is None:
            raise RuntimeError("the configuration of the cluster has no monitor")
        return found[1]

    def link_bytes(self) -> int | None:
        """Bytes that crossed the link in both directions; None if there is no link.

        Only clients use it: all daemons are on the other side.
        """
        if self._site is None:
            return None
        marker = json.loads((self.directory / "benthic-cluster.json").read_text())
        counters = Path(f"/sys/class/net/bwan{marker['fsid'][:8]}/statistics")
        return sum(int((counters / name).read_text()) for name in ("rx_bytes", "tx_bytes"))

    def remove(self) -> None:
        """Removes the cluster if it exists. Ctrl-C does not interrupt this."""
        if (self.directory / "benthic-cluster.json").exists():
            before = signal.signal(signal.SIGINT, signal.SIG_IGN)
            directory = str(self.directory)
            self.benthic("cluster", "down", "--remove", "--yes", self.directory.name, "--dir", directory)
            # The command leaves the logs of the services.
            shutil.rmtree(self.directory, ignore_errors=True)
            signal.signal(signal.SIGINT, before)

    @contextmanager
    def up(self, *arguments: str) -> Iterator[Cluster]:
        """The running cluster. Removes the remains of a killed run first."""
        self.remove()
        classes = ",".join(str(self._programs / name) for name in _CLASSES)
        try:
            self.benthic("cluster", "up", "--dir", str(self.directory), "--classes", classes, *arguments)
            yield self
        finally:
            self.remove()

    @contextmanager
    def service(
        self, command: Sequence[str | Path], log: str, address: str, is_read: bool = False
    ) -> Iterator[subprocess.Popen[str]]:
        """A server beside the OSDs, so on the other side of the link if there is one."""
        at: list[str | Path] = [self._programs / "benthic", "cluster", "at", self._site or "", "--dir", self.directory, "--"]
        path = self.directory / f"{log}.log"
        with path.open("w") as output:
            process = subprocess.Popen(
                [*(at if self._site else []), *command],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE if is_read else output,
                stderr=output,
                text=True,
                start_new_session=True,
            )
        try:
            if not _accepts(address, process):
                raise Skipped(f"the server did not start at {address}: {path.read_text()[-500:]}")
            yield process
        finally:
            _stop(process)

    def _address(self) -> str:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            return f"{self.address}:{free.getsockname()[1]}"

    @contextmanager
    def radosgw(self) -> Iterator[S3]:
        """Ceph's own S3 server."""
        address = self._address()
        conf = ["--conf", str(self.directory / "ceph.conf"), "--name", "client.admin"]
        command = ["radosgw", "-f", *conf, "--debug-rgw", "0", "--rgw-frontends", f"beast endpoint={address}"]
        with self.service(command, "radosgw", address):
            user = ["user", "create", "--uid", "bench", "--display-name", "bench"]
            run(["radosgw-admin", *conf, *user, "--access-key", _KEY, "--secret-key", _SECRET])
            yield _with_bucket(S3(f"http://{address}", _KEY, _SECRET))

    @contextmanager
    def gateway(self) -> Iterator[S3]:
        """Our own S3 server."""
        program: list[str | Path] = [self._programs / "benthic-s3", "--store", self.store, "--json", "s3", "serve"]
        address, key = self._address(), self.directory / "sealing.key"
        options: list[str | Path] = ["--pool", "gateway", "--listen", address, "--sealing-key", key]
        with self.service([*program, *options], "gateway", address, is_read=True) as process:
            line = process.stdout.readline() if process.stdout else ""
            reported = json.loads(line)
            yield _with_bucket(S3(reported["url"].rstrip("/"), reported["access_key"], reported["secret_key"]))

    @contextmanager
    def reductionist(self, program: Path, threads: int) -> Iterator[str]:
        """Reductionist beside the OSDs; its URL."""
        if not program.exists():
            raise Skipped(f"{program} is missing")
        address = self._address()
        host, _, port = address.partition(":")
        options = ["--host", host, "--port", port, "--thread-limit", str(threads)]
        with self.service([program, *options], "reductionist", address):
            yield f"http://{address}"


def run(command: Sequence[str]) -> str:
    """The output of a program."""
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    if done.returncode != 0:
        raise RuntimeError(f"a program failed with status {done.returncode}: {' '.join(command)}")
    return done.stdout


def _stop(process: subprocess.Popen[str]) -> None:
    """Stops a process and its children."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            subprocess.run(["kill", f"-{number.value}", "--", f"-{process.pid}"], check=False, capture_output=True)
            process.wait(10)
            return
        except subprocess.TimeoutExpired:
            continue


def _accepts(address: str, process: subprocess.Popen[str]) -> bool:
    """Waits until a server accepts connections. False if it ends, or takes too long."""
    host, _, port = address.partition(":")
    deadline = time.monotonic() + _START_S_MAX
    while time.monotonic() < deadline and process.poll() is None:
        try:
            socket.create_connection((host, int(port)), timeout=1).close()
            return True
        except OSError:
            time.sleep(0.2)
    return False


def _with_bucket(s3: S3) -> S3:
    s3fs.S3FileSystem(**s3.options).mkdir(BUCKET)
    return s3
