//! Lists the OSDs of a cluster and queries the class libraries of each. A method call reaches an
//! OSD only through an object whose placement group the OSD leads. So the list includes the name of
//! such an object for each OSD.

use crate::cluster_client::ClusterClient;
use crate::cluster_state::{Osd, OsdMap};
use benthic_core::{
    Error, ErrorKind, LibraryCalls, LibraryFailures, LibraryInfo, OptionalExtension, Result, Stopwatch,
};
use serde::Deserialize;
use serde_json::json;
use std::collections::BTreeMap;
use std::time::Duration;

/// Time limit of the search for object names.
const SEARCH_LIMIT: Duration = Duration::from_secs(10);

/// An OSD of the cluster, and an object that routes queries to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OsdTarget {
    /// N of `osd.N`.
    pub id: i64,
    pub up: bool,
    /// A pool and the name of an object that this OSD would lead. `None` if the OSD is down, or if
    /// no such name was found because it leads no placement group of a replicated pool.
    pub object: Option<(String, String)>,
    /// The placement group of the object, such as `2.1f`; empty without an object.
    pub pg: String,
}

#[derive(Deserialize)]
struct ObjectMapping {
    acting_primary: i64,
    #[serde(default)]
    pgid: String,
}

/// Lists all OSDs by number. This takes about one monitor command per OSD, and at most 10 s plus
/// one answer of a monitor.
///
/// # Errors
/// `Unavailable` if no monitor answers in time, `PermissionDenied` if the client may not query
/// them.
pub async fn osds(client: &dyn ClusterClient) -> Result<Vec<OsdTarget>> {
    find_objects(client).await.map_err(|error| error.with_op("list OSDs"))
}

async fn find_objects(client: &dyn ClusterClient) -> Result<Vec<OsdTarget>> {
    let stopwatch = Stopwatch::start(client.clock());
    let map: OsdMap = client.monitor_state(json!({ "prefix": "osd dump" })).await?;
    let target =
        |osd: &Osd| OsdTarget { id: osd.id.into(), up: osd.is_up(), object: None, pg: String::new() };
    let mut osds: BTreeMap<i64, OsdTarget> =
        map.osds.iter().map(|osd| (osd.id.into(), target(osd))).collect();
    // Erasure-coded pools support no class methods that read.
    let mut pools: Vec<&str> =
        map.pools.iter().filter(|pool| pool.is_replicated()).map(|pool| pool.name.as_str()).collect();
    let mut unplaced = osds.values().filter(|osd| osd.up).count();
    // Hashing spreads the names over the placement groups at random. With this many names, the
    // search almost certainly finds every OSD that leads a placement group.
    let names_max = 64 + 16 * osds.len();
    for index in 0..names_max {
        if pools.is_empty() || unplaced == 0 || stopwatch.elapsed() > SEARCH_LIMIT {
            break;
        }
        let place = index % pools.len();
        let (pool, name) = (pools[place], format!("benthic.describe.{index}"));
        let mapped = match locate(client, pool, &name).await {
            Ok(mapped) => mapped,
            // Somebody removed the pool meanwhile.
            Err(error) if error.kind() == ErrorKind::NotFound => {
                pools.remove(place);
                continue;
            }
            Err(error) => return Err(error),
        };
        let osd = osds.get_mut(&mapped.acting_primary);
        if let Some(osd) = osd.filter(|osd| osd.up && osd.object.is_none()) {
            osd.object = Some((pool.to_owned(), name));
            osd.pg = mapped.pgid;
            unplaced -= 1;
        }
    }
    Ok(osds.into_values().collect())
}

/// Reads the description of a library in one OSD; `None` if the OSD does not have it.
///
/// # Errors
/// `PermissionDenied` if the client may not call methods, or the OSD may not load the library;
/// `Unavailable` if the OSD has no [`object`](OsdTarget::object), does not answer in time, or
/// another OSD answered in its place.
pub async fn library_on(
    client: &dyn ClusterClient,
    osd: &OsdTarget,
    library: &str,
) -> Result<Option<LibraryInfo>> {
    ask(client, osd, library, async |pool, object| client.library_at(pool, object, library).await).await
}

/// Reads the recent failures and log messages of a library's methods in one OSD; `None` if the OSD
/// does not have the library, or has a build of it that does not record failures.
///
/// # Errors
/// As [`library_on`].
pub async fn failures_on(
    client: &dyn ClusterClient,
    osd: &OsdTarget,
    library: &str,
) -> Result<Option<LibraryFailures>> {
    ask(client, osd, library, async |pool, object| client.failures_at(pool, object, library).await).await
}

/// Reads the call counters of a library in one OSD; `None` if the OSD does not have the library, or
/// has a build of it that does not count calls.
///
/// # Errors
/// As [`library_on`].
pub async fn calls_on(
    client: &dyn ClusterClient,
    osd: &OsdTarget,
    library: &str,
) -> Result<Option<LibraryCalls>> {
    ask(client, osd, library, async |pool, object| client.calls_at(pool, object, library).await).await
}

/// Sends a question to an OSD through its object, and checks that this OSD answered.
async fn ask<T>(
    client: &dyn ClusterClient,
    osd: &OsdTarget,
    library: &str,
    question: impl AsyncFnOnce(&str, &str) -> Result<T>,
) -> Result<T> {
    let unavailable =
        |message: &str| Error::unavailable(message).with("osd", osd.id).with("library", library);
    let (pool, name) = match &osd.object {
        Some((pool, name)) => (pool, name),
        None if osd.up => return Err(unavailable("the OSD leads no placement group of a replicated pool")),
        None => return Err(unavailable("the OSD is down")),
    };
    let answer = question(pool, name).await?;
    // If the OSD went down meanwhile, the next OSD of the placement group answered.
    if !leads_its_object(client, osd).await? {
        return Err(unavailable("the OSD went down or lost its placement groups"));
    }
    Ok(answer)
}

/// Whether the OSD still leads the placement group of its [`object`](OsdTarget::object).
///
/// # Errors
/// As [`osds`].
pub async fn leads_its_object(client: &dyn ClusterClient, osd: &OsdTarget) -> Result<bool> {
    let Some((pool, name)) = &osd.object else { return Ok(false) };
    // Somebody removed the pool meanwhile.
    Ok(locate(client, pool, name).await.optional()?.is_some_and(|mapped| mapped.acting_primary == osd.id))
}

/// The placement group of an object, and the OSD that leads it; -1 if there is none at present.
async fn locate(client: &dyn ClusterClient, pool: &str, name: &str) -> Result<ObjectMapping> {
    client.monitor_state(json!({ "prefix": "osd map", "pool": pool, "object": name })).await
}

#[cfg(test)]
#[path = "osds_tests.rs"]
mod tests;
