//! Applications of pools: the names of the programs that use a pool, each with texts by key.
//!
//! A store has no properties of pools, so an object of a reserved namespace has them as one JSON
//! document. A change is written only over the version that it was made from. The limits and the
//! errors are those of Ceph's monitors.

use crate::rados::read::range;
use benthic_core::error::errno;
use benthic_core::names::APPLICATIONS_NAMESPACE;
use benthic_core::{Error, ErrorKind, ObjectId, Pool, Result, WriteOp};
use std::collections::BTreeMap;

/// Maximum length of a name, a key and a text.
pub const TEXT_BYTES_MAX: usize = 128;
const APPLICATIONS_MAX: usize = 4;
const KEYS_MAX: usize = 64;

/// The document of [`APPLICATIONS_MAX`] applications is smaller, even if JSON escapes every byte.
const DOCUMENT_BYTES_MAX: u64 = 1024 * 1024;

/// How often a change starts again because another client changed the document.
const ATTEMPTS: usize = 100;

/// The texts of each application, by key.
pub type Applications = BTreeMap<String, BTreeMap<String, String>>;

fn document() -> Result<ObjectId> {
    ObjectId::in_namespace(APPLICATIONS_NAMESPACE, "applications")
}

/// The applications of a pool.
///
/// # Errors
/// `Corrupt`; those of the pool.
pub async fn read(pool: &dyn Pool) -> Result<Applications> {
    Ok(read_version(pool).await?.0)
}

/// The applications of a pool, and the version of their document, if there is one.
async fn read_version(pool: &dyn Pool) -> Result<(Applications, Option<u64>)> {
    match range(pool, &document()?, 0, DOCUMENT_BYTES_MAX).await {
        Ok((found, version)) => {
            let damaged = |error: serde_json::Error| {
                Error::corrupt("the list of the pool's applications is damaged").with_source(error)
            };
            Ok((serde_json::from_slice(&found).map_err(damaged)?, Some(version)))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok((Applications::new(), None)),
        Err(error) => Err(error),
    }
}

/// Adds an application to a pool. Returns `-EPERM` if the pool has another one, unless forced, and
/// `-EINVAL` for one too many.
///
/// # Errors
/// `InvalidArgument` for an invalid name; those of the pool.
pub async fn enable(pool: &dyn Pool, name: &str, force: bool) -> Result<i32> {
    check(name)?;
    change(pool, |applications| {
        if applications.contains_key(name) {
            0
        } else if !applications.is_empty() && !force {
            -errno::EPERM
        } else if applications.len() >= APPLICATIONS_MAX {
            -errno::EINVAL
        } else {
            applications.insert(name.to_owned(), BTreeMap::new());
            0
        }
    })
    .await
}

/// Sets a text of an application, or removes it. Returns `-ENOENT` if the pool does not have the
/// application, and `-EINVAL` for one key too many.
///
/// # Errors
/// `InvalidArgument` for an invalid key; those of the pool.
pub async fn set(pool: &dyn Pool, name: &str, key: &str, text: Option<&str>) -> Result<i32> {
    check(key)?;
    change(pool, |applications| {
        let Some(texts) = applications.get_mut(name) else { return -errno::ENOENT };
        match text {
            Some(_) if texts.len() >= KEYS_MAX && !texts.contains_key(key) => return -errno::EINVAL,
            Some(text) => texts.insert(key.to_owned(), text.to_owned()),
            None => texts.remove(key),
        };
        0
    })
    .await
}

fn check(text: &str) -> Result<()> {
    if text.is_empty() || text.len() > TEXT_BYTES_MAX || text.contains('\0') {
        let message = "the name of an application or of a key has 1 to 128 bytes";
        return Err(Error::invalid_argument(message).with("name", text));
    }
    Ok(())
}

/// Changes the document, unless `edit` returns an errno.
async fn change(pool: &dyn Pool, edit: impl Fn(&mut Applications) -> i32) -> Result<i32> {
    let document = document()?;
    for _ in 0..ATTEMPTS {
        let (mut applications, version) = read_version(pool).await?;
        let result = edit(&mut applications);
        if result < 0 {
            return Ok(result);
        }
        let op = match version {
            Some(version) => WriteOp::new().assert_version(version),
            None => WriteOp::new().create(true),
        };
        let text = serde_json::to_vec(&applications)
            .map_err(|error| Error::internal("the applications cannot be encoded").with_source(error))?;
        match pool.write(&document, op.write_full(text)).await {
            Ok(_) => return Ok(0),
            Err(error) if matches!(error.kind(), ErrorKind::Conflict | ErrorKind::AlreadyExists) => {}
            Err(error) => return Err(error),
        }
    }
    Err(Error::busy("other clients changed the applications too often; try again"))
}
