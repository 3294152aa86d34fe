"""PyIceberg changes tables. `benthic sql` reads the same rows as the client."""

import datetime
import decimal
import uuid

import pyarrow
import pyarrow.parquet
import pyiceberg.exceptions
import pytest
from catalog import running
from conftest import events, maps, one_of_each_type, trips
from pyiceberg.expressions import EqualTo, GreaterThan, LessThan
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    write_manifest,
    write_manifest_list,
)
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import DayTransform, IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import BinaryType, DateType, DecimalType, LongType, NestedField, StringType, UUIDType
from test_access import failure, refused


@pytest.fixture(scope="module")
def writer(store, server):
    """A server where `main` writes to one pool, and `lab` only reads it."""
    options = ["--allow", "main", "--allow", "lab=lake", "--allow-writes", "main=lake"]
    with running(store, *options) as writer:
        yield writer


@pytest.fixture(scope="module")
def lakes(writer):
    return writer.pyiceberg()


def ids(store, table):
    return sorted(store.query(f"SELECT id FROM {table}")["id"].to_pylist())


def numbered(*numbers):
    return pyarrow.table({"id": list(numbers), "text": [f"row {number}" for number in numbers]})


def test_rows_are_appended_and_read_back(store, writer, lakes):
    store.create("lake/appended", numbered(1, 2))
    table = lakes.load_table("lake.appended")
    table.append(numbered(3))
    table.append(numbered(4, 5))
    assert ids(store, "lake.appended") == [1, 2, 3, 4, 5]
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [1, 2, 3, 4, 5]
    assert [entry["operation"] for entry in store.run("benthic-sql", "table", "history", "lake/appended")][-2:] == ["append"] * 2
    # The uploads are gone.
    client, prefix = writer.s3_of("lake/appended")
    kept = {key.split("/")[-1] for key in [item["Key"] for item in client.list_objects_v2(Bucket="tables", Prefix=prefix)["Contents"]]}
    assert not any(name.startswith("00000-") for name in kept)


def test_every_type_is_written(store, lakes):
    types = one_of_each_type()
    store.create("lake/types_written", types)
    # Iceberg has no smaller integers.
    wide = {"int8": "int32", "int16": "int32", "uint8": "int32", "uint16": "int32"}
    fields = [field.with_type(getattr(pyarrow, wide[field.name])()) if field.name in wide else field for field in types.schema]
    lakes.load_table("lake.types_written").append(types.cast(pyarrow.schema(fields)))
    got = store.query("SELECT * FROM lake.types_written")
    for name in types.column_names:
        expected = types.column(name).to_pylist() * 2
        assert sorted(map(repr, got.column(name).to_pylist())) == sorted(map(repr, expected)), name


def test_nested_columns_are_written(store, lakes):
    store.create("lake/events_written", events())
    table = lakes.load_table("lake.events_written")
    table.append(events())
    # PyIceberg 0.12 turns NULL lists into empty ones.
    rows = [(row | {"muons": muons}) for row in events().to_pylist() for muons in (row["muons"], row["muons"] or [])]
    assert sorted(store.query("SELECT * FROM lake.events_written").to_pylist(), key=repr) == sorted(rows, key=repr)
    with table.update_schema() as update:
        update.rename_column("vertex", "origin")
        update.add_column("run", LongType())
    assert table.scan().to_arrow().column_names == ["event", "muons", "origin", "comment", "run"]
    table.delete(GreaterThan("event", 1))
    assert store.query("SELECT event, origin['x'] AS x, run FROM lake.events_written").to_pylist() == [
        {"event": 1, "x": 0.5, "run": None},
        {"event": 1, "x": 0.5, "run": None},
    ]
    created = lakes.create_table("lake.maps_created", lakes.load_table("lake.maps").schema())
    created.append(maps())
    assert store.query("SELECT * FROM lake.maps_created ORDER BY id").to_pylist() == maps().to_pylist()
    # A field within a column cannot be added.
    with pytest.raises(Exception, match="fields within a column"):
        with table.update_schema() as update:
            update.add_column(("origin", "z"), LongType())


