//! Simulated power cuts at any point of random workloads, and proof that the test would detect a
//! missing sync.

use super::{Bench, child, examine};
use crate::support::print_counts;
use benthic_testkit::power::{Call, Cut, Disk, FileTree, Record, Script, Sync};
use benthic_testkit::random::Rng;
use benthic_testkit::seed;
use std::path::Path;

fn script(seed: u64) -> Script {
    Script { seed, threads: 3, actions: 24, shared: true }
}

/// A random point of a record, half of the time just after a mark.
fn point(record: &Record, rng: &mut Rng) -> usize {
    let marks = |event: &benthic_testkit::power::Event| matches!(event.call, Call::Mark { .. });
    let anywhere = rng.below(record.events.len() + 1);
    if rng.one_in(2) {
        return anywhere;
    }
    let next = record.events[anywhere.min(record.events.len() - 1)..].iter().position(marks);
    next.map_or(anywhere, |ahead| anywhere + ahead + 1)
}

fn cut(rng: &mut Rng) -> Cut {
    match rng.below(6) {
        0 => Cut::Nothing,
        1 => Cut::AllButOne,
        _ => Cut::Any,
    }
}

/// Sorted points, so that one pass over the record builds the disk.
fn points(record: &Record, count: usize, rng: &mut Rng) -> Vec<usize> {
    let mut points: Vec<usize> = (0..count).map(|_| point(record, rng)).collect();
    points.sort_unstable();
    points
}

#[test]
fn acknowledged_writes_survive_every_power_cut() {
    let (workloads, cuts) = if seed::is_long() { (60, 150) } else { (4, 60) };
    let mut bench = Bench::new();
    let (mut states, mut nested, mut acknowledged) = (0, 0, 0);
    for seed in seed::many(workloads) {
        let mut rng = Rng(seed);
        let (_, record, history) = bench.workload(&script(seed), None);
        acknowledged += history.counts().0;
        let mut disk = Disk::new(&record, &FileTree::default(), seed);
        for point in points(&record, cuts, &mut rng) {
            disk.advance(point);
            let kind = cut(&mut rng);
            let state = disk.cut(kind, &mut rng);
            let what =
                format!("BENTHIC_TEST_SEED={seed} point={point} of={} cut={kind:?}", record.events.len());
            let dir = bench.fresh();
            if rng.one_in(12) {
                // A second power cut hits the recovery.
                state.write(&dir).unwrap();
                let recovery = bench.child(child::RECOVERY_TASK, &dir, &state, None);
                assert!(recovery.status.success(), "{what}\n{}", recovery.stderr);
                let mut again = Disk::new(&recovery, &state, seed);
                for point_again in points(&recovery, 4, &mut rng) {
                    again.advance(point_again);
                    let state = again.cut(cut(&mut rng), &mut rng);
                    let dir = bench.fresh();
                    state.write(&dir).unwrap();
                    if let Err(error) = examine(&dir, &history, point) {
                        panic!("{what}, and again at point={point_again}: {error}");
                    }
                    std::fs::remove_dir_all(dir).unwrap();
                    nested += 1;
                }
                std::fs::remove_dir_all(&dir).unwrap();
            }
            state.write(&dir).unwrap();
            if let Err(error) = examine(&dir, &history, point) {
                panic!("{what}: {error}");
            }
            std::fs::remove_dir_all(dir).unwrap();
            states += 1;
        }
    }
    print_counts(&format!(
        "power cuts: workloads={workloads} acknowledged={acknowledged} states={states} nested={nested}"
    ));
}

/// Looks for a power cut that reveals the skipped sync. Returns the number of states tried.
fn states_until_noticed(skip: impl Fn(&Sync<'_>) -> bool, create: bool) -> Option<usize> {
    let mut bench = Bench::new();
    let mut states = 0;
    let first = seed::one();
    for seed in first..first + 12 {
        let mut rng = Rng(seed);
        let script =
            if create { Script { seed, threads: 1, actions: 2, shared: true } } else { script(seed) };
        let (_, record, history) = bench.workload(&script, None);
        let mut disk = Disk::without(&record, &FileTree::default(), seed, &skip);
        for point in points(&record, 40, &mut rng) {
            disk.advance(point);
            let kind = if rng.one_in(2) { Cut::Nothing } else { Cut::Any };
            let dir = bench.fresh();
            disk.cut(kind, &mut rng).write(&dir).unwrap();
            states += 1;
            if examine(&dir, &history, point).is_err() {
                return Some(states);
            }
            std::fs::remove_dir_all(dir).unwrap();
        }
    }
    None
}

/// Declares one test per sync of the store. Without that sync, some power cut loses data.
macro_rules! needed {
    ($($name:ident: $skip:expr, $create:expr;)*) => {$(
        #[test]
        fn $name() {
            let noticed = states_until_noticed($skip, $create);
            assert!(noticed.is_some(), "no power cut revealed the missing sync");
            print_counts(&format!("{}: states={}", stringify!($name), noticed.unwrap_or(0)));
        }
    )*};
}

fn is_segment(path: &str) -> bool {
    Path::new(path).extension().is_some_and(|extension| extension == "log")
}

needed! {
    without_the_sync_of_a_frame: |sync| is_segment(sync.path), false;
    without_the_sync_of_large_data_before_their_frame:
        |sync| sync.path == "data" && sync.next_path.starts_with("log/"), false;
    without_the_sync_of_small_data_before_the_log_is_cut:
        |sync| sync.path == "data" && sync.next_path.starts_with("kv"), false;
    without_the_sync_of_a_new_segment: |sync| sync.path == "log/unfinished", false;
    without_the_sync_of_the_segments_names: |sync| sync.path == "log", false;
    without_the_sync_of_a_table: |sync| sync.path.starts_with("kv/tables/"), false;
    without_the_sync_of_the_tables_names: |sync| sync.path == "kv/tables", false;
    without_the_sync_of_the_list_of_tables: |sync| sync.path.starts_with("kv/v"), false;
    without_the_sync_of_the_key_value_stores_names: |sync| sync.path == "kv", false;
    without_the_sync_of_the_format: |sync| sync.path == "format.new", true;
    without_the_sync_of_the_stores_names: |sync| sync.path.is_empty(), true;
}
