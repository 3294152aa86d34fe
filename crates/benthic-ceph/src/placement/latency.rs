//! Predicts the network latency of a client's reads and writes from the round-trip times that OSDs
//! measure between each other.

use super::crush::Sites;
use super::preview::Mappings;
use crate::cluster_client::{ClusterClient, in_json};
use crate::cluster_state::parse;
use benthic_core::Result;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeMap;

/// Round-trip times between sites in milliseconds: the median of the OSDs' averages over the last
/// minute.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RoundTrips(BTreeMap<(usize, usize), f64>);

/// Network latency of a client's operation, averaged over the placement groups of a pool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    pub site: String,
    /// One round trip from the client to the primary.
    pub read_ms: f64,
    /// The same, plus one round trip from the primary to the farthest replica.
    pub write_ms: f64,
}

#[derive(Deserialize)]
struct OsdDump {
    osd_stats: Vec<OsdStats>,
}

#[derive(Deserialize)]
struct OsdStats {
    osd: i32,
    #[serde(default)]
    network_ping_times: Vec<Pings>,
}

#[derive(Deserialize)]
struct Pings {
    osd: i32,
    interfaces: Vec<Interface>,
}

#[derive(Deserialize)]
struct Interface {
    interface: String,
    average: Average,
}

#[derive(Deserialize)]
struct Average {
    #[serde(rename = "1min")]
    minute_ms: f64,
}

impl RoundTrips {
    /// Reads the measurements from the manager.
    ///
    /// # Errors
    /// As [`ClusterClient::ask_manager`].
    pub async fn read(client: &dyn ClusterClient, sites: &Sites) -> Result<RoundTrips> {
        let question = in_json(json!({ "prefix": "pg dump", "dumpcontents": ["osds"] }));
        RoundTrips::parse(&client.ask_manager(question).await?, sites)
    }

    pub(super) fn parse(dump: &[u8], sites: &Sites) -> Result<RoundTrips> {
        let dump: OsdDump = parse(dump)?;
        let mut measured: BTreeMap<(usize, usize), Vec<f64>> = BTreeMap::new();
        for stats in &dump.osd_stats {
            for pings in &stats.network_ping_times {
                // If there are two networks, clients use the front network.
                let front = pings.interfaces.iter().find(|interface| interface.interface == "front");
                let average = front.or(pings.interfaces.first()).map(|interface| interface.average.minute_ms);
                if let (Some(from), Some(to), Some(ms)) = (sites.of(stats.osd), sites.of(pings.osd), average)
                    && ms > 0.0
                {
                    measured.entry((from.min(to), from.max(to))).or_default().push(ms);
                }
            }
        }
        let median = |mut all: Vec<f64>| {
            all.sort_by(f64::total_cmp);
            all[all.len() / 2]
        };
        Ok(RoundTrips(measured.into_iter().map(|(between, all)| (between, median(all))).collect()))
    }

    /// The round-trip time between two sites, or within one; `None` if no OSD has measured it yet.
    /// A site with a single OSD has no measurements, and its internal time counts as 0.
    fn ms(&self, a: usize, b: usize) -> Option<f64> {
        self.0.get(&(a.min(b), a.max(b))).copied().or((a == b).then_some(0.0))
    }

    /// The network latency for a client at each site, if the pool has this placement. Empty if a
    /// round-trip time is unknown: OSDs report them from a minute after their start.
    pub fn latencies(&self, sites: &Sites, mappings: &Mappings) -> Vec<Latency> {
        let at = |client: usize| self.latency(sites, mappings, client);
        (0..sites.sites.len()).map(at).collect::<Option<Vec<_>>>().unwrap_or_default()
    }

    fn latency(&self, sites: &Sites, mappings: &Mappings, client: usize) -> Option<Latency> {
        let (mut read_ms, mut write_ms) = (0.0, 0.0);
        for osds in mappings.values() {
            let primary = sites.of(*osds.first()?)?;
            let there_ms = self.ms(client, primary)?;
            let mut farthest_ms = 0.0;
            for osd in &osds[1..] {
                farthest_ms = f64::max(farthest_ms, self.ms(primary, sites.of(*osd)?)?);
            }
            read_ms += there_ms;
            write_ms += there_ms + farthest_ms;
        }
        let pgs = mappings.len().max(1) as f64;
        Some(Latency {
            site: sites.sites[client].name.clone(),
            read_ms: read_ms / pgs,
            write_ms: write_ms / pgs,
        })
    }
}
