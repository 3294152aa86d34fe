//! The head's protobuf messages, as docs/formats.md draws them. A field number is never reused for
//! another meaning.

use benthic_core::{Error, Result};
use prost::encoding::{DecodeContext, decode_key, skip_field};

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Head {
    #[prost(fixed64, tag = "1")]
    pub id: u64,
    #[prost(uint32, tag = "2")]
    pub state: u32,
    #[prost(bytes = "vec", repeated, tag = "3")]
    pub schemas: Vec<Vec<u8>>,
    #[prost(uint32, tag = "4")]
    pub next_field_id: u32,
    #[prost(message, optional, tag = "5")]
    pub partitioning: Option<Partitioning>,
    #[prost(uint32, repeated, tag = "6")]
    pub sort: Vec<u32>,
    #[prost(uint64, tag = "7")]
    pub object_bytes_target: u64,
    #[prost(message, repeated, tag = "8")]
    pub lists: Vec<List>,
    #[prost(message, repeated, tag = "9")]
    pub snapshots: Vec<Snapshot>,
    #[prost(message, repeated, tag = "10")]
    pub intents: Vec<Intent>,
    #[prost(message, repeated, tag = "11")]
    pub indexes: Vec<Index>,
    #[prost(uint32, tag = "12")]
    pub next_index: u32,
    #[prost(message, repeated, tag = "13")]
    pub tags: Vec<Tag>,
    #[prost(message, optional, tag = "14")]
    pub encoding: Option<Encoding>,
    #[prost(bool, tag = "15")]
    pub records_access: bool,
    #[prost(uint32, repeated, tag = "16")]
    pub bloom: Vec<u32>,
    #[prost(message, repeated, tag = "17")]
    pub groups: Vec<ColumnGroup>,
}

/// Columns that data objects store apart from the others.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ColumnGroup {
    #[prost(uint32, repeated, tag = "1")]
    pub columns: Vec<u32>,
    /// The size of the object; only in file lists.
    #[prost(uint64, tag = "2")]
    pub bytes: u64,
}

/// The column groups of a data object, in a file list.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ColumnGroups {
    #[prost(message, repeated, tag = "1")]
    pub groups: Vec<ColumnGroup>,
}

/// How data objects are encoded, if not in the default way.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(crate) struct Encoding {
    #[prost(uint32, tag = "1")]
    pub codec: u32,
    #[prost(uint32, tag = "2")]
    pub level: u32,
    #[prost(uint64, tag = "3")]
    pub row_group_bytes: u64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Tag {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(uint64, tag = "2")]
    pub snapshot: u64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Schema {
    #[prost(message, repeated, tag = "1")]
    pub nodes: Vec<Node>,
}

/// A field, in preorder: a nested type's children follow it.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Node {
    #[prost(uint32, tag = "1")]
    pub id: u32,
    #[prost(string, tag = "2")]
    pub name: String,
    #[prost(bool, tag = "3")]
    pub nullable: bool,
    #[prost(uint32, tag = "4")]
    pub kind: u32,
    #[prost(uint32, tag = "5")]
    pub parameter: u32,
    #[prost(sint32, tag = "6")]
    pub scale: i32,
    #[prost(string, optional, tag = "7")]
    pub zone: Option<String>,
    #[prost(uint32, tag = "8")]
    pub children: u32,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Partitioning {
    #[prost(uint32, tag = "1")]
    pub kind: u32,
    #[prost(uint32, tag = "2")]
    pub field: u32,
    #[prost(uint32, tag = "3")]
    pub buckets: u32,
    #[prost(sint64, repeated, tag = "4")]
    pub bounds: Vec<i64>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct List {
    #[prost(fixed64, tag = "1")]
    pub writer: u64,
    #[prost(uint32, tag = "2")]
    pub number: u32,
    #[prost(uint64, tag = "3")]
    pub objects: u64,
    #[prost(uint64, tag = "4")]
    pub rows: u64,
    #[prost(uint64, tag = "5")]
    pub data_bytes: u64,
    #[prost(uint64, tag = "6")]
    pub list_bytes: u64,
    #[prost(uint64, tag = "7")]
    pub grouped: u64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Snapshot {
    #[prost(uint64, tag = "1")]
    pub id: u64,
    #[prost(uint64, tag = "2")]
    pub time_ms: u64,
    #[prost(uint32, tag = "3")]
    pub operation: u32,
    #[prost(fixed64, tag = "4")]
    pub writer: u64,
    #[prost(uint32, tag = "5")]
    pub schema: u32,
    #[prost(uint32, repeated, tag = "6")]
    pub lists: Vec<u32>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Intent {
    #[prost(fixed64, tag = "1")]
    pub writer: u64,
    #[prost(uint64, tag = "2")]
    pub time_ms: u64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Index {
    #[prost(uint32, tag = "1")]
    pub number: u32,
    #[prost(uint32, repeated, tag = "2")]
    pub columns: Vec<u32>,
    #[prost(uint32, tag = "3")]
    pub kind: u32,
}

/// Refuses a message with too many fields before it is decoded: an empty nested message takes two
/// bytes here and a hundred in memory. Returns the number of fields.
pub(crate) fn check_fields(mut message: &[u8], fields_max: usize) -> Result<usize> {
    let mut fields = 0;
    while !message.is_empty() {
        if fields == fields_max {
            return Err(Error::corrupt("a message has too many fields").with("fields_max", fields_max));
        }
        let (tag, wire_type) = decode_key(&mut message).map_err(corrupt)?;
        skip_field(wire_type, tag, &mut message, DecodeContext::default()).map_err(corrupt)?;
        fields += 1;
    }
    Ok(fields)
}

pub(crate) fn corrupt(source: prost::DecodeError) -> Error {
    Error::corrupt("a message cannot be decoded").with_source(source)
}
