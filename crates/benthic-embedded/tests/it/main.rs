//! Tests of both engines through their public interface.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bad_input;
mod conformance;
mod damage;
mod damage_random;
mod direct;
mod linear;
mod model;
mod nested;
mod power;
mod read_only;
mod recovery;
mod salvage;
mod sharing;
mod space;
mod support;
