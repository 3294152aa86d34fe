//! The rule for the names of images, snapshots and groups.

use benthic_core::{Error, Result, names::check_pool_name};
use std::fmt;
use std::str::FromStr;

/// Limit of an image's and of a snapshot's name, in bytes of UTF-8.
pub const NAME_BYTES_MAX: usize = 128;

/// Checks an image's name: 1 to 128 bytes, no `/`, `@` or control characters, and no leading `-`.
///
/// # Errors
/// `InvalidArgument`, `LimitExceeded`.
pub fn check_image_name(name: &str) -> Result<()> {
    check("image", name)
}

/// Checks a snapshot's name, by the rule of [`check_image_name`].
///
/// # Errors
/// `InvalidArgument`, `LimitExceeded`.
pub fn check_snapshot_name(name: &str) -> Result<()> {
    check("snapshot", name)
}

/// Checks a group's name, by the rule of [`check_image_name`].
///
/// # Errors
/// `InvalidArgument`, `LimitExceeded`.
pub fn check_group_name(name: &str) -> Result<()> {
    check("group", name)
}

fn check(what: &'static str, name: &str) -> Result<()> {
    if name.len() > NAME_BYTES_MAX {
        let message = format!("the {what}'s name is longer than {NAME_BYTES_MAX} bytes");
        return Err(Error::limit_exceeded(message).with("bytes", name.len()));
    }
    let is_bad = |c: char| c == '/' || c == '@' || c.is_control();
    if name.is_empty() || name.contains(is_bad) || name.starts_with('-') {
        let message = format!(
            "the {what}'s name must not be empty, start with '-' or contain '/', '@' or control characters"
        );
        return Err(Error::invalid_argument(message).with(what, name));
    }
    Ok(())
}

/// `POOL/IMAGE` or `POOL/IMAGE@SNAPSHOT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageAddress {
    pub pool: String,
    pub image: String,
    pub snapshot: Option<String>,
}

impl FromStr for ImageAddress {
    type Err = Error;

    fn from_str(text: &str) -> Result<ImageAddress> {
        let Some((pool, rest)) = text.split_once('/') else {
            let message = "an image's address is POOL/IMAGE, or POOL/IMAGE@SNAPSHOT";
            return Err(Error::invalid_argument(message).with("address", text));
        };
        if rest.contains('/') {
            let message = "an image's address has one '/'; use `rbd` for images in RADOS namespaces";
            return Err(Error::invalid_argument(message).with("address", text));
        }
        let (image, snapshot) = match rest.split_once('@') {
            Some((image, snapshot)) => (image, Some(snapshot)),
            None => (rest, None),
        };
        check_pool_name(pool)?;
        check_image_name(image)?;
        snapshot.map_or(Ok(()), check_snapshot_name)?;
        Ok(ImageAddress {
            pool: pool.to_owned(),
            image: image.to_owned(),
            snapshot: snapshot.map(str::to_owned),
        })
    }
}

impl fmt::Display for ImageAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.pool, self.image)?;
        self.snapshot.as_ref().map_or(Ok(()), |snapshot| write!(f, "@{snapshot}"))
    }
}

#[cfg(test)]
#[path = "names_tests.rs"]
mod tests;
