"""The stored array behind an array of xarray, and reductions of it.

xarray wraps a stored array in lazy layers: for decoding, for selections, for transposition and for caching.
They are not part of its public interface; an unknown layer only means that nothing is pushed.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from xarray.backends import BackendArray
from xarray.core import indexing

from . import _dask
from ._connections import Connection
from .array import Array, Decoding, Kind, is_exact
from .table import Pushdown


class LazyArray(BackendArray):
    """An array of which parts are read when they are needed."""

    def __init__(self, connection: Connection, address: str, pushdown: Pushdown) -> None:
        self._connection = connection
        self._address = address
        self.pushdown: Pushdown = pushdown
        self._opened: tuple[int, Array] | None = None
        self.shape = self.stored.shape
        self.dtype = self.stored.dtype

    @property
    def stored(self) -> Array:
        """The array, through this process's connection."""
        process = os.getpid()
        if self._opened is None or self._opened[0] != process:
            self._opened = process, self._connection.open().array(self._address)
        return self._opened[1]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": None}

    def __deepcopy__(self, memo: Any) -> LazyArray:
        """Itself: xarray copies lazy arrays with their coordinates."""
        return self

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        read = partial(self.stored.read, pushdown=self.pushdown)
        return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.OUTER, read)

    async def async_getitem(self, key: indexing.ExplicitIndexer) -> Any:
        """Reads in another thread."""
        return await asyncio.to_thread(self.__getitem__, key)


@dataclass(frozen=True)
class Reduction:
    """The function to compute from the values. ``axes`` are those of the array, not of the stored one."""

    kind: Kind
    axes: Sequence[int]
    skipna: bool
    ddof: int
    q: Sequence[float] | None
    dtype: np.dtype[Any]
    """The type of the result."""


@dataclass(frozen=True)
class Source:
    """A part of a stored array: a selection, the order of its axes, and how values are decoded."""

    data: LazyArray
    key: tuple[Any, ...]
    """An integer, a slice or different positions for each axis of the stored array."""
    axes: tuple[int, ...]
    """The axis of the stored array for each axis of the array."""
    decoding: Decoding | None

    def reduce(
        self, reduction: Reduction, groups: Mapping[int, NDArray[Any]], mask: NDArray[np.bool_] | None
    ) -> NDArray[Any]:
        """Reduces the part. The mask has all its axes; axes of length one repeat."""
        values = self.data.stored.reduce(
            reduction.kind,
            [self.axes[axis] for axis in reduction.axes],
            self.key,
            groups={self.axes[axis]: positions for axis, positions in groups.items()},
            skipna=reduction.skipna,
            decoding=self.decoding,
            mask=None if mask is None else mask.transpose(np.argsort(self.axes)),
            ddof=reduction.ddof,
            q=reduction.q,
            pushdown=self.data.pushdown,
        )
        kept = [stored for axis, stored in enumerate(self.axes) if axis not in reduction.axes]
        order = [*np.argsort(np.argsort(kept)), *range(len(kept), values.ndim)]
        return values.transpose(order).astype(reduction.dtype, copy=False)

    def part(self, axis: int, positions: slice) -> Any:
        """The selection of some positions of an axis."""
        key, stored = self.key[self.axes[axis]], self.axes[axis]
        if isinstance(key, np.ndarray):
            return key[positions]
        selected = range(*key.indices(self.data.shape[stored]))[positions]
        return slice(selected.start, selected.stop, selected.step)


def source_of(variable: xr.Variable) -> Source | None:
    """Finds the stored array. None if the data are in memory, or were computed."""
    data, order = variable._data, None
    if variable.chunks is not None:
        found = _dask.selection_of(data)
        if found is None:
            return None
        data, order = found
    source = _source(data, variable.dtype)
    if source is None or order is None:
        return source
    return Source(source.data, source.key, tuple(source.axes[axis] for axis in order), source.decoding)


