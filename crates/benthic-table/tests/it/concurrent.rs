//! Several writers, readers and vacuums at once.

use crate::support::{
    DAY_MS, append, create, current, definition, environment, ids, memory_pool, names, on_both_engines,
    referred, rows, try_append, try_read,
};
use arrow::datatypes::DataType;
use benthic_core::{Environment, ErrorKind};
use benthic_table::{Alter, SnapshotSelector, Table, VacuumOptions, WriterOptions, drop_table, vacuum};
use futures::executor::block_on;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

#[test]
fn concurrent_writers_lose_no_rows() {
    const WRITERS: i64 = 6;
    const APPENDS: i64 = 15;
    on_both_engines(|pool, other| {
        let table = create(&pool, "t", &definition(), &Environment::default());
        thread::scope(|scope| {
            for writer in 0..WRITERS {
                let pool = Arc::clone(if writer % 2 == 0 { &pool } else { &other });
                scope.spawn(move || {
                    let table = block_on(Table::open(pool, "t", Environment::default())).unwrap();
                    for append_number in 0..APPENDS {
                        let from = (writer * APPENDS + append_number) * 10;
                        append(&table, &rows(from..from + 10));
                    }
                });
            }
            let altering = Arc::clone(&pool);
            scope.spawn(move || {
                let table = block_on(Table::open(altering, "t", Environment::default())).unwrap();
                for name in ["a", "b", "c"] {
                    let change = Alter::Add { name: name.to_owned(), data_type: DataType::Int32 };
                    block_on(table.alter(&[change])).unwrap();
                }
            });
            // This vacuum immediately removes file lists that other writers merged.
            scope.spawn(|| {
                let options = VacuumOptions { keep_snapshots: 1, keep_ms: 0, intent_age_ms: DAY_MS };
                for _ in 0..20 {
                    block_on(vacuum(Arc::clone(&other), "t", &options, &Environment::default())).unwrap();
                }
            });
        });
        let snapshot = current(&table);
        assert_eq!(ids(&snapshot), (0..WRITERS * APPENDS * 10).collect::<Vec<_>>());
        assert_eq!(snapshot.id() as i64, 1 + WRITERS * APPENDS + 3, "one snapshot each");
        assert!(snapshot.lists().len() <= 33);
        let options = VacuumOptions { keep_snapshots: 1, keep_ms: 0, intent_age_ms: DAY_MS };
        block_on(vacuum(Arc::clone(&pool), "t", &options, &Environment::default())).unwrap();
        assert_eq!(names(&pool, &table.id().namespace()), referred(&table));
        assert_eq!(block_on(table.head()).unwrap().intents, []);
    });
}

/// While one process appends and another vacuums with no retention, a reader of the current
/// snapshot sees all its rows or gets the error that the snapshot was vacuumed.
#[test]
fn reading_while_others_vacuum_and_append() {
    on_both_engines(|pool, other| {
        let (environment, clock) = environment();
        let table = create(&pool, "t", &definition(), &environment);
        append(&table, &rows(0..10));
        let done = AtomicBool::new(false);
        let (mut whole, mut vacuumed) = (0, 0);
        thread::scope(|scope| {
            scope.spawn(|| {
                for from in 1..60 {
                    append(&table, &rows(from * 10..from * 10 + 10));
                }
                done.store(true, Ordering::SeqCst);
            });
            scope.spawn(|| {
                let options = VacuumOptions { keep_snapshots: 1, keep_ms: 0, intent_age_ms: DAY_MS };
                while !done.load(Ordering::SeqCst) {
                    clock.advance_ms(1);
                    block_on(vacuum(Arc::clone(&other), "t", &options, &environment)).unwrap();
                }
            });
            while !done.load(Ordering::SeqCst) {
                let snapshot = current(&table);
                match block_on(try_read(&snapshot)) {
                    Ok(batch) => {
                        let expected: Vec<i64> = (0..snapshot.rows() as i64).collect();
                        assert_eq!(crate::support::sorted_ids(&batch), expected);
                        whole += 1;
                    }
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
                        assert!(error.to_string().contains("the snapshot was vacuumed"), "{error}");
                        assert!(
                            error.to_string().contains(" object=l/")
                                || error.to_string().contains(" object=d/")
                        );
                        vacuumed += 1;
                    }
                }
            }
        });
        assert!(whole > 0, "whole={whole} vacuumed={vacuumed}");
        clock.advance_ms(1);
        let options = VacuumOptions { keep_snapshots: 1, keep_ms: 0, intent_age_ms: DAY_MS };
        block_on(vacuum(Arc::clone(&pool), "t", &options, &environment)).unwrap();
        assert_eq!(ids(&current(&table)), (0..600).collect::<Vec<_>>());
        assert_eq!(names(&pool, &table.id().namespace()), referred(&table));
    });
}

#[test]
fn a_vacuum_keeps_the_objects_of_active_writers() {
    let (environment, clock) = environment();
    let pool = memory_pool();
    let table = create(&pool, "t", &definition(), &environment);
    let options = WriterOptions { buffer_bytes_max: 1024 * 1024, ..WriterOptions::default() };
    let mut writer = block_on(table.writer(options.clone())).unwrap();
    block_on(writer.write(&rows(0..200_000))).unwrap();
    let written = names(&pool, &table.id().namespace());
    assert!(written.len() > 1, "{written:?}");
    clock.advance_ms(DAY_MS - 1);
    let keep = VacuumOptions::default();
    assert_eq!(block_on(vacuum(Arc::clone(&pool), "t", &keep, &environment)).unwrap().objects, 0);
    assert_eq!(block_on(writer.finish()).unwrap().rows(), 200_000);

    // After a day, vacuum treats the writer's intent as abandoned. The commit then fails and leaves
    // the table unchanged.
    let mut writer = block_on(table.writer(options)).unwrap();
    block_on(writer.write(&rows(0..200_000))).unwrap();
    clock.advance_ms(DAY_MS + 1);
    let vacuumed = block_on(vacuum(Arc::clone(&pool), "t", &keep, &environment)).unwrap();
    assert!(vacuumed.writers == 1 && vacuumed.objects > 1, "{vacuumed:?}");
    let error = block_on(writer.finish()).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert!(error.to_string().contains("a vacuum removed this writer"), "{error}");
    assert_eq!(current(&table).rows(), 200_000);
    assert_eq!(names(&pool, &table.id().namespace()), referred(&table), "it removed what it wrote after");
}

