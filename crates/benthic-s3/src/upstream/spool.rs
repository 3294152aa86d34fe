//! Writes: the data wait in memory or in a file until they are complete, and then go to the
//! upstream in one request.
//!
//! The gateway knows attributes and conditions only at the end of the data, but S3 needs them
//! before the data. So the data wait, at most 1 MiB in memory and the rest in a file without a
//! name, which no crash leaves behind. These files count towards the bound of the cache.

use super::blocks::Blocks;
use super::buckets::{is_deleted, require};
use super::cache::Reservation;
use super::client::{Call, Payload};
use super::head::{with_attributes, write_of};
use super::objects::{check_finish, version_of_answer, with_condition};
use super::uploads::PartTarget;
use super::write_back::file::{BlockSums, Record, create};
use super::write_back::{Added, Adding, Data, Drain, WriteBack, texts};
use super::{objects_error, unsupported};
use crate::sal::{Attributes, Bucket, Finish, Object, Sal, WriteResult, Writer};
use crate::seal::hex;
use async_trait::async_trait;
use benthic_core::{Action, Error, ErrorKind, Result};
use bytes::Bytes;
use hyper::Method;
use ring::digest::{Context, SHA256};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use tempfile::NamedTempFile;

/// Limit on the data that wait in memory, in bytes.
const MEMORY_BYTES_MAX: usize = 1 << 20;
/// Maximum size of an object in one request to S3, in bytes.
const OBJECT_BYTES_MAX: u64 = 5 << 30;

/// The queue of changes that go to the upstream later.
pub(super) struct WriteBackQueue {
    pub queue: Arc<WriteBack>,
    /// Whether this write may wait in the queue.
    pub is_used: bool,
    /// The driver of the gateway's own store.
    pub sal: Arc<dyn Sal>,
    pub bucket: Bucket,
    /// Until when the driver relies on its last lookup of the bucket, by the monotonic clock.
    pub bucket_valid_until_ms: u64,
}

impl WriteBackQueue {
    /// Begins to add a change, if the bucket was not deleted while the data arrived: the upstream
    /// would refuse the change forever.
    ///
    /// # Errors
    /// `NotFound` without the bucket; `Busy` while it is being deleted.
    async fn begin(&self, blocks: &Blocks, upstream_name: &str) -> Result<Adding> {
        self.ask_upstream(blocks, upstream_name).await?;
        let adding = self.queue.begin(upstream_name).await?;
        require(self.sal.as_ref(), &self.bucket).await?;
        Ok(adding)
    }

    /// Asks the upstream whether it still has the bucket, if it has not said so for a while.
    async fn ask_upstream(&self, blocks: &Blocks, upstream_name: &str) -> Result<()> {
        if blocks.environment.clock.monotonic_ms() < self.bucket_valid_until_ms {
            return Ok(());
        }
        match blocks.client.call(Call::new(Method::HEAD, upstream_name, "")).await {
            Err(error) if error.kind() == ErrorKind::NotFound => Err(is_deleted(&self.bucket.name)),
            // Changes also wait while the upstream cannot be reached.
            _ => Ok(()),
        }
    }
}

/// A file with data.
enum Spool {
    Unnamed(Arc<File>),
    /// In the directory of pending changes.
    Named(NamedTempFile),
}

impl Spool {
    fn file(&self) -> &File {
        match self {
            Spool::Unnamed(file) => file,
            Spool::Named(file) => file.as_file(),
        }
    }
}

/// A writer of one object or part.
pub(super) struct SpoolWriter {
    blocks: Arc<Blocks>,
    bucket: String,
    key: String,
    part: Option<PartTarget>,
    write_back: WriteBackQueue,
    memory: Vec<u8>,
    file: Option<(Spool, Reservation)>,
    len_bytes: u64,
    hash: Context,
    sums: BlockSums,
}

impl SpoolWriter {
    pub fn new(
        blocks: Arc<Blocks>,
        write_back: WriteBackQueue,
        bucket: String,
        key: String,
        part: Option<PartTarget>,
    ) -> SpoolWriter {
        SpoolWriter {
            blocks,
            write_back: WriteBackQueue { is_used: write_back.is_used && part.is_none(), ..write_back },
            sums: BlockSums::new(),
            bucket,
            key,
            part,
            memory: Vec::new(),
            file: None,
            len_bytes: 0,
            hash: Context::new(&SHA256),
        }
    }

    /// Appends to the file, and creates it if necessary.
    async fn append(&mut self, data: Bytes) -> Result<()> {
        let cache = Arc::clone(&self.blocks.cache);
        let (file, at) = (self.file.take(), self.len_bytes - data.len() as u64);
        let named_in = self.write_back.is_used.then(|| self.write_back.queue.directory().to_owned());
        let task = self.blocks.client.runtime().spawn_blocking(move || {
            let failed = |error| {
                Error::io(Action::Write, "cannot store the data before they are sent", error)
                    .with_op("upstream")
            };
            let (file, mut room) = match file {
                Some(file) => file,
                None => {
                    let spool = match named_in {
                        Some(directory) => Spool::Named(create(&directory)?),
                        None => {
                            let file = tempfile::tempfile_in(cache.directory()).map_err(failed)?;
                            Spool::Unnamed(Arc::new(file))
                        }
                    };
                    (spool, cache.reserve())
                }
            };
            room.grow(data.len() as u64)?;
            file.file().write_all_at(&data, at).map_err(failed)?;
            Ok((file, room))
        });
        let ended = |error| Err(Error::internal("a write ended early").with_source(error));
        self.file = Some(task.await.unwrap_or_else(ended)?);
        Ok(())
    }

