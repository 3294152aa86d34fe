"""The program cinder-volume itself, with an attached volume, is killed and started again."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from services import GIB, PROGRAM, BenthicStore, run

from benthic.openstack.program import Benthic
from benthic.openstack.server import Server

CONF = """
[DEFAULT]
enabled_backends = benthic
host = {host}
transport_url = fake:/
state_path = {path}
log_dir = {path}

[database]
connection = sqlite:///{path}/cinder.sqlite

[oslo_concurrency]
lock_path = {path}

[coordination]
backend_url = file://{path}

[benthic]
volume_driver = benthic.openstack.cinder.BenthicDriver
benthic_store = {store.uri}
benthic_pool = {store.pool}
benthic_program = {program}
"""

# Adds an attached volume to the database, and prints its name.
ADD = """
import sys, uuid
from cinder import context, objects
from cinder.common import config
from cinder.db import api as db

objects.register_all()
config.CONF(["--config-file", sys.argv[1]], project="cinder")
admin = context.get_admin_context()
admin.user_id = admin.project_id = str(uuid.uuid4())
[volume_type] = db.volume_type_get_all(admin).values()
owner = {"user_id": admin.user_id, "project_id": admin.project_id, "volume_type_id": volume_type["id"]}
volume = objects.Volume(admin, size=1, host=config.CONF.host + "@benthic#benthic", status="in-use", **owner)
volume.create()
attachment = objects.VolumeAttachment(admin, volume_id=volume.id, attach_status="attached")
attachment.create()
attachment.connector = {"host": config.CONF.host}
attachment.save()
print(volume.name)
"""


@pytest.fixture
def conf():
    # The paths of sockets must be short.
    with tempfile.TemporaryDirectory() as path:
        store = BenthicStore(f"file:{path}/store")
        conf = Path(path, "cinder.conf")
        conf.write_text(CONF.format(path=path, store=store, program=PROGRAM, host="test"))
        yield conf


def program(name, conf, *arguments):
    return [Path(sys.executable).with_name(name), "--config-file", conf, *arguments]


@contextlib.contextmanager
def cinder_volume(conf):
    """cinder-volume in a process group of its own, which is killed as a whole."""
    log = conf.with_name("cinder-volume.log")
    log.unlink(missing_ok=True)
    with (conf.parent / "output").open("w") as output:
        service = subprocess.Popen(program("cinder-volume", conf), stdout=output, stderr=output, start_new_session=True)
    try:
        deadline = time.monotonic() + 60
        while not log.exists() or "Driver initialization completed successfully" not in log.read_text():
            assert service.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)
        yield
    finally:
        os.killpg(service.pid, signal.SIGKILL)
        service.wait()


def test_a_server_outlives_cinder_volume(conf):
    run(*program("cinder-manage", conf, "db", "sync"))
    volume = run(sys.executable, "-c", ADD, conf).split()[-1]
    store = f"file:{conf.parent}/store"
    run(PROGRAM, "--store", store, "image", "create", f"volumes/{volume}", "--size", "1GiB")
    server = Server(Benthic(PROGRAM, store, "volumes"), str(conf.parent / "benthic"), volume)
    try:
        with cinder_volume(conf):
            # Its server was missing.
            process = server._process()
            assert run("nbdinfo", "--size", server.uri).strip() == str(GIB)
        assert run("nbdinfo", "--size", server.uri).strip() == str(GIB)
        with cinder_volume(conf):
            assert server._process() == process
    finally:
        server.stop()
