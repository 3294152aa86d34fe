//! The rules of a bucket: what they mean, and which versions and uploads are due. Nothing here
//! reads from a store.
//!
//! Source: the S3 user guide, "Lifecycle configuration elements".

use crate::gateway::unix_ms;
use crate::sal::ListedVersion;
use s3s::dto::{
    BucketLifecycleConfiguration, ExpirationStatus, LifecycleRule, LifecycleRuleFilter, Tag, Timestamp,
};
use s3s::{S3Result, s3_error};
use std::collections::BTreeSet;

/// The length of a day, in milliseconds.
pub const DAY_MS: u64 = 24 * 60 * 60 * 1_000;
const RULES_MAX: usize = 1_000;
const ID_CHARS_MAX: usize = 255;
const NEWER_VERSIONS_MAX: u32 = 100;

/// The rules of a bucket that are enabled.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules(Vec<Rule>);

/// What a rule does, and to which objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Rule {
    id: String,
    filter: Filter,
    expiration: Option<Expiration>,
    /// Whether a delete marker without older versions is removed.
    removes_markers: bool,
    noncurrent: Option<Noncurrent>,
    /// Days after which an upload that is not complete is aborted.
    abort_days: Option<u32>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Filter {
    prefix: String,
    tags: Vec<(String, String)>,
    /// Only objects with more bytes.
    over_bytes: Option<u64>,
    /// Only objects with fewer bytes.
    under_bytes: Option<u64>,
}

/// When the current version expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expiration {
    Days(u32),
    /// Milliseconds since 1970 (UTC).
    Date(u64),
}

/// When versions that are not current are removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Noncurrent {
    days: u32,
    /// Number of newer versions, without the current one, that are kept.
    newer_versions: u32,
}

/// The calendar of the rules. Tests use short days.
#[derive(Clone, Copy, Debug)]
pub struct Calendar {
    pub day_ms: u64,
}

impl Default for Calendar {
    fn default() -> Calendar {
        Calendar { day_ms: DAY_MS }
    }
}

impl Calendar {
    /// The time at which something is due after this many days: the next midnight (UTC), if a day
    /// is a real one.
    fn after(&self, start_ms: u64, days: u32) -> u64 {
        let end_ms = start_ms.saturating_add(u64::from(days).saturating_mul(self.day_ms));
        if self.day_ms == DAY_MS { end_ms.div_ceil(DAY_MS).saturating_mul(DAY_MS) } else { end_ms }
    }
}

/// A version in the order of a listing, with what the rules need to know of its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    pub version: ListedVersion,
    /// When the version was replaced, in milliseconds since 1970 (UTC); `None` for the current one.
    pub replaced_ms: Option<u64>,
    /// Number of newer versions, without the current one.
    pub newer_versions: u32,
    /// Whether the key has no other version.
    pub is_alone: bool,
}

/// A rule that applies to a candidate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Due {
    /// Since when, in milliseconds since 1970 (UTC).
    pub since_ms: u64,
    /// Only if the object has all of these tags.
    pub tags: Vec<(String, String)>,
}

impl Rules {
    /// Checks the rules of a bucket, and returns those that are enabled.
    ///
    /// # Errors
    /// The first fault.
    pub fn parse(configuration: &BucketLifecycleConfiguration) -> S3Result<Rules> {
        let given = &configuration.rules;
        if given.is_empty() || given.len() > RULES_MAX {
            return Err(s3_error!(MalformedXML, "a bucket has 1 to 1,000 lifecycle rules"));
        }
        let mut ids = BTreeSet::new();
        let mut rules = Vec::new();
        for rule in given {
            let parsed = Rule::parse(rule)?;
            if rule.id.is_some() && !ids.insert(parsed.id.clone()) {
                return Err(s3_error!(InvalidArgument, "the id of a lifecycle rule must be unique"));
            }
            match rule.status.as_str() {
                ExpirationStatus::ENABLED => rules.push(parsed),
                ExpirationStatus::DISABLED => {}
                _ => {
                    return Err(s3_error!(
                        MalformedXML,
                        "the status of a lifecycle rule is Enabled or Disabled"
                    ));
                }
            }
        }
        Ok(Rules(rules))
    }

    /// Whether an upload is due.
    pub fn upload_is_due(&self, key: &str, begun_ms: u64, now_ms: u64, calendar: Calendar) -> bool {
        self.0.iter().any(|rule| {
            key.starts_with(&rule.filter.prefix)
                && rule.abort_days.is_some_and(|days| calendar.after(begun_ms, days) <= now_ms)
        })
    }

    /// The rules by which a version is due. If it is the current one and no delete marker, it
    /// expires: a deletion without a version. All others are removed.
    pub fn due(&self, candidate: &Candidate, now_ms: u64, calendar: Calendar) -> Vec<Due> {
        let ListedVersion { key, marker, size_bytes, .. } = &candidate.version;
        let due = |rule: &Rule| {
            let fits = rule.filter.fits(key, (!marker).then_some(*size_bytes));
            // A delete marker has no tags.
            if !fits || *marker && !rule.filter.tags.is_empty() {
                return None;
            }
            let since_ms = rule.due_ms(candidate, calendar)?;
            (since_ms <= now_ms).then(|| Due { since_ms, tags: rule.filter.tags.clone() })
        };
        self.0.iter().filter_map(due).collect()
    }

