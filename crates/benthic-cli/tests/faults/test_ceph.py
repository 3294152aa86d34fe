"""Faults of a Ceph cluster × families of commands: exit status, messages and stored state agree,
and the reports of the cluster's health agree with the daemons that run.
"""

import concurrent.futures
import contextlib
import itertools
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.request

import families
import pytest
from gateway import LONG
from outcome import PROGRAM, ROOT
from place import Place, Request

pytestmark = pytest.mark.ceph
NUMBERS = itertools.count()
# The time in which a report must have noticed a fault, on a busy machine.
NOTICED_S = 45
RECOVERED_S = 240
long = pytest.mark.skipif(not LONG, reason="takes minutes; `make test-long` runs it")


class Cluster:
    """A cluster of a test module, and the daemons that currently serve."""

    def __init__(self, dir, *options):
        self.dir = pathlib.Path(dir)
        self.conf = self.dir / "c" / "ceph.conf"
        self.store = f"ceph:?conf={self.conf}"
        self.benthic("up", *options)
        library = str(ROOT / "target" / "release" / "libcls_table_1.so")
        subprocess.run([str(PROGRAM), "--store", self.store, "class", "install", library, "--cluster", str(self.conf.parent)], check=True, capture_output=True)
        self.cut = set()

    def benthic(self, *args):
        command = [str(PROGRAM), "--json", "cluster", *args, "--dir", "c"]
        done = subprocess.run(command, cwd=self.dir, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, (args, done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def ceph(self, *args):
        done = subprocess.run(["ceph", "--conf", str(self.conf), *args], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, (args, done.stderr)
        return done.stdout

    def pids(self):
        """The processes of the daemons that run, stopped ones too."""
        found = {}
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                words = (process / "cmdline").read_bytes().decode().split("\0")
                kind = re.search(r"ceph-(mon|mgr|osd)$", words[0])
                if kind and str(self.conf) in words:
                    found[f"{kind[1]}.{words[words.index('-i') + 1]}"] = int(process.name)
        return found

    def serving(self):
        """The daemons that can serve now: they run, are not stopped, and are not cut off."""
        state = lambda pid: pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]
        return {name for name, pid in self.pids().items() if state(pid) != "T"} - self.cut

    def kill(self, *daemons):
        pids = self.pids()
        for daemon in daemons:
            os.kill(pids[daemon], signal.SIGKILL)
        until = time.monotonic() + 10
        while set(daemons) & set(self.pids()):
            assert time.monotonic() < until
            time.sleep(0.02)

    def start(self, *daemons):
        for daemon in daemons:
            self.benthic("start", daemon)

    def signal(self, name, *daemons):
        pids = self.pids()
        for daemon in daemons:
            os.kill(pids[daemon], name)

    def recovered(self):
        """Waits until Ceph itself reports that all is well."""
        until = time.monotonic() + RECOVERED_S
        while True:
            state = json.loads(self.ceph("status", "--format=json"))
            states = {entry["state_name"] for entry in state["pgmap"].get("pgs_by_state", [])}
            if states == {"active+clean"} and state["health"]["status"] == "HEALTH_OK":
                return
            assert time.monotonic() < until, state["health"]
            time.sleep(0.5)


@contextlib.contextmanager
def running_cluster(*options):
    # Paths of sockets must be short.
    dir = tempfile.mkdtemp(prefix="f")
    try:
        yield Cluster(dir, "--osds", "3", *options)
    finally:
        command = [str(PROGRAM), "cluster", "down", "--remove", "--yes", "c", "--dir", "c"]
        subprocess.run(command, cwd=dir, check=False, capture_output=True)
        shutil.rmtree(dir)


@pytest.fixture(scope="module")
def cluster():
    with running_cluster() as cluster:
        yield cluster


class Server:
    """`benthic status serve` or `benthic exporter`, which looks at the cluster every second."""

    def __init__(self, cluster, *args):
        command = [str(PROGRAM), "--json", "--store", cluster.store, *args, "--listen", "127.0.0.1:0", "--interval", "1"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=cluster.dir)
        self.url = json.loads(self.process.stdout.readline())["url"]

    def get(self, path):
        with urllib.request.urlopen(urllib.request.Request(self.url.rstrip("/").removesuffix("/metrics") + path), timeout=30) as answer:
            return answer.read().decode()

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


def verdict_of_page(page):
    """The verdict and availability on the status page; the verdict is None while it says that it knows nothing newer."""
    seen = json.loads(page.get("/status.json"))
    report = seen.get("report") or {}
    return report.get("verdict"), report.get("availability_percent")


def verdict_of_exporter(exporter):
    values = dict(re.findall(r"^(benthic_health_verdict|benthic_availability_percent) (\S+)$", exporter.get("/metrics"), re.MULTILINE))
    verdict = ["healthy", "degraded", "at_risk", "down"][int(values["benthic_health_verdict"])]
    return verdict, float(values["benthic_availability_percent"]) if "benthic_availability_percent" in values else None


def is_true(cluster, verdict, availability):
    """Whether a verdict agrees with the daemons that serve."""
    osds = {name for name in cluster.serving() if name.startswith("osd.")}
    if not osds or "mon.a" not in cluster.serving():
        return verdict == "down" and not availability
    return verdict in ("degraded", "at_risk", "down")


def check_reports(cluster, page, exporter):
    """Checks each report on the cluster against the processes. A fault is in force."""
    serving = cluster.serving()
    once = Place(cluster.store, cluster.dir, "").start(["health"]).ended()
    if "mon.a" not in serving:
        assert once.kind == "unavailable", once
    else:
        assert once.kind == "ok", once
        [report] = once.lines
        assert is_true(cluster, report["verdict"], report["availability_percent"]), report
        answered = {f"osd.{osd}" for osd in report["numbers"]["osd_answers"]["answered"]}
        assert answered <= serving, report
    until = time.monotonic() + NOTICED_S
    for verdict_of, server in [(verdict_of_page, page), (verdict_of_exporter, exporter)]:
        while not is_true(cluster, *(found := verdict_of(server))):
            assert time.monotonic() < until, (server.url, found)
            time.sleep(0.2)


class Fault:
    """Runs all steps of all families on a cluster with a fault, heals it, and checks every step."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.places = []
        with concurrent.futures.ThreadPoolExecutor(3) as threads:
            self.steps = [step for steps in threads.map(self._prepare, families.ALL) for step in steps]

    def _prepare(self, family):
        dir = self.cluster.dir / f"{family.__name__}{next(NUMBERS)}"
        dir.mkdir()
        place = Place(self.cluster.store, dir, dir.name)
        self.places.append(place)
        place.ok("pool", "create", place.pool)
        return family(place)

    def run(self, **options):
        return [step.start(**options) for step in self.steps]

    def check(self, outcomes, kinds, shown=True):
        for step, outcome in zip(self.steps, outcomes, strict=True):
            assert outcome.kind in kinds, outcome
            step.check(outcome, shown)

    def close(self):
        """Stops the gateways and removes the pools."""
        for place in self.places:
            for gateway in place.gateways:
                gateway.stop()
            place.ok("pool", "rm", place.pool, "--yes", place.pool)


@contextlib.contextmanager
def killed(cluster, *daemons):
    """Kills daemons, starts them again at the end, and waits until the cluster has recovered."""
    cluster.kill(*daemons)
    try:
        yield
    finally:
        cluster.start(*daemons)
    cluster.recovered()


@pytest.fixture
def fault(cluster):
    fault = Fault(cluster)
    yield fault
    fault.close()


@pytest.fixture
def page(cluster):
    server = Server(cluster, "status", "serve")
    yield server
    server.stop()


@pytest.fixture
def exporter(cluster):
    server = Server(cluster, "exporter")
    yield server
    server.stop()


@long
def test_a_closed_pipe(fault):
    read, write = os.pipe()
    os.close(read)
    running = fault.run(stdout=write)
    os.close(write)
    fault.check([command.ended() for command in running], ["ok"], shown=False)


@long
def test_a_client_without_permission_to_write(cluster, fault):
    key = cluster.ceph("auth", "get-or-create", "client.reader", "mon", "allow r", "osd", "allow rx")
    keyring = cluster.conf.with_name("keyring")
    if "client.reader" not in keyring.read_text():
        keyring.write_text(f"{keyring.read_text()}\n{key}")
    for place in fault.places:
        place.store += "&id=client.reader"
    outcomes = [step.start().ended() if not isinstance(step, Request) else None for step in fault.steps]
    for place in fault.places:
        place.store = cluster.store
    for step, outcome in zip(fault.steps, outcomes, strict=True):
        if outcome:
            assert outcome.kind in ("ok", "permission_denied", "some_failed"), outcome
            step.check(outcome)


def test_one_osd_is_killed(cluster, fault, page, exporter):
    """The others take over."""
    with killed(cluster, "osd.1"):
        running = fault.run()
        check_reports(cluster, page, exporter)
        outcomes = [command.ended() for command in running]
    fault.check(outcomes, ["ok"])


@long
def test_the_manager_is_killed(cluster, fault, page, exporter):
    """Objects do not need it."""
    with killed(cluster, "mgr.a"):
        running = fault.run()
        outcomes = [command.ended() for command in running]
        check_reports(cluster, page, exporter)
    fault.check(outcomes, ["ok"])


@long
def test_the_monitor_is_killed(cluster, fault, page, exporter):
    """Connected clients continue, and nothing new can connect."""
    with killed(cluster, "mon.a"):
        running = fault.run()
        outcomes = [command.ended() for command in running]
        check_reports(cluster, page, exporter)
    fault.check(outcomes, ["ok", "unavailable"])


def test_the_command_is_killed(fault, seed):
    rng = random.Random(seed)
    outcomes = []
    for step in fault.steps:
        running = step.start()
        if not isinstance(step, Request):
            time.sleep(rng.uniform(0, 0.3))
            running.process.kill()
        outcomes.append(running.ended())
    fault.check(outcomes, ["ok", "killed"])


@long
def test_one_osd_hangs(cluster, fault, page, exporter):
    """It is marked down after the heartbeat's grace, and the others take over."""
    cluster.signal(signal.SIGSTOP, "osd.1")
    try:
        running = fault.run()
        check_reports(cluster, page, exporter)
        outcomes = [command.ended() for command in running]
    finally:
        cluster.signal(signal.SIGCONT, "osd.1")
    cluster.recovered()
    fault.check(outcomes, ["ok", "outcome_unknown", "unavailable"])


@long
def test_all_osds_are_killed(cluster, fault, page, exporter):
    with killed(cluster, "osd.0", "osd.1", "osd.2"):
        running = fault.run()
        check_reports(cluster, page, exporter)
        outcomes = [command.ended(400) for command in running]
    fault.check(outcomes, ["ok", "unavailable", "outcome_unknown", "some_failed"])


@long
def test_the_cluster_is_full(cluster, fault):
    ratios = {"nearfull": 0.85, "backfillfull": 0.9, "full": 0.95}
    try:
        for name in ratios:
            cluster.ceph("osd", f"set-{name}-ratio", "0.0001")
        until = time.monotonic() + NOTICED_S
        while "OSD_FULL" not in cluster.ceph("health", "detail"):
            assert time.monotonic() < until
            time.sleep(0.2)
        running = fault.run()
        outcomes = [command.ended(400) for command in running]
    finally:
        for name, ratio in reversed(ratios.items()):
            cluster.ceph("osd", f"set-{name}-ratio", str(ratio))
    cluster.recovered()
    fault.check(outcomes, ["ok", "limit_exceeded", "outcome_unknown", "some_failed"])


@long
def test_the_network_to_a_site_is_cut():
    """The OSD at the site runs, but nobody reaches it."""
    if os.geteuid() != 0:
        pytest.skip("only root may create network namespaces")
    with running_cluster("--sites", "um,msu,wsu", "--rtt-ms", "1") as cluster, contextlib.ExitStack() as ended:
        fault = Fault(cluster)
        ended.callback(fault.close)
        page, exporter = Server(cluster, "status", "serve"), Server(cluster, "exporter")
        ended.callback(page.stop)
        ended.callback(exporter.stop)
        [status] = cluster.benthic("status")
        cluster.cut = {daemon["name"] for daemon in status["daemons"] if daemon.get("site") == "wsu"}
        assert len(cluster.cut) == 1, status
        cluster.benthic("cut", "wsu")
        running = fault.run()
        check_reports(cluster, page, exporter)
        outcomes = [command.ended() for command in running]
        cluster.benthic("heal", "wsu")
        cluster.cut = set()
        cluster.recovered()
        fault.check(outcomes, ["ok", "outcome_unknown", "unavailable"])
