//! SQL over Parquet objects, whose work runs beside the objects where that is better.
//!
//! [`session::query`] plans with DataFusion. [`objects::Objects`] is the table, its scan a plain one whose reader
//! ([`reader`]) reads byte ranges of objects. The last rules ([`rule`]) cut out what can run beside objects ([`fragment`])
//! and put [`fragment_exec::FragmentExec`] there, which decides for each object ([`choice`]) where its part runs.
//!
//! [`input`] reads the files that tables are loaded from, and [`spelling`] the types and partitionings that people write.

pub mod choice;
pub mod errors;
pub mod fragment;
pub mod fragment_exec;
pub mod input;
pub mod object;
pub mod objects;
pub mod reader;
pub mod rule;
pub mod session;
pub mod spelling;
