//! A plan to move a pool's primaries to one site and to change its number of replicas. The plan is
//! computed, shown and saved before anything changes.

use super::crush::Sites;
use super::latency::{Latency, RoundTrips};
use super::preview::{Mappings, Preview};
use super::resize::{self, Limits, Resize, Space};
use super::rule::{other_root, site_first, step_texts};
use super::snapshot::Snapshot;
use super::spread::{SiteShare, shares};
use super::text::{self, Addition};
use crate::cluster_client::ClusterClient;
use crate::cluster_state::{PgDump, Pool, has_duplicates};
use benthic_core::{Error, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The format that this version writes. It also reads format 1, which cannot change the number of
/// replicas.
const FORMAT: u32 = 2;

/// The request for a plan.
#[derive(Clone, Debug)]
pub struct Request {
    pub pool: String,
    /// The site that will hold the primaries.
    pub primary_site: String,
    /// The bucket type of sites; see [`CrushMap::sites`](super::crush::CrushMap::sites).
    pub domain: Option<String>,
    /// The new number of replicas; `None` keeps the present number.
    pub replicas: Option<usize>,
}

/// A plan. It holds all data that applying and undoing it need. It also holds the state that it was
/// made from, so that a change of the cluster is detected.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    pub format: u32,
    pub fsid: String,
    pub pool: String,
    pub pool_id: i64,
    /// Replicas when the plan is made.
    pub replicas: usize,
    #[serde(default)]
    pub resize: Option<Resize>,
    pub pgs: u32,
    /// The version of the CRUSH map when the plan is made.
    pub crush_version: u64,
    /// The pool's present rule, which `undo` restores.
    pub old_rule: String,
    pub new_rule: String,
    pub steps: Vec<String>,
    /// Whether the plan adds the rule to the CRUSH map. If not, the map already has it.
    pub adds_rule: bool,
    /// The root that the rule takes for the replicas at other sites.
    pub other_root: String,
    /// The buckets below that root, if the plan adds it to the CRUSH map.
    pub adds_root_of: Option<Vec<String>>,
    /// The bucket type of the sites.
    pub domain: String,
    pub primary_site: String,
    /// The present setting of `osd_max_backfills` for all OSDs, if there is one. `undo` and the end
    /// of `apply` restore it.
    pub max_backfills: Option<String>,
    pub effect: Effect,
}

/// The effect of a plan.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Effect {
    /// The share of each site before.
    pub before: Vec<SiteShare>,
    /// The share of each site afterwards.
    pub after: Vec<SiteShare>,
    /// Placement groups with a replica that moves.
    pub pgs_moving: usize,
    /// Placement groups whose primary changes.
    pub primaries_moving: usize,
    /// Replicas that are copied to another OSD.
    pub replicas_moving: usize,
    pub bytes_moving: u64,
    /// Bytes of all replicas afterwards.
    pub bytes: u64,
    /// Network latency of client operations before; empty if the OSDs have not measured it.
    pub latency_before: Vec<Latency>,
    pub latency_after: Vec<Latency>,
    pub warnings: Vec<String>,
}

