//! An image in memory.

use async_trait::async_trait;
use benthic_block::{Check, Extent, ExtentKind, Geometry, Image, ImageInfo, Limits, SnapshotInfo, Zeroes};
use benthic_core::{Durability, Error, ErrorKind, Result};
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::Semaphore;

const BLOCK_BYTES: u64 = 4096;

pub type Blocks = BTreeMap<u64, Arc<[u8]>>;

pub struct Ram {
    pub size_bytes: u64,
    pub read_only: bool,
    /// Every write takes one permit, so that a test can hold writes back.
    pub writes: Arc<Semaphore>,
    pub started_writes: Arc<AtomicUsize>,
    pub flushes: AtomicUsize,
    pub durable_writes: AtomicUsize,
    /// The error of every write.
    pub error: Mutex<Option<ErrorKind>>,
    pub blocks: Mutex<Blocks>,
    pub snapshots: Mutex<Vec<(String, Blocks)>>,
}

impl Ram {
    pub fn new(size_bytes: u64) -> Ram {
        Ram {
            size_bytes,
            read_only: false,
            writes: Arc::new(Semaphore::new(Semaphore::MAX_PERMITS)),
            started_writes: Arc::default(),
            flushes: AtomicUsize::new(0),
            durable_writes: AtomicUsize::new(0),
            error: Mutex::new(None),
            blocks: Mutex::default(),
            snapshots: Mutex::default(),
        }
    }

    /// An image whose writes wait until the test adds permits.
    pub fn holding(size_bytes: u64) -> Ram {
        Ram { writes: Arc::new(Semaphore::new(0)), ..Ram::new(size_bytes) }
    }

    fn check(&self, offset_bytes: u64, len_bytes: u64) -> Result<()> {
        if offset_bytes.checked_add(len_bytes).is_none_or(|end| end > self.size_bytes) {
            return Err(Error::new(ErrorKind::InvalidArgument, "beyond the end of the image"));
        }
        Ok(())
    }

    async fn start_write(&self, durability: Durability) -> Result<()> {
        self.started_writes.fetch_add(1, Ordering::SeqCst);
        self.writes.acquire().await.unwrap().forget();
        if durability == Durability::Durable {
            self.durable_writes.fetch_add(1, Ordering::SeqCst);
        }
        match *self.error.lock() {
            Some(kind) => Err(Error::new(kind, "the test wants this write to fail")),
            None => Ok(()),
        }
    }
}

/// The parts of a range: block, offset in the block, offset in the range, length.
fn parts(offset_bytes: u64, len_bytes: u64) -> impl Iterator<Item = (u64, usize, usize, usize)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = offset_bytes + done;
        let len = (BLOCK_BYTES - at % BLOCK_BYTES).min(len_bytes - done);
        let part = (at / BLOCK_BYTES, (at % BLOCK_BYTES) as usize, done as usize, len as usize);
        done += len;
        (len > 0).then_some(part)
    })
}

fn change(blocks: &mut Blocks, block: u64, change: impl FnOnce(&mut [u8])) {
    let mut bytes = blocks.get(&block).map_or(vec![0; BLOCK_BYTES as usize], |bytes| bytes.to_vec());
    change(&mut bytes);
    blocks.insert(block, bytes.into());
}

#[async_trait]
impl Image for Ram {
    fn info(&self) -> ImageInfo {
        ImageInfo {
            address: "pool/image".to_owned(),
            size_bytes: self.size_bytes,
            geometry: Geometry::default(),
            read_only: self.read_only,
            parent: None,
            copy_block_bytes: BLOCK_BYTES,
            features: Vec::new(),
        }
    }

    async fn read(&self, offset_bytes: u64, len_bytes: u64) -> Result<Bytes> {
        self.check(offset_bytes, len_bytes)?;
        let blocks = self.blocks.lock();
        let mut data = vec![0; len_bytes as usize];
        for (block, offset, at, len) in parts(offset_bytes, len_bytes) {
            if let Some(bytes) = blocks.get(&block) {
                data[at..at + len].copy_from_slice(&bytes[offset..offset + len]);
            }
        }
        Ok(data.into())
    }

    async fn write(&self, offset_bytes: u64, data: Bytes, durability: Durability) -> Result<()> {
        self.check(offset_bytes, data.len() as u64)?;
        self.start_write(durability).await?;
        let mut blocks = self.blocks.lock();
        for (block, offset, at, len) in parts(offset_bytes, data.len() as u64) {
            change(&mut blocks, block, |bytes| {
                bytes[offset..offset + len].copy_from_slice(&data[at..at + len]);
            });
        }
        Ok(())
    }