    fn payload(&mut self) -> Result<Payload> {
        Ok(match &self.file {
            Some((Spool::Unnamed(file), _)) => Payload::File(Arc::clone(file), self.len_bytes),
            Some((Spool::Named(file), _)) => {
                let file = file.reopen().map_err(|error| {
                    Error::io(Action::Read, "cannot read the data before they are sent", error)
                })?;
                Payload::File(Arc::new(file), self.len_bytes)
            }
            None => Payload::Memory(self.memory.clone().into()),
        })
    }

    /// Adds the object to the queue. `None` if it does not go there, or if only the upstream can
    /// decide the condition.
    async fn enqueue(&mut self, finish: &Finish, sha256: &str) -> Result<Option<WriteResult>> {
        if !self.write_back.is_used
            || !self.write_back.queue.takes(&self.bucket, &self.key, &finish.condition)
        {
            return Ok(None);
        }
        // Refuse now a change that cannot be sent to the upstream later.
        let mut call = Call::new(Method::PUT, &self.bucket, &self.key);
        call.sha256 = Some(sha256.to_owned());
        self.blocks.client.check(&with_attributes(call, &finish.attributes, true)?)?;
        let adding = self.write_back.begin(&self.blocks, &self.bucket).await?;
        let record = Record {
            bucket: self.bucket.clone(),
            key: self.key.clone(),
            etag: finish.etag.clone(),
            size_bytes: self.len_bytes,
            sha256: sha256.to_owned(),
            sums: std::mem::replace(&mut self.sums, BlockSums::new()).finish(),
            attributes: texts(&finish.attributes)?,
            ..Record::default()
        };
        let data = match self.file.take() {
            Some((Spool::Named(file), room)) => Data::File(file, room),
            // Only writes that do not use the queue have files without names.
            Some((Spool::Unnamed(_), _)) => return Ok(None),
            None => Data::Memory(std::mem::take(&mut self.memory).into()),
        };
        match self.write_back.queue.add(record, data, finish.condition.clone(), adding).await? {
            Added::Stored(written) => Ok(Some(written)),
            Added::Undecided(file, room) => {
                self.file = Some((Spool::Named(file), room));
                Ok(None)
            }
        }
    }
}

#[async_trait]
impl Writer for SpoolWriter {
    async fn write(&mut self, data: Bytes) -> Result<()> {
        self.len_bytes += data.len() as u64;
        if self.len_bytes > OBJECT_BYTES_MAX {
            return Err(objects_error(
                ErrorKind::LimitExceeded,
                "one request can write at most 5 GiB; use a multipart upload",
            ));
        }
        self.hash.update(&data);
        if self.write_back.is_used {
            self.sums.update(&data);
        }
        if self.file.is_none() {
            self.memory.extend_from_slice(&data);
            if self.memory.len() <= MEMORY_BYTES_MAX {
                return Ok(());
            }
            let all = std::mem::take(&mut self.memory);
            return self.append(all.into()).await;
        }
        self.append(data).await
    }

    async fn preview(&mut self, _attributes: &Attributes) -> Result<Object> {
        Err(unsupported("a gateway to an upstream runs no methods on new objects"))
    }

    async fn finish(mut self: Box<Self>, finish: Finish) -> Result<WriteResult> {
        check_finish(&finish)?;
        let sha256 = hex(self.hash.clone().finish().as_ref());
        if let Some(written) = self.enqueue(&finish, &sha256).await? {
            return Ok(written);
        }
        if self.part.is_none() {
            self.write_back.queue.drain(Drain::Key(&self.bucket, &self.key)).await?;
        }
        let payload = self.payload()?;
        if let Some(part) = self.part.take() {
            return part.finish(&self.blocks, finish, payload, sha256, self.len_bytes).await;
        }
        let call = Call::new(Method::PUT, &self.bucket, &self.key);
        let call = with_attributes(call, &finish.attributes, true)?;
        let mut call = with_condition(call, &finish.condition)?;
        call.payload = payload;
        call.sha256 = Some(sha256);
        let answer = self.blocks.client.call(call).await;
        let answer = self.blocks.forget_after(answer, &self.bucket, &self.key, None).await?;
        let etag = answer.header("etag").unwrap_or_default().trim_matches('"').to_owned();
        if etag != finish.etag {
            tracing::debug!("the upstream has given an object another ETag than the MD5 of its data");
        }
        Ok(WriteResult {
            version: version_of_answer(&answer),
            size_bytes: self.len_bytes,
            write: write_of(&etag, answer.header("x-amz-version-id")),
        })
    }

    async fn abort(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}
