//! Whether the OSDs of a host run an installed library. Two witnesses must agree: the OSD, which
//! answers a call of the library, and the host, which shows the files that the OSD's process has
//! open. The OSD's answer alone proves little: two files may have the same build, and another
//! host's directory may be meant.

use super::directory::Directory;
use crate::cluster_client::ClusterClient;
use crate::osds::{OsdTarget, library_on, osds};
use benthic_core::{Error, ErrorKind, Result};
use futures::{StreamExt, stream};
use std::collections::BTreeMap;
use std::time::Duration;

/// Time for an OSD to answer a question.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);
/// Attempts to ask OSDs that do not answer: an OSD may lose its placement group to another one
/// meanwhile.
const ATTEMPTS: usize = 3;
const PAUSE: Duration = Duration::from_secs(1);
const REQUESTS_AT_ONCE: usize = 16;

/// An OSD's answer about a library: its build, or `None` if the OSD does not have it.
pub type Answer = Result<Option<String>>;

/// How an OSD stands to the library in its directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OsdState {
    /// It runs the library, of this build.
    Runs { build: Option<String> },
    /// It runs an older file, until it restarts.
    RunsOlder { build: Option<String> },
    /// Its settings, or the client's caps, do not allow calls of the library.
    Refuses,
    /// It leads no placement group of a replicated pool, so no call reaches it. It loads the
    /// library at the first call.
    Unreachable,
}

/// Asks OSDs for their build of a library. An OSD that has not loaded it loads it now.
///
/// # Errors
/// Those of [`osds`]. The errors of single OSDs are in the result.
pub async fn ask(client: &dyn ClusterClient, ids: &[i32], library: &str) -> Result<BTreeMap<i32, Answer>> {
    let mut answers = BTreeMap::new();
    for attempt in 0..ATTEMPTS {
        let silent = |id: i32| !matches!(answers.get(&id), Some(Ok(_)));
        let missing: Vec<i32> = ids.iter().copied().filter(|id| silent(*id)).collect();
        if missing.is_empty() {
            break;
        }
        if attempt > 0 {
            tokio::time::sleep(PAUSE).await;
        }
        let targets: BTreeMap<i64, OsdTarget> =
            osds(client).await?.into_iter().map(|osd| (osd.id, osd)).collect();
        let asked = missing.into_iter().map(async |id| {
            let answer = match targets.get(&id.into()) {
                Some(target) => tokio::time::timeout(ANSWER_LIMIT, library_on(client, target, library)).await,
                None => Ok(Err(Error::unavailable("the OSD was removed"))),
            };
            let late = |_| Err(Error::unavailable("the OSD did not answer in time"));
            (id, answer.unwrap_or_else(late).map(|found| found.map(|info| info.build)))
        });
        let asked: Vec<(i32, Answer)> = stream::iter(asked).buffered(REQUESTS_AT_ONCE).collect().await;
        answers.extend(asked);
        // No later attempt changes a refusal.
        let is_final =
            |answer: &Answer| !matches!(answer, Err(error) if error.kind() == ErrorKind::Unavailable);
        if answers.values().all(is_final) {
            break;
        }
    }
    Ok(answers)
}

/// The OSDs that calls reach: those that lead a placement group of a replicated pool.
///
/// # Errors
/// Those of [`osds`].
pub async fn reachable(client: &dyn ClusterClient) -> Result<Vec<i32>> {
    let led = osds(client).await?.into_iter().filter(|osd| osd.object.is_some());
    Ok(led.filter_map(|osd| i32::try_from(osd.id).ok()).collect())
}

/// Compares an OSD's answer with the host's view of its process. `answer` is `None` if no call
/// reaches the OSD.
///
/// # Errors
/// `Unavailable` if the OSD does not answer, or did not load the library.
pub fn judge(osd: i32, answer: Option<&Answer>, directory: &Directory) -> Result<OsdState> {
    let failed =
        |message: &str| Err(Error::unavailable(message).with("osd", osd).with("dir", &directory.path));
    let seen = directory.loaded.iter().filter(|loaded| loaded.osd == Some(osd));
    let is_older = seen.map(|loaded| loaded.is_older).max();
    let build = match answer {
        Some(Ok(build)) => build.clone(),
        Some(Err(error)) if error.kind() == ErrorKind::PermissionDenied => return Ok(OsdState::Refuses),
        // The status of a file that cannot be opened as a library is that of a damaged object.
        Some(Err(error)) if error.kind() == ErrorKind::Corrupt && is_older.is_none() => None,
        Some(Err(error)) => {
            return failed(&format!("the OSD does not answer a call of the library: {}", error.message()));
        }
        None => None,
    };
    match (is_older, &build, answer) {
        (Some(true), ..) => Ok(OsdState::RunsOlder { build }),
        (Some(false), ..) => Ok(OsdState::Runs { build }),
        (None, _, None) => Ok(OsdState::Unreachable),
        (None, Some(_), _) => {
            failed("the OSD runs a library of this name, but no OSD process of the host has this file open")
        }
        (None, None, _) => failed("the OSD did not load the library; its log has the reason"),
    }
}

#[cfg(test)]
#[path = "verify_tests.rs"]
mod tests;
