"""Pools and their objects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from . import _native
from ._handle import Handle
from .errors import InvalidArgumentError, NotFoundError
from .ops import ReadOp, WriteOp

if TYPE_CHECKING:
    from typing_extensions import Buffer

_PAGE = 1024


@dataclass(frozen=True, slots=True)
class ObjectStat:
    """Size, time and version of an object."""

    size_bytes: int
    modified_unix_ns: int
    version: int
    """Grows with every change."""

    @property
    def modified(self) -> datetime:
        """The time of the last change, to the microsecond."""
        seconds, ns = divmod(self.modified_unix_ns, 1_000_000_000)
        return datetime.fromtimestamp(seconds, UTC).replace(microsecond=ns // 1000)


class Pool(Handle):
    """A namespace of a pool: objects by name. :meth:`Store.pool` opens it.

    An object has data, attributes, and an ordered map of keys to values (its *omap*). Every
    operation on one object is atomic; there is no guarantee across objects.
    """

    def __init__(self, store: _native.Store, name: str, namespace: str) -> None:
        self._store = store
        self._native = store.pool(name, namespace)
        self._name = name
        self._namespace = namespace

    def __repr__(self) -> str:
        namespace = f":{self._namespace}" if self._namespace else ""
        return f"<benthic.Pool {self._name}{namespace}>"

    def close(self) -> None:
        """Closes the handle. Closing the store also closes it."""
        self._native.close()

    @property
    def name(self) -> str:
        """The pool's name."""
        return self._name

    @property
    def namespace(self) -> str:
        """The namespace; the default one has the empty name."""
        return self._namespace

    def with_namespace(self, namespace: str) -> Pool:
        """Opens another namespace of the pool. Objects of different namespaces may have the same
        name.
        """
        return Pool(self._store, self._name, namespace)

    def put(self, name: str, data: Buffer) -> int:
        """Replaces an object's data durably, and returns its version. Attributes and omap keys
        stay.

        Up to 64 MiB, this is one atomic operation. Above that, up to 128 MiB, a reader may see
        the object grow.
        """
        return self._native.put(name, data)

    def get(self, name: str, offset: int | None = None, length: int | None = None) -> bytes:
        """All data of one version of an object, or a range of it, which is shorter at the end.

        >>> pool.get("reef.txt", offset=2, length=7)
        b'picture'
        """
        start = offset or 0
        if start < 0 or (length is not None and length < 0):
            raise InvalidArgumentError("offset and length must not be negative")
        if length is None:
            return self._native.get(name, start)
        return self._native.get_range(name, start, length)

    def stat(self, name: str) -> ObjectStat:
        """Size, time and version of an object."""
        version, [(size_bytes, modified_unix_ns)] = self._native.read(name, [], [("stat",)])
        return ObjectStat(size_bytes, modified_unix_ns, version)

    def exists(self, name: str) -> bool:
        """Whether the object exists."""
        try:
            self.stat(name)
        except NotFoundError:
            return False
        return True

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.exists(name)

    def __iter__(self) -> Iterator[str]:
        return self.ls()

    def ls(self, prefix: str = "") -> Iterator[str]:
        """The names of the objects in the store's order, fetched page by page.

        >>> for name in pool.ls("2026/"):
        ...     print(name)
        """
        return (name for _, name in self._list(prefix, False))

    def ls_all(self, prefix: str = "") -> Iterator[tuple[str, str]]:
        """Namespace and name of all objects in all namespaces, except in reserved ones such as
        those of tables.
        """
        return self._list(prefix, True)

    def _list(self, prefix: str, all_namespaces: bool) -> Iterator[tuple[str, str]]:
        after: bytes | None = None
        while True:
            names, after = self._native.list(prefix, after, all_namespaces)
            yield from names
            if after is None:
                return

    def rm(self, name: str) -> None:
        """Removes an object with its attributes and keys, durably."""
        self._write(name, ("remove",))

    def append(self, name: str, data: Buffer) -> int:
        """Appends to an object, and returns its version."""
        return self._write(name, ("append", data))

    def exec(
        self,
        name: str,
        cls: str,
        method: str,
        data: Buffer = b"",
        *,
        objects: Mapping[str, str] | None = None,
    ) -> bytes:
        """Calls a method beside an object, and returns its result. :meth:`Store.classes` lists
        the methods.

        A method that writes has no output. If it stores its result in an attribute, the call
        reads the attribute and returns it.

        ``objects`` names objects of this pool and namespace for a method of a WebAssembly class
        that declares other objects. They are read once, before the call, and have at most 16 MiB
        together with ``data``.

        >>> pool.exec("reef.txt", "digest", "compute", b"md5")
        >>> pool.exec("reef.txt", "digest", "md5")
        >>> pool.exec("mail/1", "spam", "score", objects={"words": "lists/spam.txt"})
        """
        return self._native.exec(name, cls, method, data, dict(objects or {}))

    def deploy(
        self,
        wasm: Buffer,
        *,
        key_pem: str | None = None,
        fuel: int | None = None,
        memory_bytes: int | None = None,
    ) -> tuple[str, str]:
        """Deploys a class that is a WebAssembly module to the pool, and returns its name and the
        hash of this version. :meth:`exec` uses the new version at once.

        ``key_pem`` is an Ed25519 key in PEM form that signs the module, for clusters whose rules
        demand a signature. ``fuel`` (about one unit per instruction) and ``memory_bytes`` limit
        each call.

        >>> name, version = pool.deploy(Path("wordcount.wasm").read_bytes())
        >>> pool.exec("today.txt", name, "count")
        """
        return self._native.deploy(wasm, key_pem, fuel, memory_bytes)

    def undeploy(self, cls: str) -> None:
        """Removes a deployed class with all its versions."""
        self._native.undeploy(cls)

    def read(self, name: str, op: ReadOp) -> tuple[int, list[Any]]:
        """Runs a read operation; returns the object's version and one output for each step."""
        return self._native.read(name, op._guards, op._steps)

    def write(self, name: str, op: WriteOp, durable: bool = True) -> int:
        """Runs a write operation, and returns the object's version.

        Until :meth:`Store.flush` returns, a crash may lose writes that are not ``durable``, but
        never out of order.
        """
        return self._native.write(name, op._guards, op._steps, durable)

    def _write(self, name: str, *steps: tuple[Any, ...]) -> int:
        return self._native.write(name, [], list(steps), True)

    def _read(self, name: str, step: tuple[Any, ...]) -> Any:
        return self._native.read(name, [], [step])[1][0]

    def xattrs(self, name: str) -> dict[str, bytes]:
        """All attributes of an object."""
        xattrs: dict[str, bytes] = self._read(name, ("xattrs",))
        return xattrs

    def get_xattr(self, name: str, xattr: str) -> bytes:
        """The value of an attribute."""
        value: bytes = self._read(name, ("get_xattr", xattr))
        return value

    def set_xattr(self, name: str, xattr: str, value: Buffer) -> int:
        """Sets an attribute; creates the object if it is missing. Returns the object's version."""
        return self._write(name, ("set_xattr", xattr, value))

    def rm_xattr(self, name: str, xattr: str) -> int:
        """Removes an attribute. Returns the object's version."""
        return self._write(name, ("rm_xattr", xattr))

    def omap(self, name: str, prefix: Buffer = b"", after: Buffer | None = None) -> Iterator[tuple[bytes, bytes]]:
        """Keys and values of an object's omap in key order, fetched page by page.

        Yields only keys that start with ``prefix`` and come after ``after``.
        """
        while True:
            page: tuple[list[tuple[bytes, bytes]], bool] = self._read(name, ("omap_range", after, prefix, _PAGE))
            entries, more = page
            yield from entries
            if not more:
                return
            after = entries[-1][0]

    def omap_get(self, name: str, keys: Iterable[Buffer]) -> dict[bytes, bytes]:
        """The given omap keys that exist, with their values."""
        page: tuple[list[tuple[bytes, bytes]], bool] = self._read(name, ("omap_get", list(keys)))
        return dict(page[0])

    def omap_set(self, name: str, entries: Mapping[bytes, Buffer]) -> int:
        """Sets omap keys; creates the object if it is missing. Returns the object's version."""
        return self._write(name, ("omap_set", dict(entries)))

    def omap_rm(self, name: str, keys: Iterable[Buffer]) -> int:
        """Removes omap keys. Returns the object's version."""
        return self._write(name, ("omap_rm", list(keys)))

    def omap_clear(self, name: str) -> int:
        """Removes all omap keys. Returns the object's version."""
        return self._write(name, ("omap_clear",))
