"""xarray: datasets in pools, whose reductions run beside the chunks.

>>> ds = xr.open_dataset("benthic://climate/era5", engine="benthic", store="file:./data")
>>> ds.t2m.sel(lat=slice(10, 40)).benthic.mean("time")

Data are read lazily. The accessor ``benthic`` of an array that was opened so, also of a part of it,
reduces without reading the array if it :attr:`~BenthicAccessor.is_pushable`; otherwise xarray
computes as usual. With ``chunks={}``, the arrays are Dask's, the results are, too, and Dask's workers
reduce.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import xarray as xr
import zarr
from numpy.typing import ArrayLike, NDArray
from xarray.backends import BackendArray, BackendEntrypoint
from xarray.backends.common import AbstractDataStore
from xarray.backends.store import StoreBackendEntrypoint
from xarray.backends.zarr import FillValueCoder
from xarray.core import indexing

from . import _dask
from ._connections import Connection
from ._stored import LazyArray, Reduction, Source, source_of
from .array import GROUPS_MAX, POSITIONS_MAX, Decoding, Kind, attributes
from .errors import InvalidArgumentError, LimitExceededError, NotFoundError, UnsupportedError
from .regrid import RegridWeights
from .store import Store
from .table import Pushdown
from .zarr import ZarrStore

_SCHEME = "benthic://"
_POSITIONS = "_benthic_positions"


class _OtherArray(BackendArray):
    """An array of a type or codec that the class `array` lacks, read by zarr-python."""

    def __init__(self, connection: Connection, pool: str, namespace: str, path: str) -> None:
        self._array = zarr.open_array(
            ZarrStore(connection, pool, path, namespace=namespace, read_only=True), mode="r"
        )
        self.shape = self._array.shape
        self.dtype = self._array.dtype

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        read = self._array.__getitem__
        return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.BASIC, read)

    async def async_getitem(self, key: indexing.ExplicitIndexer) -> Any:
        """Reads in another thread."""
        return await asyncio.to_thread(self.__getitem__, key)


class _Group(AbstractDataStore):
    """The arrays of a group, as xarray's variables before decoding."""

    def __init__(self, connection: Connection, address: str, pushdown: Pushdown) -> None:
        self._connection = connection
        pool, _, self._path = address.partition("/")
        self._pool, _, self._namespace = pool.partition(":")
        self._pushdown = pushdown

    def _below(self, name: str) -> str:
        return "/".join(part for part in (self._path, name) if part)

    def _address(self, name: str) -> str:
        pool = f"{self._pool}:{self._namespace}" if self._namespace else self._pool
        return f"{pool}/{self._below(name)}".rstrip("/")

    def _document(self, key: str) -> dict[str, Any] | None:
        pool = self._connection.open().pool(self._pool, self._namespace)
        try:
            document: dict[str, Any] = json.loads(pool.get(self._below(key)))
            return document
        except NotFoundError:
            return None

    def _names(self) -> list[str]:
        """The names of the arrays. Consolidated metadata have them, or else a listing."""
        document = self._document("zarr.json")
        if document is not None:
            nodes = (document.get("consolidated_metadata") or {}).get("metadata")
            if nodes is not None:
                return [name for name, node in nodes.items() if "/" not in name and node["node_type"] == "array"]
        else:
            document = self._document(".zmetadata")
            if document is not None:
                keys = [key.split("/") for key in document["metadata"]]
                return [parts[0] for parts in keys if len(parts) == 2 and parts[1] == ".zarray"]
        start = len(self._path) + 1 if self._path else 0
        paths = [path for path, is_array in self._connection.open()._native.arrays(self._address("")) if is_array]
        return [path[start:] for path in paths if "/" not in path[start:] and len(path) > start]

    def get_attrs(self) -> dict[str, Any]:
        """The attributes of the group."""
        return attributes(*self._connection.open()._native.group(self._address("")))

    def get_variables(self) -> dict[str, xr.Variable]:
        """The arrays of the group by name."""
        variables = {}
        for name in self._names():
            # Consolidated metadata have the names of arrays that were removed, too.
            with contextlib.suppress(NotFoundError):
                variables[name] = self._variable(name)
        return variables

    def _variable(self, name: str) -> xr.Variable:
        data: LazyArray | _OtherArray
        encoding: dict[str, Any]
        try:
            data = LazyArray(self._connection, self._address(name), self._pushdown)
        except (UnsupportedError, LimitExceededError):
            data = _OtherArray(self._connection, self._pool, self._namespace, self._below(name))
            array = data._array
            found = array.metadata
            attrs = dict(array.attrs)
            dims = getattr(found, "dimension_names", None) or attrs.pop("_ARRAY_DIMENSIONS", None)
            fill = array.fill_value if found.zarr_format == 2 else None
            objects, encoding = array.shards or array.chunks, {"chunks": array.chunks}
            if array.shards is not None:
                encoding["shards"] = array.shards
        else:
            opened = data.stored
            attrs, dims, objects = dict(opened.attrs), opened.dims, opened.chunks
            fill = opened.fill_value if opened.has_missing_fill else None
            encoding = {"chunks": opened.inner_chunks or objects, "codecs": opened.codecs}
            if opened.inner_chunks is not None:
                encoding["shards"] = objects
        dims = [
            f"{name}_dim_{axis}" if dim is None else dim for axis, dim in enumerate(dims or [None] * len(data.shape))
        ]
        if fill is not None:
            attrs["_FillValue"] = fill
        elif isinstance(attrs.get("_FillValue"), str) and data.dtype.kind == "f":
            attrs["_FillValue"] = FillValueCoder.decode(attrs["_FillValue"], data.dtype)
        encoding["preferred_chunks"] = dict(zip(dims, objects, strict=True))
        return xr.Variable(dims, indexing.LazilyIndexedArray(data), attrs, encoding)


