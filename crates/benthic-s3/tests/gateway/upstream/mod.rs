//! The driver for an upstream S3.

mod cache;
mod far;
mod hostile;
mod proxy;
mod suite;
