//! Tests without clients. Those with clients are in tests/clients/.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod auth;
mod files;
