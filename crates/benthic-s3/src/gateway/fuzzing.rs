//! Reads the documents that clients send as the gateway reads them, for the fuzzer and tests only.
//!
//! [`document`] takes any bytes. It panics if a parser breaks a promise: the gateway can read every
//! document that it accepted and stored, and a rule applies to nothing that its document excludes.

use super::acl::{Acl, RequestedAcl};
use super::bucket_logging::LogTarget;
use super::delete::delete_of;
use super::document::check_elements;
use super::http::XML_BYTES_MAX;
use super::website_rules::{self, Address};
use super::{
    bucket_lifecycle, bucket_notification, cors, names, object_lock, public_access, s3_control, select, tags,
};
use crate::events::{EventRules, Origin};
use crate::lifecycle::{self, Calendar};
use crate::sal::{Attributes, Change};
use benthic_classes::select::Select;
use bytes::Bytes;
use s3s::dto::{
    AccessControlPolicy, BucketLifecycleConfiguration, BucketLoggingStatus, CORSConfiguration,
    CompletedMultipartUpload, CreateBucketConfiguration, Delete, Event, ExpirationStatus, LifecycleRule,
    NotificationConfiguration, NotificationConfigurationFilter, ObjectLockConfiguration, ObjectLockLegalHold,
    ObjectLockRetention, OwnershipControls, PublicAccessBlockConfiguration, RequestPaymentConfiguration,
    SelectObjectContentRequest, ServerSideEncryptionConfiguration, Tagging, VersioningConfiguration,
    WebsiteConfiguration,
};
use s3s::xml::{Deserialize, Deserializer};
use serde::Serialize;
use serde::de::DeserializeOwned;

const OWNER: &str = "lab";
/// Limit of the rules of a document for which objects are made up. Each object is compared with all
/// rules.
const RULES_SEARCHED: usize = 8;
const CHANGES: [(Change, &str); 3] = [
    (Change::Created, "ObjectCreated:Put"),
    (Change::Removed, "ObjectRemoved:Delete"),
    (Change::Moved, "LifecycleTransition"),
];

/// Reads a document of any kind.
///
/// # Panics
/// If a parser breaks a promise.
pub fn document(input: &[u8]) {
    if input.len() > XML_BYTES_MAX || check_elements(input).is_err() {
        return;
    }
    acl(input);
    cors_rules(input);
    deletion(input);
    lifecycle_rules(input);
    logging(input);
    notifications(input);
    object_lock_settings(input);
    public_access_settings(input);
    selection(input);
    tag_set(input);
    website(input);
    // The gateway only compares their few fields.
    parsed::<CompletedMultipartUpload>(input);
    parsed::<CreateBucketConfiguration>(input);
    parsed::<ObjectLockLegalHold>(input);
    parsed::<ObjectLockRetention>(input);
    parsed::<RequestPaymentConfiguration>(input);
    parsed::<ServerSideEncryptionConfiguration>(input);
    parsed::<VersioningConfiguration>(input);
}

/// Parses a document as `s3s` does.
pub(super) fn parsed<T: for<'xml> Deserialize<'xml>>(input: &[u8]) -> Option<T> {
    let mut parser = Deserializer::new(input);
    let parsed = T::deserialize(&mut parser).ok()?;
    parser.expect_eof().ok()?;
    Some(parsed)
}

fn json(value: &impl Serialize) -> Bytes {
    Bytes::from(serde_json::to_vec(value).expect("an accepted document can be stored"))
}

/// A bucket with a document in an attribute.
fn stored(name: &str, value: &impl Serialize) -> Attributes {
    Attributes::from([(name.to_owned(), json(value))])
}

fn read<T: DeserializeOwned>(text: &[u8]) -> T {
    serde_json::from_slice(text).expect("a stored document can be read")
}

