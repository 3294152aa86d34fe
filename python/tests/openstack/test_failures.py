"""Wrong configurations of the volume driver, and missing parts."""

import os
from unittest import mock

import pytest
from cinder import exception
from services import MIB, PROGRAM, noise
from volume_manager import Manager

from benthic.openstack import cinder as benthic_cinder


class Failures(Manager):
    """Wrong configurations and missing parts."""

    def setup_error(self, **options):
        self.configure(**options)
        driver = benthic_cinder.BenthicDriver(configuration=self.manager.driver.configuration)
        driver.do_setup(self.context)
        with pytest.raises(exception.CinderException) as error:
            driver.check_for_setup_error()
        return str(error.value)

    def test_configurations(self):
        self.assertIn("cannot start the program benthic", self.setup_error(benthic_program="/missing/benthic"))
        self.configure(benthic_program=PROGRAM)
        for store in (None, "mem:", "file:relative", "volumes"):
            self.assertIn('option "benthic_store"', self.setup_error(benthic_store=store))
        self.assertIn("there is no store here", self.setup_error(benthic_store="file:/missing/store"))
        self.assertIn("ceph failed", self.setup_error(benthic_store="ceph:?conf=/missing/ceph.conf"))
        self.configure(benthic_store=self.store.uri)
        (self.dir / "file").touch()
        self.assertIn("cannot create the directory", self.setup_error(benthic_sockets=f"{self.dir}/file/nbd"))
        self.assertIn("too long", self.setup_error(benthic_sockets="/" + "long" * 20))
        self.configure(benthic_sockets=str(self.dir / "nbd"))
        self.assertIn("no such pool", self.setup_error(benthic_pool="missing"))

    def test_cinder_volume_does_not_start_without_the_program(self):
        self.configure(benthic_program="/missing/benthic")
        with mock.patch("time.sleep"):
            self.assertFalse(self.start_manager().driver.initialized)

    def test_a_store_that_disappears_is_no_deleted_volume(self):
        volume = self.create(noise(MIB))
        snapshot = self.snapshot(volume)
        os.rename(self.dir / "store", self.dir / "moved")
        driver = self.manager.driver
        for call in (lambda: driver.delete_volume(volume), lambda: driver.delete_snapshot(snapshot)):
            self.assertIn("there is no store here", str(self.assertRaises(exception.NotFound, call)))
        self.assertRaises(exception.NotFound, self.delete, volume)
        volume.refresh()
        self.assertEqual("error_deleting", volume.status)
        self.assertEqual("down", driver.get_volume_stats(refresh=True)["backend_state"])
        os.rename(self.dir / "moved", self.dir / "store")
        self.assertEqual(noise(MIB), self.read(volume))

    def test_a_missing_program_is_no_deleted_volume(self):
        volume = self.create()
        self.manager.driver._benthic.program = "/missing/benthic"
        error = self.assertRaises(exception.VolumeBackendAPIException, self.manager.driver.delete_volume, volume)
        self.assertIn("program=/missing/benthic", str(error))
