//! Tests of the socket's encoding: every message decodes to itself, damaged bytes never panic, and
//! an error of the owner process arrives with the same text.

use super::{Reply, Request, frame, parse};
use crate::store::Location;
use crate::store::decoders::Chunk;
use benthic_core::codec::{Decoder, Wire};
use benthic_core::{
    ClassInfo, Compare, Damage, Error, ErrorKind, Finding, FsckReport, ListPage, ListRequest, ListToken,
    MethodInfo, Namespaces, ObjectId, OmapPage, ReadOp, ReadOutput, ReadReply, Reason, ScrubPage, Stat,
    WriteOp, WriteReply,
};
use bytes::Bytes;
use std::collections::BTreeMap;

fn object() -> ObjectId {
    ObjectId::in_namespace("ns", "näme").unwrap()
}

/// Every request, and in them every step and guard of an operation.
fn requests() -> Vec<Request> {
    let read = ReadOp::new()
        .assert_exists()
        .assert_version(7)
        .cmp_xattr("a", Compare::Ge, "v")
        .cmp_omap("k", "v")
        .read(1, 2)
        .stat()
        .get_xattr("a")
        .list_xattrs()
        .omap_get(["k", "l"])
        .omap_range(Some("k".into()), "p", 10)
        .exec("c", "m", "input");
    let write = WriteOp::new()
        .exec("c", "m", "input")
        .create(true)
        .write(3, "data")
        .write_full("data")
        .append("data")
        .truncate(4)
        .zero(5, 6)
        .remove()
        .set_xattr("a", "v")
        .remove_xattr("a")
        .omap_set([("k", "v")])
        .omap_remove(["k"])
        .omap_clear()
        .buffered();
    let call = benthic_core::ClassCall { class: "c".into(), method: "m".into(), input: "i".into() };
    let list = ListRequest {
        namespaces: Namespaces::One("n".into()),
        prefix: "p".into(),
        after: Some(ListToken("t".into())),
        objects_max: 5,
    };
    vec![
        Request::CreatePool { name: "p".into() },
        Request::RemovePool { name: "p".into() },
        Request::ListPools {},
        Request::OpenPool { name: "p".into() },
        Request::Classes {},
        Request::Flush {},
        Request::Fsck {},
        Request::Read { pool: 1, object: object(), op: read },
        Request::Write { pool: 1, object: object(), op: write },
        Request::Exec { pool: 1, object: object(), call },
        Request::List { pool: 1, request: list },
        Request::List {
            pool: 1,
            request: ListRequest { namespaces: Namespaces::All, ..ListRequest::default() },
        },
        Request::Scrub { pool: 1, after: None },
    ]
}

/// Every reply, and in them every kind of output.
fn replies() -> Vec<Reply> {
    let outputs = vec![
        ReadOutput::Data("d".into()),
        ReadOutput::Stat(Stat { size_bytes: 1, modified_unix_ns: 2 }),
        ReadOutput::Xattr("v".into()),
        ReadOutput::Xattrs(BTreeMap::from([("a".to_owned(), "v".into())])),
        ReadOutput::Omap(OmapPage { entries: vec![("k".into(), "v".into())], more: true }),
        ReadOutput::Exec("o".into()),
    ];
    let method = MethodInfo {
        name: "m".into(),
        reads: true,
        writes: false,
        result_xattr: Some("x".into()),
        summary: "s".into(),
        input: "i".into(),
        output: "o".into(),
        examples: vec!["e".into()],
    };
    let class = ClassInfo {
        name: "c".into(),
        version: 1,
        build: "b".into(),
        summary: "s".into(),
        methods: vec![method],
    };
    let damage = Damage { object: Some(object()), offset_bytes: Some(3), message: "m".into() };
    let stream = Chunk::Stream { offset_bytes: 4_096, len_bytes: 5, crc: 6 };
    let location = Location {
        slot: 1,
        revision: 2,
        oid: 3,
        version: 8,
        size_bytes: 5,
        chunks: BTreeMap::from([(0, stream.clone()), (1, stream)]),
    };
    let finding = Finding { object: Some("p/o".into()), message: "m".into() };
    vec![
        Reply::Done {},
        Reply::Pools { names: vec!["p".into()] },
        Reply::Pool { id: 9 },
        Reply::Classes { classes: vec![class] },
        Reply::Fsck {
            report: FsckReport {
                pools: 1,
                objects: 2,
                data_bytes: 3,
                disk_bytes: 4,
                findings: vec![finding],
            },
        },
        Reply::Read { reply: ReadReply { version: 8, outputs } },
        Reply::Write { reply: WriteReply { version: 8 } },
        Reply::Exec { output: "o".into() },
        Reply::List { page: ListPage { objects: vec![object()], next: Some(ListToken("t".into())) } },
        Reply::Scrub { page: ScrubPage { objects: 1, bytes: 2, damage: vec![damage], next: None } },
        Reply::Failed { kind: 3, op: "read".into(), message: "m".into() },
        Reply::Goodbye {},
        Reply::Located {
            reply: ReadReply { version: 8, outputs: vec![ReadOutput::Data("d".into())] },
            location,
        },
    ]
}