fn acl(input: &[u8]) {
    let Some(document) = parsed::<AccessControlPolicy>(input) else { return };
    let requested = RequestedAcl { document: Some(&document), is_change: true, ..RequestedAcl::default() };
    let Ok(acl) = requested.parse((&Attributes::new(), OWNER), OWNER) else { return };
    let mut attributes = Attributes::new();
    acl.store(&mut attributes, OWNER).expect("an accepted list can be stored");
    assert_eq!(Acl::of(&attributes, OWNER), acl);
}

fn cors_rules(input: &[u8]) {
    let Some(document) = parsed::<CORSConfiguration>(input) else { return };
    if cors::check(&document.cors_rules).is_ok() {
        assert_eq!(cors::rules(&stored(names::CORS, &document)), document.cors_rules);
    }
}

fn deletion(input: &[u8]) {
    let Some(document) = parsed::<Delete>(input) else { return };
    for object in &document.objects {
        let _ = delete_of(object);
    }
}

fn lifecycle_rules(input: &[u8]) {
    let Some(mut document) = parsed::<BucketLifecycleConfiguration>(input) else { return };
    let Ok(rules) = bucket_lifecycle::prepare(&mut document) else { return };
    assert_eq!(lifecycle::parse_rules(&json(&document)).expect("stored rules can be read"), rules);
    for (key, size_bytes, tags) in document.rules.iter().take(RULES_SEARCHED).flat_map(neighbourhood) {
        if let Some((_, id)) = rules.expiry((&key, size_bytes), 0, &tags) {
            let rule = document.rules.iter().find(|rule| rule.id.as_ref() == Some(&id));
            let rule = rule.expect("a rule has the id of a rule");
            assert!(!excludes(rule, &key, size_bytes, &tags), "{id} expires {key} {size_bytes} {tags:?}");
        }
        if rules.upload_is_due(&key, 0, u64::MAX, Calendar::default()) {
            let aborts = |rule: &&LifecycleRule| rule.abort_incomplete_multipart_upload.is_some();
            let mut aborting = document.rules.iter().filter(aborts);
            // Such rules have no other filter than a prefix.
            assert!(aborting.any(|rule| !excludes(rule, &key, 0, &[])), "a rule aborts {key}");
        }
    }
}

type Tags = Vec<(String, String)>;

/// Objects to which a rule applies, and objects that it just excludes.
fn neighbourhood(rule: &LifecycleRule) -> Vec<(String, u64, Tags)> {
    let filter = rule.filter.clone().unwrap_or_default();
    let and = filter.and.clone().unwrap_or_default();
    let prefix = [&rule.prefix, &filter.prefix, &and.prefix].into_iter().flatten().next();
    let prefix = prefix.cloned().unwrap_or_default();
    let mut shorter = prefix.clone();
    shorter.pop();
    let keys = [format!("{prefix}a"), prefix, shorter, "another".to_owned()];
    let limits = [
        filter.object_size_greater_than,
        filter.object_size_less_than,
        and.object_size_greater_than,
        and.object_size_less_than,
    ];
    let limits = limits.into_iter().flatten().filter_map(|limit| u64::try_from(limit).ok());
    let around = |limit: u64| [limit.saturating_sub(1), limit, limit.saturating_add(1)];
    let sizes: Vec<u64> = [0, u64::MAX].into_iter().chain(limits.flat_map(around)).collect();
    let tags: Tags = filter
        .tag
        .iter()
        .chain(and.tags.iter().flatten())
        .map(|tag| (tag.key.clone().unwrap_or_default(), tag.value.clone().unwrap_or_default()))
        .collect();
    let fewer: Tags = tags.iter().skip(1).cloned().collect();
    let tag_sets = [tags, fewer, Tags::new()];
    let mut objects = Vec::new();
    for key in &keys {
        for size_bytes in &sizes {
            objects.extend(tag_sets.iter().map(|tags| (key.clone(), *size_bytes, tags.clone())));
        }
    }
    objects
}

