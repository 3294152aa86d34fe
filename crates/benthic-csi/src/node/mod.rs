//! The service `csi.v1.Node`: the volumes of the machine on which the driver runs.

mod filesystem;
mod publish;
mod stage;
mod stats;

use crate::driver::Call;
use crate::errors::Outcome;
use crate::messages::{CapabilitiesResponse, Empty, NodeGetInfoResponse};
use benthic_program::mounts::{Mount, mounts};
use std::path::Path;

const STAGE_UNSTAGE_VOLUME: i32 = 1;
const GET_VOLUME_STATS: i32 = 2;
const SINGLE_NODE_MULTI_WRITER: i32 = 5;

impl Call {
    /// The methods that the node has.
    pub async fn node_get_capabilities(&self, _: Empty) -> Outcome<CapabilitiesResponse> {
        Ok(CapabilitiesResponse::of(&[STAGE_UNSTAGE_VOLUME, GET_VOLUME_STATS, SINGLE_NODE_MULTI_WRITER]))
    }

    /// The name of the node.
    pub async fn node_get_info(&self, _: Empty) -> Outcome<NodeGetInfoResponse> {
        Ok(NodeGetInfoResponse { node_id: self.driver.config.node_id.clone() })
    }
}

/// The mount at a path: the last one, which hides the others.
fn mount_at(path: &Path) -> Outcome<Option<Mount>> {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    Ok(mounts()?.into_iter().rfind(|mount| mount.point == path))
}
