//! Column groups: tables that store some columns in objects of their own.

#![allow(clippy::single_range_in_vec_init, reason = "a set of rows is a list of ranges, also of one")]

use crate::support::{
    append, create, current, definition, entries, environment, findings, ids, memory_pool, names,
    on_both_engines, read, referred, rows, sorted_ids, try_append, try_read, try_rewrite, try_rewrite_all,
};
use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::DataType;
use benthic_core::{ErrorKind, WriteOp};
use benthic_table::{
    Alter, Definition, FileEntry, LayoutChange, Operation, Partitioning, Rows, Snapshot, SnapshotSelector,
    Table, VacuumOptions, WriterOptions, vacuum,
};
use futures::TryStreamExt;
use futures::executor::block_on;

fn grouped(groups: &[&[&str]]) -> LayoutChange {
    let group = |names: &&[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    LayoutChange { groups: Some(groups.iter().map(group).collect()), ..LayoutChange::default() }
}

fn set(table: &Table, groups: &[&[&str]]) {
    block_on(table.set_layout(&grouped(groups))).unwrap();
}

fn delete(table: &Table, rows: std::ops::Range<u32>) {
    let snapshot = current(table);
    let entries = entries(&snapshot);
    let entry = entries.iter().max_by_key(|entry| entry.rows).unwrap();
    let mut writer = block_on(snapshot.change(Operation::Delete, WriterOptions::default())).unwrap();
    writer.delete(entry, &Rows::new(vec![rows], entry.rows as u32)).unwrap();
    block_on(writer.finish()).unwrap();
}

fn read_columns(snapshot: &Snapshot, columns: &[&str]) -> benthic_core::Result<Vec<RecordBatch>> {
    let wanted = snapshot.schema().project(columns)?;
    block_on(async {
        let mut batches = Vec::new();
        for entry in snapshot.entries().try_collect::<Vec<_>>().await? {
            batches.extend(snapshot.read(&entry, &wanted).await?.try_collect::<Vec<_>>().await?);
        }
        Ok(batches)
    })
}

fn remove(table: &Table, entry: &FileEntry, part: usize) {
    let object = entry.parts().nth(part).unwrap().object.object_id(table.id()).unwrap();
    block_on(table.pool().remove(&object)).unwrap();
}

/// All that changes a table has the same outcome with column groups as without.
#[test]
fn a_table_with_groups_has_the_rows_of_one_without() {
    on_both_engines(|pool, _| {
        let (environment, clock) = environment();
        let partitioning = Partitioning::Hash { field: 1, buckets: 2 };
        let definition = Definition { partitioning, ..definition() };
        let tables = ["plain", "grouped"].map(|name| create(&pool, name, &definition, &environment));
        let [_, table] = &tables;
        set(table, &[&["name"], &["price"]]);
        let same = |at: &str| {
            let [expected, found] = tables.each_ref().map(current);
            assert_eq!(read(&found), read(&expected), "{at}");
            assert_eq!((found.rows(), found.objects()), (expected.rows(), expected.objects()), "{at}");
            assert_eq!(findings(&found), [""; 0], "{at}");
        };
        let both = |change: &dyn Fn(&Table)| tables.iter().for_each(change);
        both(&|table| drop(append(table, &rows(0..20_000))));
        same("appended");
        assert!(entries(&current(table)).iter().all(|entry| entry.groups.len() == 2));
        both(&|table| delete(table, 3..700));
        both(&|table| drop(append(table, &rows(20_000..20_300))));
        same("deleted");
        block_on(table.tag("before", SnapshotSelector::Current)).unwrap();
        let before = read(&current(table));
        let alter = |changes: Vec<Alter>| both(&|table| drop(block_on(table.alter(&changes)).unwrap()));
        alter(vec![
            Alter::Rename { from: "name".to_owned(), to: "label".to_owned() },
            Alter::Add { name: "more".to_owned(), data_type: DataType::Int64 },
        ]);
        same("renamed and added");
        let added = read_columns(&current(table), &["more", "id"]).unwrap();
        assert!(added.iter().all(|batch| batch.column(0).null_count() == batch.num_rows()));
        alter(vec![Alter::Drop { name: "price".to_owned() }]);
        same("dropped");
        assert_eq!(block_on(table.head()).unwrap().layout.groups, [vec![3]]);
        let label = |range: std::ops::Range<i64>| {
            let rows = rows(range);
            RecordBatch::try_from_iter([("id", rows.column(0).clone()), ("label", rows.column(2).clone())])
                .unwrap()
        };
        both(&|table| drop(append(table, &label(30_000..30_010))));
        same("appended after a change of columns");
        let compact = |table: &Table| {
            let groups = block_on(current(table).to_compact(true, &WriterOptions::default())).unwrap();
            block_on(try_rewrite(table, groups)).unwrap();
        };
        both(&compact);
        same("compacted");
        assert!(entries(&current(table)).iter().all(|entry| entry.groups.len() == 1));
        // An index is built and checked, and its pages are those of the whole rows.
        both(&|table| {
            block_on(table.add_index(&["label"])).unwrap();
            let built: Vec<_> = block_on(current(table).build_indexes(false).try_collect()).unwrap();
            assert!(built.iter().all(|built| built.built == 1));
            append(table, &label(30_010..30_020));
        });
        same("indexed");
        let tagged = block_on(table.snapshot(SnapshotSelector::Tag("before".to_owned()))).unwrap();
        assert_eq!(read(&tagged), before);
        clock.advance_ms(1);
        let options = VacuumOptions { keep_snapshots: 1, keep_ms: 0, intent_age_ms: 0 };
        block_on(vacuum(pool.clone(), "grouped", &options, &environment)).unwrap();
        assert_eq!(names(&pool, &table.id().namespace()), referred(table));
        assert_eq!(read(&tagged), before);
        block_on(table.untag("before")).unwrap();
        block_on(vacuum(pool.clone(), "grouped", &options, &environment)).unwrap();
        assert_eq!(names(&pool, &table.id().namespace()), referred(table));
        same("vacuumed");
        assert!(current(table).grouped_objects() == current(table).objects());
        set(table, &[]);
        block_on(try_rewrite_all(table)).unwrap();
        assert_eq!(
            (current(table).grouped_objects(), block_on(table.head()).unwrap().has_groups()),
            (0, false)
        );
        assert_eq!(block_on(try_rewrite_all(table)).unwrap(), 0);
        assert_eq!(ids(&current(table)), ids(&current(&tables[0])));
        assert_eq!(findings(&current(table)), [""; 0]);
    });
}

#[test]
fn a_read_needs_only_the_objects_of_its_columns() {
    let table = create(&memory_pool(), "t", &definition(), &environment().0);
    set(&table, &[&["name"], &["price"]]);
    append(&table, &rows(0..100));
    let [entry] = &entries(&current(&table))[..] else { panic!("one object") };
    remove(&table, entry, 1);
    let batches = read_columns(&current(&table), &["id", "price"]).unwrap();
    assert_eq!(sorted_ids(&batches[0]), (0..100).collect::<Vec<_>>());
    assert_eq!(batches[0].column(1), rows(0..100).column(1));
    remove(&table, entry, 0);
    let prices = read_columns(&current(&table), &["price"]).unwrap();
    assert_eq!(prices[0].column(0), rows(0..100).column(1));
    for lost in [&["id"][..], &["price", "name"]] {
        let error = read_columns(&current(&table), lost).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        assert!(error.to_string().contains("is lost"), "{error}");
    }
}

#[test]
fn fsck_finds_damaged_companions() {
    let table = create(&memory_pool(), "t", &definition(), &environment().0);
    set(&table, &[&["name"]]);
    append(&table, &rows(0..100));
    append(&table, &rows(200..250));
    assert_eq!(findings(&current(&table)), [""; 0]);
    let before = entries(&current(&table));
    let object = |entry: &FileEntry| entry.parts().nth(1).unwrap().object.object_id(table.id()).unwrap();
    let bytes = |entry: &FileEntry| {
        block_on(table.pool().read_range(&object(entry), 0, entry.groups[0].bytes)).unwrap()
    };
    let put = |entry: &FileEntry, bytes| {
        block_on(table.pool().write(&object(entry), WriteOp::new().write_full(bytes))).unwrap();
    };
    let (first, second) = (bytes(&before[0]), bytes(&before[1]));
    put(&before[0], second);
    let found = findings(&current(&table));
    assert!(matches!(&found[..], [one] if one.contains("size differs")), "{found:?}");
    assert!(block_on(try_read(&current(&table))).is_err());
    put(&before[0], first.clone());
    assert_eq!(findings(&current(&table)), [""; 0]);
    let mut wrong = first.to_vec();
    wrong[20] ^= 0x55;
    put(&before[0], wrong.into());
    assert_eq!(findings(&current(&table)).len(), 1);
    remove(&table, &before[0], 1);
    let found = findings(&current(&table));
    assert!(matches!(&found[..], [one] if one.contains("is lost")), "{found:?}");
}

/// Rows wait for each other in memory, whose limit counts all columns.
#[test]
fn little_memory_makes_small_objects_with_all_groups() {
    let table = create(&memory_pool(), "t", &definition(), &environment().0);
    set(&table, &[&["name"]]);
    let batches: Vec<RecordBatch> = (0..40).map(|part| rows(part * 2_000..(part + 1) * 2_000)).collect();
    let options = WriterOptions { buffer_bytes_max: 1, ..WriterOptions::default() };
    block_on(try_append(&table, &batches, options)).unwrap();
    let snapshot = current(&table);
    assert!(snapshot.objects() > 1 && snapshot.grouped_objects() == snapshot.objects());
    assert_eq!(ids(&snapshot), (0..80_000).collect::<Vec<_>>());
    let bytes: u64 = entries(&snapshot).iter().map(FileEntry::all_bytes).sum();
    assert_eq!(snapshot.data_bytes(), bytes);
    let read = read(&snapshot);
    let (ids, names) = (read.column(0), read.column(2).as_string::<i32>());
    let ids = ids.as_primitive::<arrow::datatypes::Int64Type>();
    assert!((0..read.num_rows()).all(|row| names.value(row) == format!("row {}", ids.value(row))));
}

#[test]
fn bad_groups_change_nothing() {
    let table = create(&memory_pool(), "t", &definition(), &environment().0);
    let before = block_on(table.head()).unwrap();
    for (groups, message) in [
        (&[&["nam"][..]][..], "did you mean \"name\""),
        (&[&["name"], &["name"]], "one group only"),
        (&[&["name", "id"], &["price"]], "leave at least one"),
        (&[&[]], "needs a column"),
    ] {
        let error = block_on(table.set_layout(&grouped(groups))).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains(message), "{error}");
    }
    assert_eq!(block_on(table.head()).unwrap(), before);
    // A rollback to fewer columns forgets the groups of the others.
    let changes = [Alter::Add { name: "more".to_owned(), data_type: DataType::Utf8 }];
    block_on(table.alter(&changes)).unwrap();
    set(&table, &[&["more"], &["id", "name", "price"][..2]]);
    block_on(table.rollback(SnapshotSelector::Id(1))).unwrap();
    assert_eq!(block_on(table.head()).unwrap().layout.groups, [vec![1, 3]]);
    append(&table, &rows(0..10));
    assert_eq!(read(&current(&table)).columns(), rows(0..10).columns());
}