class BenthicBackendEntrypoint(BackendEntrypoint):
    """Opens Zarr groups in pools as datasets."""

    description = "Open Zarr groups in pools of Benthic"
    url = "https://github.com/benthic-storage/benthic"
    open_dataset_parameters = (
        "filename_or_obj",
        "mask_and_scale",
        "decode_times",
        "concat_characters",
        "decode_coords",
        "drop_variables",
        "use_cftime",
        "decode_timedelta",
        "store",
        "pushdown",
    )

    def guess_can_open(self, filename_or_obj: Any) -> bool:
        """Whether this is the address of a group."""
        return isinstance(filename_or_obj, str) and filename_or_obj.startswith(_SCHEME)

    def open_dataset(
        self,
        filename_or_obj: str,
        *,
        mask_and_scale: bool = True,
        decode_times: Any = True,
        concat_characters: bool = True,
        decode_coords: Any = True,
        drop_variables: str | Iterable[str] | None = None,
        use_cftime: bool | None = None,
        decode_timedelta: Any = None,
        store: Store | str | None = None,
        pushdown: Pushdown = "auto",
    ) -> xr.Dataset:
        """Opens ``benthic://POOL[:NS]/GROUP``.

        :param store: an open store, or the URI of one; None takes the URI of :func:`benthic.connect`
        :param pushdown: where chunks are selected and reduced: ``auto``, ``always`` beside the data,
            or ``never``
        """
        if not self.guess_can_open(filename_or_obj):
            raise InvalidArgumentError(f"the address must have the form benthic://POOL/GROUP got={filename_or_obj}")
        address = filename_or_obj.removeprefix(_SCHEME).rstrip("/")
        group = _Group(Connection(store), address, pushdown)
        return StoreBackendEntrypoint().open_dataset(
            group,
            mask_and_scale=mask_and_scale,
            decode_times=decode_times,
            concat_characters=concat_characters,
            decode_coords=decode_coords,
            drop_variables=drop_variables,
            use_cftime=use_cftime,
            decode_timedelta=decode_timedelta,
        )


