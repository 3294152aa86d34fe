//! The releases of Ceph with which Benthic was tested.
//!
//! A class library runs inside ceph-osd and calls functions of that process. A release that changes
//! them could end an OSD, so a library is installed only where this was tried. Reading and writing
//! go through librados, whose interface keeps its promises, so clients do not check the release.

use crate::local::tools::{self, QUESTION_LIMIT};
use benthic_core::{Error, Result};

/// `make test-ceph RELEASE=…` runs the tests on each of them.
pub const TESTED: [u32; 3] = [16, 18, 20];

/// The major number of a version, such as `ceph version 16.2.15 (…) pacific (stable)` or `16.2.15`.
pub fn parse(version: &str) -> Option<u32> {
    let version = version.trim();
    version.strip_prefix("ceph version ").unwrap_or(version).split('.').next()?.parse().ok()
}

/// Whether a release is older than the oldest tested one, or newer than the newest. The untested
/// releases between them count as known: they have every property that both neighbours have.
pub fn is_unknown(release: u32) -> bool {
    !(TESTED[0]..=TESTED[TESTED.len() - 1]).contains(&release)
}

/// The tested releases, for messages.
pub fn tested() -> String {
    TESTED.map(|release| release.to_string()).join(", ")
}

/// Fails if the OSDs of this machine are of an unknown release. Without ceph-osd on this machine,
/// it cannot know, and succeeds.
///
/// # Errors
/// `Unsupported` for an unknown release.
pub fn check_osds_of_this_machine() -> Result<()> {
    match tools::run(tools::bare("ceph-osd").arg("--version"), QUESTION_LIMIT) {
        Ok(version) => check(&version),
        Err(_) => Ok(()),
    }
}

/// Fails for a version of an unknown release.
///
/// # Errors
/// `Unsupported`.
pub fn check(version: &str) -> Result<()> {
    if parse(version).is_some_and(|release| !is_unknown(release)) {
        return Ok(());
    }
    let message = "this release of Ceph is unknown to this program, and a class library could end its OSDs; try the library on a \
                   test cluster of this release, and then use --force";
    Err(Error::unsupported(message).with("found", version.trim()).with("tested_releases", tested()))
}

#[cfg(test)]
#[path = "releases_tests.rs"]
mod tests;
