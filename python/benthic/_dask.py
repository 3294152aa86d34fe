"""Dask: the selection behind an array of Dask, and reductions as tasks.

xarray gives a lazy array to ``dask.array.from_array``, and later selections and transpositions are layers of
Dask's graph. They are found by running these layers on a placeholder that records what is selected. So nothing
here reads Dask's tasks, whose format changes between versions. For each axis, only the blocks that are first along all
other axes are run: Dask's own selections and transpositions do the same with all others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import dask.array

    from ._stored import Reduction, Source

_SELECTIONS = {"getitem", "transpose"}
# Running the layers takes up to 0.25 ms for each block.
_BLOCKS_MAX = 4096


class _Placeholder:
    """An array that only records which positions were selected along each axis of the first array, and the
    order of the axes.
    """

    dtype = np.dtype(float)

    def __init__(self, key: Sequence[Any], axes: Sequence[int]) -> None:
        """The key has a range for each axis that is left, and an integer for others."""
        self.key = key
        self.axes = axes
        self.shape = tuple(len(key[axis]) for axis in axes)
        self.ndim = len(axes)

    def __getitem__(self, parts: Any) -> _Placeholder:
        key = list(self.key)
        for axis, part in zip(self.axes, parts, strict=True):
            key[axis] = self.key[axis][part]
        return _Placeholder(key, [axis for axis in self.axes if isinstance(key[axis], range)])

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if function is not np.transpose:
            return NotImplemented
        return self.transpose(*args[1:], **kwargs)

    def transpose(self, axes: Sequence[int]) -> _Placeholder:
        return _Placeholder(self.key, [self.axes[axis] for axis in axes])


def selection_of(array: Any) -> tuple[Any, list[int]] | None:
    """The selected part of the lazy array from which xarray made an array of Dask, and the axis of the part for
    each axis of the array. None if anything else was done.
    """
    graph: Any = getattr(array, "dask", None)
    if graph is None or 0 in array.shape:
        return None
    dependencies = getattr(graph, "dependencies", {})
    first = [name for name, needed in dependencies.items() if not needed]
    if len(first) != 1 or not first[0].startswith("original-"):
        return None

    import dask
    from dask.utils import key_split

    # `from_array` makes the layers `original-NAME` and `NAME`.
    name = first[0].removeprefix("original-")
    lazy = dask.get(dict(graph.layers[first[0]]), first[0])
    if type(lazy).__name__ != "ImplicitToExplicitIndexingAdapter":
        return None
    if array.name == name:
        return lazy, list(range(array.ndim))
    if sum(array.numblocks) > _BLOCKS_MAX or any(key_split(layer) not in _SELECTIONS for layer in dependencies.keys() - {first[0], name}):
        return None
    lines = [
        [(array.name, *(block if place == axis else 0 for place in range(array.ndim))) for block in range(blocks)]
        for axis, blocks in enumerate(array.numblocks)
    ] or [[(array.name,)]]
    tasks = dict(graph.cull({key for line in lines for key in line}))
    tasks[first[0]] = _Placeholder([*map(range, lazy.shape)], range(lazy.ndim))
    try:
        found = dask.get(tasks, lines)
    except Exception:  # The placeholder is no array, so anything may fail.
        return None
    start = found[0][0]
    if not isinstance(start, _Placeholder) or start.ndim != array.ndim:
        return None
    key = list(start.key)
    for stored, line in zip(start.axes, found, strict=False):
        key[stored] = np.concatenate([block.key[stored] for block in line])
    if tuple(key[stored].size for stored in start.axes) != array.shape:
        return None
    return lazy[tuple(key)], list(np.argsort(np.argsort(start.axes)))


def reduce_lazily(
    source: Source,
    chunks: Sequence[tuple[int, ...]],
    reduction: Reduction,
    groups: Mapping[int, NDArray[Any]],
    mask: Any,
) -> dask.array.Array:
    """Reduces with a task for each block of the result, which reduces its part of the stored array beside the
    chunks. Axes with groups are not divided.
    """
    import dask.array as da

    arguments: list[Any] = []
    kept = tuple(axis for axis in range(len(chunks)) if axis not in reduction.axes)
    blocks = [(sum(sizes),) if axis in groups or axis not in kept else sizes for axis, sizes in enumerate(chunks)]
    for axis in kept:
        if axis in groups:
            along = da.from_array(groups[axis], -1)
        else:
            # Dask fuses this with the reduction, so that the tasks depend on nothing and go to all workers.
            along = da.map_blocks(_positions, chunks=(blocks[axis],), dtype=np.int64, meta=np.empty(0, np.int64))
        arguments += [along, (axis,)]
    if mask is not None:
        mask = da.asarray(mask)
        mask = mask.rechunk(tuple(sizes if length > 1 else 1 for sizes, length in zip(blocks, mask.shape, strict=True)))
        arguments += [mask, tuple(range(mask.ndim))]
    last = {} if reduction.q is None else {len(chunks): len(reduction.q)}
    return da.blockwise(
        partial(_reduce_block, source, reduction, kept, set(groups)),
        (*kept, *last),
        *arguments,
        new_axes=last,
        adjust_chunks={axis: int(known.max(initial=-1)) + 1 for axis, known in groups.items()},
        concatenate=True,
        token=f"benthic-{reduction.kind}",
        dtype=reduction.dtype,
        meta=np.empty((0,) * (len(kept) + len(last)), reduction.dtype),
    )


def _positions(block_info: Any) -> NDArray[np.int64]:
    """The positions of a block."""
    ((first, end),) = block_info[None]["array-location"]
    return np.arange(first, end)


def _reduce_block(
    source: Source, reduction: Reduction, kept: Sequence[int], grouped: set[int], *arguments: NDArray[Any]
) -> NDArray[Any]:
    """Reduces one block. The arguments are the positions or groups along each kept axis, and the mask."""
    key, groups = list(source.key), {}
    for axis, positions in zip(kept, arguments, strict=False):
        if axis in grouped:
            groups[axis] = positions
        else:
            key[source.axes[axis]] = source.part(axis, slice(int(positions[0]), int(positions[-1]) + 1))
    mask = arguments[len(kept)] if len(arguments) > len(kept) else None
    return replace(source, key=tuple(key)).reduce(reduction, groups, mask)
