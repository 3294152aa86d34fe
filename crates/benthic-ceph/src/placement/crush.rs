//! The CRUSH map, as `osd crush dump` and `crushtool --dump` tell it.

use benthic_core::{Error, ErrorKind, Result};
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// What a weight of 1 is in the map.
const ONE: f64 = 65_536.0;
/// The type of OSDs.
const OSD_TYPE: u32 = 0;

/// A CRUSH map.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct CrushMap {
    /// The OSDs.
    pub devices: Vec<Device>,
    /// Kinds of buckets, and `osd`.
    pub types: Vec<Type>,
    /// All buckets; those with `~` in their names are the shadows of others for one class of devices.
    pub buckets: Vec<Bucket>,
    /// The rules.
    pub rules: Vec<Rule>,
    /// How placement is computed.
    pub tunables: Value,
    /// Weights that a balancer put in place of others.
    pub choose_args: BTreeMap<String, Value>,
}

/// An OSD in the map.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Device {
    /// Its number.
    pub id: i32,
    /// `osd.N`.
    pub name: String,
    /// Its device class, if it has one.
    pub class: Option<String>,
}

/// A kind of bucket.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Type {
    /// Larger is nearer to the root.
    pub type_id: u32,
    /// Such as `datacenter`.
    pub name: String,
}

/// A bucket: OSDs and other buckets.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Bucket {
    /// Its number, which is negative.
    pub id: i32,
    /// Its name.
    pub name: String,
    /// Its kind.
    pub type_id: u32,
    /// The name of its kind.
    pub type_name: String,
    /// What it holds.
    pub items: Vec<Item>,
}

/// An item of a bucket.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Item {
    /// An OSD, or a bucket if negative.
    pub id: i32,
    /// In 1/65536.
    pub weight: u32,
}

/// A rule.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Rule {
    /// Its number, which pools name.
    pub rule_id: i64,
    /// Its name.
    pub rule_name: String,
    /// What it does, in order.
    pub steps: Vec<Step>,
}

/// A step of a rule.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Step {
    /// `take`, `chooseleaf_firstn`, `emit`, …
    pub op: String,
    /// What `take` takes.
    pub item_name: Option<String>,
    /// How many are chosen: 0 for as many as the pool has replicas, negative for so many fewer.
    pub num: Option<i32>,
    /// The kind of bucket that is chosen.
    #[serde(rename = "type")]
    pub kind: Option<String>,
}

/// A place where OSDs are: a failure domain.
#[derive(Clone, Debug, PartialEq)]
pub struct Site {
    /// Its bucket.
    pub name: String,
    /// Its OSDs.
    pub osds: BTreeSet<i32>,
    /// The sum of their weights, which usually is their size in TiB.
    pub weight: f64,
}

/// The sites below a root.
#[derive(Clone, Debug, PartialEq)]
pub struct Sites {
    /// What kind of bucket they are.
    pub domain: String,
    /// By name.
    pub sites: Vec<Site>,
}

impl Sites {
    /// The number of the site that an OSD is at.
    pub fn of(&self, osd: i32) -> Option<usize> {
        self.sites.iter().position(|site| site.osds.contains(&osd))
    }

    /// The number of a site.
    ///
    /// # Errors
    /// `NotFound` if none has this name.
    pub fn find(&self, name: &str) -> Result<usize> {
        self.sites.iter().position(|site| site.name == name).ok_or_else(|| {
            let names: Vec<&str> = self.sites.iter().map(|site| site.name.as_str()).collect();
            let message = format!(
                "no such site; of type {} there are {}; --domain takes another type",
                self.domain,
                names.join(", ")
            );
            Error::new(ErrorKind::NotFound, message).with("site", format_args!("{name:?}"))
        })
    }
}

impl CrushMap {
    /// Reads the JSON of a dump.
    ///
    /// # Errors
    /// `Unsupported` if it is something else.
    pub fn parse(dump: &[u8]) -> Result<CrushMap> {
        serde_json::from_slice(dump).map_err(|error| {
            Error::new(ErrorKind::Unsupported, "the dump of the CRUSH map is not understood")
                .with_source(error)
        })
    }

    /// The bucket with this name.
    pub fn bucket(&self, name: &str) -> Option<&Bucket> {
        self.buckets.iter().find(|bucket| bucket.name == name)
    }

    /// The rule with this number.
    pub fn rule(&self, id: i64) -> Option<&Rule> {
        self.rules.iter().find(|rule| rule.rule_id == id)
    }

    /// The rule with this name.
    pub fn rule_named(&self, name: &str) -> Option<&Rule> {
        self.rules.iter().find(|rule| rule.rule_name == name)
    }

    /// The name of an item.
    pub fn name(&self, id: i32) -> Option<&str> {
        let bucket = self.buckets.iter().find(|bucket| bucket.id == id).map(|bucket| bucket.name.as_str());
        bucket
            .or_else(|| self.devices.iter().find(|device| device.id == id).map(|device| device.name.as_str()))
    }

