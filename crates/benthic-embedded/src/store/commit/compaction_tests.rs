use crate::Options;
use crate::store::{Dir, Engine, Ownership};
use benthic_core::{ObjectId, WriteOp};
use std::sync::mpsc;

const OBJECTS: usize = 200;
const OBJECT_BYTES: usize = 2_000;

#[test]
fn removals_after_a_checkpoint_are_merged_after_the_next_one() {
    let dir = tempfile::tempdir().unwrap();
    let Ownership::Owned(owned) = Dir::open(dir.path(), true).unwrap() else {
        panic!("another process owns the directory")
    };
    let engine = Engine::open(owned, Options::default()).unwrap();
    engine.create_pool("p").unwrap();
    let pool = engine.open_pool("p").unwrap();
    let each = |op: &WriteOp| {
        for index in 0..OBJECTS {
            let object = ObjectId::new(index.to_string()).unwrap();
            let (done, outcome) = mpsc::channel();
            engine.write(pool, &object, op, None, Box::new(move |reply| done.send(reply).unwrap()));
            outcome.recv().unwrap().unwrap();
        }
    };
    let table_bytes = || -> u64 {
        let tables = std::fs::read_dir(dir.path().join("kv/tables")).unwrap();
        tables.map(|table| table.unwrap().metadata().unwrap().len()).sum()
    };
    let commit = &engine.writer.as_ref().unwrap().commit;
    each(&WriteOp::new().write_full(vec![7; OBJECT_BYTES]).buffered());
    commit.checkpoint().unwrap();
    assert!(table_bytes() > (OBJECTS * OBJECT_BYTES) as u64);

    // On a full disk the cleaner makes a checkpoint and then this merge. A checkpoint may fail, and
    // objects may be removed between the two.
    each(&WriteOp::new().remove().buffered());
    commit.compact_removed().unwrap();
    commit.checkpoint().unwrap();
    commit.compact_removed().unwrap();
    assert!(table_bytes() < (OBJECTS * OBJECT_BYTES / 10) as u64, "{}", table_bytes());
    engine.close().unwrap();
}
