//! The bare key-value crate, configured as in the engine: same cache, same compaction strategy, and
//! background writes of tables at the point where the engine would make a checkpoint. It has no
//! log: data is durable after a flush.

use bench_harness::Outcome;
use benthic_embedded::Options;
use lsm_tree::compaction::Leveled;
use lsm_tree::{AbstractTree, AnyTree, Cache, Config, Guard, SeqNo, SequenceNumberCounter};
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

const NEWEST: SeqNo = SeqNo::MAX >> 1;

pub struct Tree {
    tree: AnyTree,
    seqno: SequenceNumberCounter,
    visible: SequenceNumberCounter,
    /// Bytes inserted since the last table in memory was sealed.
    fresh_bytes: AtomicU64,
    sealed_bytes: u64,
}

impl Tree {
    pub fn open(dir: &Path) -> Outcome<Tree> {
        let options = Options::default();
        let (seqno, visible) = (SequenceNumberCounter::default(), SequenceNumberCounter::default());
        let tree = Config::new(dir, seqno.clone(), visible.clone())
            .use_cache(Arc::new(Cache::with_capacity_bytes(options.cache_bytes)))
            .open()?;
        let next = tree.get_highest_persisted_seqno().map_or(1, |highest| highest + 1);
        seqno.set(next);
        visible.set(next);
        Ok(Tree {
            tree,
            seqno,
            visible,
            fresh_bytes: AtomicU64::new(0),
            sealed_bytes: options.changes_bytes_max,
        })
    }

    /// Inserts batches from `threads` threads, and makes them durable.
    pub fn insert(&self, batches: &[Batch], threads: usize) -> Outcome {
        let (seal, sealed) = sync_channel(1);
        std::thread::scope(|scope| {
            let writer = scope.spawn(move || self.write_sealed(&sealed).map_err(|error| error.to_string()));
            let parts = batches.chunks(batches.len().div_ceil(threads));
            let inserting: Vec<_> = parts
                .map(|part| {
                    let seal = seal.clone();
                    scope.spawn(move || part.iter().for_each(|batch| self.insert_one(batch, &seal)))
                })
                .collect();
            drop(seal);
            for thread in inserting {
                thread.join().map_err(|_| "an insert panicked")?;
            }
            writer.join().map_err(|_| "writing tables panicked")?
        })?;
        self.tree.flush_active_memtable(self.seqno.get())?;
        Ok(())
    }

    fn insert_one(&self, batch: &Batch, seal: &SyncSender<()>) {
        let seqno = self.seqno.next();
        let mut bytes = 0;
        for key in &batch.keys {
            self.tree.insert(full_key(batch.object, key), &batch.value[..], seqno);
            bytes += (KEY_BYTES + batch.value.len()) as u64;
        }
        self.visible.fetch_max(seqno + 1);
        if self.fresh_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes > self.sealed_bytes {
            self.fresh_bytes.store(0, Ordering::Relaxed);
            self.tree.rotate_memtable();
            // If the channel is full, the writer will find this table anyway.
            let _ = seal.try_send(());
        }
    }

    fn write_sealed(&self, sealed: &Receiver<()>) -> lsm_tree::Result<()> {
        while sealed.recv().is_ok() {
            let lock = self.tree.get_flush_lock();
            self.tree.flush(&lock, self.seqno.get())?;
            drop(lock);
            loop {
                let before = (self.tree.table_count(), self.tree.l0_run_count());
                self.tree.compact(Arc::new(Leveled::default()), self.seqno.get())?;
                if (self.tree.table_count(), self.tree.l0_run_count()) == before {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Reads all entries of an object in order; returns their number.
    pub fn scan(&self, object: u64) -> Outcome<u64> {
        let (from, to) = (full_key(object, &[0; 16]), full_key(object + 1, &[0; 16]));
        let mut count = 0;
        for entry in self.tree.range(from..to, NEWEST, None) {
            black_box(entry.into_inner()?);
            count += 1;
        }
        Ok(count)
    }
}

pub struct Batch {
    pub object: u64,
    pub keys: Vec<[u8; 16]>,
    pub value: [u8; 100],
}

const KEY_BYTES: usize = 25;

/// Builds a key like the engine's: a letter, the number of the object, the client's key.
fn full_key(object: u64, key: &[u8; 16]) -> [u8; KEY_BYTES] {
    let mut full = [b'M'; KEY_BYTES];
    full[1..9].copy_from_slice(&object.to_be_bytes());
    full[9..].copy_from_slice(key);
    full
}
