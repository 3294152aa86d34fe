//! The CRUSH map in the JSON form of `osd crush dump` and `crushtool --dump`.

use benthic_core::{Error, Result};
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The map's representation of weight 1.
const ONE: f64 = 65_536.0;
/// The type number of OSDs.
const OSD_TYPE: u32 = 0;

/// A CRUSH map.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct CrushMap {
    pub devices: Vec<Device>,
    /// The bucket types, and `osd`.
    pub types: Vec<Type>,
    /// All buckets. A `~` in the name marks the shadow of a bucket for one device class.
    pub buckets: Vec<Bucket>,
    pub rules: Vec<Rule>,
    pub tunables: Value,
    /// Weights with which a balancer overrides those of the buckets.
    pub choose_args: BTreeMap<String, Value>,
}

/// An OSD in the map.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Device {
    pub id: i32,
    /// `osd.N`.
    pub name: String,
    pub class: Option<String>,
}

/// A bucket type.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Type {
    /// A larger number is nearer to the root.
    pub type_id: u32,
    /// The name, such as `datacenter`.
    pub name: String,
}

/// A bucket, which holds OSDs and other buckets.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Bucket {
    /// The bucket's number, which is negative.
    pub id: i32,
    pub name: String,
    pub type_id: u32,
    pub type_name: String,
    pub items: Vec<Item>,
}

/// An item of a bucket.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Item {
    /// The number of an OSD, or the negative number of a bucket.
    pub id: i32,
    /// In 1/65536.
    pub weight: u32,
}

/// A placement rule.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Rule {
    /// The number by which pools refer to the rule.
    pub rule_id: i64,
    pub rule_name: String,
    pub steps: Vec<Step>,
}

/// A step of a rule.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Step {
    /// The operation: `take`, `chooseleaf_firstn`, `emit`, …
    pub op: String,
    /// The bucket that `take` starts from.
    pub item_name: Option<String>,
    /// How many items to choose: 0 for the pool's number of replicas, -N for N fewer than that.
    pub num: Option<i32>,
    /// The bucket type to choose.
    #[serde(rename = "type")]
    pub kind: Option<String>,
}

/// A site: a failure domain with the OSDs in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Site {
    pub name: String,
    pub osds: BTreeSet<i32>,
    /// The sum of the OSDs' weights, usually their size in TiB.
    pub weight: f64,
}

/// The sites below a root.
#[derive(Clone, Debug, PartialEq)]
pub struct Sites {
    /// The bucket type of the sites.
    pub domain: String,
    /// Sorted by name.
    pub sites: Vec<Site>,
}

impl Sites {
    /// The index of the site of an OSD.
    pub fn of(&self, osd: i32) -> Option<usize> {
        self.sites.iter().position(|site| site.osds.contains(&osd))
    }

    /// The index of a site.
    ///
    /// # Errors
    /// `NotFound` if there is no site with this name.
    pub fn find(&self, name: &str) -> Result<usize> {
        self.sites.iter().position(|site| site.name == name).ok_or_else(|| {
            let names: Vec<&str> = self.sites.iter().map(|site| site.name.as_str()).collect();
            let message = format!(
                "no such site; the sites of type {} are {}; --domain selects another type",
                self.domain,
                names.join(", ")
            );
            Error::not_found(message).with("site", name)
        })
    }
}

impl CrushMap {
    /// Reads the JSON of a dump.
    ///
    /// # Errors
    /// `Unsupported` for anything else.
    pub fn parse(dump: &[u8]) -> Result<CrushMap> {
        serde_json::from_slice(dump)
            .map_err(|error| Error::unsupported("cannot parse the dump of the CRUSH map").with_source(error))
    }

    pub fn bucket(&self, name: &str) -> Option<&Bucket> {
        self.buckets.iter().find(|bucket| bucket.name == name)
    }

    pub fn rule(&self, id: i64) -> Option<&Rule> {
        self.rules.iter().find(|rule| rule.rule_id == id)
    }

    pub fn rule_named(&self, name: &str) -> Option<&Rule> {
        self.rules.iter().find(|rule| rule.rule_name == name)
    }

    /// The name of a bucket or an OSD.
    pub fn name(&self, id: i32) -> Option<&str> {
        let bucket = self.buckets.iter().find(|bucket| bucket.id == id).map(|bucket| bucket.name.as_str());
        bucket
            .or_else(|| self.devices.iter().find(|device| device.id == id).map(|device| device.name.as_str()))
    }

    /// All OSDs below a bucket, with their weights.
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

    /// The buckets that are in no other bucket, without shadows.
    pub fn roots(&self) -> impl Iterator<Item = &Bucket> {
        let below: BTreeSet<i32> =
            self.buckets.iter().flat_map(|bucket| &bucket.items).map(|item| item.id).collect();
        self.buckets.iter().filter(move |bucket| !below.contains(&bucket.id) && !bucket.name.contains('~'))
    }

    /// The buckets that a rule takes, each with the device class if the rule is limited to one.
    pub fn takes<'a>(&'a self, rule: &'a Rule) -> impl Iterator<Item = (&'a Bucket, Option<&'a str>)> {
        rule.steps.iter().filter(|step| step.op == "take").filter_map(|step| {
            let taken = step.item_name.as_deref()?;
            match taken.split_once('~') {
                Some((name, class)) => Some((self.bucket(name)?, Some(class))),
                None => Some((self.bucket(taken)?, None)),
            }
        })
    }

    /// The smallest root that contains all OSDs which a rule can choose.
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

    /// The sites below a root: its buckets of the type `domain`. The default is the highest type of
    /// which the root has several buckets.
    ///
    /// # Errors
    /// `InvalidArgument` if the map has no such type, or the root has no bucket of it with OSDs.
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
                let message = "the root has no buckets with OSDs; `ceph osd tree` shows it";
                Error::invalid_argument(message).with("root", &root.name)
            });
        };
        let kind = self.types.iter().find(|kind| kind.name == domain && kind.type_id > OSD_TYPE);
        let sites = kind.map(|kind| self.sites_of_type(root, kind));
        sites.filter(|sites| !sites.sites.is_empty()).ok_or_else(|| {
            let message =
                "no bucket with OSDs below the root has this type; `ceph osd tree` shows all buckets";
            Error::invalid_argument(message).with("domain", domain).with("root", &root.name)
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
