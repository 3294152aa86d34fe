//! Reports at which sites the primaries and replicas of a pool are.

use super::crush::Sites;
use super::snapshot::Snapshot;
use crate::cluster_state::{Pool, has_duplicates};
use benthic_core::Result;
use serde::{Deserialize, Serialize};

/// The placement of a pool.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Spread {
    pub pool: String,
    pub rule: String,
    /// Replicas, or chunks, that each placement group should have.
    pub replicas: usize,
    pub pgs: usize,
    /// The bucket type of the sites.
    pub domain: String,
    /// All sites that the rule may choose.
    pub sites: Vec<SiteShare>,
    /// Placement groups with fewer different OSDs than they should have.
    pub undersized: usize,
    /// Placement groups that use an OSD twice: the loss of one disk loses two replicas.
    pub repeating: usize,
    /// Placement groups with two or more OSDs at the same site.
    pub doubled_at_a_site: usize,
    pub unclean: usize,
}

/// The share of a pool at one site.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SiteShare {
    pub site: String,
    pub osds: usize,
    pub osds_serving: usize,
    /// The sum of the OSDs' CRUSH weights.
    pub weight: f64,
    /// Placement groups with their primary here, which receives all client operations.
    pub primaries: usize,
    /// Replicas here, including primaries.
    pub replicas: usize,
}

/// Reports the present placement of a pool. [`CrushMap::sites`](super::crush::CrushMap::sites)
/// defines its sites.
///
/// # Errors
/// As [`Snapshot::sites_of`].
pub fn spread(snapshot: &Snapshot, pool: &Pool, domain: Option<&str>) -> Result<Spread> {
    let sites = snapshot.sites_of(pool, domain)?;
    let rule = snapshot.crush.rule(pool.crush_rule).map(|rule| rule.rule_name.clone()).unwrap_or_default();
    let pgs = || snapshot.pgs_of(pool);
    let placed = pgs().map(|pg| (pg.primary().unwrap_or(-1), pg.holders().into_iter().collect()));
    let shares = shares(snapshot, &sites, &placed.collect::<Vec<(i32, Vec<i32>)>>());
    let doubled = |osds: &mut dyn Iterator<Item = i32>| {
        let mut seen = vec![false; sites.sites.len()];
        osds.filter_map(|osd| sites.of(osd)).any(|site| std::mem::replace(&mut seen[site], true))
    };
    Ok(Spread {
        pool: pool.name.clone(),
        rule,
        replicas: pool.size,
        pgs: pgs().count(),
        undersized: pgs().filter(|pg| pg.holders().len() < pool.size).count(),
        repeating: pgs().filter(|pg| has_duplicates(&pg.acting)).count(),
        doubled_at_a_site: pgs().filter(|pg| doubled(&mut pg.holders().into_iter())).count(),
        unclean: pgs().filter(|pg| !pg.state.starts_with("active+clean")).count(),
        domain: sites.domain,
        sites: shares,
    })
}

/// Counts primaries and replicas per site. Each placement group is given as its primary and all its
/// OSDs.
pub(super) fn shares(snapshot: &Snapshot, sites: &Sites, pgs: &[(i32, Vec<i32>)]) -> Vec<SiteShare> {
    let mut shares: Vec<SiteShare> = sites
        .sites
        .iter()
        .map(|site| SiteShare {
            site: site.name.clone(),
            osds: site.osds.len(),
            osds_serving: site.osds.len() - snapshot.missing(&site.osds).count(),
            weight: site.weight,
            primaries: 0,
            replicas: 0,
        })
        .collect();
    for (primary, osds) in pgs {
        if let Some(site) = sites.of(*primary) {
            shares[site].primaries += 1;
        }
        for site in osds.iter().filter_map(|osd| sites.of(*osd)) {
            shares[site].replicas += 1;
        }
    }
    shares
}
