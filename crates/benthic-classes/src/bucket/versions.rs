//! Creates, removes and reads versions of keys.

use super::codec::Version;
use super::events::{check_events, enqueue};
use super::keys;
use super::locks::Lock;
use super::shard::{Removal, Shard, add, conflict, not_found, subtract};
use super::state::{Body, Current, Head, Intent, Write};
use super::wire::{
    ATTRIBUTES_BYTES_MAX, BODY_INLINE_BYTES_MAX, Change, Condition, Delete, Get, Mode, NewEvent, Put,
    Reserve, SetAttributes, Times, Transition, check_attributes, check_class, check_etag, check_key,
};
use benthic_core::codec::Wire;
use benthic_core::{MethodContext, Result};

pub(super) fn put(context: &mut MethodContext<'_>, input: &[u8]) -> Result<Vec<u8>> {
    let input = Put::from_input(input)?;
    check_key(&input.key)?;
    check_etag(&input.etag)?;
    check_class(input.class.as_deref())?;
    check_attributes(&input.body.attributes, ATTRIBUTES_BYTES_MAX)?;
    input.body.manifest.check()?;
    check_events(&input.events)?;
    let mut shard = Shard::open(context)?;
    if shard.is_done(input.write, !input.body.manifest.segments.is_empty())? {
        return Ok(Vec::new());
    }
    shard.check_open()?;
    let current = shard.current(&input.key)?;
    check_condition(&input.condition, current.as_ref().map(|current| &current.head), true)?;
    let mut body = input.body;
    shard.add_default_retention(&mut body.attributes, input.default_retention, input.times.now_ms)?;
    let new = NewVersion {
        write: input.write,
        etag: input.etag,
        class: input.class,
        body: Some(body),
        events: &input.events,
    };
    install(&mut shard, &input.key, current, new, input.mode, &input.times)?;
    if let Some(Reserve { write, expires_ms }) = input.reserve {
        if shard.get::<Write>(&keys::write(write))?.is_some() {
            return Err(conflict("the id of the reserved write is already in use"));
        }
        let intent = Intent { expires_ms, chunks: 1, class: None, shared: None };
        shard.set(keys::write(write), &Write::Intent(intent));
    }
    shard.finish()
}

/// A version to create; without a body it is a delete marker.
pub(super) struct NewVersion<'a> {
    pub write: super::codec::Id,
    pub etag: String,
    pub class: Option<String>,
    pub body: Option<Body>,
    pub events: &'a [NewEvent],
}

/// Makes a version the current one, and keeps or retires the versions it replaces.
pub(super) fn install(
    shard: &mut Shard<'_, '_>,
    key: &str,
    old: Option<Current>,
    new: NewVersion<'_>,
    mode: Mode,
    times: &Times,
) -> Result<()> {
    let null = mode != Mode::Enabled;
    let marker = new.body.is_none();
    let body = new.body.unwrap_or_default();
    let mut head = Head {
        version: Version,
        seq: shard.next_seq()?,
        null,
        marker,
        write: new.write,
        size_bytes: body.manifest.size_bytes(),
        modified_ms: times.now_ms,
        revision: 0,
        etag: new.etag,
        class: new.class,
        body: None,
    };
    let removal = Removal::new(times, false);
    let mut null_seq = 0;
    if let Some(old) = old {
        if !old.head.marker {
            subtract(&mut shard.header.usage.objects, 1)?;
        }
        if null && old.head.null {
            shard.retire(&old.head, removal)?;
        } else {
            shard.set(keys::older(key, old.head.seq), &old.head);
            null_seq = if old.head.null { old.head.seq } else { old.null_seq };
        }
        if null && null_seq != 0 {
            let older = keys::older(key, null_seq);
            if let Some(replaced) = shard.get::<Head>(&older)? {
                shard.retire(&replaced, removal)?;
            }
            shard.remove(older);
            null_seq = 0;
        }
    }
    let usage = &mut shard.header.usage;
    if marker {
        add(&mut usage.markers, 1)?;
    } else {
        add(&mut usage.objects, 1)?;
        add(&mut usage.versions, 1)?;
        add(&mut usage.bytes, head.size_bytes)?;
        place_body(shard, &mut head, body);
    }
    let change = if marker { Change::MarkerCreated } else { Change::Created };
    enqueue(shard, new.events, (change, new.write), key, &head, times.now_ms)?;
    shard.note_outcome(new.write, times, &head);
    shard.set(keys::current(key), &Current { null_seq, head });
    Ok(())
}