def test_values_that_do_not_fit_are_refused_whole(store, lakes):
    store.create("lake/small", pyarrow.table({"id": pyarrow.array([1], pyarrow.int8())}))
    table = lakes.load_table("lake.small")
    with pytest.raises(pyiceberg.exceptions.BadRequestError, match="cannot hold"):
        table.append(pyarrow.table({"id": pyarrow.array([2, 300], pyarrow.int32())}))
    assert ids(store, "lake.small") == [1]
    store.create("lake/coarse", pyarrow.table({"at": pyarrow.array([1], pyarrow.timestamp("ms"))}))
    with pytest.raises(pyiceberg.exceptions.BadRequestError, match="cannot hold"):
        lakes.load_table("lake.coarse").append(pyarrow.table({"at": pyarrow.array([1_001], pyarrow.timestamp("us"))}))


def test_partitioned_tables_are_written(store, lakes):
    rows = trips(6)
    store.create("lake/parts", rows, "--partition-by", "range(day, day)")
    table = lakes.load_table("lake.parts")
    more = trips(9).slice(60)
    table.append(more)
    assert ids(store, "lake.parts") == list(range(90))
    day = datetime.date(2026, 1, 30) + datetime.timedelta(7)
    [_] = table.scan(row_filter=EqualTo("day", day)).plan_files()


def test_rows_are_deleted_and_overwritten(store, lakes):
    store.create("lake/changed", numbered(*range(100)))
    table = lakes.load_table("lake.changed")
    table.append(numbered(*range(100, 200)))
    # One whole file, then some rows of a file.
    table.delete(GreaterThan("id", 99))
    assert ids(store, "lake.changed") == list(range(100))
    table.delete(LessThan("id", 10))
    assert ids(store, "lake.changed") == list(range(10, 100))
    table.overwrite(numbered(7, 8), overwrite_filter=GreaterThan("id", 50))
    assert ids(store, "lake.changed") == [7, 8, *range(10, 51)]
    # Rows that Benthic has deleted stay deleted when the client rewrites their file.
    store.run("benthic-sql", "sql", "DELETE FROM lake.changed WHERE id IN (11, 12)")
    table.refresh().delete(EqualTo("id", 13))
    assert ids(store, "lake.changed") == [7, 8, 10, *range(14, 51)]
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [7, 8, 10, *range(14, 51)]
    table.overwrite(numbered(1))
    assert ids(store, "lake.changed") == [1]
    checked = store.run("benthic-sql", "table", "fsck", "lake/changed")
    assert checked, checked


def test_tables_are_created_and_dropped(store, lakes):
    schema = Schema(
        NestedField(1, "day", DateType(), required=True),
        NestedField(2, "id", LongType(), required=False),
        NestedField(3, "name", StringType(), required=False),
    )
    spec = PartitionSpec(PartitionField(source_id=1, field_id=1000, transform=DayTransform(), name="day_day"))
    table = lakes.create_table("lake.created", schema, partition_spec=spec)
    arrow = pyarrow.schema([pyarrow.field("day", pyarrow.date32(), False), ("id", pyarrow.int64()), ("name", pyarrow.string())])
    day = datetime.date(2026, 11, 27)
    table.append(pyarrow.table({"day": [day], "id": [1], "name": ["x"]}, schema=arrow))
    assert store.query("SELECT * FROM lake.created").to_pylist() == [{"day": day, "id": 1, "name": "x"}]
    with pytest.raises(pyiceberg.exceptions.TableAlreadyExistsError):
        lakes.create_table("lake.created", schema)
    lakes.drop_table("lake.created")
    with pytest.raises(pyiceberg.exceptions.NoSuchTableError):
        lakes.load_table("lake.created")
    for wrong in [
        {"schema": Schema(NestedField(1, "id", UUIDType(), required=False))},
        {
            "schema": schema,
            "partition_spec": PartitionSpec(PartitionField(source_id=2, field_id=1000, transform=IdentityTransform(), name="id")),
        },
    ]:
        with pytest.raises(Exception, match="UnsupportedOperationException"):
            lakes.create_table("lake.wrong", **wrong)
    assert ("lake", "wrong") not in lakes.list_tables("lake")


