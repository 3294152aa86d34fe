//! The choice between push and pull, from made-up measurements.

use super::{BUSY_TIMEOUT, Choice, Pushdown, Step, TRY_AGAIN, WAIT_MAX, WAIT_MIN};
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);

/// Counts the next objects for which the choice matches.
fn count(choice: &Choice, times: u64, wanted: impl Fn(Step) -> bool) -> u64 {
    (0..times).filter(|_| wanted(choice.next(1_000))).count() as u64
}

#[test]
fn auto_pushes_until_it_knows_that_pulling_is_faster() {
    let choice = Choice::new(Pushdown::Auto, false);
    assert_eq!(count(&choice, 10 * TRY_AGAIN, |step| step == Step::Push), 10 * TRY_AGAIN);
    choice.add_pushed(1_000, 50 * MS);
    assert_eq!(count(&choice, 10 * TRY_AGAIN, |step| step == Step::TryPull), 10);
    assert_eq!(count(&choice, 10 * TRY_AGAIN, |step| step == Step::Push), 10 * (TRY_AGAIN - 1));
    choice.add_pulled(2_000, 20 * MS);
    assert_eq!(count(&choice, 10 * TRY_AGAIN, |step| step == Step::Pull), 10 * (TRY_AGAIN - 1));
    choice.add_pulled(1_000, 180 * MS);
    assert_eq!(count(&choice, 10 * TRY_AGAIN, |step| step == Step::Push), 10 * (TRY_AGAIN - 1));
    choice.add_pulled(1_000, 10_000 * MS);
    assert!(count(&choice, 10 * TRY_AGAIN, |step| step == Step::Push) >= 10 * TRY_AGAIN - 1);
}

#[test]
fn a_refused_fragment_is_not_pushed_again() {
    for (pushdown, after_too_large) in [(Pushdown::Auto, 0), (Pushdown::Always, 3), (Pushdown::Never, 0)] {
        let choice = Choice::new(pushdown, false);
        assert_eq!(choice.next(1) == Step::Push, pushdown != Pushdown::Never);
        choice.note_too_large();
        assert_eq!(count(&choice, 3, |step| step == Step::Push), after_too_large, "{pushdown:?}");
        choice.stop_pushing();
        assert_eq!(count(&choice, 3, |step| step == Step::Pull), 3, "{pushdown:?}");
        assert_eq!(choice.next_when_busy(1, Duration::ZERO), Step::Pull);
    }
}

#[test]
fn a_busy_osd_is_worth_waiting_for_as_long_as_pulling_takes() {
    let choice = Choice::new(Pushdown::Auto, false);
    // Nothing is measured yet: one object is pulled as a trial while the others wait.
    assert_eq!(choice.next_when_busy(1_000, Duration::ZERO), Step::Wait(WAIT_MIN));
    assert_eq!(choice.next_when_busy(1_000, 20 * MS), Step::TryPull);
    assert_eq!(choice.next_when_busy(1_000, 300 * MS), Step::Wait(WAIT_MIN));
    assert!(!choice.give_up_if_slow(1_000, 10_000 * MS));
    choice.end_trial_pull();
    choice.add_pulled(1_000, 160 * MS);
    choice.add_pushed(1_000, 80 * MS);
    assert_eq!(choice.next_when_busy(1_000, 159 * MS), Step::Wait(10 * MS));
    assert_eq!(choice.next_when_busy(1_000, 160 * MS), Step::Pull);
    choice.add_pushed(1_000_000, 10_000_000 * MS);
    assert_eq!(choice.next_when_busy(1_000, Duration::ZERO), Step::Wait(WAIT_MAX));

    let always = Choice::new(Pushdown::Always, true);
    always.add_pulled(1_000, MS);
    assert_eq!(always.next_when_busy(1_000, 10_000 * MS), Step::Wait(WAIT_MIN));
    assert_eq!(always.next_when_busy(1_000, BUSY_TIMEOUT), Step::Pull);
}

#[test]
fn far_objects_are_pulled_only_when_osds_stay_busy() {
    let choice = Choice::new(Pushdown::Auto, true);
    assert_eq!(choice.next_when_busy(1_000, 1_999 * MS), Step::Wait(WAIT_MIN));
    assert_eq!(choice.next_when_busy(1_000, 2_000 * MS), Step::TryPull);
    let choice = Choice::new(Pushdown::Auto, true);
    choice.add_pushed(1_000, 80 * MS);
    assert_eq!(choice.next_when_busy(1_000, 159 * MS), Step::Wait(10 * MS));
    assert_eq!(count(&choice, 15 * TRY_AGAIN, |step| step == Step::Push), 15 * TRY_AGAIN);
    assert_eq!(choice.next_when_busy(1_000, 160 * MS), Step::TryPull);
}

#[test]
fn a_slow_trial_pull_is_abandoned_and_counts_as_slow() {
    let choice = Choice::new(Pushdown::Auto, false);
    assert_eq!(choice.next_when_busy(1_000, 20 * MS), Step::TryPull);
    choice.add_pushed(1_000, 100 * MS);
    assert!(!choice.give_up_if_slow(1_000, 200 * MS) && choice.give_up_if_slow(1_000, 201 * MS));
    assert!(matches!(choice.next_when_busy(1_000, 1_600 * MS), Step::Wait(_)));
    assert_eq!(choice.next_when_busy(1_000, 1_700 * MS), Step::Pull);
    assert!(count(&choice, 10 * TRY_AGAIN, |step| step == Step::Push) >= 10 * TRY_AGAIN - 1);
}
