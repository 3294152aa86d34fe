//! Tables for programs that read and write Iceberg: the REST catalog, and a bucket with the files
//! of all tables.
//!
//! - [`iceberg`]: the files of a table, which are computed when a client asks for them.
//! - [`bucket`]: the driver of the S3 gateway that serves these files.
//! - [`rest`]: the catalog.
//! - [`staging`] and [`commit`]: files that clients upload, and commits that make them rows of a
//!   table.
//! - [`auth`]: tokens, and temporary keys for the bucket.

pub mod auth;
pub mod bucket;
pub mod commit;
pub mod iceberg;
pub mod rest;
pub mod staging;
