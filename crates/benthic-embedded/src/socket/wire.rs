//! Requests and replies on the socket, and how they are encoded.

use super::FRAME_BYTES_MAX;
use crate::codec::{Decoded, Decoder, Encode, Malformed};
use benthic_core::{
    ClassCall, ClassInfo, Compare, Damage, Durability, Error, ErrorKind, Finding, FsckReport, Guard,
    ListPage, ListRequest, ListToken, MethodInfo, Namespaces, ObjectId, OmapPage, ReadOp, ReadOutput,
    ReadReply, ReadStep, Result, ScrubPage, Stat, WriteOp, WriteReply, WriteStep,
};
use bytes::Bytes;
use std::collections::BTreeMap;

/// What a process asks of the owner.
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

/// What the owner answers.
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
    /// The owner goes: what it has not answered it has not done.
    Goodbye {},
}

impl Request {
    /// Whether it is acknowledged before it is durable.
    pub fn is_buffered(&self) -> bool {
        matches!(self, Request::Write { op, .. } if op.durability == Durability::Buffered)
    }

    /// How much data the reply may carry, as far as the request tells.
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
            let op = error.op().to_owned();
            let text = error.to_string();
            let message = text.strip_prefix(&format!("{op}: ")).unwrap_or(&text).to_owned();
            Reply::Failed { kind: error.kind() as u8, op, message }
        })
    }

    pub fn failed(kind: ErrorKind, message: &str) -> Reply {
        Reply::of(Err(Error::new(kind, message)))
    }

    pub fn into_result(self) -> Result<Reply> {
        let Reply::Failed { kind, op, message } = self else { return Ok(self) };
        let row = benthic_core::error::ERROR_TABLE.get(usize::from(kind));
        let error = Error::new(row.map_or(ErrorKind::Internal, |row| row.kind), message);
        Err(match ["read", "write", "exec", "list"].into_iter().find(|known| **known == op) {
            Some(op) => error.with_op(op),
            None => error,
        })
    }
}

/// The payload of one variant of [`Reply`], which is the type of the result of a request.
pub(crate) trait Payload: Sized + 'static {
    fn into_reply(self) -> Reply;
    /// `None` for another variant.
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

/// A frame: its length, the number of the request, the message. `None` if it would be too large.
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

/// The number of the request and the message of a frame.
pub(crate) fn parse<T: Wire>(frame: Bytes) -> Decoded<(u64, T)> {
    let mut input = Decoder::new(frame);
    let parsed = (input.u64()?, T::get(&mut input)?);
    input.end()?;
    Ok(parsed)
}

pub(crate) trait Wire: Sized {
    fn put(&self, out: &mut Vec<u8>);
    fn get(input: &mut Decoder) -> Decoded<Self>;
}

macro_rules! wire_number {
    ($($type:ty: $put:ident $get:ident),*) => {$(
        impl Wire for $type {
            fn put(&self, out: &mut Vec<u8>) {
                out.$put(*self);
            }

            fn get(input: &mut Decoder) -> Decoded<Self> {
                input.$get()
            }
        }
    )*};
}

macro_rules! wire_struct {
    ($($type:ident { $($field:ident),* })*) => {$(
        impl Wire for $type {
            fn put(&self, out: &mut Vec<u8>) {
                $(self.$field.put(out);)*
            }

            fn get(input: &mut Decoder) -> Decoded<Self> {
                Ok($type { $($field: Wire::get(input)?),* })
            }
        }
    )*};
}

macro_rules! wire_enum {
    ($($type:ident { $($tag:literal $variant:ident { $($field:tt: $bind:ident),* })* })*) => {$(
        impl Wire for $type {
            fn put(&self, out: &mut Vec<u8>) {
                match self {
                    $($type::$variant { $($field: $bind),* } => {
                        out.put_u8($tag);
                        $($bind.put(out);)*
                    })*
                }
            }

            fn get(input: &mut Decoder) -> Decoded<Self> {
                match input.u8()? {
                    $($tag => {
                        $(let $bind = Wire::get(input)?;)*
                        Ok($type::$variant { $($field: $bind),* })
                    })*
                    _ => Err(Malformed),
                }
            }
        }
    )*};
}

wire_number! { u8: put_u8 u8, u32: put_u32 u32, u64: put_u64 u64 }

