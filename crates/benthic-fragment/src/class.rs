//! The class `table`, which runs fragments, and queries of S3 Select, in the process that stores
//! the object.

use crate::fragment::{self, Blocked, Ranges, Reply, Status};
use benthic_classes::select::run_beside;
use benthic_core::{
    CallFunction, Class, Clock, Error, ErrorKind, Method, MethodContext, MethodFlags, MethodResult, Permits,
    Result, SystemClock,
};
use benthic_parquet::rows;
use benthic_wasm::Calls;
use bytes::Bytes;
use prost::Message;
use std::ops::Range;
use std::sync::OnceLock;
use std::time::Duration;

/// The class `table`.
pub struct Table;

impl Table {
    /// The class whose fragments call methods of the class `wasm` in this way. It applies to the
    /// whole process, because methods are functions without state.
    pub fn with_wasm(call: CallFunction) -> Table {
        CALL_WASM.get_or_init(|| call);
        Table
    }

    /// The class whose fragments do not call these functions. It applies to the whole process, too.
    #[must_use]
    pub fn blocking(self, blocked: Blocked) -> Table {
        BLOCKED.get_or_init(|| blocked);
        self
    }
}

static BLOCKED: OnceLock<Blocked> = OnceLock::new();
static CALL_WASM: OnceLock<CallFunction> = OnceLock::new();

impl Class for Table {
    fn name(&self) -> &'static str {
        "table"
    }

    fn version(&self) -> u32 {
        1
    }

    fn summary(&self) -> &'static str {
        "runs a fragment of a query beside a Parquet object"
    }

    fn methods(&self) -> &'static [Method] {
        &METHODS
    }
}

const fn method(
    name: &'static str,
    run: fn(&mut MethodContext<'_>, &[u8]) -> Result<Vec<u8>>,
    summary: &'static str,
) -> Method {
    Method {
        name,
        flags: MethodFlags::READ,
        run,
        result: MethodResult::Output,
        summary,
        input: "an envelope with a physical plan",
        output: "a reply: status, statistics, and the rows as an Arrow IPC stream",
        examples: &[],
    }
}

static METHODS: [Method; 3] = [
    method("scan", |context, input| scan(context, input, None), "runs a fragment of a query on the object"),
    // A method of its own, so that a client's caps can tell them apart.
    method(
        "scan_wasm",
        |context, input| {
            let calls = CALL_WASM.get().map(|call| Calls {
                call: *call,
                client: context.client(),
                end: Some(SystemClock.monotonic() + context.time_left()),
            });
            scan(context, input, calls)
        },
        "runs a fragment that calls methods of WebAssembly classes",
    ),
    Method {
        name: "select",
        flags: MethodFlags::READ,
        run: select,
        result: MethodResult::Output,
        summary: "returns the records that a query of S3 Select selects from a Parquet object",
        input: "JSON with expression, input (parquet) and output (csv or json)",
        output: "JSON in one line, with what was read and why the query ended early; then the records, at most 4 MiB",
        examples: &[
            r#"{"expression":"SELECT s.id FROM S3Object s WHERE s.price > 3","input":"parquet","output":{"csv":{}}}"#,
        ],
    },
];

fn select(context: &mut MethodContext<'_>, input: &[u8]) -> Result<Vec<u8>> {
    run_beside(context, input, rows::MEMORY_BYTES, |select, host| {
        let size_bytes = host.size_bytes();
        rows::run(select, host, size_bytes)
    })
}

static PERMITS: Permits = Permits::new();

fn scan(context: &mut MethodContext<'_>, input: &[u8], wasm_calls: Option<Calls>) -> Result<Vec<u8>> {
    let size_bytes = context.stat()?.size_bytes;
    let reply = match PERMITS.try_acquire() {
        None => Reply::without_rows(Status::Busy, "the process already runs its maximum of fragments"),
        Some(_permit) => match fragment::run(&mut MethodObject { context, size_bytes, wasm_calls }, input) {
            // The call exceeded its time or memory. A client that fetches the object has more of
            // both.
            Err(error) if error.kind() == ErrorKind::LimitExceeded => {
                Reply::without_rows(Status::TooLarge, error.to_string())
            }
            reply => reply?,
        },
    };
    Ok(reply.encode_to_vec())
}

struct MethodObject<'a, 'b> {
    context: &'a mut MethodContext<'b>,
    size_bytes: u64,
    wasm_calls: Option<Calls>,
}

impl Ranges for MethodObject<'_, '_> {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn gap_bytes_max(&self) -> u64 {
        16 * 1024
    }

    fn read(&mut self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        ranges.iter().map(|range| self.read_range(range)).collect()
    }

    fn entries(&mut self, keys: &[Bytes]) -> Result<Vec<(Bytes, Bytes)>> {
        self.context.omap_get(keys)
    }

    fn check_deadline(&mut self) -> Result<()> {
        self.context.check_deadline()
    }

    fn wasm_calls(&self) -> Option<Calls> {
        self.wasm_calls
    }

    fn blocked(&self) -> Option<&Blocked> {
        BLOCKED.get()
    }

    fn monotonic(&self) -> Duration {
        self.context.monotonic()
    }
}

impl MethodObject<'_, '_> {
    fn read_range(&mut self, range: &Range<u64>) -> Result<Bytes> {
        let len_bytes = range.end - range.start;
        let data = self.context.read(range.start, len_bytes)?;
        if data.len() as u64 != len_bytes {
            return Err(Error::corrupt("the object is shorter than its footer says")
                .with("offset_bytes", range.start)
                .with("len_bytes", len_bytes));
        }
        Ok(data)
    }
}
