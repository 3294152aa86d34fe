//! The process that runs under the recorder. The tests start this test binary a second time.

use super::{SESSIONS, options};
use benthic_embedded::EmbeddedStore;
use benthic_testkit::power::{Script, mark, run};
use std::fs::OpenOptions;
use std::path::PathBuf;

/// The environment variable that holds the task.
pub const TASK: &str = "BENTHIC_POWER_TASK";

/// The task that runs a workload.
pub fn work(script: &Script) -> String {
    let Script { seed, threads, actions, shared } = script;
    format!("work {seed} {threads} {actions} {}", u64::from(*shared))
}

/// The task that opens and closes a store.
pub const RECOVER: &str = "recover";

#[test]
#[ignore = "the other tests start it"]
fn child() {
    let task = std::env::var(TASK).expect("the tests of power cuts start this test and set its task");
    let path = |name| PathBuf::from(std::env::var(name).unwrap());
    let (dir, marks_path) = (path("BENTHIC_POWER_DIR"), path("BENTHIC_POWER_MARKS"));
    if task == RECOVER {
        // The parent test opens the store itself and checks for damage.
        EmbeddedStore::open(&dir, true, options()).unwrap().close().unwrap();
        return;
    }
    let words: Vec<u64> = task.split(' ').skip(1).map(|word| word.parse().unwrap()).collect();
    let [seed, threads, actions, shared] = words[..] else { panic!("task={task}") };
    let script = Script { seed, threads: threads as usize, actions: actions as usize, shared: shared != 0 };
    let marks = OpenOptions::new().create(true).append(true).open(&marks_path).unwrap();
    for session in 0..SESSIONS {
        let store = match EmbeddedStore::open(&dir, true, options()) {
            Ok(store) => store,
            Err(error) => {
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
