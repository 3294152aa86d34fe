//! Listings of objects and versions by the upstream, and of uploads by the gateway's own store.

use super::client::Call;
use super::head::{date_ms, seq_of, version_of, write_of};
use super::write_back::Pending;
use super::xml::Element;
use super::{UpstreamSal, objects_error};
use crate::sal::limits::{KEY_BYTES_MAX, LIST_ENTRIES_MAX};
use crate::sal::{
    Bucket, Entry, KeyPosition, List, ListKind, ListPage, ListPosition, ListedVersion, VersionId, Versioning,
};
use benthic_core::{Error, ErrorKind, OptionalExtension, Result};
use hyper::Method;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The last character of Unicode. A key after a prefix and this character is after all other keys
/// with the prefix.
const LAST: char = '\u{10ffff}';

/// Maximum number of remembered positions at null versions.
const MARKERS_MAX: usize = 10_000;

/// Decodes a key from a listing with `encoding-type=url`.
pub(super) fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        match first {
            b'+' => bytes.push(b' '),
            b'%' => {
                let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
                bytes.push(u8::from_str_radix(digits, 16).ok()?);
                rest = &rest[2..];
            }
            byte => bytes.push(*byte),
        }
    }
    String::from_utf8(bytes).ok()
}

fn invalid(what: &'static str) -> Error {
    objects_error(ErrorKind::Unavailable, "the upstream's listing is not valid").with("cause", what)
}

fn check(list: &List) -> Result<()> {
    if !(1..=LIST_ENTRIES_MAX).contains(&list.entries_max) {
        return Err(objects_error(ErrorKind::InvalidArgument, "a page has 1 to 1000 entries"));
    }
    if list.prefix.len() > KEY_BYTES_MAX || list.delimiter.len() > KEY_BYTES_MAX {
        return Err(objects_error(ErrorKind::LimitExceeded, "the prefix or the delimiter is too long"));
    }
    if list.after.as_ref().is_some_and(|after| after.key.len() > KEY_BYTES_MAX) {
        return Err(objects_error(ErrorKind::LimitExceeded, "the marker is longer than a key can be"));
    }
    Ok(())
}

fn version_entry(element: &Element, key: String) -> Result<ListedVersion> {
    let etag = element.text_of("ETag").trim_matches('"').to_owned();
    let marker = element.name == "DeleteMarker";
    let name = element.child("VersionId").map(|name| name.text.as_str());
    let size = element.text_of("Size").parse().ok().filter(|size: &u64| i64::try_from(*size).is_ok());
    Ok(ListedVersion {
        key,
        current: name.is_none() || element.text_of("IsLatest") == "true",
        version: version_of(name),
        seq: name.map_or(0, seq_of),
        marker,
        size_bytes: if marker { 0 } else { size.ok_or_else(|| invalid("a size"))? },
        modified_ms: date_ms(element.text_of("LastModified")),
        write: write_of(&etag, name),
        etag,
        revision: 0,
        class: None,
    })
}

impl UpstreamSal {
    pub(super) async fn list_page(&self, bucket: &Bucket, list: &List) -> Result<ListPage> {
        check(list)?;
        if list.kind == ListKind::Uploads {
            return self.sal.list(bucket, list).await;
        }
        self.require(bucket).await?;
        // Before the upstream lists: a change that becomes visible there meanwhile is in one of
        // both.
        let name = self.upstream_name(&bucket.name);
        // If the bucket has got versions since, the changes are not versions yet, but readers of
        // the objects see them.
        let is_shown = list.kind == ListKind::Objects || bucket.versioning == Versioning::Off;
        let changes = if is_shown { self.write_back.changes(&name, &list.prefix) } else { BTreeMap::new() };
        // Objects that a pending change deletes take no room on the page.
        let deletes = |(key, pending): &(&String, &Arc<Pending>)| {
            pending.record.deletes && !list.is_passed(key.as_str())
        };
        let deletions = u32::try_from(changes.iter().filter(deletes).count()).unwrap_or(u32::MAX);
        let entries_max = list.entries_max.saturating_add(deletions).min(LIST_ENTRIES_MAX);
        let page = self.upstream_page(bucket, &List { entries_max, ..list.clone() }).await?;
        if changes.is_empty() {
            return Ok(page);
        }
        let mut hidden = BTreeSet::new();
        for prefix in page.entries.iter().filter_map(|entry| match entry {
            Entry::Prefix(prefix) if hides(&changes, prefix) => Some(prefix),
            _ => None,
        }) {
            if !self.has_other_keys(bucket, prefix, &changes).await? {
                hidden.insert(prefix.clone());
            }
        }
        Ok(merge(list, page, &changes, &hidden))
    }

