//! What [`old_and_new`](super::semantics::old_and_new) stores.

use serde::{Deserialize, Serialize};

/// What the method saw: the size after it wrote, all else before. What was not there is `null`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// The size that `stat` showed after the write.
    pub size_bytes: u64,
    /// The first 64 bytes of the data.
    pub data: Option<String>,
    /// The names of the first 8 attributes.
    pub xattrs: Option<Vec<String>>,
    /// The first 8 omap keys.
    pub omap_keys: Option<Vec<String>>,
}
