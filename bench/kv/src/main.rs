//! Random-key inserts and an ordered scan on the key-value crates that the embedded engine could stand on: unsynced, for
//! the engine's own log makes operations durable, with the store brought to disk once at the end.
//!
//! `cargo run --release [KEYS]`, 1,000,000 by default.

use lsm_tree::{AbstractTree, Config, Guard, SequenceNumberCounter};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// Keys per insertion batch: what one operation on a small object changes.
const BATCH: u64 = 2;
const VALUE: [u8; 120] = [7; 120];

fn main() {
    let keys: u64 = std::env::args().nth(1).map_or(1_000_000, |keys| keys.parse().expect("a number of keys"));
    println!("crate      inserts k/s   scan M/s   disk MiB");
    for (name, run) in [("lsm-tree", lsm as fn(&Path, u64) -> (f64, f64)), ("fjall", fjall), ("redb", redb)] {
        let dir = tempfile::tempdir().expect("a directory");
        let (insert_s, scan_s) = run(dir.path(), keys);
        let keys = keys as f64;
        let disk_mib = disk_bytes(dir.path()) as f64 / 1048576.0;
        println!("{name:10} {:11.0} {:10.2} {disk_mib:10.0}", keys / insert_s / 1e3, keys / scan_s / 1e6);
    }
}

fn key(i: u64) -> [u8; 17] {
    let mut key = *b"O0000000000000000";
    key[1..9].copy_from_slice(&i.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31).to_be_bytes());
    key
}

fn lsm(dir: &Path, keys: u64) -> (f64, f64) {
    let (seqno, visible) = (SequenceNumberCounter::default(), SequenceNumberCounter::default());
    let tree = Config::new(dir, seqno.clone(), visible.clone()).open().expect("open");
    let start = Instant::now();
    let mut held = 0;
    for batch in 0..keys / BATCH {
        let s = seqno.next();
        for i in batch * BATCH..(batch + 1) * BATCH {
            held = tree.insert(key(i), VALUE, s).1;
        }
        visible.fetch_max(s + 1);
        if held > 32 << 20 {
            tree.rotate_memtable();
            let lock = tree.get_flush_lock();
            tree.flush(&lock, s).expect("flush");
            drop(lock);
            tree.compact(Arc::new(lsm_tree::compaction::Leveled::default()), s).expect("compact");
        }
    }
    tree.flush_active_memtable(seqno.get()).expect("flush");
    let insert_s = start.elapsed().as_secs_f64();
    let start = Instant::now();
    let found = tree.iter(u64::MAX >> 1, None).map(|entry| entry.into_inner().expect("entry")).count();
    assert_eq!(found as u64, keys);
    (insert_s, start.elapsed().as_secs_f64())
}

fn fjall(dir: &Path, keys: u64) -> (f64, f64) {
    let db = fjall::Database::builder(dir).open().expect("open");
    let space = db.keyspace("k", fjall::KeyspaceCreateOptions::default).expect("keyspace");
    let start = Instant::now();
    for batch in 0..keys / BATCH {
        let mut writes = db.batch();
        for i in batch * BATCH..(batch + 1) * BATCH {
            writes.insert(&space, key(i), VALUE);
        }
        writes.commit().expect("commit");
    }
    db.persist(fjall::PersistMode::SyncAll).expect("persist");
    let insert_s = start.elapsed().as_secs_f64();
    let start = Instant::now();
    let found = space.iter().map(|entry| entry.into_inner().expect("entry")).count();
    assert_eq!(found as u64, keys);
    (insert_s, start.elapsed().as_secs_f64())
}

fn redb(dir: &Path, keys: u64) -> (f64, f64) {
    use redb::{ReadableDatabase, ReadableTable};
    const TABLE: redb::TableDefinition<&[u8], &[u8]> = redb::TableDefinition::new("k");
    let db = redb::Database::create(dir.join("redb")).expect("open");
    let start = Instant::now();
    for batch in 0..keys / BATCH {
        let mut write = db.begin_write().expect("begin");
        // Every 10,000th is durable, else what was freed is never used again.
        let durability = if batch % 10_000 == 0 { redb::Durability::Immediate } else { redb::Durability::None };
        write.set_durability(durability).expect("durability");
        let mut table = write.open_table(TABLE).expect("table");
        for i in batch * BATCH..(batch + 1) * BATCH {
            table.insert(&key(i)[..], &VALUE[..]).expect("insert");
        }
        drop(table);
        write.commit().expect("commit");
    }
    db.begin_write().expect("begin").commit().expect("commit");
    let insert_s = start.elapsed().as_secs_f64();
    let start = Instant::now();
    let read = db.begin_read().expect("begin");
    let table = read.open_table(TABLE).expect("table");
    assert_eq!(table.iter().expect("iter").count() as u64, keys);
    (insert_s, start.elapsed().as_secs_f64())
}

fn disk_bytes(dir: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let entries = std::fs::read_dir(dir).expect("a directory").map(|entry| entry.expect("an entry"));
    entries
        .map(|entry| {
            let metadata = entry.metadata().expect("metadata");
            if metadata.is_dir() { disk_bytes(&entry.path()) } else { metadata.blocks() * 512 }
        })
        .sum()
}
