//! Runs the commands of docs/guide/tour.md unchanged.

use crate::support::run_block;

#[test]
fn the_tour_works() {
    let printed = run_block("tour", |tour| {
        assert!(tour.contains("digest verify") && tour.contains("bench write"), "all of it was found");
        tour.to_owned()
    });
    assert!(printed.contains("a picture, more or less"), "{printed}");
    assert!(printed.contains("failed with status 13, as it should"), "{printed}");
}
