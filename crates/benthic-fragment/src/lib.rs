//! Tables: what runs beside one data object of a table, a self-contained Parquet file.
//!
//! A client plans a query, and sends the part of the plan that reads one object (a *fragment*: scan, filter,
//! projection, partial aggregate, limit) to where the object is. [`fragment::run`] runs it there, or anywhere else
//! where byte ranges of the object can be read; it is the same code on both sides.

pub mod class;
pub mod fragment;

pub use class::Table;
