"""Operations on one object: guards and steps that happen together or not at all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, Self

if TYPE_CHECKING:
    from typing_extensions import Buffer

Compare = Literal["==", "!=", "<", "<=", ">", ">="]


class _Op:
    """Guards, which are checked first, and steps."""

    def __init__(self) -> None:
        self._guards: list[tuple[Any, ...]] = []
        self._steps: list[tuple[Any, ...]] = []

    def __repr__(self) -> str:
        names = [f"if_{guard[0]}" for guard in self._guards] + [str(step[0]) for step in self._steps]
        return f"<benthic.{type(self).__name__} {', '.join(names) or 'empty'}>"

    def _guard(self, *guard: Any) -> Self:
        self._guards.append(guard)
        return self

    def _step(self, *step: Any) -> Self:
        self._steps.append(step)
        return self

    def if_exists(self) -> Self:
        """Only if the object exists."""
        return self._guard("exists")

    def if_version(self, version: int) -> Self:
        """Only if the object has this version. Every operation returns the version."""
        return self._guard("version", version)

    def if_xattr(self, name: str, compare: Compare, value: Buffer) -> Self:
        """Only if the attribute's value compares so, bytewise. A missing attribute counts as
        empty.
        """
        return self._guard("xattr", name, compare, value)

    def if_omap(self, key: Buffer, value: Buffer) -> Self:
        """Only if the omap key has this value. A missing key counts as empty."""
        return self._guard("omap", key, value)

    def exec(self, cls: str, method: str, data: Buffer = b"") -> Self:
        """Calls a method beside the object. In a write operation it must be the first step, and
        its output is dropped.
        """
        return self._step("exec", cls, method, data)


class ReadOp(_Op):
    """A read operation: one round trip on one state of the object. :meth:`Pool.read` runs it.

    >>> op = benthic.ReadOp().stat().get_xattr("owner")
    >>> version, (stat, owner) = pool.read("reef.txt", op)
    """

    def read(self, offset: int, length: int) -> Self:
        """A range of the data; shorter if the data ends before the range does."""
        return self._step("read", offset, length)

    def stat(self) -> Self:
        """``(size_bytes, modified_unix_ns)``."""
        return self._step("stat")

    def get_xattr(self, name: str) -> Self:
        """The value of an attribute."""
        return self._step("get_xattr", name)

    def xattrs(self) -> Self:
        """All attributes."""
        return self._step("xattrs")

    def omap_get(self, keys: Iterable[Buffer]) -> Self:
        """``([(key, value), …], False)``: the given keys that exist, in order."""
        return self._step("omap_get", list(keys))

    def omap_range(self, after: Buffer | None = None, prefix: Buffer = b"", limit: int = 1024) -> Self:
        """``([(key, value), …], more)``: a page of the omap."""
        return self._step("omap_range", after, prefix, limit)


class WriteOp(_Op):
    """A write operation: all of it happens or none. :meth:`Pool.write` runs it.

    >>> op = benthic.WriteOp().if_version(version).write_full(b"…").set_xattr("owner", b"ada")
    >>> pool.write("reef.txt", op)
    """

    def create(self, exclusive: bool = True) -> Self:
        """Creates the object. With ``exclusive``, an existing object raises
        :class:`AlreadyExistsError`.
        """
        return self._step("create", exclusive)

    def write(self, offset: int, data: Buffer) -> Self:
        """Writes at an offset; a gap before the offset reads as zeros."""
        return self._step("write", offset, data)

    def write_full(self, data: Buffer) -> Self:
        """Replaces all data. Attributes and omap keys stay."""
        return self._step("write_full", data)

    def append(self, data: Buffer) -> Self:
        """Writes at the end of the data."""
        return self._step("append", data)

    def truncate(self, size: int) -> Self:
        """Cuts the data to ``size`` bytes, or extends it with zeros."""
        return self._step("truncate", size)

    def zero(self, offset: int, length: int) -> Self:
        """Makes a range read as zeros; a range that reaches the end shortens the object."""
        return self._step("zero", offset, length)

    def remove(self) -> Self:
        """Removes the object."""
        return self._step("remove")

    def set_xattr(self, name: str, value: Buffer) -> Self:
        """Sets an attribute."""
        return self._step("set_xattr", name, value)

    def rm_xattr(self, name: str) -> Self:
        """Removes an attribute."""
        return self._step("rm_xattr", name)

    def omap_set(self, entries: Mapping[bytes, Buffer]) -> Self:
        """Sets keys of the omap."""
        return self._step("omap_set", dict(entries))

    def omap_rm(self, keys: Iterable[Buffer]) -> Self:
        """Removes keys of the omap."""
        return self._step("omap_rm", list(keys))

    def omap_clear(self) -> Self:
        """Removes all keys of the omap."""
        return self._step("omap_clear")
