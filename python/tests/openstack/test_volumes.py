"""Volumes, snapshots and clones in Cinder."""

import json
import subprocess
import tempfile
import uuid

import pytest
from cinder import exception, objects
from cinder.interface import volume_driver, volume_snapshot_revert
from cinder.tests.unit import utils as tests_utils
from cinder.tests.unit.volume import test_driver
from services import GIB, MIB, noise, run
from volume_manager import DRIVER, ForPytest, Manager, OnCeph, wait_until

from benthic.openstack import cinder as benthic_cinder


class CinderOwnTests(ForPytest, test_driver.GenericVolumeDriverTestCase):
    """Cinder's tests of the methods that all drivers inherit, with this driver."""

    driver_name = DRIVER

    # These patch the class of Cinder's example driver, attach a volume that is not in the store, or
    # need encrypted volumes.
    test_attach_volume_encrypted = None
    test_attach_volume_enforce_mpath_1_False = None
    test_attach_volume_enforce_mpath_2_True = None
    test_copy_image_to_encrypted_volume = None
    test_copy_image_to_encrypted_volume_failed_attach_encryptor = None
    test_copy_image_to_encrypted_volume_failed_fetch_1 = None
    test_copy_image_to_encrypted_volume_failed_fetch_2 = None
    test_detach_volume_force = None