_OPTIONS: dict[str, set[str]] = {
    **dict.fromkeys(("count", "any", "all"), {"keep_attrs"}),
    **dict.fromkeys(("sum", "prod", "min", "max", "mean", "median", "argmin", "argmax"), {"keep_attrs", "skipna"}),
    **dict.fromkeys(("var", "std"), {"keep_attrs", "skipna", "ddof"}),
    "quantile": {"keep_attrs", "skipna", "q"},
}


class _Reductions:
    """The names of the reductions."""

    def count(self, dim: Any = None, **options: Any) -> xr.DataArray:
        """The number of values that are not missing."""
        return self._reduce("count", dim, options)

    def sum(self, dim: Any = None, **options: Any) -> xr.DataArray:
        """The sum."""
        return self._reduce("sum", dim, options)

    def prod(self, dim: Any = None, **options: Any) -> xr.DataArray:
        """The product."""
        return self._reduce("prod", dim, options)

    def min(self, dim: Any = None, **options: Any) -> xr.DataArray:
        """The smallest value."""
        return self._reduce("min", dim, options)

    def max(self, dim: Any = None, **options: Any) -> xr.DataArray:
        """The largest value."""
        return self._reduce("max", dim, options)

    def mean(self, dim: Any = None, **options: Any) -> xr.DataArray:
        """The mean."""
        return self._reduce("mean", dim, options)

    def var(self, dim: Any = None, **options: Any) -> xr.DataArray:
        """The variance."""
        return self._reduce("var", dim, options)

    def std(self, dim: Any = None, **options: Any) -> xr.DataArray:
        """The standard deviation."""
        return self._reduce("std", dim, options)

    def median(self, dim: Any = None, **options: Any) -> xr.DataArray:
        """The median: the :meth:`BenthicAccessor.quantile` 0.5, which is approximate for many values."""
        return self._reduce("median", dim, options)

    def any(self, dim: Any = None, **options: Any) -> xr.DataArray:
        """Whether a value is not zero."""
        return self._reduce("any", dim, options)

    def all(self, dim: Any = None, **options: Any) -> xr.DataArray:
        """Whether all values are not zero."""
        return self._reduce("all", dim, options)

    def _reduce(self, kind: Kind, dim: Any, options: dict[str, Any]) -> xr.DataArray:
        raise NotImplementedError


