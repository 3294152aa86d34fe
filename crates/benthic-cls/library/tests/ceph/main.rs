//! The libraries inside a real OSD.
//!
//! `BENTHIC_TEST_CEPH_CONF` names the ceph.conf of a writable cluster on this machine. The tests
//! install the libraries into its `osd_class_dir` and write objects to its pool `benthic-cls-test`.
//! `make test` starts such a cluster.
//!
//! An OSD loads a library at the first call or when the OSD starts, and keeps it. After a change of
//! the libraries, restart the OSDs. `BENTHIC_METHOD_DEADLINE_MS=3000` in the OSDs' environment
//! makes the deadline tests shorter.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod built_in;
mod calls;
mod cluster;
mod misbehaving;
mod upgrade;