impl Plan {
    /// Makes a plan. Changes nothing.
    ///
    /// # Errors
    /// As [`Snapshot::read`], [`Preview::read`] and [`site_first`]; `Unsupported` for an
    /// erasure-coded pool, or a map whose weights a balancer replaced; `AlreadyExists` if the pool
    /// has this placement; `Unavailable` if an OSD of the sites is down or out; `LimitExceeded` if
    /// CRUSH cannot place all replicas this way, the cluster does not allow so many, or has no
    /// space for them; `InvalidArgument` for one replica; `Conflict` if the map changed meanwhile.
    pub async fn make(client: &dyn ClusterClient, request: &Request) -> Result<Plan> {
        let snapshot = Snapshot::read(client).await?;
        let pool = snapshot.pool(&request.pool)?;
        check_pool(&snapshot, pool)?;
        let sites = snapshot.sites_of(pool, request.domain.as_deref())?;
        let old_rule = snapshot.crush.rule(pool.crush_rule).ok_or_else(|| no_rule(pool))?;
        let class = snapshot.crush.takes(old_rule).next().and_then(|(_, class)| class);
        let replicas = resize::target_replicas(pool, request.replicas)?;
        let mut addition = site_first(&snapshot.crush, &sites, &request.primary_site, replicas, class)?;
        if step_texts(old_rule) == addition.steps {
            // The present rule already has these steps under another name: only the number of
            // replicas changes.
            addition = Addition { root: None, rule: old_rule.rule_name.clone(), ..addition };
        }
        if addition.rule == old_rule.rule_name && replicas == pool.size {
            let message =
                "the pool's primaries are at this site already; `benthic placement show` shows them";
            return Err(Error::already_exists(message)
                .with("pool", &pool.name)
                .with("site", &request.primary_site));
        }
        check_sites(&snapshot, &sites)?;
        let mut preview = Preview::read(client).await?;
        if replicas != pool.size {
            Limits::read(client).await?.check(&snapshot, pool, replicas)?;
        }
        let (before, after) = predict(&snapshot, &mut preview, pool, &addition, replicas)?;
        let bytes = bytes_of(client, pool).await?;
        let round_trips = RoundTrips::read(client, &sites).await?;
        let mut warnings = warnings(&snapshot, pool, &sites, &after);
        let resize = if replicas == pool.size {
            None
        } else {
            let space = Space::read(client, pool).await?;
            let resize = Resize::new(&snapshot, pool, replicas, &space, (&before, &after), &bytes)?;
            warnings.extend(resize.warnings(&snapshot));
            Some(resize)
        };
        let share = |mappings: &Mappings| {
            let placed: Vec<_> = mappings.values().map(|osds| (osds[0], osds.clone())).collect();
            shares(&snapshot, &sites, &placed)
        };
        let mut effect = Effect {
            before: share(&before),
            after: share(&after),
            latency_before: round_trips.latencies(&sites, &before),
            latency_after: round_trips.latencies(&sites, &after),
            bytes: bytes.values().sum::<u64>() * replicas as u64,
            warnings,
            ..Effect::default()
        };
        for (pgid, new) in &after {
            let old = before.get(pgid).map_or(&[][..], Vec::as_slice);
            let moving = new.iter().filter(|osd| !old.contains(osd)).count();
            effect.pgs_moving += usize::from(moving > 0);
            effect.primaries_moving += usize::from(old.first() != new.first());
            effect.replicas_moving += moving;
            effect.bytes_moving += bytes.get(pgid).copied().unwrap_or(0) * moving as u64;
        }
        Ok(Plan {
            format: FORMAT,
            fsid: snapshot.map.fsid.clone(),
            pool: pool.name.clone(),
            pool_id: pool.id,
            replicas: pool.size,
            resize,
            pgs: pool.pg_num,
            crush_version: snapshot.map.crush_version,
            old_rule: old_rule.rule_name.clone(),
            adds_rule: snapshot.crush.rule_named(&addition.rule).is_none(),
            new_rule: addition.rule,
            steps: addition.steps,
            other_root: other_root(&request.primary_site),
            adds_root_of: addition.root.map(|(_, below)| below),
            domain: sites.domain.clone(),
            primary_site: request.primary_site.clone(),
            max_backfills: max_backfills(client).await?,
            effect,
        })
    }

    /// Reads the JSON of a plan.
    ///
    /// # Errors
    /// `InvalidArgument` for anything else, and for a plan of an unknown version.
    pub fn parse(json: &[u8]) -> Result<Plan> {
        let invalid = |message: &str| Error::invalid_argument(message);
        let value: Value = serde_json::from_slice(json).map_err(|error| {
            invalid("the file is not a placement plan; `benthic placement plan` writes one")
                .with_source(error)
        })?;
        if !value["format"].as_u64().is_some_and(|format| (1..=u64::from(FORMAT)).contains(&format)) {
            return Err(invalid("the file is not a placement plan, or another version of benthic wrote it")
                .with("format", &value["format"]));
        }
        serde_json::from_value(value)
            .map_err(|error| invalid("the plan is damaged; make another").with_source(error))
    }

