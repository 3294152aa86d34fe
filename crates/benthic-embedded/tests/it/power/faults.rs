//! Injects a failure into each file system call in turn.

use super::{Bench, examine};
use crate::support::print_counts;
use benthic_testkit::power::{Call, Cut, Disk, Fault, FileTree, Script};
use benthic_testkit::random::Rng;
use benthic_testkit::seed;

const EIO: i32 = 5;
const ENOSPC: i32 = 28;
/// Samples per kind of fault in `make test`.
const SAMPLES: u32 = 6;
const CUTS: usize = 3;

/// Runs a small workload once for each `nth` failing call until the workload makes fewer calls, or
/// for a sample of them. Errors must be clear, nothing may panic, and acknowledged operations must
/// survive, even with a power cut in addition.
fn each_fails(kind: char, errno: i32) {
    let mut bench = Bench::new();
    let seed = seed::one();
    let script = Script { seed, threads: 2, actions: 16, shared: false };
    let mut run = |nth| {
        let what = format!("BENTHIC_TEST_SEED={seed} kind={kind} nth={nth} errno={errno}");
        let (dir, record, history) = bench.workload(&script, Some(Fault { kind, nth, errno }));
        let fault = record.events.iter().position(|event| matches!(event.call, Call::Fault { .. }));
        assert!(!record.stderr.contains("panicked"), "{what}\n{}", record.stderr);
        let clear = [
            "not_found",
            "unavailable",
            "limit_exceeded",
            "outcome_unknown",
            "corrupt",
            "internal",
            "permission_denied",
        ];
        let (_, failed) = history.counts();
        assert!(failed.iter().all(|kind| clear.contains(&kind.as_str())), "{what}: {failed:?}");
        let Some(fault) = fault else { return false };
        if let Err(error) = examine(&dir, &history, record.events.len()) {
            panic!("{what}: {error}\n{}", record.stderr);
        }
        let mut rng = Rng(seed ^ u64::from(nth));
        let mut points: Vec<_> =
            (0..CUTS).map(|_| fault + 1 + rng.below(record.events.len() - fault)).collect();
        points.sort_unstable();
        let mut disk = Disk::new(&record, &FileTree::default(), seed);
        for point in points {
            disk.advance(point);
            let dir = bench.fresh();
            disk.cut(if rng.one_in(3) { Cut::Nothing } else { Cut::Any }, &mut rng).write(&dir).unwrap();
            if let Err(error) = examine(&dir, &history, point) {
                panic!("{what}, and the power fails at point={point}: {error}\n{}", record.stderr);
            }
            std::fs::remove_dir_all(dir).unwrap();
        }
        std::fs::remove_dir_all(dir).unwrap();
        true
    };
    let mut fired = 0;
    if seed::is_long() {
        while run(fired + 1) {
            fired += 1;
        }
    } else {
        // Samples are denser at the start, where the store is created.
        let mut nth = 1;
        for sample in 1..=SAMPLES {
            if !run(nth) {
                break;
            }
            fired += 1;
            nth += sample * sample;
        }
    }
    assert!(fired > 0, "the workload makes no such call kind={kind}");
    print_counts(&format!("faults: kind={kind} errno={errno} calls={fired}"));
}

macro_rules! each_fails {
    ($($name:ident: $kind:literal, $errno:expr;)*) => {$(
        #[test]
        fn $name() {
            each_fails($kind, $errno);
        }
    )*};
}

each_fails! {
    a_write_fails: 'w', EIO;
    a_write_finds_no_space: 'w', ENOSPC;
    a_write_is_short_and_then_finds_no_space: 'W', ENOSPC;
    a_write_is_short: 'W', 0;
    a_sync_of_a_file_fails: 's', EIO;
    a_sync_of_a_file_finds_no_space: 's', ENOSPC;
    a_sync_of_a_directory_fails: 'd', EIO;
    a_read_fails: 'r', EIO;
    a_file_cannot_be_created: 'o', ENOSPC;
    a_rename_fails: 'n', EIO;
    a_file_cannot_be_removed: 'u', EIO;
    a_file_cannot_be_truncated: 't', EIO;
    space_cannot_be_returned: 'a', EIO;
    no_space_can_be_allocated_ahead: 'a', ENOSPC;
}