    /// All OSDs below a bucket, with their weights in it.
    pub fn osds_below(&self, bucket: &Bucket) -> BTreeMap<i32, u32> {
        let mut found = BTreeMap::new();
        self.collect(bucket, &mut found);
        found
    }

    fn collect(&self, bucket: &Bucket, found: &mut BTreeMap<i32, u32>) {
        for item in &bucket.items {
            if item.id >= 0 {
                found.insert(item.id, item.weight);
            } else if let Some(inner) = self.buckets.iter().find(|bucket| bucket.id == item.id) {
                self.collect(inner, found);
            }
        }
    }

    /// The buckets that are below no other, without shadows.
    pub fn roots(&self) -> impl Iterator<Item = &Bucket> {
        let below: BTreeSet<i32> =
            self.buckets.iter().flat_map(|bucket| &bucket.items).map(|item| item.id).collect();
        self.buckets.iter().filter(move |bucket| !below.contains(&bucket.id) && !bucket.name.contains('~'))
    }

    /// What a rule takes: buckets, and the class of devices if it takes only one.
    pub fn takes<'a>(&'a self, rule: &'a Rule) -> impl Iterator<Item = (&'a Bucket, Option<&'a str>)> {
        rule.steps.iter().filter(|step| step.op == "take").filter_map(|step| {
            let taken = step.item_name.as_deref()?;
            match taken.split_once('~') {
                Some((name, class)) => Some((self.bucket(name)?, Some(class))),
                None => Some((self.bucket(taken)?, None)),
            }
        })
    }

    /// The smallest root that has all OSDs which a rule can choose.
    pub fn root_of(&self, rule: &Rule) -> Option<&Bucket> {
        let osds: BTreeSet<i32> =
            self.takes(rule).flat_map(|(bucket, _)| self.osds_below(bucket).into_keys()).collect();
        let size = |root: &&Bucket| self.osds_below(root).len();
        self.roots()
            .filter(|root| {
                let below = self.osds_below(root);
                osds.iter().all(|osd| below.contains_key(osd))
            })
            .min_by_key(size)
    }

    /// The sites below a root: its buckets of the type `domain`; by default of the highest type of which it has several.
    ///
    /// # Errors
    /// `InvalidArgument` if the map has no such type, or nothing below the root is of it.
    pub fn sites(&self, root: &Bucket, domain: Option<&str>) -> Result<Sites> {
        let Some(domain) = domain else {
            let mut types: Vec<&Type> = self
                .types
                .iter()
                .filter(|kind| kind.type_id < root.type_id && kind.type_id > OSD_TYPE)
                .collect();
            types.sort_by_key(|kind| std::cmp::Reverse(kind.type_id));
            let sites = types.iter().map(|kind| self.sites_of_type(root, kind));
            let several = sites.clone().find(|sites| sites.sites.len() > 1);
            let any = || sites.clone().find(|sites| !sites.sites.is_empty());
            return several.or_else(any).ok_or_else(|| {
                Error::new(
                    ErrorKind::InvalidArgument,
                    "the root has no buckets with OSDs; `ceph osd tree` shows it",
                )
                .with("root", &root.name)
            });
        };
        let kind = self.types.iter().find(|kind| kind.name == domain && kind.type_id > OSD_TYPE);
        let sites = kind.map(|kind| self.sites_of_type(root, kind));
        sites.filter(|sites| !sites.sites.is_empty()).ok_or_else(|| {
            Error::new(
                ErrorKind::InvalidArgument,
                "no bucket with OSDs below the root is of this type; `ceph osd tree` shows all",
            )
            .with("domain", format_args!("{domain:?}"))
            .with("root", &root.name)
        })
    }

    fn sites_of_type(&self, root: &Bucket, kind: &Type) -> Sites {
        let mut sites = Vec::new();
        let mut waiting = vec![root];
        while let Some(bucket) = waiting.pop() {
            if bucket.type_id == kind.type_id {
                let osds = self.osds_below(bucket);
                let weight = osds.values().map(|weight| f64::from(*weight) / ONE).sum();
                sites.push(Site { name: bucket.name.clone(), osds: osds.into_keys().collect(), weight });
                continue;
            }
            let inner = |item: &Item| self.buckets.iter().find(|inner| inner.id == item.id);
            waiting.extend(bucket.items.iter().filter_map(inner));
        }
        sites.retain(|site| !site.osds.is_empty());
        sites.sort_by(|a, b| a.name.cmp(&b.name));
        Sites { domain: kind.name.clone(), sites }
    }
}

impl Bucket {
    /// The weight of an item, in 1/65536.
    pub fn weight_of(&self, id: i32) -> Option<u32> {
        self.items.iter().find(|item| item.id == id).map(|item| item.weight)
    }
}
