"""Faults of the embedded engine × families of commands: exit status, messages and stored state
agree.
"""

import contextlib
import os
import random
import signal
import subprocess
import time

import families
import pytest
from place import Place, Request

FAMILIES = pytest.mark.parametrize("family", families.ALL, ids=lambda family: family.__name__)
# Without the gateway, which is itself the store's owner.
PROGRAMS = pytest.mark.parametrize("family", families.ALL[:-1], ids=lambda family: family.__name__)


def mount(*args):
    if os.geteuid() != 0:
        pytest.skip("only root may mount a file system")
    subprocess.run(["mount", *args], check=True, capture_output=True)


@pytest.fixture
def place(tmp_path):
    place = Place(f"file:{tmp_path}/store", tmp_path, "p")
    place.ok("pool", "create", "p")
    yield place
    stop_gateways(place)


def stop_gateways(place):
    for gateway in place.gateways:
        gateway.process.send_signal(signal.SIGCONT)
        gateway.stop()
    place.gateways.clear()


def restart_gateways(place):
    for gateway in place.gateways:
        gateway.stop()
        gateway.start()


def check_store(place):
    """The store's own checks find nothing, or they would fail."""
    place.ok("scrub")
    stop_gateways(place)
    place.ok("fsck")


@FAMILIES
def test_nothing_fails_without_a_fault(place, family):
    for step in family(place):
        outcome = step.start().ended()
        assert outcome.kind == "ok", outcome
        step.check(outcome)
    check_store(place)


@FAMILIES
def test_a_closed_pipe(place, family):
    """Nobody reads stdout: a change is completed, and the command succeeds."""
    for step in family(place):
        read, write = os.pipe()
        os.close(read)
        running = step.start(stdout=write)
        os.close(write)
        outcome = running.ended()
        assert outcome.kind == "ok", outcome
        step.check(outcome, shown=False)
    check_store(place)


@FAMILIES
def test_output_that_cannot_be_written(place, family):
    """A command whose answer is lost fails."""
    for step in family(place):
        if isinstance(step, Request):
            continue
        with open("/dev/full", "wb") as full:
            outcome = step.start(stdout=full).ended()
        assert outcome.kind == "limit_exceeded", outcome
    check_store(place)


@pytest.fixture
def small_disk(tmp_path):
    """A place on a small file system that the test can fill."""
    dir = tmp_path / "disk"
    dir.mkdir()
    mount("-t", "tmpfs", "-o", "size=100m", "tmpfs", str(dir))
    place = Place(f"file:{dir}/store", dir, "p")
    try:
        place.ok("pool", "create", "p")
        yield place
    finally:
        stop_gateways(place)
        subprocess.run(["umount", "--lazy", str(dir)], check=True)


def fill(dir):
    """Writes a file until the file system is full."""
    filler = dir / "filler"
    with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(1 << 20))
    with filler.open("ab", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(512))
    return filler


@FAMILIES
def test_a_full_disk(small_disk, family):
    steps = family(small_disk)
    filler = fill(small_disk.dir)
    outcomes = [step.start().ended() for step in steps]
    filler.unlink()
    restart_gateways(small_disk)
    for step, outcome in zip(steps, outcomes, strict=True):
        log = small_disk.gateways[0].log() if small_disk.gateways else ""
        assert outcome.kind in ("ok", "limit_exceeded", "some_failed"), (outcome, log)
        step.check(outcome)
    check_store(small_disk)


@FAMILIES
def test_a_read_only_mount(place, family):
    steps = family(place)
    gateways = list(place.gateways)
    stop_gateways(place)
    store = str(place.dir / "store")
    mount("--bind", store, store)
    try:
        mount("-o", "remount,bind,ro", store)
        for gateway in gateways:
            refused = place.start(["s3", "serve", "--listen", gateway.listen, "--pool", "p", "--sealing-key", gateway.key_file]).ended()
            assert refused.kind == "permission_denied", refused
        outcomes = [step.start().ended() for step in steps if not isinstance(step, Request)]
    finally:
        subprocess.run(["umount", store], check=True)
    place.gateways = [gateway.start() for gateway in gateways]
    steps = [step for step in steps if not isinstance(step, Request)]
    for step, outcome in zip(steps, outcomes, strict=True):
        assert outcome.kind in ("ok", "permission_denied"), outcome
        step.check(outcome)
    check_store(place)


@contextlib.contextmanager
def owner(place):
    """A process that owns the store, through which other commands work."""
    if place.gateways:
        yield place.gateways[0].process
        return
    if b"q\n" not in place.ok("pool", "ls"):
        place.ok("pool", "create", "q")
    running = place.start(["bench", "write", "q", "--seconds", "600", "--size", "1KiB", "--in-flight", "1"])
    try:
        while not place.ok("ls", "q:benthic-bench"):
            assert running.process.poll() is None
        yield running.process
    finally:
        running.process.kill()
        running.process.wait()


@FAMILIES
def test_the_owner_is_killed(place, family, seed):
    """The process that owns the store dies while another works through it."""
    rng = random.Random(seed)
    for step in family(place):
        with owner(place) as process:
            running = step.start()
            time.sleep(rng.uniform(0, 0.06))
            process.kill()
            process.wait()
            if place.gateways:
                place.gateways[0].start()
            outcome = running.ended()
        assert outcome.kind in ("ok", "outcome_unknown", "unavailable", "some_failed", "no_answer"), outcome
        step.check(outcome)
    check_store(place)


@FAMILIES
def test_the_owner_hangs(place, family):
    """The process that owns the store stops: every command says so in time, and continues when the owner does."""
    steps = family(place)
    with owner(place) as process:
        process.send_signal(signal.SIGSTOP)
        running = [step.start() for step in steps]
        try:
            for step, command in zip(steps, running, strict=True):
                if step.needs_store:
                    command.says("waiting")
        finally:
            process.send_signal(signal.SIGCONT)
        outcomes = [command.ended() for command in running]
    for step, outcome in zip(steps, outcomes, strict=True):
        assert outcome.kind == "ok", outcome
        step.check(outcome)
    check_store(place)


@PROGRAMS
def test_the_command_is_killed(place, family, seed):
    rng = random.Random(seed)
    for step in family(place):
        running = step.start()
        time.sleep(rng.uniform(0, 0.06))
        running.process.kill()
        outcome = running.ended()
        assert outcome.kind in ("ok", "killed"), outcome
        step.check(outcome)
    check_store(place)
