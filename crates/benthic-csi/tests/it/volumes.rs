//! Cases that csi-sanity does not check: calls that were interrupted, and deletions in any order.

use crate::support::{MIB, Place};
use benthic_csi::errors::Failure;
use benthic_csi::messages::{
    CapacityRange, ControllerExpandVolumeRequest, CreateSnapshotRequest, DeleteSnapshotRequest,
    DeleteVolumeRequest, ListVolumesRequest, SnapshotSource, VolumeContentSource, VolumeSource,
};
use tonic::Code;

async fn delete(place: &Place, volume_id: &str) -> Result<(), Failure> {
    let request = DeleteVolumeRequest { volume_id: volume_id.to_owned() };
    place.call(async |call| call.delete_volume(request).await).await.map(drop)
}

async fn delete_snapshot(place: &Place, snapshot_id: &str) -> Result<(), Failure> {
    let request = DeleteSnapshotRequest { snapshot_id: snapshot_id.to_owned() };
    place.call(async |call| call.delete_snapshot(request).await).await.map(drop)
}

fn of_volume(volume_id: &str) -> Option<VolumeContentSource> {
    let volume = Some(VolumeSource { volume_id: volume_id.to_owned() });
    Some(VolumeContentSource { snapshot: None, volume })
}

#[tokio::test]
async fn volumes_with_clones_and_snapshots_are_not_deleted() {
    let place = Place::new();
    let volume = place.create("a", 5, None).await.unwrap();
    assert_eq!(volume, "p/csi-a");
    let clone = place.create("b", 7, of_volume(&volume)).await.unwrap();
    // Repeated, and after a call that was interrupted before the clone had its size.
    place.create("b", 7, of_volume(&volume)).await.unwrap();
    place.benthic(&["image", "resize", &clone, "--size", "5MiB", "--shrink"]);
    place.create("b", 7, of_volume(&volume)).await.unwrap();
    assert_eq!(place.create("b", 7, None).await.unwrap_err().code, Code::AlreadyExists);
    let refused = delete(&place, &volume).await.unwrap_err();
    assert!(
        refused.code == Code::FailedPrecondition && refused.message.contains("has clones"),
        "{refused:?}"
    );

    let request = CreateSnapshotRequest { source_volume_id: clone.clone(), name: "s".to_owned() };
    let snapshot =
        place.call(async |call| call.create_snapshot(request).await).await.unwrap().snapshot.unwrap();
    assert_eq!((snapshot.snapshot_id.as_str(), snapshot.size_bytes), ("p/csi-b@csi-s", 7 * MIB));
    let refused = delete(&place, &clone).await.unwrap_err();
    assert!(refused.code == Code::FailedPrecondition && refused.message.contains("csi-s"), "{refused:?}");
    let source = Some(SnapshotSource { snapshot_id: snapshot.snapshot_id.clone() });
    let source = Some(VolumeContentSource { snapshot: source, volume: None });
    let restored = place.create("c", 7, source).await.unwrap();
    let refused = delete_snapshot(&place, &snapshot.snapshot_id).await.unwrap_err();
    assert_eq!(refused.code, Code::FailedPrecondition);

    delete(&place, &restored).await.unwrap();
    delete_snapshot(&place, &snapshot.snapshot_id).await.unwrap();
    delete(&place, &clone).await.unwrap();
    // The snapshot for the clone has gone with it.
    assert!(place.benthic(&["image", "snap", "ls", &volume]).stdout.is_empty());
    delete(&place, &volume).await.unwrap();
    assert!(place.benthic(&["image", "ls", "p"]).stdout.is_empty());
}

#[tokio::test]
async fn only_volumes_of_the_driver_are_listed_and_deleted() {
    let place = Place::new();
    place.benthic(&["image", "create", "p/other", "--size", "1MiB"]);
    let volumes = [place.create("a", 1, None).await.unwrap(), place.create("b", 2, None).await.unwrap()];
    delete(&place, "p/other").await.unwrap();
    let mut request = ListVolumesRequest { max_entries: 1, starting_token: String::new() };
    let mut listed = Vec::new();
    loop {
        let page = request.clone();
        let page = place.call(async |call| call.list_volumes(page).await).await.unwrap();
        listed.extend(page.entries.into_iter().map(|entry| entry.volume.unwrap().volume_id));
        request.starting_token = page.next_token;
        if request.starting_token.is_empty() {
            break;
        }
    }
    assert_eq!(listed, volumes);
    assert_eq!(place.benthic(&["image", "ls", "p"]).stdout, b"csi-a\ncsi-b\nother\n");
    let expand = ControllerExpandVolumeRequest {
        volume_id: volumes[0].clone(),
        capacity_range: Some(CapacityRange { required_bytes: 3 * MIB, limit_bytes: 0 }),
    };
    let expanded = place.call(async |call| call.controller_expand_volume(expand).await).await.unwrap();
    assert_eq!(expanded.capacity_bytes, 3 * MIB);
}
