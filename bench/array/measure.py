"""Measures reductions of a climate field against Dask, xarray with s3fs, Reductionist and `zarrs`.

`make bench-arrays` builds what this needs and runs it. All ways run in turns in one run of this program, after one
warm-up each, so the caches of the OSDs are warm. Every result is checked against NumPy's. The tables show medians.

embedded  benthic on a directory, and Dask with zarr-python on the same files before `benthic mirror` copied them
near      Ceph on the loopback interface; radosgw, our S3 gateway and Reductionist serve from the same cluster
far       the same behind a link of 100 Mbit/s and 10 ms. All daemons, also the S3 servers and Reductionist, are on the side of
          the OSDs, and only this process is on the other side. So Reductionist reads chunks at full speed, and every way pays
          for the same link. "Bytes" are those of the link's interface, in both directions, with all protocols.
decoding  our decoder and that of `zarrs` on the chunks in memory, one thread each
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import asdict, dataclass
from dataclasses import field as new
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import benthic
import field
import numpy as np
import s3fs
from field import REDUCTIONS, Reduction, Values
from services import BUCKET, Cluster, Skipped, run
from ways import THREADS, Benthic, DaskDirectory, Reductionist, Way, XarrayS3

T = TypeVar("T")
FAR = ("--sites", "far", "--rtt-ms", "10", "--mbit-per-s", "100")
NEVER, ALWAYS, AUTO = "never", "always", "auto"
DIRECTORY, RADOSGW, GATEWAY = "dask, directory", "xarray, radosgw", "xarray, our gateway"
REDUCTIONIST = "Reductionist"
WAYS = (NEVER, ALWAYS, AUTO, DIRECTORY, RADOSGW, GATEWAY, REDUCTIONIST)
ERROR_MAX = 1e-5
CONCURRENT_REQUESTS = (2, 4, 8, 16)


@dataclass
class Row:
    """One reduction of one field: the values of each round, by way."""

    setup: str
    encoding: str
    reduction: str
    seconds: dict[str, list[float]] = new(default_factory=dict)
    moved_bytes: dict[str, list[int]] = new(default_factory=dict)
    # The largest relative error of all rounds.
    error: dict[str, float] = new(default_factory=dict)


@dataclass
class Aim:
    """A ratio that should be reached by every row of a setup."""

    setup: str
    what: str
    wanted: float
    is_minimum: bool
    ratios: dict[str, float]

    def met(self) -> int:
        """The number of rows that reach it."""
        return sum(ratio >= self.wanted if self.is_minimum else ratio <= self.wanted for ratio in self.ratios.values())


class Run:
    """The options and the measurements."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.work: Path = options.out / "work"
        self.rows: list[Row] = []
        self.decoding: list[dict[str, Any]] = []
        self.skipped: list[str] = []

    def skip(self, what: str, reason: object) -> None:
        """Notes a gap in the results."""
        self.skipped.append(f"{what}: {reason}")
        say(f"skipped: {what}: {reason}")

    def write_field(self, times: int, encoding: str) -> tuple[Path, Values]:
        """A directory with the field, and its values."""
        directory = self.work / str(times) / encoding
        data = field.make(times)
        if not directory.exists():
            say(f"writing {times} times as {encoding}")
            field.write(directory, data, encoding)
        return directory, data

    def measure(
        self, setup: str, encoding: str, ways: dict[str, Way], data: Values, link: Callable[[], int | None] | None
    ) -> None:
        """Measures all reductions in all ways, in turns."""
        exact = [field.expected(data, reduction) for reduction in REDUCTIONS]
        for name, way in list(ways.items()):
            say(f"{setup} {encoding}: warm-up of {name}")
            try:
                if isinstance(way, Reductionist):
                    choose_requests(way)
                else:
                    way.run(REDUCTIONS[0])
            except Skipped as reason:
                self.skip(f"{setup} {encoding} {name}", reason)
                del ways[name]
        rows = [Row(setup, encoding, reduction.name) for reduction in REDUCTIONS]
        for _ in range(self.options.rounds):
            for reduction, row, wanted in zip(REDUCTIONS, rows, exact, strict=True):
                for name, way in list(ways.items()):
                    try:
                        self.measure_once(reduction, row, name, way, wanted, link)
                    except Skipped as reason:
                        self.skip(f"{setup} {encoding} {name}", reason)
                        del ways[name]
        self.rows += rows

    def measure_once(
        self, reduction: Reduction, row: Row, name: str, way: Way, wanted: Values, link: Callable[[], int | None] | None
    ) -> None:
        """Measures one run and checks its result."""
        link_before = link() if link else None
        start = time.perf_counter()
        result = way.run(reduction)
        took = time.perf_counter() - start
        crossed = link() if link else None
        moved = way.moved_bytes if crossed is None or link_before is None else crossed - link_before
        error = float(np.max(np.abs(np.asarray(result, float) / wanted - 1)))
        what = f"{row.setup} {row.encoding}, {row.reduction}, {name}"
        error_max = way.tolerance if reduction.axis is None else ERROR_MAX
        if np.shape(result) != np.shape(wanted) or not error <= error_max:
            sys.exit(f"WRONG RESULT: {what}: relative error {error}")
        row.seconds.setdefault(name, []).append(took)
        row.moved_bytes.setdefault(name, []).append(moved)
        row.error[name] = max(error, row.error.get(name, 0))
        say(f"{what}: {took:.3f} s, {moved:,} bytes, error {error:.0e}")

    def embedded(self) -> None:
        """An embedded store against files."""
        uri = f"file:{self.work}/store"
        for encoding in ("blosc-zstd", "raw"):
            directory, data = self.write_field(self.options.times, encoding)
            mirror = ["--store", uri, "mirror", "--create-pool", str(directory), f"bench/{encoding}/"]
            run([f"{self.options.programs}/benthic", *mirror])
            with benthic.connect(uri) as store:
                address = f"bench/{encoding}/{field.NAME}"
                ways: dict[str, Way] = {AUTO: Benthic(store, address, "auto"), DIRECTORY: DaskDirectory(directory)}
                self.measure("embedded", encoding, ways, data, None)

    def on_ceph(self, setup: str, site: str | None, arguments: tuple[str, ...], times: int, encodings: list[str]) -> None:
        """A cluster with S3 servers and Reductionist."""
        cluster = Cluster(self.options.programs, setup, site)
        say(f"{setup}: starting a cluster")
        with cluster.up("--osds", "3", *arguments), ExitStack() as stack:
            radosgw = self.start(stack, f"{setup} radosgw", cluster.radosgw())
            gateway = self.start(stack, f"{setup} gateway", cluster.gateway())
            reductionist = self.start(
                stack, f"{setup} Reductionist", cluster.reductionist(self.options.reductionist, THREADS)
            )
            store = stack.enter_context(benthic.connect(cluster.store))
            for encoding in encodings:
                directory, data = self.write_field(times, encoding)
                say(f"{setup} {encoding}: loading")
                cluster.benthic("mirror", "--create-pool", str(directory), f"bench/{encoding}/")
                address, path = f"bench/{encoding}/{field.NAME}", f"{BUCKET}/{encoding}"
                ways: dict[str, Way] = {
                    NEVER: Benthic(store, address, "never"),
                    ALWAYS: Benthic(store, address, "always"),
                    AUTO: Benthic(store, address, "auto"),
                }
                for name, s3 in ((RADOSGW, radosgw), (GATEWAY, gateway)):
                    if s3 is not None:
                        s3fs.S3FileSystem(**s3.options).put(f"{directory}/", f"{path}/", recursive=True)
                        ways[name] = XarrayS3(s3, path)
                if reductionist is not None and radosgw is not None:
                    ways[REDUCTIONIST] = Reductionist(reductionist, radosgw, path, encoding, data.shape)
                self.measure(setup, encoding, ways, data, cluster.link_bytes)

    def start(self, stack: ExitStack, name: str, service: AbstractContextManager[T]) -> T | None:
        """Starts a service. The run goes on without it if that fails."""
        try:
            say(f"starting {name}")
            return stack.enter_context(service)
        except Exception as error:
            self.skip(name, error)
            return None

    def decode(self) -> None:
        """Decoding alone."""
        program = self.options.programs / "bench-array"
        if not program.exists():
            self.skip("decoding", f"{program} is missing")
            return
        for encoding in ("blosc-zstd", "zlib"):
            directory, _ = self.write_field(self.options.far_times, encoding)
            say(f"decoding {encoding}")
            printed = run([str(program), str(directory / field.NAME), str(self.options.rounds)])
            self.decoding.append({"encoding": encoding, **json.loads(printed)})

    def aims(self) -> list[Aim]:
        """The aims of the measured setups."""

        def ratios(setup: str, of: Callable[[Row], float | None]) -> dict[str, float]:
            found = {f"{row.encoding}, {row.reduction}": of(row) for row in self.rows if row.setup == setup}
            return {name: ratio for name, ratio in found.items() if ratio is not None}

        def faster(than: str) -> Callable[[Row], float | None]:
            return lambda row: _median(row.seconds[than]) / _median(row.seconds[AUTO]) if than in row.seconds else None

        def choice(row: Row) -> float:
            return _median(row.seconds[AUTO]) / min(_median(row.seconds[name]) for name in (NEVER, ALWAYS))

        def bytes_share(row: Row) -> float | None:
            moved = row.moved_bytes
            return _median(moved[AUTO]) / _median(moved[RADOSGW]) if RADOSGW in moved else None

        decoding = {one["encoding"]: _median(one["zarrs_s"]) / _median(one["ours_s"]) for one in self.decoding}
        aims = [
            Aim("embedded", "speed against Dask on files", 1, True, ratios("embedded", faster(DIRECTORY))),
            Aim("near", "speed against Reductionist", 1.5, True, ratios("near", faster(REDUCTIONIST))),
            Aim("near", "time of auto against the better of never and always", 1.1, False, ratios("near", choice)),
            Aim("far", "speed against xarray, zarr and s3fs on radosgw", 10, True, ratios("far", faster(RADOSGW))),
            Aim("far", "bytes against these", 0.01, False, ratios("far", bytes_share)),
            Aim("far", "speed against Reductionist", 1, True, ratios("far", faster(REDUCTIONIST))),
            Aim("far", "time of auto against the better of never and always", 1.1, False, ratios("far", choice)),
            Aim("decoding", "speed against zarrs", 0.9, True, decoding),
        ]
        return [aim for aim in aims if aim.ratios]

    def markdown(self, conditions: dict[str, str]) -> str:
        """The tables."""
        lines = [f"- {name}: {value}" for name, value in conditions.items()]
        errors = {name: max(row.error.get(name, 0) for row in self.rows) for name in WAYS} if self.rows else {}
        lines.append("- largest relative errors: " + ", ".join(f"{name} {error:.0e}" for name, error in errors.items()))
        lines += [f"- skipped: {what}" for what in self.skipped]
        lines += ["", f"| setup | field | reduction | {' | '.join(WAYS)} |", "| --- " * (3 + len(WAYS)) + "|"]
        for row in self.rows:
            cells = [_cell(row, name) for name in WAYS]
            lines.append(f"| {row.setup} | {row.encoding} | {row.reduction} | {' | '.join(cells)} |")
        for one in self.decoding:
            rates = [f"{one['bytes'] / _median(one[name]) / 1e6:.0f} MB/s" for name in ("ours_s", "zarrs_s")]
            lines.append(f"| decoding | {one['encoding']} | | {rates[0]} by us, {rates[1]} by zarrs |" + " |" * (len(WAYS) - 1))
        lines += ["", "| setup | what | aim | ratio of each row | met |", "| --- | --- | --- | --- | --- |"]
        for aim in self.aims():
            all_ratios = "; ".join(f"{name}: {ratio:.3g}" for name, ratio in aim.ratios.items())
            wanted = f"at {'least' if aim.is_minimum else 'most'} {aim.wanted:g}"
            lines.append(f"| {aim.setup} | {aim.what} | {wanted} | {all_ratios} | {aim.met()} of {len(aim.ratios)} |")
        return "\n".join(lines)


