//! Asking the OSDs again and again how often the methods of their classes were called.

use benthic_ceph::RadosStore;
use benthic_ceph::health::calls::{Answers, LibrarySums, Tally};
use benthic_ceph::osds::OsdTarget;
use benthic_core::{Clock, SystemClock};
use futures::{StreamExt, stream};
use std::time::Duration;

/// A question costs its OSD an entry in the log of a placement group, as a small write does, so they are asked at every fourth look,
/// and sooner only if some have not told.
const LOOKS_APART: u32 = 4;
/// How long all of them may take together at one look. What is not told then is told at the next.
const ANSWERS_LIMIT: Duration = Duration::from_secs(5);
const QUESTIONS_AT_ONCE: usize = 64;
/// An OSD that hangs, and those that wait for it, are noticed by the monitors sooner.
const LOST_S: u64 = 60;

/// Where an OSD is asked, and for a library that it has.
pub struct Holder {
    pool: String,
    object: String,
    library: &'static str,
    /// Whether the library counts; not known before it answered. One that does not is not asked again.
    counts: Option<bool>,
}

impl Holder {
    /// An OSD that described this library; `None` for one without an object to ask through.
    pub fn new(osd: &OsdTarget, library: &'static str) -> Option<Holder> {
        let (pool, object) = osd.object.clone()?;
        Some(Holder { pool, object, library, counts: None })
    }
}

/// What was counted so far.
#[derive(Default)]
pub struct Calls {
    clock: SystemClock,
    tally: Tally,
    /// Looks until they are asked again.
    looks_left: u32,
    /// Since when some OSD did not answer.
    lost_since_unix_s: Option<u64>,
}

impl Calls {
    /// Asks each of these OSDs, at the place that was found for it, if it is time.
    pub async fn look(&mut self, store: &RadosStore, now_unix_s: u64, holders: &mut [Holder]) {
        if self.looks_left > 0 && self.tally.is_whole() {
            self.looks_left -= 1;
            return;
        }
        self.looks_left = LOOKS_APART - 1;
        let now_ms = self.clock.monotonic_ms();
        let mut libraries: Vec<Answers> = Vec::new();
        let mut asked = Vec::new();
        for holder in holders {
            let name = holder.library;
            let index = libraries.iter().position(|known| known.library == name).unwrap_or_else(|| {
                libraries.push(Answers { library: name.to_owned(), ..Answers::default() });
                libraries.len() - 1
            });
            if holder.counts != Some(false) {
                // It becomes one of the others when it answers.
                libraries[index].osds_not_seen += 1;
                asked.push((index, holder));
            } else {
                libraries[index].osds_not_counting += 1;
            }
        }
        let questions = asked.into_iter().map(|(index, holder)| async move {
            let answer = store.calls_at(&holder.pool, &holder.object, holder.library).await;
            let counts = answer.as_ref().ok().map(Option::is_some);
            // One that counted does not stop: by now another OSD answers at its place.
            holder.counts = holder.counts.or(counts);
            (index, answer, holder.counts)
        });
        let answers = stream::iter(questions).buffer_unordered(QUESTIONS_AT_ONCE);
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
        self.lost_since_unix_s = (!self.tally.is_whole()).then_some(since);
    }

    /// Whether some OSD has not answered at its place for long, so that another place is to be found.
    pub fn is_lost(&self, now_unix_s: u64) -> bool {
        self.lost_since_unix_s.is_some_and(|since| now_unix_s.saturating_sub(since) >= LOST_S)
    }

    /// The sums for the page.
    pub fn sums(&self) -> Vec<LibrarySums> {
        self.tally.sums()
    }

    /// The sums for Prometheus.
    pub fn text(&self) -> String {
        self.tally.text()
    }
}
