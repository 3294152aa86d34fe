//! Fragments over one object, through the public interface.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod answers;
mod bloom;
#[path = "../common/mod.rs"]
#[allow(dead_code, reason = "shared with other tests")]
mod common;
mod damage;
mod hostile;
mod membership;
mod nested;
mod texts;
