//! The Ceph cluster that the tests in `tests/ceph/` share.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The configuration of the cluster: three OSDs on this machine with Benthic's class library.
///
/// # Panics
/// If `BENTHIC_TEST_CEPH_CONF` is not set.
pub fn shared_conf() -> PathBuf {
    let conf = std::env::var_os("BENTHIC_TEST_CEPH_CONF");
    conf.map(PathBuf::from).expect("BENTHIC_TEST_CEPH_CONF names a cluster; `make test-ceph` starts one")
}

/// The epoch in which each OSD last came up. It changes if an OSD crashes and restarts.
///
/// # Panics
/// If `ceph osd dump` fails.
pub fn osd_boot_epochs(conf: &Path) -> Vec<i64> {
    let dump = Command::new("ceph").arg("--conf").arg(conf).args(["osd", "dump", "--format=json"]).output();
    let dump: Value = serde_json::from_slice(&dump.expect("ceph runs").stdout).expect("the dump is JSON");
    let osds = dump["osds"].as_array().expect("a dump has OSDs");
    osds.iter().map(|osd| osd["up_from"].as_i64().expect("an epoch is a number")).collect()
}
