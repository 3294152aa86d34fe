//! The Ceph cluster that the tests in `tests/ceph/` share.

use std::path::PathBuf;

/// The configuration of the cluster: three OSDs on this machine with Benthic's class library.
///
/// # Panics
/// If `BENTHIC_TEST_CEPH_CONF` is not set.
pub fn shared_conf() -> PathBuf {
    let conf = std::env::var_os("BENTHIC_TEST_CEPH_CONF");
    conf.map(PathBuf::from).expect("BENTHIC_TEST_CEPH_CONF names a cluster; `make test-ceph` starts one")
}
