//! Changes of rows: deletion vectors, rewritten objects, conflicts, rollback, tags, compaction.

#![allow(clippy::single_range_in_vec_init, reason = "a set of rows is a list of ranges, also of one")]

use crate::support::{
    append, create, current, definition, entries, environment, findings, ids, memory_pool, on_both_engines,
    read, rows, try_rewrite,
};
use arrow::array::RecordBatch;
use arrow::datatypes::DataType;
use benthic_core::{Error, ErrorKind, Result};
use benthic_table::{
    Alter, FileEntry, Operation, Rows, Snapshot, SnapshotSelector, Table, VacuumOptions, Writer,
    WriterOptions, vacuum,
};
use futures::executor::block_on;

fn writer(snapshot: &Snapshot, operation: Operation) -> Writer {
    block_on(snapshot.change(operation, WriterOptions::default())).unwrap()
}

fn of(entry: &FileEntry, ranges: &[std::ops::Range<u32>]) -> Rows {
    Rows::new(ranges.to_vec(), u32::try_from(entry.rows).unwrap())
}

/// The object with the most rows.
fn largest(snapshot: &Snapshot) -> FileEntry {
    entries(snapshot).into_iter().max_by_key(|entry| entry.rows).unwrap()
}

/// Deletes rows of the largest object, and adds others.
fn change(
    snapshot: &Snapshot,
    ranges: &[std::ops::Range<u32>],
    added: Option<&RecordBatch>,
) -> Result<Snapshot> {
    let entry = largest(snapshot);
    let mut writer = writer(snapshot, Operation::Update);
    writer.delete(&entry, &of(&entry, ranges)).unwrap();
    block_on(async {
        if let Some(added) = added {
            writer.write(added).await?;
        }
        writer.finish().await
    })
}

fn refused<T>(outcome: Result<T>) -> Error {
    outcome.err().unwrap()
}

#[test]
fn deleted_rows_are_gone_in_the_new_snapshot_only() {
    on_both_engines(|pool, other| {
        let table = create(&pool, "t", &definition(), &environment().0);
        let before = append(&table, &rows(0..100));
        let after = change(&before, &[0..3, 50..51], Some(&rows(1_000..1_002))).unwrap();
        assert_eq!((after.operation(), after.id()), (Operation::Update, 3));
        let there = block_on(Table::open(other, "t", environment().0)).unwrap();
        let expected: Vec<i64> = (3..50).chain(51..100).chain(1_000..1_002).collect();
        assert_eq!(ids(&current(&there)), expected);
        assert_eq!(after.rows(), 98);
        assert_eq!(ids(&before), (0..100).collect::<Vec<_>>());
        // A second deletion in the same object adds to the first one.
        let again = change(&after, &[99..100], None).unwrap();
        assert_eq!(ids(&again), expected.iter().copied().filter(|id| *id != 99).collect::<Vec<_>>());
        let entry = largest(&again);
        assert_eq!((entry.rows, entry.live_rows()), (100, 95));
        assert_eq!(findings(&again), [""; 0]);
        // Appends keep the deletion vectors, also when they merge lists.
        for id in 0..40 {
            append(&table, &rows(2_000 + id..2_001 + id));
        }
        assert!(current(&table).lists().len() < 40, "lists were merged");
        let expected: Vec<i64> = (3..50).chain(51..99).chain(1_000..1_002).chain(2_000..2_040).collect();
        assert_eq!(ids(&current(&there)), expected);
        assert_eq!(findings(&current(&there)), [""; 0]);
    });
}

#[test]
fn an_object_with_many_deleted_rows_is_written_again() {
    let table = create(&memory_pool(), "t", &definition(), &environment().0);
    let before = append(&table, &rows(0..100));
    let old = entries(&before)[0].object;
    let few = change(&before, &[0..24], None).unwrap();
    assert_eq!(entries(&few)[0].object, old);
    let many = change(&few, &[24..25], None).unwrap();
    let rewritten = entries(&many).swap_remove(0);
    assert!(rewritten.object != old && rewritten.deleted.is_none() && rewritten.rows == 75);
    assert_eq!(ids(&many), (25..100).collect::<Vec<_>>());
    // An object without rows is not written.
    let none = change(&many, &[0..75], None).unwrap();
    assert_eq!((none.objects(), none.rows(), none.lists().len()), (0, 0, 0));
    assert_eq!(read(&many).num_rows(), 75);
}

