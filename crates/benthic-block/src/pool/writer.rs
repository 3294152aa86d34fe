//! The right to write to an image. One program at a time has it.
//!
//! Two mechanisms work together. A lock with a lease on the header keeps programs from opening the
//! image twice; it is broken to take an image over. The *generation* keeps the program that lost
//! the lock from writing late, for example after it was frozen: the new writer increments the
//! generation in the header and puts it on every object that the old writer may change. Every
//! change of such an object checks that its generation is not newer than the writer's.
//!
//! The old writer may still create data objects. They have a version that no map will ever name,
//! because the new writer uses greater ones.

use super::header::{GENERATION_XATTR, Header};
use super::image::missing;
use super::map::{self, Entry};
use super::objects::ImageId;
use super::snapshots::has_clones;
use super::{owner, requests};
use benthic_classes::lock;
use benthic_classes::lock::client::{HeldLock, LockRequest, break_lock};
use benthic_classes::lock::wire::{ListedHolder, Mode};
use benthic_core::codec::Wire;
use benthic_core::{Clock, Compare, Environment, Error, ErrorKind, ObjectId, Pool, Result, WriteOp};
use bytes::Bytes;
use futures::stream::{self, StreamExt, TryStreamExt};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Duration of the lease. After a writer was killed, the next one waits up to this long, or takes
/// the image over.
pub const LEASE_MS: u64 = 20_000;
const RENEWAL: Duration = Duration::from_secs(5);
const LOCK: &str = "writer";
/// Objects that are fenced at a time.
const FENCES_IN_FLIGHT: usize = 64;

/// How often an operation of any image in this process had an unknown outcome. A store reports the
/// loss of buffered writes only once, to one operation. So after any such report, no image that is
/// open can be trusted: its state in memory may be newer than the stored one.
static LOSSES: AtomicU64 = AtomicU64::new(0);

pub(crate) struct Writer {
    pub generation: u64,
    /// `None` once the image is closed. A change of the header needs it.
    lock: tokio::sync::Mutex<Option<HeldLock>>,
    pool: Arc<dyn Pool>,
    id: ImageId,
    request: LockRequest,
    /// The value of [`LOSSES`] when the image was opened.
    losses: u64,
    /// Set once another program has the lock.
    is_lost: AtomicBool,
    is_closed: AtomicBool,
    renewed_ms: AtomicU64,
    clock: Arc<dyn Clock>,
}

impl Writer {
    /// Takes the lock and makes this program the writer. Returns the header as it now is, and
    /// whether the last writer ended without closing the image.
    pub async fn start(
        pool: &Arc<dyn Pool>,
        id: ImageId,
        take_over: bool,
        environment: &Environment,
    ) -> Result<(Arc<Writer>, Header, bool)> {
        let losses = LOSSES.load(Ordering::Relaxed);
        let request = LockRequest {
            name: LOCK.to_owned(),
            owner: owner::this_program(),
            cookie: format!("{:016x} {}", environment.random.random_u64()?, owner::place()),
            mode: Mode::Exclusive,
            lease_ms: Some(LEASE_MS),
        };
        let renewed_ms = environment.clock.monotonic_ms();
        let lock = acquire(pool, &id.header()?, &request, take_over).await?;
        match Writer::announce(&lock, &**pool, id).await {
            Ok((header, was_open)) => {
                let writer = Arc::new(Writer {
                    generation: header.generation,
                    lock: tokio::sync::Mutex::new(Some(lock)),
                    pool: Arc::clone(pool),
                    id,
                    request,
                    losses,
                    is_lost: AtomicBool::new(false),
                    is_closed: AtomicBool::new(false),
                    renewed_ms: AtomicU64::new(renewed_ms),
                    clock: Arc::clone(&environment.clock),
                });
                tokio::spawn(renew(Arc::downgrade(&writer)));
                Ok((writer, header, was_open))
            }
            Err(error) => {
                // If this fails, the lock is free when its lease ends.
                let _ = lock.release().await;
                Err(error)
            }
        }
    }

    async fn announce(lock: &HeldLock, pool: &dyn Pool, id: ImageId) -> Result<(Header, bool)> {
        let mut header = Header::load(pool, id).await?;
        header.check_live()?;
        let was_open = header.is_open;
        let before = header.generation;
        header.is_open = true;
        header.generation += 1;
        if was_open {
            header.next_number()?;
        }
        let mut op = replace(&header, before);
        let left = requests::left_keys(pool, &id.header()?).await?;
        if !left.is_empty() {
            op = op.omap_remove(left);
        }
        lock.write(op).await?;
        Ok((header, was_open))
    }

    /// Marks an image as removed, unless it is in use. Returns its header.
    pub async fn start_removal(
        pool: &Arc<dyn Pool>,
        id: ImageId,
        environment: &Environment,
    ) -> Result<Header> {
        let (writer, mut header, was_open) = Writer::start(pool, id, false, environment).await?;
        let is_cloned = has_clones(&**pool, id, &header).await?;
        if is_cloned || header.live_snapshots().next().is_some() {
            // The next writer fences the old one, which this one did not do.
            header.is_open = was_open;
            writer.end(&header).await?;
            return Err(Error::conflict("the image has snapshots; remove them first"));
        }
        header.is_removing = true;
        writer.end(&header).await?;
        Ok(header)
    }

