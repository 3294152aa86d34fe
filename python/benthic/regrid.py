"""Weights of regriddings: sparse matrices, as ESMF, xESMF, CDO and SCRIP store them."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .errors import InvalidArgumentError

if TYPE_CHECKING:
    import xarray as xr

_RECORD = np.dtype([("source", "<u4"), ("cell", "<u4"), ("weight", "<f8")])
# The variables with the cell, the source and the weight, and with the coordinates of the cells.
_ESMF = ("row", "col", "S"), ("yc_b", "xc_b")
_SCRIP = ("dst_address", "src_address", "remap_matrix"), ("dst_grid_center_lat", "dst_grid_center_lon")
# The names of a grid's dimensions, if it gives none.
_DIMS = {1: ("cell",), 2: ("y", "x")}
_VALID_MIN = 1e-6

Coords = Mapping[str, tuple[tuple[str, ...], NDArray[Any]]]


class RegridWeights:
    """A sparse matrix that makes the cells of a grid: each is a weighted sum of source cells.

    :param cells: for each weight the number of the cell, from 0 on, in C order of ``shape``
    :param sources: for each weight the number of the source cell, from 0 on, in C order of the source grid
    :param weights: the weights; several of a cell and a source are added
    :param shape: the shape of the new grid
    :param source_shape: the shape of the source grid; None stands for any grid of two axes
    :param dims: the names of the new grid's dimensions
    :param coords: coordinates of the new grid, each with its dimensions
    """

    def __init__(
        self,
        cells: ArrayLike,
        sources: ArrayLike,
        weights: ArrayLike,
        shape: Sequence[int],
        source_shape: Sequence[int] | None = None,
        *,
        dims: Sequence[str] | None = None,
        coords: Coords | None = None,
    ) -> None:
        self.shape = tuple(map(int, shape))
        self.source_shape = None if source_shape is None else tuple(map(int, source_shape))
        if len(self.shape) not in _DIMS:
            raise InvalidArgumentError(f"the new grid has one or two axes shape={list(self.shape)}")
        self.dims = tuple(dims or _DIMS[len(self.shape)])
        self.coords: Coords = coords or {}
        columns = [np.asarray(column) for column in (sources, cells, weights)]
        if any(column.ndim != 1 or column.size != columns[0].size for column in columns):
            raise InvalidArgumentError("weights are three lists of the same length")
        ends = [2**32 if self.source_shape is None else math.prod(self.source_shape), math.prod(self.shape)]
        for column, end, name in zip(columns, ends, ("source", "cell"), strict=False):
            is_valid = not column.size or (column.dtype.kind in "iu" and column.min() >= 0 and column.max() < end)
            if not is_valid or end > 2**32:
                message = f"each {name} of a weight is an integer from 0 to the size of its grid"
                raise InvalidArgumentError(f"{message} {name}s={end}")
        self._records = np.empty(columns[0].size, _RECORD)
        for name, column in zip(_RECORD.names or (), columns, strict=True):
            self._records[name] = column
        if not np.isfinite(self._records["weight"]).all():
            raise InvalidArgumentError("a weight is not a finite number")
        # A source without a part in a cell does not make it missing.
        self._records = self._records[self._records["weight"] != 0]

    def __repr__(self) -> str:
        return f"<benthic.RegridWeights {self._records.size} weights to {list(self.shape)}>"

    @property
    def rank(self) -> int:
        """The number of axes of the source grid."""
        return 2 if self.source_shape is None else len(self.source_shape)

    @classmethod
    def of(
        cls, weights: RegridWeights | xr.Dataset | str | os.PathLike[str], grid: xr.Dataset | None = None
    ) -> RegridWeights:
        """Weights, or those of a dataset or netCDF file of ESMF, xESMF, CDO or SCRIP.

        :param grid: a dataset with ``lat`` and ``lon`` of the new grid, if ``weights`` lacks them, as xESMF's do
        """
        import xarray as xr

        if isinstance(weights, RegridWeights):
            return weights
        if not isinstance(weights, xr.Dataset):
            with xr.open_dataset(weights, mask_and_scale=False) as opened:
                return cls.of(opened.load(), grid)
        data = weights
        names, centers = next(((names, centers) for names, centers in (_ESMF, _SCRIP) if names[2] in data), ((), ()))
        if not all(name in data for name in names) or not names:
            raise InvalidArgumentError("these are no weights of ESMF (row, col, S) or SCRIP (dst_address, src_address, "
                                       f"remap_matrix) variables={','.join(map(str, data))}")  # fmt: skip
        cells, sources, values = (data[name].values for name in names)
        if values.ndim == 2:
            if values.shape[1] != 1:
                raise InvalidArgumentError("weights of gradients are not supported; make weights of first order")
            values = values[:, 0]
        # Fortran's order.
        grids = ("src_grid_dims", "dst_grid_dims")
        source_shape, shape = (data[name].values[::-1] if name in data else None for name in grids)
        if grid is not None:
            lat, lon = grid["lat"], grid["lon"]
            dims = lat.dims if lat.dims == lon.dims or lat.ndim > 1 else lat.dims + lon.dims
            shape = [grid.sizes[name] for name in dims]
            coords: Coords = {name: (grid[name].dims, grid[name].values) for name in ("lat", "lon")}
        elif shape is None:
            raise InvalidArgumentError("these weights lack the new grid; give a dataset with its lat and lon as grid")
        else:
            dims, coords = _grid([data[name] for name in centers if name in data], tuple(map(int, shape)))
        return cls(cells - 1, sources - 1, values, shape, source_shape, dims=dims, coords=coords)

    @classmethod
    def bilinear(
        cls, lat: ArrayLike, lon: ArrayLike, to_lat: ArrayLike, to_lon: ArrayLike, *, period: float | None = None
    ) -> RegridWeights:
        """The weights of a bilinear interpolation. Cells outside of the source grid are missing.

        :param lat: the latitudes of the source grid; all four are lists, in any order
        :param period: 360 for longitudes that go around the globe

        >>> RegridWeights.bilinear(ds.lat, ds.lon, np.arange(-89, 90, 2), np.arange(0, 360, 2), period=360)
        """
        to_lat, to_lon = np.asarray(to_lat, float), np.asarray(to_lon, float)
        (rows, row_parts), (columns, column_parts) = _linear(lat, to_lat, None), _linear(lon, to_lon, period)
        shape, source_shape = (to_lat.size, to_lon.size), (np.size(lat), np.size(lon))
        # By neighbour in latitude, neighbour in longitude, row and column.
        sources = rows[:, None, :, None] * source_shape[1] + columns[None, :, None, :]
        parts = row_parts[:, None, :, None] * column_parts[None, :, None, :]
        cells = np.broadcast_to(np.arange(to_lat.size * to_lon.size).reshape(shape), sources.shape)
        is_in = np.isfinite(parts)
        coords = {"lat": (("lat",), to_lat), "lon": (("lon",), to_lon)}
        return cls(cells[is_in], sources[is_in], parts[is_in], shape, source_shape, dims=("lat", "lon"), coords=coords)

    def apply(self, values: ArrayLike, *, skipna: bool = False, na_thres: float = 1.0) -> NDArray[np.float64]:
        """Regrids the last axes of an array in memory. Sums are not compensated."""
        if skipna and not 0 <= na_thres <= 1:
            raise InvalidArgumentError(f"na_thres is from 0 to 1 got={na_thres}")
        data = np.asarray(values, float)
        outer, source_shape = data.shape[: -self.rank], data.shape[-self.rank :]
        self.check(source_shape)
        cells, sources, weights = self._records["cell"], self._records["source"], self._records["weight"]
        result = np.empty((math.prod(outer), math.prod(self.shape)))
        for row, line in zip(result, data.reshape(len(result), math.prod(source_shape)), strict=True):
            terms = line[sources]
            parts = np.where(skipna & np.isnan(terms), 0, weights)
            valid = np.bincount(cells, parts, row.size)
            row[:] = np.bincount(cells, np.where(parts == 0, 0, terms * weights), row.size)
            if skipna:
                is_missing = valid < np.clip(1 - na_thres, _VALID_MIN, 1 - _VALID_MIN)
                row /= np.where(is_missing, np.nan, valid)
        result[:, np.bincount(cells, minlength=math.prod(self.shape)) == 0] = np.nan
        return result.reshape(outer + self.shape)

    def check(self, source_shape: Sequence[int]) -> None:
        """Fails if the weights are not for a grid of this shape."""
        if tuple(source_shape) != (self.source_shape or tuple(source_shape)) or len(source_shape) != self.rank:
            raise InvalidArgumentError(f"the weights are for another grid expected={list(self.source_shape or ())} "
                                       f"got={list(source_shape)}")  # fmt: skip
        if self._records.size and self._records["source"].max() >= math.prod(source_shape):
            raise InvalidArgumentError(f"the weights are for a larger grid got={list(source_shape)}")


def _linear(
    axis: ArrayLike, points: NDArray[np.float64], period: float | None
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The two neighbours of each point along an axis, and their parts; NaN outside of the axis."""
    line = np.asarray(axis, float)
    order = np.argsort(line)
    line = line[order]
    if period is not None and line.size:
        points = line[0] + (points - line[0]) % period
        line, order = np.append(line, line[0] + period), np.append(order, order[0])
    if line.size < 2 or not (np.diff(line) > 0).all():
        raise InvalidArgumentError("an axis of a grid needs two or more different coordinates, within the period")
    upper = np.clip(np.searchsorted(line, points), 1, line.size - 1)
    part = (points - line[upper - 1]) / (line[upper] - line[upper - 1])
    part[(part < 0) | (part > 1)] = np.nan
    return order[np.stack([upper - 1, upper])], np.stack([1 - part, part])


def _grid(centers: list[xr.DataArray], shape: tuple[int, ...]) -> tuple[tuple[str, ...], Coords]:
    """The dimensions of a grid, and the coordinates of its cells."""
    dims = _DIMS.get(len(shape), ())
    if len(centers) < 2 or any(center.size != math.prod(shape) for center in centers):
        return dims, {}
    is_radian = [str(center.attrs.get("units", "")).startswith("rad") for center in centers]
    grids = [center.values.reshape(shape) for center in centers]
    lat, lon = (np.degrees(grid) if degrees else grid for grid, degrees in zip(grids, is_radian, strict=True))
    if len(shape) == 2 and (lat == lat[:, :1]).all() and (lon == lon[:1]).all():
        return ("lat", "lon"), {"lat": (("lat",), lat[:, 0]), "lon": (("lon",), lon[0])}
    return dims, {"lat": (dims, lat), "lon": (dims, lon)}
