"""Makes `parameters.tsv` from the definitions of ecCodes (Debian: libeccodes-data).

A row without surface, level or statistic is for all of them. `parameters.rs` takes the row that fits best.
"""

import pathlib
import re

DEFINITIONS = pathlib.Path("/usr/share/eccodes/definitions")
# Edition, folder, centre, and the tables of edition 1: WMO's, and those of ERA5 (waves, mean rates).
SOURCES = [
    (1, "grib1", "", ["2"]),
    (1, "grib1/localConcepts/ecmf", "98", ["128", "140", "228", "235"]),
    (2, "grib2", "", None),
    (2, "grib2/localConcepts/kwbc", "7", None),
    (2, "grib2/localConcepts/ecmf", "98", None),
]
# Conditions of edition 2 that a row can have.
CONDITIONS = [
    "typeOfFirstFixedSurface",
    "scaledValueOfFirstFixedSurface",
    "typeOfStatisticalProcessing",
]


def concepts(path):
    text = path.read_text() if path.exists() else ""
    for value, body in re.findall(r"'([^']*)'\s*=\s*\{([^}]*)\}", text):
        yield value, tuple(sorted(re.findall(r"(\w+)\s*=\s*([\w.-]+)", body)))


def rows():
    for edition, folder, centre, tables in SOURCES:
        files = ["cfVarName", "shortName", "units", "name", "cfName"]
        short, var, units, name, standard = ({}, {}, {}, {}, {})
        for file, found in zip(files, [var, short, units, name, standard]):
            found.update({conditions: value for value, conditions in concepts(DEFINITIONS / folder / f"{file}.def")})
        for conditions, own in short.items():
            keys = dict(conditions)
            # Tables of edition 1 in edition 2, which few files have.
            if keys.get("discipline") == "192":
                continue
            if edition == 1:
                if keys.pop("table2Version") not in tables or "indicatorOfTypeOfLevel" in keys:
                    continue
                number = f"{dict(conditions)['table2Version']}.{keys['indicatorOfParameter']}"
                narrow = ["", "", ""]
            else:
                number = ".".join(keys.pop(key) for key in ("discipline", "parameterCategory", "parameterNumber"))
                if keys.pop("scaleFactorOfFirstFixedSurface", "0") != "0":
                    continue
                for ignored in ("typeOfSecondFixedSurface", "localTablesVersion"):
                    keys.pop(ignored, None)
                narrow = [keys.pop(condition, "") for condition in CONDITIONS]
                if keys:
                    continue
            name_of = name.get(conditions, own)
            if name_of.startswith("Experimental") or "Reserved" in name_of or own.startswith("~"):
                continue
            text = [var.get(conditions, own), units.get(conditions, "1"), name_of, standard.get(conditions, "")]
            text = ["" if item in ("~", "unknown") else item for item in text]
            yield [str(edition), centre, number, *narrow, *text]


lines = ["\t".join(row) for row in rows()]
path = pathlib.Path(__file__).with_name("parameters.tsv")
path.write_text("\n".join(dict.fromkeys(lines)) + "\n")
