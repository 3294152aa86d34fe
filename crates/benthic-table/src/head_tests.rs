use super::{HEAD_BYTES_MAX, Head, Intent, ListRef, Operation, SNAPSHOTS_MAX, TableState};
use crate::ids::{Id, Role, TableObject};
use crate::layout::{Codec, Layout};
use crate::partition::{Partitioning, Ranges};
use crate::schema::tests::every_type;
use crate::schema::{Column, TableSchema};
use arrow::datatypes::{DataType, Field};
use benthic_core::ErrorKind;
use benthic_index::{Definition as Index, IndexKind};
use benthic_testkit::random::Rng;
use std::collections::BTreeMap;
use std::sync::Arc;

fn list(number: u32) -> ListRef {
    let object = TableObject { role: Role::List, writer: Id(5), number };
    ListRef { object, objects: 2, rows: 300, data_bytes: 4_000, list_bytes: 500, grouped: 1 }
}

fn head() -> Head {
    let mut head = Head {
        indexes: vec![Index { number: 2, columns: vec![1], kind: IndexKind::Values }],
        next_index: 3,
        id: Id(0x1234_5678_9abc_def0),
        state: TableState::Live,
        schemas: vec![every_type()],
        next_field_id: 40,
        partitioning: Partitioning::Range { field: 5, ranges: Ranges::Bounds(vec![-7, 0, i64::MAX]) },
        layout: Layout { sort: vec![2, 1], bloom: vec![2], ..Layout::default() },
        lists: BTreeMap::new(),
        snapshots: Vec::new(),
        intents: vec![Intent { writer: Id(9), time_ms: 77 }],
        tags: BTreeMap::new(),
        records_access: true,
        format: super::FORMAT,
    };
    head.lists.extend([list(0), list(1)].map(|list| (list.object, list)));
    head.push_snapshot(Operation::Create, Id(1), 10, 0, vec![]);
    head.push_snapshot(Operation::Append, Id(2), 20, 0, vec![list(0).object]);
    head.push_snapshot(Operation::Alter, Id(3), 15, 0, vec![list(1).object, list(0).object]);
    head
}

#[test]
fn a_head_survives_encoding_and_decoding() {
    let head = head();
    assert_eq!(Head::decode(&head.encode().unwrap()).unwrap(), head);
    assert_eq!(head.snapshots[2].time_ms, 20, "time does not go back");
}

#[test]
fn a_layout_survives_encoding_and_old_builds_refuse_what_they_do_not_know() {
    let mut head = head();
    let frame = |head: &Head| head.encode().unwrap()[8];
    assert_eq!(frame(&head), 1);
    for codec in [Codec::None, Codec::Lz4, Codec::Zstd { level: 19 }, Codec::Snappy] {
        let row_group_bytes = 64 * 1024 * 1024;
        head.set_layout(Layout { codec, row_group_bytes, ..head.layout.clone() });
        assert_eq!(Head::decode(&head.encode().unwrap()).unwrap(), head);
        assert_eq!(frame(&head), 8);
    }
    head.set_layout(Layout { groups: vec![vec![3], vec![5, 4]], ..head.layout.clone() });
    assert_eq!((frame(&head), &Head::decode(&head.encode().unwrap()).unwrap()), (16, &head));
    // The format stays, because objects of the history have the other layout.
    head.set_layout(Layout::default());
    assert_eq!((frame(&head), &Head::decode(&head.encode().unwrap()).unwrap()), (16, &head));
    for encoding in [(0, 1, 8 << 20), (3, 0, 8 << 20), (3, 20, 8 << 20), (4, 0, 8 << 20), (1, 0, 0)] {
        let (codec, level, row_group_bytes) = encoding;
        let encoding = crate::wire::Encoding { codec, level, row_group_bytes };
        assert_eq!(Layout::decode(Some(encoding), Default::default(), 32 << 20), None, "{encoding:?}");
    }
}

#[test]
fn tags_survive_encoding_and_keep_their_snapshot() {
    let mut head = head();
    head.tags.insert("release".to_owned(), 1);
    head.need_format_of_changes();
    assert_eq!(Head::decode(&head.encode().unwrap()).unwrap(), head);
    for _ in 0..SNAPSHOTS_MAX {
        head.push_snapshot(Operation::Delete, Id(2), 20, 0, vec![list(0).object]);
    }
    assert_eq!((head.snapshots[0].id, head.snapshots.len()), (1, SNAPSHOTS_MAX));
    head.tags.insert("lost".to_owned(), 2);
    assert_eq!(head.encode().unwrap_err().kind(), ErrorKind::LimitExceeded, "it would not be read again");
}

#[test]
fn older_builds_refuse_a_table_whose_rows_were_changed() {
    let mut head = head();
    assert_eq!(head.encode().unwrap()[8..12], [1, 0, 0, 0]);
    head.need_format_of_changes();
    let bytes = head.encode().unwrap();
    assert_eq!(bytes[8..12], [2, 0, 0, 0]);
    let mut read = Head::decode(&bytes).unwrap();
    read.push_snapshot(Operation::Append, Id(7), 30, 0, vec![]);
    assert_eq!(read.encode().unwrap()[8..12], [2, 0, 0, 0], "it stays so");
}

