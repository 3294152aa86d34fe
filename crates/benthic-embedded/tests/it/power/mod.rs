//! Power cuts and failing disks below a store that runs in a child process; see
//! `benthic_testkit::power`.

mod child;
mod cuts;
mod faults;
mod full;

use benthic_core::{Store, WriteOp};
use benthic_embedded::{EmbeddedStore, Options};
use benthic_testkit::power::{Disk, Fault, FileTree, History, Record, Recorder, Script};
use futures::executor::block_on;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use tempfile::TempDir;

/// Sessions per workload.
const SESSIONS: usize = 2;

/// A small log limit makes log truncation and merges of the key-value store continuous. The limit
/// on logged data makes many groups sync a part of their data where it is stored.
fn options() -> Options {
    let limits = Options { log_bytes_max: 60_000, logged_bytes_max: 8_000, ..Options::default() };
    Options { buffered_ms_max: 3, workers: 4, ..limits }
}

/// A temporary directory for stores, in memory if possible, because each state lives for
/// milliseconds only.
struct Bench {
    recorder: Recorder,
    folder: TempDir,
    count: u32,
}

impl Bench {
    fn new() -> Bench {
        let memory = Path::new("/dev/shm");
        let folder =
            if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap();
        let recorder = Recorder::build(folder.path()).unwrap();
        Bench { recorder, folder, count: 0 }
    }

    fn fresh(&mut self) -> PathBuf {
        self.count += 1;
        self.folder.path().join(format!("{}", self.count))
    }

    /// Runs `task` (see `child`) on a store in `dir`, and checks that replaying the record yields
    /// the actual files.
    fn child(&self, task: &str, dir: &Path, before: &FileTree, fault: Option<Fault>) -> Record {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--ignored", "--exact", "power::child::child", "--nocapture", "--test-threads=1"]);
        command.env(child::TASK_VARIABLE, task);
        let record = self.recorder.run(command, dir, "child", fault).unwrap();
        let live = {
            let mut disk = Disk::new(&record, before, 0);
            disk.advance(record.events.len());
            disk.live()
        };
        let difference = live.difference(&FileTree::read(dir).unwrap());
        assert_eq!(difference, None, "the recorder missed a change; task={task}\n{}", record.stderr);
        record
    }

    /// Runs a workload in a new store and returns the store, its record and the acknowledged
    /// history.
    fn workload(&mut self, script: &Script, fault: Option<Fault>) -> (PathBuf, Record, History) {
        let dir = self.fresh();
        let record = self.child(&child::workload_task(script), &dir, &FileTree::default(), fault);
        assert!(record.status.success(), "the workload failed {script:?} {fault:?}\n{}", record.stderr);
        let history = History::of(&record, script).unwrap();
        (dir, record, history)
    }
}

/// Opens the state that a cut at `point` left and checks it, checks that the store accepts writes,
/// and reopens it to check that everything persists.
fn examine(dir: &Path, history: &History, point: usize) -> Result<(), String> {
    let open = || {
        EmbeddedStore::open(dir, true, options()).map_err(|error| format!("the store does not open: {error}"))
    };
    let words = |error: benthic_core::Error| format!("the store does not work: {error}");
    let store: Arc<EmbeddedStore> = open()?;
    history.check(&*store, point)?;
    let id = crate::support::id("after");
    block_on(store.create_pool("after")).map_err(words)?;
    let pool = block_on(store.open_pool("after")).map_err(words)?;
    for size in [10, 80_000] {
        let op = WriteOp::new().write_full(vec![7; size]).omap_set([("key", "value")]);
        block_on((*pool).write(&id, op)).map_err(words)?;
    }
    store.close().map_err(words)?;
    let store = open()?;
    let pool = block_on(store.open_pool("after")).map_err(words)?;
    let data = block_on(pool.read_range(&id, 0, 1 << 20)).map_err(words)?;
    if data != vec![7; 80_000] {
        return Err("data written after the power cut is missing".to_owned());
    }
    block_on(store.remove_pool("after")).map_err(words)?;
    history.check(&*store, point)?;
    store.close().map_err(words)
}
