"""Arrays in Zarr's format: reading them, and reductions that run beside their chunks."""

from __future__ import annotations

import json
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _native
from .errors import InvalidArgumentError, LimitExceededError
from .regrid import RegridWeights
from .table import Pushdown

_NO_GROUP = 2**32 - 1
# Limit on the reads that a list of positions is divided into.
_READS_MAX = 64
GROUPS_MAX = 2**20
"""Limit on the groups of an axis."""
POSITIONS_MAX = 2**24
"""Limit on the positions along an axis with groups."""

Kind = Literal[
    "count",
    "sum",
    "prod",
    "min",
    "max",
    "mean",
    "var",
    "std",
    "argmin",
    "argmax",
    "any",
    "all",
    "histogram",
    "quantile",
    "median",
]
"""A reduction, by NumPy's name."""


@dataclass(frozen=True, slots=True)
class Decoding:
    """How stored numbers become values, by the CF conventions.

    A missing value or one out of the valid range becomes NaN. Other numbers are multiplied by
    ``scale``, and then ``offset`` is added. Then a value out of the wanted range becomes NaN, too.
    """

    missing: tuple[Any, ...] = ()
    """Stored numbers that mark missing elements."""
    valid_min: float | None = None
    valid_max: float | None = None
    scale: float | None = None
    offset: float | None = None
    is_single: bool = False
    """Whether to compute in float32 instead of float64."""
    wanted_min: float | None = None
    """The smallest decoded value that is used."""
    wanted_max: float | None = None


@dataclass(frozen=True, slots=True)
class ReadStats:
    """The counters of a read or a reduction. "Chunks" are objects: a shard counts as one."""

    chunks: int
    """Number of objects that the selection touches."""
    pushed_chunks: int
    """Number of objects that the class ``array`` reduced or selected."""
    missing_chunks: int
    """Number of objects that are not stored, so that their elements have the fill value."""
    moved_bytes: int
    pruned_chunks: int
    """Number of objects that were not decoded, because their statistics exclude the range of values."""


