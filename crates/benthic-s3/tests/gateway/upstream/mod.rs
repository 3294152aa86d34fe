//! The driver for an upstream S3.

mod cache;
pub mod far;
mod hostile;
mod power;
mod proxy;
mod suite;
mod write_back;