    /// When the current version of a key expires, in real days, and the id of the rule.
    pub fn expiry(
        &self,
        (key, size_bytes): (&str, u64),
        modified_ms: u64,
        tags: &[(String, String)],
    ) -> Option<(u64, String)> {
        let fits = |rule: &&Rule| rule.filter.fits(key, Some(size_bytes)) && has_all(tags, &rule.filter.tags);
        let expiry = |rule: &'_ Rule| {
            Some((rule.expiration?.time_ms(modified_ms, Calendar::default()), rule.id.clone()))
        };
        self.0.iter().filter(fits).filter_map(expiry).min()
    }
}

/// Whether an object with `tags` has all of `wanted`.
pub fn has_all(tags: &[(String, String)], wanted: &[(String, String)]) -> bool {
    wanted.iter().all(|tag| tags.contains(tag))
}

impl Expiration {
    fn time_ms(self, modified_ms: u64, calendar: Calendar) -> u64 {
        match self {
            Expiration::Days(days) => calendar.after(modified_ms, days),
            Expiration::Date(date_ms) => date_ms,
        }
    }
}

impl Filter {
    /// `size_bytes` is `None` for a delete marker.
    fn fits(&self, key: &str, size_bytes: Option<u64>) -> bool {
        let size_fits = |size_bytes| {
            self.over_bytes.is_none_or(|limit| size_bytes > limit)
                && self.under_bytes.is_none_or(|limit| size_bytes < limit)
        };
        key.starts_with(&self.prefix) && size_bytes.is_none_or(size_fits)
    }

    fn parse(filter: &LifecycleRuleFilter) -> S3Result<Filter> {
        let is_single = [
            filter.prefix.is_some(),
            filter.tag.is_some(),
            filter.object_size_greater_than.is_some(),
            filter.object_size_less_than.is_some(),
            filter.and.is_some(),
        ];
        if is_single.into_iter().filter(|given| *given).count() > 1 {
            return Err(s3_error!(MalformedXML, "a filter has one condition; And combines several"));
        }
        let (tags, prefix, over, under) = match &filter.and {
            Some(and) => (
                and.tags.clone().unwrap_or_default(),
                &and.prefix,
                and.object_size_greater_than,
                and.object_size_less_than,
            ),
            None => (
                filter.tag.iter().cloned().collect(),
                &filter.prefix,
                filter.object_size_greater_than,
                filter.object_size_less_than,
            ),
        };
        let bytes = |given: Option<i64>| {
            given
                .map(u64::try_from)
                .transpose()
                .map_err(|_| s3_error!(InvalidArgument, "the size of a filter is negative"))
        };
        let filter = Filter {
            prefix: prefix.clone().unwrap_or_default(),
            tags: tags.into_iter().map(pair).collect::<S3Result<_>>()?,
            over_bytes: bytes(over)?,
            under_bytes: bytes(under)?,
        };
        if filter.over_bytes.zip(filter.under_bytes).is_some_and(|(over, under)| over >= under) {
            return Err(s3_error!(
                InvalidArgument,
                "ObjectSizeLessThan must be greater than ObjectSizeGreaterThan"
            ));
        }
        Ok(filter)
    }
}

fn pair(tag: Tag) -> S3Result<(String, String)> {
    match (tag.key, tag.value) {
        (Some(key), Some(value)) if !key.is_empty() => Ok((key, value)),
        _ => Err(s3_error!(MalformedXML, "the tag of a filter needs a key and a value")),
    }
}

fn days(given: Option<i32>) -> S3Result<Option<u32>> {
    let positive = |days: i32| {
        let days = u32::try_from(days).ok().filter(|days| *days > 0);
        days.ok_or_else(|| s3_error!(InvalidArgument, "a number of days must be positive"))
    };
    given.map(positive).transpose()
}

