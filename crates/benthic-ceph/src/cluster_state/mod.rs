//! The state of a cluster, as its monitors and its manager report it in JSON. Health, placement,
//! sizing and local clusters share this model. Fields that some Ceph releases lack have a default.

mod mon;
mod osd_map;
mod pgs;
mod usage;

pub use mon::{
    Check, Clocks, Health, Manager, Message, Mon, MonMap, OsdCounts, Quorum, Skew, Status, Summary, Versions,
};
pub use osd_map::{Node, Osd, OsdMap, Pool, Tree};
pub use pgs::{Pg, PgDump, PgMapDigest, PgSums, StateCount, has_duplicates};
pub use usage::{
    Df, DfStats, Io, LatencyStats, OsdDf, OsdLatency, OsdPerf, OsdUsage, PoolDf, PoolIo, PoolStats, Recovery,
};

use benthic_core::{Error, Result};
use serde::de::DeserializeOwned;

/// Parses an answer of a monitor or a manager.
///
/// # Errors
/// `Unsupported` for an answer of another form.
pub(crate) fn parse<T: DeserializeOwned>(answer: &[u8]) -> Result<T> {
    serde_json::from_slice(answer)
        .map_err(|error| Error::unsupported("cannot parse the cluster's answer").with_source(error))
}
