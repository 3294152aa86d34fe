//! Block devices of the kernel, for tests that attach images.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Whether this process can attach a device. Says so if it cannot: the kernel of some machines
/// lacks its part, and containers may hide it.
///
/// # Panics
/// If it cannot where `CI` is true, which must run all tests.
#[expect(clippy::print_stderr, reason = "whoever reads the test's output must know")]
pub fn can_attach(test: &str) -> bool {
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0);
    let has = |path: &str| Path::new(path).exists();
    let can = is_root && (has("/sys/block/nbd0") || has("/dev/fuse") && has("/dev/loop-control"));
    assert!(
        can || std::env::var("CI").as_deref() != Ok("true"),
        "CI must run all tests, but {test} needs a device"
    );
    if !can {
        eprintln!("SKIPPED {test}: it needs root, and NBD or FUSE and loop devices in the kernel");
    }
    can
}
