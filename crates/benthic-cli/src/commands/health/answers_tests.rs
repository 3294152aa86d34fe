use super::{Answer, LIMIT, answer};
use benthic_core::{Error, ErrorKind};
use std::time::Duration;

#[tokio::test]
async fn an_osd_that_does_not_answer_is_silent() {
    let leads = async || Ok(true);
    let soon = Duration::from_millis(20);
    assert_eq!(answer(LIMIT, async { Ok(()) }, leads).await, Answer::Prompt);
    assert_eq!(answer(soon, std::future::pending(), leads).await, Answer::Silent);
    let failed = async |kind| Err(Error::new(kind, "no"));
    assert_eq!(answer(LIMIT, failed(ErrorKind::Unavailable), leads).await, Answer::Silent);
    assert_eq!(answer(LIMIT, failed(ErrorKind::NotFound), leads).await, Answer::NotAsked, "no pool");
}

#[tokio::test]
async fn the_answer_of_another_osd_does_not_count() {
    let slow = async || {
        tokio::time::sleep(Duration::from_millis(1_050)).await;
        Ok(())
    };
    assert_eq!(answer(LIMIT, slow(), async || Ok(true)).await, Answer::Late);
    assert_eq!(answer(LIMIT, slow(), async || Ok(false)).await, Answer::Moved);
}

#[tokio::test]
async fn an_osd_that_was_marked_down_is_not_silent() {
    let soon = Duration::from_millis(20);
    let asked = answer(soon, std::future::pending(), async || Ok(false)).await;
    assert_eq!(asked, Answer::Moved, "and the monitors are asked again");
}
