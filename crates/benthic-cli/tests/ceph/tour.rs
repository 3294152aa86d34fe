//! Runs the commands of docs/guide/ceph.md and of docs/start/operator.md unchanged.

use crate::support::{run_block, shared_store};

#[test]
fn the_tour_of_ceph_works() {
    let printed = run_block("guide/ceph", |tour| {
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

#[test]
fn the_first_success_of_an_operator_works() {
    let printed = run_block("start/operator", |commands| {
        format!(
            "export PATH=$PWD/target/release:$PATH BENTHIC_STORE='{}'; cd \"$TMPDIR\"\n{commands}\ntest -s health.json",
            shared_store()
        )
    });
    assert!(printed.contains("verdict") && printed.contains("digest"), "{printed}");
}
