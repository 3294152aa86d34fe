//! What the tests on clusters share.

#[path = "../it/support.rs"]
#[allow(dead_code, reason = "shared with the tests of the embedded engine")]
mod home;

pub use home::{Home, failed, json_lines, keys, pattern, printed, run_block, tree};

use serde_json::Value;
use std::time::{Duration, Instant};

/// The longest that anything takes which a test waits for: an OSD is declared dead, a cluster repairs itself.
const WAIT_LIMIT: Duration = Duration::from_secs(150);

/// Where `benthic cluster` has its cluster by default.
pub const CLUSTER_DIR: &str = "benthic-cluster";

/// The configuration of the cluster that the tests share.
pub fn shared_conf() -> String {
    std::env::var("BENTHIC_TEST_CEPH_CONF")
        .expect("BENTHIC_TEST_CEPH_CONF names no cluster; `make test` starts one")
}

/// The store in that cluster.
pub fn shared_store() -> String {
    format!("ceph:?conf={}", shared_conf())
}

/// Removes the clusters in these directories of a test, however it ends.
pub struct Removed<'a>(pub &'a Home, pub &'static [&'static str]);

impl Drop for Removed<'_> {
    fn drop(&mut self) {
        for dir in self.1 {
            let _ = self.0.command(&["cluster", "down", "--remove", "--dir", dir]).output();
        }
    }
}

pub fn status(home: &Home) -> Value {
    home.json(&["cluster", "status"]).remove(0)
}

/// What a status says of one daemon.
pub fn daemon<'a>(status: &'a Value, name: &str) -> &'a Value {
    status["daemons"].as_array().unwrap().iter().find(|daemon| daemon["name"] == name).unwrap()
}

#[track_caller]
pub fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < WAIT_LIMIT, "waited too long for {what}");
        std::thread::park_timeout(Duration::from_millis(50));
    }
}
