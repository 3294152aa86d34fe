//! Tests of both engines through their public interface.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bad_input;
mod conformance;
mod damage;
mod model;
mod recovery;
mod sharing;
mod space;
mod support;
