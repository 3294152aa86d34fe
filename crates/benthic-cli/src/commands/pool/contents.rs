//! Describes the contents of a pool, before its removal: objects, bytes, tables and S3 buckets.
//!
//! Counting a large pool takes hours, so the count stops early. A cluster's manager keeps totals,
//! but they lag by seconds: a pool without objects in these statistics may have new ones. So small
//! pools are counted everywhere, and the statistics describe only the rest.

use crate::jobs;
use benthic_ceph::cluster_client::ClusterClient;
use benthic_ceph::pools::usage;
use benthic_core::names::{S3_NAMESPACE, TABLES_NAMESPACE};
use benthic_core::{
    ErrorKind, Fetch, ListRequest, Namespaces, ObjectId, OptionalExtension, Pool, Result, limits,
};
use benthic_program::confirm::{named, unknown};
use benthic_program::exit::{Failure, Outcome};
use benthic_program::units;
use futures::StreamExt;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// Limit of counted objects: one page of a listing.
const OBJECTS_MAX: u64 = limits::LIST_PAGE_OBJECTS_MAX as u64;
const STATS_AT_ONCE: usize = 64;
/// Limit of the whole description: each answer of an OSD that is down takes a minute.
const LIMIT: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Default)]
struct Count {
    objects: u64,
    bytes: u64,
}

/// Describes the contents of a pool; empty for a pool without objects. Contents that cannot be
/// read, for example because OSDs are down, are described as unknown.
pub async fn describe(pool: Arc<dyn Pool>, cluster: Option<&dyn ClusterClient>) -> Outcome<Vec<String>> {
    match timeout(LIMIT, read(pool, cluster)).await {
        Ok(Err(Failure::Error(error))) => Ok(vec![unknown(error.message())]),
        Ok(contents) => contents,
        Err(_) => Ok(vec![unknown("counting took longer than 10 s")]),
    }
}

async fn read(pool: Arc<dyn Pool>, cluster: Option<&dyn ClusterClient>) -> Outcome<Vec<String>> {
    let counted = count(Arc::clone(&pool)).await?;
    let mut reported = Count::default();
    // A listing omits objects whose names are not UTF-8, so look also at a pool that seems empty.
    if let Some(cluster) = cluster.filter(|_| counted.objects == 0 || counted.objects > OBJECTS_MAX) {
        let usage = usage(cluster, pool.name()).await?;
        reported = Count { objects: usage.objects, bytes: usage.stored };
    }
    let Some(objects) = describe_objects(counted, reported) else { return Ok(Vec::new()) };
    let mut contents = vec![objects];
    contents.extend(tables(&*pool).await?);
    contents.extend(buckets(&*pool).await?);
    Ok(contents)
}

/// Counts at most one object more than [`OBJECTS_MAX`].
async fn count(pool: Arc<dyn Pool>) -> Outcome<Count> {
    let objects = jobs::objects(Arc::clone(&pool), Namespaces::All, String::new());
    let limit = limits::LIST_PAGE_OBJECTS_MAX + 1;
    let size = move |object: ObjectId| {
        let pool = Arc::clone(&pool);
        async move { ((), pool.stat(&object).await.map(|(stat, _)| stat.size_bytes)) }
    };
    let mut counted = Count::default();
    let add = |((), size): ((), Result<u64>)| {
        // An object may have been removed since the listing.
        if let Some(size_bytes) = size.optional()? {
            counted.bytes += size_bytes;
            counted.objects += 1;
        }
        Ok(())
    };
    jobs::run(objects.take(limit), STATS_AT_ONCE, size, add).await?;
    Ok(counted)
}

fn describe_objects(counted: Count, reported: Count) -> Option<String> {
    let text = |at_least: &str, Count { objects, bytes }| {
        format!("{at_least}{} with {at_least}{}", units::count(objects, "object"), units::size(bytes))
    };
    if reported.objects > counted.objects {
        return Some(text("about ", reported) + " in the cluster's last statistics");
    }
    match counted.objects {
        0 => None,
        objects if objects > OBJECTS_MAX => Some(text("at least ", counted)),
        _ => Some(text("", counted)),
    }
}

async fn tables(pool: &dyn Pool) -> Result<Option<String>> {
    let namespaces = Namespaces::One(TABLES_NAMESPACE.to_owned());
    let page = pool.list(ListRequest { namespaces, ..ListRequest::default() }).await?;
    let mut names: Vec<String> = page.objects.iter().map(|object| object.name().to_owned()).collect();
    names.sort();
    Ok(named("table", &names, page.next.is_some()))
}

/// The buckets are in the omap of one object; docs/formats.md describes it.
async fn buckets(pool: &dyn Pool) -> Result<Option<String>> {
    let directory = ObjectId::in_namespace(S3_NAMESPACE, "directory")?;
    let buckets = Fetch::omap_range(None, "b", limits::OMAP_PAGE_ENTRIES_MAX);
    let page = match pool.fetch(&directory, buckets).await {
        Ok((page, _)) => page,
        // Erasure-coded pools support no omap.
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Unsupported) => {
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    let name = |(key, _): &(bytes::Bytes, bytes::Bytes)| String::from_utf8_lossy(&key[1..]).into_owned();
    let names: Vec<String> = page.entries.iter().map(name).collect();
    Ok(named("S3 bucket", &names, page.more))
}

#[cfg(test)]
#[path = "contents_tests.rs"]
mod tests;
