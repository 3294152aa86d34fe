//! The messages of the Container Storage Interface, version 1, by `csi.proto` of
//! container-storage-interface/spec. They have only the fields that the driver uses; a decoder
//! skips the others. On the wire, a `oneof` is the same as optional fields, and an enumeration the
//! same as an `int32`.

use prost::Message;
use std::collections::HashMap;

/// The values of `VolumeCapability.AccessMode.Mode`.
pub mod access_mode {
    pub const SINGLE_NODE_WRITER: i32 = 1;
    pub const SINGLE_NODE_READER_ONLY: i32 = 2;
    pub const MULTI_NODE_READER_ONLY: i32 = 3;
    pub const SINGLE_NODE_SINGLE_WRITER: i32 = 6;
    pub const SINGLE_NODE_MULTI_WRITER: i32 = 7;
}

/// `csi.v1.GetPluginInfoResponse`.
#[derive(Clone, PartialEq, Message)]
pub struct GetPluginInfoResponse {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub vendor_version: String,
}

/// A message without fields, or whose fields the driver does not use.
#[derive(Clone, PartialEq, Message)]
pub struct Empty {}

/// `csi.v1.GetPluginCapabilitiesResponse`.
#[derive(Clone, PartialEq, Message)]
pub struct GetPluginCapabilitiesResponse {
    #[prost(message, repeated, tag = "1")]
    pub capabilities: Vec<PluginCapability>,
}

/// `csi.v1.PluginCapability`.
#[derive(Clone, PartialEq, Message)]
pub struct PluginCapability {
    #[prost(message, optional, tag = "1")]
    pub service: Option<Kind>,
    #[prost(message, optional, tag = "2")]
    pub volume_expansion: Option<Kind>,
}

/// `csi.v1.ProbeResponse`.
#[derive(Clone, PartialEq, Message)]
pub struct ProbeResponse {
    #[prost(message, optional, tag = "1")]
    pub ready: Option<BoolValue>,
}

/// `csi.v1.VolumeCapability`.
#[derive(Clone, PartialEq, Message)]
pub struct VolumeCapability {
    #[prost(message, optional, tag = "1")]
    pub block: Option<Empty>,
    #[prost(message, optional, tag = "2")]
    pub mount: Option<MountVolume>,
    #[prost(message, optional, tag = "3")]
    pub access_mode: Option<AccessMode>,
}

/// `csi.v1.VolumeCapability.MountVolume`.
#[derive(Clone, PartialEq, Message)]
pub struct MountVolume {
    #[prost(string, tag = "1")]
    pub fs_type: String,
    #[prost(string, repeated, tag = "2")]
    pub mount_flags: Vec<String>,
}

/// `csi.v1.VolumeCapability.AccessMode`; [`access_mode`] has the modes.
#[derive(Clone, PartialEq, Message)]
pub struct AccessMode {
    #[prost(int32, tag = "1")]
    pub mode: i32,
}

/// `csi.v1.CapacityRange`.
#[derive(Clone, PartialEq, Message)]
pub struct CapacityRange {
    #[prost(int64, tag = "1")]
    pub required_bytes: i64,
    #[prost(int64, tag = "2")]
    pub limit_bytes: i64,
}

/// `csi.v1.VolumeContentSource`.
#[derive(Clone, PartialEq, Message)]
pub struct VolumeContentSource {
    #[prost(message, optional, tag = "1")]
    pub snapshot: Option<SnapshotSource>,
    #[prost(message, optional, tag = "2")]
    pub volume: Option<VolumeSource>,
}

/// `csi.v1.VolumeContentSource.SnapshotSource`.
#[derive(Clone, PartialEq, Message)]
pub struct SnapshotSource {
    #[prost(string, tag = "1")]
    pub snapshot_id: String,
}

/// `csi.v1.VolumeContentSource.VolumeSource`.
#[derive(Clone, PartialEq, Message)]
pub struct VolumeSource {
    #[prost(string, tag = "1")]
    pub volume_id: String,
}

/// `csi.v1.Volume`.
#[derive(Clone, PartialEq, Message)]
pub struct Volume {
    #[prost(int64, tag = "1")]
    pub capacity_bytes: i64,
    #[prost(string, tag = "2")]
    pub volume_id: String,
    #[prost(message, optional, tag = "4")]
    pub content_source: Option<VolumeContentSource>,
}

/// `csi.v1.CreateVolumeRequest`.
#[derive(Clone, PartialEq, Message)]
pub struct CreateVolumeRequest {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(message, optional, tag = "2")]
    pub capacity_range: Option<CapacityRange>,
    #[prost(message, repeated, tag = "3")]
    pub volume_capabilities: Vec<VolumeCapability>,
    #[prost(map = "string, string", tag = "4")]
    pub parameters: HashMap<String, String>,
    #[prost(message, optional, tag = "6")]
    pub volume_content_source: Option<VolumeContentSource>,
}

