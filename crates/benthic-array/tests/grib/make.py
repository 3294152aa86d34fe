"""Makes `packings.grib`, a message for each packing, and `packings.f32`, their values as ecCodes decodes them.

Needs the package `eccodes` (2.50 made the files). Every field has 12 x 10 points.
"""

import pathlib

import eccodes
import numpy as np

HERE = pathlib.Path(__file__).parent
NI, NJ = 12, 10
MISSING = 9999.0


def message(edition, packing, values, bits=11, decimal=None, missing=None, **keys):
    handle = eccodes.codes_grib_new_from_samples(f"regular_ll_pl_grib{edition}")
    settings = {
        "Ni": NI,
        "Nj": NJ,
        "latitudeOfFirstGridPointInDegrees": 45,
        "latitudeOfLastGridPointInDegrees": 0,
        "longitudeOfFirstGridPointInDegrees": 0,
        "longitudeOfLastGridPointInDegrees": 55,
        "iDirectionIncrementInDegrees": 5,
        "jDirectionIncrementInDegrees": 5,
        "bitsPerValue": bits,
    }
    for key, value in settings.items():
        eccodes.codes_set(handle, key, value)
    if missing is not None:
        eccodes.codes_set(handle, "missingValue", MISSING)
        eccodes.codes_set(handle, "bitmapPresent", 1)
        values = np.where(missing, MISSING, values)
    # With the values, because a constant field cannot have every packing.
    eccodes.codes_set_values(handle, values.ravel())
    eccodes.codes_set(handle, "packingType", packing)
    for key, value in (keys | {"bitsPerValue": bits}).items():
        eccodes.codes_set(handle, key, value)
    if decimal is not None:
        eccodes.codes_set(handle, "changeDecimalPrecision", decimal)
    eccodes.codes_set_values(handle, values.ravel())
    assert eccodes.codes_get(handle, "packingType") == packing
    return handle


random = np.random.default_rng(5)
smooth = 270 + 15 * np.sin(np.arange(NI) / 3) + np.arange(NJ)[:, None] ** 1.5
noisy = smooth + random.normal(size=(NJ, NI))
steps = np.round(noisy / 8) * 8
steps[2:6] = 280.0
holes = random.random((NJ, NI)) < 0.3
constant = np.full((NJ, NI), 273.25)
messages = [
    message(1, "grid_simple", noisy),
    message(1, "grid_simple", noisy, bits=16, missing=holes),
    message(1, "grid_simple", -noisy, decimal=2),
    message(1, "grid_simple", constant, missing=holes),
    message(2, "grid_simple", noisy, bits=9),
    message(2, "grid_simple", noisy, bits=24, missing=holes),
    message(2, "grid_simple", noisy / 1e4, decimal=5),
    message(2, "grid_simple", constant, missing=holes),
    message(2, "grid_ieee", noisy, precision=1),
    message(2, "grid_ieee", noisy, precision=2),
    message(2, "grid_complex", noisy),
    message(2, "grid_complex", steps, missing=holes),
    message(2, "grid_complex_spatial_differencing", noisy, orderOfSpatialDifferencing=1),
    message(2, "grid_complex_spatial_differencing", noisy, orderOfSpatialDifferencing=2),
    message(2, "grid_complex_spatial_differencing", steps, missing=holes),
    message(2, "grid_ccsds", noisy, bits=16),
    message(2, "grid_ccsds", steps, bits=7, missing=holes),
    message(2, "grid_ccsds", smooth, bits=24),
    message(2, "grid_ccsds", steps, bits=12),
]
expected = []
with (HERE / "packings.grib").open("wb") as file:
    for handle in messages:
        eccodes.codes_set(handle, "missingValue", MISSING)
        values = eccodes.codes_get_values(handle)
        expected.append(np.where(values == MISSING, np.nan, values).astype("<f4"))
        keys = ("edition", "packingType", "bitsPerValue", "totalLength", "missingValueManagementUsed")
        found = [eccodes.codes_get(handle, key) if eccodes.codes_is_defined(handle, key) else "-" for key in keys]
        print(*found, int(np.isnan(expected[-1]).sum()))
        eccodes.codes_write(handle, file)
np.concatenate(expected).tofile(HERE / "packings.f32")