def _source(data: Any, dtype: np.dtype[Any]) -> Source | None:
    key: tuple[Any, ...] | None = None
    axes: tuple[int, ...] | None = None
    functions: list[Any] = []
    while not isinstance(data, LazyArray):
        match type(data).__name__:
            case "MemoryCachedArray" | "CopyOnWriteArray" | "ImplicitToExplicitIndexingAdapter":
                pass
            case "LazilyIndexedArray":
                parts = data.key.tuple
                if any(not isinstance(part, slice) or part != slice(None) for part in parts):
                    if key is not None:
                        return None
                    key = parts
            case "LazilyVectorizedIndexedArray":
                separated = _separated(data.key.tuple, data.shape)
                if key is not None or separated is None:
                    return None
                key, axes = separated
            case "_ElementwiseFunctionArray":
                functions.append(data.func)
            case _:
                return None
        data = data.array
    key = (slice(None),) * len(data.shape) if key is None else tuple(_slice(part) for part in key)
    if any(part is None for part in key):
        return None
    if axes is None:
        axes = tuple(axis for axis, part in enumerate(key) if not isinstance(part, int))
    if not functions:
        return Source(data, key, axes, None)
    decoding = _decoding(functions, dtype, data.dtype)
    return None if decoding is None else Source(data, key, axes, decoding)


def _separated(
    parts: Sequence[NDArray[Any]], shape: tuple[int, ...]
) -> tuple[tuple[Any, ...], tuple[int, ...]] | None:
    """The positions along each axis of the stored array, and the stored axis of each axis, if a selection by
    points is one by axes, as after a transposition. None for other selections by points.
    """
    if 0 in shape:
        return None
    key: list[Any] = []
    axes: list[int | None] = [None] * len(shape)
    for stored, part in enumerate(parts):
        along = [axis for axis, length in enumerate(part.shape) if length > 1 and np.ptp(part, axis).any()]
        if len(along) > 1 or any(axes[axis] is not None for axis in along):
            return None
        if along:
            axes[along[0]] = stored
            key.append(np.moveaxis(part, along[0], 0).reshape(shape[along[0]], -1)[:, 0])
        else:
            key.append(int(part.flat[0]))
    # An axis of length one may be that of any stored axis with one position.
    constant = [stored for stored, part in enumerate(key) if isinstance(part, int)]
    for axis, known in enumerate(axes):
        if known is None:
            if shape[axis] > 1 or not constant:
                return None
            axes[axis] = stored = constant.pop(0)
            key[stored] = np.array([key[stored]])
    return tuple(key), tuple(stored for stored in axes if stored is not None)


def _slice(part: Any) -> int | slice | NDArray[Any] | None:
    """Positions at equal distances as a slice, others as an array. None for repeated positions."""
    if isinstance(part, slice):
        return part if part.step is None or part.step > 0 else None
    if not isinstance(part, np.ndarray):
        return int(part)
    if part.size == 0:
        return slice(0, 0)
    steps = np.diff(part)
    step = int(steps[0]) if part.size > 1 else 1
    if step < 1 or np.any(steps != step):
        return part if np.unique(part).size == part.size else None
    return slice(int(part[0]), int(part[-1]) + 1, step)


def _decoding(functions: list[Any], dtype: np.dtype[Any], stored: np.dtype[Any]) -> Decoding | None:
    """The steps of xarray's decoders, the last one first. None for an unknown decoder."""
    missing: tuple[Any, ...] = ()
    scale = offset = None
    if dtype not in (np.float32, np.float64):
        return None
    for position, function in enumerate(functions):
        if not isinstance(function, partial):
            return None
        options = function.keywords
        match function.func.__name__:
            case "_scale_offset_decoding" if position == 0:
                scale, offset = options["scale_factor"], options["add_offset"]
            case "_apply_mask" if position == len(functions) - 1:
                missing = tuple(options["encoded_fill_values"])
                # xarray compares values after it has converted them, so only exact fill values are safe.
                if not all(is_exact(value, stored) for value in missing) or options["decoded_fill_value"] is None:
                    return None
                if not np.isnan(options["decoded_fill_value"]):
                    return None
            case _:
                return None
    return Decoding(
        missing=missing,
        scale=None if scale is None else float(scale),
        offset=None if offset is None else float(offset),
        is_single=dtype == np.float32,
    )
