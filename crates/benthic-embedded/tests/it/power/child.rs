//! The child process whose file changes the recorder records (see `benthic_testkit::power`).
//!
//! A test starts its own binary a second time, with the ignored test `child` as the only test. An
//! environment variable holds the task of the child: to run a workload, or to recover a store.

use super::{SESSIONS, options};
use benthic_embedded::EmbeddedStore;
use benthic_testkit::power::{Script, mark, run};
use std::fs::OpenOptions;
use std::path::PathBuf;

/// Name of the environment variable that holds the task.
pub const TASK_VARIABLE: &str = "BENTHIC_POWER_TASK";

/// The task to run a workload, in `SESSIONS` sessions.
pub fn workload_task(script: &Script) -> String {
    let Script { seed, threads, actions, shared } = script;
    format!("work {seed} {threads} {actions} {}", u64::from(*shared))
}

/// The task to recover a store: to open and close it.
pub const RECOVERY_TASK: &str = "recover";

#[test]
#[ignore = "the other tests start it"]
fn child() {
    let task =
        std::env::var(TASK_VARIABLE).expect("the tests of power cuts start this test and set its task");
    let path = |name| PathBuf::from(std::env::var(name).unwrap());
    let (dir, marks_path) = (path("BENTHIC_POWER_DIR"), path("BENTHIC_POWER_MARKS"));
    if task == RECOVERY_TASK {
        // The parent test opens the store itself and checks for damage.
        EmbeddedStore::open(&dir, true, options()).unwrap().close().unwrap();
        return;
    }
    let numbers: Vec<u64> = task.split(' ').skip(1).map(|word| word.parse().unwrap()).collect();
    let [seed, threads, actions, shared] = numbers[..] else { panic!("task={task}") };
    let script = Script { seed, threads: threads as usize, actions: actions as usize, shared: shared != 0 };
    let marks = OpenOptions::new().create(true).append(true).open(&marks_path).unwrap();
    for session in 0..SESSIONS {
        let store = match EmbeddedStore::open(&dir, true, options()) {
            Ok(store) => store,
            Err(error) => {
                // A fault of the disk can prevent the opening; the next session tries again.
                mark(&marks, &format!("unopened {error}"));
                continue;
            }
        };
        run(&script, session, &*store, &marks_path);
        mark(
            &marks,
            &match store.close() {
                Ok(()) => format!("closed {session}"),
                Err(error) => format!("unclosed {error}"),
            },
        );
    }
}
