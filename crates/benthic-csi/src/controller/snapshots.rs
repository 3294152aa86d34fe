//! The calls for snapshots of volumes. A snapshot of a volume is a snapshot of its image.

use super::{READ_AT_ONCE, bad_token, bytes, page};
use crate::driver::{Call, require};
use crate::errors::{Failure, Outcome};
use crate::messages::{
    CreateSnapshotRequest, CreateSnapshotResponse, DeleteSnapshotRequest, Empty, ListSnapshotsRequest,
    ListSnapshotsResponse, Snapshot, SnapshotEntry, Timestamp,
};
use crate::names::{self, is_ours};
use benthic_block::{Change, OpenMode};
use benthic_core::ErrorKind;
use futures::stream::{self, StreamExt, TryStreamExt};
use std::collections::BTreeMap;
use tonic::Code;

impl Call {
    /// Takes a snapshot of a volume, which a node may have attached.
    pub async fn create_snapshot(&self, request: CreateSnapshotRequest) -> Outcome<CreateSnapshotResponse> {
        require(&request.name, "name")?;
        require(&request.source_volume_id, "source_volume_id")?;
        let address = self.volume(&request.source_volume_id)?;
        let name = names::internal(&request.name);
        let _lock = self.lock(&request.source_volume_id)?;
        let end = format!("@{name}");
        let snapshots = self.snapshots(self.volume_ids().await?).await?;
        let found = snapshots.into_values().find(|found| found.snapshot_id.ends_with(&end));
        if let Some(snapshot) = found {
            if snapshot.source_volume_id == request.source_volume_id {
                return Ok(CreateSnapshotResponse { snapshot: Some(snapshot) });
            }
            let message =
                format!("another volume has a snapshot of this name snapshot_id={:?}", snapshot.snapshot_id);
            return Err(Failure::new(Code::AlreadyExists, message));
        }
        let images = self.images(&address.pool).await?;
        images.change(&address.image, Change::CreateSnapshot { name: name.clone() }).await?;
        let mut snapshots = self.snapshots(vec![request.source_volume_id.clone()]).await?;
        let snapshot = snapshots.remove(&format!("{address}{end}")).ok_or_else(|| {
            Failure::new(Code::Aborted, format!("the snapshot was removed meanwhile snapshot={address}{end}"))
        })?;
        Ok(CreateSnapshotResponse { snapshot: Some(snapshot) })
    }

    /// Deletes a snapshot. Succeeds if it does not exist.
    pub async fn delete_snapshot(&self, request: DeleteSnapshotRequest) -> Outcome<Empty> {
        require(&request.snapshot_id, "snapshot_id")?;
        let Some((address, name)) = names::snapshot(&request.snapshot_id) else { return Ok(Empty {}) };
        let volume_id = address.to_string();
        if self.volume(&volume_id).is_err() {
            return Ok(Empty {});
        }
        let _lock = self.lock(&volume_id)?;
        let images = self.images(&address.pool).await?;
        match images.change(&address.image, Change::RemoveSnapshot { name }).await {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Empty {}),
            Err(error) if error.kind() == ErrorKind::Conflict => {
                let message = format!("the snapshot cannot be deleted: {}", error.text());
                Err(Failure::new(Code::FailedPrecondition, message))
            }
            removed => Ok(removed.map(|()| Empty {})?),
        }
    }

    /// Lists the snapshots of all volumes, of one volume, or one snapshot.
    pub async fn list_snapshots(&self, request: ListSnapshotsRequest) -> Outcome<ListSnapshotsResponse> {
        let token = &request.starting_token;
        if !token.is_empty() && names::snapshot(token).is_none() {
            return Err(bad_token(token));
        }
        let volume = match names::snapshot(&request.snapshot_id) {
            Some((address, _)) => address.to_string(),
            None if !request.snapshot_id.is_empty() => return Ok(ListSnapshotsResponse::default()),
            None => request.source_volume_id.clone(),
        };
        let volumes = if volume.is_empty() { self.volume_ids().await? } else { vec![volume] };
        let mut snapshots = self.snapshots(volumes).await?;
        let is_asked_for = |asked: &str, value: &str| asked.is_empty() || asked == value;
        snapshots.retain(|id, snapshot| {
            is_asked_for(&request.snapshot_id, id)
                && is_asked_for(&request.source_volume_id, &snapshot.source_volume_id)
        });
        let (ids, next_token) = page(snapshots.keys().cloned().collect(), token, request.max_entries)?;
        let entries = ids.iter().map(|id| SnapshotEntry { snapshot: snapshots.remove(id) }).collect();
        Ok(ListSnapshotsResponse { entries, next_token })
    }

    /// The snapshots of some volumes, by identifier. Volumes that do not exist have none.
    async fn snapshots(&self, volume_ids: Vec<String>) -> Outcome<BTreeMap<String, Snapshot>> {
        let found = stream::iter(volume_ids).map(async |volume_id| {
            let Ok(address) = self.volume(&volume_id) else { return Ok(Vec::new()) };
            let images = self.images(&address.pool).await?;
            let image = match images.open(&address.image, None, OpenMode::ReadOnly).await {
                Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Conflict) => {
                    return Ok(Vec::new());
                }
                image => image?,
            };
            let snapshots = image.snapshots().await?.into_iter().filter(|snapshot| is_ours(&snapshot.name));
            let describe = |snapshot: benthic_block::SnapshotInfo| {
                let snapshot_id = format!("{volume_id}@{}", snapshot.name);
                (
                    snapshot_id.clone(),
                    Snapshot {
                        size_bytes: bytes(snapshot.size_bytes),
                        snapshot_id,
                        source_volume_id: volume_id.clone(),
                        creation_time: Some(time(snapshot.created_unix_ms)),
                        ready_to_use: true,
                    },
                )
            };
            Ok::<_, Failure>(snapshots.map(describe).collect::<Vec<_>>())
        });
        let found: Vec<_> = found.buffered(READ_AT_ONCE).try_collect().await?;
        Ok(found.into_iter().flatten().collect())
    }
}

fn time(unix_ms: u64) -> Timestamp {
    let nanos = (unix_ms % 1_000) as i32 * 1_000_000;
    Timestamp { seconds: i64::try_from(unix_ms / 1_000).unwrap_or_default(), nanos }
}
