//! The S3 gateway, below its protocol: what buckets, objects, versions and uploads mean, and how they are kept.
//!
//! - [`sal`]: the storage abstraction layer, the traits that a gateway stands on;
//! - [`pool`]: its driver on [`Pool`](benthic_core::Pool), and so on every engine.
//!
//! One suite of tests, `tests/sal/`, defines what a driver does.

pub mod environment;
pub mod pool;
pub mod sal;

pub use environment::{Environment, Random, SystemRandom};
pub use pool::{Options, PoolSal};
