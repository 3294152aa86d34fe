//! SQL over tables and Parquet objects. Parts of a query run in the OSDs that store the objects if
//! that is faster.
//!
//! [`session`] plans queries with DataFusion. [`table::TableRows`] is a table: the objects that
//! remain after pruning with the file lists ([`manifest`]). [`objects::Objects`] is a single
//! Parquet object as a table, and [`files`] makes tables of local files. All of them use
//! DataFusion's own Parquet scan ([`scan`]). Its reader ([`reader`]) reads byte ranges of objects,
//! and [`columns`] matches columns by number. The last optimizer rules ([`rule`]) replace the parts
//! of a plan that can run beside objects ([`fragment`]) with [`fragment_exec::FragmentExec`]. This
//! node decides for each object where its part runs ([`benthic_core::pushdown`]), and adds the
//! dynamic filters of the nodes above it ([`dynamic_filter`]).
//!
//! [`literals`] preserves the exact values of literals. [`probe`] derives index lookups from a
//! filter, so that a scan reads only the rows that an index selects. [`selectivity`] estimates the
//! number of these rows, and [`index_choice`] decides whether the index pays. [`join_filter`] turns
//! the keys of a join into conditions on the other side's scan. [`work`] counts the progress of a
//! query, [`record`] records what queries read, for `benthic table advise`, and [`experiment`]
//! measures how much pushdown gains.
//!
//! [`lambdas`] parses calls with lambdas, and `all_match` has `array_all_match`, which DataFusion
//! lacks. [`wasm`] makes methods of deployed WebAssembly classes callable.
//! [`diff`](session::SqlSession::diff) compares two snapshots of a table, and [`cluster`] orders
//! rows for compactions.
//!
//! [`input`] reads the files that tables are loaded from. [`syntax`] parses and prints column types
//! and partitionings.

mod all_match;
pub mod bounded;
pub mod changes;
pub mod cluster;
pub mod columns;
pub mod common_subplan;
mod conditions;
mod diff;
pub mod dynamic_filter;
mod elements;
pub mod errors;
pub mod experiment;
pub mod expr;
pub mod files;
pub mod fragment;
pub mod fragment_exec;
pub mod index_choice;
pub mod input;
pub mod join_filter;
pub mod json_operators;
pub mod lambdas;
pub mod literals;
pub mod manifest;
pub mod object;
pub mod object_calls;
pub mod objects;
mod partition;
pub mod plan;
pub mod prepared;
pub mod probe;
pub mod reader;
pub mod record;
pub mod relations;
pub mod rule;
pub mod scan;
pub mod selectivity;
pub mod session;
pub mod syntax;
pub mod table;
pub mod travel;
pub mod unmatched_rows;
pub mod walk;
pub mod wasm;
pub mod work;

use benthic_core::ClassRegistry;
use benthic_fragment::Table;
use benthic_wasm::call_function;

/// The classes of an embedded store: the built-in classes and the class that runs fragments.
pub fn classes() -> ClassRegistry {
    benthic_classes::registry().with(Table::with_wasm(call_function))
}
