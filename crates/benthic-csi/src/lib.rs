//! A driver of the Container Storage Interface (CSI), with which Kubernetes and other orchestrators
//! use [block images](benthic_block) as volumes.
//!
//! [`Driver`] is one process' driver, and [`Call`] one call of an orchestrator: the three services
//! [`identity`], [`controller`] and [`node`] are its methods. [`server`] maps gRPC to them.
//!
//! A volume is an image whose name begins with [`names::PREFIX`]. The driver stores nothing else,
//! so any number of drivers may use a store. A node attaches a volume with `benthic image attach`,
//! which outlives the driver.

pub mod attachment;
pub mod controller;
pub mod driver;
pub mod errors;
pub mod identity;
pub mod messages;
pub mod names;
pub mod node;
pub mod server;
mod volume;

pub use driver::{Call, Driver};
