use super::Progress;
use benthic_core::{Error, ErrorKind};

#[test]
fn an_unanswered_change_has_an_unknown_outcome() {
    let late = || Error::new(ErrorKind::Unavailable, "no answer");
    let reading = Progress::default();
    assert_eq!(reading.classify(late()).kind(), ErrorKind::Unavailable);
    assert_eq!(reading.give_up().kind(), ErrorKind::Unavailable);
    assert!(reading.begin_change().is_err(), "its caller has the answer that nothing happened");

    let changing = Progress::default();
    changing.begin_change().unwrap();
    assert_eq!(changing.classify(late()).kind(), ErrorKind::OutcomeUnknown);
    assert_eq!(changing.give_up().kind(), ErrorKind::OutcomeUnknown);
}
