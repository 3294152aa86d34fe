//! Builds rules that put the primary at one site and the other replicas at the other sites.

use super::crush::{CrushMap, Rule, Sites, Step};
use super::text::Addition;
use benthic_core::{Error, Result};

const PREFIX: &str = "benthic";
const OSD_TYPE: u32 = 0;
const HOST: &str = "host";

/// Builds the rule for a pool with `replicas` replicas. `class` is the device class that the pool's
/// present rule is limited to, if any.
///
/// The rule takes the primary's site and the other sites as separate trees. A second take of the
/// whole root would choose the primary's OSD again in about half of the placement groups. If there
/// are more replicas than sites, each of the other sites holds several replicas on different hosts.
///
/// # Errors
/// `InvalidArgument` for a single site or one replica; `NotFound` for an unknown site;
/// `LimitExceeded` if a site has too few hosts (OSDs, if sites are hosts) for its replicas;
/// `AlreadyExists` if the map uses the names for something else.
pub fn site_first(
    crush: &CrushMap,
    sites: &Sites,
    primary: &str,
    replicas: usize,
    class: Option<&str>,
) -> Result<Addition> {
    let primary = &sites.sites[sites.find(primary)?].name;
    let others: Vec<String> =
        sites.sites.iter().map(|site| site.name.clone()).filter(|name| name != primary).collect();
    if others.is_empty() {
        let message = "there is only one site, so all primaries are there; --domain selects another bucket type as sites";
        return Err(Error::invalid_argument(message).with("domain", &sites.domain).with("site", primary));
    }
    if replicas < 2 {
        let message = "a pool with one replica has none for other sites; --replicas sets a higher number";
        return Err(Error::invalid_argument(message).with("replicas", replicas));
    }
    let leaf = leaf(crush, sites);
    let each = (replicas - 1).div_ceil(others.len());
    for (name, needed) in others.iter().map(|name| (name, each)).chain([(primary, 1)]) {
        let found = count_below(crush, name, leaf, class);
        if found < needed {
            let message = format!(
                "a site has too few {leaf}s for its replicas; add some, or give the pool fewer replicas"
            );
            return Err(Error::limit_exceeded(message)
                .with("site", name)
                .with("has", found)
                .with("needs", needed));
        }
    }
    let of_class = class.map(|class| format!(" class {class}")).unwrap_or_default();
    let root = other_root(primary);
    let mut steps = vec![
        format!("take {primary}{of_class}"),
        format!("chooseleaf firstn 1 type {leaf}"),
        "emit".to_owned(),
        format!("take {root}{of_class}"),
    ];
    if each == 1 {
        steps.push(format!("chooseleaf firstn -1 type {}", sites.domain));
    } else {
        steps.push(format!("choose firstn {} type {}", others.len(), sites.domain));
        steps.push(format!("chooseleaf firstn {each} type {leaf}"));
    }
    steps.push("emit".to_owned());
    let kind = class.map(|class| format!("-{class}")).unwrap_or_default();
    let spread = if each == 1 { String::new() } else { format!("-{each}-each") };
    let rule = format!("{PREFIX}-{primary}-first{kind}{spread}");
    let has_root = has_root(crush, &root, &others)?;
    if let Some(there) = crush.rule_named(&rule)
        && step_texts(there) != steps
    {
        let message = "the CRUSH map has another rule with this name; rename that rule with `ceph osd crush rule rename`";
        return Err(Error::already_exists(message).with("rule", rule));
    }
    Ok(Addition { root: (!has_root).then_some((root, others)), rule, steps })
}

/// The name of the root that contains all sites except the primary's.
pub fn other_root(primary: &str) -> String {
    format!("{PREFIX}-not-{primary}")
}

/// The steps of a rule in the text form of a CRUSH map.
pub fn step_texts(rule: &Rule) -> Vec<String> {
    let step = |step: &Step| {
        let taken = step.item_name.as_deref().map(|name| match name.split_once('~') {
            Some((name, class)) => format!("take {name} class {class}"),
            None => format!("take {name}"),
        });
        let chosen = step
            .op
            .split_once('_')
            .and_then(|(op, mode)| Some(format!("{op} {mode} {} type {}", step.num?, step.kind.as_deref()?)));
        taken.or(chosen).unwrap_or_else(|| step.op.clone())
    };
    rule.steps.iter().map(step).collect()
}

/// The bucket type that separates replicas at the same site.
fn leaf<'a>(crush: &'a CrushMap, sites: &Sites) -> &'a str {
    let kind = |name: &str| crush.types.iter().find(|kind| kind.name == name);
    let osd =
        crush.types.iter().find(|kind| kind.type_id == OSD_TYPE).map_or("osd", |kind| kind.name.as_str());
    match (kind(HOST), kind(&sites.domain)) {
        (Some(host), Some(domain)) if host.type_id < domain.type_id && has_hosts(crush, sites) => HOST,
        _ => osd,
    }
}

fn has_hosts(crush: &CrushMap, sites: &Sites) -> bool {
    sites.sites.iter().all(|site| count_below(crush, &site.name, HOST, None) > 0)
}

/// The number of buckets of a type, or of OSDs, below a bucket. Counts only those with an OSD of
/// the class.
fn count_below(crush: &CrushMap, bucket: &str, kind: &str, class: Option<&str>) -> usize {
    let shadow = class.map(|class| format!("{bucket}~{class}"));
    let Some(bucket) = crush.bucket(shadow.as_deref().unwrap_or(bucket)) else { return 0 };
    match crush.sites(bucket, Some(kind)) {
        Ok(found) => found.sites.len(),
        Err(_) if kind == HOST => 0,
        Err(_) => crush.osds_below(bucket).len(),
    }
}

/// Whether the map has the root of the other sites.
fn has_root(crush: &CrushMap, root: &str, others: &[String]) -> Result<bool> {
    let Some(bucket) = crush.bucket(root) else { return Ok(false) };
    let mut below: Vec<&str> = bucket.items.iter().filter_map(|item| crush.name(item.id)).collect();
    below.sort_unstable();
    if below == others {
        return Ok(true);
    }
    let message = "the CRUSH map has this root with other sites below it; `ceph osd crush link SITE root=ROOT` adds a site";
    Err(Error::already_exists(message)
        .with("root", root)
        .with("has", below.join(","))
        .with("wanted", others.join(",")))
}
