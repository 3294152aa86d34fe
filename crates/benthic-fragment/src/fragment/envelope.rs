//! The wire messages: the request (envelope) and the reply.

use benthic_index::{Probes, Rows};
use bytes::Bytes;
use prost::Message;
use prost::encoding::{DecodeContext, decode_key, skip_field};

/// Identifies this build. DataFusion does not promise that one build can decode another's plans.
pub const BUILD: &str = concat!(env!("CARGO_PKG_VERSION"), "-", env!("BENTHIC_FRAGMENT_SOURCES"));

/// The only address that a plan may scan. It stands for the object.
pub const OBJECT_URL: &str = "benthic://object/";

/// Maximum size of an envelope.
pub const ENVELOPE_BYTES_MAX: usize = 1024 * 1024;

/// A fragment as the client sends it. The same bytes go to every object of a table.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Envelope {
    /// The [`BUILD`] that encoded the plan. Another build refuses it, because plans have no stable
    /// encoding.
    #[prost(string, tag = "1")]
    pub build: String,
    /// The plan, an encoded `PhysicalPlanNode` of DataFusion.
    #[prost(bytes = "bytes", tag = "2")]
    pub plan: Bytes,
    /// Maximum rows per batch in the operators.
    #[prost(uint32, tag = "3")]
    pub batch_rows: u32,
    /// Maximum size of the reply's rows, in bytes of Arrow IPC.
    #[prost(uint64, tag = "4")]
    pub output_bytes_max: u64,
    /// Whether the reply is compressed with Zstandard.
    #[prost(bool, tag = "5")]
    pub compress: bool,
    /// Index lookup that selects the rows to scan.
    #[prost(message, optional, tag = "8")]
    pub probes: Option<Probes>,
    /// The methods of WebAssembly classes that the plan calls.
    #[prost(message, repeated, tag = "7")]
    pub methods: Vec<WasmMethod>,
}

/// The part of a request about its object alone. Its bytes follow those of the [`Envelope`], which
/// all objects of a table get, and which receivers cache.
#[derive(Clone, PartialEq, prost::Message)]
pub struct OfObject {
    /// The deleted rows, as [`Rows::encode`] returns them.
    #[prost(bytes = "bytes", tag = "14")]
    pub deleted: Bytes,
    /// Number of rows of the object, deleted ones included.
    #[prost(uint32, tag = "15")]
    pub rows: u32,
}

impl OfObject {
    const TAG_MIN: u32 = 14;

    /// The request for an object: the encoded envelope, and the object's deleted rows.
    pub fn request(envelope: &Bytes, deleted: Option<&Rows>) -> Bytes {
        let Some(deleted) = deleted else { return envelope.clone() };
        let of_object = OfObject { deleted: deleted.encode().into(), rows: deleted.of() };
        Bytes::from([envelope.as_ref(), &of_object.encode_to_vec()].concat())
    }

    /// Splits a request into the encoded envelope and the object's deleted rows.
    pub fn split(request: &[u8]) -> Result<(&[u8], Option<Rows>), String> {
        let failed = |error: &dyn std::fmt::Display| format!("the request cannot be decoded: {error}");
        let mut rest = request;
        let mut envelope_bytes = request.len();
        while !rest.is_empty() {
            let start = request.len() - rest.len();
            let (tag, wire_type) = decode_key(&mut rest).map_err(|error| failed(&error))?;
            if tag >= OfObject::TAG_MIN {
                envelope_bytes = start;
                break;
            }
            skip_field(wire_type, tag, &mut rest, DecodeContext::default())
                .map_err(|error| failed(&error))?;
        }
        let (envelope, of_object) = request.split_at(envelope_bytes);
        if of_object.is_empty() {
            return Ok((envelope, None));
        }
        let of_object = OfObject::decode(of_object).map_err(|error| failed(&error))?;
        let deleted = Rows::decode(&of_object.deleted, of_object.rows).map_err(|error| failed(&error))?;
        Ok((envelope, Some(deleted)))
    }
}

/// A method of a WebAssembly class that a plan calls.
#[derive(Clone, PartialEq, prost::Message)]
pub struct WasmMethod {
    /// `CLASS.METHOD`, as in the calls.
    #[prost(string, tag = "1")]
    pub name: String,
    /// The module's SHA-256.
    #[prost(bytes = "bytes", tag = "2")]
    pub module: Bytes,
    /// The limits of each call; see [`Limits`](benthic_wasm::Limits).
    #[prost(uint64, tag = "3")]
    pub fuel: u64,
    #[prost(uint64, tag = "4")]
    pub memory_bytes: u64,
}

/// Result of a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum Status {
    Ok = 0,
    /// The reply or its memory exceeds a limit. Run the fragment in the client.
    TooLarge = 1,
    /// The plan may not run beside objects. Run the fragment in the client.
    Unsupported = 2,
    /// The query fails on this object, a call of a WebAssembly method fails, or the object is not a
    /// valid Parquet file.
    Failed = 3,
    /// The process already runs its maximum of fragments. Run the fragment in the client, or retry.
    Busy = 4,
    OtherBuild = 5,
    /// A module is not cached in the process. Call `wasm.check` with each module attached, and
    /// repeat.
    SendModules = 6,
}

/// The reply of a fragment.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Reply {
    /// A [`Status`].
    #[prost(enumeration = "Status", tag = "1")]
    pub status: i32,
    /// Why the fragment failed or was refused.
    #[prost(string, tag = "2")]
    pub message: String,
    /// The rows as an Arrow IPC stream.
    #[prost(bytes = "bytes", tag = "3")]
    pub ipc: Bytes,
    #[prost(uint64, tag = "4")]
    pub rows: u64,
    #[prost(uint64, tag = "5")]
    pub read_bytes: u64,
    #[prost(uint64, tag = "6")]
    pub reads: u64,
    /// Time to check and decode the plan.
    #[prost(uint64, tag = "7")]
    pub plan_us: u64,
    /// Time to run the plan, reads included.
    #[prost(uint64, tag = "8")]
    pub run_us: u64,
    #[prost(uint64, tag = "9")]
    pub read_us: u64,
    /// Peak memory that the operators reserved, without the Parquet reader's own memory.
    #[prost(uint64, tag = "10")]
    pub reserved_bytes_max: u64,
    /// Number of index pages that the lookup read.
    #[prost(uint64, tag = "11")]
    pub index_pages: u64,
    /// Rows that the index selected, or none if it was not used.
    #[prost(uint64, optional, tag = "12")]
    pub index_rows: Option<u64>,
    /// Rows that satisfied the fragment's filters, unless a limit ended the scan.
    #[prost(uint64, optional, tag = "13")]
    pub rows_selected: Option<u64>,
}

impl Reply {
    /// A reply that gives the reason why it has no rows.
    pub fn without_rows(status: Status, message: impl Into<String>) -> Reply {
        Reply { status: status.into(), message: message.into(), ..Reply::default() }
    }
}

impl Envelope {
    /// An envelope of this build, with default limits, no compression and no probes.
    pub fn new(plan: Bytes) -> Envelope {
        Envelope {
            build: BUILD.to_owned(),
            plan,
            batch_rows: 8_192,
            output_bytes_max: 4 * 1024 * 1024,
            compress: false,
            probes: None,
            methods: Vec::new(),
        }
    }

    pub fn to_bytes(&self) -> Bytes {
        Bytes::from(self.encode_to_vec())
    }
}