def test_a_table_is_created_with_its_rows(store, writer, lakes):
    with lakes.create_table_transaction("lake.staged", numbered(1, 2).schema) as transaction:
        transaction.append(numbered(1, 2))
        assert ("lake", "staged") not in lakes.list_tables("lake")
    assert ids(store, "lake.staged") == [1, 2]
    table = lakes.load_table("lake.staged")
    table.append(numbered(3))
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [1, 2, 3]
    # Of two clients that create the same table, one fails.
    late = lakes.create_table_transaction("lake.twice", numbered(1).schema)
    late.append(numbered(1))
    lakes.create_table("lake.twice", numbered(1).schema)
    with pytest.raises(Exception, match="has created the table"):
        late.commit_transaction()
    assert ids(store, "lake.twice") == []
    with pytest.raises(pyiceberg.exceptions.TableAlreadyExistsError):
        lakes.create_table_transaction("lake.twice", numbered(1).schema)
    # Rows that cannot be committed leave no table, and only the catalog draws the id of a table.
    location = lakes.create_table_transaction("lake.broken", numbered(1).schema).table_metadata.location
    field = {"id": 1, "name": "id", "type": "long", "required": False}
    schema = {"action": "add-schema", "schema": {"type": "struct", "fields": [field]}}
    at = {"action": "set-location", "location": location}
    for updates, status in [
        ([schema, at, *adds(f"{location}/metadata/missing.avro")], 400),
        ([schema, at | {"location": location[:-1] + ("0" if location[-1] != "0" else "1")}], 400),
        ([schema, at | {"location": location.replace("broken", "other")}], 400),
        ([schema], 400),
        ([at], 406),
        ([schema | {"schema": {"fields": [field | {"id": 2}]}}, at], 406),
        ([schema, at, {"action": "upgrade-format-version", "format-version": 3}], 406),
        ([schema, at, {"action": "assign-uuid", "uuid": "00000000-0000-0000-0000-000000000000"}], 400),
    ]:
        assert failure(commit(writer, "lake/broken", updates, [{"type": "assert-create"}]))[0] == status, updates
    assert ("lake", "broken") not in lakes.list_tables("lake")
    assert commit(writer, "lake/broken", [schema, at], [{"type": "assert-create"}]).ok
    assert ids(store, "lake.broken") == []


def test_a_client_that_comes_late_tries_again(store, lakes):
    store.create("lake/contended", numbered(1))
    early, late = lakes.load_table("lake.contended"), lakes.load_table("lake.contended")
    early.append(numbered(2))
    # The catalog refuses the first try; the client reads the table again and repeats it.
    late.append(numbered(3))
    assert ids(store, "lake.contended") == [1, 2, 3]


def test_a_client_that_comes_late_does_not_replace_rows(store, lakes):
    """PyIceberg would bring the deleted row back, and add a second row with the id 7."""
    store.create("lake/contested", numbered(*range(20)))
    late = lakes.load_table("lake.contested")
    store.run("benthic-sql", "sql", "DELETE FROM lake.contested WHERE id = 3")
    with pytest.raises(pyiceberg.exceptions.BadRequestError, match="read it again"):
        late.delete(EqualTo("id", 5))
    late.refresh()
    store.run("benthic-sql", "sql", "UPDATE lake.contested SET text = 'new' WHERE id = 7")
    with pytest.raises(pyiceberg.exceptions.BadRequestError, match="read it again"):
        late.overwrite(numbered(7), overwrite_filter=EqualTo("id", 7))
    assert ids(store, "lake.contested") == [id for id in range(20) if id != 3]
    late.refresh().delete(EqualTo("id", 5))
    assert ids(store, "lake.contested") == [id for id in range(20) if id not in [3, 5]]


def test_duckdb_writes(store, writer):
    store.create("lake/by_duckdb", numbered(1))
    connection = writer.duckdb()
    connection.execute("INSERT INTO lakes.lake.by_duckdb VALUES (2, 'two'), (3, NULL)")
    assert ids(store, "lake.by_duckdb") == [1, 2, 3]
    assert connection.execute("SELECT id FROM lakes.lake.by_duckdb ORDER BY id").fetchall() == [(1,), (2,), (3,)]


