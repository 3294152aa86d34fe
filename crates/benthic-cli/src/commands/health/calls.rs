//! Polls the OSDs for the number of calls of their classes' methods.

use benthic_ceph::cluster_client::ClusterClient;
use benthic_ceph::health::calls::{Answers, LibrarySums, Tally};
use benthic_ceph::osds::OsdTarget;
use benthic_core::{Clock, SystemClock};
use futures::{StreamExt, stream};
use std::time::Duration;

/// Number of cluster polls per poll of the OSDs. A request costs an OSD an entry in the log of a
/// placement group, like a small write. So the OSDs are polled at every fourth cluster poll, and
/// sooner only if some have not answered.
const POLLS_APART: u32 = 4;
/// Time limit for all OSDs together in one poll. OSDs that have not answered by then are asked
/// again at the next poll.
const ANSWERS_LIMIT: Duration = Duration::from_secs(5);
const REQUESTS_AT_ONCE: usize = 64;
/// Seconds without an answer after which an OSD counts as lost. The monitors notice a hanging OSD,
/// and OSDs that wait for it, sooner than that.
const LOST_S: u64 = 60;

/// An OSD that has a library, and the object through which to reach it.
pub struct Holder {
    pool: String,
    object: String,
    library: String,
    /// Whether the library counts calls; `None` until the OSD has answered. A library that does not
    /// count is not asked again.
    counts: Option<bool>,
}

impl Holder {
    /// Creates a holder for an OSD that described this library; `None` if the OSD has no object to
    /// reach it through.
    pub fn new(osd: &OsdTarget, library: &str) -> Option<Holder> {
        let (pool, object) = osd.object.clone()?;
        Some(Holder { pool, object, library: library.to_owned(), counts: None })
    }
}

#[derive(Default)]
pub struct Calls {
    clock: SystemClock,
    tally: Tally,
    /// Cluster polls left until the OSDs are polled again.
    polls_left: u32,
    /// Start of the time in which some OSD has not answered.
    lost_since_unix_s: Option<u64>,
}

impl Calls {
    /// Polls each of these OSDs through its object, if a poll is due.
    pub async fn poll(&mut self, store: &dyn ClusterClient, now_unix_s: u64, holders: &mut [Holder]) {
        if self.polls_left > 0 && self.tally.covers_all_osds() {
            self.polls_left -= 1;
            return;
        }
        self.polls_left = POLLS_APART - 1;
        let now_ms = self.clock.monotonic_ms();
        let mut libraries: Vec<Answers> = Vec::new();
        let mut requests = Vec::new();
        for holder in holders {
            let name = &holder.library;
            let index = libraries.iter().position(|known| known.library == *name).unwrap_or_else(|| {
                libraries.push(Answers { library: name.clone(), ..Answers::default() });
                libraries.len() - 1
            });
            if holder.counts != Some(false) {
                // Count it as not seen until it answers.
                libraries[index].osds_not_seen += 1;
                requests.push((index, holder));
            } else {
                libraries[index].osds_not_counting += 1;
            }
        }
        let requests = requests.into_iter().map(|(index, holder)| async move {
            let answer = store.calls_at(&holder.pool, &holder.object, &holder.library).await;
            let counts = answer.as_ref().ok().map(Option::is_some);
            // A library that counts does not stop counting. If it seems to, another OSD now answers
            // for its object.
            holder.counts = holder.counts.or(counts);
            (index, answer, holder.counts)
        });
        let answers = stream::iter(requests).buffer_unordered(REQUESTS_AT_ONCE);
        let mut answers = answers.take_until(Box::pin(tokio::time::sleep(ANSWERS_LIMIT)));
        while let Some((index, answer, counts)) = answers.next().await {
            let library = &mut libraries[index];
            match answer {
                Ok(Some(counted)) => library.counted.push(counted),
                Ok(None) if counts == Some(false) => library.osds_not_counting += 1,
                Ok(None) | Err(_) => continue,
            }
            library.osds_not_seen -= 1;
        }
        self.tally.add(now_unix_s, now_ms, libraries);
        let since = self.lost_since_unix_s.unwrap_or(now_unix_s);
        self.lost_since_unix_s = (!self.tally.covers_all_osds()).then_some(since);
    }

    /// Returns true if some OSD has not answered for long, so that the caller must find another
    /// object to reach it.
    pub fn is_lost(&self, now_unix_s: u64) -> bool {
        self.lost_since_unix_s.is_some_and(|since| now_unix_s.saturating_sub(since) >= LOST_S)
    }

    pub fn sums(&self) -> Vec<LibrarySums> {
        self.tally.sums()
    }

    /// The sums in Prometheus text format.
    pub fn text(&self) -> String {
        self.tally.text()
    }
}