    /// Keeps every earlier writer from changing the image's objects. Returns the head's map.
    pub async fn fence(&self, pool: &dyn Pool, id: ImageId, header: &Header) -> Result<Vec<Entry>> {
        let objects = header.geometry.objects(header.size_bytes) as usize;
        let generation = self.generation_bytes();
        for page in 0..map::pages(objects) {
            let op =
                WriteOp::new().assert_exists().set_xattr(GENERATION_XATTR, generation.clone()).buffered();
            pool.write(&id.map_page(header.map, page)?, op).await.map_err(damaged)?;
        }
        // The old writer cannot add entries any more.
        let entries = map::load(pool, id, header.map, objects).await?;
        let own = entries.iter().enumerate().filter_map(|(object, entry)| {
            entry.version().filter(|version| *version > header.base).map(|version| (object, version))
        });
        stream::iter(own.collect::<Vec<_>>())
            .map(|(object, version)| {
                let op = WriteOp::new().assert_exists().set_xattr(GENERATION_XATTR, generation.clone());
                async move { pool.write(&id.data(object as u32, version)?, op.buffered()).await }
            })
            .buffer_unordered(FENCES_IN_FLIGHT)
            .try_for_each(|_| async { Ok(()) })
            .await
            .map_err(damaged)?;
        Ok(entries)
    }

    /// Creates a page of the head's map, or keeps the one that an interrupted change has left.
    pub async fn create_page(&self, map: u32, page: u32) -> Result<()> {
        let object = self.id.map_page(map, page)?;
        let op = WriteOp::new().create(true).set_xattr(GENERATION_XATTR, self.generation_bytes()).buffered();
        match self.pool.write(&object, op).await {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                let op = self.guarded_op().set_xattr(GENERATION_XATTR, self.generation_bytes()).buffered();
                self.pool.write(&object, op).await.map_err(explain).map(|_| ())
            }
            created => created.map_err(explain).map(|_| ()),
        }
    }

    /// Writes adjacent entries of one page of the head's map.
    pub async fn store_entries(
        &self,
        pool: &dyn Pool,
        id: ImageId,
        map: u32,
        first: u32,
        entries: &[Entry],
    ) -> Result<()> {
        let (page, offset_bytes) = map::place(first);
        let op = self.guarded_op().write(offset_bytes, map::encode(entries)).buffered();
        pool.write(&id.map_page(map, page)?, op).await.map_err(explain).map(|_| ())
    }

    /// Fails unless this program still has the right to write, as far as it knows.
    pub async fn check(&self) -> Result<()> {
        let age_ms = self.clock.monotonic_ms().saturating_sub(self.renewed_ms.load(Ordering::Relaxed));
        if self.is_closed.load(Ordering::Acquire) {
            return Err(writer_closed());
        }
        self.check_losses()?;
        if age_ms < LEASE_MS && !self.is_lost.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.renew().await
    }

    /// Fails if buffered writes may have been lost since the image was opened.
    pub fn check_losses(&self) -> Result<()> {
        if self.losses == LOSSES.load(Ordering::Relaxed) {
            return Ok(());
        }
        let message = "writes that were not flushed may be lost, because the process that owned the store died or did \
            not answer; open the image again";
        Err(Error::conflict(message))
    }

    async fn renew(&self) -> Result<()> {
        if self.is_lost.load(Ordering::Relaxed) {
            return Err(writer_lost());
        }
        let mut lock = self.lock.lock().await;
        let Some(held) = &*lock else { return Err(writer_closed()) };
        let now_ms = self.clock.monotonic_ms();
        let renewed = match held.renew().await.map_err(note) {
            // The lease has ended, for example because the machine slept.
            Err(error) if error.kind() == ErrorKind::Conflict => {
                self.take_again().await.map(|held| *lock = Some(held))
            }
            renewed => renewed,
        };
        match renewed {
            Ok(()) => {
                self.renewed_ms.store(now_ms, Ordering::Relaxed);
                Ok(())
            }
            Err(error)
                if matches!(error.kind(), ErrorKind::Busy | ErrorKind::Conflict | ErrorKind::NotFound) =>
            {
                self.is_lost.store(true, Ordering::Relaxed);
                Err(writer_lost().with_source(error))
            }
            Err(error) => Err(error),
        }
    }

    /// Takes the lock again after its lease has ended, if no other program was the writer
    /// meanwhile.
    async fn take_again(&self) -> Result<HeldLock> {
        let object = self.id.header()?;
        let held =
            HeldLock::acquire(Arc::clone(&self.pool), object, self.request.clone()).await.map_err(note)?;
        match Header::load(&*self.pool, self.id).await {
            Ok(header) if header.generation == self.generation && header.is_open => Ok(held),
            loaded => {
                // If this fails, the lock is free when its lease ends.
                let _ = held.release().await;
                loaded.and(Err(writer_lost()))
            }
        }
    }

    /// The start of a change of one of the image's objects.
    pub fn guarded_op(&self) -> WriteOp {
        WriteOp::new().cmp_xattr(GENERATION_XATTR, Compare::Le, self.generation_bytes())
    }

    /// Replaces the header, durably.
    pub async fn store_header(&self, header: &Header) -> Result<()> {
        let lock = self.lock.lock().await;
        let Some(lock) = &*lock else { return Err(writer_closed()) };
        lock.write(replace(header, self.generation)).await.map(|_| ()).map_err(explain)
    }

    /// Changes the header's attributes or omap.
    pub async fn change_header(&self, op: WriteOp) -> Result<()> {
        let lock = self.lock.lock().await;
        let Some(lock) = &*lock else { return Err(writer_closed()) };
        lock.write(op).await.map_err(note).map(|_| ())
    }

    pub fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Relaxed) || self.is_closed.load(Ordering::Relaxed)
    }

    /// Replaces the header one last time, and gives the lock back.
    pub async fn end(&self, header: &Header) -> Result<()> {
        let Some(lock) = self.lock.lock().await.take() else { return Ok(()) };
        self.is_closed.store(true, Ordering::Release);
        let written = lock.write(replace(header, self.generation)).await.map_err(explain);
        written.and(lock.release().await)
    }

    /// Gives the lock back without a change of the header.
    pub async fn give_up(&self) {
        if let Some(lock) = self.lock.lock().await.take() {
            // If this fails, the lock is free when its lease ends.
            let _ = lock.release().await;
        }
    }

    fn generation_bytes(&self) -> Bytes {
        generation_bytes(self.generation)
    }
}