#[test]
fn older_builds_refuse_a_table_with_an_index_of_words() {
    let mut head = head();
    let is_text = |data_type: &DataType| *data_type == DataType::Utf8;
    let text = head.schemas[0].columns().iter().find(|column| is_text(&column.data_type)).unwrap().id;
    let other = head.schemas[0].columns().iter().find(|column| !is_text(&column.data_type)).unwrap().id;
    head.push_index(Index { number: 3, columns: vec![text], kind: IndexKind::Words });
    let bytes = head.encode().unwrap();
    assert_eq!(bytes[8..12], [4, 0, 0, 0]);
    let mut read = Head::decode(&bytes).unwrap();
    assert_eq!(read, head);
    read.need_format_of_changes();
    read.indexes.pop();
    assert_eq!(read.encode().unwrap()[8..12], [4, 0, 0, 0], "it stays so");
    for columns in [vec![other], vec![text, other]] {
        let index = Index { number: 3, columns, kind: IndexKind::Words };
        assert!(Head { indexes: vec![index], ..head.clone() }.encode().is_err());
    }
}

#[test]
fn older_builds_refuse_a_table_with_an_index_of_elements() {
    let mut head = head();
    let mut columns = head.schemas[0].columns().to_vec();
    let item = Arc::new(Field::new_list_field(DataType::Utf8, true));
    columns.push(Column::from_arrow(39, &Field::new("tags", DataType::List(item), true)).unwrap());
    head.schemas = vec![TableSchema::new(0, columns).unwrap()];
    head.push_index(Index { number: 3, columns: vec![39], kind: IndexKind::Elements });
    let bytes = head.encode().unwrap();
    assert_eq!(bytes[8..12], [32, 0, 0, 0]);
    assert_eq!(Head::decode(&bytes).unwrap(), head);
    let nested = |column: &&Column| matches!(column.data_type, DataType::List(_));
    let nested = head.schemas[0].columns().iter().find(nested).unwrap().id;
    for (columns, kind) in [
        (vec![39], IndexKind::Values),
        (vec![39], IndexKind::Words),
        (vec![39, 1], IndexKind::Elements),
        (vec![1], IndexKind::Elements),
        (vec![nested], IndexKind::Elements),
    ] {
        let index = Index { number: 3, columns, kind };
        assert!(Head { indexes: vec![index], ..head.clone() }.encode().is_err());
    }
}

#[test]
fn lists_without_a_snapshot_are_not_written() {
    let mut head = head();
    head.snapshots.truncate(2);
    assert_eq!(Head::decode(&head.encode().unwrap()).unwrap().lists.len(), 1);
}

#[test]
fn the_oldest_snapshots_are_dropped_at_the_limit() {
    let mut head = head();
    for _ in 0..2 * SNAPSHOTS_MAX {
        head.push_snapshot(Operation::Append, Id(2), 20, 0, vec![list(0).object]);
    }
    assert_eq!(head.snapshots.len(), SNAPSHOTS_MAX);
    assert_eq!(head.current().unwrap().0.id, 3 + 2 * SNAPSHOTS_MAX as u64);
    assert!(head.encode().unwrap().len() < 100_000);
}

#[test]
fn every_truncation_and_bit_flip_is_detected() {
    let bytes = head().encode().unwrap();
    for len in 0..bytes.len() {
        assert_eq!(Head::decode(&bytes[..len]).unwrap_err().kind(), ErrorKind::Corrupt, "len={len}");
    }
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut flipped = bytes.to_vec();
            flipped[at] ^= 1 << bit;
            // A damaged version looks like a newer format.
            let kind = if (8..12).contains(&at) { ErrorKind::Unsupported } else { ErrorKind::Corrupt };
            assert_eq!(Head::decode(&flipped).unwrap_err().kind(), kind, "at={at} bit={bit}");
        }
    }
}

/// A message with a forged checksum gives an error or a head that satisfies the invariants, and
/// never a panic.
#[test]
fn forged_messages_do_no_harm() {
    let bytes = head().encode().unwrap();
    let message = &bytes[16..];
    let harmless = |message: &[u8]| {
        if let Ok(head) = Head::decode_message(message) {
            assert_eq!(Head::decode(&head.encode().unwrap()).unwrap().snapshots, head.snapshots);
        }
    };
    for len in 0..message.len() {
        harmless(&message[..len]);
    }
    let mut random = Rng(3);
    for at in 0..message.len() {
        for _ in 0..8 {
            let mut forged = message.to_vec();
            forged[at] = random.number() as u8;
            harmless(&forged);
            forged.remove(random.below(message.len()));
            harmless(&forged);
        }
    }
    // Millions of empty snapshots of two bytes each.
    let many = [74, 0].repeat(HEAD_BYTES_MAX / 2 - 8);
    assert_eq!(Head::decode_message(&many).unwrap_err().kind(), ErrorKind::Corrupt);
    let schemas = [26, 4, 10, 2, 8, 1].repeat(HEAD_BYTES_MAX / 6 - 8);
    assert_eq!(Head::decode_message(&schemas).unwrap_err().kind(), ErrorKind::Corrupt);
}

#[test]
fn a_head_that_would_be_too_large_is_not_written() {
    let mut head = head();
    head.intents = (0..=1_000).map(|writer| Intent { writer: Id(writer), time_ms: 0 }).collect();
    assert_eq!(head.encode().unwrap_err().kind(), ErrorKind::LimitExceeded);
    head.intents.clear();
    head.schemas = vec![every_type(); 5_000];
    assert_eq!(head.encode().unwrap_err().kind(), ErrorKind::LimitExceeded);
}
