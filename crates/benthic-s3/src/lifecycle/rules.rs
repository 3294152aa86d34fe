//! The rules of a bucket: their meaning, and the versions and uploads that are due. Nothing here
//! reads from a store.
//!
//! Source: the S3 user guide, "Lifecycle configuration elements".

use crate::gateway::unix_ms;
use crate::pool::STANDARD;
use crate::sal::ListedVersion;
use s3s::dto::{
    BucketLifecycleConfiguration, ExpirationStatus, LifecycleRule, LifecycleRuleFilter, Tag, Timestamp,
    TransitionStorageClass,
};
use s3s::{S3Result, s3_error};
use std::collections::BTreeSet;

/// The length of a day, in milliseconds.
pub const DAY_MS: u64 = 24 * 60 * 60 * 1_000;
const RULES_MAX: usize = 1_000;
const ID_CHARS_MAX: usize = 255;
const NEWER_VERSIONS_MAX: u32 = 100;
/// The classes of AWS in the order in which transitions lead through them. Names of the operator
/// have no order.
const WATERFALL: [&str; 7] =
    [STANDARD, "STANDARD_IA", "INTELLIGENT_TIERING", "ONEZONE_IA", "GLACIER_IR", "GLACIER", "DEEP_ARCHIVE"];

/// The rules of a bucket that are enabled.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules(Vec<Rule>);

/// The actions of a rule, and the objects that it applies to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Rule {
    id: String,
    filter: Filter,
    expiration: Option<Time>,
    /// Whether a delete marker without older versions is removed.
    removes_markers: bool,
    noncurrent: Option<Noncurrent>,
    /// Moves of the current version: when, and to which storage class.
    transitions: Vec<(Time, String)>,
    /// Moves of versions that are not current.
    noncurrent_transitions: Vec<(Noncurrent, String)>,
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

/// When the current version expires or moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Time {
    Days(u32),
    /// Milliseconds since 1970 (UTC).
    Date(u64),
}

/// When versions that are not current are removed or move.
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

/// A version in the order of a listing, with the facts about its key that the rules need.
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
    /// The storage class to which the version moves; `None` if it is removed.
    pub class: Option<String>,
}

/// The action for a version with these tags, if one of the rules applies: a removal, or else the
/// transition that became due last. A version never goes back in the order of AWS's classes.
pub fn choose<'a>(due: &'a [Due], tags: &[(String, String)], class: Option<&str>) -> Option<&'a Due> {
    let fitting = || due.iter().filter(|due| has_all(tags, &due.tags));
    if let Some(removal) = fitting().find(|due| due.class.is_none()) {
        return Some(removal);
    }
    let rank = |due: &&Due| (due.since_ms, due.class.as_deref().and_then(rank), due.class.clone());
    let last = fitting().max_by_key(rank)?;
    let (from, to) = (class.unwrap_or(STANDARD), last.class.as_deref()?);
    let goes_back = rank_of_both(from, to).is_some_and(|(from, to)| to < from);
    (from != to && !goes_back).then_some(last)
}

fn rank(class: &str) -> Option<usize> {
    WATERFALL.iter().position(|known| *known == class)
}

fn rank_of_both(one: &str, other: &str) -> Option<(usize, usize)> {
    Some((rank(one)?, rank(other)?))
}

