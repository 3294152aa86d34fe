//! What goes over the wire, in both directions.

use benthic_index::Probe;
use bytes::Bytes;
use prost::Message;

/// The build whose plans run here: DataFusion promises nothing about plans of another.
pub const BUILD: &str = concat!(env!("CARGO_PKG_VERSION"), "-", env!("BENTHIC_FRAGMENT_SOURCES"));

/// The address of the object in a plan: there is one object, and no other address.
pub const OBJECT_URL: &str = "benthic://object/";

/// Largest envelope.
pub const ENVELOPE_BYTES_MAX: usize = 1024 * 1024;

/// A fragment as a client sends it. The same bytes go to every object of a table.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Envelope {
    /// The build that encoded the plan. Another build refuses it: plans have no stable encoding.
    #[prost(string, tag = "1")]
    pub build: String,
    /// A `PhysicalPlanNode` of DataFusion.
    #[prost(bytes = "bytes", tag = "2")]
    pub plan: Bytes,
    /// How many rows the operators handle at a time.
    #[prost(uint32, tag = "3")]
    pub batch_rows: u32,
    /// Largest answer that the client wants, in bytes of Arrow IPC.
    #[prost(uint64, tag = "4")]
    pub output_bytes_max: u64,
    /// Whether the answer is compressed (Zstandard).
    #[prost(bool, tag = "5")]
    pub compress: bool,
    /// Which rows are enough for the plan, by an index of the table.
    #[prost(message, optional, tag = "6")]
    pub probe: Option<Probe>,
}

/// How a fragment went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum Status {
    /// The rows are in the reply.
    Ok = 0,
    /// The answer or the memory for it is over a cap; run it at the client.
    TooLarge = 1,
    /// The plan is not one that runs beside objects; run it at the client.
    Unsupported = 2,
    /// The query itself fails on this object, or the object is no good Parquet file.
    Failed = 3,
    /// As many fragments run there as may at once; run it at the client, or there later.
    Busy = 4,
    /// Another build encoded the plan.
    OtherBuild = 5,
}

/// What a fragment answers.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Reply {
    /// How it went.
    #[prost(enumeration = "Status", tag = "1")]
    pub status: i32,
    /// Why it did not go well.
    #[prost(string, tag = "2")]
    pub message: String,
    /// An Arrow IPC stream.
    #[prost(bytes = "bytes", tag = "3")]
    pub ipc: Bytes,
    /// Rows in the answer.
    #[prost(uint64, tag = "4")]
    pub rows: u64,
    /// Bytes of the object that were read.
    #[prost(uint64, tag = "5")]
    pub read_bytes: u64,
    /// Reads of the object.
    #[prost(uint64, tag = "6")]
    pub reads: u64,
    /// Time to make a plan of the envelope.
    #[prost(uint64, tag = "7")]
    pub plan_us: u64,
    /// Time of the rest, reads included.
    #[prost(uint64, tag = "8")]
    pub run_us: u64,
    /// Time of the reads.
    #[prost(uint64, tag = "9")]
    pub read_us: u64,
    /// The most memory that the operators reserved; what the Parquet reader holds is not in it.
    #[prost(uint64, tag = "10")]
    pub reserved_bytes_max: u64,
    /// Pages of an index that were read.
    #[prost(uint64, tag = "11")]
    pub index_pages: u64,
    /// Rows that the index left; nothing if it was not used.
    #[prost(uint64, optional, tag = "12")]
    pub index_rows: Option<u64>,
}

impl Reply {
    /// A reply that says why there are no rows.
    pub fn without_rows(status: Status, message: impl Into<String>) -> Reply {
        Reply { status: status.into(), message: message.into(), ..Reply::default() }
    }
}

impl Envelope {
    /// An envelope of this build.
    pub fn new(plan: Bytes) -> Envelope {
        Envelope {
            build: BUILD.to_owned(),
            plan,
            batch_rows: 8_192,
            output_bytes_max: 4 * 1024 * 1024,
            compress: false,
            probe: None,
        }
    }

    /// The envelope as bytes.
    pub fn to_bytes(&self) -> Bytes {
        Bytes::from(self.encode_to_vec())
    }
}
