//! Reads Parquet that may be hostile, in bounded memory.
//!
//! [`bounds`] checks bytes before Parquet's decoder reads them. Fragments of query plans
//! (`benthic-fragment`) use it, and [`rows`], which reads the rows of an object for S3 Select. The
//! latter needs no query engine, so the S3 gateway links this crate without DataFusion.
//! [`elements`] reads schemas for the Iceberg catalog.

pub mod bounds;
mod cells;
pub mod elements;
mod feed;
mod format;
pub mod rows;
mod thrift;
