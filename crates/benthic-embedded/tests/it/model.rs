//! Runs the model test on every engine of this crate.

use crate::support::options;
use benthic_core::{Pool, Result, Store};
use benthic_embedded::{EmbeddedStore, MemStore, Options};
use benthic_testkit::model::{self, Subject};
use benthic_testkit::seed;
use futures::executor::block_on;
use std::sync::Arc;

/// Runs 20 times as many cases in `make test-long`.
fn cases(usual: u32) -> u32 {
    if seed::is_long() { usual * 20 } else { usual }
}

pub struct Memory(Arc<MemStore>);

impl Memory {
    pub fn new() -> Memory {
        let store = MemStore::new(options());
        block_on(store.create_pool("model")).unwrap();
        Memory(store)
    }
}

impl Subject for Memory {
    fn pool(&self) -> Arc<dyn Pool> {
        block_on(self.0.open_pool("model")).unwrap()
    }

    fn flush(&self) -> Result<()> {
        block_on(self.0.flush())
    }
}

#[test]
fn memory() {
    model::run(Memory::new, cases(300), 40);
}

pub struct Directory {
    store: Arc<EmbeddedStore>,
    /// A second handle that owns the directory, so that `store` uses the socket.
    owner: Option<Arc<EmbeddedStore>>,
    dir: tempfile::TempDir,
}

/// A small log limit makes the cleaner truncate the log continuously.
fn small_log() -> Options {
    Options { log_bytes_max: 20_000, ..options() }
}

impl Directory {
    pub fn new(through_socket: bool) -> Directory {
        let dir = tempfile::tempdir().unwrap();
        let mut store = EmbeddedStore::open(dir.path(), true, small_log()).unwrap();
        block_on(store.create_pool("model")).unwrap();
        let mut owner = None;
        if through_socket {
            let client = EmbeddedStore::open(dir.path(), false, small_log()).unwrap();
            owner = Some(std::mem::replace(&mut store, client));
        }
        Directory { store, owner, dir }
    }
}

impl Subject for Directory {
    fn pool(&self) -> Arc<dyn Pool> {
        block_on(self.store.open_pool("model")).unwrap()
    }

    fn flush(&self) -> Result<()> {
        block_on(self.store.flush())
    }

    fn reopen(&mut self) -> Result<()> {
        // With a socket, the client takes over from the owner. After that, the client is the owner.
        match self.owner.take() {
            Some(owner) => owner.close()?,
            None => {
                self.store.close()?;
                self.store = EmbeddedStore::open(self.dir.path(), false, small_log())?;
            }
        }
        Ok(())
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let report = block_on(self.store.fsck()).unwrap();
        if !std::thread::panicking() {
            assert_eq!(report.findings, [], "fsck finds nothing after every case");
        }
    }
}

#[test]
fn embedded() {
    model::run(|| Directory::new(false), cases(60), 40);
}

#[test]
fn socket() {
    model::run(|| Directory::new(true), cases(30), 40);
}
