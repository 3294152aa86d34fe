//! Tests of block images: one suite for every implementation of the contract, and the NBD server.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod conformance;
mod corpus;
mod damage;
mod fairness;
mod fencing;
mod geometries;
mod groups;
mod metrics;
mod model;
mod nbd;
mod nbd_extended;
mod nbd_tools;
mod power;
mod ram;
mod support;
mod throttles;

use geometries::{KIB, small, striped};

use benthic_block::pool::PoolImages;
use benthic_block::{CreateOptions, Geometry, Image, Images, OpenMode};
use benthic_core::{Environment, Store};
use benthic_embedded::{EmbeddedStore, MemStore, Options};
use std::sync::{Arc, LazyLock};

async fn images_of(store: Arc<dyn Store>) -> Arc<PoolImages> {
    if !store.list_pools().await.unwrap().contains(&"disks".to_owned()) {
        store.create_pool("disks").await.unwrap();
    }
    let pool = store.open_pool("disks").await.unwrap();
    Arc::new(PoolImages::new(store, pool, Environment::default()))
}

fn options() -> Options {
    Options::default().with_classes(benthic_classes::registry())
}

/// Images in memory.
async fn in_memory() -> Arc<dyn Images> {
    images_of(MemStore::new(options())).await
}

/// Images in a directory, which is removed with the returned guard.
async fn in_directory() -> (Arc<dyn Images>, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let store = EmbeddedStore::open(&dir.path().join("store"), true, options()).unwrap();
    (images_of(store).await, dir)
}

/// An image in memory for tests without a runtime of their own.
fn memory_image(size_bytes: u64) -> Arc<dyn Image> {
    static RUNTIME: LazyLock<tokio::runtime::Runtime> = LazyLock::new(|| {
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
    });
    RUNTIME.block_on(async {
        let images = in_memory().await;
        images.create("i", CreateOptions::new(size_bytes, Geometry::default())).await.unwrap();
        images.open("i", None, OpenMode::Write).await.unwrap()
    })
}

fn run<T>(test: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap().block_on(test)
}

mod memory {
    crate::conformance::conformance!(crate::with_memory);
}

mod directory {
    crate::conformance::conformance!(crate::with_directory);
}

fn with_memory<F: Future<Output = ()>>(_case: &str, test: impl FnOnce(Arc<dyn Images>) -> F) {
    run(async { test(in_memory().await).await });
}

fn with_directory<F: Future<Output = ()>>(_case: &str, test: impl FnOnce(Arc<dyn Images>) -> F) {
    run(async {
        let (images, _dir) = in_directory().await;
        test(images).await;
    });
}
