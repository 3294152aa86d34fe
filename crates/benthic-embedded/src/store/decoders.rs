//! The store's formats, as far as the fuzzer uses them.

pub(crate) use super::keys::{Chunk, Meta, Onode, chunk_index};
pub(crate) use super::kv_files::table_list;
pub(crate) use super::log::{Log, seal as seal_log};
pub(crate) use super::record::Record;
