use super::{FileEntry, ListWriter};
use crate::head::{LISTS_MAX, Operation};
use crate::ids::{Id, Role, TableObject};
use crate::schema::TableSchema;
use crate::snapshot::SnapshotSelector;
use crate::statistics::Statistics;
use crate::table::{Definition, Table};
use arrow::array::{
    Array, ArrayRef, AsArray, Float64Array, Int64Array, RecordBatch, StringArray, new_null_array,
};
use arrow::datatypes::{DataType, Field, Int64Type, Schema};
use benthic_core::{Environment, Pool, Store};
use benthic_embedded::{MemStore, Options};
use benthic_testkit::random::Rng;
use benthic_testkit::seed;
use futures::TryStreamExt;
use futures::executor::block_on;
use std::sync::Arc;

fn pool() -> Arc<dyn Pool> {
    let store = MemStore::new(Options::default());
    block_on(store.create_pool("p")).unwrap();
    block_on(store.open_pool("p")).unwrap()
}

/// Sixteen columns as in a typical table of orders: numbers, floats, words.
fn schema() -> Schema {
    let data_type =
        |at: usize| [DataType::Int64, DataType::Float64, DataType::Utf8, DataType::Int64][at % 4].clone();
    Schema::new((0..16).map(|at| Field::new(format!("c{at}"), data_type(at), true)).collect::<Vec<_>>())
}

/// Adds a list of `objects` data objects that do not exist. The values of column 0 ascend from
/// object to object.
async fn commit_list(table: &Table, objects: u64) {
    let writer = Id::draw(&table.environment).unwrap();
    let schema = table.head().await.unwrap().current().unwrap().1.clone();
    let mut lists = ListWriter::new(table.pool().clone(), table.id(), writer, 0, &schema);
    for number in 0..objects {
        let object = TableObject { role: Role::Data, writer, number: number as u32 };
        let low = number as i64 * 100;
        let statistics = schema.columns().iter().map(|column| {
            let values: ArrayRef = match column.data_type {
                DataType::Int64 => Arc::new(Int64Array::from(vec![low, low + 99])),
                DataType::Float64 => Arc::new(Float64Array::from(vec![low as f64 / 7.0, f64::NAN])),
                _ => Arc::new(StringArray::from(vec![format!("customer {low}")])),
            };
            Statistics::of(&values)
        });
        let entry = FileEntry {
            object,
            schema: 0,
            partition: None,
            rows: 1_000,
            bytes: 1 << 25,
            deleted: None,
            groups: Vec::new(),
        };
        lists.push(entry, statistics.collect()).await.unwrap();
    }
    let written = lists.finish().await.unwrap();
    let commit = table.commit(writer, |head| {
        head.lists.extend(written.iter().map(|list| (list.object, *list)));
        let names = written.iter().map(|list| list.object).collect();
        head.push_snapshot(Operation::Append, writer, 0, 0, names);
        Ok(())
    });
    commit.await.unwrap();
}

/// Uses 10,000 objects; with BENTHIC_TEST_LONG, 100,000.
#[test]
fn a_table_of_many_objects_is_pruned_by_two_columns() {
    let objects = if seed::is_long() { 100_000 } else { 10_000 };
    let (pool, environment) = (pool(), Environment::default());
    let definition = Definition::new(&schema()).unwrap();
    block_on(async {
        let table = Table::create(pool.clone(), "t", &definition, environment.clone()).await.unwrap();
        commit_list(&table, objects).await;
        let table = Table::open(pool, "t", environment.clone()).await.unwrap();
        let snapshot = table.snapshot(SnapshotSelector::Current).await.unwrap();
        let mut files = snapshot.files(&["c0", "c1"]).unwrap();
        let (mut kept, mut seen) = (Vec::new(), 0);
        while let Some(batch) = files.try_next().await.unwrap() {
            let min = batch.column_by_name("min_1").unwrap().as_primitive::<Int64Type>().clone();
            let max = batch.column_by_name("max_1").unwrap().as_primitive::<Int64Type>().clone();
            assert!(batch.num_rows() <= super::BATCH_ROWS && batch.column_by_name("nans_2").is_some());
            let entries = FileEntry::from_batch(&batch).unwrap();
            seen += entries.len() as u64;
            kept.extend(
                (0..batch.num_rows())
                    .filter(|row| min.value(*row) <= 4_242 && max.value(*row) >= 4_242)
                    .map(|row| entries[row].clone()),
            );
        }
        assert_eq!((seen, snapshot.objects()), (objects, objects));
        assert_eq!(kept.iter().map(|entry| entry.object.number).collect::<Vec<_>>(), [42]);
        assert_eq!(snapshot.rows(), 1_000 * objects);
        assert!(snapshot.lists().len() < LISTS_MAX);
    });
}

