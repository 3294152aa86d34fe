//! A table as an Iceberg table. Nothing of it is stored: each file of it is a function of the
//! table's head, of one file list, or of one row of a file list.

pub mod avro;
pub mod definition;
pub mod evolution;
pub mod keys;
mod manifest;
pub mod metadata;
pub mod nested;
mod puffin;
mod types;
pub mod view;