/// The storage classes that the rules name.
pub fn classes(configuration: &BucketLifecycleConfiguration) -> impl Iterator<Item = &str> {
    configuration.rules.iter().flat_map(|rule| {
        let current = rule.transitions.iter().flatten().map(|given| &given.storage_class);
        let noncurrent =
            rule.noncurrent_version_transitions.iter().flatten().map(|given| &given.storage_class);
        current.chain(noncurrent).flatten().map(TransitionStorageClass::as_str)
    })
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

    /// The rules by which a version is due. If it is the current one and no delete marker, a
    /// removal means that it expires: a deletion without a version.
    pub fn due(&self, candidate: &Candidate, now_ms: u64, calendar: Calendar) -> Vec<Due> {
        let ListedVersion { key, marker, size_bytes, .. } = &candidate.version;
        let due = |rule: &Rule| {
            let fits = rule.filter.fits(key, (!marker).then_some(*size_bytes));
            // A delete marker has no tags.
            if !fits || *marker && !rule.filter.tags.is_empty() {
                return Vec::new();
            }
            let removal = rule.due_ms(candidate, calendar).map(|since_ms| (since_ms, None));
            let moves = rule.transitions_of(candidate, calendar);
            let all = removal.into_iter().chain(moves).filter(|(since_ms, _)| *since_ms <= now_ms);
            all.map(|(since_ms, class)| Due { since_ms, tags: rule.filter.tags.clone(), class }).collect()
        };
        self.0.iter().flat_map(due).collect()
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

impl Time {
    fn time_ms(self, modified_ms: u64, calendar: Calendar) -> u64 {
        match self {
            Time::Days(days) => calendar.after(modified_ms, days),
            Time::Date(date_ms) => date_ms,
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

/// Days of a transition, which may be zero.
fn days_or_zero(given: Option<i32>) -> S3Result<Option<u32>> {
    let days = given.map(u32::try_from).transpose();
    days.map_err(|_| s3_error!(InvalidArgument, "a number of days must not be negative"))
}

fn newer_versions(given: Option<i32>) -> S3Result<u32> {
    let Some(count) = given else { return Ok(0) };
    let count = u32::try_from(count).ok().filter(|count| (1..=NEWER_VERSIONS_MAX).contains(count));
    count.ok_or_else(|| s3_error!(InvalidArgument, "NewerNoncurrentVersions is 1 to 100"))
}

/// The storage class of a transition.
fn target(given: Option<&TransitionStorageClass>) -> S3Result<String> {
    let class = given.map(TransitionStorageClass::as_str).filter(|class| *class != STANDARD);
    let class =
        class.ok_or_else(|| s3_error!(MalformedXML, "a transition needs another class than STANDARD"))?;
    Ok(class.to_owned())
}

/// Checks that the transitions of a rule lead to different classes, in AWS's order, and happen
/// before the removal.
fn check_order(transitions: &[(u64, &str)], removal: Option<u64>) -> S3Result<()> {
    for (index, (time, class)) in transitions.iter().enumerate() {
        if removal.is_some_and(|removal| removal <= *time) {
            return Err(s3_error!(InvalidArgument, "the expiration must be later than the transitions"));
        }
        for (other_time, other) in &transitions[..index] {
            if class == other {
                return Err(s3_error!(
                    InvalidRequest,
                    "two transitions of a rule have the same storage class"
                ));
            }
            if rank_of_both(class, other).is_some_and(|(one, two)| one.cmp(&two) != time.cmp(other_time)) {
                return Err(s3_error!(
                    InvalidArgument,
                    "the transition to {class} and that to {other} are in the wrong order of time"
                ));
            }
        }
    }
    Ok(())
}

impl Rule {
    fn parse(rule: &LifecycleRule) -> S3Result<Rule> {
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
                (Some(days), None, None) => parsed.expiration = Some(Time::Days(days)),
                (None, Some(date), None) => parsed.expiration = Some(Time::Date(midnight_ms(date)?)),
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
            let newer_versions = newer_versions(given.newer_noncurrent_versions)?;
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
        parsed.parse_transitions(rule)?;
        let has_transitions = !parsed.transitions.is_empty() || !parsed.noncurrent_transitions.is_empty();
        if rule.expiration.is_none()
            && parsed.noncurrent.is_none()
            && parsed.abort_days.is_none()
            && !has_transitions
        {
            return Err(s3_error!(InvalidRequest, "a lifecycle rule needs at least one action"));
        }
        Ok(parsed)
    }

    fn parse_transitions(&mut self, rule: &LifecycleRule) -> S3Result<()> {
        for given in rule.transitions.iter().flatten() {
            let time = match (days_or_zero(given.days)?, &given.date) {
                (Some(days), None) => Time::Days(days),
                (None, Some(date)) => Time::Date(midnight_ms(date)?),
                _ => return Err(s3_error!(MalformedXML, "a transition has days or a date")),
            };
            self.transitions.push((time, target(given.storage_class.as_ref())?));
        }
        for given in rule.noncurrent_version_transitions.iter().flatten() {
            let days = days_or_zero(given.noncurrent_days)?;
            let days = days
                .ok_or_else(|| s3_error!(MalformedXML, "NoncurrentVersionTransition needs NoncurrentDays"))?;
            let newer_versions = newer_versions(given.newer_noncurrent_versions)?;
            let class = target(given.storage_class.as_ref())?;
            self.noncurrent_transitions.push((Noncurrent { days, newer_versions }, class));
        }
        let number = |time: Time| match time {
            Time::Days(days) => u64::from(days),
            Time::Date(date_ms) => date_ms,
        };
        let times = self.transitions.iter().map(|(time, _)| *time).chain(self.expiration);
        let is_date = |time: Time| matches!(time, Time::Date(_));
        if times.clone().any(is_date) && !times.clone().all(is_date) {
            return Err(s3_error!(InvalidRequest, "a rule has days or dates in its actions, not both"));
        }
        let current = self.transitions.iter().map(|(time, class)| (number(*time), class.as_str()));
        check_order(&current.collect::<Vec<_>>(), self.expiration.map(number))?;
        let noncurrent =
            self.noncurrent_transitions.iter().map(|(given, class)| (u64::from(given.days), class.as_str()));
        check_order(&noncurrent.collect::<Vec<_>>(), self.noncurrent.map(|given| u64::from(given.days)))
    }

    /// The transitions of a version that the filter fits: since when, and to which storage class.
    fn transitions_of(&self, candidate: &Candidate, calendar: Calendar) -> Vec<(u64, Option<String>)> {
        let Candidate { version, replaced_ms, newer_versions, .. } = candidate;
        if version.marker {
            return Vec::new();
        }
        match replaced_ms {
            None => {
                let due = |(time, class): &(Time, String)| {
                    (time.time_ms(version.modified_ms, calendar), Some(class.clone()))
                };
                self.transitions.iter().map(due).collect()
            }
            Some(replaced_ms) => {
                let fits = |(given, _): &&(Noncurrent, String)| *newer_versions >= given.newer_versions;
                let due = |(given, class): &(Noncurrent, String)| {
                    (calendar.after(*replaced_ms, given.days), Some(class.clone()))
                };
                self.noncurrent_transitions.iter().filter(fits).map(due).collect()
            }
        }
    }

    /// When a version that the filter fits is due to be removed; `None` if never.
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
            (None, Some(Time::Date(_))) if version.marker => None,
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
