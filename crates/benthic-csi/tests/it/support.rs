//! A driver on a temporary store.

use benthic_csi::driver::Config;
use benthic_csi::errors::Failure;
use benthic_csi::messages::{
    AccessMode, CapacityRange, CreateVolumeRequest, CreateVolumeResponse, MountVolume, VolumeCapability,
    VolumeContentSource, access_mode,
};
use benthic_csi::{Call, Driver};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use tempfile::TempDir;

pub const MIB: i64 = 1 << 20;

/// A store with the pool `p`, and a driver.
pub struct Place {
    pub dir: TempDir,
    pub driver: Arc<Driver>,
}

impl Place {
    pub fn new() -> Place {
        let dir = TempDir::new().unwrap();
        let config = Config {
            store: format!("file:{}", dir.path().join("store").display()),
            pools: vec!["p".to_owned()],
            node_id: "node".to_owned(),
            program: program(),
            state: dir.path().join("state"),
        };
        let place = Place { dir, driver: Driver::new(config).unwrap() };
        place.benthic(&["pool", "create", "p"]);
        place
    }

    /// Replaces the driver by a new one, as a restart does.
    pub fn restart(&mut self) {
        self.driver = Driver::new(self.driver.config.clone()).unwrap();
    }

    pub fn path(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    pub fn benthic(&self, args: &[&str]) -> Output {
        let run =
            Command::new(program()).args(["--store", &self.driver.config.store]).args(args).output().unwrap();
        assert!(run.status.success(), "{args:?}: {}", String::from_utf8_lossy(&run.stderr));
        run
    }

    /// Runs one call.
    pub async fn call<T>(&self, method: impl AsyncFnOnce(&Call) -> Result<T, Failure>) -> Result<T, Failure> {
        let call = self.driver.call();
        let outcome = method(&call).await;
        call.end().await;
        outcome
    }

    /// Creates a volume and returns its identifier.
    pub async fn create(
        &self,
        name: &str,
        mib: i64,
        source: Option<VolumeContentSource>,
    ) -> Result<String, Failure> {
        let request = CreateVolumeRequest {
            name: name.to_owned(),
            capacity_range: Some(CapacityRange { required_bytes: mib * MIB, limit_bytes: 0 }),
            volume_capabilities: vec![mounted("")],
            volume_content_source: source,
            ..CreateVolumeRequest::default()
        };
        let CreateVolumeResponse { volume } =
            self.call(async |call| call.create_volume(request).await).await?;
        let volume = volume.unwrap();
        assert_eq!(volume.capacity_bytes, mib * MIB);
        Ok(volume.volume_id)
    }
}

/// A capability of a file system for one node that writes.
pub fn mounted(fs_type: &str) -> VolumeCapability {
    VolumeCapability {
        block: None,
        mount: Some(MountVolume { fs_type: fs_type.to_owned(), mount_flags: Vec::new() }),
        access_mode: Some(AccessMode { mode: access_mode::SINGLE_NODE_WRITER }),
    }
}

/// The program `benthic`, which a build of the workspace puts beside that of the driver.
fn program() -> PathBuf {
    let program = Path::new(env!("CARGO_BIN_EXE_benthic-csi")).with_file_name("benthic");
    assert!(program.exists(), "{program:?} is missing; `cargo build --release -p benthic-cli` builds it");
    program
}
