//! Finds the OSD for which the oldest operation in flight waits.
//!
//! librados does not say to which OSD it sent an operation. The monitors know the OSDs of an
//! object, and they answer while OSDs do not. The question is one more monitor command; at most one
//! is under way, so that it takes no more than one thread while no monitor answers. Clients usually
//! may not ask an OSD itself, and a dead OSD would not answer.

use crate::blocking::Progress;
use crate::connection::{Shared, ask};
use crate::in_flight::SentOperation;
use benthic_core::{Error, ObjectAddress, Result, Wait};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Time for the monitors to answer.
const ASK_LIMIT: Duration = Duration::from_millis(1_500);
/// Time for the monitors to name an OSD whose call was cancelled.
const PRIMARY_LIMIT: Duration = Duration::from_secs(5);
/// Ceph's default of `osd_heartbeat_grace`.
const GRACE_DEFAULT_S: f64 = 20.0;
/// Time by which the monitors may mark an OSD down later than the grace says.
const GRACE_SLACK: Duration = Duration::from_secs(8);

/// The last answer of the monitors about the primary of the oldest operation's object.
#[derive(Default)]
pub(crate) struct Primaries {
    is_asking: AtomicBool,
    last: Mutex<Option<Primary>>,
}

#[derive(Clone, Debug, PartialEq)]
struct Primary {
    object: ObjectAddress,
    osd: i64,
    /// Time at which the OSD became the primary, as far as this client saw it.
    since: Duration,
    /// The OSD from which it took over.
    before: Option<i64>,
}

/// The OSDs of an object, from the answer of the monitors to `osd map`.
#[derive(Debug, Deserialize)]
struct OsdMap {
    acting: Vec<i64>,
    acting_primary: i64,
}

#[derive(Deserialize)]
struct MinSize {
    min_size: usize,
}

/// In `acting`, the place of an OSD that a placement group of an erasure-coded pool lacks.
const NO_OSD: i64 = 0x7fff_ffff;

impl Shared {
    pub fn longest_wait(&self) -> Option<Duration> {
        let job = self.blocking.oldest().map(|(since, _)| since);
        let oldest = [self.in_flight.oldest_since(), job].into_iter().flatten().min()?;
        Some(self.options.clock.monotonic().saturating_sub(oldest))
    }

    pub async fn describe_wait(self: &Arc<Self>) -> Option<Wait> {
        let job = self.blocking.oldest();
        let Some(sent) =
            self.in_flight.oldest().filter(|sent| job.is_none_or(|(since, _)| sent.since <= since))
        else {
            return job.map(|(_, whom)| Wait { whom: whom.to_owned(), details: String::new() });
        };
        let Ok((map, min_size)) = self.osds_of(&sent.object).await else {
            let whom = format!("the primary OSD of {}", sent.object);
            return Some(Wait { whom, details: "and no monitor answers either".to_owned() });
        };
        let now = self.options.clock.monotonic();
        let primary = self.primaries.note(&sent, map.acting_primary, now);
        let grace = self.cluster.conf(c"osd_heartbeat_grace").and_then(|text| text.parse().ok());
        let grace = Duration::try_from_secs_f64(grace.unwrap_or(GRACE_DEFAULT_S)).unwrap_or_default();
        let near = self.options.localized_reads;
        Some(describe(&primary, &map, min_size, near, now.saturating_sub(primary.since), grace))
    }

    /// Asks the monitors for the OSDs of an object, and for the number of them that its pool needs.
    async fn osds_of(self: &Arc<Self>, object: &ObjectAddress) -> Result<(OsdMap, usize)> {
        let map = map_of(object);
        let min_size =
            json!({ "prefix": "osd pool get", "pool": object.pool, "var": "min_size", "format": "json" });
        let Some(asking) = Asking::begin(self) else {
            return Err(Error::busy("the last question has no answer yet"));
        };
        let job = move |_: &Progress| {
            let map = ask(&asking.0, &map)?;
            Ok((map, ask::<MinSize>(&asking.0, &min_size)?.min_size))
        };
        self.blocking.run(None, ASK_LIMIT, job).await
    }

    /// Asks the monitors which OSD leads an object's placement group; `None` if none does.
    pub async fn primary_of(self: &Arc<Self>, object: &ObjectAddress) -> Result<Option<i64>> {
        let (shared, map) = (Arc::clone(self), map_of(object));
        let job = move |_: &Progress| ask::<OsdMap>(&shared, &map);
        let map = self.blocking.run(None, PRIMARY_LIMIT, job).await?;
        Ok(Some(map.acting_primary).filter(|osd| *osd >= 0))
    }
}

/// The monitor command that shows the OSDs of an object.
fn map_of(ObjectAddress { pool, object }: &ObjectAddress) -> Value {
    json!({
        "prefix": "osd map", "pool": pool, "object": object.name(), "nspace": object.namespace(), "format": "json",
    })
}

/// The only question under way. Dropping it permits the next one.
struct Asking(Arc<Shared>);

impl Asking {
    fn begin(shared: &Arc<Shared>) -> Option<Asking> {
        let is_asking = shared.primaries.is_asking.swap(true, Ordering::AcqRel);
        (!is_asking).then(|| Asking(Arc::clone(shared)))
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.0.primaries.is_asking.store(false, Ordering::Release);
    }
}

impl Primaries {
    fn note(&self, sent: &SentOperation, osd: i64, now: Duration) -> Primary {
        let mut last = self.last.lock();
        let known = last.take().filter(|last| last.object == sent.object);
        let primary = match known {
            Some(known) if known.osd == osd => known,
            Some(known) => Primary { osd, since: now, before: Some(known.osd), ..known },
            None => Primary { object: sent.object.clone(), osd, since: sent.since, before: None },
        };
        last.insert(primary).clone()
    }
}

fn describe(
    primary: &Primary,
    map: &OsdMap,
    min_size: usize,
    near: bool,
    waited: Duration,
    grace: Duration,
) -> Wait {
    let Primary { object, osd, before, .. } = primary;
    let up: Vec<String> =
        map.acting.iter().filter(|osd| **osd != NO_OSD).map(|osd| format!("osd.{osd}")).collect();
    if *osd < 0 || up.len() < min_size {
        let whom = format!("OSDs of {object} that are down");
        let details =
            format!("{} up, and the pool needs {min_size}; `benthic health` shows which are down", up.len());
        return Wait { whom, details };
    }
    let whom = if near { up.join(" or ") } else { format!("osd.{osd}") };
    let role = match before {
        _ if near => "an OSD",
        Some(_) => "the new primary",
        None => "the primary",
    };
    let outlook = match (grace.checked_sub(waited), before) {
        (Some(_), Some(before)) if *before >= 0 => format!("it takes over from osd.{before}"),
        (Some(left), _) => format!("if it is dead, it is marked down in about {} s", left.as_secs().max(1)),
        (None, _) if waited < grace + GRACE_SLACK => "if it is dead, it is marked down soon".to_owned(),
        (None, _) => {
            "the monitors have not marked it down; `benthic health` shows whether it answers or refuses this client"
                .to_owned()
        }
    };
    Wait { whom, details: format!("{role} of {object}; {outlook}") }
}

#[cfg(test)]
#[path = "wait_tests.rs"]
mod tests;
