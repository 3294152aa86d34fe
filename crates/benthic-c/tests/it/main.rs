//! The C libraries, as C programs use them.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod guide;
mod header;
mod libraries;
mod programs;
mod unmodified;
