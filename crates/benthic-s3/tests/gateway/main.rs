//! Tests of the gateway that need no HTTP. Third-party clients test the rest, in `tests/clients/`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod error_codes;
mod help;
mod seal;
mod single_flight;
mod view;
