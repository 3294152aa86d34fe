//! The part of a pool that a view shows: `POOL[:NS][/PREFIX]`.

use super::VIEW;
use crate::sal::Bucket;
use crate::sal::limits::KEY_BYTES_MAX;
use benthic_core::names::is_reserved_namespace;
use benthic_core::{Error, ListRequest, Namespaces, ObjectId, PoolAddress, Result};
use std::fmt;
use std::str::FromStr;

/// The objects that a view shows. The key of an object is its name without the prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    pub pool: String,
    /// Empty for the default namespace.
    pub namespace: String,
    /// Empty, or ends with `/`.
    pub prefix: String,
}

impl View {
    /// The view that a bucket is; `None` for other buckets.
    ///
    /// # Errors
    /// `Corrupt`.
    pub fn of(bucket: &Bucket) -> Result<Option<View>> {
        let Some(text) = bucket.attributes.get(VIEW) else { return Ok(None) };
        let view = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
        let error = || Error::corrupt("the address of a view is invalid");
        view.map(Some).ok_or_else(|| error().with("bucket", &bucket.name))
    }

    /// The object with a key; `None` if no object can have it.
    pub(super) fn object(&self, key: &str) -> Option<ObjectId> {
        if key.is_empty() || key.len() > KEY_BYTES_MAX {
            return None;
        }
        ObjectId::in_namespace(self.namespace.clone(), format!("{}{key}", self.prefix)).ok()
    }

    /// The key of an object's name. A name without a key is not shown.
    pub(super) fn key<'n>(&self, name: &'n str) -> Option<&'n str> {
        name.strip_prefix(&self.prefix).filter(|key| (1..=KEY_BYTES_MAX).contains(&key.len()))
    }

    /// A listing of the objects whose keys have a prefix.
    pub(super) fn listing(&self, prefix: &str) -> ListRequest {
        ListRequest {
            namespaces: Namespaces::One(self.namespace.clone()),
            prefix: format!("{}{prefix}", self.prefix),
            ..ListRequest::default()
        }
    }
}

impl FromStr for View {
    type Err = Error;

    fn from_str(text: &str) -> Result<View> {
        let (pool, prefix) = text.split_once('/').unwrap_or((text, ""));
        let PoolAddress { pool, namespace } = pool.parse()?;
        if is_reserved_namespace(&namespace) {
            let message = "a view cannot show a namespace that Benthic reserves";
            return Err(Error::invalid_argument(message).with("namespace", namespace));
        }
        let mut prefix = prefix.to_owned();
        if !prefix.is_empty() && !prefix.ends_with('/') {
            prefix.push('/');
        }
        if !prefix.is_empty() {
            ObjectId::new(prefix.as_str())?;
        }
        Ok(View { pool, namespace, prefix })
    }
}

impl fmt::Display for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.pool)?;
        if !self.namespace.is_empty() {
            write!(f, ":{}", self.namespace)?;
        }
        write!(f, "/{}", self.prefix)
    }
}
