//! Lists a pool page by page.
//!
//! Ceph orders a pool's objects by a 32-bit hash, then by namespace and name. Its C interface has
//! cursors in that order, but no cursor outlives the process. So a list token stores a position
//! that another process can find again: the hash as a number. The client computes the hash by
//! comparing the cursor with the cursors of `2^32` equal slices, without a message to the cluster.
//! If a page ends between objects of the same hash, the token also names the last of them. Such a
//! token stays valid when objects are created and removed, when placement groups split, and in
//! another process.

use crate::errors;
use crate::ffi::{Cursor, IoCtx, ListedObject};
use benthic_core::{
    Action, Clock, Error, ListPage, ListRequest, ListToken, Namespaces, ObjectId, Result, Stopwatch, limits,
    names,
};
use std::time::Duration;

/// The name by which librados selects all namespaces.
pub(crate) const ALL_NAMESPACES: &str = "\u{1}";

const HASHES: usize = 1 << 32;

/// Limit of round trips per page, so that a rare prefix cannot occupy a thread for long. Each round
/// trip covers a placement group, or as many objects as the page still needs.
const CALLS_MAX: usize = 256;

/// A page ends after this time with the objects found so far, so that slow OSDs cause short pages
/// instead of time-outs.
pub(crate) const PAGE_TIME: Duration = Duration::from_secs(5);

/// Prefix of every token, so that tokens of other engines are refused.
const TOKEN_MARK: &[u8] = b"rados1";

/// The position in the order of objects at which a listing continues.
#[derive(Debug, PartialEq, Eq)]
struct Position {
    /// Objects with a smaller hash are already listed.
    hash: u32,
    /// Namespace and name of the last listed object with this hash.
    last: Option<(Vec<u8>, Vec<u8>)>,
}

pub(crate) struct Listing {
    request: ListRequest,
    objects_max: usize,
    start: Position,
}

impl Listing {
    /// Checks the request.
    ///
    /// # Errors
    /// `InvalidArgument`, `LimitExceeded`.
    pub fn new(request: &ListRequest) -> Result<Listing> {
        if let Namespaces::One(namespace) = &request.namespaces {
            names::check_namespace(namespace)?;
        }
        let start = match &request.after {
            Some(token) => Position::decode(token)?,
            None => Position { hash: 0, last: None },
        };
        let objects_max = request.objects_max.clamp(1, limits::LIST_PAGE_OBJECTS_MAX);
        Ok(Listing { request: request.clone(), objects_max, start })
    }

    /// The requested namespace; `None` for all.
    pub fn namespace(&self) -> Option<&str> {
        match &self.request.namespaces {
            Namespaces::One(namespace) => Some(namespace),
            Namespaces::All => None,
        }
    }

    /// Lists the page; blocks.
    pub fn page(&self, context: &IoCtx, clock: &dyn Clock) -> Result<ListPage> {
        let stopwatch = Stopwatch::start(clock);
        let mut page = ListPage::default();
        let end = context.end();
        let mut from = context.slice(self.start.hash as usize, HASHES);
        if let Some(last) = &self.start.last {
            // Few objects share a hash: the objects of one pool spread over 2^32 hashes.
            let same_hash = context.slice(self.start.hash as usize + 1, HASHES);
            let (listed, next) = list(context, &from, &same_hash, limits::LIST_PAGE_OBJECTS_MAX)?;
            let left: Vec<_> = listed
                .into_iter()
                .filter(|object| (&object.namespace[..], &object.name[..]) > (&last.0[..], &last.1[..]))
                .collect();
            let room = self.objects_max;
            for object in left.iter().take(room) {
                self.take(&mut page, object);
            }
            if let Some(object) = left.get(room.wrapping_sub(1)).filter(|_| left.len() > room) {
                let last = Some((object.namespace.clone(), object.name.clone()));
                page.next = Some(Position { hash: self.start.hash, last }.encode());
                return Ok(page);
            }
            drop(next);
            from = same_hash;
            if from.is_end() {
                return Ok(page);
            }
        }
        for _ in 0..CALLS_MAX {
            if page.objects.len() == self.objects_max || stopwatch.elapsed() >= PAGE_TIME {
                break;
            }
            let (listed, next) = list(context, &from, &end, self.objects_max - page.objects.len())?;
            for object in &listed {
                self.take(&mut page, object);
            }
            from = next;
            if from.is_end() {
                return Ok(page);
            }
        }
        page.next = Some(position_of(context, &from)?.encode());
        Ok(page)
    }

    fn take(&self, page: &mut ListPage, object: &ListedObject) {
        // The name alone does not find an object that has a locator. A name that is not UTF-8 has
        // no `ObjectId`.
        if !object.locator.is_empty() || object.namespace == ALL_NAMESPACES.as_bytes() {
            return;
        }
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).ok();
        let (Some(namespace), Some(name)) = (text(&object.namespace), text(&object.name)) else { return };
        if !name.starts_with(&self.request.prefix) {
            return;
        }
        if let Ok(id) = ObjectId::in_namespace(namespace, name) {
            page.objects.push(id);
        }
    }
}

fn list<'a>(
    context: &'a IoCtx,
    from: &Cursor<'_>,
    to: &Cursor<'_>,
    objects_max: usize,
) -> Result<(Vec<ListedObject>, Cursor<'a>)> {
    context.list(from, to, objects_max).map_err(|number| errors::of_operation(number, Action::Read))
}

/// The position of a cursor that is not at the end.
fn position_of(context: &IoCtx, cursor: &Cursor<'_>) -> Result<Position> {
    let (mut low, mut high) = (0, HASHES);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if context.slice(middle, HASHES).order(cursor).is_le() {
            low = middle;
        } else {
            high = middle;
        }
    }
    let hash = u32::try_from(low).unwrap_or(u32::MAX);
    let start = context.slice(low, HASHES);
    // Only a cursor inside a hash can have objects of the same hash before it.
    let last = if start.order(cursor).is_eq() {
        None
    } else {
        let (before, _) = list(context, &start, cursor, limits::LIST_PAGE_OBJECTS_MAX)?;
        before.into_iter().next_back().map(|object| (object.namespace, object.name))
    };
    Ok(Position { hash, last })
}

impl Position {
    fn encode(&self) -> ListToken {
        let mut token = TOKEN_MARK.to_vec();
        token.extend_from_slice(&self.hash.to_le_bytes());
        if let Some((namespace, name)) = &self.last {
            token.extend_from_slice(namespace);
            token.push(0);
            token.extend_from_slice(name);
        }
        ListToken(token.into())
    }

    fn decode(token: &ListToken) -> Result<Position> {
        let decoded = || {
            let (hash, last) = token.0.strip_prefix(TOKEN_MARK)?.split_first_chunk()?;
            let last = match last.iter().position(|byte| *byte == 0) {
                _ if last.is_empty() => None,
                Some(at) if at + 1 < last.len() => Some((last[..at].to_vec(), last[at + 1..].to_vec())),
                _ => return None,
            };
            Some(Position { hash: u32::from_le_bytes(*hash), last })
        };
        decoded().ok_or_else(|| {
            Error::invalid_argument("the token is not from a listing of this engine; list again without it")
        })
    }
}

#[cfg(test)]
#[path = "listing_tests.rs"]
mod tests;