#[test]
fn appends_do_not_disturb_a_change_but_changes_of_the_same_object_do() {
    let table = create(&memory_pool(), "t", &definition(), &environment().0);
    let base = append(&table, &rows(0..100));
    append(&table, &rows(100..110));
    let changed = change(&base, &[0..1], None).unwrap();
    assert_eq!(ids(&changed), (1..110).collect::<Vec<_>>());
    // The base snapshot does not have the deletion vector.
    let error = refused(change(&base, &[1..2], None));
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert!(!table_has_writers(&table), "the failed change is no longer registered");
    assert_eq!(ids(&current(&table)), (1..110).collect::<Vec<_>>());
    // Another object may change.
    let other = entries(&changed).into_iter().find(|entry| entry.rows == 10).unwrap();
    let mut second = writer(&changed, Operation::Delete);
    second.delete(&other, &of(&other, &[0..1])).unwrap();
    change(&changed, &[1..2], None).unwrap();
    assert_eq!(ids(&block_on(second.finish()).unwrap()), (2..100).chain(101..110).collect::<Vec<_>>());
    // A merge adds rows because others are missing, so an append disturbs it.
    let base = current(&table);
    let mut merge = writer(&base, Operation::Merge);
    block_on(merge.write(&rows(500..501))).unwrap();
    append(&table, &rows(500..501));
    assert_eq!(refused(block_on(merge.finish())).kind(), ErrorKind::Conflict);
    assert_eq!(ids(&current(&table)).iter().filter(|id| **id == 500).count(), 1);
}

fn table_has_writers(table: &Table) -> bool {
    !block_on(table.head()).unwrap().intents.is_empty()
}

#[test]
fn changed_columns_disturb_a_change() {
    let table = create(&memory_pool(), "t", &definition(), &environment().0);
    let base = append(&table, &rows(0..10));
    let rename = Alter::Rename { from: "name".to_owned(), to: "label".to_owned() };
    block_on(table.alter(&[rename])).unwrap();
    let error = refused(block_on(base.change(Operation::Delete, WriterOptions::default())));
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert!(!table_has_writers(&table));
}

#[test]
fn a_rollback_restores_rows_and_columns() {
    let table = create(&memory_pool(), "t", &definition(), &environment().0);
    let first = append(&table, &rows(0..10));
    let add = Alter::Add { name: "extra".to_owned(), data_type: DataType::Int32 };
    block_on(table.alter(&[add])).unwrap();
    change(&current(&table), &[0..5], None).unwrap();
    let back = block_on(table.rollback(SnapshotSelector::Id(first.id()))).unwrap();
    assert_eq!((back.id(), back.operation(), back.schema().columns().len()), (5, Operation::Rollback, 3));
    assert_eq!(ids(&back), (0..10).collect::<Vec<_>>());
    append(&table, &rows(10..12));
    assert_eq!(ids(&current(&table)), (0..12).collect::<Vec<_>>());
    // The snapshots in between stay, and the rollback can be undone.
    let forward = block_on(table.rollback(SnapshotSelector::Id(4))).unwrap();
    assert_eq!((ids(&forward), forward.schema().columns().len()), ((5..10).collect::<Vec<_>>(), 4));
    assert_eq!(findings(&forward), [""; 0]);
    let missing = refused(block_on(table.rollback(SnapshotSelector::Id(99))));
    assert_eq!(missing.kind(), ErrorKind::NotFound);
}

#[test]
fn a_rollback_refuses_columns_that_do_not_fit() {
    let table = create(&memory_pool(), "t", &definition(), &environment().0);
    append(&table, &rows(0..10));
    let add = Alter::Add { name: "extra".to_owned(), data_type: DataType::Int32 };
    block_on(table.alter(&[add])).unwrap();
    block_on(table.add_index(&["extra"])).unwrap();
    let error = refused(block_on(table.rollback(SnapshotSelector::Id(2))));
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("index=extra"), "{error}");
    block_on(table.drop_index(&["extra"])).unwrap();
    // A writer whose columns are wider than those after the rollback cannot commit.
    let widen = Alter::Widen { name: "extra".to_owned(), data_type: DataType::Int64 };
    block_on(table.alter(&[widen])).unwrap();
    let mut late = block_on(table.writer(WriterOptions::default())).unwrap();
    block_on(late.write(&rows(10..11))).unwrap();
    block_on(table.rollback(SnapshotSelector::Id(3))).unwrap();
    assert_eq!(refused(block_on(late.finish())).kind(), ErrorKind::Conflict);
    assert_eq!(ids(&current(&table)), (0..10).collect::<Vec<_>>());
}

