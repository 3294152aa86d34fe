"""The Glance store: each image is a Benthic image with a snapshot, from which Cinder clones volumes.

The bytes are those of the image's file, in every disk format. A Benthic image has any number of
bytes, so its size is that of the file, and nothing is rounded. An upload goes to ``image import``
through a pipe. The image gets its name when it is complete and has its snapshot.
"""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
from collections.abc import Iterator
from typing import IO, Any
from urllib.parse import quote, unquote

from glance_store import capabilities, driver, exceptions, location
from glance_store.common import utils
from oslo_config import cfg

from .program import GLANCE_SNAPSHOT, Benthic, ProgramError, read_error

OPTIONS = [
    cfg.StrOpt(
        "benthic_store",
        help="The store, as in `benthic --store`: file:/DIRECTORY, or ceph:?conf=/etc/ceph/ceph.conf&id=client.glance.",
    ),
    cfg.StrOpt(
        "benthic_pool",
        default="volumes",
        help="The pool of the images. It must exist. If it is also the pool of Cinder's volumes, Cinder clones images.",
    ),
    cfg.StrOpt("benthic_program", default="benthic", help="The program benthic: a path, or a name to find in PATH."),
]

SCHEME = "benthic://"

UPLOAD = "upload-"
"""Prefix of images whose upload is not complete."""


class StoreLocation(location.StoreLocation):
    """The URI of an image, ``benthic://POOL/IMAGE``."""

    def process_specs(self) -> None:
        """Takes the pool and the name of the image."""
        self.pool = self.specs.get("pool")
        self.image = self.specs.get("image")

    def get_uri(self) -> str:
        """The URI."""
        return f"{SCHEME}{quote(self.pool, '')}/{quote(self.image, '')}"

    def parse_uri(self, uri: str) -> None:
        """Reads a URI. Raises BadStoreUri."""
        self.validate_schemas(uri, valid_schemas=(SCHEME,))
        parts = [unquote(part) for part in uri.removeprefix(SCHEME).split("/")]
        if len(parts) != 2 or not all(parts):
            raise exceptions.BadStoreUri(message=f"the URI of an image is benthic://POOL/IMAGE uri={uri}")
        self.pool, self.image = parts


def translated(error: ProgramError) -> Exception:
    """Glance's exception for an error."""
    message = str(error)
    if error.is_missing_image:
        return exceptions.NotFound(message)
    if error.kind == "already_exists":
        return exceptions.Duplicate(message)
    if error.kind == "limit_exceeded":
        return exceptions.StorageFull(message)
    if error.kind == "permission_denied":
        return exceptions.StorageWriteDenied(message)
    return exceptions.BackendException(message)


