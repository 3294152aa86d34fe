//! The encodings of operations, replies and store reports.

use super::{Decoded, Decoder, Encode, Malformed, Wire};
use crate::{
    ClassCall, ClassInfo, Compare, Damage, Durability, Finding, FsckReport, Guard, ListPage, ListRequest,
    ListToken, MethodInfo, Namespaces, ObjectId, OmapPage, ReadOp, ReadOutput, ReadReply, ReadStep,
    ScrubPage, Stat, WriteOp, WriteReply, WriteStep,
};
use crate::{wire_enum, wire_struct};

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

impl Wire for ListToken {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
    }

    fn get(input: &mut Decoder<'_>) -> Decoded<Self> {
        Ok(ListToken(input.bytes()?))
    }
}

impl Wire for ObjectId {
    fn put(&self, out: &mut Vec<u8>) {
        out.put_bytes(self.namespace().as_bytes());
        out.put_bytes(self.name().as_bytes());
    }

    fn get(input: &mut Decoder<'_>) -> Decoded<Self> {
        ObjectId::in_namespace(input.string()?, input.string()?).map_err(|_| Malformed)
    }
}
