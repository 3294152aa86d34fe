//! Query fragments: the part of a query plan that runs on one data object of a table, a
//! self-contained Parquet file.
//!
//! A client plans a query. It sends the part of the plan that reads one object (a *fragment*: scan,
//! filter, projection, partial aggregate, limit) to the OSD that stores the object.
//! [`fragment::run`] runs the fragment there. It also runs anywhere else that can read byte ranges
//! of the object: both sides share this code.

pub mod class;
pub mod fragment;
pub mod json;
pub mod membership;
pub mod text_search;
pub mod wasm;

pub use class::Table;
