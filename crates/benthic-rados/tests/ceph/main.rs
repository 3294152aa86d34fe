//! Tests of the Ceph engine on a real cluster.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod access;
mod bounds;
mod conformance;
mod erasure;
mod operations;
mod outage;
mod releases;
mod support;
mod versions;
