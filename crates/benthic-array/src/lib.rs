//! Arrays in Zarr's format, version 3 and 2, in any pool.
//!
//! An array is a set of objects whose names begin with the array's name: a metadata document, and
//! an object for each chunk, or for each shard of chunks. There is no catalog, so every Zarr
//! library that reads the objects reads the array. [`Array`] opens one, reads selections and
//! reduces them; [`ArrayWriter`] makes one, in a [`Creation`].
//!
//! The [class](class) `array` decodes a chunk beside its data and returns the selection, or the
//! state of a reduction, which is small. For each chunk the client decides whether the class or the
//! client itself runs the code; it is the same code, so the results have the same bits.
//!
//! The design is in `docs/design/0011-arrays.md`.

mod address;
mod array;
mod block;
mod calendar;
mod cf;
mod check;
pub mod class;
mod codec;
mod create;
mod creation;
mod dtype;
mod format;
mod gather;
mod json;
mod list;
mod metadata;
mod pack;
mod reduce;
mod references;
mod remove;
mod runner;
mod selection;
mod statistics;
mod values;

pub use address::ArrayAddress;
pub use array::{Array, Place};
pub use calendar::{Calendar, DateRange, Period, TimeUnits};
pub use cf::{Coordinates, LabelRange, NumberRange, decoding};
pub use check::{ArrayCheck, ArrayFinding};
pub use class::ArrayClass;
pub use codec::Compressor;
pub use create::{
    ArrayWriter, AttributeValue, NewArray, NewAttributes, WriteStats, fill_attribute, group_document,
};
pub use creation::Creation;
pub use dtype::{Dtype, NumberKind};
pub use json::{element_json, parse_with_nan};
pub use list::{ListedNode, list};
pub use metadata::{
    ArrayMetadata, CREATION_MARKER, GRIB_CODEC, GroupMetadata, Node, is_metadata, is_node, writing_order,
};
pub use reduce::{
    AxisRole, Decoding, Groups, Mask, Missing, Reduction, ReductionKind, Regrid, Tallied, Tally, TallyKind,
    Weight, WeightParts, Weights,
};
pub use references::{CHUNK_INDEX_KEY, CHUNKS_MAX, FileParts, PART_BYTES, REFERENCES_FIELD, References};
pub use remove::remove;
pub use runner::{ChunkRunner, ReadStats, StoredChunk};
pub use selection::{Bounded, PerAxis, Slice, TouchedChunks};
pub use statistics::{IndexProgress, is_statistics};
pub use values::Values;

/// Decoders of stored and sent bytes, for programs that read other formats and for the fuzzer.
pub mod decoders {
    pub use crate::codec::{BytesCodec, Codecs, Pipeline};
    pub use crate::format::{ByteRange, Encoding, ObjectFormat, ReadObject, ShardIndexFormat};
    pub use crate::metadata::{parse_v2, parse_v3};
    pub use crate::references::ChunkIndex;
    pub use crate::statistics::Page;
}
