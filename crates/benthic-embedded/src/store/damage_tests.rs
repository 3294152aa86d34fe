use super::data::Source;
use super::keys::{self, BLOCK_BYTES, Extent};
use super::{Dir, Engine, Ownership};
use crate::Options;
use benthic_core::{ErrorKind, ObjectId, Result, WriteOp, WriteReply};
use std::sync::mpsc;

#[test]
fn blocks_that_are_marked_as_free_are_not_freed_again() {
    let dir = tempfile::tempdir().unwrap();
    let Ownership::Owned(owned) = Dir::open(dir.path(), true).unwrap() else {
        panic!("another process owns the directory")
    };
    let engine = Engine::open(owned, Options::default()).unwrap();
    engine.create_pool("p").unwrap();
    let (pool, object) = (engine.open_pool("p").unwrap(), ObjectId::new("o").unwrap());
    let write = |op: &WriteOp| -> Result<WriteReply> {
        let (done, outcome) = mpsc::channel();
        engine.write(pool, &object, op, None, Box::new(move |reply| done.send(reply).unwrap()));
        outcome.recv().unwrap()
    };
    let data = vec![7; 4 * BLOCK_BYTES as usize];
    write(&WriteOp::new().write_full(data.clone())).unwrap();

    // Simulates a map of used blocks that lost a block of the object.
    let block = Extent { offset_bytes: BLOCK_BYTES, len_bytes: BLOCK_BYTES };
    assert_eq!(engine.disk.allocator.lock().replay(block, false), 1);
    for op in [WriteOp::new().remove(), WriteOp::new().write_full("new")] {
        assert_eq!(write(&op).unwrap_err().kind(), ErrorKind::Corrupt);
    }
    let onode = engine.disk.onode(pool, &object).unwrap().unwrap();
    assert_eq!(engine.disk.read(&onode, 0, u64::MAX, Source::Disk).unwrap(), data, "it is as it was");
    let findings = engine.fsck().unwrap().findings;
    assert_eq!((findings.len(), findings[0].object.as_deref()), (1, Some("p/o")), "{findings:?}");

    engine.disk.allocator.lock().replay(block, true);
    // Simulates an object that got the number of another one.
    let (copy, other) = (onode.encode(), ObjectId::new("other").unwrap());
    engine.disk.kv.apply(vec![(keys::onode(pool, &other).into(), Some(copy.into()))]);
    let findings = engine.fsck().unwrap().findings;
    let named: Vec<_> = findings.iter().map(|finding| finding.object.as_deref()).collect();
    assert_eq!(named, [Some("p/other"), Some("p/o")], "{findings:?}");
    engine.disk.kv.apply(vec![(keys::onode(pool, &other).into(), None)]);

    write(&WriteOp::new().remove()).unwrap();
    assert!(engine.fsck().unwrap().findings.is_empty());
    engine.close().unwrap();
}
