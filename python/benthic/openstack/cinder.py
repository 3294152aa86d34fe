"""The Cinder volume driver: each volume is a Benthic image.

A volume that is created from another one is a clone, which takes no time and no space. Benthic keeps
a snapshot while clones show it, but Cinder may delete it. So the driver leaves such a snapshot in the
store, renames the image of a deleted volume to ``deleted-…``, and removes both with the last clone.
Copying the bytes into the clones instead could take hours, and is impossible for a clone that has
snapshots itself. Cinder's database says which of Cinder's snapshots still exist, so the driver stores
nothing about them.

On a Ceph cluster, images have RBD's format, and virtual machines open them through Ceph, as with
Cinder's own driver. On a store in a directory, each attached volume has an NBD server.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import shutil
import socket
import uuid
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, unquote

from cinder import context as cinder_context
from cinder import exception, interface, objects
from cinder.common import constants
from cinder.image import image_utils
from cinder.volume import configuration, driver, volume_utils
from oslo_concurrency import processutils
from oslo_config import cfg
from oslo_log import log as logging
from oslo_utils import units

from .program import GLANCE_SNAPSHOT, Benthic, ProgramError
from .server import SOCKET_BYTES_MAX, Server

LOG = logging.getLogger(__name__)

OPTIONS = [
    cfg.StrOpt(
        "benthic_store",
        help="The store, as in `benthic --store`: file:/DIRECTORY, or ceph:?conf=/etc/ceph/ceph.conf&id=client.cinder. "
        "The directory must be on the machine of cinder-volume.",
    ),
    cfg.StrOpt("benthic_pool", default="volumes", help="The pool of the volumes. It must exist."),
    cfg.StrOpt("benthic_program", default="benthic", help="The program benthic: a path, or a name to find in PATH."),
    cfg.StrOpt(
        "benthic_sockets",
        default="$state_path/benthic",
        help="Directory for the Unix sockets and the logs of NBD servers, one for each attached volume. NBD has no "
        "passwords: every program in the group of cinder-volume can write to all attached volumes. A missing "
        "directory is created. Not used with a Ceph cluster.",
    ),
    cfg.StrOpt(
        "benthic_secret_uuid",
        help="UUID of libvirt's secret with the key of the Ceph client. The default is the fsid of the cluster. "
        "Not used with a store in a directory.",
    ),
]

CONF = cfg.CONF
CONF.register_opts(OPTIONS, group=configuration.SHARED_CONF_GROUP)

INTERNAL = "cinder-"
"""Prefix of the snapshots that the driver takes for itself."""

DELETED = "deleted-"
"""Prefix of the images of deleted volumes that have clones."""

EXCEPTIONS = {
    "not_found": exception.NotFound,
    "already_exists": exception.Duplicate,
    "invalid_argument": exception.Invalid,
    "usage": exception.Invalid,
    "unsupported": exception.NotSupportedOperation,
    "permission_denied": exception.NotAuthorized,
}
"""Cinder's exceptions for kinds of Benthic's errors. The others are a VolumeBackendAPIException."""


def translated(error: ProgramError) -> exception.CinderException:
    """Cinder's exception for an error."""
    return EXCEPTIONS.get(error.kind, exception.VolumeBackendAPIException)(str(error))


@contextlib.contextmanager
def translation() -> Iterator[None]:
    """Raises Cinder's exceptions for errors inside."""
    try:
        yield
    except ProgramError as error:
        raise translated(error) from error


