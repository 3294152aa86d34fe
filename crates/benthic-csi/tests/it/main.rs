//! The driver's methods on a real store, with real devices where this machine has them. `make
//! test-csi` checks the protocol with csi-sanity.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod help;
mod node;
mod support;
mod volumes;