@xr.register_dataarray_accessor("benthic")
class BenthicAccessor(_Reductions):
    """Reductions beside the chunks, with xarray's names and results."""

    def __init__(self, array: xr.DataArray) -> None:
        self._array = array
        self._wanted: tuple[float | None, float | None] = (None, None)
        self._condition: xr.DataArray | None = None

    @property
    def is_pushable(self) -> bool:
        """Whether reductions do not read the array into memory: it was opened with the engine
        ``benthic``, and then at most selected (each position once; an array of Dask without lists of positions),
        transposed and decoded by the CF conventions.
        """
        return self._stored() is not None

    def between(self, minimum: float | None = None, maximum: float | None = None) -> BenthicAccessor:
        """Reductions of the values from a minimum to a maximum, both included; others count as missing.

        >>> ds.t2m.benthic.between(273.15).count("time")
        """
        bounds = [None if bound is None else float(bound) for bound in (minimum, maximum)]
        if any(bound is not None and np.isnan(bound) for bound in bounds):
            raise InvalidArgumentError("the minimum and the maximum must not be NaN")
        accessor = BenthicAccessor(self._array)
        accessor._wanted, accessor._condition = (bounds[0], bounds[1]), self._condition
        return accessor

    def where(self, condition: xr.DataArray) -> BenthicAccessor:
        """Reductions of the values where a condition holds, as of ``DataArray.where``; others count as missing.

        The condition may be computed from any arrays, and may lack dimensions, which it then repeats. It is sent as one bit
        for each element, and a chunk in which it holds nowhere is not read, unless ``skipna`` is false.

        >>> ds.t2m.benthic.where(ds.land_fraction > 0.5).mean(["lat", "lon"])
        """
        if not isinstance(condition, xr.DataArray):
            raise InvalidArgumentError(f"a condition is a DataArray got={type(condition).__name__}")
        accessor = BenthicAccessor(self._array)
        accessor._wanted = self._wanted
        accessor._condition = condition if self._condition is None else self._condition & condition
        return accessor

    def groupby(self, *group: Any, **groupers: Any) -> _Grouped:
        """Reductions for each group of positions, with the arguments of ``DataArray.groupby``.

        >>> ds.t2m.benthic.groupby("time.month").mean()
        """
        return _Grouped(self, lambda array: array.groupby(*group, **groupers))

    def resample(self, *indexer: Any, **indexers: Any) -> _Grouped:
        """Reductions for each period, with the arguments of ``DataArray.resample``.

        >>> ds.t2m.benthic.resample(time="1ME").max()
        """
        return _Grouped(self, lambda array: array.resample(*indexer, **indexers))

    def coarsen(self, dim: Any = None, **options: Any) -> _Reductions:
        """Reductions of blocks of neighbours, with the arguments of ``DataArray.coarsen``.

        >>> ds.t2m.benthic.coarsen(lat=4, lon=4).mean()
        """
        return _Coarsened(self, dim, options)

    def regrid(
        self,
        weights: RegridWeights | xr.Dataset | str | os.PathLike[str],
        grid: xr.Dataset | None = None,
        *,
        skipna: bool = False,
        na_thres: float = 1.0,
        keep_attrs: bool = False,
    ) -> xr.DataArray:
        """The last dimensions on another grid, with weights of ESMF, xESMF, CDO or SCRIP: a dataset, or the path of a netCDF
        file. The arguments are those of xESMF.

        :param grid: a dataset with ``lat`` and ``lon`` of the new grid, if the weights lack them, as xESMF's do
        :param skipna: skip missing values, and divide by the weights of the others; otherwise they make cells missing
        :param na_thres: with ``skipna``, the largest part of a cell that may be missing, from 0 to 1

        Cells without weights are missing. An array of Dask is computed at once. The result has the floats of the array, and float64 for integers.

        >>> ds.t2m.benthic.regrid("weights.nc").sel(lat=50, lon=10)
        """
        matrix = RegridWeights.of(weights, grid)
        array, source = self._array, self._stored()
        outer = array.dims[: -matrix.rank]
        options: dict[str, Any] = {"skipna": skipna, "na_thres": na_thres}
        if (
            source is None
            or self._condition is not None
            or list(source.axes) != sorted(source.axes)
            or any(not isinstance(part, slice) for part in source.key[-matrix.rank :])
        ):
            values = matrix.apply(self._usual().to_numpy(), **options)
        else:
            stored, pushdown = source.data.stored, source.data.pushdown
            values = stored.regrid(matrix, source.key, decoding=source.decoding, pushdown=pushdown, **options)
        values = values.astype(array.dtype if array.dtype.kind == "f" else np.float64)
        kept = {name: value for name, value in array.coords.items() if set(value.dims) <= set(outer)}
        attrs = array.attrs if keep_attrs else {}
        return xr.DataArray(values, {**kept, **matrix.coords}, (*outer, *matrix.dims), array.name, attrs)

    def quantile(self, q: ArrayLike, dim: Any = None, **options: Any) -> xr.DataArray:
        """Quantiles, with the arguments ``skipna`` and ``keep_attrs`` of ``DataArray.quantile`` and its results.

        They are exact if at most 4,096 different values are reduced to one, for example along a time axis of 4,096
        steps. Otherwise they are approximate: the values between which a quantile lies have a relative error of at
        most ``b`` / 4000, where ``b`` is the number of pairs of a sign and a power of two into which the values fall.
        This is 0.05 % for values from 130 to 500. If the results need more memory than 1 GiB, it raises
        :class:`~benthic.LimitExceededError`; select a part, or use :meth:`coarsen`.

        >>> ds.t2m.benthic.quantile([0.05, 0.95], "time")
        """
        quantiles = np.asarray(q, float)
        names = _names(self._array, dim)
        values = self._values(self._stored(), "quantile", names, {}, {**options, "q": np.atleast_1d(quantiles)})
        if values is None:
            return self._usual().quantile(q, dim, **options)
        # xarray decides about type, coordinates and attributes.
        line = self._form().isel({name: [0] for name in names})
        form: xr.DataArray = line.quantile(q, dim, keep_attrs=options.get("keep_attrs"))
        data = np.moveaxis(values, -1, 0) if quantiles.ndim else values[..., 0]
        return form.copy(data=data.astype(form.dtype))

    def argmin(self, dim: Hashable | None = None, **options: Any) -> xr.DataArray:
        """The position of the first smallest value along a dimension, or among all values."""
        return self._reduce("argmin", dim, options)

    def argmax(self, dim: Hashable | None = None, **options: Any) -> xr.DataArray:
        """The position of the first largest value along a dimension, or among all values."""
        return self._reduce("argmax", dim, options)

    def _reduce(self, kind: Kind, dim: Any, options: dict[str, Any]) -> xr.DataArray:
        names = _names(self._array, dim)
        values = None
        # Over no dimension, xarray replaces no NaN.
        if names and (kind not in ("argmin", "argmax") or dim is None or isinstance(dim, str)):
            values = self._values(self._stored(), kind, names, {}, options)
        if values is None:
            as_usual: xr.DataArray = getattr(self._usual(), kind)(dim, **options)
            return as_usual
        # xarray decides about coordinates and attributes.
        return self._form().reduce(lambda *_, **__: values, dim=names, keep_attrs=options.get("keep_attrs"))

    def _stored(self) -> Source | None:
        source = source_of(self._array.variable)
        if source is None or (self._wanted == (None, None) and self._condition is None):
            return source
        if self._condition is not None and not self._is_repeated(self._condition):
            return None
        dtype = self._array.dtype
        if source.decoding is None and dtype.kind not in "iuf":
            return None
        # xarray turns small integers into float32, to mark missing ones with NaN.
        is_single = dtype == np.float32 or (dtype.kind in "iu" and dtype.itemsize <= 2)
        minimum, maximum = self._wanted
        if dtype.kind in "iu":
            minimum = None if minimum is None else float(np.ceil(minimum))
            maximum = None if maximum is None else float(np.floor(maximum))
        decoding = replace(
            source.decoding or Decoding(is_single=is_single), wanted_min=minimum, wanted_max=maximum
        )
        return replace(source, decoding=decoding)

    def _usual(self) -> xr.DataArray:
        """The array whose reductions xarray computes."""
        array = self._array if self._condition is None else self._array.where(self._condition)
        minimum, maximum = self._wanted
        if minimum is not None:
            array = array.where(self._array >= minimum)
        if maximum is not None:
            array = array.where(self._array <= maximum)
        return array

    def _is_repeated(self, condition: xr.DataArray) -> bool:
        """Whether a condition has only positions and coordinates of the array, all positions along each of its dimensions."""
        if not set(condition.dims) <= set(self._array.dims) or not set(condition.coords) <= set(self._array.coords):
            return False
        try:
            xr.align(self._array, condition, join="exact")
        except ValueError:
            return False
        return True

    def _mask(self) -> Any:
        """The condition as bools that can be broadcast to the array, in memory or as an array of Dask."""
        if self._condition is None:
            return None
        sizes = {name: self._condition.sizes.get(name, 1) for name in self._array.dims}
        return self._condition.variable.set_dims(sizes).data.astype(bool)

    def _form(self) -> xr.DataArray:
        """A broadcast zero with the same dimensions, coordinates and attributes."""
        array = self._array
        return array.copy(deep=False, data=np.broadcast_to(np.zeros((), array.dtype), array.shape))

    def _values(
        self,
        source: Source | None,
        kind: Kind,
        reduced: list[Hashable],
        groups: dict[Hashable, NDArray[Any]],
        options: dict[str, Any],
    ) -> Any:
        """The results, in memory or as an array of Dask. None if xarray must compute them."""
        array = self._array
        if source is None or not options.keys() <= _OPTIONS[kind] or array.size == 0:
            return None
        # Beyond these limits, xarray computes.
        if any(group.max(initial=-1) >= GROUPS_MAX or group.size > POSITIONS_MAX for group in groups.values()):
            return None
        lists = [part for part in source.key if isinstance(part, np.ndarray)]
        if lists and kind in ("argmin", "argmax"):
            return None
        if any(part.size > GROUPS_MAX or np.ptp(part) >= POSITIONS_MAX for part in lists):
            return None
        # The position among all values depends on the order of the axes.
        if kind in ("argmin", "argmax") and len(reduced) > 1 and list(source.axes) != sorted(source.axes):
            return None
        is_float = array.dtype.kind == "f" or source.decoding is not None
        # xarray's any and all never skip NaN.
        skipna = False if kind in ("any", "all") else options.get("skipna")
        q = options.get("q")
        one = xr.DataArray(np.ones(1, array.dtype))
        if source.decoding is not None:
            one = one.where(one > 0)
        axis_of = {name: axis for axis, name in enumerate(array.dims)}
        reduction = Reduction(
            kind=kind,
            axes=[axis_of[name] for name in reduced],
            skipna=is_float if skipna is None else bool(skipna),
            ddof=options.get("ddof", 0),
            q=None if q is None else list(q),
            dtype=np.dtype(float) if kind == "quantile" else getattr(one, kind)().dtype,
        )
        by_axis = {axis_of[name]: positions for name, positions in groups.items()}
        mask = self._mask()
        if array.chunks is not None:
            return _dask.reduce_lazily(source, array.chunks, reduction, by_axis, mask)
        return source.reduce(reduction, by_axis, None if mask is None else np.asarray(mask))