class Volumes(Manager):
    """Volumes, snapshots and clones."""

    def test_interfaces(self):
        driver = benthic_cinder.BenthicDriver
        self.assertTrue(issubclass(driver, volume_driver.VolumeDriverCore))
        self.assertTrue(issubclass(driver, volume_snapshot_revert.VolumeSnapshotRevertDriver))
        self.assertEqual(benthic_cinder.OPTIONS, driver.get_driver_options())
        self.assertTrue(all(option.help for option in benthic_cinder.OPTIONS))

    def test_a_volume(self):
        volume = self.create(size=2)
        self.assertEqual(2 * GIB, self.store.info(volume.name)["size_bytes"])
        self.manager.extend_volume(self.context, volume, 3, reservations=[])
        self.assertEqual(3 * GIB, self.store.info(volume.name)["size_bytes"])
        self.assertEqual(3, volume.size)
        self.delete(volume)
        self.assertEqual({}, self.store.images())
        self.assertRaises(exception.VolumeNotFound, objects.Volume.get_by_id, self.context, volume.id)

    def test_a_volume_that_is_already_gone(self):
        volume = self.create()
        self.store.benthic("image", "rm", f"{self.pool}/{volume.name}")
        self.delete(volume)

    def test_a_volume_whose_import_was_killed(self):
        volume = self.create()
        self.manager.driver.delete_volume(volume)
        command = self.manager.driver._benthic.command("import", "-", f"{self.pool}/{volume.name}")
        with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
            wait_until(lambda: f"{volume.name}.importing" in self.store.images())
            process.kill()
        self.delete(volume)
        self.assertEqual({}, self.store.images())

    def test_a_volume_whose_import_of_a_file_was_killed(self):
        volume = self.create()
        self.manager.driver.delete_volume(volume)
        with tempfile.NamedTemporaryFile() as file:
            # The import reads so many zeros for seconds.
            file.truncate(16 << 30)
            command = self.manager.driver._benthic.command("import", file.name, f"{self.pool}/{volume.name}")
            with subprocess.Popen(command) as process:
                wait_until(lambda: any(name.startswith(f"{volume.name}.") for name in self.store.images()))
                process.kill()
        self.delete(volume)
        self.assertEqual({}, self.store.images())

    def test_an_image_of_the_same_name(self):
        volume = self.new()
        self.store.benthic("image", "create", f"{self.pool}/{volume.name}", "--size", "1GiB")
        error = self.assertRaises(
            exception.Duplicate, self.manager.create_volume, self.context, volume, {}, {}, allow_reschedule=False
        )
        self.assertIn("already exists", str(error))
        volume.refresh()
        self.assertEqual("error", volume.status)

    def test_a_snapshot(self):
        before, after = noise(MIB), noise(MIB, 1)
        volume = self.create(before)
        snapshot = self.snapshot(volume)
        self.store.write(volume.name, after, self.dir)
        self.manager.extend_volume(self.context, volume, 2, reservations=[])
        volume.status = "reverting"
        snapshot.status = "restoring"
        volume.save()
        snapshot.save()
        self.manager.revert_to_snapshot(self.context, volume, snapshot)
        self.assertEqual(before, self.read(volume))
        self.assertEqual(2 * GIB, self.store.info(volume.name)["size_bytes"])
        self.assertEqual([snapshot.name], self.store.snapshots(volume.name))
        self.delete_snapshot(snapshot)
        self.assertEqual([], self.store.snapshots(volume.name))

    def test_a_volume_with_a_snapshot_is_not_deleted(self):
        volume = self.create(noise(MIB))
        snapshot = self.snapshot(volume)
        error = self.assertRaises(exception.VolumeIsBusy, self.manager.driver.delete_volume, volume)
        self.assertIn(f"snapshots={snapshot.name}", str(error))
        self.delete(volume)
        volume.refresh()
        self.assertEqual("available", volume.status)
        self.assertEqual([snapshot.name], self.store.snapshots(volume.name))
        snapshot.status = "deleting"
        snapshot.save()
        self.manager.delete_volume(self.context, volume, cascade=True)
        self.assertEqual({}, self.store.images())

    def test_a_snapshot_that_cinder_does_not_know_is_not_deleted(self):
        volume = self.create()
        for name in ("backup", "snapshot-1"):
            self.store.benthic("image", "snap", "create", f"{self.pool}/{volume.name}@{name}")
        error = self.assertRaises(exception.VolumeIsBusy, self.manager.driver.delete_volume, volume)
        self.assertIn("snapshots=backup,snapshot-1", str(error))

    def test_a_volume_from_a_snapshot(self):
        data = noise(MIB)
        source = self.create(data)
        snapshot = self.snapshot(source)
        volume = self.create(size=2, snapshot_id=snapshot.id)
        self.assertEqual(data, self.read(volume))
        self.assertEqual(2 * GIB, self.store.info(volume.name)["size_bytes"])
        self.assertEqual(f"{self.pool}/{source.name}@{snapshot.name}", self.store.images()[volume.name])
        # Cinder forgets the snapshot and the source, but the volume still shows their bytes.
        self.delete_snapshot(snapshot)
        self.assertRaises(exception.SnapshotNotFound, objects.Snapshot.get_by_id, self.context, snapshot.id)
        self.assertEqual([snapshot.name], self.store.snapshots(source.name))
        self.delete(source)
        self.assertNotIn(source.name, self.store.images())
        self.assertEqual(data, self.read(volume))
        self.delete(volume)
        self.assertEqual({}, self.store.images())

    def test_the_last_clone_takes_its_snapshot_along(self):
        source = self.create(noise(MIB))
        snapshot = self.snapshot(source)
        clones = [self.create(snapshot_id=snapshot.id) for _ in range(2)]
        self.delete(clones[0])
        self.assertEqual([snapshot.name], self.store.snapshots(source.name))
        self.delete_snapshot(snapshot)
        self.delete(clones[1])
        self.assertEqual([], self.store.snapshots(source.name))

    def test_a_snapshot_that_still_exists_outlives_its_clones(self):
        source = self.create(noise(MIB))
        snapshot = self.snapshot(source)
        self.delete(self.create(snapshot_id=snapshot.id))
        self.assertEqual([snapshot.name], self.store.snapshots(source.name))

    def test_a_cloned_volume(self):
        data = noise(MIB)
        source = self.create(data)
        volume = self.create(size=2, source_volid=source.id)
        self.assertEqual(2 * GIB, self.store.info(volume.name)["size_bytes"])
        self.store.write(source.name, noise(MIB, 1), self.dir)
        self.assertEqual(data, self.read(volume))
        self.delete(volume)
        self.assertEqual([], self.store.snapshots(source.name))

    def test_clones_of_clones_in_every_order_of_deletion(self):
        for order in ((0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)):
            data = noise(MIB)
            volumes = [self.create(data)]
            for _ in range(2):
                snapshot = self.snapshot(volumes[-1])
                volumes.append(self.create(snapshot_id=snapshot.id))
                self.delete_snapshot(snapshot)
            for number in order:
                self.delete(volumes[number])
                volumes[number] = None
                for volume in volumes:
                    if volume:
                        self.assertEqual(data, self.read(volume))
            self.assertEqual({}, self.store.images())

    def test_a_chain_of_clones_that_is_too_long(self):
        data = noise(MIB)
        volume = self.create(data)
        depth = 0
        while True:
            copy = self.create(source_volid=volume.id)
            depth += 1
            self.assertEqual(data, self.read(copy))
            if self.store.images()[copy.name] is None:
                break
            volume = copy
        self.assertGreater(depth, 10)
        self.assertEqual([], self.store.snapshots(volume.name))
        self.assertEqual(GIB, self.store.info(copy.name)["size_bytes"])

    def test_a_source_with_what_an_interrupted_clone_has_left(self):
        source = self.create(noise(MIB))
        volume = self.create(source_volid=source.id)
        self.store.benthic("image", "snap", "create", f"{self.pool}/{source.name}@cinder-interrupted")
        self.delete(source)
        self.assertEqual(noise(MIB), self.read(volume))
        self.delete(volume)
        self.assertEqual({}, self.store.images())

    def test_what_an_interrupted_deletion_has_left(self):
        source = self.create(noise(MIB))
        volume = self.create(source_volid=source.id)
        self.delete(source)
        # The process ended between the removal of the clone and that of its parent.
        self.store.benthic("image", "rm", f"{self.pool}/{volume.name}", "--yes", volume.name)
        self.assertEqual(1, len(self.store.images()))
        self.start_manager()
        self.assertEqual({}, self.store.images())

    def test_retype_is_refused(self):
        volume = self.create()
        other = tests_utils.create_volume_type(self.context, name="other", extra_specs={"key": "value"})
        self.assertEqual((False, None), self.manager.driver.retype(self.context, volume, other, {}, {}))
        volume.status, volume.previous_status = "retyping", "available"
        volume.save()
        self.assertRaises(
            exception.VolumeMigrationFailed,
            self.manager.retype,
            self.context,
            volume,
            other.id,
            {"host": self.manager.host, "capabilities": {}},
            migration_policy="never",
            reservations=[],
        )
        volume.refresh()
        self.assertEqual(("available", self.vt["id"]), (volume.status, volume.volume_type_id))

    def test_encrypted_volumes_are_refused(self):
        volume = self.new(encryption_key_id=str(uuid.uuid4()))
        self.assertRaises(exception.NotSupportedOperation, self.manager.driver.create_volume, volume)
        self.assertEqual({}, self.store.images())

    def test_an_existing_image_becomes_a_volume(self):
        self.store.benthic("image", "create", f"{self.pool}/old", "--size", "1500MiB")
        volume = self.new(size=0)
        self.manager.manage_existing(self.context, volume, {"source-name": "old"})
        volume.refresh()
        self.assertEqual(("available", 2), (volume.status, volume.size))
        self.assertEqual({volume.name: None}, self.store.images())
        self.assertEqual(2 * GIB, self.store.info(volume.name)["size_bytes"])
        get_size = self.manager.driver.manage_existing_get_size
        for reference in ({}, {"source-name": "missing"}):
            self.assertRaises(exception.ManageExistingInvalidReference, get_size, volume, reference)
        reference = {"source-name": volume.name}
        self.assertRaises(exception.ManageExistingAlreadyManaged, get_size, self.new(), reference)
        self.manager.delete_volume(self.context, volume, unmanage_only=True)
        self.assertEqual(1, len(self.store.images()))

    def test_capacity(self):
        stats = self.manager.driver.get_volume_stats(refresh=True)
        self.assertGreater(stats["total_capacity_gb"], stats["free_capacity_gb"])
        self.assertGreater(stats["free_capacity_gb"], 0)
        self.assertEqual(("nbd", "up"), (stats["storage_protocol"], stats["backend_state"]))


