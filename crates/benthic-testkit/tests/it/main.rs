//! Tests of the test kit, and of the project itself.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod docs;
mod linear;
mod model;
mod project;
mod tidy;
