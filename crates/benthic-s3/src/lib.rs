//! The S3 gateway: what buckets, objects, versions and uploads mean, how they are kept, and the protocol above.
//!
//! - [`sal`]: the storage abstraction layer, the traits that a gateway stands on;
//! - [`pool`]: its driver on [`Pool`](benthic_core::Pool), and so on every engine;
//! - `gateway`: S3 over HTTP, and the program `benthic-s3`; with the feature `gateway`.
//!
//! One suite of tests, `tests/sal/`, defines what a driver does.

#[cfg(feature = "gateway")]
pub mod gateway;
pub mod pool;
pub mod sal;

pub use pool::{Options, PoolSal};