/// Whether a rule's document excludes an object.
fn excludes(rule: &LifecycleRule, key: &str, size_bytes: u64, tags: &[(String, String)]) -> bool {
    let filter = rule.filter.clone().unwrap_or_default();
    let and = filter.and.clone().unwrap_or_default();
    let prefixes = [&rule.prefix, &filter.prefix, &and.prefix];
    let over = [filter.object_size_greater_than, and.object_size_greater_than];
    let under = [filter.object_size_less_than, and.object_size_less_than];
    let has = |name: Option<&String>, wanted: Option<&String>| {
        tags.iter().any(|(key, value)| name == Some(key) && wanted == Some(value))
    };
    let mut wanted = filter.tag.iter().chain(and.tags.iter().flatten());
    rule.status.as_str() != ExpirationStatus::ENABLED
        || prefixes.into_iter().flatten().any(|prefix| !key.starts_with(prefix.as_str()))
        || over.into_iter().flatten().any(|limit| i128::from(size_bytes) <= i128::from(limit))
        || under.into_iter().flatten().any(|limit| i128::from(size_bytes) >= i128::from(limit))
        || wanted.any(|tag| !has(tag.key.as_ref(), tag.value.as_ref()))
}

fn logging(input: &[u8]) {
    let Some(enabled) = parsed::<BucketLoggingStatus>(input).and_then(|status| status.logging_enabled) else {
        return;
    };
    let Ok(target) = LogTarget::parse(&enabled) else { return };
    assert_eq!(LogTarget::of(&stored(names::LOGGING, &target)).as_ref(), Some(&target));
    assert_eq!(LogTarget::parse(&target.clone().document()).ok(), Some(target));
}

/// The id, events and filter of a notification, for a target of any kind.
type Notification<'a> = (Option<&'a String>, &'a [Event], &'a Option<NotificationConfigurationFilter>);

fn notifications(input: &[u8]) {
    let Some(mut document) = parsed::<NotificationConfiguration>(input) else { return };
    if bucket_notification::prepare(&mut document).is_err() {
        return;
    }
    let rules = EventRules::of_bucket(&stored(names::NOTIFICATIONS, &document));
    let rules = rules.expect("stored notifications can be read");
    let topics = document.topic_configurations.iter().flatten();
    let queues = document.queue_configurations.iter().flatten();
    let topics = topics.map(|rule| (rule.id.as_ref(), rule.events.as_slice(), &rule.filter));
    let queues = queues.map(|rule| (rule.id.as_ref(), rule.events.as_slice(), &rule.filter));
    let all: Vec<Notification<'_>> = topics.chain(queues).collect();
    for rule in all.iter().take(RULES_SEARCHED) {
        let values: Vec<&str> = filter_rules(rule).map(|(_, value)| value).collect();
        let reversed: String = values.iter().rev().copied().collect();
        let keys = [values.concat(), values.join("/"), reversed, "a".to_owned()];
        for key in keys.iter().map(String::as_str).chain(values.iter().copied()) {
            let found = rules.of_change(key, &CHANGES, &Origin::default(), true);
            let found: Vec<(&str, Option<&String>)> =
                found.iter().map(|event| (event.name.as_str(), Some(&event.rule))).collect();
            let mut wanted = Vec::new();
            for (_, name) in CHANGES {
                let asking = all.iter().filter(|rule| asks(rule, key, name));
                wanted.extend(asking.map(|(id, ..)| (name, *id)));
            }
            assert_eq!(found, wanted, "the events of {key}");
        }
    }
}

/// Whether a filter is for the prefix, and its value.
fn filter_rules<'a>(&(_, _, filter): &Notification<'a>) -> impl Iterator<Item = (bool, &'a str)> {
    let key = filter.as_ref().and_then(|filter| filter.key.as_ref());
    key.and_then(|key| key.filter_rules.as_ref()).into_iter().flatten().map(|rule| {
        let is_prefix = rule.name.as_ref().is_some_and(|name| name.as_str().eq_ignore_ascii_case("prefix"));
        (is_prefix, rule.value.as_deref().unwrap_or_default())
    })
}

