//! Listing the arrays and groups of a pool.

use crate::array::Place;
use crate::metadata::{Node, is_node};
use benthic_core::Result;
use futures::{StreamExt, TryStreamExt, stream};
use std::collections::BTreeSet;

/// Number of metadata documents that are read at once.
const READS_AT_ONCE: usize = 16;

/// An array or group. Its metadata may be damaged or have a type or codec that is not supported.
#[derive(Debug)]
pub struct ListedNode {
    pub path: String,
    pub node: Result<Node>,
}

/// Lists the arrays and groups at a place and below it, sorted by path. Reads the names of all
/// objects below the place, including chunks.
///
/// # Errors
/// Those of the pool's listing.
pub async fn list(place: &Place) -> Result<Vec<ListedNode>> {
    let mut paths = BTreeSet::new();
    let mut pages = std::pin::pin!(place.names());
    while let Some(page) = pages.try_next().await? {
        for object in page {
            if is_node(object.name()) {
                let path = object.name().rsplit_once('/').map_or("", |(path, _)| path);
                paths.insert(path.to_owned());
            }
        }
    }
    let open = |path: String| async move {
        let node = Place { path: path.clone(), ..place.clone() }.node().await;
        ListedNode { path, node }
    };
    Ok(stream::iter(paths).map(open).buffered(READS_AT_ONCE).collect().await)
}
