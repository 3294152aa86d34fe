//! Writes: the data wait in memory or in a file until they are complete, and then go to the
//! upstream in one request.
//!
//! The gateway knows attributes and conditions only at the end of the data, and S3 wants them at
//! the beginning. So the data wait, at most 1 MiB in memory and the rest in a file without a name,
//! which no crash leaves behind. These files count towards the bound of the cache.

use super::blocks::Blocks;
use super::cache::Reservation;
use super::client::{Call, Payload};
use super::head::{with_attributes, write_of};
use super::objects::{check_finish, version_of_answer, with_condition};
use super::uploads::PartTarget;
use super::{objects_error, sign, unsupported};
use crate::sal::{Attributes, Finish, Object, WriteResult, Writer};
use async_trait::async_trait;
use benthic_core::{Action, Error, ErrorKind, Result};
use bytes::Bytes;
use hyper::Method;
use ring::digest::{Context, SHA256};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// Data that wait in memory, in bytes.
const MEMORY_BYTES_MAX: usize = 1 << 20;
/// Maximum size of an object in one request to S3, in bytes.
const OBJECT_BYTES_MAX: u64 = 5 << 30;

/// A writer of one object or part.
pub(super) struct SpoolWriter {
    blocks: Arc<Blocks>,
    bucket: String,
    key: String,
    part: Option<PartTarget>,
    memory: Vec<u8>,
    file: Option<(Arc<File>, Reservation)>,
    len_bytes: u64,
    hash: Context,
}

impl SpoolWriter {
    pub fn new(blocks: Arc<Blocks>, bucket: String, key: String, part: Option<PartTarget>) -> SpoolWriter {
        SpoolWriter {
            blocks,
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
        let task = self.blocks.client.runtime().spawn_blocking(move || {
            let failed = |error| {
                Error::io(Action::Write, "cannot store the data before they are sent", error)
                    .with_op("upstream")
            };
            let (file, mut room) = match file {
                Some(file) => file,
                None => {
                    (Arc::new(tempfile::tempfile_in(cache.directory()).map_err(failed)?), cache.reserve())
                }
            };
            room.grow(data.len() as u64)?;
            file.write_all_at(&data, at).map_err(failed)?;
            Ok((file, room))
        });
        let ended = |error| Err(Error::new(ErrorKind::Internal, "a write ended early").with_source(error));
        self.file = Some(task.await.unwrap_or_else(ended)?);
        Ok(())
    }

    fn payload(&mut self) -> Payload {
        match &self.file {
            Some((file, _)) => Payload::File(Arc::clone(file), self.len_bytes),
            None => Payload::Memory(std::mem::take(&mut self.memory).into()),
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
        let sha256 = sign::hex(self.hash.clone().finish().as_ref());
        let payload = self.payload();
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
