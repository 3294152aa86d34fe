//! Addresses of arrays and groups, as people type them.

use benthic_core::{Error, ObjectId, PoolAddress, Result};
use std::fmt;
use std::str::FromStr;

/// The address of an array or group: `POOL/PATH`, `POOL:NS/PATH`, or a pool for its root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArrayAddress {
    pub pool: PoolAddress,
    /// Empty for the root.
    pub path: String,
}

impl FromStr for ArrayAddress {
    type Err = Error;

    fn from_str(text: &str) -> Result<ArrayAddress> {
        let (pool, path) = text.split_once('/').unwrap_or((text, ""));
        let path = path.trim_end_matches('/');
        if !path.is_empty() {
            ObjectId::new(path)?;
            if path.split('/').any(str::is_empty) {
                let message = "the path of an array has an empty part; remove the extra slash";
                return Err(Error::invalid_argument(message).with("got", text));
            }
        }
        Ok(ArrayAddress { pool: pool.parse()?, path: path.to_owned() })
    }
}

impl fmt::Display for ArrayAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.pool.pool)?;
        if !self.pool.namespace.is_empty() {
            write!(f, ":{}", self.pool.namespace)?;
        }
        if self.path.is_empty() { Ok(()) } else { write!(f, "/{}", self.path) }
    }
}
