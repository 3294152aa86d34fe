//! The record that [`old_and_new`](super::semantics::old_and_new) stores.

use serde::{Deserialize, Serialize};

/// The object as the method saw it: the size after its write, everything else before it. Missing
/// parts are `null`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observation {
    /// The size from `stat` after the write.
    pub size_bytes: u64,
    /// The first 64 bytes of the data.
    pub data: Option<String>,
    /// The names of the first 8 attributes.
    pub xattrs: Option<Vec<String>>,
    /// The first 8 omap keys.
    pub omap_keys: Option<Vec<String>>,
}
