//! SQL over tables and Parquet objects, whose work runs beside the objects where that is better.
//!
//! [`session`] plans with DataFusion. A table is [`table::TableRows`] over the objects that the [`manifest`] leaves; one object
//! that somebody named is [`objects::Objects`]. The scan of both is DataFusion's own ([`scan`]), whose reader ([`reader`]) reads
//! byte ranges of objects and finds columns by number ([`columns`]). The last rules ([`rule`]) cut out what can run beside
//! objects ([`fragment`]) and put [`fragment_exec::FragmentExec`] there, which decides for each object ([`choice`]) where its part
//! runs, with the dynamic filters of the nodes above ([`dynamic_filter`]).
//!
//! [`literals`] keeps what is written in a query. [`probe`] is what the indexes of a table say about a filter: a scan, beside objects or here, reads only the rows that come out.
//! [`work`] is what a query has done so far, and [`experiment`] shows what running beside objects is worth.
//!
//! [`input`] reads the files that tables are loaded from, and [`syntax`] parses and prints types and partitionings.

pub mod choice;
pub mod columns;
pub mod dynamic_filter;
pub mod errors;
pub mod experiment;
pub mod expr;
pub mod fragment;
pub mod fragment_exec;
pub mod input;
pub mod literals;
pub mod manifest;
pub mod object;
pub mod objects;
pub mod plan;
pub mod probe;
pub mod reader;
pub mod relations;
pub mod rule;
pub mod scan;
pub mod session;
pub mod syntax;
pub mod table;
pub mod work;

use benthic_core::ClassRegistry;

/// The classes of a store in this process: the built-in ones, and the one that runs fragments.
pub fn classes() -> ClassRegistry {
    benthic_classes::registry().with(benthic_fragment::Table)
}