/// Stores a body in the version's entry, or separately if it is large, so that listings skip it.
pub(super) fn place_body(shard: &mut Shard<'_, '_>, head: &mut Head, body: Body) {
    if body.encode().len() <= BODY_INLINE_BYTES_MAX {
        head.body = Some(body);
    } else {
        shard.set(keys::body(head.seq), &body);
    }
}

/// Checks the condition of a write. `Conflict` if it does not hold; `NotFound` if it requires an
/// object that does not exist.
pub(super) fn check_condition(condition: &Condition, head: Option<&Head>, is_current: bool) -> Result<()> {
    let object = head.filter(|head| !head.marker);
    match (condition, object) {
        (Condition::Current(seen) | Condition::Replaced(seen), _) => {
            let is_same = |head: &Head| (head.write, head.revision) == (seen.write, seen.revision);
            let wants_current = matches!(condition, Condition::Current(_));
            if head.is_some_and(is_same) && is_current == wants_current {
                return Ok(());
            }
            Err(conflict("the version has changed"))
        }
        (Condition::Always, _)
        | (Condition::Absent | Condition::Differs(_), None)
        | (Condition::Exists, Some(_)) => Ok(()),
        (Condition::Matches(etag), Some(object)) if object.etag == *etag => Ok(()),
        (Condition::Differs(etag), Some(object)) if object.etag != *etag => Ok(()),
        (Condition::Exists | Condition::Matches(_), None) => Err(not_found("the object does not exist")),
        (Condition::Absent, Some(_)) => Err(conflict("the object already exists")),
        (Condition::Matches(_) | Condition::Differs(_), Some(_)) => {
            Err(conflict("the object's entity tag does not meet the condition"))
        }
    }
}

pub(super) fn delete(context: &mut MethodContext<'_>, input: &[u8]) -> Result<Vec<u8>> {
    let input = Delete::from_input(input)?;
    check_key(&input.key)?;
    check_events(&input.events)?;
    let mut shard = Shard::open(context)?;
    if shard.is_done(input.write, false)? {
        return Ok(Vec::new());
    }
    shard.check_open()?;
    if input.due_ms.is_some_and(|due_ms| shard.lock_time_ms(input.times.now_ms) < due_ms) {
        return Err(conflict("the deletion is not due yet"));
    }
    let current = shard.current(&input.key)?;
    let version = match input.version {
        Some(version) => version,
        None => {
            check_condition(&input.condition, current.as_ref().map(|current| &current.head), true)?;
            let plain = input.mode == Mode::Off && shard.newest_older(&input.key)?.is_none();
            match &current {
                None if plain => return Ok(Vec::new()),
                Some(current) if plain && current.head.null => current.head.version_ref(),
                _ => {
                    let marker = NewVersion {
                        write: input.write,
                        etag: String::new(),
                        class: None,
                        body: None,
                        events: &input.events,
                    };
                    install(&mut shard, &input.key, current, marker, input.mode, &input.times)?;
                    return shard.finish();
                }
            }
        }
    };
    let head = shard.version(&input.key, version)?;
    if input.version.is_some() {
        let is_current =
            current.as_ref().map(|current| current.head.seq) == head.as_ref().map(|head| head.seq);
        check_condition(&input.condition, head.as_ref(), is_current)?;
    }
    // A missing version counts as deleted.
    let (Some(current), Some(head)) = (current, head) else { return Ok(Vec::new()) };
    remove(&mut shard, &input.key, current, &head)?;
    shard.retire(&head, Removal::new(&input.times, input.bypass_governance))?;
    let change = (Change::Removed, input.write);
    enqueue(&mut shard, &input.events, change, &input.key, &head, input.times.now_ms)?;
    shard.note_outcome(input.write, &input.times, &head);
    shard.finish()
}

/// Removes a version from its key. If it was the current one, the newest of the others becomes
/// current.
fn remove(shard: &mut Shard<'_, '_>, key: &str, current: Current, head: &Head) -> Result<()> {
    if head.seq != current.head.seq {
        shard.remove(keys::older(key, head.seq));
        if head.null {
            shard.set(keys::current(key), &Current { null_seq: 0, ..current });
        }
        return Ok(());
    }
    if !head.marker {
        subtract(&mut shard.header.usage.objects, 1)?;
    }
    let Some(next) = shard.newest_older(key)? else {
        shard.remove(keys::current(key));
        return Ok(());
    };
    shard.remove(keys::older(key, next.seq));
    if !next.marker {
        add(&mut shard.header.usage.objects, 1)?;
    }
    let null_seq = if next.null { 0 } else { current.null_seq };
    shard.set(keys::current(key), &Current { null_seq, head: next });
    Ok(())
}

