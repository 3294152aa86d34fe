//! Pools, listings of objects, and the details of one object.

use crate::commands::console::Console;
use crate::commands::console::preview::Kind;
use crate::commands::console::query::Query;
use crate::commands::console::reply::{Reply, beginning, json_reply};
use benthic_core::names::is_reserved_namespace;
use benthic_core::{
    Error, ErrorKind, Fetch, ListRequest, ListToken, Namespaces, ObjectId, Pool, Result, Stopwatch,
    SystemClock, limits,
};
use benthic_program::output::insert_bytes;
use benthic_program::units;
use benthic_striped::{StripedState, striped_object_of};
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// Limit on the objects of a page, and on the omap entries of one.
const PAGE_MAX: usize = 1_000;
const PAGE_DEFAULT: usize = 100;
const STATS_AT_ONCE: usize = 32;
/// A page that is not full by then ends here, so that a rare prefix in a large pool of a cluster
/// shows its progress.
const LIST_LIMIT: Duration = Duration::from_secs(2);
/// Limit on the bytes that one value shows.
const VALUE_BYTES_MAX: usize = 1_024;
/// Limit on the names that a page of folders reads at once, where the names are in no order.
const UNORDERED_NAMES_MAX: usize = 1_000;
/// Limit on the attributes that an object shows.
const XATTRS_MAX: usize = 1_000;

pub async fn pools(console: &Console<'_>) -> Result<Reply> {
    let pools = console.session.store().await?.list_pools().await?;
    Ok(json_reply(&json!({ "pools": pools })))
}

/// A page of a listing. The work of a page does not depend on the size of the pool, except that a
/// cluster has no index of prefixes.
pub async fn list(console: &Console<'_>, query: &Query) -> Result<Reply> {
    let pool = console.session.pool(query.required("pool")?).await?;
    let (namespace, prefix) = (query.text("namespace").to_owned(), query.text("prefix"));
    let all = query.is_set("all_namespaces")?;
    let objects_max = query.number("limit", PAGE_DEFAULT, PAGE_MAX)?;
    let mut page = Page { objects: Vec::new(), prefixes: Vec::new(), next: None, is_cut: false };
    let after = query.bytes("after")?.map(|token| ListToken(token.into()));
    let request = ListRequest {
        namespaces: if all { Namespaces::All } else { Namespaces::One(namespace) },
        prefix: prefix.to_owned(),
        after,
        objects_max,
    };
    match query.text("delimiter") {
        "" => page.fill(&*pool, request).await?,
        delimiter => page.fill_folders(&*pool, request, delimiter).await?,
    }
    let rows = stream::iter(page.objects).map(async |object| describe(&*pool, object).await);
    let rows: Vec<Option<Value>> = rows.buffered(STATS_AT_ONCE).try_collect().await?;
    Ok(json_reply(&json!({
        "objects": rows.into_iter().flatten().collect::<Vec<_>>(),
        "prefixes": page.prefixes,
        "next": page.next.map(|token| units::hex(&token.0)),
        "incomplete": page.is_cut,
    })))
}

struct Page {
    objects: Vec<ObjectId>,
    /// The parts of names up to a delimiter, which stand for all objects below them.
    prefixes: Vec<String>,
    next: Option<ListToken>,
    /// True if the time limit ended the page.
    is_cut: bool,
}

impl Page {
    async fn fill(&mut self, pool: &dyn Pool, mut request: ListRequest) -> Result<()> {
        let (objects_max, clock) = (request.objects_max, Stopwatch::start(&SystemClock));
        loop {
            let listed = pool.list(request.clone()).await?;
            let is_hidden = |object: &ObjectId| {
                request.namespaces == Namespaces::All && is_reserved_namespace(object.namespace())
            };
            self.objects.extend(listed.objects.into_iter().filter(|object| !is_hidden(object)));
            self.next.clone_from(&listed.next);
            self.is_cut = self.next.is_some() && clock.elapsed() > LIST_LIMIT;
            request.objects_max = objects_max.saturating_sub(self.objects.len());
            request.after = listed.next;
            if request.after.is_none() || request.objects_max == 0 || self.is_cut {
                return Ok(());
            }
        }
    }