    /// The number of replicas after the plan is applied.
    pub fn new_replicas(&self) -> usize {
        self.resize.as_ref().map_or(self.replicas, |resize| resize.replicas)
    }

    pub(super) fn addition(&self) -> Addition {
        Addition {
            root: self.adds_root_of.clone().map(|below| (self.other_root.clone(), below)),
            rule: self.new_rule.clone(),
            steps: self.steps.clone(),
        }
    }
}

/// The error for a pool whose rule is not in the CRUSH map. The monitors prevent this.
pub(super) fn no_rule(pool: &Pool) -> Error {
    Error::not_found("the CRUSH map does not have the pool's rule")
        .with("pool", &pool.name)
        .with("rule", pool.crush_rule)
}

fn check_pool(snapshot: &Snapshot, pool: &Pool) -> Result<()> {
    let unsupported = |message: &str| Err(Error::unsupported(message).with("pool", &pool.name));
    if !pool.is_replicated() {
        return unsupported("an erasure-coded pool always reads chunks at several sites");
    }
    if !snapshot.crush.choose_args.is_empty() {
        return unsupported(
            "a balancer replaced weights of the CRUSH map; `ceph balancer mode upmap` and `ceph osd crush weight-set \
             rm-compat` restore the map's own weights",
        );
    }
    Ok(())
}

fn check_sites(snapshot: &Snapshot, sites: &Sites) -> Result<()> {
    for site in &sites.sites {
        let missing: Vec<String> = snapshot.missing(&site.osds).map(|osd| format!("osd.{osd}")).collect();
        if !missing.is_empty() {
            let message = "OSDs of a site are down or out; `ceph osd tree` shows them; bring them back first";
            return Err(Error::unavailable(message).with("site", &site.name).with("osds", missing.join(",")));
        }
    }
    Ok(())
}

/// Compiles the text of a new CRUSH map. Checks that the result differs from the cluster's map only
/// in the buckets and rules named in `ours`.
///
/// # Errors
/// `Internal` if the compiled map has other differences; `Unavailable` if the tools fail.
pub(super) fn compile(
    snapshot: &Snapshot,
    preview: &mut Preview,
    new: &str,
    ours: &[&str],
) -> Result<Vec<u8>> {
    let compiled = preview.compile(new)?;
    match text::difference(&snapshot.crush, &preview.dump(&compiled)?, ours) {
        None => Ok(compiled),
        Some(what) => Err(Error::internal(format!(
            "the compiled CRUSH map would also change {what}; nothing was changed"
        ))),
    }
}

/// The compiled new map, which [`apply`](super::apply) sends.
pub(super) fn new_map(snapshot: &Snapshot, preview: &mut Preview, addition: &Addition) -> Result<Vec<u8>> {
    let exact = text::with_exact_weights(&preview.text()?, &snapshot.crush);
    let new = text::add(&exact, &snapshot.crush, addition);
    let root = addition.root.as_ref().map_or("", |(name, _)| name.as_str());
    compile(snapshot, preview, &new, &[&addition.rule, root])
}

