//! Names for the pages of a view's listing, in the byte order of the keys.
//!
//! An engine that lists in the order of names (a directory) continues after any name, so a page
//! reads about as many names as it has entries, and skips the rest of a common prefix.
//!
//! Ceph lists in the order of a hash. So a page must see all names of the namespace: a *scan*. It
//! keeps the least entries up to a fixed size, a *window*, and the pages that follow come from the
//! window until it ends. A listing of `n` entries costs one scan for each window, not for each
//! page. Rejected: an index of the names, which every writer of the pool would have to maintain,
//! and a window of unlimited size.

use super::View;
use crate::sal::{Id, List};
use benthic_core::{Environment, Error, ListRequest, ListToken, ObjectId, Pool, Result};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::sync::Semaphore;

/// Names that the first listing after a skip requests; each further one requests twice as many.
const NAMES_FIRST: usize = 16;
const NAMES_MAX: usize = 1_000;

/// Limit on the entries of a window: about 80,000 keys of 40 bytes.
const WINDOW_BYTES_MAX: usize = 8 << 20;
/// Bytes that an entry takes beside its text.
const ENTRY_BYTES: usize = 64;
/// Windows that a gateway remembers.
const WINDOWS_MAX: usize = 4;
/// Concurrent scans of a gateway.
const SCANS_AT_ONCE: usize = 4;
/// After this time, the pages of a listing no longer come from its window.
const WINDOW_MS_MAX: u64 = 60_000;
/// Limit on the time of a scan. Most clients wait 60 seconds for an answer.
const SCAN_MS_MAX: u64 = 40_000;

/// A key or a common prefix.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Found {
    pub text: String,
    pub is_prefix: bool,
}

impl Found {
    /// The entry of a page for an object; `None` if the object is not on it.
    fn of(view: &View, list: &List, object: &ObjectId) -> Option<Found> {
        let key = view.key(object.name()).filter(|key| key.starts_with(&list.prefix))?;
        if list.is_passed(key) {
            return None;
        }
        Some(match list.common_prefix(key) {
            Some(prefix) => Found { text: prefix.to_owned(), is_prefix: true },
            None => Found { text: key.to_owned(), is_prefix: false },
        })
    }

    fn len_bytes(&self) -> usize {
        self.text.len() + ENTRY_BYTES
    }
}

/// The least entries after a position.
struct Window {
    bucket: Id,
    list: List,
    entries: Vec<Found>,
    /// Whether there are no further entries.
    is_complete: bool,
    scanned_ms: u64,
}

impl Window {
    /// The entries of a page, and whether it is the last; `None` if the window does not have them.
    fn page(&self, list: &List) -> Option<(Vec<Found>, bool)> {
        let start = self.entries.partition_point(|entry| list.is_passed(&entry.text));
        let rest = &self.entries[start..];
        let page: Vec<_> = rest.iter().take(list.entries_max as usize).cloned().collect();
        let is_last = self.is_complete && page.len() == rest.len();
        (self.is_complete || !page.is_empty()).then_some((page, is_last))
    }

    fn is_of(&self, bucket: Id, list: &List, now_ms: u64) -> bool {
        let key = |list: &List| list.after.as_ref().map(|after| after.key.clone());
        bucket == self.bucket
            && (&list.prefix, &list.delimiter) == (&self.list.prefix, &self.list.delimiter)
            && key(&self.list) <= key(list)
            && now_ms.saturating_sub(self.scanned_ms) <= WINDOW_MS_MAX
    }
}

pub(super) struct NameLists {
    windows: Mutex<Vec<Arc<Window>>>,
    scans: Semaphore,
    environment: Environment,
}

impl NameLists {
    pub fn new(environment: Environment) -> NameLists {
        NameLists { windows: Mutex::default(), scans: Semaphore::new(SCANS_AT_ONCE), environment }
    }

    /// The entries of a page, and whether it is the last. A page that is not the last has an entry.
    pub async fn page(
        &self,
        bucket: Id,
        pool: &dyn Pool,
        view: &View,
        list: &List,
    ) -> Result<(Vec<Found>, bool)> {
        if let Some(first) = view.object("-")
            && pool.token_after(&first).is_some()
        {
            return page_in_order(pool, view, list).await;
        }
        // The first page always shows the current objects.
        if list.after.is_some()
            && let Some(page) = self.cached_page(bucket, list)
        {
            return Ok(page);
        }
        let window = Arc::new(self.scan(bucket, pool, view, list).await?);
        let mut windows = self.windows.lock();
        windows.retain(|old| !window.is_of(old.bucket, &old.list, window.scanned_ms));
        if windows.len() >= WINDOWS_MAX {
            windows.remove(0);
        }
        windows.push(Arc::clone(&window));
        Ok(window.page(list).unwrap_or((Vec::new(), true)))
    }

