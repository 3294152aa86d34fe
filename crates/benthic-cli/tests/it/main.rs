//! The `benthic` program, run as a user runs it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod attach;
mod bench;
mod checks;
mod class;
mod class_test;
mod collect;
mod confirm;
mod console;
mod copies;
mod cp;
mod cp_back;
mod cp_concurrent;
mod demo;
mod exec;
mod find;
mod guest;
mod hidden;
mod image_kills;
mod image_sets;
mod image_tls;
mod images;
mod kill;
mod local_files;
mod map;
mod mirror;
mod modules;
mod nbd;
mod objects;
mod other;
mod outage;
mod pictures;
mod pools;
mod process;
mod read_only;
mod stripe;
mod support;
mod tour;
mod values;
mod web;
