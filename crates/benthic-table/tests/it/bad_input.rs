//! Damage: every error names the table and the object. The engines detect bytes that changed after
//! the write, so these tests write damaged objects.

use crate::support::{
    append, create, current, definition, entries, environment, ids, memory_pool, names, read, referred, rows,
    try_append, try_read,
};
use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use benthic_core::names::TABLES_NAMESPACE;
use benthic_core::{Error, ErrorKind, ObjectId, Pool};
use benthic_table::ids::{Id, head_object};
use benthic_table::{Definition, SnapshotSelector, Table, VacuumOptions, WriterOptions, drop_table, vacuum};
use benthic_testkit::random::Rng;
use bytes::Bytes;
use futures::TryStreamExt;
use futures::executor::block_on;
use std::sync::Arc;

fn bytes_of(pool: &Arc<dyn Pool>, object: &ObjectId) -> Bytes {
    block_on(pool.read_range(object, 0, 16 * 1024 * 1024)).unwrap()
}

#[test]
fn a_damaged_head_is_refused_and_the_other_tables_are_listed() {
    let (environment, _) = environment();
    let pool = memory_pool();
    let table = create(&pool, "t", &definition(), &environment);
    create(&pool, "well", &definition(), &environment);
    let head = head_object("t").unwrap();
    let bytes = bytes_of(&pool, &head);
    let refused = |bytes: Vec<u8>| -> Error {
        block_on(pool.write_full(&head, bytes)).unwrap();
        block_on(table.snapshot(SnapshotSelector::Current)).err().unwrap()
    };
    let error = refused(bytes[..bytes.len() / 2].to_vec());
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.to_string().contains("head is damaged: its checksum is wrong table=p/t"), "{error}");
    let newer = [&bytes[..8], &[3, 0, 0, 0], &bytes[12..]].concat();
    let error = refused(newer);
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("newer than this build"), "{error}");
    assert_eq!(refused(b"hello".to_vec()).kind(), ErrorKind::Corrupt);
    let listed = block_on(Table::list(Arc::clone(&pool))).unwrap();
    assert!(listed[0].head.is_err() && listed[1].head.is_ok());
    assert_eq!(names(&pool, TABLES_NAMESPACE).len(), 2);
}

/// Each kind of damage to a data object and to a file list, at many places.
#[test]
fn errors_name_the_damaged_object() {
    let (environment, _) = environment();
    let pool = memory_pool();
    let table = create(&pool, "t", &definition(), &environment);
    let snapshot = append(&table, &rows(0..1_000));
    let good = read(&snapshot);
    let namespace = table.id().namespace();
    let objects = [entries(&snapshot)[0].object.to_string(), snapshot.lists()[0].object.to_string()];
    for name in objects {
        let id = ObjectId::in_namespace(namespace.clone(), name.clone()).unwrap();
        let bytes = bytes_of(&pool, &id);
        let with = |bytes: Vec<u8>| {
            block_on(pool.write_full(&id, bytes)).unwrap();
            block_on(try_read(&snapshot))
        };
        let named = |error: Error| {
            let text = error.to_string();
            assert!(text.contains("table=p/t") && text.contains(" object="), "{text}");
            error.kind()
        };
        for len in [0, 3, 8, bytes.len() / 2, bytes.len() - 1] {
            assert_eq!(named(with(bytes[..len].to_vec()).unwrap_err()), ErrorKind::Corrupt, "len={len}");
        }
        let mut found = 0;
        for at in (0..bytes.len()).step_by(3) {
            let mut flipped = bytes.to_vec();
            flipped[at] ^= 0xff;
            if let Err(error) = with(flipped) {
                named(error);
                found += 1;
            }
        }
        assert!(found > 20, "found={found}");
        block_on(pool.remove(&id)).unwrap();
        let error = block_on(try_read(&snapshot)).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("is lost") && text.contains(&format!("object={name}")), "{error}");
        assert_eq!(named(error), ErrorKind::Corrupt);
        assert_eq!(with(bytes.to_vec()).unwrap(), good);
    }
}

