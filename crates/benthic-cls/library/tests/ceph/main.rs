//! The libraries inside a real OSD.
//!
//! `BENTHIC_TEST_CEPH_CONF` names the ceph.conf of a cluster on this machine that may be written to: its
//! `osd_class_dir` gets the libraries, its pool `benthic-cls-test` the objects. `make test` starts such a cluster.
//!
//! A cluster that has not seen the libraries yet loads them on their first call. One that has goes on with the old
//! files: start its OSDs again after a change, which loads them at their start. `BENTHIC_METHOD_DEADLINE_MS=2000` in the
//! environment of the OSDs makes the tests of the deadline shorter.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod built_in;
mod calls;
mod cluster;
mod misbehaving;
mod upgrade;