    /// Whether the upstream has a key with this prefix and without a pending change.
    async fn has_other_keys(
        &self,
        bucket: &Bucket,
        prefix: &str,
        changes: &BTreeMap<String, Arc<Pending>>,
    ) -> Result<bool> {
        let mut list = List {
            kind: ListKind::Objects,
            prefix: prefix.to_owned(),
            delimiter: String::new(),
            after: None,
            entries_max: LIST_ENTRIES_MAX,
        };
        loop {
            let page = self.upstream_page(bucket, &list).await?;
            if page.entries.iter().any(|entry| !changes.contains_key(entry.key())) {
                return Ok(true);
            }
            match page.next {
                None => return Ok(false),
                next => list.after = next,
            }
        }
    }

    /// The page as the upstream has it.
    async fn upstream_page(&self, bucket: &Bucket, list: &List) -> Result<ListPage> {
        let call = Call::new(Method::GET, &self.upstream_name(&bucket.name), "")
            .query("prefix", list.prefix.as_str())
            .query("encoding-type", "url")
            .query("max-keys", list.entries_max.to_string());
        let call = match list.delimiter.as_str() {
            "" => call,
            delimiter => call.query("delimiter", delimiter),
        };
        let call = match list.kind {
            ListKind::Versions => self.continue_at(call.query("versions", ""), bucket, list).await?,
            _ => {
                let call = call.query("list-type", "2");
                if let Some(after) = start_after(list) { call.query("start-after", after) } else { call }
            }
        };
        let answer = self.client().call(call).await?;
        let page = Element::parse(&answer.body)?;
        let mut entries = Vec::new();
        for element in &page.children {
            match element.name.as_str() {
                "Contents" | "Version" | "DeleteMarker" => {
                    let key = decode(element.text_of("Key")).ok_or_else(|| invalid("a key"))?;
                    let version = version_entry(element, key)?;
                    if let Some(name) =
                        element.child("VersionId").filter(|_| version.version != VersionId::Null)
                    {
                        self.remember_version(&name.text);
                    }
                    entries.push(Entry::Version(version));
                }
                "CommonPrefixes" => {
                    let prefix = decode(element.text_of("Prefix")).ok_or_else(|| invalid("a prefix"))?;
                    entries.push(Entry::Prefix(prefix));
                }
                _ => {}
            }
        }
        // Versions of a key stay in the order of the upstream.
        entries.sort_by(|one, next| one.key().cmp(next.key()));
        let next = match (page.text_of("IsTruncated"), entries.last()) {
            ("true", Some(last)) => {
                if let Entry::Version(ListedVersion { key, version: VersionId::Null, .. }) = last {
                    self.remember_marker(bucket, key, page.text_of("NextVersionIdMarker"));
                }
                Some(last.position(list.kind))
            }
            ("true", None) => return Err(invalid("a page without entries that is not the last")),
            _ => None,
        };
        entries.retain(|entry| match (&list.after, entry) {
            // The rest of the versions of the last key.
            (Some(ListPosition { key, within: Some(_) }), Entry::Version(version)) if version.key == *key => {
                true
            }
            _ => !list.is_passed(entry.key()),
        });
        Ok(ListPage { entries, next })
    }