#[test]
fn a_long_list_is_split_without_loss() {
    let schema = Schema::new(vec![Field::new("word", DataType::Utf8, true)]);
    let schema = TableSchema::from_arrow(&schema).unwrap();
    let (pool, table, writer) = (pool(), Id(1), Id(2));
    block_on(async {
        let mut lists = ListWriter::new(pool.clone(), table, writer, 5, &schema);
        let mut random = Rng(1);
        for number in 0..300_000 {
            let noise: String = (0..4).map(|_| format!("{:016x}", random.number())).collect();
            let object = TableObject { role: Role::Data, writer, number };
            let statistics = Statistics::of(&(Arc::new(StringArray::from(vec![noise])) as ArrayRef));
            let entry = FileEntry {
                object,
                schema: 0,
                partition: Some(-1),
                rows: 2,
                bytes: 3,
                deleted: None,
                groups: Vec::new(),
            };
            lists.push(entry, vec![statistics]).await.unwrap();
        }
        let written = lists.finish().await.unwrap();
        assert!(
            written.len() > 1
                && written[0].object.number == 5
                && lists.next_number() == 5 + written.len() as u32
        );
        assert_eq!(
            written
                .iter()
                .map(|list| (list.objects, list.rows, list.data_bytes))
                .fold((0, 0, 0), |a, b| { (a.0 + b.0, a.1 + b.1, a.2 + b.2) }),
            (300_000, 600_000, 900_000)
        );
        let mut numbers = 0;
        for list in written {
            assert!(list.list_bytes < 48 * 1024 * 1024);
            let mut batches =
                super::read_list(pool.clone(), (table, "p/t".to_owned()), list, schema.columns())
                    .await
                    .unwrap();
            while let Some(batch) = batches.try_next().await.unwrap() {
                for entry in FileEntry::from_batch(&batch).unwrap() {
                    assert_eq!((entry.object.number, entry.partition), (numbers, Some(-1)));
                    numbers += 1;
                }
            }
        }
        assert_eq!(numbers, 300_000);
    });
}

#[test]
fn statistics_of_every_type_are_written_and_read() {
    let schema = crate::schema::tests::every_type();
    let (pool, table, writer) = (pool(), Id(1), Id(2));
    let nulls = |column: &crate::Column| Statistics::of(&new_null_array(&column.data_type, 4));
    block_on(async {
        let mut lists = ListWriter::new(pool.clone(), table, writer, 0, &schema);
        let object = TableObject { role: Role::Data, writer, number: 0 };
        let entry = FileEntry {
            object,
            schema: 0,
            partition: None,
            rows: 4,
            bytes: 3,
            deleted: None,
            groups: Vec::new(),
        };
        lists.push(entry.clone(), schema.columns().iter().map(nulls).collect()).await.unwrap();
        let list = lists.finish().await.unwrap()[0];
        let mut batches =
            super::read_list(pool, (table, "p/t".to_owned()), list, schema.columns()).await.unwrap();
        let batch: RecordBatch = batches.try_next().await.unwrap().unwrap();
        for column in schema.columns() {
            let nulls = batch.column_by_name(&format!("nulls_{}", column.id)).unwrap();
            assert_eq!(nulls.as_primitive::<arrow::datatypes::UInt64Type>().value(0), 4);
            if let Some(min) = batch.column_by_name(&format!("min_{}", column.id)) {
                assert_eq!(min.data_type(), &column.data_type);
            }
        }
        assert_eq!(FileEntry::from_batch(&batch).unwrap(), [entry]);
    });
}

#[test]
fn lists_of_older_builds_have_no_distributions_and_can_be_merged() {
    let field = Field::new("k", DataType::Int64, true);
    let schema = TableSchema::from_arrow(&Schema::new(vec![field])).unwrap();
    let (pool, table, columns) = (pool(), Id(1), schema.columns());
    let values: ArrayRef = Arc::new(Int64Array::from_iter_values(0..100));
    let named = || (table, "p/t".to_owned());
    block_on(async {
        let mut lists = ListWriter::new(pool.clone(), table, Id(2), 0, &schema);
        let object = TableObject { role: Role::Data, writer: Id(2), number: 0 };
        let entry = FileEntry {
            object,
            schema: 0,
            partition: None,
            rows: 100,
            bytes: 3,
            deleted: None,
            groups: Vec::new(),
        };
        let statistics = Statistics::of(&values).with_distribution(&values).unwrap();
        lists.push(entry, vec![statistics]).await.unwrap();
        let new = lists.finish().await.unwrap()[0];
        let read = async |list, distributions: &[crate::Column]| {
            let mut batches =
                super::read_list_with(pool.clone(), named(), list, columns, distributions).await.unwrap();
            let batch: RecordBatch = batches.try_next().await.unwrap().unwrap();
            batch
        };
        // An older build writes and reads lists without this column.
        let without = read(new, &[]).await;
        assert!(without.column_by_name("distribution_1").is_none());
        let mut lists = ListWriter::new(pool.clone(), table, Id(3), 0, &schema);
        lists.schema = super::list_schema(columns);
        lists.push_batch(&without).await.unwrap();
        let old = lists.finish().await.unwrap()[0];
        let known = |batch: &RecordBatch| {
            let all = batch.column_by_name("distribution_1").unwrap().as_binary::<i32>().clone();
            let distinct = |encoded| benthic_index::Distribution::decode(encoded).unwrap().distinct();
            all.iter().map(|encoded| encoded.map(distinct)).collect::<Vec<_>>()
        };
        assert_eq!(known(&read(new, columns).await), [Some(100)]);
        let from_old = read(old, columns).await;
        assert_eq!(known(&from_old), [None]);
        let mut merged = ListWriter::new(pool.clone(), table, Id(4), 0, &schema);
        merged.push_batch(&from_old).await.unwrap();
        merged.push_batch(&read(new, columns).await).await.unwrap();
        let merged = merged.finish().await.unwrap()[0];
        assert_eq!((merged.objects, known(&read(merged, columns).await)), (2, vec![None, Some(100)]));
    });
}
