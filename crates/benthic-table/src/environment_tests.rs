use super::{draw_id, pause};
use benthic_core::Environment;
use futures::executor::block_on;
use std::collections::HashSet;
use std::time::Duration;

#[test]
fn ids_differ() {
    let environment = Environment::default();
    let ids: HashSet<_> = (0..1_000).map(|_| draw_id(&environment).unwrap()).collect();
    assert_eq!(ids.len(), 1_000);
}

#[test]
fn a_pause_ends_after_its_time() {
    let clock = Environment::default().clock;
    let before = clock.monotonic_ms();
    block_on(pause(Duration::from_millis(20)));
    assert!(clock.monotonic_ms() - before >= 19);
}
