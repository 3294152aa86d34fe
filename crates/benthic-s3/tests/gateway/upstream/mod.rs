//! The driver for an upstream S3.

mod cache;
pub mod far;
mod hostile;
mod proxy;
mod suite;
