//! Helpers for the tests.

use benthic_core::{ObjectId, Pool, Result, Store};
use benthic_embedded::{EmbeddedStore, Options};
use benthic_testkit::random::Rng;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use futures::executor::block_on;

/// Prints statistics, visible with `--nocapture`.
#[expect(clippy::print_stderr, reason = "a test has no other way to say how much it did")]
pub fn print_counts(counts: &str) {
    eprintln!("{counts}");
}

pub fn options() -> Options {
    Options::default().with_classes(benthic_classes::registry())
}

pub fn open(dir: &Path) -> Arc<EmbeddedStore> {
    EmbeddedStore::open(dir, true, options()).unwrap()
}

/// Creates a store with a pool `p`.
pub fn with_pool(dir: &Path) -> (Arc<EmbeddedStore>, Arc<dyn Pool>) {
    let store = open(dir);
    block_on(store.create_pool("p")).unwrap();
    let pool = pool(&store);
    (store, pool)
}

pub fn pool(store: &EmbeddedStore) -> Arc<dyn Pool> {
    block_on(store.open_pool("p")).unwrap()
}

pub fn id(name: &str) -> ObjectId {
    ObjectId::new(name).unwrap()
}

/// Pseudorandom bytes from a seed.
pub fn noise(seed: u64, len: usize) -> Vec<u8> {
    Rng(seed).bytes(len)
}

/// Reads a whole object in several reads.
pub fn read_all(pool: &dyn Pool, name: &str) -> Result<Vec<u8>> {
    let (stat, _) = block_on(pool.stat(&id(name)))?;
    let mut data = Vec::new();
    while (data.len() as u64) < stat.size_bytes {
        data.extend_from_slice(&block_on(pool.read_range(&id(name), data.len() as u64, 8 << 20))?);
    }
    Ok(data)
}

/// Copies the files of an open store as of one moment, as a kill would leave them.
pub fn copy_of_running(dir: &Path) -> tempfile::TempDir {
    let state = || -> Vec<_> {
        let changed = |path: &PathBuf| std::fs::metadata(path).and_then(|metadata| metadata.modified()).ok();
        files(dir).into_iter().map(|path| (changed(&path), path)).collect()
    };
    // The cleaner runs in the background. A copy during which it changed files is not consistent,
    // so the copy is retried.
    for _ in 0..200 {
        let before = state();
        let copy = tempfile::tempdir().unwrap();
        if copy_files(dir, copy.path()).is_ok() && state() == before {
            return copy;
        }
    }
    panic!("the store does not come to rest");
}

fn copy_files(from: &Path, to: &Path) -> std::io::Result<()> {
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target: PathBuf = to.join(entry.file_name());
        let kind = entry.file_type()?;
        if kind.is_dir() {
            std::fs::create_dir(&target)?;
            copy_files(&entry.path(), &target)?;
        } else if kind.is_file() {
            std::fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

/// All files that hold a store's state, deepest first.
pub fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![dir.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_file() && entry.file_name() != "lock" {
                found.push(entry.path());
            }
        }
    }
    found.sort();
    found
}
