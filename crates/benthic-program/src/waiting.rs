//! Names on stderr the process for which a command waits: while it waits, and after Ctrl-C.
//!
//! The engines know which operations are in flight, so one task here serves every command of every
//! program. It looks at the oldest operation a few times a second, which costs nothing, and asks
//! the engine for a description, which may be a question to the monitors, only when there is
//! something to say.

use crate::interrupt;
use crate::session::Session;
use benthic_core::{Stopwatch, SystemClock, Wait};
use std::convert::Infallible;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::time::{sleep, timeout};

const TICK: Duration = Duration::from_millis(250);
/// A wait of this length is worth a message. After a signal the command gives up on it.
const LONG: Duration = Duration::from_secs(2);
/// Shortest time between two questions to the engine.
const ASK_PAUSE: Duration = Duration::from_secs(2);
/// Time after which the same message appears again.
const REPEAT: Duration = Duration::from_secs(10);

/// Time that a command has after a signal to stop by itself.
const GRACE: Duration = Duration::from_secs(10);
/// The same for a command whose operations get no answer.
const GRACE_WITHOUT_ANSWER: Duration = Duration::from_secs(1);
/// Shorter waits are not worth a message, even after a signal.
const NOTICEABLE: Duration = Duration::from_millis(500);
/// Most commands stop within this time, and the user need not know the cause of their wait.
const PROMPT: Duration = Duration::from_millis(200);

/// The last message that the user got.
#[derive(Default)]
pub(crate) struct LastWait(Mutex<Option<Wait>>);

impl LastWait {
    fn get(&self) -> Option<Wait> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn say(&self, session: &Session, wait: Wait) {
        session.out.waiting(&wait, session.longest_wait().unwrap_or_default());
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(wait);
    }
}

/// Reports the cause of the command's wait, until this future is dropped.
pub(crate) async fn report(session: &Session, last: &LastWait) -> Infallible {
    let mut said_at = Stopwatch::start(&SystemClock);
    loop {
        sleep(TICK).await;
        // After a signal, `grace` says it.
        if interrupt::is_set() || session.longest_wait().is_none_or(|waited| waited < LONG) {
            continue;
        }
        if let Some(wait) = session.describe_wait().await
            && (last.get().is_none_or(|last| last.whom != wait.whom) || said_at.elapsed() >= REPEAT)
        {
            last.say(session, wait);
            said_at = Stopwatch::start(&SystemClock);
        }
        sleep(ASK_PAUSE).await;
    }
}

/// The time that the command has to stop after a signal. Reports the cause of the command's wait,
/// unless it stops promptly.
pub(crate) async fn grace(session: &Session, last: &LastWait) {
    let began = Stopwatch::start(&SystemClock);
    sleep(PROMPT).await;
    if session.longest_wait().is_some_and(|waited| waited >= NOTICEABLE) {
        let described = timeout(PROMPT, session.describe_wait()).await.ok().flatten();
        let unknown = || Wait { whom: "the store".to_owned(), details: String::new() };
        last.say(session, described.or_else(|| last.get()).unwrap_or_else(unknown));
    }
    if session.is_opening() {
        return;
    }
    session.out.warning("stopping when the operations in flight have ended; a second Ctrl-C exits at once");
    let is_stuck = || session.longest_wait().is_some_and(|waited| waited >= LONG);
    while began.elapsed() < GRACE && !(began.elapsed() >= GRACE_WITHOUT_ANSWER && is_stuck()) {
        sleep(TICK).await;
    }
}
