//! Tests of the Ceph engine on a real cluster.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod access;
mod conformance;
mod operations;
mod support;
