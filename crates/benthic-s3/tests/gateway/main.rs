//! What of the gateway is tested without HTTP. The rest is tested with clients of others, in `tests/clients/`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod error_codes;
mod seal;
mod single_flight;
