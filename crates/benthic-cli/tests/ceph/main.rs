//! The `benthic` program on real Ceph clusters.
//!
//! `make test` runs these tests. It installs Ceph and starts the cluster that
//! `BENTHIC_TEST_CEPH_CONF` names, which the tests share. Tests that damage a cluster start their
//! own.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod browser;
mod classes;
mod cluster;
mod console;
mod demo;
mod deployments;
mod failures;
#[path = "../it/guest.rs"]
#[allow(dead_code, reason = "shared with the tests of the embedded engine")]
mod guest;
mod health;
mod hosts;
mod hung;
mod images;
#[path = "../it/nbd.rs"]
#[allow(dead_code, reason = "shared with the tests of the embedded engine")]
mod nbd;
mod neighbours;
mod outage;
mod placement;
mod pools;
mod sites;
mod status;
mod stripe;
mod support;
mod tour;
#[path = "../it/web.rs"]
#[allow(dead_code, reason = "shared with the tests of the embedded engine")]
mod web;
