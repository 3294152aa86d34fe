//! Names of pools and objects, and the address syntax for people.

use crate::{Error, Result, limits};
use std::{fmt, str::FromStr};

/// Quotes a word for a shell if it needs quotes.
pub fn shell_word(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+@,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// An object's identity within a pool: its namespace (mostly empty) and its name.
///
/// Both are valid by construction: UTF-8 without NUL and within the [limits]. The name is not
/// empty. Names are data, not paths: `/` and `..` have no special meaning.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectId {
    namespace: String,
    name: String,
}

impl ObjectId {
    /// An object in the default namespace.
    ///
    /// # Errors
    /// `InvalidArgument` for an empty name or a NUL, `LimitExceeded` for a name over the limit.
    pub fn new(name: impl Into<String>) -> Result<ObjectId> {
        ObjectId::in_namespace("", name)
    }

    /// An object in `namespace`; the empty namespace is the default one.
    ///
    /// # Errors
    /// As [`ObjectId::new`].
    pub fn in_namespace(namespace: impl Into<String>, name: impl Into<String>) -> Result<ObjectId> {
        let (namespace, name) = (namespace.into(), name.into());
        check_namespace(&namespace)?;
        check_name("object name", &name, limits::OBJECT_NAME_BYTES_MAX)?;
        Ok(ObjectId { namespace, name })
    }

    /// The namespace; empty for the default one.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    pub fn name(&self) -> &str {
        &self.name
    }
}

/// `NAME` or `:NS/NAME`: the part of an address after the pool.
impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.namespace.is_empty() {
            write!(f, ":{}/", self.namespace)?;
        }
        f.write_str(&self.name)
    }
}

/// Checks a namespace: at most 256 bytes and no NUL. The empty namespace is the default one.
///
/// # Errors
/// `InvalidArgument`, `LimitExceeded`.
pub fn check_namespace(namespace: &str) -> Result<()> {
    if namespace.is_empty() {
        return Ok(());
    }
    check_name("namespace", namespace, limits::NAMESPACE_BYTES_MAX)
}

/// The prefix of namespaces that Benthic reserves for tables and other structures made of objects.
/// Listings of all namespaces omit them, and tools for single objects do not write to them.
pub const RESERVED_NAMESPACE_PREFIX: &str = "benthic.";

/// The reserved namespace that holds the heads of a pool's tables, each under the table's name.
pub const TABLES_NAMESPACE: &str = "benthic.tables";

/// The reserved namespace that holds the index of S3 buckets, by default.
pub const S3_NAMESPACE: &str = "benthic.s3";

/// The reserved namespace that holds the classes that users deployed to a pool, and their modules.
pub const CLASSES_NAMESPACE: &str = "benthic.classes";

/// The reserved namespace that holds a pool's block images.
pub const IMAGES_NAMESPACE: &str = "benthic.images";

/// The reserved namespace in which librados' API on a store keeps the applications of a pool.
pub const APPLICATIONS_NAMESPACE: &str = "benthic.applications";

/// Returns true if Benthic reserves the namespace; see [`RESERVED_NAMESPACE_PREFIX`].
pub fn is_reserved_namespace(namespace: &str) -> bool {
    namespace.starts_with(RESERVED_NAMESPACE_PREFIX)
}

/// Checks a pool name: 1 to 128 bytes, no `/`, `:` or control characters, and no leading `-` or
/// `.`.
///
/// # Errors
/// `InvalidArgument`, `LimitExceeded`.
pub fn check_pool_name(name: &str) -> Result<()> {
    check_name("pool name", name, limits::POOL_NAME_BYTES_MAX)?;
    if name.contains(|c: char| c == '/' || c == ':' || c.is_control()) || name.starts_with(['-', '.']) {
        let message = "a pool name has no '/', ':' or control character and does not start with '-' or '.'";
        return Err(Error::invalid_argument(message).with("pool", name));
    }
    Ok(())
}

/// Checks the name of an extended attribute.
///
/// # Errors
/// `InvalidArgument`, `LimitExceeded`.
pub fn check_xattr_name(name: &str) -> Result<()> {
    check_name("attribute name", name, limits::XATTR_NAME_BYTES_MAX)
}

/// Checks a class or method name.
///
/// # Errors
/// `InvalidArgument`, `LimitExceeded`.
pub fn check_class_name(name: &str) -> Result<()> {
    check_name("class or method name", name, limits::CLASS_NAME_BYTES_MAX)
}

fn check_name(what: &'static str, name: &str, len_bytes_max: usize) -> Result<()> {
    if name.is_empty() {
        return Err(Error::invalid_argument(format!("{what} is empty")));
    }
    if name.len() > len_bytes_max {
        return Err(Error::limit_exceeded(format!("{what} is too long"))
            .with("len_bytes", name.len())
            .with("len_bytes_max", len_bytes_max));
    }
    if name.contains('\0') {
        return Err(Error::invalid_argument(format!("{what} contains a NUL")).with("name", name));
    }
    Ok(())
}

/// A typed address: `POOL/OBJECT` or `POOL:NS/OBJECT`. The pool ends at the first `/`; the rest is
/// the object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectAddress {
    pub pool: String,
    pub object: ObjectId,
}

impl FromStr for ObjectAddress {
    type Err = Error;

    fn from_str(text: &str) -> Result<ObjectAddress> {
        let Some((pool, name)) = text.split_once('/') else {
            return Err(
                Error::invalid_argument("an object is POOL/OBJECT or POOL:NS/OBJECT").with("got", text)
            );
        };
        let PoolAddress { pool, namespace } = pool.parse()?;
        Ok(ObjectAddress { pool, object: ObjectId::in_namespace(namespace, name)? })
    }
}

impl fmt::Display for ObjectAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.object.namespace() {
            "" => write!(f, "{}/{}", self.pool, self.object.name()),
            namespace => write!(f, "{}:{namespace}/{}", self.pool, self.object.name()),
        }
    }
}

/// A typed address: `POOL` or `POOL:NS`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolAddress {
    pub pool: String,
    /// Empty for the default namespace.
    pub namespace: String,
}

impl FromStr for PoolAddress {
    type Err = Error;

    fn from_str(text: &str) -> Result<PoolAddress> {
        let (pool, namespace) = text.split_once(':').unwrap_or((text, ""));
        check_pool_name(pool)?;
        check_namespace(namespace)?;
        if namespace.contains('/') {
            return Err(Error::invalid_argument("a namespace in an address has no '/'").with("got", text));
        }
        Ok(PoolAddress { pool: pool.to_owned(), namespace: namespace.to_owned() })
    }
}

#[cfg(test)]
#[path = "names_tests.rs"]
mod tests;
