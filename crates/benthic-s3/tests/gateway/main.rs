//! Tests of the gateway that need no HTTP client. Third-party clients test the rest, in
//! `tests/clients/`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod error_codes;
mod help;
mod identity;
#[allow(dead_code, unused_imports, unused_macros, reason = "shared with the tests of the driver on pools")]
#[path = "../sal/mod.rs"]
mod sal;
mod seal;
mod single_flight;
mod upstream;
mod vault;
mod view;
mod web_identity;
