//! Runs the commands of docs/guide/ceph.md unchanged.

use crate::support::run_block;

#[test]
fn the_tour_of_ceph_works() {
    let printed = run_block("ceph", |tour| {
        assert!(tour.contains("cluster up") && tour.contains("down --remove"), "all of it was found");
        // Removes the cluster even if the script fails.
        format!(
            "trap 'benthic cluster down --remove --yes benthic-cluster >&2 || true' EXIT\n{tour}\ntrap - EXIT"
        )
    });
    for expected in [
        "a picture, more or less",
        "failed with status 13, as it should",
        "Hello, Ada!",
        "written without osd.1",
    ] {
        assert!(printed.contains(expected), "{expected}: {printed}");
    }
}
