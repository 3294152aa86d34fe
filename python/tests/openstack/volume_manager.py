"""Cinder's volume manager with Cinder's database in SQLite, on a Benthic store."""

import contextlib
import socket
import time
import uuid
from pathlib import Path

import fixtures
from cinder import context, objects
from cinder.tests.unit import test
from cinder.tests.unit import utils as tests_utils
from cinder.volume import configuration
from oslo_config import cfg
from oslo_utils import importutils
from services import PROGRAM, BenthicStore, ceph_store

CONF = cfg.CONF
DRIVER = "benthic.openstack.cinder.BenthicDriver"
HERE = socket.gethostname()


class ForPytest:
    """pytest removes an attribute of a test that testtools has already removed."""

    def __delattr__(self, name):
        with contextlib.suppress(AttributeError):
            super().__delattr__(name)


class Manager(ForPytest, test.TestCase):
    """cinder-volume on a store in a directory, without its RPC."""

    def setUp(self):
        super().setUp()
        self.dir = Path(self.useFixture(fixtures.TempDir()).path)
        self.store = self.new_store()
        self.pool = self.store.pool
        self.context = context.get_admin_context()
        self.context.user_id = self.context.project_id = str(uuid.uuid4())
        self.override_config("image_conversion_dir", str(self.dir / "conversion"))
        self.configure(volume_driver=DRIVER, benthic_store=self.store.uri, benthic_program=PROGRAM)
        self.configure(benthic_pool=self.pool, benthic_sockets=str(self.dir / "nbd"))
        self.addCleanup(self.stop_servers)
        self.manager = self.start_manager()
        assert self.manager.driver.initialized

    def new_store(self):
        return BenthicStore(f"file:{self.dir}/store")

    def configure(self, **options):
        for name, value in options.items():
            self.override_config(name, value, configuration.SHARED_CONF_GROUP)

    def start_manager(self):
        """Starts cinder-volume, as after a restart."""
        started = importutils.import_object(CONF.volume_manager)
        started.init_host(service_id=1)
        return started

    def server(self, volume):
        return self.manager.driver._server(volume)

    def stop_servers(self):
        for volume in objects.VolumeList.get_all(self.context):
            self.server(volume).stop()

    def new(self, size=1, **values):
        """The record of a volume, as the API creates it."""
        values = {"status": "creating", "host": self.manager.host, "volume_type_id": self.vt["id"]} | values
        return tests_utils.create_volume(self.context, size=size, **values)

    def create(self, data=b"", size=1, request_spec=None, **values):
        volume = self.new(size, **values)
        self.manager.create_volume(self.context, volume, request_spec or {}, {}, allow_reschedule=False)
        volume.refresh()
        self.assertEqual("available", volume.status)
        if data:
            self.store.write(volume.name, data, self.dir)
        return volume

    def delete(self, volume):
        self.manager.delete_volume(self.context, volume)

    def snapshot(self, volume):
        snapshot = tests_utils.create_snapshot(self.context, volume.id)
        self.manager.create_snapshot(self.context, snapshot)
        snapshot.refresh()
        self.assertEqual("available", snapshot.status)
        return snapshot

    def delete_snapshot(self, snapshot):
        self.manager.delete_snapshot(self.context, snapshot)

    def attach(self, volume, host=HERE):
        attachment = objects.VolumeAttachment(self.context, volume_id=volume.id, attach_status="reserved")
        attachment.create()
        connector = {"host": host, "ip": "127.0.0.1"}
        connection = self.manager.attachment_update(self.context, volume, connector, attachment.id)
        # The API does this when Nova has completed the attachment.
        attachment.refresh()
        attachment.attach_status = "attached"
        attachment.save()
        volume.refresh()
        volume.status = "in-use"
        volume.save()
        return attachment, connection

    def detach(self, volume, attachment):
        self.manager.attachment_delete(self.context, attachment.id, volume)
        # The API does this.
        attachment.destroy()
        self.manager.db.volume_update_status_based_on_attachment(self.context, volume.id)
        volume.refresh()

    def read(self, volume):
        return self.store.read(volume.name, self.dir)


class OnCeph:
    """The same on a cluster."""

    def new_store(self):
        store = ceph_store()
        self.addCleanup(store.benthic, "pool", "rm", store.pool, "--yes", store.pool)
        return store


def wait_until(condition):
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)
