//! The C libraries, as C programs use them.

mod header;
mod libraries;
mod programs;
