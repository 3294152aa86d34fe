use super::pause;
use benthic_core::Environment;
use futures::executor::block_on;
use std::time::Duration;

#[test]
fn a_pause_ends_after_its_time() {
    let clock = Environment::default().clock;
    let before = clock.monotonic_ms();
    block_on(pause(Duration::from_millis(20)));
    assert!(clock.monotonic_ms() - before >= 19);
}