    /// Lists one level of names.
    async fn fill_folders(&mut self, pool: &dyn Pool, request: ListRequest, delimiter: &str) -> Result<()> {
        let Namespaces::One(namespace) = request.namespaces.clone() else {
            return Err(Error::unsupported("delimiter needs one namespace"));
        };
        let is_ordered = pool.token_after(&ObjectId::new("-")?).is_some();
        if is_ordered {
            self.fill_folders_in_order(pool, request, delimiter, namespace).await
        } else {
            self.fill_folders_unordered(pool, request, delimiter).await
        }
    }

    /// After the first name below a prefix, it skips the others.
    async fn fill_folders_in_order(
        &mut self,
        pool: &dyn Pool,
        mut request: ListRequest,
        delimiter: &str,
        namespace: String,
    ) -> Result<()> {
        let clock = Stopwatch::start(&SystemClock);
        let (entries_max, prefix_len) = (request.objects_max, request.prefix.len());
        loop {
            let listed = pool.list(request.clone()).await?;
            let mut after = listed.next;
            for object in listed.objects {
                let Some(folder) = folder_of(object.name(), prefix_len, delimiter) else {
                    self.objects.push(object);
                    continue;
                };
                if self.prefixes.last().is_none_or(|last| last != folder) {
                    self.prefixes.push(folder.to_owned());
                }
                // No name below the folder sorts after this one, except such that begin with this
                // character; they are skipped one by one.
                let last = ObjectId::in_namespace(namespace.clone(), format!("{folder}{}", char::MAX));
                // A name of the maximum length has no longer name after it.
                let Ok(last) = last else { continue };
                after = pool.token_after(&last);
                break;
            }
            self.is_cut = after.is_some() && clock.elapsed() > LIST_LIMIT;
            self.next.clone_from(&after);
            let room = entries_max.saturating_sub(self.objects.len() + self.prefixes.len());
            // Most of a page would be skipped if it begins with a folder.
            request.objects_max = if self.prefixes.is_empty() { room } else { room.min(8) };
            request.after = after;
            if request.after.is_none() || room == 0 || self.is_cut {
                return Ok(());
            }
        }
    }

    /// A cluster lists names in the order of a hash, so the names of a folder are all over the
    /// pool. The page has one level of the names that it reads, and later pages may have the same
    /// prefixes. One prefix stands for any number of names, so the page reads many names at once.
    /// If these are more entries than the page has room for, the next page reads them again,
    /// because a listing cannot continue in the middle of a page that it returned.
    async fn fill_folders_unordered(
        &mut self,
        pool: &dyn Pool,
        mut request: ListRequest,
        delimiter: &str,
    ) -> Result<()> {
        let clock = Stopwatch::start(&SystemClock);
        let (entries_max, prefix_len) = (request.objects_max, request.prefix.len());
        let folder = |object: &ObjectId| folder_of(object.name(), prefix_len, delimiter).map(str::to_owned);
        let mut prefixes = BTreeSet::new();
        loop {
            let room = entries_max.saturating_sub(self.objects.len() + prefixes.len());
            let listed = pool.list(request.clone()).await?;
            let found: BTreeSet<String> = listed.objects.iter().filter_map(folder).collect();
            let objects = listed.objects.into_iter().filter(|object| folder(object).is_none());
            let objects: Vec<ObjectId> = objects.collect();
            let entries = objects.len() + found.difference(&prefixes).count();
            if entries > room && room == entries_max {
                request.objects_max = room;
                continue;
            }
            if entries <= room {
                self.objects.extend(objects);
                prefixes.extend(found);
                self.next.clone_from(&listed.next);
                self.is_cut = self.next.is_some() && clock.elapsed() > LIST_LIMIT;
            }
            if listed.next.is_none() || entries >= room || self.is_cut {
                self.objects.sort();
                self.prefixes = prefixes.into_iter().collect();
                return Ok(());
            }
            request.after = listed.next;
            request.objects_max = UNORDERED_NAMES_MAX;
        }
    }
}