/// Whether a notification's document asks for an event.
fn asks(rule: &Notification<'_>, key: &str, name: &str) -> bool {
    let name = format!("s3:{name}");
    let is_asked = |event: &Event| {
        let event: &str = event.as_ref();
        event.strip_suffix('*').map_or(event == name, |start| name.starts_with(start))
    };
    let fits = |(is_prefix, value): (bool, &str)| match is_prefix {
        true => key.starts_with(value),
        false => key.ends_with(value),
    };
    rule.1.iter().any(is_asked) && filter_rules(rule).all(fits)
}

fn object_lock_settings(input: &[u8]) {
    let Some(document) = parsed::<ObjectLockConfiguration>(input) else { return };
    if object_lock::check_settings(&document).is_err() {
        return;
    }
    let mut attributes = Attributes::new();
    object_lock::set_settings(&mut attributes, &document).expect("accepted settings can be stored");
    let default = object_lock::default_retention(&attributes).expect("stored settings can be read");
    assert_eq!(default.is_some(), document.rule.is_some());
}

fn public_access_settings(input: &[u8]) {
    if let Some(block) = parsed::<PublicAccessBlockConfiguration>(input) {
        assert_eq!(public_access::block_of(&stored(names::PUBLIC_ACCESS_BLOCK, &block)), block);
    }
    for rule in parsed::<OwnershipControls>(input).into_iter().flat_map(|controls| controls.rules) {
        let mut attributes = Attributes::new();
        let accepted = public_access::set_ownership(&mut attributes, OWNER, &rule.object_ownership);
        assert_eq!(accepted.is_ok(), attributes.contains_key(names::OWNERSHIP));
    }
}

fn selection(input: &[u8]) {
    let Some(document) = parsed::<SelectObjectContentRequest>(input) else { return };
    let Ok(query) = select::query(&document) else { return };
    let _ = Select::new(&query);
    // The gateway sends the query to the class as JSON.
    assert_eq!(read::<benthic_classes::select::wire::Request>(&json(&query)), query);
}

fn tag_set(input: &[u8]) {
    let _ = s3_control::tags_in(input);
    let Some(document) = parsed::<Tagging>(input) else { return };
    let Ok(pairs) = tags::pairs(&document.tag_set) else { return };
    let mut attributes = Attributes::new();
    tags::set(&mut attributes, &pairs).expect("accepted tags can be stored");
    assert_eq!(tags::get(&attributes).expect("stored tags can be read"), pairs);
    // A form has the tags of an object as a document, which becomes a header.
    if let Ok(text) = std::str::from_utf8(input)
        && let Ok(of_object) = tags::header_of(text).and_then(|header| tags::parse(&header))
    {
        assert_eq!(of_object, pairs);
    }
}

fn website(input: &[u8]) {
    let Some(document) = parsed::<WebsiteConfiguration>(input) else { return };
    if website_rules::check(&document).is_err() {
        return;
    }
    assert_eq!(read::<WebsiteConfiguration>(&json(&document)), document);
    let conditions = document.routing_rules.iter().flatten().filter_map(|rule| rule.condition.as_ref());
    let prefixes = conditions.filter_map(|condition| condition.key_prefix_equals.as_deref());
    for key in prefixes.take(RULES_SEARCHED).chain(["", "a/b"]) {
        let address = Address { scheme: "http", host: "site.example", key, path_and_query: "/?a" };
        let moved = [
            website_rules::redirect_of(&document, address),
            website_rules::redirect_after_error(&document, address, 404),
        ];
        for moved in moved.into_iter().flatten() {
            assert!((301..400).contains(&moved.status), "{moved:?}");
            assert!(moved.location.bytes().all(|byte| byte.is_ascii_graphic()), "{moved:?}");
        }
    }
}