#[test]
fn a_vacuum_that_cannot_read_a_list_removes_nothing() {
    let (environment, clock) = environment();
    let pool = memory_pool();
    let table = create(&pool, "t", &definition(), &environment);
    append(&table, &rows(0..10));
    append(&table, &rows(10..20));
    let stray = ObjectId::in_namespace(table.id().namespace(), "notes.txt").unwrap();
    block_on(pool.write_full(&stray, "of somebody else")).unwrap();
    let list = current(&table).lists()[0].object.to_string();
    let list = ObjectId::in_namespace(table.id().namespace(), list).unwrap();
    let bytes = bytes_of(&pool, &list);
    clock.advance_ms(1);
    let options = VacuumOptions { keep_snapshots: 1, keep_ms: 0, intent_age_ms: 0 };
    let run = || block_on(vacuum(Arc::clone(&pool), "t", &options, &environment));
    let before = names(&pool, &table.id().namespace());
    for damage in [bytes.slice(..bytes.len() - 9), Bytes::new()] {
        block_on(pool.write_full(&list, damage)).unwrap();
        assert_eq!(run().unwrap_err().kind(), ErrorKind::Corrupt);
    }
    block_on(pool.remove(&list)).unwrap();
    let error = run().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.to_string().contains("a file list of the table is lost"), "{error}");
    block_on(pool.write_full(&list, bytes)).unwrap();
    assert_eq!(names(&pool, &table.id().namespace()), before);
    assert_eq!(run().unwrap().foreign_objects, 1);
    assert_eq!(names(&pool, &table.id().namespace()), before, "also what is not ours");
    assert_eq!(ids(&current(&table)), (0..20).collect::<Vec<_>>());
}

#[test]
fn ten_thousand_columns_work_and_more_are_refused() {
    let (environment, _) = environment();
    let pool = memory_pool();
    let wide = |columns: usize| {
        let column =
            |at: usize| (format!("c{at}"), Arc::new(Int64Array::from(vec![at as i64; 3])) as ArrayRef);
        RecordBatch::try_from_iter((0..columns).map(column)).unwrap()
    };
    let batch = wide(10_000);
    let table = create(&pool, "t", &Definition::new(&batch.schema()).unwrap(), &environment);
    let snapshot = append(&table, &batch);
    let wanted = snapshot.schema().project(&["c9999"]).unwrap();
    let entry = entries(&snapshot)[0].clone();
    let rows: Vec<RecordBatch> =
        block_on(async { snapshot.read(&entry, &wanted).await.unwrap().try_collect().await }).unwrap();
    assert_eq!(rows[0].column(0).as_ref(), batch.column(9_999).as_ref());
    let error = Definition::new(&wide(10_001).schema()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitExceeded);
    assert!(error.to_string().contains("too many columns"), "{error}");
}

#[test]
fn a_row_larger_than_an_object_is_refused() {
    let (environment, _) = environment();
    let pool = memory_pool();
    let table = create(&pool, "t", &definition(), &environment);
    let mut random = Rng(1);
    let batch = |names: Vec<String>| {
        let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..names.len() as i64));
        RecordBatch::try_from_iter([("id", ids), ("name", Arc::new(StringArray::from(names)) as ArrayRef)])
            .unwrap()
    };
    // Two rows that each fit into an object, but not together, become two objects.
    let both = batch(vec![random.text(40 << 20), random.text(40 << 20)]);
    let snapshot = append(&table, &both);
    assert_eq!((snapshot.objects(), read(&snapshot).num_rows()), (2, 2));
    let huge = batch(vec!["small".to_owned(), random.text(65 << 20)]);
    let error = block_on(try_append(&table, &[huge], WriterOptions::default())).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::LimitExceeded);
    assert!(error.to_string().contains("a row is too large for an object"), "{error}");
    assert_eq!(current(&table).id(), snapshot.id());
    assert_eq!(names(&pool, &table.id().namespace()), referred(&table));
}

#[test]
fn two_tables_never_have_the_same_objects() {
    let (environment, _) = environment();
    let pool = memory_pool();
    let table = create(&pool, "t", &definition(), &environment);
    append(&table, &rows(0..10));
    let create_as = |name: &str, id: Id| {
        block_on(Table::create_as(Arc::clone(&pool), name, &definition(), environment.clone(), id))
    };
    for id in [table.id(), Id(0)] {
        assert_eq!(create_as("other", id).err().unwrap().kind(), ErrorKind::AlreadyExists);
    }
    assert_eq!(create_as("t", Id(7)).err().unwrap().kind(), ErrorKind::AlreadyExists);
    let other = create_as("other", Id(7)).unwrap();
    assert_eq!(other.id(), Id(7));
    // A second call is not taken for the first one, although the table has no objects yet.
    assert_eq!(create_as("other", Id(7)).err().unwrap().kind(), ErrorKind::AlreadyExists);
    // Rows of another client stay, and so does another table with the name.
    append(&other, &rows(0..10));
    assert_eq!(block_on(other.drop_unchanged()).err().unwrap().kind(), ErrorKind::Conflict);
    assert!(block_on(drop_table(Arc::clone(&pool), "other", false, &environment)).unwrap().finished);
    let newer = create_as("other", Id(8)).unwrap();
    assert_eq!(block_on(other.drop_unchanged()).err().unwrap().kind(), ErrorKind::Conflict);
    assert!(block_on(newer.drop_unchanged()).unwrap().finished);
    assert_eq!(block_on(newer.drop_unchanged()).err().unwrap().kind(), ErrorKind::NotFound);
}
