//! The `benthic` program, run as a user runs it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bench;
mod checks;
mod class;
mod cp;
mod cp_back;
mod demo;
mod exec;
mod hidden;
mod kill;
mod objects;
mod other;
mod outage;
mod pictures;
mod pools;
mod process;
mod stripe;
mod support;
mod tour;
mod values;