async fn acquire(
    pool: &Arc<dyn Pool>,
    object: &ObjectId,
    request: &LockRequest,
    take_over: bool,
) -> Result<HeldLock> {
    let acquired = HeldLock::acquire(Arc::clone(pool), object.clone(), request.clone()).await;
    match acquired {
        Err(error) if error.kind() == ErrorKind::Busy => {
            let holders = holders(&**pool, object).await?;
            if !take_over && !holders.iter().all(owner::is_gone) {
                let owners = holders.iter().map(|holder| holder.owner.as_str());
                let message = "another program has the image open for writing; close it there, wait until its lease \
                    ends, or take the image over";
                let writer = owners.collect::<Vec<_>>().join(", ");
                return Err(Error::busy(message).with("writer", writer));
            }
            for holder in holders {
                break_lock(&**pool, object, LOCK, &holder.owner, Some(&holder.cookie)).await?;
            }
            HeldLock::acquire(Arc::clone(pool), object.clone(), request.clone()).await
        }
        acquired => acquired,
    }
}

/// The programs that have the image open for writing: one, or none.
pub(crate) async fn holders(pool: &dyn Pool, header: &ObjectId) -> Result<Vec<ListedHolder>> {
    let locks = lock::client::list(pool, header).await?;
    Ok(locks.into_iter().filter(|lock| lock.name == LOCK).flat_map(|lock| lock.holders).collect())
}

/// Renews the lease until the image is closed, the lock is lost, or nobody uses the image.
async fn renew(writer: Weak<Writer>) {
    loop {
        tokio::time::sleep(RENEWAL).await;
        let Some(writer) = writer.upgrade() else { return };
        match writer.renew().await {
            Ok(()) => {}
            Err(_) if writer.is_closed.load(Ordering::Relaxed) => return,
            Err(error) if error.kind() == ErrorKind::Conflict => {
                tracing::warn!("{error}");
                return;
            }
            // The next attempt comes before the lease ends.
            Err(error) => tracing::info!("the image's lease was not renewed: {error}"),
        }
    }
}

fn replace(header: &Header, generation: u64) -> WriteOp {
    WriteOp::new()
        .cmp_xattr(GENERATION_XATTR, Compare::Eq, generation_bytes(generation))
        .write_full(header.encode())
        .set_xattr(GENERATION_XATTR, generation_bytes(header.generation))
}

/// Big-endian, so that guards compare generations by number.
pub(crate) fn generation_bytes(generation: u64) -> Bytes {
    Bytes::copy_from_slice(&generation.to_be_bytes())
}

/// The error of an operation whose guard failed.
pub(crate) fn explain(error: Error) -> Error {
    if error.kind() == ErrorKind::Conflict { writer_lost().with_source(error) } else { note(error) }
}

/// The error of a change of an object that must exist.
pub(crate) fn damaged(error: Error) -> Error {
    if error.kind() == ErrorKind::NotFound { missing(error) } else { explain(error) }
}

/// Notes an error that may mean the loss of buffered writes.
pub(crate) fn note(error: Error) -> Error {
    if error.kind() == ErrorKind::OutcomeUnknown {
        LOSSES.fetch_add(1, Ordering::Relaxed);
    }
    error
}

fn writer_lost() -> Error {
    Error::conflict("another program has taken the image over; open it again")
}

fn writer_closed() -> Error {
    Error::conflict("the image is closed; open it again")
}
