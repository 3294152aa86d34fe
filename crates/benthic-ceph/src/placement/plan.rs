//! A plan to bring the primaries of a pool to one site, and to give it more or fewer replicas: computed, shown and kept before
//! anything is changed.

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
use benthic_core::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The format of plans that this version writes; it reads the older ones, which leave the number of replicas as it is.
const FORMAT: u32 = 2;

/// What is wanted.
#[derive(Clone, Debug)]
pub struct Request {
    /// The pool.
    pub pool: String,
    /// Where its primaries are to be.
    pub primary_site: String,
    /// What kind of bucket sites are; see [`CrushMap::sites`](super::crush::CrushMap::sites).
    pub domain: Option<String>,
    /// How many replicas it is to have, if it is to have more or fewer.
    pub replicas: Option<usize>,
}

/// A plan. It holds all that applying and undoing it take, and what it was made from, so that a cluster that changed since is
/// noticed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Of this structure.
    pub format: u32,
    /// The cluster.
    pub fsid: String,
    /// The pool's name.
    pub pool: String,
    /// The pool's number.
    pub pool_id: i64,
    /// Its replicas when the plan is made.
    pub replicas: usize,
    /// What becomes of them, if the plan changes their number.
    #[serde(default)]
    pub resize: Option<Resize>,
    /// Its placement groups.
    pub pgs: u32,
    /// The CRUSH map that was looked at.
    pub crush_version: u64,
    /// The rule that the pool has, to which `undo` returns.
    pub old_rule: String,
    /// The rule that it gets.
    pub new_rule: String,
    /// Its steps.
    pub steps: Vec<String>,
    /// Whether the CRUSH map gets the rule; if not, it is there already.
    pub adds_rule: bool,
    /// The root that the rule takes for the other replicas.
    pub other_root: String,
    /// The buckets below it, if the CRUSH map gets that root.
    pub adds_root_of: Option<Vec<String>>,
    /// What kind of bucket the sites are.
    pub domain: String,
    /// Where the primaries will be.
    pub primary_site: String,
    /// What `osd_max_backfills` is set to for all OSDs, if it is: `undo` and the end of `apply` put it back.
    pub max_backfills: Option<String>,
    /// What the plan does.
    pub effect: Effect,
}

/// What a plan does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Effect {
    /// What each site has before.
    pub before: Vec<SiteShare>,
    /// What each site has afterwards.
    pub after: Vec<SiteShare>,
    /// Placement groups of which a replica moves.
    pub pgs_moving: usize,
    /// Placement groups that get another primary.
    pub primaries_moving: usize,
    /// Replicas that are copied to another OSD.
    pub replicas_moving: usize,
    /// Bytes that are copied.
    pub bytes_moving: u64,
    /// Bytes of all replicas afterwards.
    pub bytes: u64,
    /// What the network adds to clients' operations before; empty if the OSDs have not measured it.
    pub latency_before: Vec<Latency>,
    /// What it adds afterwards.
    pub latency_after: Vec<Latency>,
    /// What somebody should know before the plan is applied.
    pub warnings: Vec<String>,
}

impl Plan {
    /// Makes a plan. Changes nothing.
    ///
    /// # Errors
    /// As [`Snapshot::read`], [`Preview::read`] and [`site_first`]; `Unsupported` for an erasure-coded pool, or a map whose
    /// weights a balancer replaced; `AlreadyExists` if the pool has this placement; `Unavailable` if an OSD of the sites is
    /// down or out; `LimitExceeded` if CRUSH cannot place all replicas so, the cluster does not allow so many, or has no space for
    /// them; `InvalidArgument` for one replica; `Conflict` if the map changed meanwhile.
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
            // Only the number changes, whatever the rule is called.
            addition = Addition { root: None, rule: old_rule.rule_name.clone(), ..addition };
        }
        if addition.rule == old_rule.rule_name && replicas == pool.size {
            let message =
                "the pool's primaries are at this site already; `benthic placement show` tells where";
            return Err(Error::new(ErrorKind::AlreadyExists, message)
                .with("pool", &pool.name)
                .with("site", &request.primary_site));
        }
        check_sites(&snapshot, &sites)?;
        let mut preview = Preview::read(client).await?;
        if replicas != pool.size {
            Limits::read(client).await?.check(&snapshot, pool, replicas)?;
        }
        let (before, after) = foresee(&snapshot, &mut preview, pool, &addition, replicas)?;
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
            pgs_moving: 0,
            primaries_moving: 0,
            replicas_moving: 0,
            bytes_moving: 0,
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
    /// `InvalidArgument` for something else, or a plan of another version of this program.
    pub fn parse(json: &[u8]) -> Result<Plan> {
        let invalid = |message: &str| Error::new(ErrorKind::InvalidArgument, message);
        let value: Value = serde_json::from_slice(json).map_err(|error| {
            invalid("this is no plan; `benthic placement plan` makes one").with_source(error)
        })?;
        if !value["format"].as_u64().is_some_and(|format| (1..=u64::from(FORMAT)).contains(&format)) {
            return Err(invalid("this is no plan, or one of another version of benthic")
                .with("format", &value["format"]));
        }
        serde_json::from_value(value)
            .map_err(|error| invalid("the plan is damaged; make another").with_source(error))
    }

    /// How many replicas the pool has afterwards.
    pub fn new_replicas(&self) -> usize {
        self.resize.as_ref().map_or(self.replicas, |resize| resize.replicas)
    }

    /// What the plan adds to the CRUSH map.
    pub(super) fn addition(&self) -> Addition {
        Addition {
            root: self.adds_root_of.clone().map(|below| (self.other_root.clone(), below)),
            rule: self.new_rule.clone(),
            steps: self.steps.clone(),
        }
    }
}