class Store(driver.Store):
    """Images of Glance in a pool of a Benthic store."""

    _CAPABILITIES = (
        capabilities.BitMasks.READ_RANDOM | capabilities.BitMasks.WRITE_ACCESS | capabilities.BitMasks.DRIVER_REUSABLE
    )
    OPTIONS = OPTIONS
    EXAMPLE_URL = "benthic://<POOL>/<IMAGE>"

    def get_schemes(self) -> tuple[str, ...]:
        """The scheme of URIs."""
        return ("benthic",)

    def configure_add(self) -> None:
        """Checks the configuration, the program, the store and the pool."""
        options = self.conf.glance_store
        if self.backend_group:
            options = driver.BackendGroupConfiguration(self.OPTIONS, self.backend_group, conf=self.conf)
        store = options.benthic_store or ""
        self._benthic = Benthic(options.benthic_program, store, options.benthic_pool)
        self._store_name = self.backend_group or "benthic"
        if not store.startswith(("file:/", "ceph:")):
            reason = f"benthic_store must be file:/DIRECTORY or ceph: benthic_store={store}"
            raise exceptions.BadStoreConfiguration(store_name=self._store_name, reason=reason)
        try:
            self._benthic.run("ls", self._benthic.pool)
        except ProgramError as error:
            raise exceptions.BadStoreConfiguration(store_name=self._store_name, reason=str(error)) from error
        if self.backend_group:
            self._url_prefix = f"{SCHEME}{quote(self._benthic.pool, '')}/"

    @capabilities.check
    def get(
        self, location: Any, offset: int = 0, chunk_size: int | None = None, context: Any = None
    ) -> tuple[Iterator[bytes], int]:
        """The bytes of an image from an offset on, at most `chunk_size`, and their number."""
        size_bytes = self.get_size(location)
        offset = min(offset, size_bytes)
        wanted = size_bytes - offset if chunk_size is None else min(chunk_size, size_bytes - offset)
        return self._read(location.store_location, offset, wanted), wanted

    def get_size(self, location: Any, context: Any = None) -> int:
        """The size of an image in bytes."""
        place = location.store_location
        try:
            [info] = self._benthic.run("info", _snapshot(place))
        except ProgramError as error:
            raise translated(error) from error
        size_bytes: int = info["size_bytes"]
        return size_bytes

    @driver.back_compat_add
    @capabilities.check
    def add(
        self,
        image_id: str,
        image_file: IO[bytes],
        image_size: int,
        hashing_algo: str,
        context: Any = None,
        verifier: Any = None,
    ) -> tuple[str, int, str, str, dict[str, str]]:
        """Stores an image. `image_size` is its size in bytes, or 0 if it is unknown. The store only feeds
        the verifier; Glance asks it for the result.
        """
        place = StoreLocation({"scheme": "benthic", "pool": self._benthic.pool, "image": image_id}, self.conf)
        upload = f"{UPLOAD}{image_id}"
        multihash, checksum = utils.get_hasher(hashing_algo, False), utils.get_hasher("md5", False)
        size_bytes = 0
        try:
            # The remains of an interrupted upload.
            self._remove(self._benthic, upload)
            try:
                with _Process(self._benthic, "import", "-", self._benthic.address(upload)) as process:
                    for chunk in utils.chunkreadable(image_file, self.WRITE_CHUNKSIZE):
                        size_bytes += len(chunk)
                        for hasher in (multihash, checksum, verifier):
                            if hasher:
                                hasher.update(chunk)
                        process.write(chunk)
                    process.finish()
                if image_size and size_bytes != image_size:
                    message = f"the image has another size than announced size={size_bytes} announced={image_size}"
                    raise exceptions.Invalid(message)
                self._benthic.run("snap", "create", self._benthic.address(upload, GLANCE_SNAPSHOT))
                self._benthic.run("rename", self._benthic.address(upload), self._benthic.address(image_id))
            except BaseException:
                with contextlib.suppress(ProgramError):
                    self._remove(self._benthic, upload)
                raise
        except ProgramError as error:
            raise translated(error) from error
        metadata = {"store": self.backend_group} if self.backend_group else {}
        return place.get_uri(), size_bytes, checksum.hexdigest(), multihash.hexdigest(), metadata

    @capabilities.check
    def delete(self, location: Any, context: Any = None) -> None:
        """Deletes an image.

        Raises InUseByStore if volumes are clones of it.
        """
        place = location.store_location
        try:
            if not self._remove(Benthic(self._benthic.program, self._benthic.store, place.pool), place.image):
                raise exceptions.NotFound(f"no such image uri={place.get_uri()}")
        except ProgramError as error:
            if error.kind in ("busy", "conflict"):
                raise exceptions.InUseByStore(str(error)) from error
            raise translated(error) from error

    def _remove(self, benthic: Benthic, image: str) -> bool:
        """Removes an image and its snapshot. Returns whether there was an image."""
        try:
            if not benthic.remove_snapshot(image, GLANCE_SNAPSHOT):
                raise ProgramError("busy", "volumes are clones of the image; delete them first", {"image": image})
        except ProgramError as error:
            # An upload or a removal may have been interrupted.
            if not error.is_missing_image:
                raise
        try:
            benthic.run("rm", benthic.address(image), "--yes", image)
        except ProgramError as error:
            if error.is_missing_image:
                return False
            # The image is in use, and must stay readable.
            with contextlib.suppress(ProgramError):
                benthic.run("snap", "create", benthic.address(image, GLANCE_SNAPSHOT))
            raise
        return True

    def _read(self, place: StoreLocation, offset: int, wanted: int) -> Iterator[bytes]:
        try:
            with _Process(self._benthic, "export", _snapshot(place), "-") as process:
                # `image export` begins at the first byte.
                at, end = 0, offset + wanted
                while at < end:
                    limit = offset if at < offset else end
                    chunk = process.read(min(self.READ_CHUNKSIZE, limit - at))
                    if at >= offset:
                        yield chunk
                    at += len(chunk)
        except ProgramError as error:
            raise translated(error) from error


def _snapshot(place: StoreLocation) -> str:
    return f"{place.pool}/{place.image}@{GLANCE_SNAPSHOT}"


class _Process:
    """A running command with a pipe to its input or output. Leaving it ends the command."""

    def __init__(self, benthic: Benthic, *arguments: str) -> None:
        self._messages = tempfile.TemporaryFile("w+")
        is_import = arguments[0] == "import"
        try:
            self._process = subprocess.Popen(
                benthic.command(*arguments),
                stdin=subprocess.PIPE if is_import else subprocess.DEVNULL,
                stdout=subprocess.DEVNULL if is_import else subprocess.PIPE,
                stderr=self._messages,
            )
        except OSError as error:
            self._messages.close()
            raise benthic.not_started(error) from error
        self._pipe: Any = self._process.stdin or self._process.stdout

    def __enter__(self) -> _Process:
        return self

    def __exit__(self, *_: object) -> None:
        # Without its pipe, the command ends. `add` removes the objects that an import has stored until then.
        self._close()
        self._process.wait()
        self._messages.close()

    def write(self, data: bytes) -> None:
        """Writes to the command's input."""
        try:
            self._pipe.write(data)
        except BrokenPipeError:
            self._process.wait()
            raise self._error() from None

    def read(self, len_bytes: int) -> bytes:
        """Reads at most so many bytes of the command's output. The end of the output is an error."""
        data: bytes = self._pipe.read(len_bytes)
        if not data:
            self._process.wait()
            raise self._error()
        return data

    def finish(self) -> None:
        """Ends the input and waits for the command."""
        self._close()
        if self._process.wait() != 0:
            raise self._error()

    def _close(self) -> None:
        # If the command has failed, its status says so.
        with contextlib.suppress(BrokenPipeError):
            self._pipe.close()

    def _error(self) -> ProgramError:
        self._messages.seek(0)
        return read_error(self._messages.read(), self._process.returncode)