def test_duckdb_deletes_and_updates(store, writer):
    store.create("lake/edited", numbered(*range(100)), "--partition-by", "hash(id, 4)")
    store.run("benthic-sql", "sql", "DELETE FROM lake.edited WHERE id IN (5, 50)")
    connection = writer.duckdb()
    connection.execute("DELETE FROM lakes.lake.edited WHERE id % 10 = 3")
    connection.execute("UPDATE lakes.lake.edited SET text = 'new' WHERE id = 60")
    left = [id for id in range(100) if id not in [5, 50] and id % 10 != 3]
    assert ids(store, "lake.edited") == left
    assert store.query("SELECT id FROM lake.edited WHERE text = 'new'")["id"].to_pylist() == [60]
    connection.execute("DELETE FROM lakes.lake.edited")
    assert ids(store, "lake.edited") == []
    store.run("benthic-sql", "table", "rollback", "lake/edited", "3")
    assert ids(store, "lake.edited") == [id for id in range(100) if id not in [5, 50]]


def test_duckdb_creates_and_merges(store, writer):
    connection = writer.duckdb()
    connection.execute("CREATE TABLE lakes.lake.made AS SELECT range AS id, 'old' AS text FROM range(20)")
    connection.execute("ALTER TABLE lakes.lake.made ADD COLUMN more INTEGER")
    connection.execute("ALTER TABLE lakes.lake.made RENAME COLUMN more TO other")
    assert store.query("SELECT * FROM lake.made").column_names == ["id", "text", "other"]
    connection.execute("ALTER TABLE lakes.lake.made DROP COLUMN other")
    connection.execute(
        "MERGE INTO lakes.lake.made USING (VALUES (3, 'new'), (99, 'new')) AS given(id, text) ON made.id = given.id"
        " WHEN MATCHED THEN UPDATE SET text = given.text WHEN NOT MATCHED THEN INSERT VALUES (given.id, given.text)"
    )
    assert ids(store, "lake.made") == [*range(20), 99]
    assert sorted(store.query("SELECT id FROM lake.made WHERE text = 'new'")["id"].to_pylist()) == [3, 99]
    connection.execute("TRUNCATE lakes.lake.made")
    assert ids(store, "lake.made") == []
    connection.execute("DROP TABLE lakes.lake.made")
    assert ("lake", "made") not in writer.pyiceberg().list_tables("lake")


def position_deletes(table, rows, ids=(2_147_483_546, 2_147_483_545), kept=lambda manifest: True, times=1, listed_times=1, **changed):
    """Uploads a file that deletes these rows, beside some current manifests. Returns the updates that commit it."""
    root = f"{table.location()}/metadata/{uuid.uuid4()}"
    columns = [("file_path", pyarrow.string(), ids[0]), ("pos", pyarrow.int64(), ids[1])]
    fields = [pyarrow.field(name, kind, False, {"PARQUET:field_id": str(id)}) for name, kind, id in columns]
    arrays = [pyarrow.array(values, field.type) for values, field in zip(zip(*rows), fields)]
    with table.io.new_output(f"{root}.parquet").create(overwrite=True) as file:
        pyarrow.parquet.write_table(pyarrow.table(arrays, schema=pyarrow.schema(fields)), file)
    listed = {
        "content": DataFileContent.POSITION_DELETES,
        "file_path": f"{root}.parquet",
        "file_format": FileFormat.PARQUET,
        "partition": Record(),
        "record_count": len(rows),
        "file_size_in_bytes": 1,
    }
    entry = {"status": ManifestEntryStatus.ADDED, "snapshot_id": 77, "data_file": DataFile.from_args(**listed | changed)}
    with write_manifest(2, table.spec(), table.schema(), table.io.new_output(f"{root}-m0.avro"), 77, "null") as manifest:
        for _ in range(times):
            manifest.add_entry(ManifestEntry.from_args(**entry))
    current = table.current_snapshot()
    output = table.io.new_output(f"{root}.avro")
    with write_manifest_list(2, output, 77, current.snapshot_id, 9, "null") as manifests:
        manifests.add_manifests([*filter(kept, current.manifests(table.io)), *[manifest.to_manifest_file()] * listed_times])
    return adds(f"{root}.avro", current.snapshot_id)


