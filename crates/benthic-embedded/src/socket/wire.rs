//! Requests and replies on the socket, and their encoding.

use super::FRAME_BYTES_MAX;
use crate::store::Location;
use benthic_core::codec::{Decoded, Decoder, Encode, Wire};
use benthic_core::error::ERROR_TABLE;
use benthic_core::{
    ClassCall, ClassInfo, Durability, Error, ErrorKind, FsckReport, ListPage, ListRequest, ListToken,
    ObjectId, ReadOp, ReadReply, ReadStep, Reason, Result, ScrubPage, WriteOp, WriteReply, wire_enum,
};
use bytes::Bytes;

/// Marks the number in [`Reply::Failed`] as a reason.
const REASON_BIT: u8 = 0x80;

/// A request of another process to the owner.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Request {
    CreatePool { name: String },
    RemovePool { name: String },
    ListPools {},
    OpenPool { name: String },
    Classes {},
    Flush {},
    Fsck {},
    Read { pool: u32, object: ObjectId, op: ReadOp },
    Write { pool: u32, object: ObjectId, op: WriteOp },
    Exec { pool: u32, object: ObjectId, call: ClassCall },
    List { pool: u32, request: ListRequest },
    Scrub { pool: u32, after: Option<ListToken> },
}

/// A reply of the owner. `Goodbye` means that the owner exits and has not executed any request that
/// it did not answer. The kind in `Failed` is that of the error. With [`REASON_BIT`], it is the
/// error's reason, which implies the kind.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Reply {
    Done {},
    Pools {
        names: Vec<String>,
    },
    Pool {
        id: u32,
    },
    Classes {
        classes: Vec<ClassInfo>,
    },
    Fsck {
        report: FsckReport,
    },
    Read {
        reply: ReadReply,
    },
    /// A read that the client can repeat from the data file.
    Located {
        reply: ReadReply,
        location: Location,
    },
    Write {
        reply: WriteReply,
    },
    Exec {
        output: Bytes,
    },
    List {
        page: ListPage,
    },
    Scrub {
        page: ScrubPage,
    },
    Failed {
        kind: u8,
        op: String,
        message: String,
    },
    Goodbye {},
}

impl Request {
    /// Returns true if the request is acknowledged before it is durable.
    pub fn is_buffered(&self) -> bool {
        matches!(self, Request::Write { op, .. } if op.durability == Durability::Buffered)
    }

    /// Upper limit of the reply's data, as far as the request determines it.
    pub fn reply_bytes(&self) -> u64 {
        let Request::Read { op, .. } = self else { return 0 };
        let wanted = |step: &ReadStep| match step {
            ReadStep::Read { len_bytes, .. } => *len_bytes,
            _ => 0,
        };
        op.steps.iter().map(wanted).fold(0, u64::saturating_add)
    }
}

impl Reply {
    pub fn of(outcome: Result<Reply>) -> Reply {
        outcome.unwrap_or_else(|error| {
            let (op, message) = (error.op().to_owned(), error.text());
            let kind = error.reason().map_or(error.kind() as u8, |reason| REASON_BIT | reason as u8);
            Reply::Failed { kind, op, message }
        })
    }

    pub fn failed(kind: ErrorKind, message: &str) -> Reply {
        Reply::of(Err(Error::new(kind, message)))
    }

    pub fn into_result(self) -> Result<Reply> {
        let Reply::Failed { kind, op, message } = self else { return Ok(self) };
        let index = usize::from(kind & !REASON_BIT);
        let reason = Reason::ALL.get(index).filter(|_| kind & REASON_BIT != 0);
        let row = ERROR_TABLE.get(usize::from(kind));
        let error = match reason {
            Some(reason) => Error::because(*reason, message),
            None => Error::new(row.map_or(ErrorKind::Internal, |row| row.kind), message),
        };
        Err(match ["read", "write", "exec", "list"].into_iter().find(|known| **known == op) {
            Some(op) => error.with_op(op),
            None => error,
        })
    }
}

/// The payload of one variant of [`Reply`]: the type of a request's result.
pub(crate) trait Payload: Sized + 'static {
    fn into_reply(self) -> Reply;
    /// Returns `None` for any other variant.
    fn of(reply: Reply) -> Option<Self>;
}

macro_rules! payloads {
    ($($type:ty: $variant:ident { $field:ident })*) => {$(
        impl Payload for $type {
            fn into_reply(self) -> Reply {
                Reply::$variant { $field: self }
            }

            fn of(reply: Reply) -> Option<Self> {
                if let Reply::$variant { $field } = reply { Some($field) } else { None }
            }
        }
    )*};
}

payloads! {
    Vec<String>: Pools { names }
    u32: Pool { id }
    Vec<ClassInfo>: Classes { classes }
    FsckReport: Fsck { report }
    ReadReply: Read { reply }
    WriteReply: Write { reply }
    Bytes: Exec { output }
    ListPage: List { page }
    ScrubPage: Scrub { page }
}

impl Payload for () {
    fn into_reply(self) -> Reply {
        Reply::Done {}
    }

    fn of(reply: Reply) -> Option<()> {
        matches!(reply, Reply::Done {}).then_some(())
    }
}

/// Encodes a frame: its length, the number of the request, the message. Returns `None` if the frame
/// would be too large.
pub(crate) fn frame(id: u64, message: &impl Wire) -> Option<Vec<u8>> {
    let mut frame = vec![0; 4];
    frame.put_u64(id);
    message.put(&mut frame);
    let len = frame.len() - 4;
    if len > FRAME_BYTES_MAX {
        return None;
    }
    frame[..4].copy_from_slice(&(len as u32).to_le_bytes());
    Some(frame)
}

pub(crate) fn parse<T: Wire>(frame: &Bytes) -> Decoded<(u64, T)> {
    let mut input = Decoder::sharing(frame);
    let parsed = (input.u64()?, T::get(&mut input)?);
    input.end()?;
    Ok(parsed)
}

wire_enum! {
    Request {
        1 CreatePool { name: name }
        2 RemovePool { name: name }
        3 ListPools {}
        4 OpenPool { name: name }
        5 Classes {}
        6 Flush {}
        7 Fsck {}
        8 Read { pool: pool, object: object, op: op }
        9 Write { pool: pool, object: object, op: op }
        10 Exec { pool: pool, object: object, call: call }
        11 List { pool: pool, request: request }
        12 Scrub { pool: pool, after: after }
    }
    Reply {
        1 Done {}
        2 Pools { names: names }
        3 Pool { id: id }
        4 Classes { classes: classes }
        5 Fsck { report: report }
        6 Read { reply: reply }
        7 Write { reply: reply }
        8 Exec { output: output }
        9 List { page: page }
        10 Scrub { page: page }
        11 Failed { kind: kind, op: op, message: message }
        12 Goodbye {}
        13 Located { reply: reply, location: location }
    }
}

#[cfg(test)]
#[path = "wire_tests.rs"]
mod tests;
