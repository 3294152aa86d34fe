//! Volumes on a node, with real devices and file systems.

use crate::support::{MIB, Place, mounted};
use benthic_csi::errors::Failure;
use benthic_csi::messages::{
    CapacityRange, ControllerExpandVolumeRequest, NodeGetVolumeStatsRequest, NodePublishVolumeRequest,
    NodeStageVolumeRequest, NodeUnpublishVolumeRequest, NodeUnstageVolumeRequest,
};
use benthic_testkit::devices::can_attach;
use std::fs;
use std::path::Path;
use std::process::Command;
use tonic::Code;

const CAP_SYS_RESOURCE: u32 = 24;

/// Whether this process may let a mounted ext4 grow. Some containers do not allow it.
#[expect(clippy::print_stderr, reason = "whoever reads the test's output must know")]
fn can_grow_ext4() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let capabilities = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap().trim();
    let can = u64::from_str_radix(capabilities, 16).unwrap() & (1 << CAP_SYS_RESOURCE) != 0;
    if !can {
        eprintln!("SKIPPED a part: letting ext4 grow needs the capability CAP_SYS_RESOURCE");
    }
    can
}

/// Unmounts and detaches at the end, also of a failed test.
struct Staged<'a>(&'a Place);

impl Drop for Staged<'_> {
    fn drop(&mut self) {
        for point in ["target", "staging"] {
            let _ = Command::new("umount").arg(self.0.path(point)).output();
        }
        for entry in fs::read_dir(self.0.path("state")).into_iter().flatten().flatten() {
            let written: serde_json::Value =
                serde_json::from_slice(&fs::read(entry.path()).unwrap_or_default()).unwrap_or_default();
            if let Some(pid) = written["pid"].as_u64() {
                let _ = Command::new("kill").arg(pid.to_string()).output();
            }
        }
    }
}

async fn stage(place: &Place, volume_id: &str, fs_type: &str) -> Result<(), Failure> {
    fs::create_dir_all(place.path("staging")).unwrap();
    let request = NodeStageVolumeRequest {
        volume_id: volume_id.to_owned(),
        staging_target_path: place.path("staging"),
        volume_capability: Some(mounted(fs_type)),
    };
    place.call(async |call| call.node_stage_volume(request).await).await.map(drop)
}

async fn publish(place: &Place, volume_id: &str, readonly: bool) -> Result<(), Failure> {
    let request = NodePublishVolumeRequest {
        volume_id: volume_id.to_owned(),
        staging_target_path: place.path("staging"),
        target_path: place.path("target"),
        volume_capability: Some(mounted("")),
        readonly,
    };
    place.call(async |call| call.node_publish_volume(request).await).await.map(drop)
}

async fn unpublish(place: &Place, volume_id: &str) {
    let request =
        NodeUnpublishVolumeRequest { volume_id: volume_id.to_owned(), target_path: place.path("target") };
    place.call(async |call| call.node_unpublish_volume(request).await).await.unwrap();
}

async fn unstage(place: &Place, volume_id: &str) -> Result<(), Failure> {
    let request = NodeUnstageVolumeRequest {
        volume_id: volume_id.to_owned(),
        staging_target_path: place.path("staging"),
    };
    place.call(async |call| call.node_unstage_volume(request).await).await.map(drop)
}

async fn total_bytes(place: &Place, volume_id: &str) -> i64 {
    let request =
        NodeGetVolumeStatsRequest { volume_id: volume_id.to_owned(), volume_path: place.path("target") };
    let stats = place.call(async |call| call.node_get_volume_stats(request).await).await.unwrap();
    stats.usage[0].total
}

async fn expand(place: &Place, volume_id: &str, mib: i64) -> Result<i64, Failure> {
    let request = ControllerExpandVolumeRequest {
        volume_id: volume_id.to_owned(),
        capacity_range: Some(CapacityRange { required_bytes: mib * MIB, limit_bytes: 0 }),
    };
    let expanded = place.call(async |call| call.controller_expand_volume(request).await).await?;
    Ok(expanded.capacity_bytes)
}

