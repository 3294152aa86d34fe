//! Runs the files of `tests/slt` in all ways, on the memory engine and the embedded one.

use crate::fixtures::{memory_store, options, ways};
use crate::slt::files_hold;
use benthic_core::Store;
use benthic_embedded::EmbeddedStore;
use std::sync::Arc;
use tempfile::TempDir;

#[tokio::test(flavor = "multi_thread")]
async fn the_files_hold_in_memory() {
    files_hold(&memory_store(), "slt", &ways()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_files_hold_in_a_directory() {
    let dir = TempDir::new().unwrap();
    let store = EmbeddedStore::open(dir.path(), true, options()).unwrap();
    let shared: Arc<dyn Store> = store.clone();
    files_hold(&shared, "slt", &ways()).await;
    store.close().unwrap();
}

/// Known bugs of the query engine, which also occur on plain rows in memory. A file moves to
/// `tests/slt` when it passes.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "the query engine's own mistakes"]
async fn what_is_known_to_be_wrong() {
    files_hold(&memory_store(), "slt_wrong", &ways()).await;
}
