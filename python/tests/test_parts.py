"""Scans of a table that other processes can run."""

import multiprocessing
import os
import pickle
import subprocess
import sys
from datetime import timedelta

import benthic
import numpy
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from benthic.engines.parts import Part, scan_of
from engine_tables import rows_of

COUNT = 120_000


@pytest.fixture(scope="module")
def scanned(durable):
    rows = pa.table({"id": range(COUNT), "half": [None if id % 2 else id / 2 for id in range(COUNT)]})
    noise = numpy.random.default_rng(7).bytes(COUNT * 24)
    rows = rows.append_column("noise", pa.array([noise[at : at + 24] for at in range(0, len(noise), 24)], pa.binary()))
    return durable.table(rows, sort_by="id", object_size="1MiB")


def test_parts_hold_all_objects_once(scanned):
    scan = scan_of(scanned, ["id"], None, None, "auto")
    objects = scanned.objects()
    for size, count in ((0, len(objects)), ("1GiB", 1), (2 * max(object.data_bytes for object in objects), -(-len(objects) // 2))):
        parts = scan.parts(size)
        assert len(parts) == count
        assert [name for part in parts for name in part.objects] == [object.name for object in objects]
        assert sum(part.rows for part in parts) == COUNT
    assert scan_of(scanned, None, "id < 0", None, "auto").parts(0) == [Part((), 0, 0)]


def test_a_scan_runs_in_another_process(scanned):
    filter = pc.field("id").isin([1, 2, COUNT - 2]) & pc.field("half").is_valid()
    scan = pickle.loads(pickle.dumps(scan_of(scanned, ["half"], filter, None, "auto")))
    with multiprocessing.get_context("spawn").Pool(2) as processes:
        found = processes.starmap(rows_of, [(scan, part) for part in scan.parts(0)])
    assert [row for rows in found for row in rows] == [{"half": 1.0}, {"half": COUNT / 2 - 1}]


def test_a_forked_process_connects_again_but_not_to_a_cluster(scanned):
    scan = scan_of(scanned, ["id"], "id < 3", None, "auto")
    part = scan.parts(0)[0]
    assert len(rows_of(scan, part)) == 3
    on_ceph = scan.uri.startswith("ceph:")
    child = os.fork()
    if child == 0:
        try:
            found = len(rows_of(scan, part))
        except benthic.UnsupportedError as error:
            os._exit(0 if on_ceph and "spawn" in str(error) else 2)
        os._exit(0 if found == 3 and not on_ceph else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_a_scan_stays_at_its_snapshot_until_vacuum(durable):
    table = durable.table({"x": [1]})
    scan = scan_of(table, None, None, None, "auto")
    [part] = scan.parts(0)
    table.append({"x": [2]})
    assert rows_of(scan, part) == [{"x": 1}]
    table.vacuum(keep=timedelta(0))
    with pytest.raises(benthic.NotFoundError, match="vacuumed") as caught:
        scan.read(part.objects)
    assert caught.value.context["table"] == table.name
    again = pickle.loads(pickle.dumps(caught.value))
    assert (type(again), str(again), again.context) == (type(caught.value), str(caught.value), caught.value.context)


def test_a_scan_outlives_the_process_that_planned_it(tmp_path):
    script = """
import pickle, sys, benthic
from benthic.engines.parts import scan_of
store = benthic.connect(sys.argv[1])
store.create_pool("p")
scan = scan_of(store.create_table("p/t", {"x": [1, 2]}), None, "x > 1", None, "auto")
with open(sys.argv[2], "wb") as file:
    pickle.dump((scan, scan.parts(0)), file)
print("planned", flush=True)
sys.stdin.read()
"""
    plan = tmp_path / "plan"
    command = [sys.executable, "-P", "-c", script, f"file:{tmp_path}/s", plan]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as planner:
        assert planner.stdout.readline() == b"planned\n"
        scan, [part] = pickle.loads(plan.read_bytes())
        # The planner owns the directory and serves this process.
        assert rows_of(scan, part) == [{"x": 2}]
        planner.kill()
        planner.wait()
    assert rows_of(scan, part) == [{"x": 2}]


def test_what_a_scan_of_parts_refuses(in_memory, scanned):
    with pytest.raises(benthic.UnsupportedError, match="in memory"):
        scan_of(in_memory.table({"x": [1]}), None, None, None, "auto")
    with pytest.raises(benthic.InvalidArgumentError, match="column"):
        scan_of(scanned, ["nothing"], None, None, "auto")
    with pytest.raises(benthic.InvalidArgumentError, match="list of names"):
        scan_of(scanned, "id", None, None, "auto")


def test_uris_mean_the_same_in_every_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with benthic.connect("file:./data") as store:
        store.create_pool("p")
        table = store.create_table("p/t", {"x": [1]})
        scan = scan_of(table, None, None, None, "auto")
    assert scan.uri == f"file:{tmp_path}/data"
    monkeypatch.chdir("/")
    assert scan.read().to_pylist() == [{"x": 1}]


@pytest.mark.parametrize("method, package", [("to_dask", "dask"), ("to_ray", "ray"), ("scan_polars", "polars")])
def test_a_missing_engine_says_what_to_install(tmp_path, method, package):
    script = """
import sys, benthic
sys.modules[sys.argv[3]] = None
with benthic.connect(sys.argv[1]) as store:
    store.create_pool("p")
    table = store.create_table("p/t", {"x": [1]})
    try:
        getattr(table, sys.argv[2])()
    except ModuleNotFoundError as error:
        assert "pip install" in str(error) and sys.argv[3] in str(error), error
    else:
        raise AssertionError("the engine was there")
"""
    subprocess.run([sys.executable, "-P", "-c", script, f"file:{tmp_path}/s", method, package], check=True)
