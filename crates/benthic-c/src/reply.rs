//! Results that C programs read: replies, pages of a listing, and errors. They are stored in a form
//! to which a C program can have pointers.

use crate::handles::Item;
use benthic_core::op::{ReadOutput, ReadReply, Stat, WriteReply};
use benthic_core::{Error, ErrorKind, ListPage, Result};
use bytes::Bytes;
use std::ffi::CString;

/// The reply to an operation.
pub struct Reply {
    pub version: u64,
    pub outputs: Vec<Output>,
}

/// The output of one step.
pub enum Output {
    Data(Bytes),
    Stat(Stat),
    Entries { entries: Vec<(Bytes, Bytes)>, more: bool },
}

impl Item for Reply {
    const TYPE: &str = "benthic_reply";
}

impl Reply {
    /// A reply without a version, such as that of a method call.
    pub fn of_data(data: impl Into<Bytes>) -> Reply {
        Reply { version: 0, outputs: vec![Output::Data(data.into())] }
    }

    /// # Errors
    /// `InvalidArgument` if the operation has fewer steps.
    pub fn output(&self, step: usize) -> Result<&Output> {
        self.outputs.get(step).ok_or_else(|| {
            let error = Error::invalid_argument("the reply has no output of this step");
            error.with("step", step).with("outputs", self.outputs.len())
        })
    }
}

impl From<ReadReply> for Reply {
    fn from(reply: ReadReply) -> Reply {
        Reply { version: reply.version, outputs: reply.outputs.into_iter().map(Output::from).collect() }
    }
}

impl From<WriteReply> for Reply {
    fn from(reply: WriteReply) -> Reply {
        Reply { version: reply.version, outputs: Vec::new() }
    }
}

impl From<ReadOutput> for Output {
    fn from(output: ReadOutput) -> Output {
        match output {
            ReadOutput::Data(data) | ReadOutput::Xattr(data) | ReadOutput::Exec(data) => Output::Data(data),
            ReadOutput::Stat(stat) => Output::Stat(stat),
            ReadOutput::Xattrs(xattrs) => {
                let entries = xattrs.into_iter().map(|(name, value)| (name.into(), value)).collect();
                Output::Entries { entries, more: false }
            }
            ReadOutput::Omap(page) => Output::Entries { entries: page.entries, more: page.more },
        }
    }
}

/// A page of a listing: namespaces and names. Pools have no namespace.
pub struct Page {
    pub entries: Vec<(CString, CString)>,
    pub next: Option<Bytes>,
}

impl Item for Page {
    const TYPE: &str = "benthic_page";
}

impl Page {
    pub fn of_pools(pools: Vec<String>) -> Page {
        let entries = pools.into_iter().map(|name| (CString::default(), c_string(name))).collect();
        Page { entries, next: None }
    }
}

impl From<ListPage> for Page {
    fn from(page: ListPage) -> Page {
        let entry = |object: benthic_core::ObjectId| (c_string(object.namespace()), c_string(object.name()));
        Page { entries: page.objects.into_iter().map(entry).collect(), next: page.next.map(|token| token.0) }
    }
}

/// An error, for C.
#[derive(Clone)]
pub struct Failure {
    pub kind: ErrorKind,
    pub message: CString,
}

impl Item for Failure {
    const TYPE: &str = "benthic_error";
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure { kind: error.kind(), message: c_string(error.to_string()) }
    }
}

/// The number of a kind in C: the exit status that the programs use for it.
pub fn kind_number(kind: ErrorKind) -> i32 {
    i32::from(kind.row().exit_status)
}

/// Names have no NUL by the contract; of another text, the NULs become spaces.
fn c_string(text: impl Into<String>) -> CString {
    CString::new(text.into()).unwrap_or_else(|error| {
        let mut bytes = error.into_vec();
        bytes.iter_mut().filter(|byte| **byte == 0).for_each(|byte| *byte = b' ');
        CString::new(bytes).unwrap_or_default()
    })
}
