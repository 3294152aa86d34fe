//! The libraries inside a real OSD.
//!
//! `BENTHIC_TEST_CEPH_CONF` names the ceph.conf of a cluster on this machine that the tests may
//! write to. They install the libraries into its `osd_class_dir` and put the objects into its pool
//! `benthic-cls-test`. `make test` starts such a cluster.
//!
//! A cluster that has not loaded the libraries yet loads them on their first call. An OSD that has
//! loaded them keeps the old files: restart the OSDs after a change, and they load the libraries at
//! their start. `BENTHIC_METHOD_DEADLINE_MS=2000` in the environment of the OSDs shortens the
//! deadline tests.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod built_in;
mod calls;
mod cluster;
mod misbehaving;
mod upgrade;