pub(super) fn set_attributes(context: &mut MethodContext<'_>, input: &[u8]) -> Result<Vec<u8>> {
    let input = SetAttributes::from_input(input)?;
    check_key(&input.key)?;
    check_attributes(&input.attributes, ATTRIBUTES_BYTES_MAX)?;
    let mut shard = Shard::open(context)?;
    shard.check_open()?;
    let head = shard.version(&input.key, input.version)?;
    let head = head.filter(|head| head.write == input.write && !head.marker);
    let mut head = head.ok_or_else(|| not_found("the version does not exist"))?;
    let mut body = shard.body(&head)?;
    if Some(head.revision) == input.revision.checked_add(1) && body.attributes == input.attributes {
        // A repeated call: the change is already done.
        return Ok(Vec::new());
    }
    if head.revision != input.revision {
        return Err(conflict("the attributes were changed; read them again"));
    }
    let (old, new) = (Lock::of(&body.attributes)?, Lock::of(&input.attributes)?);
    old.check_change(&new, shard.lock_time_ms(input.now_ms), input.bypass_governance)?;
    head.revision =
        head.revision.checked_add(1).ok_or_else(|| conflict("the attributes were changed too often"))?;
    body.attributes = input.attributes;
    store_version(&mut shard, &input.key, head, body)?;
    shard.finish()
}

/// Stores a changed version in its old place.
fn store_version(shard: &mut Shard<'_, '_>, key: &str, mut head: Head, body: Body) -> Result<()> {
    if head.body.take().is_none() {
        shard.remove(keys::body(head.seq));
    }
    place_body(shard, &mut head, body);
    match shard.current(key)? {
        Some(current) if current.head.seq == head.seq => {
            shard.set(keys::current(key), &Current { head, ..current });
        }
        _ => shard.set(keys::older(key, head.seq), &head),
    }
    Ok(())
}

/// Makes copied data those of a version, in another storage class. Locks permit this: the version
/// keeps its data, attributes and times.
pub(super) fn transition(context: &mut MethodContext<'_>, input: &[u8]) -> Result<Vec<u8>> {
    let input = Transition::from_input(input)?;
    check_key(&input.key)?;
    check_class(input.class.as_deref())?;
    check_events(&input.events)?;
    let mut shard = Shard::open(context)?;
    if shard.is_done(input.write, false)? {
        return Ok(Vec::new());
    }
    shard.check_open()?;
    if input.due_ms.is_some_and(|due_ms| shard.lock_time_ms(input.times.now_ms) < due_ms) {
        return Err(conflict("the transition is not due yet"));
    }
    let head = shard.version(&input.key, input.version)?.filter(|head| !head.marker);
    let mut head = head.ok_or_else(|| not_found("the version does not exist"))?;
    let current = shard.current(&input.key)?;
    let is_current = current.is_some_and(|current| current.head.seq == head.seq);
    check_condition(&input.condition, Some(&head), is_current)?;
    let mut body = shard.body(&head)?;
    if body.manifest.data_id(head.write) != input.data || head.size_bytes != input.size_bytes {
        return Err(conflict("the data of the version were moved or extended meanwhile"));
    }
    let has_data = !body.manifest.segments.is_empty();
    shard.is_done(input.write, has_data)?;
    let Removal { free_at_ms, .. } = Removal::new(&input.times, false);
    shard.drop_data(&head, &body.manifest, free_at_ms)?;
    body.manifest.shared = None;
    body.manifest.moved = has_data.then_some(input.write);
    head.class = input.class;
    let change = (Change::Moved, input.write);
    enqueue(&mut shard, &input.events, change, &input.key, &head, input.times.now_ms)?;
    shard.note_outcome(input.write, &input.times, &head);
    store_version(&mut shard, &input.key, head, body)?;
    shard.finish()
}

pub(super) fn get(context: &mut MethodContext<'_>, input: &[u8]) -> Result<Vec<u8>> {
    let input = Get::from_input(input)?;
    check_key(&input.key)?;
    let mut shard = Shard::open(context)?;
    let head = match input.version {
        Some(version) => shard.version(&input.key, version)?,
        None => shard.current(&input.key)?.map(|current| current.head),
    };
    let mut head = head.ok_or_else(|| not_found("there is no such object or version"))?;
    if head.body.is_none() {
        head.body = Some(shard.body(&head)?);
    }
    Ok(head.encode().to_vec())
}