#[tokio::test(flavor = "multi_thread")]
async fn files_survive_restarts_and_the_file_system_grows() {
    if !can_attach("files_survive_restarts_and_the_file_system_grows") {
        return;
    }
    for (fs_type, mib) in [("ext4", 64), ("xfs", 320)] {
        let mut place = Place::new();
        let volume = place.create("v", mib, None).await.unwrap();
        stage(&place, &volume, fs_type).await.unwrap();
        publish(&place, &volume, false).await.unwrap();
        let file = Path::new(&place.path("target")).join("file");
        fs::write(&file, "kept").unwrap();
        // A new driver finds the devices that the old one has attached.
        place.restart();
        stage(&place, &volume, fs_type).await.unwrap();
        publish(&place, &volume, false).await.unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "kept");
        let before = total_bytes(&place, &volume).await;
        let refused = expand(&place, &volume, 2 * mib).await.unwrap_err();
        assert!(refused.code == Code::FailedPrecondition && refused.message.contains("stop its workload"));
        place.restart();
        unpublish(&place, &volume).await;
        unstage(&place, &volume).await.unwrap();
        assert!(!Path::new(&place.path("target")).exists());

        let grows = fs_type != "ext4" || can_grow_ext4();
        if grows {
            assert_eq!(expand(&place, &volume, 2 * mib).await.unwrap(), 2 * mib * MIB);
        }
        let staged = Staged(&place);
        stage(&place, &volume, "").await.unwrap();
        publish(&place, &volume, true).await.unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "kept");
        assert!(fs::write(&file, "changed").is_err());
        assert_eq!(total_bytes(&place, &volume).await > before * 3 / 2, grows);
        unpublish(&place, &volume).await;
        unstage(&place, &volume).await.unwrap();
        unstage(&place, &volume).await.unwrap();
        drop(staged);
        let refused =
            stage(&place, &volume, if fs_type == "xfs" { "ext4" } else { "xfs" }).await.unwrap_err();
        assert!(refused.code == Code::FailedPrecondition && refused.message.contains("another file system"));
        unstage(&place, &volume).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_in_use_elsewhere_is_refused_and_a_killed_process_replaced() {
    if !can_attach("a_volume_in_use_elsewhere_is_refused_and_a_killed_process_replaced") {
        return;
    }
    let place = Place::new();
    let volume = place.create("v", 64, None).await.unwrap();
    let _staged = Staged(&place);
    stage(&place, &volume, "ext4").await.unwrap();
    fs::write(Path::new(&place.path("staging")).join("file"), "kept").unwrap();
    rustix::fs::sync();
    // Another node, which has a state of its own.
    let mut other = Place::new();
    let mut config = place.driver.config.clone();
    config.state = other.dir.path().join("state");
    other.driver = benthic_csi::Driver::new(config).unwrap();
    let refused = stage(&other, &volume, "ext4").await.unwrap_err();
    assert!(refused.code == Code::FailedPrecondition && refused.message.contains("open"), "{refused:?}");
    unstage(&other, &volume).await.unwrap();

    let written = fs::read(Path::new(&place.path("state")).join("p%%csi-v.json")).unwrap();
    let written: serde_json::Value = serde_json::from_slice(&written).unwrap();
    assert!(Command::new("kill").args(["-9", &written["pid"].to_string()]).status().unwrap().success());
    // The orchestrator stages the volume again after a reboot, or when somebody deletes the
    // workload.
    let staged = stage(&place, &volume, "ext4").await;
    staged.unwrap();
    assert_eq!(fs::read_to_string(Path::new(&place.path("staging")).join("file")).unwrap(), "kept");
    unstage(&place, &volume).await.unwrap();
}