#[test]
fn aborting_a_committed_writer_removes_nothing() {
    let (environment, clock) = environment();
    let pool = memory_pool();
    let table = create(&pool, "t", &definition(), &environment);
    let mut writer = block_on(table.writer(WriterOptions::default())).unwrap();
    block_on(writer.write(&rows(0..10))).unwrap();
    block_on(writer.finish()).unwrap();
    block_on(writer.abort()).unwrap();
    assert_eq!(current(&table).rows(), 10);
    // The writer also removes nothing if its snapshot was vacuumed, because the next snapshot
    // contains the rows.
    append(&table, &rows(10..20));
    clock.advance_ms(1);
    let newest = VacuumOptions { keep_snapshots: 1, keep_ms: 0, intent_age_ms: DAY_MS };
    block_on(vacuum(Arc::clone(&pool), "t", &newest, &environment)).unwrap();
    assert_eq!(block_on(table.history()).unwrap().len(), 1);
    assert_eq!(block_on(writer.abort()).unwrap_err().kind(), ErrorKind::OutcomeUnknown);
    assert_eq!(ids(&current(&table)), (0..20).collect::<Vec<_>>());
}

#[test]
fn a_vacuum_keeps_the_requested_snapshots() {
    let (environment, clock) = environment();
    let pool = memory_pool();
    let table = create(&pool, "t", &definition(), &environment);
    for from in 0..6 {
        clock.advance_ms(100);
        append(&table, &rows(from * 10..from * 10 + 10));
    }
    let kept = |keep_snapshots, keep_ms| {
        let options = VacuumOptions { keep_snapshots, keep_ms, intent_age_ms: DAY_MS };
        block_on(vacuum(Arc::clone(&pool), "t", &options, &environment)).unwrap();
        block_on(table.history()).unwrap().iter().map(|snapshot| snapshot.id()).collect::<Vec<_>>()
    };
    assert_eq!(kept(2, 300), [4, 5, 6, 7]);
    assert_eq!(kept(3, 0), [5, 6, 7]);
    assert_eq!(names(&pool, &table.id().namespace()), referred(&table));
    let old = block_on(table.snapshot(SnapshotSelector::Id(5))).unwrap();
    clock.advance_ms(1);
    assert_eq!(kept(0, 0), [7]);
    // The current snapshot shares its file lists with older ones, so all their rows remain
    // readable.
    assert_eq!(ids(&old), (0..40).collect::<Vec<_>>());
    assert_eq!(ids(&current(&table)), (0..60).collect::<Vec<_>>());
}

#[test]
fn a_table_dropped_under_a_reader_and_a_writer() {
    let (environment, clock) = environment();
    let pool = memory_pool();
    let table = create(&pool, "t", &definition(), &environment);
    let snapshot = append(&table, &rows(0..10));
    let mut writer = block_on(table.writer(WriterOptions::default())).unwrap();
    block_on(writer.write(&rows(10..20))).unwrap();
    let dropped = block_on(drop_table(Arc::clone(&pool), "t", false, &environment)).unwrap();
    assert!(!dropped.finished, "somebody writes to it");
    let error = block_on(try_read(&snapshot)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(
        error.to_string().contains("the table is being dropped") && error.to_string().contains("table=p/t"),
        "{error}"
    );
    assert_eq!(block_on(writer.finish()).err().unwrap().kind(), ErrorKind::NotFound);
    assert_eq!(
        block_on(try_append(&table, &[rows(0..1)], WriterOptions::default())).err().unwrap().kind(),
        ErrorKind::NotFound
    );
    clock.advance_ms(2 * DAY_MS);
    assert!(block_on(drop_table(Arc::clone(&pool), "t", false, &environment)).unwrap().finished);
    assert_eq!(names(&pool, &table.id().namespace()).len(), 0);
    assert_eq!(
        block_on(drop_table(Arc::clone(&pool), "t", false, &environment)).err().unwrap().kind(),
        ErrorKind::NotFound
    );
    // A new table of the same name is a different table.
    create(&pool, "t", &definition(), &environment);
    let error = block_on(table.snapshot(SnapshotSelector::Current)).err().unwrap();
    assert!(error.to_string().contains("was dropped, and another table has its name"), "{error}");
    // A forced drop does not wait for writers. The active writer removes its own objects.
    let table = block_on(Table::open(Arc::clone(&pool), "t", environment.clone())).unwrap();
    let options = WriterOptions { buffer_bytes_max: 1024 * 1024, ..WriterOptions::default() };
    let mut writer = block_on(table.writer(options)).unwrap();
    assert!(block_on(drop_table(Arc::clone(&pool), "t", true, &environment)).unwrap().finished);
    block_on(writer.write(&rows(0..200_000))).unwrap();
    assert!(!names(&pool, &table.id().namespace()).is_empty());
    assert_eq!(block_on(writer.finish()).err().unwrap().kind(), ErrorKind::NotFound);
    assert_eq!(names(&pool, &table.id().namespace()).len(), 0);
}