@interface.volumedriver
class BenthicDriver(driver.VolumeDriver):
    """Volumes are images of a Benthic store."""

    VERSION = "1.0.0"
    CI_WIKI_NAME = "Benthic"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.configuration.append_config_values(OPTIONS)
        options = self.configuration
        self._store: str = options.benthic_store or ""
        self._benthic = Benthic(options.benthic_program, self._store, options.benthic_pool)
        self._sockets: str = options.benthic_sockets
        self._is_ceph = self._store.startswith("ceph:")
        # The options of the store's address: conf and id.
        address_options = parse_qs(self._store.partition("?")[2])
        self._ceph_conf = address_options.get("conf", ["/etc/ceph/ceph.conf"])[0]
        self._ceph_user = address_options.get("id", ["client.admin"])[0].removeprefix("client.")

    @staticmethod
    def get_driver_options() -> list[cfg.Opt]:
        """The options of this driver."""
        return OPTIONS

    def check_for_setup_error(self) -> None:
        """Checks the configuration, the program, the store and the pool."""
        if self._is_ceph:
            with translation():
                self._ceph("mon", "dump")
        elif not self._store.startswith("file:/"):
            raise exception.InvalidConfigurationValue(option="benthic_store", value=self._store)
        else:
            self._check_sockets()
        with translation():
            images = [found["image"].partition("/")[2] for found in self._benthic.run("ls", self._benthic.pool)]
        # The remains of an interrupted deletion.
        for image in images:
            if image.startswith(DELETED):
                self._collect(image)

    def _check_sockets(self) -> None:
        name_bytes = len(f"/volume-{uuid.UUID(int=0)}.sock")
        if len(os.fsencode(self._sockets)) + name_bytes > SOCKET_BYTES_MAX:
            message = f"the path of the directory benthic_sockets is too long for sockets path={self._sockets}"
            raise exception.Invalid(message)
        try:
            os.makedirs(self._sockets, mode=0o750, exist_ok=True)
        except OSError as error:
            raise exception.Invalid(f"cannot create the directory benthic_sockets: {error}") from error

    # Volumes.

    def create_volume(self, volume: objects.Volume) -> None:
        """Creates a volume, all zero."""
        self._refuse_encryption(volume)
        with translation():
            self._benthic.run("create", self._address(volume), "--size", f"{volume.size}GiB")

    def delete_volume(self, volume: objects.Volume) -> None:
        """Deletes a volume. Volumes that were created from it remain.

        Raises VolumeIsBusy if the volume has snapshots, or if a program has it open.
        """
        try:
            self._remove(volume.name)
        except ProgramError as error:
            if error.kind in ("busy", "conflict"):
                raise exception.VolumeIsBusy(str(error)) from error
            raise translated(error) from error

    def extend_volume(self, volume: objects.Volume, new_size: int) -> None:
        """Makes a volume larger."""
        with translation():
            self._resize(volume, new_size)

    def create_snapshot(self, snapshot: objects.Snapshot) -> None:
        """Takes a snapshot, also of an attached volume."""
        with translation():
            self._benthic.run("snap", "create", self._benthic.address(snapshot.volume_name, snapshot.name))

    def delete_snapshot(self, snapshot: objects.Snapshot) -> None:
        """Deletes a snapshot. Volumes that were created from it remain."""
        try:
            if not self._benthic.remove_snapshot(snapshot.volume_name, snapshot.name):
                LOG.info("Snapshot %s stays in the store until its clones are deleted.", snapshot.name)
        except ProgramError as error:
            if error.is_missing_image:
                LOG.info("Snapshot %s is not in the store.", snapshot.name)
            elif error.kind in ("busy", "conflict"):
                raise exception.SnapshotIsBusy(str(error)) from error
            else:
                raise translated(error) from error

    def revert_to_snapshot(self, context: Any, volume: objects.Volume, snapshot: objects.Snapshot) -> None:
        """Gives a volume the bytes of a snapshot. Its size stays."""
        with translation():
            address = self._benthic.address(volume.name, snapshot.name)
            self._benthic.run("snap", "rollback", address, "--yes", volume.name)
            self._resize(volume, volume.size)

    def create_volume_from_snapshot(self, volume: objects.Volume, snapshot: objects.Snapshot) -> None:
        """Creates a volume with the bytes of a snapshot."""
        self._refuse_encryption(volume)
        with translation():
            self._clone(volume, snapshot.volume_name, snapshot.name)

    def create_cloned_volume(self, volume: objects.Volume, src_vref: objects.Volume) -> None:
        """Creates a volume with the present bytes of another one, which may be attached."""
        self._refuse_encryption(volume)
        with translation(), self._internal_snapshot(src_vref, volume.id) as snapshot:
            self._clone(volume, src_vref.name, snapshot)

    def manage_existing(self, volume: objects.Volume, existing_ref: dict[str, str]) -> None:
        """Makes an image of the pool a volume. The image gets another name."""
        size_gib = self.manage_existing_get_size(volume, existing_ref)
        with translation():
            self._benthic.run("rename", self._benthic.address(existing_ref["source-name"]), self._address(volume))
            self._resize(volume, size_gib)

    def manage_existing_get_size(self, volume: objects.Volume, existing_ref: dict[str, str]) -> int:
        """The size that an image has as a volume, in GiB."""

        def refused(reason: object) -> exception.CinderException:
            return exception.ManageExistingInvalidReference(existing_ref=existing_ref, reason=reason)

        name = existing_ref.get("source-name")
        if not name:
            raise refused("source-name is missing")
        if volume_utils.check_already_managed_volume(volume_utils.extract_id_from_volume_name(name)):
            raise exception.ManageExistingAlreadyManaged(volume_ref=name)
        try:
            info = self._benthic.info(name)
        except ProgramError as error:
            raise refused(error) if error.is_missing_image else translated(error) from error
        if info["writer"]:
            raise refused(f"a program has the image open writer={info['writer']}")
        return math.ceil(info["size_bytes"] / units.Gi)

    # Images of Glance.

    def clone_image(
        self, context: Any, volume: objects.Volume, image_location: Any, image_meta: dict[str, Any], image_service: Any
    ) -> tuple[dict[str, Any], bool]:
        """Clones an image of Glance's store for Benthic if it is in the pool of the volumes.

        The name of an image is its UUID, so the same name in the same pool is the same image.
        """
        direct_url, locations = image_location or (None, None)
        urls = [location["url"] for location in locations or []] or [direct_url]
        found = f"benthic://{self._benthic.pool}/{image_meta['id']}"
        if image_meta.get("disk_format") != "raw" or found not in [unquote(url) for url in urls if url]:
            return {}, False
        try:
            info = self._benthic.info(image_meta["id"], GLANCE_SNAPSHOT)
        except ProgramError as error:
            if error.is_missing_image:
                return {}, False
            raise translated(error) from error
        if info["size_bytes"] > volume.size * units.Gi:
            return {}, False
        with translation():
            self._clone(volume, image_meta["id"], GLANCE_SNAPSHOT)
        return {}, True

    def copy_image_to_volume(
        self, context: Any, volume: objects.Volume, image_service: Any, image_id: str, disable_sparse: bool = False
    ) -> None:
        """Replaces the bytes of a volume that has no snapshots by those of an image."""
        with image_utils.temporary_file() as path:
            block = self.configuration.volume_dd_blocksize
            image_utils.fetch_to_raw(context, image_service, image_id, path, block, size=volume.size, run_as_root=False)
            self.delete_volume(volume)
            with translation():
                self._benthic.run("import", path, self._address(volume))
                self._resize(volume, volume.size)

    def copy_image_to_encrypted_volume(self, context: Any, volume: objects.Volume, *args: Any, **kwargs: Any) -> None:
        """Fails: there are no encrypted volumes."""
        self._refuse_encryption(volume)

    def copy_volume_to_image(
        self, context: Any, volume: objects.Volume, image_service: Any, image_meta: dict[str, Any]
    ) -> None:
        """Uploads a volume, as it is at the beginning of the upload."""
        with image_utils.temporary_file() as path:
            with translation(), self._internal_snapshot(volume, image_meta["id"]) as snapshot:
                self._benthic.run("export", self._benthic.address(volume.name, snapshot), path)
            volume_utils.upload_volume(context, image_service, image_meta, path, volume, run_as_root=False)

    # Attachments.

    def create_export(self, context: Any, volume: objects.Volume, connector: dict[str, Any]) -> None:
        """Does nothing; :meth:`initialize_connection` starts the server."""

    def ensure_export(self, context: Any, volume: objects.Volume) -> None:
        """Starts the server of an attached volume again if it has ended."""
        if not self._is_ceph:
            with translation():
                self._server(volume).start()

    def remove_export(self, context: Any, volume: objects.Volume) -> None:
        """Ends the server of a volume that is not attached any more."""
        if not self._is_ceph and self._attachments(volume) == 0:
            with translation():
                self._server(volume).stop()

    def initialize_connection(self, volume: objects.Volume, connector: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        """How a virtual machine reaches the volume.

        On a Ceph cluster, the connection has the type ``rbd`` and the fields of Cinder's RBD driver.
        Otherwise it has the type ``nbd`` and these fields: ``uri``, the address by the NBD URI
        specification, and its parts ``socket``, the path of a Unix socket, and ``export``, the name
        of the export.
        """
        with translation():
            if self._is_ceph:
                return self._rbd_connection(volume)
            host = connector.get("host")
            if host and host not in (socket.gethostname(), socket.getfqdn(), CONF.host):
                message = (
                    "volumes of a store in a directory can be attached only on the machine of cinder-volume "
                    f"host={host}"
                )
                raise ProgramError("unsupported", message)
            server = self._server(volume)
            server.start()
        data = {"uri": server.uri, "socket": str(server.socket), "export": server.export}
        return {"driver_volume_type": "nbd", "data": {**data, "volume_id": volume.id, "discard": True}}

    def terminate_connection(self, volume: objects.Volume, connector: dict[str, Any] | None, **kwargs: Any) -> bool:
        """Ends the server with the last attachment. Returns whether there are others."""
        if self._is_ceph:
            return False
        is_shared = self._attachments(volume) > 1
        if not is_shared:
            with translation():
                self._server(volume).stop()
        return is_shared

    # Reports.

    def _update_volume_stats(self) -> None:
        total_bytes, free_bytes, state = None, None, "up"
        try:
            if self._is_ceph:
                pools = {pool["name"]: pool["stats"] for pool in self._ceph("df")["pools"]}
                # A new pool has no statistics for some seconds.
                if stats := pools.get(self._benthic.pool):
                    free_bytes = stats["max_avail"]
                    total_bytes = free_bytes + stats["stored"]
            else:
                usage = shutil.disk_usage(self._store.removeprefix("file:"))
                total_bytes, free_bytes = usage.total, usage.free
        except (ProgramError, OSError) as error:
            LOG.error("The store cannot be reached: %s", error)
            state = "down"
        options = self.configuration
        self._stats = {
            "volume_backend_name": options.safe_get("volume_backend_name") or "Benthic",
            "vendor_name": "Benthic",
            "driver_version": self.VERSION,
            "storage_protocol": constants.CEPH if self._is_ceph else "nbd",
            "total_capacity_gb": _gib(total_bytes),
            "free_capacity_gb": _gib(free_bytes),
            "reserved_percentage": options.safe_get("reserved_percentage"),
            "max_over_subscription_ratio": options.safe_get("max_over_subscription_ratio"),
            "thin_provisioning_support": True,
            "thick_provisioning_support": False,
            # A client of NBD sees a new size when it connects again.
            "online_extend_support": self._is_ceph,
            "multiattach": False,
            "backend_state": state,
        }

    # Helpers.

    def _address(self, volume: objects.Volume) -> str:
        return self._benthic.address(volume.name)

    def _server(self, volume: objects.Volume) -> Server:
        return Server(self._benthic, self._sockets, volume.name)

    def _resize(self, volume: objects.Volume, size_gib: int) -> None:
        self._benthic.run("resize", self._address(volume), "--size", f"{size_gib}GiB")

    @staticmethod
    def _refuse_encryption(volume: objects.Volume) -> None:
        if volume.encryption_key_id is not None:
            raise exception.NotSupportedOperation(operation="encrypted volumes")

    @staticmethod
    def _attachments(volume: objects.Volume) -> int:
        """The number of attachments that have a connection."""
        attachments = objects.VolumeAttachmentList.get_all_by_volume_id(cinder_context.get_admin_context(), volume.id)
        return sum(1 for attachment in attachments if attachment.connector)

    @contextlib.contextmanager
    def _internal_snapshot(self, volume: objects.Volume, purpose: str) -> Iterator[str]:
        """A snapshot that exists only inside, or as long as clones show it."""
        snapshot = INTERNAL + purpose
        self._benthic.run("snap", "create", self._benthic.address(volume.name, snapshot))
        try:
            yield snapshot
        finally:
            try:
                self._benthic.remove_snapshot(volume.name, snapshot)
            except ProgramError as error:
                LOG.warning("Snapshot %s stays until volume %s is deleted: %s", snapshot, volume.name, error)

    def _clone(self, volume: objects.Volume, source: str, snapshot: str) -> None:
        """Creates a volume with the bytes of a snapshot."""
        address = self._benthic.address(source, snapshot)
        try:
            self._benthic.run("clone", address, self._address(volume))
        except ProgramError as error:
            if error.kind != "limit_exceeded":
                raise
            # A chain of clones has at most 16 links.
            LOG.info("Volume %s is a copy of %s: %s", volume.name, address, error)
            with image_utils.temporary_file() as path:
                self._benthic.run("export", address, path)
                self._benthic.run("import", path, self._address(volume))
        self._resize(volume, volume.size)

    def _remove(self, image: str) -> None:
        """Removes an image, or renames it until the last clone of its snapshots is removed."""
        try:
            info = self._benthic.info(image)
        except ProgramError as error:
            if error.is_missing_image:
                LOG.info("Image %s is not in the store.", image)
                self._remove_import(image)
                return
            if error.kind != "conflict":
                raise
            # A removal was interrupted, and now continues.
            info = {"snapshots": [], "parent": None}
        snapshots = [snapshot["snapshot"] for snapshot in info["snapshots"]]
        in_use = [snapshot for snapshot in snapshots if not self._is_unneeded(snapshot)]
        if in_use:
            message = "the volume has snapshots; delete them first"
            raise ProgramError("conflict", message, {"image": image, "snapshots": ",".join(in_use)})
        if self._remove_snapshots(image, snapshots):
            self._benthic.run("rm", self._benthic.address(image), "--yes", image)
            self._collect_parent(info["parent"])
        elif info["writer"]:
            raise ProgramError("busy", "a program has the volume open", {"image": image, "writer": info["writer"]})
        else:
            renamed = f"{DELETED}{uuid.uuid4().hex[:8]}-{image}"
            self._benthic.run("rename", self._benthic.address(image), self._benthic.address(renamed))

    def _remove_import(self, image: str) -> None:
        """Removes the remains of killed imports. The name of a file's import says which file it was."""
        is_import = re.compile(re.escape(image) + r"(\.[0-9a-f]{16})?\.importing").fullmatch
        for name in filter(is_import, self._benthic.names()):
            self._benthic.run("rm", self._benthic.address(name), "--yes", name)

    def _remove_snapshots(self, image: str, snapshots: list[str]) -> bool:
        """Removes snapshots that have no clones. Returns whether all are removed."""
        removed = True
        for snapshot in snapshots:
            try:
                removed &= self._benthic.remove_snapshot(image, snapshot)
            except ProgramError as error:
                if not error.is_missing_image:
                    raise
        return removed

    def _collect_parent(self, parent: str | None) -> None:
        """Removes items that were kept only for a clone that is now removed. `parent` is POOL/IMAGE@SNAPSHOT."""
        pool, _, shown = (parent or "").partition("/")
        image, _, snapshot = shown.rpartition("@")
        if pool != self._benthic.pool:
            return
        if image.startswith(DELETED):
            self._collect(image)
        elif self._is_unneeded(snapshot):
            try:
                self._remove_snapshots(image, [snapshot])
            except ProgramError as error:
                LOG.warning("Snapshot %s stays until its volume is deleted: %s", parent, error)

    def _collect(self, image: str) -> None:
        """Removes the image of a deleted volume if it has no clones any more."""
        try:
            info = self._benthic.info(image)
            if self._remove_snapshots(image, [snapshot["snapshot"] for snapshot in info["snapshots"]]):
                self._benthic.run("rm", self._benthic.address(image), "--yes", image)
                self._collect_parent(info["parent"])
        except ProgramError as error:
            # Two clones may be deleted at the same time.
            if not error.is_missing_image:
                LOG.warning("Image %s stays until cinder-volume starts again: %s", image, error)

    @staticmethod
    def _is_unneeded(snapshot: str) -> bool:
        """Whether a snapshot was taken by this driver for itself, or was deleted in Cinder."""
        if snapshot.startswith(INTERNAL):
            return True
        with contextlib.suppress(ValueError):
            snapshot_id = str(uuid.UUID(snapshot[-36:]))
            if snapshot == CONF.snapshot_name_template % snapshot_id:
                return not objects.Snapshot.exists(cinder_context.get_admin_context(), snapshot_id)
        return False

    def _ceph(self, *arguments: str) -> Any:
        """Runs the program `ceph`, which knows the monitors and the capacity."""
        options = ["--conf", self._ceph_conf, "--id", self._ceph_user, "--format", "json"]
        try:
            output, _ = processutils.execute("ceph", *arguments, *options)
        except (processutils.ProcessExecutionError, OSError) as error:
            reason = getattr(error, "stderr", None) or str(error)
            raise ProgramError("unavailable", f"the program ceph failed: {reason.strip()}") from error
        return json.loads(output)

    def _rbd_connection(self, volume: objects.Volume) -> dict[str, Any]:
        cluster = self._ceph("mon", "dump")
        # HOST:PORT/NONCE, with an IPv6 address in brackets.
        monitors = [monitor["addr"].rpartition("/")[0].rpartition(":") for monitor in cluster["mons"]]
        data = {
            "name": self._address(volume),
            "hosts": [host.strip("[]") for host, _, _ in monitors],
            "ports": [port for _, _, port in monitors],
            "cluster_name": os.path.splitext(os.path.basename(self._ceph_conf))[0],
            "auth_enabled": True,
            "auth_username": self._ceph_user,
            "secret_type": "ceph",
            "secret_uuid": self.configuration.benthic_secret_uuid or cluster["fsid"],
            "volume_id": volume.id,
            "discard": True,
        }
        return {"driver_volume_type": "rbd", "data": data}


def _gib(size_bytes: int | None) -> float | str:
    return "unknown" if size_bytes is None else round(size_bytes / units.Gi, 2)
