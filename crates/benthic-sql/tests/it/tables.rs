//! Queries of tables return the same rows in every mode, and read only objects that pruning leaves.

use crate::data::lineitem;
use crate::fixtures::{self, answer, create, memory_store, options, pool, session};
use crate::queries::{OTHERS, PUSHED};
use crate::support::{ALL, metric, rows};
use arrow::array::{ArrayRef, Float64Array, Int32Array, Int64Array, ListArray, RecordBatch, StringArray};
use arrow::compute::{SortColumn, concat_batches};
use arrow::compute::{SortOptions, lexsort_to_indices, take_record_batch};
use arrow::datatypes::{DataType, Int32Type};
use benthic_core::pushdown::Pushdown;
use benthic_core::{Environment, ErrorKind, ListRequest, Namespaces, Pool, Result, Store};
use benthic_embedded::EmbeddedStore;
use benthic_sql::errors::from_datafusion;
use benthic_sql::session::{Selection, Settings};
use benthic_table::{
    Alter, Definition, Partitioning, SnapshotSelector, Table, VacuumOptions, drop_table, vacuum,
};
use futures::TryStreamExt;
use std::sync::Arc;
use tempfile::TempDir;

async fn store() -> Arc<dyn Store> {
    let store = memory_store();
    pool(&store, "p").await;
    store
}

async fn table(store: &Arc<dyn Store>, name: &str, definition: &Definition) -> Table {
    create(&pool(store, "p").await, name, definition).await
}

/// Appends each batch in its own commit, so that each makes objects.
async fn append(table: &Table, batches: &[RecordBatch]) {
    for batch in batches {
        fixtures::append(table, std::slice::from_ref(batch)).await;
    }
}

async fn run(store: &Arc<dyn Store>, settings: Settings, sql: &str) -> Result<Vec<RecordBatch>> {
    Ok(answer(&session(store, settings), sql).await?.1)
}

fn settings(pushdown: Pushdown, pruning: bool) -> Settings {
    Settings { pushdown, pruning, index: pruning, partitions: 3, ..Settings::default() }
}

/// Runs a query in every mode, checks that the rows are equal, and returns them.
async fn same(store: &Arc<dyn Store>, sql: &str) -> Vec<String> {
    let expected = rows(&run(store, settings(Pushdown::Never, false), sql).await.unwrap());
    for pushdown in ALL {
        let answer = rows(&run(store, settings(pushdown, true), sql).await.unwrap());
        assert_eq!(answer, expected, "{pushdown:?} {sql}");
    }
    expected
}

async fn fails(store: &Arc<dyn Store>, sql: &str) -> (ErrorKind, String) {
    let mut errors = Vec::new();
    for pushdown in ALL {
        let error = run(store, settings(pushdown, true), sql).await.unwrap_err();
        errors.push((error.kind(), error.to_string()));
    }
    assert!(errors.windows(2).all(|pair| pair[0] == pair[1]), "{errors:?}");
    errors.remove(0)
}

async fn explained(store: &Arc<dyn Store>, pushdown: Pushdown, sql: &str) -> String {
    rows(&run(store, settings(pushdown, true), &format!("EXPLAIN ANALYZE {sql}")).await.unwrap()).join("\n")
}