def test_damaged_deletes_are_refused(store, writer, lakes):
    store.create("lake/guarded", numbered(*range(100)))
    store.create("lake/neighbour", numbered(*range(100)))
    table = lakes.load_table("lake.guarded")
    [path] = [task.file.file_path for task in table.scan().plan_files()]
    [other] = [task.file.file_path for task in lakes.load_table("lake.neighbour").scan().plan_files()]
    missing = path.replace(path.split("/")[-1], "00000000000000ff-0.parquet")
    equality = DataFileContent.EQUALITY_DELETES
    for rows, options, status in [
        ([(other, 1)], {}, 400),
        ([(missing, 1)], {}, 400),
        ([("", 1)], {}, 400),
        ([(path, 100)], {}, 400),
        ([(path, -1)], {}, 400),
        ([(path, 2**32)], {}, 400),
        ([(path, 1)], {"ids": (1, 2)}, 400),
        ([(path, 1)], {"record_count": 2}, 400),
        ([(path, 1)], {"times": 2}, 400),
        ([(path, 1)], {"listed_times": 2}, 400),
        ([(path, 1)], {"file_path": other}, 400),
        ([(path, 1)], {"file_path": path}, 400),
        ([(path, 1)], {"content": equality}, 406),
        ([(path, 1)], {"file_format": FileFormat.ORC}, 406),
    ]:
        answer = commit(writer, "lake/guarded", position_deletes(table, rows, **options))
        assert failure(answer)[0] == status, (rows, options, answer.text)
    stale = position_deletes(table, [(path, 1)])
    for parent in [99, None]:
        stale[0]["snapshot"]["parent-snapshot-id"] = parent
        assert failure(commit(writer, "lake/guarded", stale))[0] == 400
    assert ids(store, "lake.guarded") == list(range(100))
    # Rows may come in any order, and twice.
    assert commit(writer, "lake/guarded", position_deletes(table, [(path, 9), (path, 3), (path, 9), (path, 99)])).ok
    left = [id for id in range(100) if id not in [3, 9, 99]]
    assert ids(store, "lake.guarded") == left
    # The table's own delete file stays, unless the new one has its rows, too.
    table.refresh()
    for rows, status in [([(path, 3), (path, 9)], 406), ([(path, row) for row in [3, 5, 9, 99]], 200)]:
        updates = position_deletes(table, rows, kept=lambda manifest: manifest.content == ManifestContent.DATA)
        assert commit(writer, "lake/guarded", updates).status_code == status
    assert ids(store, "lake.guarded") == [id for id in left if id != 5]
    assert ids(store, "lake.neighbour") == list(range(100))


def test_changes_need_the_right(store, server, writer, lakes):
    lab = writer.pyiceberg(store.key("lab/reader"))
    for catalog in [lab, server.pyiceberg()]:
        with pytest.raises(Exception, match="option --allow-writes permits it"):
            catalog.load_table("lake.trips").append(trips(1))
        with pytest.raises(pyiceberg.exceptions.ForbiddenError, match="may not change"):
            catalog.drop_table("lake.trips")
    with pytest.raises(pyiceberg.exceptions.ForbiddenError, match="may not change"):
        lakes.drop_table("other.secret")
    assert store.query("SELECT count(*) AS n FROM lake.trips").to_pylist() == [{"n": 400}]


def test_columns_are_changed(store, lakes):
    store.create("lake/evolved", pyarrow.table({"id": pyarrow.array([1, 2], pyarrow.int32()), "text": ["a", "b"]}))
    table = lakes.load_table("lake.evolved")
    with table.update_schema() as update:
        update.add_column("fare", DecimalType(9, 2))
        update.rename_column("text", "name")
        update.update_column("id", LongType())
    rows = {"id": [2**40], "name": ["c"], "fare": pyarrow.array([decimal.Decimal("1.25")], pyarrow.decimal128(9, 2))}
    table.append(pyarrow.table(rows))
    assert store.query("SELECT id, name, fare FROM lake.evolved ORDER BY id").to_pylist() == [
        {"id": 1, "name": "a", "fare": None},
        {"id": 2, "name": "b", "fare": None},
        {"id": 2**40, "name": "c", "fare": decimal.Decimal("1.25")},
    ]
    with table.update_schema() as update:
        update.delete_column("name")
    assert lakes.load_table("lake.evolved").scan().to_arrow().column_names == ["id", "fare"]
    # The columns before the last change still are those of its snapshot.
    before = store.query("SELECT * FROM lake.evolved FOR VERSION AS OF 4")
    assert before.column_names == ["id", "name", "fare"]