@pytest.mark.ceph
class VolumesOnCeph(OnCeph, Volumes):
    """Volumes, snapshots and clones in RBD's format."""

    # RBD has no limit that this test could reach.
    test_a_chain_of_clones_that_is_too_long = None

    def test_capacity(self):
        driver = self.manager.driver
        wait_until(lambda: driver.get_volume_stats(refresh=True)["free_capacity_gb"] != "unknown")
        stats = driver.get_volume_stats()
        self.assertGreaterEqual(stats["total_capacity_gb"], stats["free_capacity_gb"])
        self.assertGreater(stats["free_capacity_gb"], 0)
        self.assertEqual(("ceph", "up"), (stats["storage_protocol"], stats["backend_state"]))

    def test_an_attached_volume(self):
        volume = self.create(noise(MIB))
        _, connection = self.attach(volume)
        monitors = json.loads(self.ceph("mon", "dump"))
        address, port = monitors["mons"][0]["addr"].partition("/")[0].split(":")
        expected = {
            "driver_volume_type": "rbd",
            "name": f"{self.pool}/{volume.name}",
            "hosts": [address],
            "ports": [port],
            "cluster_name": "ceph",
            "auth_enabled": True,
            "auth_username": "admin",
            "secret_type": "ceph",
            "secret_uuid": monitors["fsid"],
            "volume_id": volume.id,
            "discard": True,
        }
        self.assertEqual(expected, {key: value for key, value in connection.items() if key in expected})
        # QEMU opens the volume as libvirt does, and holds the lock while the driver changes the volume.
        disk = f"rbd:{connection['name']}:id={connection['auth_username']}:conf={self.conf()}"
        with subprocess.Popen(["qemu-io", "-f", "raw", disk], stdin=subprocess.PIPE, text=True) as guest:
            guest.stdin.write("write -P 7 0 4096\nflush\n")
            guest.stdin.flush()
            wait_until(lambda: self.store.info(volume.name)["writer"])
            snapshot = self.snapshot(volume)
            clone = self.create(source_volid=volume.id)
            self.manager.driver.extend_volume(volume, 2)
            self.assertRaises(exception.VolumeIsBusy, self.manager.driver.delete_volume, volume)
            self.delete_snapshot(snapshot)
            guest.stdin.close()
        self.assertEqual(2 * GIB, self.store.info(volume.name)["size_bytes"])
        self.assertEqual(bytes([7]) * 4096 + noise(MIB)[4096:], self.read(clone))

    def conf(self):
        return self.store.uri.partition("conf=")[2]

    def ceph(self, *arguments):
        return run("ceph", "--conf", self.conf(), *arguments, "--format", "json")