/// The name up to the first delimiter after the prefix, which stands for all names below it.
fn folder_of<'n>(name: &'n str, prefix_len: usize, delimiter: &str) -> Option<&'n str> {
    let at = name[prefix_len..].find(delimiter)?;
    Some(&name[..prefix_len + at + delimiter.len()])
}

/// Size and time of an object; `None` if it was removed after it was listed.
async fn describe(pool: &dyn Pool, object: ObjectId) -> Result<Option<Value>> {
    let mut fields = json!({ "namespace": object.namespace(), "object": object.name() });
    match pool.stat(&object).await {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Ok((stat, _)) => {
            fields["size_bytes"] = json!(stat.size_bytes);
            fields["modified_unix_ns"] = json!(stat.modified_unix_ns);
        }
        // One damaged object does not hide the others.
        Err(error) => fields["error"] = json!(error.message()),
    }
    Ok(Some(fields))
}

pub async fn show(console: &Console<'_>, query: &Query) -> Result<Reply> {
    let pool = console.session.pool(query.required("pool")?).await?;
    let object = query.object()?;
    let head = Fetch::stat().and(Fetch::list_xattrs()).and(Fetch::read(0, Kind::HEAD_BYTES));
    let (((stat, xattrs), head), version) = pool.fetch(&object, head).await?;
    let shown = xattrs.iter().take(XATTRS_MAX).map(|(name, value)| {
        let mut fields = Map::new();
        fields.insert("name".to_owned(), json!(name));
        insert_value(&mut fields, "value", value);
        Value::Object(fields)
    });
    let xattrs_shown: Vec<Value> = shown.collect();
    Ok(json_reply(&json!({
        "pool": pool.name(),
        "namespace": object.namespace(),
        "object": object.name(),
        "size_bytes": stat.size_bytes,
        "modified_unix_ns": stat.modified_unix_ns,
        "version": version,
        "kind": Kind::of(&head, stat.size_bytes).name(),
        "xattrs": xattrs_shown,
        "xattrs_total": xattrs.len(),
        "striped": describe_striped(console, Arc::clone(&pool), object).await?,
    })))
}

/// The striped object whose first object this is.
async fn describe_striped(console: &Console<'_>, pool: Arc<dyn Pool>, object: ObjectId) -> Result<Value> {
    let Some(whole) = striped_object_of(object)? else { return Ok(Value::Null) };
    let name = whole.name().to_owned();
    let at = crate::commands::striped_object(console.session, pool, whole).await?;
    Ok(match at.read_head().await?.map(|head| head.state) {
        Some(StripedState::Complete { layout, size_bytes, .. }) => {
            json!({ "object": name, "size_bytes": size_bytes, "pieces": layout.pieces(size_bytes) })
        }
        _ => Value::Null,
    })
}

pub async fn omap(console: &Console<'_>, query: &Query) -> Result<Reply> {
    let pool = console.session.pool(query.required("pool")?).await?;
    let object = query.object()?;
    let entries_max = query.number("limit", PAGE_DEFAULT, PAGE_MAX.min(limits::OMAP_PAGE_ENTRIES_MAX))?;
    let after = query.bytes("after")?.map(Bytes::from);
    let prefix = query.text("prefix").to_owned();
    let (page, _) = pool.fetch(&object, Fetch::omap_range(after, prefix, entries_max)).await?;
    let next = page.entries.last().filter(|_| page.more).map(|(key, _)| units::hex(key));
    let entries = page.entries.iter().map(|(key, value)| {
        let mut fields = Map::new();
        insert_bytes(&mut fields, "key", key);
        insert_value(&mut fields, "value", value);
        Value::Object(fields)
    });
    let entries: Vec<Value> = entries.collect();
    Ok(json_reply(&json!({ "entries": entries, "next": next })))
}

/// Inserts the beginning of a value, and its size.
pub fn insert_value(fields: &mut Map<String, Value>, key: &str, value: &[u8]) {
    insert_bytes(fields, key, beginning(value, VALUE_BYTES_MAX));
    fields.insert("size_bytes".to_owned(), json!(value.len()));
}

#[cfg(test)]
#[path = "objects_tests.rs"]
mod tests;
