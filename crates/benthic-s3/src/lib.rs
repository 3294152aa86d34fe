//! The S3 gateway: buckets, objects, versions and uploads, their storage in pools, and the S3
//! protocol.
//!
//! - [`sal`]: the storage abstraction layer, the traits that the protocol layer uses.
//! - [`pool`]: the driver that implements these traits on [`Pool`](benthic_core::Pool), and so on
//!   every engine.
//! - `identity`, `grants` and `seal`: accounts, users, roles and keys, and who may read tables;
//!   with the feature `identity`.
//! - `policy`: who may do what; with the feature `policy`.
//! - `lifecycle`: removes versions and uploads by the rules of a bucket; with the feature
//!   `gateway`.
//! - `events`: tells others of changes, and runs methods by rules; with the feature `gateway`.
//! - `web_identity`: tokens of identity providers (OpenID Connect); with the feature `gateway`.
//! - `vault`: KMS keys in Vault; with the feature `gateway`.
//! - `upstream`: buckets of another S3 service, with a cache; with the feature `gateway`.
//! - `view`: buckets that show the objects of a pool; with the feature `gateway`.
//! - `gateway`: S3 over HTTP, and the program `benthic-s3`; both need the feature `gateway`.
//!
//! The test suite `tests/sal/` defines the behaviour of a driver.

#[cfg(feature = "gateway")]
pub mod events;
#[cfg(feature = "gateway")]
pub mod gateway;
#[cfg(feature = "identity")]
pub mod grants;
#[cfg(feature = "gateway")]
mod http_client;
#[cfg(feature = "identity")]
pub mod identity;
#[cfg(feature = "gateway")]
pub mod lease;
#[cfg(feature = "gateway")]
pub mod lifecycle;
#[cfg(feature = "policy")]
pub mod policy;
pub mod pool;
pub mod sal;
#[cfg(feature = "identity")]
pub mod seal;
#[cfg(feature = "gateway")]
pub mod upstream;
#[cfg(feature = "gateway")]
pub mod vault;
#[cfg(feature = "gateway")]
pub mod view;
#[cfg(feature = "gateway")]
pub mod web_identity;

pub use pool::{Options, PoolSal, STANDARD, StorageClass};
