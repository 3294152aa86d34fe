"""The configurations of docs/guide/openstack.md."""

import io
import re
from pathlib import Path
from unittest import mock

import glance_store
import pytest
from glance_store import driver as glance_driver
from glance_store import location, multi_backend
from oslo_config import cfg
from services import PROGRAM, BenthicStore
from volume_manager import Manager

from benthic.openstack import cinder as benthic_cinder

GUIDE = (Path(__file__).parents[3] / "docs/guide/openstack.md").read_text()
ON_DIRECTORY, ON_CEPH, GLANCE = re.findall(r"```ini\n(.*?)```", GUIDE, re.DOTALL)


def write(text, store, path):
    """The configuration with a store of the test."""
    text = text.replace("file:/var/lib/benthic\n", f"{store.uri}\nbenthic_program = {PROGRAM}\n")
    path.write_text(text)
    return str(path)


class CinderConf(Manager):
    """`cinder.conf`."""

    def open(self, text, **options):
        from cinder.volume import configuration, volume_utils

        benthic_cinder.CONF([], default_config_files=[write(text, self.store, self.dir / "cinder.conf")])
        # Only values of the file count.
        for option in benthic_cinder.OPTIONS:
            benthic_cinder.CONF.clear_override(option.name, configuration.SHARED_CONF_GROUP)
        found = volume_utils.get_backend_configuration("benthic", [*benthic_cinder.OPTIONS])
        return benthic_cinder.BenthicDriver(configuration=found)

    def test_a_directory(self):
        driver = self.open(ON_DIRECTORY + f"benthic_sockets = {self.dir}/nbd\n")
        driver.check_for_setup_error()
        self.assertEqual("benthic", driver.get_volume_stats(refresh=True)["volume_backend_name"])
        self.assertEqual(["benthic"], benthic_cinder.CONF.enabled_backends)

    def test_a_cluster(self):
        driver = self.open(ON_CEPH)
        self.assertEqual(("/etc/ceph/ceph.conf", "cinder"), (driver._ceph_conf, driver._ceph_user))
        with mock.patch.object(driver, "_ceph", return_value={"fsid": "", "mons": [{"addr": "[::1]:6789/0"}]}):
            connection = driver._rbd_connection(self.new())["data"]
        self.assertEqual(
            (["::1"], ["6789"], "ceph"), tuple(connection[key] for key in ("hosts", "ports", "cluster_name"))
        )
        self.assertIn(connection["secret_uuid"], ON_CEPH)


def test_glance_api_conf(tmp_path, monkeypatch):
    conf = cfg.ConfigOpts()
    for module in (glance_driver, location, multi_backend):
        monkeypatch.setattr(module, "CONF", conf)
    conf.register_opts([cfg.DictOpt("enabled_backends"), cfg.BoolOpt("show_image_direct_url")])
    store = BenthicStore(f"file:{tmp_path}/store")
    conf([], default_config_files=[write(GLANCE, store, tmp_path / "glance-api.conf")])
    glance_store.register_store_opts(conf)
    glance_store.create_multi_stores(conf)
    uri, *_ = glance_store.add_with_multihash(conf, "image", io.BytesIO(b"data"), 4, "benthic", "sha512")
    assert uri == "benthic://volumes/image"
    assert uri.replace("image", "UUID") in GUIDE
    assert b"".join(glance_store.get(uri, "benthic")[0]) == b"data"
    assert conf.show_image_direct_url


@pytest.mark.parametrize("option", [option.name for option in benthic_cinder.OPTIONS])
def test_the_guide_names_every_option(option):
    assert option in GUIDE
