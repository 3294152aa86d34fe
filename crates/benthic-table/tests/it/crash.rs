//! Crashes at every point of a table's life.

use crate::faulty::{FailedWrite, FaultyPool};
use crate::support::{
    DAY_MS, create, current, definition, environment, findings, ids, memory_pool, names, referred, rows,
    try_append, try_rewrite, try_rewrite_all,
};
use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::Int64Type;
use benthic_core::names::TABLES_NAMESPACE;
use benthic_core::{Environment, ErrorKind, Pool, Result};
use benthic_table::{
    Codec, Definition, LayoutChange, Operation, Partitioning, Rows, SnapshotSelector, Table, VacuumOptions,
    WriterOptions, drop_table, vacuum,
};
use futures::TryStreamExt;
use futures::executor::block_on;
use std::sync::Arc;

const KEEP_ONE: VacuumOptions = VacuumOptions { keep_snapshots: 1, keep_ms: 0, intent_age_ms: 0 };

/// The steps that were acknowledged before the crash.
#[derive(Debug, Default)]
struct Acknowledged {
    created: bool,
    /// Number of changes of rows; see [`states`].
    changes: usize,
    dropping: bool,
}

/// The ids after each change of rows.
fn states() -> [Vec<i64>; 7] {
    let changed = || (10..90).chain(100..105).collect();
    [vec![], (0..50).collect(), (0..90).collect(), changed(), changed(), changed(), changed()]
}

/// Creates a table, appends twice, changes rows, compacts, changes its layout and rewrites it, with
/// column groups, joins the groups, vacuums and drops it.
async fn live(pool: Arc<dyn Pool>, environment: &Environment, done: &mut Acknowledged) -> Result<()> {
    let partitioning = Partitioning::Hash { field: 1, buckets: 2 };
    let definition = Definition { partitioning, ..definition() };
    let table = Table::create(Arc::clone(&pool), "t", &definition, environment.clone()).await?;
    done.created = true;
    try_append(&table, &[rows(0..50)], WriterOptions::default()).await?;
    done.changes = 1;
    try_append(&table, &[rows(50..80), rows(80..90)], WriterOptions::default()).await?;
    done.changes = 2;
    update(&table, |id| id < 10, &rows(100..105)).await?;
    done.changes = 3;
    try_rewrite(
        &table,
        table.snapshot(SnapshotSelector::Current).await?.to_compact(true, &WriterOptions::default()).await?,
    )
    .await?;
    done.changes = 4;
    table.set_layout(&lz4_by_name()).await?;
    try_rewrite_all(&table).await?;
    done.changes = 5;
    table.set_layout(&LayoutChange { groups: Some(Vec::new()), ..LayoutChange::default() }).await?;
    try_rewrite_all(&table).await?;
    done.changes = 6;
    vacuum(Arc::clone(&pool), "t", &VacuumOptions { intent_age_ms: DAY_MS, ..KEEP_ONE }, environment).await?;
    done.dropping = true;
    drop_table(pool, "t", false, environment).await?;
    Ok(())
}

fn lz4_by_name() -> LayoutChange {
    let (codec, sort) = (Some(Codec::Lz4), Some(vec!["name".to_owned()]));
    let groups = Some(vec![vec!["name".to_owned()], vec!["price".to_owned()]]);
    LayoutChange { codec, sort, groups, ..LayoutChange::default() }
}

/// Deletes rows by their id, and adds others.
async fn update(table: &Table, deletes: impl Fn(i64) -> bool, added: &RecordBatch) -> Result<()> {
    let base = table.snapshot(SnapshotSelector::Current).await?;
    let mut writer = base.change(Operation::Update, WriterOptions::default()).await?;
    let filled = async {
        for entry in base.entries().try_collect::<Vec<_>>().await? {
            let live = entry.live().unwrap_or_else(|| Rows::all(entry.rows as u32));
            let mut numbers = live.ranges().iter().cloned().flatten();
            let mut deleted = Vec::new();
            let mut batches = base.read(&entry, base.schema()).await?;
            while let Some(batch) = batches.try_next().await? {
                let ids = batch.column(0).as_primitive::<Int64Type>().values();
                let numbers = ids.iter().zip(numbers.by_ref());
                deleted.extend(numbers.filter(|(id, _)| deletes(**id)).map(|(_, row)| row..row + 1));
            }
            writer.delete(&entry, &Rows::new(deleted, entry.rows as u32))?;
        }
        writer.write(added).await
    };
    match filled.await {
        Ok(()) => writer.finish().await.map(|_| ()),
        Err(error) => {
            writer.abort().await?;
            Err(error)
        }
    }
}

