"""Attached volumes in Cinder, and the NBD servers behind them."""

import os
import signal
import uuid
from pathlib import Path
from unittest import mock

from cinder import exception
from services import MIB, noise, read_nbd, run, write_nbd
from volume_manager import HERE, Manager, wait_until

from benthic.openstack.server import Server


class Attachments(Manager):
    """Attached volumes, and the servers behind them."""

    def pid(self, volume):
        return self.server(volume)._process()

    def test_an_attached_volume(self):
        data = noise(MIB)
        volume = self.create(data)
        attachment, connection = self.attach(volume)
        volume.refresh()
        self.assertEqual("in-use", volume.status)
        self.assertEqual("nbd", connection["driver_volume_type"])
        self.assertEqual(f"{self.pool}/{volume.name}", connection["export"])
        self.assertEqual(f"{self.dir}/nbd/{volume.name}.sock", connection["socket"])
        self.assertEqual(volume.id, connection["volume_id"])
        self.assertEqual(data, read_nbd(connection["uri"], self.dir))
        run("nbdcopy", connection["uri"], self.dir / "copy")
        self.assertEqual(data, (self.dir / "copy").read_bytes()[:MIB])
        write_nbd(connection["uri"], noise(MIB, 1), self.dir)
        [process] = [self.pid(volume)]
        self.detach(volume, attachment)
        self.assertFalse(is_running(process))
        self.assertEqual([], os.listdir(self.dir / "nbd"))
        self.assertEqual(noise(MIB, 1), self.read(volume))
        self.delete(volume)

    def test_the_printed_address_is_that_of_the_server(self):
        volume = self.create()
        _, connection = self.attach(volume)
        self.assertIn(f'"uri":"{connection["uri"]}"', self.server(volume)._log.read_text())

    def test_a_group_may_use_the_socket(self):
        _, connection = self.attach(self.create())
        self.assertEqual(0o660, os.stat(connection["socket"]).st_mode & 0o777)
        self.assertEqual(0, os.stat(self.dir / "nbd").st_mode & 0o007)

    def test_changes_of_an_attached_volume(self):
        data = noise(MIB)
        volume = self.create()
        attachment, connection = self.attach(volume)
        write_nbd(connection["uri"], data, self.dir)
        snapshot = self.snapshot(volume)
        clone = self.create(source_volid=volume.id)
        write_nbd(connection["uri"], noise(MIB, 1), self.dir)
        self.assertEqual(data, self.read(self.create(snapshot_id=snapshot.id)))
        self.assertEqual(data, self.read(clone))
        error = self.assertRaises(exception.VolumeIsBusy, self.manager.driver.delete_volume, volume)
        self.assertIn("snapshots", str(error))
        self.detach(volume, attachment)

    def test_an_attached_volume_is_not_deleted(self):
        volume = self.create(noise(MIB))
        clone = self.create(source_volid=volume.id)
        self.attach(volume)
        error = self.assertRaises(exception.VolumeIsBusy, self.manager.driver.delete_volume, volume)
        self.assertIn("open", str(error))
        self.delete(clone)
        error = self.assertRaises(exception.VolumeIsBusy, self.manager.driver.delete_volume, volume)
        self.assertIn("another program has the image open", str(error))

    def test_a_restart_of_cinder_volume_keeps_the_server(self):
        volume = self.create()
        attachment, connection = self.attach(volume)
        process = self.pid(volume)
        self.manager = self.start_manager()
        volume.refresh()
        self.assertEqual("in-use", volume.status)
        self.assertEqual(process, self.pid(volume))
        self.assertEqual(b"", read_nbd(connection["uri"], self.dir))
        self.detach(volume, attachment)
        self.assertFalse(is_running(process))

    def test_the_server_is_not_in_the_session_of_cinder_volume(self):
        volume = self.create()
        self.attach(volume)
        self.assertNotEqual(os.getsid(0), os.getsid(self.pid(volume)))

    def test_a_killed_server_starts_again(self):
        data = noise(MIB)
        volume = self.create()
        attachment, connection = self.attach(volume)
        write_nbd(connection["uri"], data, self.dir)
        process = self.pid(volume)
        os.kill(process, signal.SIGKILL)
        wait_until(lambda: self.pid(volume) is None)
        self.manager = self.start_manager()
        volume.refresh()
        self.assertEqual("in-use", volume.status)
        self.assertEqual(data, read_nbd(connection["uri"], self.dir))
        os.kill(self.pid(volume), signal.SIGKILL)
        wait_until(lambda: self.pid(volume) is None)
        self.detach(volume, attachment)
        self.assertEqual("available", volume.status)
        self.assertEqual(data, self.read(volume))

    def test_a_server_that_cannot_start_again_makes_the_volume_an_error(self):
        volume = self.create()
        self.attach(volume)
        self.server(volume).stop()
        self.store.benthic("image", "rm", f"{self.pool}/{volume.name}")
        self.start_manager()
        volume.refresh()
        self.assertEqual("error", volume.status)

    def test_a_server_that_does_not_end(self):
        volume = self.create()
        attachment, _ = self.attach(volume)
        process = self.pid(volume)
        os.kill(process, signal.SIGSTOP)
        with mock.patch("benthic.openstack.server.WAIT_S", 0.2):
            error = self.assertRaises(exception.VolumeBackendAPIException, self.detach, volume, attachment)
        self.assertIn(f"the NBD server does not end; it may wait for the store image={self.pool}", str(error))
        os.kill(process, signal.SIGCONT)
        wait_until(lambda: not is_running(process))
        self.detach(volume, attachment)

    def test_the_last_attachment_stops_the_server(self):
        """A live migration attaches the volume twice."""
        volume = self.create()
        first, connection = self.attach(volume)
        volume.refresh()
        second, again = self.attach(volume)
        self.assertEqual(connection["uri"], again["uri"])
        self.detach(volume, first)
        self.assertEqual(b"", read_nbd(connection["uri"], self.dir))
        process = self.pid(volume)
        self.detach(volume, second)
        self.assertFalse(is_running(process))

    def test_a_failed_attachment_keeps_the_server_of_the_first(self):
        volume = self.create()
        _, connection = self.attach(volume)
        self.assertRaises(exception.VolumeBackendAPIException, self.attach, volume, "elsewhere")
        self.assertEqual(b"", read_nbd(connection["uri"], self.dir))

    def test_a_host_that_the_socket_does_not_reach(self):
        volume = self.create()
        error = self.assertRaises(exception.VolumeBackendAPIException, self.attach, volume, "elsewhere")
        self.assertIn("only on the machine of cinder-volume host=elsewhere", str(error))
        self.assertIsNone(self.pid(volume))

    def test_a_volume_that_another_program_has_open(self):
        volume = self.create()
        other = Server(self.manager.driver._benthic, str(self.dir), volume.name)
        self.addCleanup(other.stop)
        other.start()
        error = self.assertRaises(exception.VolumeBackendAPIException, self.attach, volume)
        self.assertIn("another program has the image open for writing", str(error))
        other.stop()
        self.attach(volume)

    def test_the_interface_before_attachments(self):
        data = noise(MIB)
        volume = self.create(data)
        connector = {"host": HERE}
        connection = self.manager.initialize_connection(self.context, volume, connector)
        self.assertEqual(data, read_nbd(connection["data"]["uri"], self.dir))
        self.manager.attach_volume(self.context, volume.id, str(uuid.uuid4()), HERE, "/dev/vdb", "rw", volume)
        process = self.pid(volume)
        self.manager.terminate_connection(self.context, volume.id, connector)
        self.manager.detach_volume(self.context, volume.id)
        self.assertFalse(is_running(process))

    def test_several_volumes(self):
        volumes = [self.create(noise(MIB, number)) for number in range(3)]
        attached = [self.attach(volume) for volume in volumes]
        self.detach(volumes[0], attached[0][0])
        for number in (1, 2):
            self.assertEqual(noise(MIB, number), read_nbd(attached[number][1]["uri"], self.dir))


def is_running(process):
    """Whether a process runs; one that only waits for its parent does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