#[test]
fn a_vacuum_keeps_tagged_snapshots() {
    let pool = memory_pool();
    let (environment, clock) = environment();
    let table = create(&pool, "t", &definition(), &environment);
    append(&table, &rows(0..10));
    block_on(table.tag("release-1", SnapshotSelector::Current)).unwrap();
    change(&current(&table), &[0..9], None).unwrap();
    append(&table, &rows(10..20));
    let options = VacuumOptions { keep_ms: 0, ..VacuumOptions::default() };
    clock.advance_ms(1);
    let done = block_on(vacuum(pool.clone(), "t", &options, &environment)).unwrap();
    assert_eq!(done.snapshots, 2, "the first one, and the one after the tagged one");
    let tagged = block_on(table.snapshot(SnapshotSelector::Tag("release-1".to_owned()))).unwrap();
    assert_eq!(ids(&tagged), (0..10).collect::<Vec<_>>());
    assert_eq!(
        block_on(table.tags()).unwrap().into_iter().collect::<Vec<_>>(),
        [("release-1".to_owned(), 2)]
    );
    block_on(table.untag("release-1")).unwrap();
    assert_eq!(block_on(table.untag("release-1")).unwrap_err().kind(), ErrorKind::NotFound);
    for name in ["", "7th", "a b", "a\nb", &"x".repeat(101)] {
        let error = block_on(table.tag(name, SnapshotSelector::Current)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{name:?}");
    }
}

#[test]
fn a_compaction_makes_one_object_of_many_and_drops_deleted_rows() {
    let pool = memory_pool();
    let (environment, clock) = environment();
    let table = create(&pool, "t", &definition(), &environment);
    for part in 0..10 {
        append(&table, &rows(part * 100..(part + 1) * 100));
    }
    let changed = change(&current(&table), &[0..10], None).unwrap();
    let expected = ids(&changed);
    let groups = block_on(changed.to_compact(false, &WriterOptions::default())).unwrap();
    assert_eq!(groups.iter().map(Vec::len).collect::<Vec<_>>(), [10]);
    append(&table, &rows(5_000..5_001));
    // Rows that were appended since stay.
    assert_eq!(block_on(try_rewrite(&table, groups)).unwrap(), 10);
    let compacted = current(&table);
    assert_eq!((compacted.objects(), compacted.operation()), (2, Operation::Compact));
    assert_eq!(ids(&compacted), expected.into_iter().chain([5_000]).collect::<Vec<_>>());
    assert_eq!(findings(&compacted), [""; 0]);
    clock.advance_ms(10);
    let options = VacuumOptions { keep_ms: 0, ..VacuumOptions::default() };
    block_on(vacuum(pool, "t", &options, &environment)).unwrap();
    assert_eq!(ids(&current(&table)).len(), 991);
}

#[test]
fn a_change_names_rows_of_its_own_objects_only() {
    let table = create(&memory_pool(), "t", &definition(), &environment().0);
    let base = append(&table, &rows(0..10));
    let entry = entries(&base).swap_remove(0);
    let mut plain = block_on(table.writer(WriterOptions::default())).unwrap();
    assert_eq!(plain.delete(&entry, &of(&entry, &[0..1])).unwrap_err().kind(), ErrorKind::Internal);
    let mut change = writer(&base, Operation::Delete);
    assert_eq!(change.delete(&entry, &Rows::all(11)).unwrap_err().kind(), ErrorKind::Internal);
    // A change without rows makes no snapshot.
    assert_eq!(block_on(change.finish()).unwrap().id(), base.id());
    block_on(plain.abort()).unwrap();
    assert!(!table_has_writers(&table));
}
