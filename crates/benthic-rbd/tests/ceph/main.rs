//! Tests of images on a real cluster, which `BENTHIC_TEST_CEPH_CONF` names.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../../benthic-block/tests/it/conformance.rs"]
mod conformance;
#[path = "../../../benthic-block/tests/it/geometries.rs"]
mod geometries;
mod locks;
mod rbd;
mod support;

conformance::conformance!(support::with_images);