def test_columns_that_cannot_be_changed_stay(store, lakes):
    store.create("lake/rigid", numbered(1), "--partition-by", "hash(id, 2)")
    table = lakes.load_table("lake.rigid")
    for change in [
        lambda update: update.delete_column("id"),
        lambda update: update.update_column("text", BinaryType()),
        lambda update: update.add_column("id2", UUIDType()),
        lambda update: update.add_column("id2", LongType(), doc="a comment"),
        lambda update: update.move_first("text"),
    ]:
        with pytest.raises(Exception, match="BadRequest|UnsupportedOperation|Cannot change"):
            with table.update_schema() as update:
                change(update)
    # A client that has seen an older schema repeats its change.
    late = lakes.load_table("lake.rigid")
    with table.update_schema() as update:
        update.add_column("first", LongType())
    with pytest.raises(pyiceberg.exceptions.CommitFailedException):
        with late.update_schema() as update:
            update.add_column("second", LongType())
    assert store.query("SELECT * FROM lake.rigid").column_names == ["id", "text", "first"]


def test_snapshots_are_tagged_and_restored(store, writer, lakes):
    store.create("lake/tagged", numbered(1))
    table = lakes.load_table("lake.tagged")
    first = table.current_snapshot().snapshot_id
    table.manage_snapshots().create_tag(first, "first").commit()
    table.append(numbered(2))
    assert store.query("SELECT id FROM lake.tagged FOR VERSION AS OF 'first'")["id"].to_pylist() == [1]
    main = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": first}
    assert commit(writer, "lake/tagged", [main]).ok
    assert ids(store, "lake.tagged") == [1]
    tag = {"action": "set-snapshot-ref", "ref-name": "t", "type": "tag", "snapshot-id": first}
    for updates, status in [
        ([main | {"snapshot-id": 99}], 400),
        ([tag | {"snapshot-id": 99}], 400),
        ([tag | {"max-ref-age-ms": 1}], 406),
        ([tag | {"ref-name": "main"}], 406),
        ([tag | {"ref-name": "a b"}], 400),
        ([tag | {"type": "branch"}], 406),
        ([tag, main], 406),
        ([{"action": "remove-snapshot-ref", "ref-name": "main"}], 400),
        ([{"action": "remove-snapshot-ref", "ref-name": "other"}], 400),
        ([{"action": "set-current-schema", "schema-id": 0}], 400),
        ([{"action": "set-current-schema", "schema-id": 7}], 400),
        ([{"action": "set-current-schema", "schema-id": -1}], 400),
        ([{"action": "add-schema", "schema": {"fields": []}}], 400),
    ]:
        assert failure(commit(writer, "lake/tagged", updates))[0] == status, updates
    assert commit(writer, "lake/tagged", [{"action": "remove-snapshot-ref", "ref-name": "first"}]).ok
    assert list(lakes.load_table("lake.tagged").refs()) == ["main"]


def test_snapshots_with_column_groups_are_neither_restored_nor_tagged(store, writer, lakes):
    store.create("lake/grouped", numbered(1), "--group", "text")
    store.run("benthic-sql", "table", "rewrite", "lake/grouped", "--one-group")
    history = store.run("benthic-sql", "table", "history", "lake/grouped")
    empty, grouped, joined = [entry["snapshot"] for entry in history]
    shown = [snapshot.snapshot_id for snapshot in lakes.load_table("lake.grouped").snapshots()]
    assert shown == [empty, joined]
    main = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": grouped}
    for update in [main, main | {"ref-name": "t", "type": "tag"}]:
        status, _, message = failure(commit(writer, "lake/grouped", [update]))
        assert status == 406 and "has column groups" in message, message
    assert store.run("benthic-sql", "table", "history", "lake/grouped") == history
    assert list(lakes.load_table("lake.grouped").refs()) == ["main"]
    assert commit(writer, "lake/grouped", [main | {"snapshot-id": empty}]).ok
    assert ids(store, "lake.grouped") == []


def commit(writer, table, updates, requirements=()):
    pool, name = table.split("/")
    body = {"requirements": list(requirements), "updates": updates}
    return writer.request("POST", f"/v1/namespaces/{pool}/tables/{name}", json=body)


def adds(manifest_list, parent=None, snapshot=77):
    added = {"snapshot-id": snapshot, "manifest-list": manifest_list, "sequence-number": 9, "timestamp-ms": 0, "summary": {}}
    added["parent-snapshot-id"] = parent
    current = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": snapshot}
    return [{"action": "add-snapshot", "snapshot": added}, current]