    async fn write_zeroes(
        &self,
        offset_bytes: u64,
        len_bytes: u64,
        zeroes: Zeroes,
        durability: Durability,
    ) -> Result<()> {
        self.check(offset_bytes, len_bytes)?;
        self.start_write(durability).await?;
        let mut blocks = self.blocks.lock();
        if zeroes == Zeroes::Punch {
            let whole = offset_bytes.div_ceil(BLOCK_BYTES)..(offset_bytes + len_bytes) / BLOCK_BYTES;
            blocks.retain(|block, _| !whole.contains(block));
        }
        let present = |blocks: &Blocks, block| zeroes == Zeroes::Allocate || blocks.contains_key(&block);
        // A range of terabytes has few blocks.
        let ends = [(offset_bytes, len_bytes.min(BLOCK_BYTES)), {
            let len = len_bytes.min(BLOCK_BYTES);
            (offset_bytes + len_bytes - len, len)
        }];
        let ranges = if zeroes == Zeroes::Punch { &ends[..] } else { &[(offset_bytes, len_bytes)] };
        for (offset_bytes, len_bytes) in ranges {
            for (block, offset, _, len) in parts(*offset_bytes, *len_bytes) {
                if present(&blocks, block) {
                    change(&mut blocks, block, |bytes| bytes[offset..offset + len].fill(0));
                }
            }
        }
        Ok(())
    }

    async fn flush(&self) -> Result<()> {
        self.flushes.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    async fn extents(&self, offset_bytes: u64, len_bytes: u64, since: Option<&str>) -> Result<Vec<Extent>> {
        self.check(offset_bytes, len_bytes)?;
        let blocks = self.blocks.lock();
        let snapshots = self.snapshots.lock();
        let empty = Blocks::new();
        let old = match since {
            None => &empty,
            Some(name) => match snapshots.iter().find(|(known, _)| known == name) {
                Some((_, old)) => old,
                None => return Err(Error::new(ErrorKind::NotFound, "no such snapshot")),
            },
        };
        let kind = |block| match (since, blocks.get(&block)) {
            (Some(_), now) if now == old.get(&block) => ExtentKind::Unchanged,
            (_, Some(_)) => ExtentKind::Data,
            (_, None) => ExtentKind::Hole,
        };
        let mut extents: Vec<Extent> = Vec::new();
        for (block, _, _, len) in parts(offset_bytes, len_bytes) {
            match extents.last_mut() {
                Some(last) if last.kind == kind(block) => last.len_bytes += len as u64,
                _ => extents.push(Extent { len_bytes: len as u64, kind: kind(block) }),
            }
        }
        Ok(extents)
    }

    async fn limits(&self) -> Result<Limits> {
        Ok(Limits::default())
    }

    async fn check(&self, _repair: bool) -> Result<Check> {
        Ok(Check::default())
    }

    async fn resize(&self, _size_bytes: u64) -> Result<()> {
        Err(Error::new(ErrorKind::Unsupported, "an image in memory has a fixed size"))
    }

    async fn snapshots(&self) -> Result<Vec<SnapshotInfo>> {
        let info = |name: &String| SnapshotInfo {
            name: name.clone(),
            size_bytes: self.size_bytes,
            created_unix_ms: 0,
            is_protected: false,
        };
        Ok(self.snapshots.lock().iter().map(|(name, _)| info(name)).collect())
    }

    async fn create_snapshot(&self, name: &str) -> Result<()> {
        let blocks = self.blocks.lock().clone();
        self.snapshots.lock().push((name.to_owned(), blocks));
        Ok(())
    }

    async fn remove_snapshot(&self, _name: &str) -> Result<()> {
        Err(Error::new(ErrorKind::Unsupported, "not needed by the tests"))
    }

    async fn protect_snapshot(&self, _name: &str, _protect: bool) -> Result<()> {
        Err(Error::new(ErrorKind::Unsupported, "not needed by the tests"))
    }

    async fn roll_back(&self, _snapshot: &str) -> Result<()> {
        Err(Error::new(ErrorKind::Unsupported, "not needed by the tests"))
    }

    async fn flatten(&self) -> Result<()> {
        Err(Error::new(ErrorKind::Unsupported, "not needed by the tests"))
    }

    async fn close(&self) -> Result<()> {
        Ok(())
    }
}