class _Grouped(_Reductions):
    """Reductions for each group of positions along one dimension."""

    def __init__(self, accessor: BenthicAccessor, group: Callable[[xr.DataArray], Any]) -> None:
        self._accessor = accessor
        self._group = group

    def quantile(self, q: ArrayLike, dim: Any = None, **options: Any) -> xr.DataArray:
        """Quantiles of each group, as approximate as those of :meth:`BenthicAccessor.quantile`."""
        result = self._push("quantile", dim, {**options, "q": np.atleast_1d(np.asarray(q, float))})
        if result is None:
            as_usual: xr.DataArray = self._group(self._accessor._usual()).quantile(q, dim, **options)
            return as_usual
        return result if np.ndim(q) else result.isel(quantile=0)

    def _reduce(self, kind: Kind, dim: Any, options: dict[str, Any]) -> xr.DataArray:
        result = self._push(kind, dim, options)
        if result is None:
            result = getattr(self._group(self._accessor._usual()), kind)(dim, **options)
        return result

    def _push(self, kind: Kind, dim: Any, options: dict[str, Any]) -> xr.DataArray | None:
        array = self._accessor._array
        source = self._accessor._stored()
        if source is None:
            return None
        grouped = self._group(self._accessor._form())
        along = getattr(grouped, "_group_dim", None)
        names = [along] if dim is None else _names(array, dim)
        if along not in array.dims or along not in names:
            return None
        # xarray groups the positions along the dimension, and gives each group its number.
        coordinates = {name: value for name, value in array.coords.items() if value.dims == (along,)}
        positions = np.arange(array.sizes[along])
        coordinates[_POSITIONS] = xr.DataArray(positions, dims=[along])
        line = xr.DataArray(positions, coordinates, [along], array.name, array.attrs)
        members: list[NDArray[Any]] = []

        def number(positions: NDArray[Any], **_: Any) -> float:
            members.append(np.ravel(positions))
            return float(len(members) - 1)

        numbers = self._group(line).reduce(number, dim=along, keep_attrs=options.get("keep_attrs"))
        if numbers.ndim != 1:
            return None
        # A group without members, such as a period without data, has no number, and its result is NaN.
        is_empty = np.isnan(numbers.values)
        if is_empty.any() and (kind in ("any", "all") or array.dtype.kind != "f"):
            return None
        groups = np.full(line.size, -1)
        for index, member in enumerate(numbers.values):
            if not is_empty[index]:
                groups[members[int(member)]] = index
        reduced = [name for name in names if name != along]
        values = self._accessor._values(source, kind, reduced, {along: groups}, options)
        if values is None:
            return None
        kept = [name for name in array.dims if name not in reduced]
        axis = kept.index(along)
        dims = [numbers.dims[0] if name == along else name for name in kept]
        if kind == "quantile":
            dims.append("quantile")
        results = xr.Variable(dims, values)
        if is_empty.any():
            # The last groups have no number if they are empty.
            pads = {dims[axis]: (0, len(is_empty) - values.shape[axis])}
            results = results.pad(pads).where(xr.Variable(dims[axis], ~is_empty))
        others = {name: value for name, value in array.coords.items() if set(value.dims) <= set(kept)}
        if _POSITIONS in numbers.coords:
            # Each group has one position, and xarray keeps the coordinates along the dimension.
            own = numbers.coords[_POSITIONS].values
            numbers = numbers.drop_vars(_POSITIONS)
            others = {name: value.isel({along: own}, missing_dims="ignore") for name, value in others.items()}
        else:
            others = {name: value for name, value in others.items() if along not in value.dims}
        if kind == "quantile":
            others["quantile"] = xr.DataArray(options["q"], dims="quantile")
        return xr.DataArray(results.data, {**others, **numbers.coords}, dims, numbers.name, numbers.attrs)


