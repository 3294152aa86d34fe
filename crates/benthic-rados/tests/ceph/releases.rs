//! Differences between the tested releases of Ceph: the columns of the table of allowed differences
//! in docs/design/0004-the-ceph-side.md.

use crate::support::{OwnPool, block_on, id};
use std::process::Command;

/// The release of this machine's Ceph, and so of its librados and of the shared cluster.
fn release() -> u32 {
    let version = Command::new("ceph").arg("--version").output().unwrap();
    benthic_ceph::releases::parse(&String::from_utf8_lossy(&version.stdout)).unwrap()
}

#[test]
fn modification_times_have_nanoseconds_since_release_17() {
    let own = OwnPool::new("times");
    // A whole second could be chance, but hardly eight times.
    let fractions = (0..8).map(|number| {
        let object = id(&number.to_string());
        block_on(own.pool.write_full(&object, "data")).unwrap();
        block_on(own.pool.stat(&object)).unwrap().0.modified_unix_ns % 1_000_000_000
    });
    let has_fraction = fractions.fold(false, |has, fraction| has | (fraction > 0));
    assert_eq!(has_fraction, release() >= 17);
}