/// Checks that a message decodes to itself, and that decoding rejects every truncated message. A
/// changed byte may produce another valid message. That message must encode to the changed bytes,
/// so no message has two encodings.
fn check_encoding<T: Wire + PartialEq + std::fmt::Debug>(message: &T) {
    let request_id = 5;
    let bytes = frame(request_id, message).unwrap();
    assert_eq!(u32::from_le_bytes(bytes[..4].try_into().unwrap()) as usize, bytes.len() - 4);
    let bytes = Bytes::from(bytes).slice(4..);
    assert_eq!(
        parse::<T>(&bytes).as_ref(),
        Ok(&(request_id, T::get(&mut Decoder::sharing(&bytes.slice(8..))).unwrap()))
    );
    assert_eq!(&parse::<T>(&bytes).unwrap().1, message);
    for len in 0..bytes.len() {
        assert!(parse::<T>(&bytes.slice(..len)).is_err(), "{message:?} cut at {len}");
    }
    for at in 0..bytes.len() {
        for change in [1, 0x80, 0xff] {
            let mut changed = bytes.to_vec();
            changed[at] ^= change;
            if let Ok((id, other)) = parse::<T>(&Bytes::from(changed.clone())) {
                assert_eq!(frame(id, &other).unwrap()[4..], changed, "a message has one encoding");
            }
        }
    }
}

#[test]
fn every_message_survives_the_wire() {
    requests().iter().for_each(check_encoding);
    replies().iter().for_each(check_encoding);
}

#[test]
fn a_count_beyond_the_frame_is_rejected() {
    // The list claims to have u32::MAX names, but the frame ends after the count. A decoder that
    // trusts the count allocates gigabytes.
    let mut bytes = frame(1, &Reply::Pools { names: Vec::new() }).unwrap();
    let at = bytes.len() - 4;
    bytes[at..].copy_from_slice(&u32::MAX.to_le_bytes());
    assert!(parse::<Reply>(&Bytes::from(bytes).slice(4..)).is_err());
}

#[test]
fn errors_keep_kind_operation_and_text() {
    let error = Error::new(ErrorKind::NotFound, "no such object").with("object", "o").with_op("read");
    let text = error.to_string();
    let received = Reply::of(Err(error)).into_result().unwrap_err();
    assert_eq!((received.kind(), received.op(), received.to_string()), (ErrorKind::NotFound, "read", text));
}

#[test]
fn errors_keep_their_reason() {
    for reason in Reason::ALL {
        let failed = Reply::of(Err(Error::because(reason, "m")));
        let number = 0x80 | reason as u8;
        assert_eq!(failed, Reply::Failed { kind: number, op: String::new(), message: "m".into() });
        let received = failed.into_result().unwrap_err();
        assert_eq!((received.reason(), received.kind()), (Some(reason), reason.kind()));
    }
    // An owner process of a later version may send reasons that this version does not know.
    let unknown = Reply::Failed { kind: 0xff, op: String::new(), message: "m".into() };
    assert_eq!(unknown.into_result().unwrap_err().kind(), ErrorKind::Internal);
}

#[test]
fn a_frame_that_is_too_large_is_not_encoded() {
    assert!(frame(1, &Request::CreatePool { name: "x".repeat(80 << 20) }).is_none());
}
