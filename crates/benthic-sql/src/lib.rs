//! SQL over tables and Parquet objects, whose work runs beside the objects where that is better.
//!
//! [`session`] plans with DataFusion. A table is [`table::TableRows`] over the objects that the [`manifest`] leaves; one object
//! that somebody named is [`objects::Objects`]. The scan of both is DataFusion's own ([`scan`]), whose reader ([`reader`]) reads
//! byte ranges of objects and finds columns by number ([`columns`]). The last rules ([`rule`]) cut out what can run beside
//! objects ([`fragment`]) and put [`fragment_exec::FragmentExec`] there, which decides for each object ([`choice`]) where its part
//! runs, with the filters that the nodes above have by then ([`tightening`]).
//!
//! [`input`] reads the files that tables are loaded from, and [`spelling`] the types and partitionings that people write.

pub mod choice;
pub mod columns;
pub mod errors;
pub mod fragment;
pub mod fragment_exec;
pub mod input;
pub mod manifest;
pub mod object;
pub mod objects;
pub mod reader;
pub mod rule;
pub mod scan;
pub mod session;
pub mod spelling;
pub mod table;
pub mod tightening;