/// `lineitem` in twelve objects, sorted by `ship`.
async fn lineitems(store: &Arc<dyn Store>) -> Table {
    let all = lineitem(20_000);
    let table = table(store, "object", &Definition::new(&all.schema()).unwrap()).await;
    let ship = all.schema().index_of("ship").unwrap();
    let column = SortColumn { values: all.column(ship).clone(), options: Some(SortOptions::default()) };
    let order = lexsort_to_indices(&[column], None).unwrap();
    let sorted = take_record_batch(&all, &order).unwrap();
    let parts: Vec<RecordBatch> = (0..12).map(|part| sorted.slice(part * 1_666, 1_666)).collect();
    append(&table, &parts).await;
    append(&table, &[sorted.slice(19_992, 8)]).await;
    table
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_answers_as_one_object_does() {
    let store = store().await;
    lineitems(&store).await;
    for sql in PUSHED.iter().chain(&OTHERS) {
        same(&store, &sql.replace(" object", " p.object")).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_in_a_directory_answers_too() {
    let dir = TempDir::new().unwrap();
    let store: Arc<dyn Store> = EmbeddedStore::open(dir.path(), true, options()).unwrap();
    lineitems(&store).await;
    assert_eq!(same(&store, "SELECT count(*), min(id), max(id) FROM p.object").await, ["20000|0|19999"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_are_left_out_by_their_bounds() {
    let store = store().await;
    lineitems(&store).await;
    let sql = "SELECT count(*), sum(price) FROM p.object WHERE ship < DATE '1992-04-01'";
    same(&store, sql).await;
    let there = explained(&store, Pushdown::Always, sql).await;
    assert!(there.contains("objects=1, objects_pruned=12"), "{there}");
    assert_eq!(metric(&there, "objects_pushed") + metric(&there, "objects_pulled"), 1, "{there}");
    let here = explained(&store, Pushdown::Never, sql).await;
    assert!(here.contains("objects_pruned=12"), "{here}");
    assert_eq!(same(&store, "SELECT id FROM p.object WHERE ship < DATE '1970-01-01'").await, [""; 0]);
    let few = explained(&store, Pushdown::Never, "SELECT id FROM p.object LIMIT 1700").await;
    assert!(few.contains("objects_pruned=11"), "{few}");
    assert_eq!(same(&store, "SELECT count(*) FROM (SELECT id FROM p.object LIMIT 1700)").await, ["1700"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_manifest_counts_rows() {
    let store = store().await;
    lineitems(&store).await;
    for sql in ["SELECT count(*) FROM p.object", "SELECT min(ship), max(id), count(*) FROM p.object"] {
        same(&store, sql).await;
        let plan = explained(&store, Pushdown::Always, sql).await;
        assert!(plan.contains("PlaceholderRowExec") && !plan.contains("FragmentExec"), "{plan}");
    }
}

fn floats(values: &[f64]) -> RecordBatch {
    let values: ArrayRef = Arc::new(Float64Array::from(values.to_vec()));
    RecordBatch::try_from_iter([("x", values)]).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn not_a_number_is_never_pruned_away() {
    let store = store().await;
    let batches =
        [floats(&[1.0, f64::NAN]), floats(&[2.0, 3.0]), floats(&[-0.0, 0.0]), floats(&[f64::NAN, -f64::NAN])];
    let table = table(&store, "f", &Definition::new(&batches[0].schema()).unwrap()).await;
    append(&table, &batches).await;
    assert_eq!(same(&store, "SELECT count(*) FROM p.f WHERE x > 1e300").await, ["2"]);
    assert_eq!(same(&store, "SELECT count(*) FROM p.f WHERE x >= 2.5").await, ["3"]);
    assert_eq!(same(&store, "SELECT count(*) FROM p.f WHERE isnan(x)").await, ["3"]);
    assert_eq!(same(&store, "SELECT count(*) FROM p.f WHERE x < -1e300").await, ["1"]);
    same(&store, "SELECT count(*) FROM p.f WHERE x = 0").await;
    same(&store, "SELECT x FROM p.f WHERE x <> 2 ORDER BY x DESC LIMIT 3").await;
    same(&store, "SELECT min(x), max(x) FROM p.f").await;
    let plan = explained(&store, Pushdown::Never, "SELECT x FROM p.f WHERE x = 2").await;
    assert!(plan.contains("objects_pruned=1"), "{plan}");
}

fn pairs(ids: std::ops::Range<i32>) -> RecordBatch {
    let id: ArrayRef = Arc::new(Int32Array::from_iter_values(ids.clone()));
    let name: ArrayRef = Arc::new(StringArray::from_iter_values(ids.map(|id| format!("name {id}"))));
    RecordBatch::try_from_iter_with_nullable([("id", id, true), ("name", name, true)]).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn columns_are_found_by_number_whatever_they_were_called() {
    let store = store().await;
    let table = table(&store, "t", &Definition::new(&pairs(0..1).schema()).unwrap()).await;
    append(&table, &[pairs(0..1_000)]).await;
    let rename = |from: &str, to: &str| Alter::Rename { from: from.to_owned(), to: to.to_owned() };
    let add = |name: &str, data_type| Alter::Add { name: name.to_owned(), data_type };
    // The old column `name` is now `title`; `name` is a new column, which the first object lacks.
    table.alter(&[rename("name", "title"), add("name", DataType::Int32)]).await.unwrap();
    let id: ArrayRef = Arc::new(Int32Array::from(vec![1_000, 1_001]));
    let title: ArrayRef = Arc::new(StringArray::from(vec!["new", "newer"]));
    let name: ArrayRef = Arc::new(Int32Array::from(vec![7, 8]));
    append(&table, &[RecordBatch::try_from_iter([("id", id), ("title", title), ("name", name)]).unwrap()])
        .await;
    assert_eq!(same(&store, "SELECT count(*), count(name), count(title) FROM p.t").await, ["1002|2|1002"]);
    assert_eq!(same(&store, "SELECT title, name FROM p.t WHERE id = 5").await, ["name 5|null"]);
    assert_eq!(same(&store, "SELECT id FROM p.t WHERE name = 8").await, ["1001"]);
    assert_eq!(same(&store, "SELECT id FROM p.t WHERE title = 'name 17'").await, ["17"]);
    assert_eq!(same(&store, "SELECT count(*) FROM p.t WHERE name IS NULL").await, ["1000"]);
    // Widen one column, and drop another.
    let widen = Alter::Widen { name: "id".to_owned(), data_type: DataType::Int64 };
    table.alter(&[widen, Alter::Drop { name: "name".to_owned() }]).await.unwrap();
    let id: ArrayRef = Arc::new(Int64Array::from(vec![1 << 40]));
    append(&table, &[RecordBatch::try_from_iter([("id", id)]).unwrap()]).await;
    assert_eq!(
        same(&store, "SELECT max(id), sum(id), count(*) FROM p.t").await,
        ["1099511627776|1099512129277|1003"]
    );
    assert_eq!(same(&store, "SELECT count(*) FROM p.t WHERE id > 998").await, ["4"]);
    let (kind, error) = fails(&store, "SELECT name FROM p.t").await;
    assert!(kind == ErrorKind::InvalidArgument && error.contains("title"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn columns_that_a_query_does_not_name_do_not_matter() {
    let store = store().await;
    let ids = pairs(0..1_000);
    let lists = (0..1_000).map(|id| Some(vec![Some(id), None]));
    let lists = ListArray::from_iter_primitive::<Int32Type, _, _>(lists);
    let mut columns: Vec<(String, ArrayRef)> = vec![
        ("id".to_owned(), Arc::clone(ids.column(0))),
        ("name".to_owned(), Arc::clone(ids.column(1))),
        ("list".to_owned(), Arc::new(lists)),
    ];
    columns.extend((0..3_000).map(|column| (format!("column {column}"), Arc::clone(ids.column(0)))));
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let table = table(&store, "wide", &Definition::new(&batch.schema()).unwrap()).await;
    append(&table, &[batch]).await;
    let sql = "SELECT count(*), min(\"column 2999\") FROM p.wide WHERE name > 'name 5' AND id % 2 = 0";
    same(&store, sql).await;
    let plan = explained(&store, Pushdown::Always, sql).await;
    assert_eq!(metric(&plan, "objects_pushed"), 1, "{plan}");
    // Lists are read in the client.
    let sql = "SELECT list FROM p.wide WHERE id < 3";
    assert_eq!(same(&store, sql).await, ["[0, null]", "[1, null]", "[2, null]"]);
    let (kind, error) = fails(&store, "SELECT \"colum 7\" FROM p.wide").await;
    assert!(kind == ErrorKind::InvalidArgument && error.contains("column 7"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_of_a_hash_partition_touches_one_object() {
    let store = store().await;
    let mut definition = Definition::new(&pairs(0..1).schema()).unwrap();
    definition.partitioning = Partitioning::Hash { field: 1, buckets: 16 };
    let table = table(&store, "h", &definition).await;
    append(&table, &[pairs(0..5_000)]).await;
    let sql = "SELECT name FROM p.h WHERE id = 4321";
    assert_eq!(same(&store, sql).await, ["name 4321"]);
    let plan = explained(&store, Pushdown::Always, sql).await;
    assert!(plan.contains("objects=1, objects_pruned=15"), "{plan}");
    assert_eq!(same(&store, "SELECT count(*) FROM p.h WHERE id IN (1, 2, 4999, 5000)").await, ["3"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_join_learns_leaves_out_objects() {
    let store = store().await;
    lineitems(&store).await;
    let few = table(&store, "few", &Definition::new(&pairs(0..1).schema()).unwrap()).await;
    append(&few, &[pairs(100..103)]).await;
    let big = table(&store, "big", &Definition::new(&pairs(0..1).schema()).unwrap()).await;
    append(&big, &Vec::from_iter((0..8).map(|part| pairs(part * 1_000..(part + 1) * 1_000)))).await;
    let sql = "SELECT big.name FROM p.big JOIN p.few ON big.id = few.id WHERE few.name <> 'name 101'";
    assert_eq!(same(&store, sql).await, ["name 100", "name 102"]);
    let plan = explained(&store, Pushdown::Always, sql).await;
    assert_eq!(metric(&plan, "objects_left_out"), 7, "{plan}");
    let sql = "SELECT id FROM p.big WHERE name <> '' ORDER BY id LIMIT 5";
    assert_eq!(same(&store, sql).await, ["0", "1", "2", "3", "4"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_are_listed_and_described() {
    let store = store().await;
    table(&store, "t", &Definition::new(&pairs(0..1).schema()).unwrap()).await;
    assert_eq!(same(&store, "SELECT * FROM p.t").await, [""; 0]);
    assert_eq!(same(&store, "SELECT count(*) FROM p.t").await, ["0"]);
    assert_eq!(same(&store, "SHOW TABLES").await, ["p|t"]);
    assert!(same(&store, "DESCRIBE p.t").await.join("\n").contains("name"));
    same(&store, "SELECT * FROM generate_series(1, 3)").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn names_that_are_not_there_get_a_hint() {
    let store = store().await;
    table(&store, "Trips", &Definition::new(&pairs(0..1).schema()).unwrap()).await;
    for (sql, kind, hint) in [
        (
            "SELECT * FROM p.trips",
            ErrorKind::NotFound,
            "did you mean \"Trips\"; names with capital letters need double quotes",
        ),
        ("SELECT * FROM p.\"Tripz\"", ErrorKind::NotFound, "did you mean \"Trips\""),
        ("SELECT * FROM q.t", ErrorKind::NotFound, "no such pool"),
        ("SELECT * FROM \"Trips\"", ErrorKind::NotFound, "did you mean p.Trips"),
        ("SELECT * FROM nothing", ErrorKind::NotFound, "a table is POOL.TABLE"),
        ("SELECT nme FROM p.\"Trips\"", ErrorKind::InvalidArgument, "name"),
        ("INSERT INTO p.\"Trips\" (nme) VALUES (1)", ErrorKind::InvalidArgument, "did you mean \"name\""),
        ("DROP TABLE p.\"Trips\"", ErrorKind::Unsupported, "benthic table drop"),
    ] {
        let (found, error) = fails(&store, sql).await;
        assert!(found == kind && error.contains(hint), "{sql}: {error}");
    }
}

/// The data objects of a table.
async fn objects(pool: &Arc<dyn Pool>, table: &Table) -> Vec<benthic_core::ObjectId> {
    let namespaces = Namespaces::One(table.id().namespace());
    let page = pool.list(ListRequest { namespaces, ..ListRequest::default() }).await.unwrap();
    page.objects.into_iter().filter(|object| object.name().starts_with("d/")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_lost_or_damaged_is_named() {
    let store = store().await;
    let table = table(&store, "t", &Definition::new(&pairs(0..1).schema()).unwrap()).await;
    append(&table, &[pairs(0..1_000), pairs(1_000..2_000)]).await;
    let pool = pool(&store, "p").await;
    let first = objects(&pool, &table).await.remove(0);
    let whole = pool.read_range(&first, 0, 1 << 20).await.unwrap();
    let sql = "SELECT name, count(*) FROM p.t WHERE name <> 'x' GROUP BY name";
    let mut flipped = whole.to_vec();
    let len = flipped.len();
    flipped[4..len / 2].fill(0xff);
    for damaged in [flipped, whole[..whole.len() / 2].to_vec(), Vec::new(), b"text".to_vec()] {
        pool.write_full(&first, damaged).await.unwrap();
        let (kind, error) = fails(&store, sql).await;
        assert_eq!(kind, ErrorKind::Corrupt, "{error}");
        assert!(
            error.contains("table=p/t") && error.contains(&format!("object={}", first.name())),
            "{error}"
        );
    }
    pool.remove(&first).await.unwrap();
    let (kind, error) = fails(&store, sql).await;
    assert!(kind == ErrorKind::Corrupt && error.contains("lost") && error.contains(first.name()), "{error}");
    // Queries of intact objects still work.
    let mut found = 0;
    for id in [500, 1_500] {
        match run(&store, settings(Pushdown::Always, true), &format!("SELECT name FROM p.t WHERE id = {id}"))
            .await
        {
            Ok(batches) => found += rows(&batches).len(),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Corrupt),
        }
    }
    assert_eq!(found, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_goes_while_it_is_read_is_an_error() {
    let store = store().await;
    let pool = pool(&store, "p").await;
    for pushdown in ALL {
        let table = table(&store, "t", &Definition::new(&pairs(0..1).schema()).unwrap()).await;
        append(&table, &Vec::from_iter((0..20).map(|part| pairs(part * 100..part * 100 + 100)))).await;
        // With one partition, a query reads nothing before its rows are requested.
        let settings = Settings { partitions: 1, ..settings(pushdown, true) };
        let queries = session(&store, settings);
        let rows = queries.query("SELECT name FROM p.t WHERE name <> 'x'").await.unwrap();
        drop_table(Arc::clone(&pool), "t", false, &Environment::default()).await.unwrap();
        let error = from_datafusion(&rows.try_collect::<Vec<_>>().await.unwrap_err());
        assert!(error.kind() == ErrorKind::NotFound && error.to_string().contains("table=p/t"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_is_read_whole_while_others_write() {
    let store = store().await;
    let table = table(&store, "t", &Definition::new(&pairs(0..1).schema()).unwrap()).await;
    append(&table, &[pairs(0..1_000)]).await;
    let queries = session(&store, settings(Pushdown::Always, true));
    let rows_then = queries.query("SELECT id FROM p.t WHERE id >= 0").await.unwrap();
    append(&table, &[pairs(1_000..2_000)]).await;
    let pool = pool(&store, "p").await;
    vacuum(pool, "t", &VacuumOptions::default(), &Environment::default()).await.unwrap();
    let batches: Vec<RecordBatch> = rows_then.try_collect().await.unwrap();
    let all = concat_batches(&batches[0].schema(), &batches).unwrap();
    assert_eq!(all.num_rows(), 1_000);
    assert_eq!(same(&store, "SELECT count(*) FROM p.t").await, ["2000"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_condition_of_a_selection_has_the_syntax_of_queries() {
    let store = store().await;
    let list = |id: i32| Some((0..id).map(Some));
    let columns: [(&str, ArrayRef); 3] = [
        ("id", Arc::new(Int64Array::from_iter_values(0..4))),
        ("doc", Arc::new(StringArray::from_iter_values((0..4).map(|id| format!(r#"{{"n": {id}}}"#))))),
        ("list", Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>((0..4).map(list)))),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let table = table(&store, "t", &Definition::new(&batch.schema()).unwrap()).await;
    append(&table, &[batch]).await;
    let snapshot = table.snapshot(SnapshotSelector::Current).await.unwrap();
    for (sql, id) in [
        ("doc ->> 'n' || 1 + 1 = '22' AND id < 9", "2"),
        ("array_any_match(list, x -> array_any_match(list, y -> x + y = 4))", "3"),
    ] {
        for pushdown in ALL {
            let session = session(&store, settings(pushdown, true));
            let selection = Selection {
                columns: Some(vec!["id".to_owned()]),
                sql: Some(sql.to_owned()),
                ..Selection::default()
            };
            let found: Vec<_> =
                session.select(snapshot.clone(), selection).await.unwrap().try_collect().await.unwrap();
            assert_eq!(rows(&found), [id], "{pushdown:?} {sql}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn columns_and_errors_name_array_all_match() {
    let store = store().await;
    let query = async |call: &str| {
        run(&store, settings(Pushdown::Never, true), &format!("SELECT {call} FROM (VALUES ([1, 2])) AS t(a)"))
            .await
    };
    for name in ["array_all_match", "all_match", "LIST_ALL_MATCH"] {
        let found = query(&format!("{name}(a, n -> n > 0)")).await.unwrap();
        let schema = found[0].schema();
        // As for all functions, a column has the name that the query calls.
        assert!(schema.field(0).name().starts_with(&format!("{}(", name.to_lowercase())), "{schema}");
        assert_eq!(rows(&found), ["true"]);
    }
    for (call, message) in [
        ("array_all_match(1, n -> n > 1)", "array_all_match expected a list"),
        ("array_all_match(a, n -> n + 1)", "array_all_match needs a condition, and got Int64"),
        ("array_all_match(a)", "'array_all_match' expected 2 argument(s)"),
        ("array_all_match(a, 5)", "'array_all_match' expected a lambda"),
    ] {
        let error = query(call).await.unwrap_err().to_string();
        assert!(error.contains(message) && !error.contains("any_match"), "{call}: {error}");
    }
}
