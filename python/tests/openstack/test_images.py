"""Volumes in Cinder from images of Glance, and the reverse."""

import pytest
from cinder import exception, privsep
from services import GIB, MIB, BenthicStore, GlanceStores, noise, read_nbd, run
from volume_manager import Manager, OnCeph


class Images(Manager):
    """Volumes from images of Glance, and the reverse."""

    def setUp(self):
        super().setUp()
        # Cinder's helper would run qemu-img as root. Here it runs in this process.
        privsep.sys_admin_pctxt.set_client_mode(False)
        self.addCleanup(privsep.sys_admin_pctxt.set_client_mode, True)
        self.glance = GlanceStores(self.store)
        self.use_glance(self.glance)

    def use_glance(self, stores):
        self.patch("cinder.image.glance.get_remote_image_service", lambda _, image_id: (stores, image_id))
        self.patch("cinder.image.glance.get_default_image_service", lambda: stores)

    def from_image(self, record, size=1):
        return self.create(size=size, request_spec={"image_id": record["id"]})

    def test_a_volume_from_an_image_of_the_same_pool_is_a_clone(self):
        data = noise(MIB + 1)
        image = self.glance.add(data)
        volume = self.from_image(image)
        self.assertEqual(f"{self.pool}/{image['id']}@glance", self.store.images()[volume.name])
        self.assertEqual(data, self.read(volume))
        self.assertEqual(GIB, self.store.info(volume.name)["size_bytes"])
        self.assertEqual("true", volume.refresh() or str(volume.bootable).lower())
        self.delete(volume)
        self.assertEqual({image["id"]: None}, self.store.images())
        self.glance.delete(self.context, image["id"])
        self.assertEqual({}, self.store.images())

    def test_a_volume_from_an_image_of_another_store_is_a_copy(self):
        stores = GlanceStores(BenthicStore(f"file:{self.dir}/other", "images"))
        self.use_glance(stores)
        data = noise(MIB + 1)
        volume = self.from_image(stores.add(data))
        self.assertEqual({volume.name: None}, self.store.images())
        self.assertEqual(data, self.read(volume))
        self.assertEqual(GIB, self.store.info(volume.name)["size_bytes"])

    def test_an_image_of_the_same_name_that_glance_does_not_name(self):
        left = self.glance.add(noise(MIB))
        stores = GlanceStores(BenthicStore(f"file:{self.dir}/other", "images"))
        self.use_glance(stores)
        volume = self.from_image(stores.add(noise(MIB, 1), left["id"]))
        self.assertEqual(noise(MIB, 1), self.read(volume))

    def test_a_volume_from_an_image_in_another_format(self):
        data = noise(MIB)
        (self.dir / "disk.raw").write_bytes(data)
        run("qemu-img", "convert", "-O", "qcow2", self.dir / "disk.raw", self.dir / "disk.qcow2")
        image = self.glance.add((self.dir / "disk.qcow2").read_bytes(), disk_format="qcow2")
        volume = self.from_image(image)
        self.assertIsNone(self.store.images()[volume.name])
        self.assertEqual(data, self.read(volume))

    def test_an_image_that_is_too_large(self):
        image = self.glance.add(b"x" + bytes(GIB))
        volume = self.new()
        clone_image = self.manager.driver.clone_image
        self.assertEqual(({}, False), clone_image(self.context, volume, (image["uri"], None), image, self.glance))
        spec = {"image_id": image["id"]}
        self.assertRaises(
            exception.CinderException,
            self.manager.create_volume,
            self.context,
            volume,
            spec,
            {},
            allow_reschedule=False,
        )
        volume.refresh()
        self.assertEqual("error", volume.status)
        self.delete(volume)
        self.assertEqual({image["id"]: None}, self.store.images())

    def test_an_image_from_a_volume(self):
        data = noise(MIB)
        volume = self.create(data)
        image = self.glance.reserve()
        self.manager.copy_volume_to_image(self.context, volume.id, image)
        self.assertEqual(GIB, self.glance.records[image["id"]]["size"])
        self.assertEqual(data, self.store.read(image["id"], self.dir))
        self.assertEqual([], self.store.snapshots(volume.name))

    def test_an_image_in_another_format_from_an_attached_volume(self):
        data = noise(MIB)
        volume = self.create(data)
        _, connection = self.attach(volume)
        image = self.glance.reserve("qcow2")
        self.manager.copy_volume_to_image(self.context, volume.id, image)
        (self.dir / "disk.qcow2").write_bytes(self.glance.get(image["id"])[0])
        run("qemu-img", "convert", "-O", "raw", self.dir / "disk.qcow2", self.dir / "disk.raw")
        self.assertEqual(data, (self.dir / "disk.raw").read_bytes().rstrip(b"\0"))
        self.assertEqual(data, read_nbd(connection["uri"], self.dir))

    def test_a_volume_gets_another_image(self):
        volume = self.from_image(self.glance.add(noise(MIB)))
        clone = self.create(source_volid=volume.id)
        qcow2 = self.glance.add(noise(2 * MIB, 1))
        volume.status = "downloading"
        volume.save()
        self.manager.reimage(self.context, volume, self.glance.show(self.context, qcow2["id"]))
        self.assertEqual(noise(2 * MIB, 1), self.read(volume))
        self.assertEqual(noise(MIB), self.read(clone))

    def test_a_volume_with_a_snapshot_gets_no_other_image(self):
        volume = self.create(noise(MIB))
        self.snapshot(volume)
        image = self.glance.add(noise(MIB, 1))
        call = self.manager.driver.copy_image_to_volume
        self.assertRaises(exception.VolumeIsBusy, call, self.context, volume, self.glance, image["id"], True)
        self.assertEqual(noise(MIB), self.read(volume))


@pytest.mark.ceph
class ImagesOnCeph(OnCeph, Images):
    """Volumes from images of Glance on a cluster."""

    # These attach a volume over NBD.
    test_an_image_in_another_format_from_an_attached_volume = None