wire_struct! {
    ClassCall { class, method, input }
    ClassInfo { name, version, build, summary, methods }
    MethodInfo { name, reads, writes, result_xattr, summary, input, output, examples }
    Damage { object, offset_bytes, message }
    Finding { object, message }
    FsckReport { pools, objects, data_bytes, disk_bytes, findings }
    ListRequest { namespaces, prefix, after, objects_max }
    ListPage { objects, next }
    OmapPage { entries, more }
    ReadOp { guards, steps }
    ReadReply { version, outputs }
    ScrubPage { objects, bytes, damage, next }
    Stat { size_bytes, modified_unix_ns }
    WriteOp { guards, steps, durability }
    WriteReply { version }
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
    }
    Compare { 1 Eq {} 2 Ne {} 3 Gt {} 4 Ge {} 5 Lt {} 6 Le {} }
    Durability { 1 Durable {} 2 Buffered {} }
    Guard {
        1 Exists {}
        2 Version { 0: version }
        3 Xattr { name: name, compare: compare, value: value }
        4 Omap { key: key, value: value }
    }
    Namespaces { 1 One { 0: namespace } 2 All {} }
    ReadStep {
        1 Read { offset_bytes: offset_bytes, len_bytes: len_bytes }
        2 Stat {}
        3 GetXattr { name: name }
        4 ListXattrs {}
        5 OmapGet { keys: keys }
        6 OmapRange { after: after, prefix: prefix, entries_max: entries_max }
        7 Exec { 0: call }
    }
    WriteStep {
        1 Create { exclusive: exclusive }
        2 Write { offset_bytes: offset_bytes, data: data }
        3 WriteFull { data: data }
        4 Append { data: data }
        5 Truncate { size_bytes: size_bytes }
        6 Zero { offset_bytes: offset_bytes, len_bytes: len_bytes }
        7 Remove {}
        8 SetXattr { name: name, value: value }
        9 RemoveXattr { name: name }
        10 OmapSet { entries: entries }
        11 OmapRemove { keys: keys }
        12 OmapClear {}
        13 Exec { 0: call }
    }
    ReadOutput {
        1 Data { 0: data }
        2 Stat { 0: stat }
        3 Xattr { 0: value }
        4 Xattrs { 0: xattrs }
        5 Omap { 0: page }
        6 Exec { 0: output }
    }
}

impl Wire for bool {
    fn put(&self, out: &mut Vec<u8>) {
        out.put_u8((*self).into());
    }

    fn get(input: &mut Decoder) -> Decoded<Self> {
        input.bool()
    }
}

impl Wire for usize {
    fn put(&self, out: &mut Vec<u8>) {
        out.put_u64(*self as u64);
    }

    fn get(input: &mut Decoder) -> Decoded<Self> {
        usize::try_from(input.u64()?).map_err(|_| Malformed)
    }
}

impl Wire for Bytes {
    fn put(&self, out: &mut Vec<u8>) {
        out.put_bytes(self);
    }

    fn get(input: &mut Decoder) -> Decoded<Self> {
        input.bytes()
    }
}

impl Wire for String {
    fn put(&self, out: &mut Vec<u8>) {
        out.put_bytes(self.as_bytes());
    }

    fn get(input: &mut Decoder) -> Decoded<Self> {
        input.string()
    }
}

impl Wire for ListToken {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
    }

    fn get(input: &mut Decoder) -> Decoded<Self> {
        Ok(ListToken(input.bytes()?))
    }
}

impl Wire for ObjectId {
    fn put(&self, out: &mut Vec<u8>) {
        out.put_bytes(self.namespace().as_bytes());
        out.put_bytes(self.name().as_bytes());
    }

    fn get(input: &mut Decoder) -> Decoded<Self> {
        ObjectId::in_namespace(input.string()?, input.string()?).map_err(|_| Malformed)
    }
}

impl<T: Wire> Wire for Option<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.is_some().put(out);
        if let Some(value) = self {
            value.put(out);
        }
    }

    fn get(input: &mut Decoder) -> Decoded<Self> {
        if input.bool()? { T::get(input).map(Some) } else { Ok(None) }
    }
}

impl<A: Wire, B: Wire> Wire for (A, B) {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
        self.1.put(out);
    }

    fn get(input: &mut Decoder) -> Decoded<Self> {
        Ok((A::get(input)?, B::get(input)?))
    }
}

impl<T: Wire> Wire for Vec<T> {
    fn put(&self, out: &mut Vec<u8>) {
        out.put_len(self.len());
        self.iter().for_each(|item| item.put(out));
    }

    fn get(input: &mut Decoder) -> Decoded<Self> {
        (0..input.len(1)?).map(|_| T::get(input)).collect()
    }
}

impl<K: Wire + Ord, V: Wire> Wire for BTreeMap<K, V> {
    fn put(&self, out: &mut Vec<u8>) {
        out.put_len(self.len());
        for (key, value) in self {
            key.put(out);
            value.put(out);
        }
    }

    fn get(input: &mut Decoder) -> Decoded<Self> {
        (0..input.len(2)?).map(|_| Ok((K::get(input)?, V::get(input)?))).collect()
    }
}

#[cfg(test)]
#[path = "wire_tests.rs"]
mod tests;