fn crash_everywhere(last: FailedWrite) {
    for operations in 0.. {
        let pool = memory_pool();
        let (environment, clock) = environment();
        let faulty = FaultyPool::new(&pool, operations, last);
        let mut done = Acknowledged::default();
        let outcome = block_on(live(faulty.clone(), &environment, &mut done));
        if faulty.is_well() {
            outcome.unwrap();
            assert!(operations > 60, "operations={operations}");
            assert_eq!(names(&pool, TABLES_NAMESPACE).len(), 0);
            return;
        }
        clock.advance_ms(2 * DAY_MS);
        let context = format!("operations={operations} {done:?} {outcome:?}");
        match block_on(Table::open(Arc::clone(&pool), "t", environment.clone())) {
            Ok(table) => check_whole(&pool, &table, &environment, &done, &context),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::NotFound, "{context} {error}");
                assert!(!done.created || done.dropping, "{context}");
                finish_the_drop(&pool, &environment, &context);
            }
        }
    }
}

fn check_whole(
    pool: &Arc<dyn Pool>,
    table: &Table,
    environment: &Environment,
    done: &Acknowledged,
    context: &str,
) {
    let before = current(table);
    let found = ids(&before);
    // Acknowledged changes are present. An unacknowledged one is present wholly or not at all.
    assert!(states()[done.changes..].contains(&found), "{context} {found:?}");
    assert_eq!(before.rows(), found.len() as u64, "{context}");
    let vacuumed = block_on(vacuum(Arc::clone(pool), "t", &KEEP_ONE, environment)).unwrap();
    let there = names(pool, &table.id().namespace());
    assert_eq!(there, referred(table), "{context} {vacuumed:?}");
    assert_eq!(ids(&current(table)), found, "{context}");
    assert_eq!(block_on(table.head()).unwrap().intents, [], "{context}");
    if done.changes >= 4 {
        // An interrupted rewrite continues.
        block_on(try_rewrite_all(table)).unwrap();
        assert_eq!(block_on(try_rewrite_all(table)).unwrap(), 0, "{context}");
        assert_eq!(
            (ids(&current(table)), findings(&current(table))),
            (found.clone(), Vec::new()),
            "{context}"
        );
    }
    // The table accepts further writes.
    let more = block_on(try_append(table, &[rows(500..505)], WriterOptions::default())).unwrap();
    assert_eq!(more.rows(), found.len() as u64 + 5);
}

/// A listing shows an interrupted drop. The drop keeps the name taken and can be completed.
fn finish_the_drop(pool: &Arc<dyn Pool>, environment: &Environment, context: &str) {
    let listed = block_on(Table::list(Arc::clone(pool))).unwrap();
    if let [entry] = listed.as_slice() {
        let id = entry.head.as_ref().unwrap().id;
        let made = block_on(Table::create(Arc::clone(pool), "t", &definition(), environment.clone()));
        let error = made.err().unwrap();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{context}");
        assert!(error.to_string().contains("being dropped"), "{error}");
        let vacuumed = block_on(vacuum(Arc::clone(pool), "t", &KEEP_ONE, environment)).unwrap();
        assert!(vacuumed.dropped, "{context}");
        assert_eq!(names(pool, &id.namespace()).len(), 0, "{context}");
    }
    assert_eq!(names(pool, TABLES_NAMESPACE).len(), 0, "{context}");
    create(pool, "t", &definition(), environment);
}

#[test]
fn a_crash_leaves_the_last_snapshot_and_garbage_for_vacuum() {
    crash_everywhere(FailedWrite::NotApplied);
}

#[test]
fn a_crash_with_a_lost_answer_leaves_the_last_snapshot() {
    crash_everywhere(FailedWrite::Applied);
}

/// A lost answer changes nothing: the operation takes effect exactly once.
#[test]
fn a_lost_request_or_answer_is_retried() {
    for last in [FailedWrite::NotApplied, FailedWrite::Applied] {
        for operations in 0.. {
            let pool = memory_pool();
            let (environment, _) = environment();
            let faulty = FaultyPool::failing_once(&pool, operations, last);
            let outcome = block_on(async {
                let table = Table::create(faulty.clone(), "t", &definition(), environment.clone()).await?;
                try_append(&table, &[rows(0..50)], WriterOptions::default()).await
            });
            match outcome {
                Ok(snapshot) => {
                    assert_eq!((snapshot.id(), snapshot.rows()), (2, 50), "operations={operations}");
                    let table = block_on(Table::open(Arc::clone(&pool), "t", environment.clone())).unwrap();
                    assert_eq!(names(&pool, &table.id().namespace()), referred(&table));
                }
                // A read has no unknown outcome.
                Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "operations={operations}"),
            }
            if faulty.is_well() {
                assert!(operations > 6, "operations={operations}");
                break;
            }
        }
    }
}
