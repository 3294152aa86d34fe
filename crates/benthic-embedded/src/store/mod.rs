//! The store in a directory. The process that owns the directory runs it.

mod alloc;
mod block_set;
mod buffers;
mod check;
mod checksum;
mod chunks;
mod cleaner;
mod commit;
#[cfg(test)]
mod damage_tests;
mod data;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod decoders;
mod dir;
mod direct;
mod disk;
mod engine;
#[cfg(test)]
mod format_tests;
mod keys;
mod kv;
mod kv_files;
mod layout;
mod log;
mod object;
mod object_cache;
mod pack;
mod pieces;
mod record;
mod salvage;
mod space;

pub(crate) use commit::{Announcement, Completion};
pub(crate) use dir::{Dir, Ownership, lock_path};
pub(crate) use direct::{DirectReader, Location, ReadRange};
pub(crate) use engine::{ClientAccess, Engine};
pub(crate) use salvage::{DamagedStore, ObjectReader};
