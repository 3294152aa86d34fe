//! Runs the SAL suite for the driver on the engines in this process.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[cfg(feature = "gateway")]
mod corpus;
#[cfg(feature = "gateway")]
mod lease;
#[cfg(feature = "gateway")]
mod lifecycle;
#[allow(dead_code, reason = "shared with the tests of other drivers")]
#[path = "../sal/mod.rs"]
mod sal;

use benthic_core::Store;
use benthic_embedded::{EmbeddedStore, MemStore, Options};
use benthic_s3::sal::Versioning;
use futures::executor::block_on;
use sal::Pools;
use std::sync::{Arc, LazyLock};

fn pools_of(store: Arc<dyn Store>) -> Pools {
    let pool = |name| {
        block_on(store.create_pool(name)).unwrap();
        block_on(store.open_pool(name)).unwrap()
    };
    Pools { index: pool("index"), data: pool("data"), cold: pool("cold"), store }
}

fn options() -> Options {
    Options::default().with_classes(benthic_classes::registry())
}

fn in_memory() -> Pools {
    pools_of(MemStore::new(options()))
}

mod memory {
    fn case(name: &str) -> crate::sal::Case {
        static POOLS: std::sync::LazyLock<crate::sal::Pools> = std::sync::LazyLock::new(crate::in_memory);
        crate::sal::Case::new(&POOLS, name)
    }

    crate::sal::sal_suite!(super::case);
}

mod embedded {
    fn case(name: &str) -> crate::sal::Case {
        crate::sal::Case::new(&crate::EMBEDDED, name)
    }

    crate::sal::sal_suite!(super::case);
}

/// A store in a temporary directory, for the life of this process.
static EMBEDDED: LazyLock<Pools> = LazyLock::new(|| {
    let dir = tempfile::Builder::new().prefix("benthic-s3").tempdir().unwrap();
    let store = EmbeddedStore::open(&dir.path().join("store"), true, options()).unwrap();
    // Leak both, so that they live until the process ends.
    std::mem::forget((dir, Arc::clone(&store)));
    pools_of(store)
});

#[test]
fn a_page_of_prefixes_takes_two_calls_of_each_shard() {
    sal::listing::a_page_of_prefixes_takes_two_calls_of_each_shard(&in_memory());
}

#[test]
fn a_gateway_crashes_anywhere_and_another_continues() {
    sal::crash::dies_everywhere(&in_memory(), Versioning::Off, 1);
}

#[test]
fn a_gateway_crashes_anywhere_with_versioning_and_another_continues() {
    sal::crash::dies_everywhere(&in_memory(), Versioning::Enabled, 1);
}

#[test]
fn each_call_takes_effect_once_despite_a_lost_answer() {
    sal::crash::each_call_takes_effect_once_despite_a_lost_answer(&in_memory(), 1);
}

#[test]
fn a_transition_crashes_anywhere_and_another_gateway_continues() {
    sal::crash::a_transition_dies_everywhere(&in_memory(), 1);
}

#[test]
fn a_collection_crashes_anywhere_and_another_continues() {
    sal::crash::a_collection_dies_everywhere(&in_memory(), 1);
}
