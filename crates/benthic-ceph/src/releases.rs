//! The releases of Ceph with which Benthic was tested.
//!
//! A class library runs inside ceph-osd and calls functions of that process. A release that changes
//! them could end an OSD, so a library is installed only where this was tried. Reading and writing
//! go through librados, whose interface keeps its promises, so clients do not check the release.

use crate::local::tools::{self, QUESTION_LIMIT};
use benthic_core::{Error, ErrorKind, Result};

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
    Err(Error::new(ErrorKind::Unsupported, message)
        .with("found", version.trim())
        .with("tested_releases", tested()))
}

#[cfg(test)]
mod tests {
    use super::{check, is_unknown, parse};
    use benthic_core::ErrorKind;

    #[test]
    fn releases_between_tested_ones_are_known() {
        let known: Vec<u32> = (0..30).filter(|release| !is_unknown(*release)).collect();
        assert_eq!(known, [16, 17, 18, 19, 20]);
    }

    #[test]
    fn a_version_names_its_release() {
        let of = |version: &str| parse(version);
        assert_eq!(of("ceph version 16.2.15 (618f44) pacific (stable)\n"), Some(16));
        assert_eq!(of("ceph version 20.2.4 (7f7937) tentacle (stable)"), Some(20));
        assert_eq!(of("18.2.7"), Some(18));
        for unknown in ["", "ceph version Development (no_version) dev", "version 16.2.15"] {
            assert_eq!(of(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn libraries_are_not_for_unknown_releases() {
        assert!(check("ceph version 18.2.7 (6b0e98) reef (stable)").is_ok());
        for version in
            ["ceph version 21.1.0 (1234) umbrella (rc)", "ceph version 15.2.17 (1) octopus (stable)", "main"]
        {
            let error = check(version).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            assert!(error.to_string().contains("--force") && error.to_string().contains(version), "{error}");
        }
    }
}