/// A pool whose rule the CRUSH map does not have, which the monitors prevent.
pub(super) fn no_rule(pool: &Pool) -> Error {
    Error::new(ErrorKind::NotFound, "the CRUSH map has no rule of the pool's number")
        .with("pool", &pool.name)
        .with("rule", pool.crush_rule)
}

fn check_pool(snapshot: &Snapshot, pool: &Pool) -> Result<()> {
    let unsupported =
        |message: &str| Err(Error::new(ErrorKind::Unsupported, message).with("pool", &pool.name));
    if !pool.is_replicated() {
        return unsupported("an erasure-coded pool reads chunks at several sites whichever its primary is");
    }
    if !snapshot.crush.choose_args.is_empty() {
        return unsupported(
            "a balancer replaced weights of the CRUSH map, which its text only has rounded; `ceph balancer mode upmap` \
             and `ceph osd crush weight-set rm-compat` go back to the map's own",
        );
    }
    Ok(())
}

fn check_sites(snapshot: &Snapshot, sites: &Sites) -> Result<()> {
    for site in &sites.sites {
        let missing: Vec<String> = snapshot.missing(&site.osds).map(|osd| format!("osd.{osd}")).collect();
        if !missing.is_empty() {
            let message = "OSDs of a site are down or out; `ceph osd tree` shows them; bring them back first";
            return Err(Error::new(ErrorKind::Unavailable, message)
                .with("site", &site.name)
                .with("osds", missing.join(",")));
        }
    }
    Ok(())
}

/// The text of the cluster's map with an addition, and the same compiled, which has been compared with the map.
///
/// # Errors
/// `Internal` if the compiled map is not what was wanted; `Unavailable` if the tools fail.
pub(super) fn compile(
    snapshot: &Snapshot,
    preview: &mut Preview,
    new: &str,
    ours: &[&str],
) -> Result<Vec<u8>> {
    let compiled = preview.compile(new)?;
    match text::difference(&snapshot.crush, &preview.dump(&compiled)?, ours) {
        None => Ok(compiled),
        Some(what) => Err(Error::new(
            ErrorKind::Internal,
            format!("the compiled CRUSH map would change {what}; nothing was changed"),
        )),
    }
}

/// The new map, compiled: what [`apply`](super::apply) sends.
pub(super) fn new_map(snapshot: &Snapshot, preview: &mut Preview, addition: &Addition) -> Result<Vec<u8>> {
    let exact = text::with_exact_weights(&preview.text()?, &snapshot.crush);
    let new = text::add(&exact, &snapshot.crush, addition);
    let root = addition.root.as_ref().map_or("", |(name, _)| name.as_str());
    compile(snapshot, preview, &new, &[&addition.rule, root])
}

/// Where the placement groups of a pool are to be before and after.
fn foresee(
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
            let message = "adding the rule alone would move data; nothing was changed";
            return Err(Error::new(ErrorKind::Internal, message));
        }
    }
    // The tool cannot give a pool another rule, so the old one does in a copy what the new one will do.
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
        then = resize::foresee(snapshot, preview, &compiled, pool, replicas, then)?;
    }
    let bad = then.iter().find(|(_, osds)| osds.len() < replicas || has_duplicates(osds));
    if let Some((pgid, osds)) = bad {
        let message = "CRUSH would not find an OSD for every replica; the sites may be too unequal or have too few hosts";
        return Err(Error::new(ErrorKind::LimitExceeded, message)
            .with("pg", pgid)
            .with("osds", format_args!("{osds:?}"))
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
                "{} will hold {:.0}% of the data with {:.0}% of the space: it is full first",
                site.name,
                data * 100.0,
                space * 100.0
            ));
        }
    }
    let moved = snapshot.map.pg_upmap_items.iter();
    let of_pool = format!("{}.", pool.id);
    let upmaps =
        moved.filter(|item| item["pgid"].as_str().is_some_and(|pgid| pgid.starts_with(&of_pool))).count();
    if upmaps > 0 {
        warnings.push(format!(
            "the balancer placed {upmaps} of the placement groups itself; it will do so anew, so other replicas may move"
        ));
    }
    if pool.pg_autoscale_mode == "on" {
        warnings.push(
            "the autoscaler leaves pools alone whose rules take overlapping roots: choose pg_num by hand"
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

/// What the limit of backfills is set to for all OSDs, if it is.
async fn max_backfills(client: &dyn ClusterClient) -> Result<Option<String>> {
    let settings: Vec<Setting> = client.monitor_state(json!({ "prefix": "config dump" })).await?;
    let of_osds = |setting: &Setting| {
        setting.section == "osd" && setting.name == "osd_max_backfills" && setting.mask.is_empty()
    };
    Ok(settings.into_iter().find(of_osds).map(|setting| setting.value))
}
