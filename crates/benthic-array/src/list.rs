//! Listing the arrays and groups of a pool.
//!
//! An array can have millions of chunks, and nothing below an array is a node. So where an engine
//! lists names in their order, a listing that has come to the chunks of an array continues after
//! them. It finds the array by the metadata of the directories of the last name of a page.

use crate::array::Place;
use crate::metadata::{Node, is_node};
use benthic_core::{ListRequest, ListToken, Namespaces, Result, limits};
use futures::{StreamExt, stream};
use std::collections::BTreeSet;

/// Number of metadata documents that are read at once.
const READS_AT_ONCE: usize = 16;
/// Number of names of the first page, and of the first page after an array.
const NAMES_FIRST: usize = 64;

/// An array or group. Its metadata may be damaged or have a type or codec that is not supported.
#[derive(Debug)]
pub struct ListedNode {
    pub path: String,
    pub node: Result<Node>,
}

/// Lists the arrays and groups at a place and below it, but not those below an array, sorted by
/// path. Reads the names of all objects below the place; where the engine lists names in their
/// order, without most of the chunks.
///
/// # Errors
/// Those of the pool's listing.
pub async fn list(place: &Place) -> Result<Vec<ListedNode>> {
    let (mut paths, mut known) = (BTreeSet::new(), BTreeSet::new());
    let mut request = ListRequest {
        namespaces: Namespaces::One(place.namespace.clone()),
        prefix: place.prefix(),
        after: None,
        objects_max: NAMES_FIRST,
    };
    loop {
        let page = place.pool.list(request.clone()).await?;
        for object in &page.objects {
            if is_node(object.name()) {
                let path = object.name().rsplit_once('/').map_or("", |(path, _)| path);
                paths.insert(path.to_owned());
            }
        }
        let Some(next) = page.next else { break };
        let skipped = match page.objects.last() {
            Some(last) => after_array(place, last.name(), &mut known).await,
            None => None,
        };
        (request.after, request.objects_max) = match skipped {
            Some((array, token)) => {
                paths.insert(array);
                (Some(token), NAMES_FIRST)
            }
            None => (Some(next), (2 * request.objects_max).min(limits::LIST_PAGE_OBJECTS_MAX)),
        };
    }
    let open = |path: String| async move {
        let node = Place { path: path.clone(), ..place.clone() }.node().await;
        ListedNode { path, node }
    };
    let mut nodes: Vec<ListedNode> = stream::iter(paths).map(open).buffered(READS_AT_ONCE).collect().await;
    let is_array = |listed: &&ListedNode| matches!(listed.node, Ok(Node::Array(_)));
    let arrays: BTreeSet<String> = nodes.iter().filter(is_array).map(|listed| listed.path.clone()).collect();
    nodes.retain(|listed| {
        let mut directories = listed.path.match_indices('/').map(|(end, _)| &listed.path[..end]);
        !directories.any(|directory| arrays.contains(directory))
    });
    Ok(nodes)
}

/// The path of the array that this object belongs to, and where a listing continues after the
/// array. `known` has the directories that were looked at before. `None` if there is no array, or
/// the engine lists names in another order.
async fn after_array(place: &Place, name: &str, known: &mut BTreeSet<String>) -> Option<(String, ListToken)> {
    for (end, _) in name.match_indices('/') {
        if end < place.path.len().max(1) {
            continue;
        }
        let directory = Place { path: name[..end].to_owned(), ..place.clone() };
        // No name in the directory sorts after this one, except such that begin with this
        // character; they are listed.
        let last = directory.object(char::MAX.encode_utf8(&mut [0; 4])).ok()?;
        let token = place.pool.token_after(&last)?;
        if known.insert(directory.path.clone()) && matches!(directory.node().await, Ok(Node::Array(_))) {
            return Some((directory.path, token));
        }
    }
    None
}
