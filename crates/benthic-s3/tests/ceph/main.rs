//! Runs the SAL suite for the driver on a real cluster.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[cfg(feature = "gateway")]
#[allow(dead_code, reason = "shared with the tests of the gateway")]
#[path = "../gateway/upstream/far.rs"]
mod far;
#[cfg(feature = "gateway")]
mod radosgw;
#[allow(dead_code, reason = "shared with the tests on the other engines")]
#[path = "../sal/mod.rs"]
mod sal;

use benthic_core::Store;
use benthic_rados::{Options, RadosStore};
use benthic_s3::sal::Versioning;
use benthic_testkit::cluster::shared_conf;
use futures::executor::block_on;
use sal::Pools;
use std::sync::LazyLock;

static POOLS: LazyLock<Pools> = LazyLock::new(|| {
    // Few placement groups, so that many small pools fit on one OSD.
    let options = Options { classes: benthic_classes::registry(), pool_pgs: 4, ..Options::default() };
    let store = RadosStore::connect(Some(&shared_conf()), None, options).unwrap();
    let pool = |what: &str| {
        let name = format!("s3.{what}.{}", std::process::id());
        block_on(store.create_pool(&name)).unwrap();
        block_on(store.open_pool(&name)).unwrap()
    };
    Pools { index: pool("index"), data: pool("data"), cold: pool("cold"), store }
});

mod cluster {
    fn case(name: &str) -> crate::sal::Case {
        crate::sal::Case::new(&crate::POOLS, name)
    }

    crate::sal::sal_suite!(super::case);
}

/// Crashes at some operations only. The order of operations is the same on all engines, and the
/// memory engine tries each.
#[test]
fn a_gateway_crashes_and_another_continues() {
    sal::crash::dies_everywhere(&POOLS, Versioning::Enabled, 19);
}