    fn cached_page(&self, bucket: Id, list: &List) -> Option<(Vec<Found>, bool)> {
        let now_ms = self.environment.clock.monotonic_ms();
        let windows = self.windows.lock();
        let mut windows = windows.iter().filter(|window| window.is_of(bucket, list, now_ms));
        windows.find_map(|window| window.page(list))
    }

    async fn scan(&self, bucket: Id, pool: &dyn Pool, view: &View, list: &List) -> Result<Window> {
        let internal = |_| Error::internal("the limit on scans is closed");
        let _permit = self.scans.acquire().await.map_err(internal)?;
        let begun_ms = self.environment.clock.monotonic_ms();
        let mut least = BTreeSet::new();
        let mut len_bytes = 0;
        // The least entry that the window had no room for.
        let mut end: Option<Found> = None;
        let mut request = view.listing(&list.prefix);
        loop {
            let page = pool.list(request.clone()).await?;
            for object in &page.objects {
                let Some(entry) = Found::of(view, list, object) else { continue };
                if end.as_ref().is_some_and(|end| entry >= *end) {
                    continue;
                }
                let entry_bytes = entry.len_bytes();
                if least.insert(entry) {
                    len_bytes += entry_bytes;
                }
                while len_bytes > WINDOW_BYTES_MAX
                    && let Some(last) = least.pop_last()
                {
                    len_bytes -= last.len_bytes();
                    end = Some(last);
                }
            }
            let Some(next) = page.next else { break };
            request.after = Some(next);
            if self.environment.clock.monotonic_ms() - begun_ms > SCAN_MS_MAX {
                let message = "the namespace of the pool has too many objects for a listing, because the store \
                               lists them in no order; read objects by their names";
                return Err(Error::unsupported(message).with("seconds_max", SCAN_MS_MAX / 1_000));
            }
        }
        Ok(Window {
            bucket,
            list: list.clone(),
            entries: least.into_iter().collect(),
            is_complete: end.is_none(),
            scanned_ms: begun_ms,
        })
    }
}

/// A name after all names that begin with this prefix, unless they continue with the last character
/// of Unicode.
fn end_of(prefix: &str) -> String {
    format!("{prefix}{}", char::MAX)
}

async fn page_in_order(pool: &dyn Pool, view: &View, list: &List) -> Result<(Vec<Found>, bool)> {
    let token_after = |key: &str| view.object(key).and_then(|object| pool.token_after(&object));
    let after = list.after.as_ref().filter(|after| after.key > list.prefix);
    let start = match list.passed_prefix() {
        Some(prefix) => token_after(&end_of(prefix)),
        None => after.and_then(|after| token_after(&after.key)),
    };
    let request = view.listing(&list.prefix);
    let mut request = ListRequest { after: start, objects_max: NAMES_FIRST, ..request };
    // The first page is probably full.
    if list.delimiter.is_empty() {
        request.objects_max = NAMES_MAX;
    }
    let mut found: Vec<Found> = Vec::new();
    loop {
        let page = pool.list(request.clone()).await?;
        for object in &page.objects {
            let Some(entry) = Found::of(view, list, object) else { continue };
            if found.last() == Some(&entry) {
                continue;
            }
            if found.len() >= list.entries_max as usize {
                return Ok((found, false));
            }
            found.push(entry);
        }
        let Some(next) = page.next else { return Ok((found, true)) };
        let last = page.objects.last().and_then(|object| view.key(object.name()));
        let skip = found.last().filter(|entry| entry.is_prefix).and_then(|entry| {
            let end = end_of(&entry.text);
            // Never back to a name that was listed.
            let is_within = last.is_some_and(|last| last.starts_with(&entry.text) && last < end.as_str());
            if is_within { token_after(&end) } else { None }
        });
        (request.after, request.objects_max) = continue_after(skip, next, request.objects_max);
    }
}

/// Where a listing continues, and how many names it requests.
fn continue_after(
    skip: Option<ListToken>,
    next: ListToken,
    objects_max: usize,
) -> (Option<ListToken>, usize) {
    match skip {
        Some(token) => (Some(token), NAMES_FIRST),
        None => (Some(next), (objects_max * 2).min(NAMES_MAX)),
    }
}
