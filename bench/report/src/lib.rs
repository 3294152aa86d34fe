//! What the benchmarks share: the machine in a few words, medians, and results as Markdown, JSON and a page.

pub mod cluster;
#[path = "../../../crates/benthic-program/src/html.rs"]
pub mod html;
pub mod machine;
pub mod sections;
pub mod stats;
pub mod tables;

use std::error::Error;

/// What can go wrong in a benchmark is for a person to read.
pub type Outcome<T = ()> = Result<T, Box<dyn Error>>;