def choose_requests(way: Reductionist) -> None:
    """Uses the number of concurrent requests with which Reductionist is fastest."""
    took = {}
    for requests in CONCURRENT_REQUESTS:
        way.use(requests)
        way.run(REDUCTIONS[0])
        start = time.perf_counter()
        way.run(REDUCTIONS[0])
        took[requests] = time.perf_counter() - start
    best = min(took, key=lambda requests: took[requests])
    say(f"Reductionist with {best} concurrent requests")
    way.use(best)


def _median(values: list[float] | list[int]) -> float:
    return float(statistics.median(values))


def _cell(row: Row, name: str) -> str:
    if name not in row.seconds:
        return ""
    moved = _median(row.moved_bytes[name])
    return f"{_median(row.seconds[name]):.3f} s" + (f", {moved / 1e6:.3g} MB" if moved and row.setup != "embedded" else "")


def say(line: str) -> None:
    """Prints progress."""
    print(f"==> {line}", file=sys.stderr, flush=True)


def _stop(*_: object) -> None:
    raise SystemExit(143)


def main() -> None:
    """Measures, prints the tables and writes them."""
    parser = argparse.ArgumentParser(description="Reductions of arrays against other ways.")
    parts = ("embedded", "near", "far", "decoding")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"what to measure: {', '.join(parts)}; default all")
    parser.add_argument("--times", type=int, default=72, help="hours of the field, a multiple of 24")
    parser.add_argument("--far-times", type=int, default=48, help="the same for the parts far and decoding")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="24 hours and one round, to test this program")
    parser.add_argument("--programs", type=Path, default=Path("target/release"), help="directory of our programs")
    parser.add_argument("--reductionist", type=Path, default=Path("target/reductionist/bin/reductionist"))
    parser.add_argument("--out", type=Path, default=Path("target/bench-arrays"), help="directory of the results")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    options = parser.parse_args()
    if options.quick:
        options.times, options.far_times, options.rounds = 24, 24, 1
    if options.times % field.CHUNKS[0] or options.far_times % field.CHUNKS[0] or not set(options.parts) <= set(parts):
        parser.error(f"the parts are {', '.join(parts)}, and hours are multiples of {field.CHUNKS[0]}")
    for name in ("programs", "reductionist", "out"):
        setattr(options, name, getattr(options, name).resolve())
    signal.signal(signal.SIGTERM, _stop)
    wanted = options.parts or parts
    measured = Run(options)
    cpu = Path("/proc/cpuinfo").read_text().splitlines()
    conditions = {
        "CPU": next((line[13:].strip() for line in cpu if line.startswith("model name")), "unknown"),
        "cores": str(THREADS),
        "versions": ", ".join(f"{name} {version(name)}" for name in ("zarr", "dask", "xarray", "s3fs", "numpy")),
        "load before": " ".join(Path("/proc/loadavg").read_text().split()[:3]),
        "hours of the field": f"{options.times}; far and decoding {options.far_times}",
        "rounds": f"{options.rounds}, medians; the ways in turns",
    }
    shutil.rmtree(measured.work, ignore_errors=True)
    try:
        if "embedded" in wanted:
            measured.embedded()
        if "decoding" in wanted:
            measured.decode()
        if "near" in wanted:
            measured.on_ceph("near", None, (), options.times, list(field.COMPRESSORS))
        if "far" in wanted:
            # Uncompressed, every run that reads the field takes 16 s more and shows nothing new.
            measured.on_ceph("far", "far", FAR, options.far_times, ["blosc-zstd", "zlib"])
    finally:
        shutil.rmtree(measured.work, ignore_errors=True)
        if measured.rows or measured.decoding:
            report(measured, conditions)


def report(measured: Run, conditions: dict[str, str]) -> None:
    """Prints the results, also those of a run that was interrupted."""
    options = measured.options
    results = {
        "conditions": conditions,
        "skipped": measured.skipped,
        "rows": [asdict(row) for row in measured.rows],
        "decoding": measured.decoding,
        "aims": [{**asdict(aim), "met": aim.met()} for aim in measured.aims()],
    }
    tables, text = measured.markdown(conditions), json.dumps(results, indent=1)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "report.md").write_text(tables + "\n")
    (options.out / "report.json").write_text(text + "\n")
    print(text if options.json else tables)


if __name__ == "__main__":
    main()
