"""The data objects of a table, and scans of some of them."""

import benthic
import numpy
import pyarrow as pa
import pyarrow.compute as pc
import pytest

COUNT = 120_000


@pytest.fixture(scope="module")
def table(place):
    noise = numpy.random.default_rng(7).bytes(COUNT * 24)
    rows = {"id": range(COUNT), "noise": pa.array([noise[at : at + 24] for at in range(0, len(noise), 24)], pa.binary())}
    return place.table(pa.table(rows), sort_by="id", object_size="1MiB")


def test_objects_are_listed(table):
    objects = table.objects()
    snapshot = table.snapshot()
    assert len(objects) == snapshot.objects >= 3
    assert sum(object.rows for object in objects) == COUNT
    assert sum(object.data_bytes for object in objects) == snapshot.data_bytes
    assert len({object.name for object in objects}) == len(objects)


@pytest.mark.parametrize(
    "filter, expected",
    [(pc.field("id") >= COUNT - 10, [-1]), (f"id >= {COUNT - 10}", [-1]), (pc.field("id") < 10, [0]), ("id < 0", [])],
)
def test_a_filter_excludes_objects(table, filter, expected):
    objects = table.objects()
    assert table.objects(filter) == [objects[at] for at in expected]


def test_a_scan_reads_only_the_chosen_objects(place, table):
    objects = table.objects()
    before = place.store.moved()
    first = table.scan(objects=[objects[0].name], pushdown="never").to_arrow()
    moved = place.store.moved() - before
    assert first["id"].to_pylist() == list(range(objects[0].rows))
    # Besides the object, the scan reads the head and the file list.
    assert moved.received_bytes < objects[0].data_bytes * 1.5
    found = [table.scan(["id"], objects=[object.name]).to_arrow() for object in objects]
    assert pa.concat_tables(found)["id"].to_pylist() == list(range(COUNT))
    last = table.scan(["id"], pc.field("id") + 1 > 0, 5, objects=[objects[-1].name]).to_arrow()
    assert last.num_rows == 5 and min(last["id"].to_pylist()) >= COUNT - objects[-1].rows
    assert table.scan([], objects=[objects[1].name]).to_arrow().num_rows == objects[1].rows
    assert table.scan(objects=[]).to_arrow().num_rows == 0


def test_objects_of_other_snapshots_are_refused(place, table):
    for name, kind in (("d/0000000000000001-3.parquet", benthic.NotFoundError), ("x", benthic.InvalidArgumentError)):
        with pytest.raises(kind) as caught:
            table.scan(objects=[name]).to_arrow()
        assert caught.value.context["object"] == name and caught.value.context["table"] == table.name
    grown = place.table({"x": [1]})
    grown.append({"x": [2]})
    added = grown.objects()[-1].name
    assert grown.scan(objects=[added]).to_pylist() == [{"x": 2}]
    with pytest.raises(benthic.NotFoundError, match="no such data object"):
        grown.scan(snapshot=2, objects=[added]).to_arrow()


def test_the_filter_runs_beside_the_chosen_objects(place, table):
    chosen = table.objects()[1]
    value = table.scan(["noise"], f"id = {chosen.rows}").to_pylist()[0]["noise"]

    def received(pushdown):
        before = place.store.moved()
        # Random values: statistics cannot exclude the object.
        found = table.scan(["id"], pc.field("noise") == value, objects=[chosen.name], pushdown=pushdown).to_pylist()
        assert found == [{"id": chosen.rows}]
        return (place.store.moved() - before).received_bytes

    # A busy object sends its bytes instead of running the filter, so try several times.
    assert min(received("always") for _ in range(20)) < received("never") / 2