class Array:
    """A Zarr array in a pool. :meth:`Store.array` opens it.

    It has the shape and the attributes of the time at which it was opened.
    """

    def __init__(self, store: _native.Store, native: _native.Array, address: str) -> None:
        self._store = store
        self._native = native
        self._address = address
        facts = native.describe()
        self.zarr_format: int = facts[0]
        """The version of the format, 2 or 3."""
        self.dtype: np.dtype[Any] = np.dtype(facts[1])
        self.shape: tuple[int, ...] = tuple(facts[2])
        self.dims: tuple[str | None, ...] = tuple(facts[3])
        """The names of the dimensions; None for a dimension without a name."""
        self.chunks: tuple[int, ...] = tuple(facts[4])
        """The shape of a stored object, a chunk or a shard."""
        self.inner_chunks: tuple[int, ...] | None = None if facts[5] is None else tuple(facts[5])
        """The shape of the chunks in a shard."""
        self.codecs: list[str] = facts[6]
        self.attrs: dict[str, Any] = attributes(facts[0], facts[7])
        self.last_stats: ReadStats | None = None
        """The counters of the last call of this handle, in any thread."""

    def __repr__(self) -> str:
        return f"<benthic.Array {self._address} {self.dtype}{list(self.shape)}>"

    @property
    def name(self) -> str:
        """The array's address: ``POOL[:NS]/PATH``."""
        return self._address

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def fill_value(self) -> Any:
        """The value of elements that are not stored."""
        return np.frombuffer(self._native.fill()[0], _little(self.dtype)).astype(self.dtype)[0]

    @property
    def has_missing_fill(self) -> bool:
        """Whether the fill value marks missing elements, as in version 2."""
        return self._native.fill()[1]

    def __getitem__(self, key: Any) -> NDArray[Any]:
        return self.read(key)

    def read(self, key: Any = ..., *, pushdown: Pushdown = "auto") -> NDArray[Any]:
        """The stored numbers of a part of the array, selected along each axis with an integer, a slice
        or a list of positions, and with ``...``. Several lists select all combinations, as
        ``numpy.ix_`` does. The chunks between positions that are far apart are not read; a list is read in up to 64 parts.

        Each chunk is read at one version. Raises :class:`CorruptError` for a damaged chunk.

        >>> temperature.read(np.s_[0, 10:20, ::2])
        """
        selection, rest = _selection(key, self.shape)

        def run(selection: list[tuple[int, int, int]], rest: list[Any]) -> NDArray[Any]:
            return _taken(self._values(self._native.read(self._store, selection, pushdown)), rest)

        return self._in_parts(selection, rest, run)

    def _in_parts(
        self,
        selection: list[tuple[int, int, int]],
        rest: list[Any],
        run: Callable[[list[tuple[int, int, int]], list[Any]], NDArray[Any]],
        done_axes: int = 0,
    ) -> NDArray[Any]:
        """Runs a read for each part of a list of positions with whole chunks between."""
        for axis in range(done_axes, len(rest)):
            part = rest[axis]
            if not isinstance(part, np.ndarray):
                continue
            positions, inverse = np.unique(part, return_inverse=True)
            start = selection[axis][0]
            chunks_between = np.diff((start + positions) // self.chunks[axis]) - 1
            widest = np.sort(np.argsort(-chunks_between, kind="stable")[: _READS_MAX - 1])
            cuts = widest[chunks_between[widest] > 0] + 1
            if not cuts.size:
                continue
            values, stats = [], []
            for group in np.split(positions, cuts):
                first, count = int(group[0]), int(group[-1] - group[0]) + 1
                selection = [*selection[:axis], (start + first, 1, count), *selection[axis + 1 :]]
                ranges = [*rest[:axis], group - first, *rest[axis + 1 :]]
                values.append(self._in_parts(selection, ranges, run, axis + 1))
                stats.append(self.last_stats)
            self.last_stats = ReadStats(*map(sum, zip(*(astuple(one) for one in stats if one), strict=True)))
            place = sum(not isinstance(before, int) for before in rest[:axis])
            return np.concatenate(values, place).take(inverse, place)
        return run(selection, rest)

    def index(self, *, pushdown: Pushdown = "auto") -> int:
        """Stores the range of the values of each chunk, so that reductions of values in a range (``wanted_min`` and
        ``wanted_max`` of :class:`Decoding`, and ``between`` of the accessor in xarray) skip the chunks without such
        values. Returns the number of chunks whose statistics were missing or void; the others are kept.

        A write to a chunk makes its statistics void, whichever program writes.
        """
        return self._native.index(self._store, pushdown)[1]

    def reduce(
        self,
        kind: Kind,
        axis: int | Sequence[int] | None = None,
        key: Any = ...,
        *,
        groups: Mapping[int, ArrayLike] | None = None,
        skipna: bool = True,
        decoding: Decoding | None = None,
        mask: ArrayLike | None = None,
        ddof: int = 0,
        edges: ArrayLike | None = None,
        q: ArrayLike | None = None,
        pushdown: Pushdown = "auto",
    ) -> NDArray[Any]:
        """Reduces a part of the array over one axis, several, or all.

        :param kind: the reduction, by NumPy's name
        :param axis: the axes to reduce, by number; None reduces all
        :param key: the part, selected with integers, slices with positive steps, lists of different
            positions and ``...``; axes that an integer selects are dropped from the result
        :param groups: for each grouped axis, the group of each selected position: 0, 1 and so on, or -1
            for a position in no group. The axis of the result has a position for each group. Grouped axes
            are not in ``axis``, which then has the default ``()``
        :param skipna: skip NaN and missing values; otherwise they make sums, means, variances, minima
            and maxima NaN
        :param mask: bools that can be broadcast to the shape of the selected part; where they are false, elements count
            as missing, and integers are reduced as float64. A chunk without a true one is not read if missing values are skipped
        :param ddof: the divisor of ``var`` and ``std`` is the number of values minus ``ddof``
        :param edges: the edges of a histogram's bins; the bins are the last axis of the result
        :param q: the quantile, from 0 to 1, or a list of quantiles, which are then the last axis of the result
        :param pushdown: where chunks are reduced: ``auto``, ``always`` beside the data, or ``never``

        Quantiles and medians are exact if at most 4,096 different values are reduced to one, and then interpolated
        as NumPy's. Otherwise they are approximate: the values between which a quantile lies have a relative error
        of at most ``b`` / 4000, where ``b`` is the number of pairs of a sign and a power of two (1 to 2, 2 to 4 and so
        on) into which the values fall. This is 0.05 % for values from 130 to 500. A result takes up to 128 KiB of
        memory; :class:`LimitExceededError` is raised if all results need more than 1 GiB.

        The result is int64 for counts, positions and histograms, float64 for means, variances, quantiles and sums
        of floats, int64 or uint64 for sums of integers, and for ``min`` and ``max`` the array's own type,
        or that of the decoded values.
        Sums of floats are compensated. The result has the same bits wherever the chunks were reduced.
        Raises :class:`InvalidArgumentError` for the minimum or maximum of no values.

        >>> temperature.reduce("mean", axis=0, key=np.s_[:, 10:20])
        """
        if kind == "median":
            kind, q = "quantile", 0.5
        if (kind == "quantile") != (q is not None):
            raise InvalidArgumentError("quantile needs q, and no other reduction takes it")
        extra = edges if q is None else np.atleast_1d(np.asarray(q, float))
        selection, rest = _selection(key, self.shape)
        if any(isinstance(part, slice) and part != slice(None) for part in rest):
            raise InvalidArgumentError("the steps of a reduction must be positive")
        roles: list[_native.AxisFacts] = [axis is None and not groups] * self.ndim
        axes: Any = [] if axis is None else np.atleast_1d(axis)
        for number in map(operator.index, axes):
            roles[self._axis(number)] = True
        for number, positions in (groups or {}).items():
            number = self._axis(number)
            if roles[number] is True or isinstance(rest[number], int):
                raise InvalidArgumentError(f"a grouped axis is reduced or dropped, too axis={number}")
            roles[number] = _groups(positions)
        if kind in ("argmin", "argmax") and (groups or any(isinstance(part, np.ndarray) for part in rest)):
            raise InvalidArgumentError(f"{kind} takes no groups and no lists of positions")
        bits = None if mask is None else _mask(mask, [count for _, _, count in selection], rest)
        # A list of positions is a range of which some positions are in no group.
        for number, (part, role) in enumerate(zip(rest, roles, strict=True)):
            if isinstance(part, np.ndarray) and part.size > 0:
                roles[number] = _list_groups(part, role, selection[number][2])
                rest[number] = 0 if role is True else slice(None)
        values = self._values(
            self._native.reduce(
                self._store,
                kind,
                ddof,
                [] if extra is None else np.asarray(extra, float).tolist(),
                selection,
                roles,
                skipna,
                None if decoding is None else self._decoding(decoding),
                bits,
                pushdown,
            )
        )
        kept = tuple(part for part, role in zip(rest, roles, strict=True) if role is not True)
        result: NDArray[Any] = values[tuple(slice(None) if isinstance(part, np.ndarray) else part for part in kept)]
        if q is not None and np.ndim(q) == 0:
            scalar: NDArray[Any] = result[..., 0]
            return scalar
        return result

    def regrid(
        self,
        weights: RegridWeights,
        key: Any = ...,
        *,
        skipna: bool = False,
        na_thres: float = 1.0,
        decoding: Decoding | None = None,
        pushdown: Pushdown = "auto",
    ) -> NDArray[np.float64]:
        """Regrids the last axes of a part of the array, such as latitude and longitude, with the weights of another program.

        :param key: the part; the axes of the grid take slices with positive steps, and have the positions of the
            weights' source grid
        :param skipna: skip NaN and missing values, and divide by the weights of the others; otherwise a cell is NaN if it has
            a weight of a missing value
        :param na_thres: with ``skipna``, the largest part of a cell that may be missing, from 0 to 1: 1 makes a cell NaN if all
            its values are missing

        A cell without weights is NaN. The weights of the values of a chunk are sent to the class with the call, 16 bytes each.
        A chunk with more than 1,048,576 weights is regridded by the client, and one without weights is not read.
        The result is float64; integers of 64 bits are rounded to it. Sums are compensated, and have the same bits wherever the
        chunks were regridded.

        >>> temperature.regrid(benthic.RegridWeights.of("weights.nc"), np.s_[:24])
        """
        selection, rest = _selection(key, self.shape)
        source = [count for _, _, count in selection[max(self.ndim - weights.rank, 0) :]]
        outer = rest[: self.ndim - len(source)]
        if any(not isinstance(part, slice) or part != slice(None) for part in rest[len(outer) :]):
            raise InvalidArgumentError("the axes of the grid take slices with positive steps")
        weights.check(source)
        records, cells = weights._records.tobytes(), math.prod(weights.shape)
        missing_max = na_thres if skipna else None
        facts = None if decoding is None else self._decoding(decoding)

        def run(selection: list[tuple[int, int, int]], rest: list[Any]) -> NDArray[Any]:
            done = self._native.regrid(self._store, selection, source, cells, records, missing_max, facts, pushdown)
            return _taken(self._values(done), rest)

        data = self._in_parts(selection, outer, run)
        return data.reshape(data.shape[:-1] + weights.shape)

    def _decoding(self, decoding: Decoding) -> _native.DecodingFacts:
        # No element has another value.
        exact = [value for value in decoding.missing if is_exact(value, self.dtype)]
        missing = [np.asarray(value).astype(_little(self.dtype)).tobytes() for value in exact]
        return (
            missing,
            (decoding.valid_min, decoding.valid_max),
            decoding.scale,
            decoding.offset,
            (decoding.wanted_min, decoding.wanted_max),
            decoding.is_single,
        )

    def _axis(self, number: int) -> int:
        if not -self.ndim <= number < self.ndim:
            raise InvalidArgumentError(f"there is no such axis axis={number} axes={self.ndim}")
        return number % self.ndim

    def _values(self, result: _native.ArrayResult) -> NDArray[Any]:
        name, shape, data, stats = result
        self.last_stats = ReadStats(*stats)
        dtype = np.dtype(name)
        return np.frombuffer(data, _little(dtype)).astype(dtype, copy=False).reshape(shape)


def attributes(zarr_format: int, document: bytes) -> dict[str, Any]:
    """The attributes in a metadata document, without xarray's names of dimensions in version 2."""
    fields: dict[str, Any] = json.loads(document) if document else {}
    if zarr_format == 3:
        fields = fields.get("attributes") or {}
    else:
        fields.pop("_ARRAY_DIMENSIONS", None)
    return fields


def is_exact(value: Any, dtype: np.dtype[Any]) -> bool:
    """Whether an element of the type can have this value."""
    with np.errstate(all="ignore"):
        cast = np.asarray(value).astype(dtype)
    return bool(cast == value) or bool(cast != cast and value != value)


def _groups(positions: ArrayLike) -> tuple[int, list[int]]:
    """The number of groups, and the group of each position."""
    groups = np.asarray(positions)
    if groups.ndim != 1 or groups.dtype.kind not in "iu":
        raise InvalidArgumentError(f"groups are a list of integers got={groups.dtype}{list(groups.shape)}")
    count = int(groups.max(initial=-1)) + 1
    if groups.min(initial=0) < -1 or count > GROUPS_MAX:
        raise InvalidArgumentError(f"a group is a number from 0 to {GROUPS_MAX - 1}, or -1")
    return count, np.where(groups < 0, _NO_GROUP, groups).tolist()


def _list_groups(
    positions: NDArray[Any], role: _native.AxisFacts, length: int
) -> tuple[int, list[int]]:
    """The groups of all positions in a range, of which only some are selected."""
    if length > POSITIONS_MAX:
        raise LimitExceededError(f"the positions in a list are too far apart positions_max={POSITIONS_MAX}")
    if np.unique(positions).size < positions.size:
        raise InvalidArgumentError("a reduction cannot select a position twice")
    groups = np.full(length, _NO_GROUP)
    if role is True:
        count, numbers = 1, [0] * positions.size
    elif role is False:
        count, numbers = positions.size, list(range(positions.size))
    else:
        count, numbers = role
        if len(numbers) != positions.size:
            raise InvalidArgumentError("groups need one number for each selected position")
    groups[positions] = numbers
    return count, groups.tolist()


def _mask(mask: ArrayLike, counts: Sequence[int], rest: Sequence[Any]) -> tuple[list[int], bytes]:
    """The shape and the bits of a mask of the ranges from which the parts are taken."""
    keeps = np.asarray(mask)
    lengths = [part.size if isinstance(part, np.ndarray) else count for count, part in zip(counts, rest, strict=True)]
    kept = [axis for axis, part in enumerate(rest) if not isinstance(part, int)]
    padded = [1] * (len(kept) - keeps.ndim) + list(keeps.shape)
    fits = len(padded) == len(kept) and all(
        length in (1, lengths[axis]) for length, axis in zip(padded, kept, strict=True)
    )
    if keeps.dtype != bool or not fits:
        expected = [lengths[axis] for axis in kept]
        raise InvalidArgumentError(f"a mask has bools, one for each selected element expected={expected} "
                                   f"got={keeps.dtype}{list(keeps.shape)}")  # fmt: skip
    shape = [1] * len(rest)
    for axis, length in zip(kept, padded, strict=True):
        shape[axis] = length
    keeps = keeps.reshape(shape)
    for axis, part in enumerate(rest):
        if isinstance(part, np.ndarray) and shape[axis] > 1:
            shape[axis] = counts[axis]
            spread = np.zeros(shape, bool)
            spread[(slice(None),) * axis + (part,)] = keeps
            keeps = spread
    return shape, np.packbits(keeps, bitorder="little").tobytes()


def _little(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return dtype.newbyteorder("<")


def _selection(key: Any, shape: tuple[int, ...]) -> tuple[list[tuple[int, int, int]], list[Any]]:
    """Converts a key into start, step and count for each axis. Also returns what must be done with
    each axis afterwards: a slice that may reverse it, 0 to drop it, or an array of positions to take.
    """
    parts = list(key) if isinstance(key, tuple) else [key]
    places = [place for place, part in enumerate(parts) if part is Ellipsis]
    if len(places) > 1:
        raise InvalidArgumentError("a selection has at most one ...")
    for place in places:
        parts[place : place + 1] = [slice(None)] * (len(shape) - len(parts) + 1)
    if len(parts) > len(shape):
        raise InvalidArgumentError(f"a selection has more parts than the array has axes axes={len(shape)}")
    parts += [slice(None)] * (len(shape) - len(parts))
    slices: list[tuple[int, int, int]] = []
    rest: list[Any] = []
    for part, length in zip(parts, shape, strict=True):
        if isinstance(part, slice):
            positions = range(length)[part]
            count, is_reversed = len(positions), positions.step < 0
            start = positions[-1] if is_reversed and count else positions.start
            slices.append((start if count else 0, abs(positions.step), count))
            rest.append(slice(None, None, -1) if is_reversed else slice(None))
        elif isinstance(part, int | np.integer) and not isinstance(part, bool):
            position = int(part)
            if not -length <= position < length:
                raise IndexError(f"a position is out of range position={position} length={length}")
            slices.append((position % length, 1, 1))
            rest.append(0)
        elif isinstance(part, list | np.ndarray):
            listed = _positions(part, length)
            start, end = (int(listed.min()), int(listed.max()) + 1) if listed.size else (0, 0)
            slices.append((start, 1, end - start))
            rest.append(listed - start)
        else:
            raise InvalidArgumentError(
                f"a selection takes integers, slices, lists of integers and ... got={type(part).__name__}"
            )
    return slices, rest


def _taken(data: NDArray[Any], rest: Sequence[Any]) -> NDArray[Any]:
    """Applies the rest of a selection to each axis."""
    for axis, part in enumerate(rest):
        if isinstance(part, np.ndarray):
            data = data.take(part, axis)
    values: NDArray[Any] = data[tuple(slice(None) if isinstance(part, np.ndarray) else part for part in rest)]
    return values


def _positions(part: list[Any] | NDArray[Any], length: int) -> NDArray[np.int64]:
    """Positions along an axis of this length. Negative ones count from the end."""
    positions = np.asarray(part) if len(part) else np.empty(0, int)
    if positions.ndim != 1 or positions.dtype.kind not in "iu":
        raise InvalidArgumentError(f"a list in a selection has integers got={positions.dtype}{list(positions.shape)}")
    if np.any((positions < -length) | (positions >= length)):
        raise IndexError(f"a position is out of range length={length}")
    return np.where(positions < 0, positions + length, positions).astype(np.int64)