class _Coarsened(_Reductions):
    """Reductions of blocks of neighbours."""

    def __init__(self, accessor: BenthicAccessor, dim: Any, options: dict[str, Any]) -> None:
        self._accessor = accessor
        self._dim = dim
        self._options = options

    def _option(self, option: str, default: str, dimension: Hashable) -> str:
        value: Any = self._options.get(option, default)
        chosen: str = value.get(dimension, default) if isinstance(value, Mapping) else value
        return chosen

    def _coarsen(self, array: xr.DataArray) -> Any:
        return array.coarsen(self._dim, **self._options)

    def _reduce(self, kind: Kind, dim: Any, options: dict[str, Any]) -> xr.DataArray:
        array = self._accessor._array
        windows = {**(self._dim or {}), **{name: self._options[name] for name in array.dims if name in self._options}}
        values = None
        source = self._accessor._stored() if dim is None else None
        if source is not None:
            if all(self._option("boundary", "exact", name) in ("exact", "trim") for name in windows):
                # xarray decides about coordinates and attributes, and checks the arguments.
                form = self._coarsen(self._accessor._form()).reduce(_zeros, keep_attrs=options.get("keep_attrs"))
                groups = {
                    name: _blocks(array.sizes[name], window, self._option("side", "left", name))
                    for name, window in windows.items()
                }
                values = self._accessor._values(source, kind, [], groups, options)
        if values is None:
            positional = () if dim is None else (dim,)
            as_usual: xr.DataArray = getattr(self._coarsen(self._accessor._usual()), kind)(*positional, **options)
            return as_usual
        result: xr.DataArray = form.copy(data=values)
        return result


def _zeros(blocks: NDArray[Any], axis: tuple[int, ...], **_: Any) -> NDArray[Any]:
    shape = [size for place, size in enumerate(blocks.shape) if place not in axis]
    return np.broadcast_to(np.zeros((), blocks.dtype), shape)


def _blocks(size: int, window: int, side: str) -> NDArray[Any]:
    """The number of the block of each position; -1 for positions beside the whole blocks."""
    blocks = size // window
    numbers = np.full(size, -1)
    start = 0 if side == "left" else size - blocks * window
    numbers[start : start + blocks * window] = np.repeat(np.arange(blocks), window)
    return numbers


def _names(array: xr.DataArray, dim: Any) -> list[Hashable]:
    if dim is None or dim is ...:
        return list(array.dims)
    names: list[Hashable] = [dim] if isinstance(dim, str) or not isinstance(dim, Iterable) else list(dim)
    missing = [name for name in names if name not in array.dims]
    if missing:
        known = ",".join(map(str, array.dims))
        raise InvalidArgumentError(f"the array has no such dimension dimension={missing[0]} dimensions={known}")
    return names
