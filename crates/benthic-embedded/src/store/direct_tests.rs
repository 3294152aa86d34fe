//! Tests of direct reads: no changed, misplaced or damaged data, and no data of another owner.

use super::{DirectReader, GENERATION_OBJECTS_MAX, Location, ReadRange, Revisions};
use crate::store::dir::owner_mark;
use crate::store::keys::{CHUNK_BYTES, Chunk, data_crc};
use benthic_core::codec::Wire;
use benthic_core::{ObjectId, ReadOp, ReadOutput};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileExt;

const OID: u64 = 7;
const OWNER: u64 = 0x1234;

struct Setting {
    dir: tempfile::TempDir,
    revisions: Revisions,
    reader: DirectReader,
    id: ObjectId,
}

/// Data of two chunks, the second one short, at the start of the data file.
fn data() -> Vec<u8> {
    (0..CHUNK_BYTES + 100).map(|at| (at / 251) as u8).collect()
}

fn location(revision: u64) -> Location {
    let data = data();
    let chunks = data.chunks(CHUNK_BYTES as usize).enumerate().map(|(index, part)| {
        let offset_bytes = index as u64 * CHUNK_BYTES;
        let crc = data_crc(OID, offset_bytes, part);
        (index as u32, Chunk::Stream { offset_bytes, len_bytes: part.len() as u32, crc })
    });
    let size_bytes = data.len() as u64;
    Location { slot: 3, revision, oid: OID, version: 9, size_bytes, chunks: chunks.collect() }
}

fn setting() -> Setting {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("data"), data()).unwrap();
    fs::write(dir.path().join("lock"), format!("99{}", owner_mark(OWNER))).unwrap();
    let revisions = Revisions::create(8).unwrap();
    let reader = DirectReader::open(dir.path(), revisions.share().unwrap(), OWNER).unwrap();
    let id = ObjectId::new("o").unwrap();
    reader.insert(1, &id, location(0));
    Setting { dir, revisions, reader, id }
}

impl Setting {
    fn read(&self, offset_bytes: u64, len_bytes: u64) -> Option<Vec<u8>> {
        let reply = self.reader.read(1, &self.id, &ReadOp::new().read(offset_bytes, len_bytes))?;
        assert_eq!(reply.version, 9);
        let [ReadOutput::Data(data)] = &reply.outputs[..] else { panic!("one output") };
        Some(data.to_vec())
    }
}

#[test]
fn any_part_of_a_known_range_is_read() {
    let setting = setting();
    let data = data();
    for (from, len) in [(0, 1 << 20), (0, CHUNK_BYTES), (CHUNK_BYTES, 10), (5, CHUNK_BYTES)] {
        let to = data.len().min((from + len.min(1 << 20)) as usize);
        assert_eq!(setting.read(from, len).unwrap(), data[from as usize..to]);
    }
    assert_eq!(setting.read(data.len() as u64, 1), None, "behind the end");
    let read = |pool, name: &str, op: ReadOp| {
        setting.reader.read(pool, &ObjectId::new(name).unwrap(), &op).is_some()
    };
    assert!(read(1, "o", ReadOp::new().read(0, 1)));
    assert!(!read(2, "o", ReadOp::new().read(0, 1)), "another pool");
    assert!(!read(1, "p", ReadOp::new().read(0, 1)), "another object");
    assert!(!read(1, "o", ReadOp::new().read(0, 1).stat()), "another step");
    assert!(!read(1, "o", ReadOp::new().assert_version(9).read(0, 1)), "a guard");
}

#[test]
fn a_new_revision_ends_direct_reads_for_good() {
    let setting = setting();
    setting.revisions.change(4).unwrap();
    assert!(setting.read(0, 10).is_some(), "that was another lock's");
    let revision = setting.revisions.change(3).unwrap();
    assert_eq!(setting.read(0, 10), None);
    setting.reader.insert(1, &setting.id, location(revision));
    assert!(setting.read(0, 10).is_some());
}

#[test]
fn a_new_owner_ends_direct_reads() {
    let setting = setting();
    let path = setting.dir.path().join("lock");
    for text in [String::new(), format!("99{}", owner_mark(OWNER + 1)), "99\n".to_owned()] {
        // In place, as an owner does.
        fs::write(&path, &text).unwrap();
        setting.reader.insert(1, &setting.id, location(0));
        assert_eq!(setting.read(0, 10), None, "{text:?}");
    }
}

#[test]
fn damaged_data_is_not_returned() {
    let setting = setting();
    let file = fs::OpenOptions::new().write(true).open(setting.dir.path().join("data")).unwrap();
    file.write_all_at(b"x", CHUNK_BYTES + 50).unwrap();
    assert_eq!(setting.read(CHUNK_BYTES, 10), None);
    assert!(setting.read(0, 10).is_some(), "the other chunk is intact");
    file.set_len(100).unwrap();
    assert_eq!(setting.read(0, 10), None);
}

#[test]
fn locations_of_one_revision_are_merged() {
    let setting = setting();
    let parts = |revision| {
        let whole = location(revision);
        let part = |index| {
            let chunks = BTreeMap::from([(index, whole.chunks[&index].clone())]);
            Location { chunks, ..whole.clone() }
        };
        [part(0), part(1)]
    };
    let revision = setting.revisions.change(3).unwrap();
    let [first, second] = parts(revision);
    setting.reader.insert(1, &setting.id, first);
    assert_eq!(setting.read(0, 1 << 20), None, "the second chunk is unknown");
    setting.reader.insert(1, &setting.id, second);
    assert!(setting.read(0, 1 << 20).is_some());
    let next = setting.revisions.change(3).unwrap();
    setting.reader.insert(1, &setting.id, parts(next)[1].clone());
    assert_eq!(setting.read(0, 10), None, "the first chunk is of an older revision");
}

#[test]
fn a_client_knows_a_limited_number_of_locations() {
    let setting = setting();
    let location = location(0);
    for index in 0..3 * GENERATION_OBJECTS_MAX {
        let id = ObjectId::new(index.to_string()).unwrap();
        setting.reader.insert(1, &id, location.clone());
        // An object that is read stays known.
        if index.is_multiple_of(1_000) {
            assert!(setting.read(0, 10).is_some());
        }
    }
    let locations = setting.reader.locations.lock();
    assert!(locations.young.len() <= GENERATION_OBJECTS_MAX && locations.old.len() <= GENERATION_OBJECTS_MAX);
}

#[test]
fn only_streams_in_order_are_decoded() {
    let whole = location(5);
    assert_eq!(Location::decode(&whole.encode()), Ok(whole.clone()));
    let mut twice = whole.encode().to_vec();
    // Both chunks get the index 1: it follows the count of chunks.
    let index_at = 4 + 4 * 8 + 4;
    twice[index_at] = 1;
    assert!(Location::decode(&twice).is_err());
    let blocks = BTreeMap::from([(0, Chunk::Blocks(Box::new([None; 16])))]);
    assert!(Location::decode(&Location { chunks: blocks, ..whole }.encode()).is_err());
}

#[test]
fn only_short_plain_reads_are_direct() {
    assert!(ReadRange::of(&ReadOp::new().read(0, 1)).is_some());
    assert!(ReadRange::of(&ReadOp::new()).is_none());
    let whole = ReadRange::of(&ReadOp::new().read(0, 1 << 20));
    let within = |size_bytes| whole.and_then(|range| range.within(size_bytes)).is_some();
    assert!(within(256 * 1024) && !within(256 * 1024 + 1) && !within(0));
}