/// `csi.v1.CreateVolumeResponse`.
#[derive(Clone, PartialEq, Message)]
pub struct CreateVolumeResponse {
    #[prost(message, optional, tag = "1")]
    pub volume: Option<Volume>,
}

/// `csi.v1.DeleteVolumeRequest`.
#[derive(Clone, PartialEq, Message)]
pub struct DeleteVolumeRequest {
    #[prost(string, tag = "1")]
    pub volume_id: String,
}

/// `csi.v1.ValidateVolumeCapabilitiesRequest`.
#[derive(Clone, PartialEq, Message)]
pub struct ValidateVolumeCapabilitiesRequest {
    #[prost(string, tag = "1")]
    pub volume_id: String,
    #[prost(map = "string, string", tag = "2")]
    pub volume_context: HashMap<String, String>,
    #[prost(message, repeated, tag = "3")]
    pub volume_capabilities: Vec<VolumeCapability>,
    #[prost(map = "string, string", tag = "4")]
    pub parameters: HashMap<String, String>,
}

/// `csi.v1.ValidateVolumeCapabilitiesResponse`.
#[derive(Clone, PartialEq, Message)]
pub struct ValidateVolumeCapabilitiesResponse {
    #[prost(message, optional, tag = "1")]
    pub confirmed: Option<Confirmed>,
    #[prost(string, tag = "2")]
    pub message: String,
}

/// `csi.v1.ValidateVolumeCapabilitiesResponse.Confirmed`.
#[derive(Clone, PartialEq, Message)]
pub struct Confirmed {
    #[prost(map = "string, string", tag = "1")]
    pub volume_context: HashMap<String, String>,
    #[prost(message, repeated, tag = "2")]
    pub volume_capabilities: Vec<VolumeCapability>,
    #[prost(map = "string, string", tag = "3")]
    pub parameters: HashMap<String, String>,
}

/// `csi.v1.ListVolumesRequest`.
#[derive(Clone, PartialEq, Message)]
pub struct ListVolumesRequest {
    #[prost(int32, tag = "1")]
    pub max_entries: i32,
    #[prost(string, tag = "2")]
    pub starting_token: String,
}

/// `csi.v1.ListVolumesResponse`.
#[derive(Clone, PartialEq, Message)]
pub struct ListVolumesResponse {
    #[prost(message, repeated, tag = "1")]
    pub entries: Vec<VolumeEntry>,
    #[prost(string, tag = "2")]
    pub next_token: String,
}

/// `csi.v1.ListVolumesResponse.Entry`.
#[derive(Clone, PartialEq, Message)]
pub struct VolumeEntry {
    #[prost(message, optional, tag = "1")]
    pub volume: Option<Volume>,
}

/// `csi.v1.ControllerExpandVolumeRequest`.
#[derive(Clone, PartialEq, Message)]
pub struct ControllerExpandVolumeRequest {
    #[prost(string, tag = "1")]
    pub volume_id: String,
    #[prost(message, optional, tag = "2")]
    pub capacity_range: Option<CapacityRange>,
}

/// `csi.v1.ControllerExpandVolumeResponse`.
#[derive(Clone, PartialEq, Message)]
pub struct ControllerExpandVolumeResponse {
    #[prost(int64, tag = "1")]
    pub capacity_bytes: i64,
    #[prost(bool, tag = "2")]
    pub node_expansion_required: bool,
}

/// `csi.v1.Snapshot`.
#[derive(Clone, PartialEq, Message)]
pub struct Snapshot {
    #[prost(int64, tag = "1")]
    pub size_bytes: i64,
    #[prost(string, tag = "2")]
    pub snapshot_id: String,
    #[prost(string, tag = "3")]
    pub source_volume_id: String,
    #[prost(message, optional, tag = "4")]
    pub creation_time: Option<Timestamp>,
    #[prost(bool, tag = "5")]
    pub ready_to_use: bool,
}

/// `csi.v1.CreateSnapshotRequest`.
#[derive(Clone, PartialEq, Message)]
pub struct CreateSnapshotRequest {
    #[prost(string, tag = "1")]
    pub source_volume_id: String,
    #[prost(string, tag = "2")]
    pub name: String,
}

/// `csi.v1.CreateSnapshotResponse`.
#[derive(Clone, PartialEq, Message)]
pub struct CreateSnapshotResponse {
    #[prost(message, optional, tag = "1")]
    pub snapshot: Option<Snapshot>,
}

/// `csi.v1.DeleteSnapshotRequest`.
#[derive(Clone, PartialEq, Message)]
pub struct DeleteSnapshotRequest {
    #[prost(string, tag = "1")]
    pub snapshot_id: String,
}

/// `csi.v1.ListSnapshotsRequest`.
#[derive(Clone, PartialEq, Message)]
pub struct ListSnapshotsRequest {
    #[prost(int32, tag = "1")]
    pub max_entries: i32,
    #[prost(string, tag = "2")]
    pub starting_token: String,
    #[prost(string, tag = "3")]
    pub source_volume_id: String,
    #[prost(string, tag = "4")]
    pub snapshot_id: String,
}

