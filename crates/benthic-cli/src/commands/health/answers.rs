//! Asks every OSD for an answer of its own. If all OSDs die at once, no OSD is left to report it,
//! and the monitors consider them up for a quarter of an hour. A small read from each OSD shows it
//! at once, as it shows an OSD that hangs.

use benthic_ceph::cluster_client::ClusterClient;
use benthic_ceph::health::snapshot::{OSD_ANSWER_LIMIT_S, OsdAnswers, SilentOsd};
use benthic_ceph::osds::{OsdTarget, leads_its_object};
use benthic_core::{Clock, ErrorKind, Result, Stopwatch, SystemClock};
use futures::{StreamExt, stream};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(OSD_ANSWER_LIMIT_S);
const REQUESTS_AT_ONCE: usize = 1_024;
/// If an answer takes longer, the OSD may have died meanwhile, and another one answered for it.
const PROMPT: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Prompt,
    Late,
    Silent,
    /// The OSD does not lead the placement group of the object any more. It may be down.
    Moved,
    /// The OSD leads no placement group.
    NotAsked,
}

/// Asks the OSDs that are up. OSDs that do not answer cost 10 s per 1,024 of them. Also returns
/// whether all answers were prompt. If not, the monitors may know more by now.
pub async fn ask(store: &dyn ClusterClient, osds: &[OsdTarget]) -> (OsdAnswers, bool) {
    let requests = osds.iter().filter(|osd| osd.up).map(|osd| async move {
        let Some((pool, object)) = &osd.object else { return (osd, Answer::NotAsked) };
        let is_leader = async || leads_its_object(store, osd).await;
        (osd, answer(LIMIT, store.reach(pool, object), is_leader).await)
    });
    let answers: Vec<_> = stream::iter(requests).buffered(REQUESTS_AT_ONCE).collect().await;
    let with = |kinds: &[Answer]| -> Vec<&OsdTarget> {
        answers.iter().filter(|(_, answer)| kinds.contains(answer)).map(|(osd, _)| *osd).collect()
    };
    let ids = |osds: Vec<&OsdTarget>| osds.into_iter().map(|osd| osd.id).collect();
    let silent = with(&[Answer::Silent]);
    let all_prompt = with(&[Answer::Silent, Answer::Late, Answer::Moved]).is_empty();
    let answers = OsdAnswers {
        unix_s: SystemClock.unix_ns() / 1_000_000_000,
        answered: ids(with(&[Answer::Prompt, Answer::Late])),
        silent: silent.into_iter().map(|osd| SilentOsd { osd: osd.id, pg: osd.pg.clone() }).collect(),
        not_asked: ids(with(&[Answer::Moved, Answer::NotAsked])),
    };
    (answers, all_prompt)
}

async fn answer(
    limit: Duration,
    request: impl Future<Output = Result<()>>,
    is_leader: impl AsyncFnOnce() -> Result<bool>,
) -> Answer {
    let began = Stopwatch::start(&SystemClock);
    let answered = match tokio::time::timeout(limit, request).await {
        Ok(Ok(())) if began.elapsed() < PROMPT => return Answer::Prompt,
        Ok(Ok(())) => true,
        Ok(Err(error)) if error.kind() != ErrorKind::Unavailable => return Answer::NotAsked,
        Ok(Err(_)) | Err(_) => false,
    };
    match (tokio::time::timeout(PROMPT, is_leader()).await, answered) {
        (Ok(Ok(false)), _) => Answer::Moved,
        (Ok(Ok(true)), true) => Answer::Late,
        // No monitor says whether this OSD or another one answered.
        (_, true) => Answer::Moved,
        (_, false) => Answer::Silent,
    }
}

#[cfg(test)]
#[path = "answers_tests.rs"]
mod tests;