def test_invalid_commits_are_refused(store, writer, lakes):
    store.create("lake/target", numbered(1))
    current = lakes.load_table("lake.target").current_snapshot().snapshot_id
    client, prefix = writer.s3_of("lake/target")
    for name, body in [("garbage", b"x" * 1000), ("empty", b""), ("header", b"Obj\x01"), ("cut", b"Obj\x01\x02\x16avro.schema")]:
        client.put_object(Bucket="tables", Key=f"{prefix}metadata/{name}.avro", Body=body)
    root = f"s3://tables/{prefix}metadata/"
    other = writer.s3_of("lake/months")[1]
    for updates, status in [
        (adds(root + "garbage.avro", current), 400),
        (adds(root + "empty.avro", current), 400),
        (adds(root + "header.avro", current), 400),
        (adds(root + "cut.avro", current), 400),
        (adds(root + "missing.avro", current), 400),
        (adds(root + "snapshot-1.avro", current), 400),
        (adds(f"s3://tables/{other}metadata/x.avro", current), 400),
        (adds("s3://elsewhere/x.avro", current), 400),
        (adds("file:///etc/passwd", current), 400),
        (adds(root + "garbage.avro", current)[:1], 400),
        (adds(root + "garbage.avro", current)[1:], 400),
        ([{"action": "set-location", "location": "s3://x"}], 406),
        ([{"action": "remove-snapshots", "snapshot-ids": [1]}], 406),
        ([{}], 406),
    ]:
        assert failure(commit(writer, "lake/target", updates))[0] == status, updates
    for body in [b"", b"{", b"[]", b'{"updates": 1}', b'{"requirements": []}']:
        answer = writer.request("POST", "/v1/namespaces/lake/tables/target", data=body)
        assert failure(answer)[0] == 400, body
    for requirement, status in [
        ({"type": "assert-table-uuid", "uuid": "00000000-0000-0000-0000-000000000000"}, 409),
        ({"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": None}, 409),
        ({"type": "assert-current-schema-id", "current-schema-id": 5}, 409),
        ({"type": "assert-create"}, 409),
        ({}, 406),
    ]:
        assert failure(commit(writer, "lake/target", [], [requirement]))[0] == status, requirement
    assert commit(writer, "lake/target", []).ok
    assert ids(store, "lake.target") == [1]


def test_uploads_stay_in_the_folder_of_the_table(store, writer):
    client, prefix = writer.s3_of("lake/trips")
    other = writer.s3_of("lake/months")[1]
    client.put_object(Bucket="tables", Key=prefix + "data/x", Body=b"x")
    assert client.get_object(Bucket="tables", Key=prefix + "data/x")["Body"].read() == b"x"
    client.delete_object(Bucket="tables", Key=prefix + "data/x")
    assert refused(client.get_object, Bucket="tables", Key=prefix + "data/x") == "NoSuchKey"
    for key in [other + "data/x", "lake/x", "x", prefix + "metadata/version-hint.text", prefix + "metadata/v1.metadata.json"]:
        assert refused(client.put_object, Bucket="tables", Key=key, Body=b"x") == "AccessDenied", key
        assert refused(client.delete_object, Bucket="tables", Key=key) == "AccessDenied", key
    main = writer.s3(*writer.key)
    assert refused(main.put_object, Bucket="tables", Key=prefix + "data/x", Body=b"x") == "AccessDenied"


def test_a_crash_in_a_commit_leaves_all_or_nothing(store, writer):
    """Kills the server during commits. Each is visible whole or not at all, and the server starts again."""
    store.create("lake/crashed", numbered(0))
    with running(store, "--allow-writes", "main") as server:
        table = server.pyiceberg().load_table("lake.crashed")
        expected = {0}
        for attempt in range(1, 6):
            rows = numbered(*range(attempt * 1000, attempt * 1000 + 500))
            if attempt % 2:
                import threading

                killer = threading.Timer(0.02 * attempt, server.process.kill)
                killer.start()
            try:
                table.append(rows)
            except Exception:
                pass
            if attempt % 2:
                killer.join()
                server.process.wait()
                server.start()
                table = server.pyiceberg().load_table("lake.crashed")
            got = set(ids(store, "lake.crashed"))
            batch = set(rows["id"].to_pylist())
            assert got in [expected, expected | batch]
            expected = got