    /// Lets a listing of versions continue at the position.
    async fn continue_at(&self, call: Call, bucket: &Bucket, list: &List) -> Result<Call> {
        let Some(after) = &list.after else { return Ok(call) };
        let Some(KeyPosition::Version(seq)) = after.within else {
            return Ok(match start_after(list) {
                Some(after) => call.query("key-marker", after),
                None => call,
            });
        };
        let call = call.query("key-marker", after.key.as_str());
        // The null version has the number of its name, and a marker that only the upstream knows.
        if seq == seq_of("null") {
            let marker = self.null_markers.lock().get(&(bucket.name.clone(), after.key.clone())).cloned();
            let marker = marker.ok_or_else(|| invalid("the position is not known any more; list again"))?;
            return Ok(call.query("version-id-marker", marker));
        }
        let upstream = self.upstream_name(&bucket.name);
        let name = self.name_to_read(&upstream, &after.key, Some(VersionId::Seq(seq))).await.optional()?;
        // If the version is gone since, skip the key.
        Ok(if let Some(name) = name {
            call.query("version-id-marker", name.unwrap_or_default())
        } else {
            call
        })
    }

    fn remember_marker(&self, bucket: &Bucket, key: &str, marker: &str) {
        let mut markers = self.null_markers.lock();
        if markers.len() >= MARKERS_MAX {
            markers.clear();
        }
        markers.insert((bucket.name.clone(), key.to_owned()), marker.to_owned());
    }
}

/// Whether pending changes may delete all keys with a common prefix.
fn hides(changes: &BTreeMap<String, Arc<Pending>>, prefix: &str) -> bool {
    let mut of_prefix =
        changes.range(prefix.to_owned()..).take_while(|(key, _)| key.starts_with(prefix)).peekable();
    of_prefix.peek().is_some() && of_prefix.all(|(_, pending)| pending.record.deletes)
}

/// Adds pending changes to a page of the upstream. `hidden` are common prefixes whose keys are all
/// deleted.
fn merge(
    list: &List,
    page: ListPage,
    changes: &BTreeMap<String, Arc<Pending>>,
    hidden: &BTreeSet<String>,
) -> ListPage {
    // Later keys belong to the next page.
    let last = page.next.as_ref().map(|next| next.key.clone());
    let is_on_page = |key: &str| match &last {
        None => true,
        Some(last) => {
            let is_prefix = list.common_prefix(last) == Some(last.as_str());
            key <= last.as_str() || (is_prefix && key.starts_with(last.as_str()))
        }
    };
    let mut entries: BTreeMap<String, Vec<Entry>> = BTreeMap::new();
    for entry in page.entries {
        let is_changed = match &entry {
            Entry::Prefix(prefix) => hidden.contains(prefix),
            _ => changes.contains_key(entry.key()),
        };
        if !is_changed {
            entries.entry(entry.key().to_owned()).or_default().push(entry);
        }
    }
    for (key, pending) in changes {
        if pending.record.deletes || list.is_passed(key) || !is_on_page(key) {
            continue;
        }
        let entry = match list.common_prefix(key) {
            Some(prefix) => Entry::Prefix(prefix.to_owned()),
            None => Entry::Version(pending.list_entry()),
        };
        entries.entry(entry.key().to_owned()).or_insert_with(|| vec![entry]);
    }
    let mut entries: Vec<Entry> = entries.into_values().flatten().collect();
    let mut next = page.next;
    if entries.len() > list.entries_max as usize {
        entries.truncate(list.entries_max as usize);
        // There is one version of each key, so none is left out.
        next = entries.last().map(|last| ListPosition { key: last.key().to_owned(), within: None });
    }
    ListPage { entries, next }
}

/// The key after which the upstream continues.
fn start_after(list: &List) -> Option<String> {
    let after = list.after.as_ref()?;
    Some(match list.passed_prefix() {
        Some(prefix) => format!("{prefix}{LAST}"),
        None => after.key.clone(),
    })
}
