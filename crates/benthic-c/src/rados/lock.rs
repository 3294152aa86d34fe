//! Locks, with the class `lock`. librados refuses a lock that its caller has already, and the
//! release of a lock that it does not have; the class allows both. So the list of holders is read
//! first. Another client cannot change the answer, because a lock belongs to one client.

use crate::rados::ioctx::Done;
use benthic_classes::lock::client::{HeldLock, LockRequest, break_lock, list};
use benthic_classes::lock::wire::ListedLock;
use benthic_core::{Error, ObjectId, OptionalExtension, Pool, Result};
use std::sync::Arc;

/// A holder may renew its lock.
pub const MAY_RENEW: u8 = 1;
/// Only a holder may take the lock.
pub const MUST_RENEW: u8 = 2;

/// # Errors
/// `AlreadyExists` if the client has the lock, `Busy` if others have it, `NotFound` if it must
/// renew a lock that it does not have.
pub async fn acquire(pool: Arc<dyn Pool>, object: ObjectId, request: LockRequest, flags: u8) -> Result<Done> {
    let is_held = is_held(&*pool, &object, &request.name, &request.owner, &request.cookie).await?;
    if is_held && flags & (MAY_RENEW | MUST_RENEW) == 0 {
        return Err(Error::already_exists("the client has the lock already"));
    }
    if !is_held && flags & MUST_RENEW != 0 {
        return Err(Error::not_found("the client does not have the lock"));
    }
    HeldLock::acquire(pool, object, request).await.map(|_| Done::new(0))
}

/// # Errors
/// `NotFound` if the client does not have the lock.
pub async fn release(
    pool: &dyn Pool,
    object: &ObjectId,
    name: &str,
    owner: &str,
    cookie: &str,
) -> Result<Done> {
    if !is_held(pool, object, name, owner, cookie).await? {
        return Err(Error::not_found("the client does not have the lock"));
    }
    break_lock(pool, object, name, owner, Some(cookie)).await?;
    Ok(Done::new(0))
}

/// The lock of a name, if it has a holder.
///
/// # Errors
/// Those of the class; `NotFound` if there is no object.
pub async fn find(pool: &dyn Pool, object: &ObjectId, name: &str) -> Result<Option<ListedLock>> {
    Ok(list(pool, object).await?.into_iter().find(|lock| lock.name == name))
}

async fn is_held(pool: &dyn Pool, object: &ObjectId, name: &str, owner: &str, cookie: &str) -> Result<bool> {
    let lock = find(pool, object, name).await.optional()?.flatten();
    let mut holders = lock.into_iter().flat_map(|lock| lock.holders);
    Ok(holders.any(|holder| holder.owner == owner && holder.cookie == cookie))
}