/// Predicts the placement of a pool's placement groups before and after a plan.
fn predict(
    snapshot: &Snapshot,
    preview: &mut Preview,
    pool: &Pool,
    addition: &Addition,
    replicas: usize,
) -> Result<(Mappings, Mappings)> {
    let is_of = |pgid: &str| pgid.split_once('.').is_some_and(|(id, _)| id == pool.id.to_string());
    let now = preview.mappings(None)?;
    if snapshot.crush.rule_named(&addition.rule).is_none() {
        let with_rule = new_map(snapshot, preview, addition)?;
        if preview.mappings(Some(&with_rule))? != now {
            return Err(Error::internal("adding the rule alone would move data; nothing was changed"));
        }
    }
    // Ceph's tool cannot assign another rule to a pool. So a copy of the map gives the old rule the
    // steps of the new rule.
    let old_rule = snapshot.crush.rule(pool.crush_rule).ok_or_else(|| no_rule(pool))?;
    let exact = text::with_exact_weights(&preview.text()?, &snapshot.crush);
    let added = if snapshot.crush.rule_named(&addition.rule).is_some() {
        exact
    } else {
        text::add(&exact, &snapshot.crush, addition)
    };
    let compiled = preview.compile(&text::with_steps(&added, &old_rule.rule_name, &addition.steps))?;
    let mut then = preview.mappings(Some(&compiled))?;
    then.retain(|pgid, _| is_of(pgid));
    if replicas != pool.size {
        then = resize::predict(snapshot, preview, &compiled, pool, replicas, then)?;
    }
    let bad = then.iter().find(|(_, osds)| osds.len() < replicas || has_duplicates(osds));
    if let Some((pgid, osds)) = bad {
        let osds: Vec<String> = osds.iter().map(|osd| format!("osd.{osd}")).collect();
        let message = "CRUSH would not find an OSD for every replica; the sites may differ too much in size or have too few hosts";
        return Err(Error::limit_exceeded(message)
            .with("pg", pgid)
            .with("osds", osds.join(","))
            .with("replicas", replicas));
    }
    let now = now.into_iter().filter(|(pgid, osds)| is_of(pgid) && !osds.is_empty()).collect();
    Ok((now, then))
}

async fn bytes_of(client: &dyn ClusterClient, pool: &Pool) -> Result<BTreeMap<String, u64>> {
    let question = json!({ "prefix": "pg ls-by-pool", "poolstr": pool.name });
    let pgs: PgDump = client.manager_state(question).await?;
    Ok(pgs.pg_stats.into_iter().map(|pg| (pg.pgid, pg.stat_sum.num_bytes)).collect())
}

pub(super) fn warnings(snapshot: &Snapshot, pool: &Pool, sites: &Sites, after: &Mappings) -> Vec<String> {
    let mut warnings = Vec::new();
    let weight: f64 = sites.sites.iter().map(|site| site.weight).sum();
    let replicas: usize = after.values().map(Vec::len).sum();
    for (index, site) in sites.sites.iter().enumerate() {
        let here = after.values().flatten().filter(|osd| sites.of(**osd) == Some(index)).count();
        let (data, space) =
            (here as f64 / replicas.max(1) as f64, site.weight / weight.max(f64::MIN_POSITIVE));
        if data > 1.2 * space {
            warnings.push(format!(
                "{} will hold {:.0}% of the data with {:.0}% of the space: it will be full first",
                site.name,
                data * 100.0,
                space * 100.0
            ));
        }
    }
    let upmaps = snapshot.map.upmaps_of(pool);
    if upmaps > 0 {
        warnings.push(format!(
            "the balancer placed {upmaps} of the placement groups itself; it will do so again, so other replicas may move"
        ));
    }
    if pool.pg_autoscale_mode == "on" {
        warnings.push(
            "the autoscaler ignores pools whose rules take overlapping roots: choose pg_num by hand"
                .to_owned(),
        );
    }
    warnings
}

#[derive(Deserialize)]
struct Setting {
    section: String,
    name: String,
    value: String,
    #[serde(default)]
    mask: String,
}

/// The present setting of the limit of backfills for all OSDs, if there is one.
async fn max_backfills(client: &dyn ClusterClient) -> Result<Option<String>> {
    let settings: Vec<Setting> = client.monitor_state(json!({ "prefix": "config dump" })).await?;
    let of_osds = |setting: &Setting| {
        setting.section == "osd" && setting.name == "osd_max_backfills" && setting.mask.is_empty()
    };
    Ok(settings.into_iter().find(of_osds).map(|setting| setting.value))
}