impl Rule {
    fn parse(rule: &LifecycleRule) -> S3Result<Rule> {
        let transitions = [
            rule.transitions.as_ref().is_some_and(|list| !list.is_empty()),
            rule.noncurrent_version_transitions.as_ref().is_some_and(|list| !list.is_empty()),
        ];
        if transitions.contains(&true) {
            return Err(s3_error!(
                NotImplemented,
                "transitions to another storage class are not implemented"
            ));
        }
        let id = rule.id.clone().unwrap_or_default();
        if id.chars().count() > ID_CHARS_MAX {
            return Err(s3_error!(InvalidArgument, "the id of a lifecycle rule has at most 255 characters"));
        }
        let filter = match (&rule.filter, &rule.prefix) {
            (Some(_), Some(_)) => {
                return Err(s3_error!(MalformedXML, "a lifecycle rule has a filter or a prefix, not both"));
            }
            (None, None) => return Err(s3_error!(MalformedXML, "a lifecycle rule needs a filter")),
            (Some(filter), None) => Filter::parse(filter)?,
            (None, Some(prefix)) => Filter { prefix: prefix.clone(), ..Filter::default() },
        };
        let mut parsed = Rule { id, filter, ..Rule::default() };
        if let Some(given) = &rule.expiration {
            let is_for_markers = given.expired_object_delete_marker;
            match (days(given.days)?, &given.date, is_for_markers) {
                (Some(days), None, None) => parsed.expiration = Some(Expiration::Days(days)),
                (None, Some(date), None) => parsed.expiration = Some(Expiration::Date(midnight_ms(date)?)),
                (None, None, Some(removes_markers)) => parsed.removes_markers = removes_markers,
                _ => {
                    return Err(s3_error!(
                        MalformedXML,
                        "an expiration has days, or a date, or ExpiredObjectDeleteMarker"
                    ));
                }
            }
            if is_for_markers.is_some() && !parsed.filter.tags.is_empty() {
                return Err(s3_error!(
                    InvalidRequest,
                    "ExpiredObjectDeleteMarker cannot be combined with tags"
                ));
            }
        }
        if let Some(given) = &rule.noncurrent_version_expiration {
            let newer_versions = given.newer_noncurrent_versions.map_or(Ok(0), |count| {
                let count =
                    u32::try_from(count).ok().filter(|count| (1..=NEWER_VERSIONS_MAX).contains(count));
                count.ok_or_else(|| s3_error!(InvalidArgument, "NewerNoncurrentVersions is 1 to 100"))
            })?;
            let days = days(given.noncurrent_days)?;
            let days = days
                .ok_or_else(|| s3_error!(MalformedXML, "NoncurrentVersionExpiration needs NoncurrentDays"))?;
            parsed.noncurrent = Some(Noncurrent { days, newer_versions });
        }
        if let Some(given) = &rule.abort_incomplete_multipart_upload {
            let days = days(given.days_after_initiation)?;
            parsed.abort_days =
                Some(days.ok_or_else(|| s3_error!(MalformedXML, "DaysAfterInitiation is missing"))?);
            let Filter { tags, over_bytes, under_bytes, .. } = &parsed.filter;
            if !tags.is_empty() || over_bytes.is_some() || under_bytes.is_some() {
                return Err(s3_error!(
                    InvalidRequest,
                    "AbortIncompleteMultipartUpload cannot be combined with tags or sizes"
                ));
            }
        }
        if rule.expiration.is_none() && parsed.noncurrent.is_none() && parsed.abort_days.is_none() {
            return Err(s3_error!(InvalidRequest, "a lifecycle rule needs at least one action"));
        }
        Ok(parsed)
    }

    /// When a version that the filter fits is due; `None` if never.
    fn due_ms(&self, candidate: &Candidate, calendar: Calendar) -> Option<u64> {
        let Candidate { version, replaced_ms, newer_versions, is_alone } = candidate;
        match (replaced_ms, self.expiration) {
            (Some(replaced_ms), _) => {
                let Noncurrent { days, newer_versions: kept } = self.noncurrent?;
                (*newer_versions >= kept).then(|| calendar.after(*replaced_ms, days))
            }
            (None, _) if version.marker && !is_alone => None,
            (None, _) if version.marker && self.removes_markers => Some(version.modified_ms),
            // S3 also removes a useless delete marker when its age is that of an expiration.
            (None, Some(Expiration::Date(_))) if version.marker => None,
            (None, expiration) => Some(expiration?.time_ms(version.modified_ms, calendar)),
        }
    }
}

/// The time of a date, which must be midnight (UTC), in milliseconds since 1970.
fn midnight_ms(date: &Timestamp) -> S3Result<u64> {
    let ms = unix_ms(date).filter(|ms| ms % DAY_MS == 0);
    ms.ok_or_else(|| s3_error!(InvalidArgument, "'Date' must be at midnight GMT"))
}

/// Turns the versions of a listing, which has the newest version of each key first, into
/// candidates. A candidate is known one version later.
#[derive(Debug, Default)]
pub struct Candidates {
    last: Option<Candidate>,
}

impl Candidates {
    /// Takes the next version of the listing. Returns the candidate before it.
    pub fn next(&mut self, version: ListedVersion) -> Option<Candidate> {
        let mut last = self.last.take();
        let new = match &mut last {
            Some(last) if last.version.key == version.key => {
                last.is_alone = false;
                Candidate {
                    // A gateway whose clock was behind may have written the newer version.
                    replaced_ms: Some(last.version.modified_ms.max(version.modified_ms)),
                    newer_versions: last.newer_versions + u32::from(last.replaced_ms.is_some()),
                    is_alone: false,
                    version,
                }
            }
            _ => Candidate { version, replaced_ms: None, newer_versions: 0, is_alone: true },
        };
        self.last = Some(new);
        last
    }

    /// The key of the version whose candidate is not known yet.
    pub fn waiting_key(&self) -> Option<&str> {
        self.last.as_ref().map(|last| last.version.key.as_str())
    }

    /// The last candidate, at the end of the listing.
    pub fn finish(self) -> Option<Candidate> {
        self.last
    }
}