/// `csi.v1.ListSnapshotsResponse`.
#[derive(Clone, PartialEq, Message)]
pub struct ListSnapshotsResponse {
    #[prost(message, repeated, tag = "1")]
    pub entries: Vec<SnapshotEntry>,
    #[prost(string, tag = "2")]
    pub next_token: String,
}

/// `csi.v1.ListSnapshotsResponse.Entry`.
#[derive(Clone, PartialEq, Message)]
pub struct SnapshotEntry {
    #[prost(message, optional, tag = "1")]
    pub snapshot: Option<Snapshot>,
}

/// The answer to `ControllerGetCapabilities` and `NodeGetCapabilities`.
#[derive(Clone, PartialEq, Message)]
pub struct CapabilitiesResponse {
    #[prost(message, repeated, tag = "1")]
    pub capabilities: Vec<RpcCapability>,
}

/// `csi.v1.ControllerServiceCapability` and `csi.v1.NodeServiceCapability`.
#[derive(Clone, PartialEq, Message)]
pub struct RpcCapability {
    #[prost(message, optional, tag = "1")]
    pub rpc: Option<Kind>,
}

/// The message around a value of an enumeration, such as `PluginCapability.Service`.
#[derive(Clone, PartialEq, Message)]
pub struct Kind {
    #[prost(int32, tag = "1")]
    pub kind: i32,
}

/// `csi.v1.GetCapacityResponse`.
#[derive(Clone, PartialEq, Message)]
pub struct GetCapacityResponse {
    #[prost(int64, tag = "1")]
    pub available_capacity: i64,
}

/// `csi.v1.NodeStageVolumeRequest`.
#[derive(Clone, PartialEq, Message)]
pub struct NodeStageVolumeRequest {
    #[prost(string, tag = "1")]
    pub volume_id: String,
    #[prost(string, tag = "3")]
    pub staging_target_path: String,
    #[prost(message, optional, tag = "4")]
    pub volume_capability: Option<VolumeCapability>,
}

/// `csi.v1.NodeUnstageVolumeRequest`.
#[derive(Clone, PartialEq, Message)]
pub struct NodeUnstageVolumeRequest {
    #[prost(string, tag = "1")]
    pub volume_id: String,
    #[prost(string, tag = "2")]
    pub staging_target_path: String,
}

/// `csi.v1.NodePublishVolumeRequest`.
#[derive(Clone, PartialEq, Message)]
pub struct NodePublishVolumeRequest {
    #[prost(string, tag = "1")]
    pub volume_id: String,
    #[prost(string, tag = "3")]
    pub staging_target_path: String,
    #[prost(string, tag = "4")]
    pub target_path: String,
    #[prost(message, optional, tag = "5")]
    pub volume_capability: Option<VolumeCapability>,
    #[prost(bool, tag = "6")]
    pub readonly: bool,
}

/// `csi.v1.NodeUnpublishVolumeRequest`.
#[derive(Clone, PartialEq, Message)]
pub struct NodeUnpublishVolumeRequest {
    #[prost(string, tag = "1")]
    pub volume_id: String,
    #[prost(string, tag = "2")]
    pub target_path: String,
}

/// `csi.v1.NodeGetVolumeStatsRequest`.
#[derive(Clone, PartialEq, Message)]
pub struct NodeGetVolumeStatsRequest {
    #[prost(string, tag = "1")]
    pub volume_id: String,
    #[prost(string, tag = "2")]
    pub volume_path: String,
}

/// `csi.v1.NodeGetVolumeStatsResponse`.
#[derive(Clone, PartialEq, Message)]
pub struct NodeGetVolumeStatsResponse {
    #[prost(message, repeated, tag = "1")]
    pub usage: Vec<VolumeUsage>,
}

/// `csi.v1.VolumeUsage`.
#[derive(Clone, PartialEq, Message)]
pub struct VolumeUsage {
    #[prost(int64, tag = "1")]
    pub available: i64,
    #[prost(int64, tag = "2")]
    pub total: i64,
    #[prost(int64, tag = "3")]
    pub used: i64,
    #[prost(int32, tag = "4")]
    pub unit: i32,
}

/// `csi.v1.NodeGetInfoResponse`.
#[derive(Clone, PartialEq, Message)]
pub struct NodeGetInfoResponse {
    #[prost(string, tag = "1")]
    pub node_id: String,
}

/// `google.protobuf.Timestamp`.
#[derive(Clone, PartialEq, Message)]
pub struct Timestamp {
    #[prost(int64, tag = "1")]
    pub seconds: i64,
    #[prost(int32, tag = "2")]
    pub nanos: i32,
}

/// `google.protobuf.BoolValue`.
#[derive(Clone, PartialEq, Message)]
pub struct BoolValue {
    #[prost(bool, tag = "1")]
    pub value: bool,
}
