//! The service `csi.v1.Controller`: volumes and snapshots, wherever they are attached.
//!
//! There is no `ControllerPublishVolume`: the node opens the image for writing, and only one
//! program can.

mod snapshots;
mod volumes;

use crate::driver::Call;
use crate::errors::{Failure, Outcome};
use crate::messages::{CapabilitiesResponse, Empty, GetCapacityResponse, Kind, RpcCapability};
use benthic_core::{Action, Error};
use tonic::Code;

const CREATE_DELETE_VOLUME: i32 = 1;
const LIST_VOLUMES: i32 = 3;
const GET_CAPACITY: i32 = 4;
const CREATE_DELETE_SNAPSHOT: i32 = 5;
const LIST_SNAPSHOTS: i32 = 6;
const CLONE_VOLUME: i32 = 7;
const EXPAND_VOLUME: i32 = 9;
const SINGLE_NODE_MULTI_WRITER: i32 = 13;

/// Images that a listing reads at once.
const READ_AT_ONCE: usize = 16;

impl Call {
    /// The methods that the controller has.
    pub async fn controller_get_capabilities(&self, _: Empty) -> Outcome<CapabilitiesResponse> {
        let mut kinds = vec![
            CREATE_DELETE_VOLUME,
            LIST_VOLUMES,
            CREATE_DELETE_SNAPSHOT,
            LIST_SNAPSHOTS,
            CLONE_VOLUME,
            EXPAND_VOLUME,
            SINGLE_NODE_MULTI_WRITER,
        ];
        kinds.extend(self.session.directory().is_some().then_some(GET_CAPACITY));
        Ok(CapabilitiesResponse::of(&kinds))
    }

    /// The free space of the file system with the store's directory.
    pub async fn get_capacity(&self, _: Empty) -> Outcome<GetCapacityResponse> {
        let Some(directory) = self.session.directory() else {
            let message = "the capacity is known only of a store in a directory; use the cluster's own tools";
            return Err(Failure::new(Code::Unimplemented, message));
        };
        let space = rustix::fs::statvfs(&directory).map_err(|error| {
            Error::io(Action::Read, "cannot read the free space of the store", error.into())
        })?;
        let available_bytes = space.f_bavail.saturating_mul(space.f_frsize);
        Ok(GetCapacityResponse { available_capacity: i64::try_from(available_bytes).unwrap_or(i64::MAX) })
    }
}

impl CapabilitiesResponse {
    /// An answer with these capabilities.
    pub(crate) fn of(kinds: &[i32]) -> CapabilitiesResponse {
        let capability = |kind: &i32| RpcCapability { rpc: Some(Kind { kind: *kind }) };
        CapabilitiesResponse { capabilities: kinds.iter().map(capability).collect() }
    }
}

/// A page of a sorted list: the identifiers after a token, and the token of the next page.
fn page(ids: Vec<String>, token: &str, max_entries: i32) -> Outcome<(Vec<String>, String)> {
    let max_entries = usize::try_from(max_entries)
        .map_err(|_| Failure::invalid(format!("a negative number max_entries={max_entries}")))?;
    let mut ids: Vec<String> = ids.into_iter().filter(|id| id.as_str() > token).collect();
    if max_entries == 0 || ids.len() <= max_entries {
        return Ok((ids, String::new()));
    }
    ids.truncate(max_entries);
    let next = ids.last().cloned().unwrap_or_default();
    Ok((ids, next))
}

fn bytes(size_bytes: u64) -> i64 {
    i64::try_from(size_bytes).unwrap_or(i64::MAX)
}

/// The failure for a token that no listing has returned.
fn bad_token(token: &str) -> Failure {
    Failure::new(
        Code::Aborted,
        format!("not a token of this driver; list from the beginning starting_token={token:?}"),
    )
}
