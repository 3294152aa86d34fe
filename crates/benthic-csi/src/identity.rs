//! The service `csi.v1.Identity`.

use crate::driver::Call;
use crate::errors::Outcome;
use crate::messages::{
    BoolValue, Empty, GetPluginCapabilitiesResponse, GetPluginInfoResponse, Kind, PluginCapability,
    ProbeResponse,
};
use benthic_core::build;

/// The driver's name, which storage classes have as `provisioner`.
pub const NAME: &str = "csi.benthic.storage";

const CONTROLLER_SERVICE: i32 = 1;
/// Volumes can be expanded only while no node has them attached: the kernel does not see a new
/// size.
const OFFLINE: i32 = 2;

impl Call {
    /// The name and the version of the driver.
    pub async fn get_plugin_info(&self, _: Empty) -> Outcome<GetPluginInfoResponse> {
        let version = build().to_owned();
        Ok(GetPluginInfoResponse { name: NAME.to_owned(), vendor_version: version })
    }

    /// The services of the driver beside those of a node.
    pub async fn get_plugin_capabilities(&self, _: Empty) -> Outcome<GetPluginCapabilitiesResponse> {
        let kind = |kind| Some(Kind { kind });
        Ok(GetPluginCapabilitiesResponse {
            capabilities: vec![
                PluginCapability { service: kind(CONTROLLER_SERVICE), volume_expansion: None },
                PluginCapability { service: None, volume_expansion: kind(OFFLINE) },
            ],
        })
    }

    /// Opens every pool.
    pub async fn probe(&self, _: Empty) -> Outcome<ProbeResponse> {
        for pool in &self.driver.config.pools {
            self.images(pool).await?;
        }
        Ok(ProbeResponse { ready: Some(BoolValue { value: true }) })
    }
}
