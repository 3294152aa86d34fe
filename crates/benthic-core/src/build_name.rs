//! The name of the build, by which people and programs tell two builds apart.
//!
//! A commit must not recompile every crate, and packages must contain the code that the tests ran.
//! So `packaging/stamp` writes the name of a release into its finished files. A name that the
//! compiler inserts (`option_env!`) would recompile all crates that depend on this one.

use std::hint::black_box;

/// The stamp begins with these bytes. The first byte keeps them apart from texts.
const MARKER: &str = "\0benthic-build:";
/// Name of a build without a stamp.
const UNSTAMPED: &str = concat!(env!("CARGO_PKG_VERSION"), "+source");
/// Size of the stamp: the marker, the name, and zeros.
const STAMP_BYTES: usize = 96;

#[used]
static STAMP: [u8; STAMP_BYTES] = stamp(MARKER, UNSTAMPED);

const fn stamp(marker: &str, name: &str) -> [u8; STAMP_BYTES] {
    let (marker, name) = (marker.as_bytes(), name.as_bytes());
    let mut stamp = [0; STAMP_BYTES];
    let mut at = 0;
    while at < marker.len() + name.len() {
        stamp[at] = if at < marker.len() { marker[at] } else { name[at - marker.len()] };
        at += 1;
    }
    stamp
}

/// The name of this program's or library's build, such as `0.1.0+1234.g0123456789ab`: the version,
/// the number of commits, and the last commit. A build of `make dist` has such a name. A build from
/// source has the version and `+source`.
pub fn build() -> &'static str {
    // The file can have other bytes than the compiler knows.
    name_in(black_box(&STAMP))
}

fn name_in(stamp: &[u8; STAMP_BYTES]) -> &str {
    let name = &stamp[MARKER.len()..];
    let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
    std::str::from_utf8(&name[..end]).unwrap_or(UNSTAMPED)
}

#[cfg(test)]
#[path = "build_name_tests.rs"]
mod tests;
