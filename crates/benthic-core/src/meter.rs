//! A wrapper around any engine that counts operations and payload.

use crate::op::{ClassCall, Guard, ReadOp, ReadOutput, ReadReply, ReadStep, WriteOp, WriteReply, WriteStep};
use crate::{ListPage, ListRequest, ListToken, ObjectId, Pool, Result, ScrubPage};
use async_trait::async_trait;
use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts operations and payload bytes: data, attributes, omap entries, names in listings, method
/// input and output. It does not count the headers of a wire format, so that results of different
/// engines are comparable.
#[derive(Debug, Default)]
pub struct Meter {
    operations: AtomicU64,
    sent_bytes: AtomicU64,
    received_bytes: AtomicU64,
}

impl Meter {
    /// Wraps a pool so that this meter counts its operations.
    pub fn pool(self: &Arc<Self>, pool: Arc<dyn Pool>) -> Arc<dyn Pool> {
        Arc::new(MeteredPool { pool, meter: Arc::clone(self) })
    }

    /// Number of operations, including listings.
    pub fn operations(&self) -> u64 {
        self.operations.load(Ordering::Relaxed)
    }

    pub fn sent_bytes(&self) -> u64 {
        self.sent_bytes.load(Ordering::Relaxed)
    }

    pub fn received_bytes(&self) -> u64 {
        self.received_bytes.load(Ordering::Relaxed)
    }

    fn sent(&self, len_bytes: usize) {
        self.operations.fetch_add(1, Ordering::Relaxed);
        self.sent_bytes.fetch_add(len_bytes as u64, Ordering::Relaxed);
    }

    fn received(&self, len_bytes: u64) {
        self.received_bytes.fetch_add(len_bytes, Ordering::Relaxed);
    }
}

struct MeteredPool {
    pool: Arc<dyn Pool>,
    meter: Arc<Meter>,
}

#[async_trait]
impl Pool for MeteredPool {
    fn name(&self) -> &str {
        self.pool.name()
    }

    async fn read(&self, object: &ObjectId, op: ReadOp) -> Result<ReadReply> {
        let steps: usize = op.steps.iter().map(read_step_bytes).sum();
        self.meter.sent(steps + guards_bytes(&op.guards));
        let reply = self.pool.read(object, op).await?;
        self.meter.received(reply.outputs.iter().map(ReadOutput::len_bytes).sum());
        Ok(reply)
    }

    async fn write(&self, object: &ObjectId, op: WriteOp) -> Result<WriteReply> {
        let steps: usize = op.steps.iter().map(write_step_bytes).sum();
        self.meter.sent(steps + guards_bytes(&op.guards));
        self.pool.write(object, op).await
    }

    async fn exec(&self, object: &ObjectId, call: ClassCall) -> Result<Bytes> {
        self.meter.sent(call.input.len());
        let output = self.pool.exec(object, call).await?;
        self.meter.received(output.len() as u64);
        Ok(output)
    }

    async fn list(&self, request: ListRequest) -> Result<ListPage> {
        self.meter.sent(request.prefix.len());
        let page = self.pool.list(request).await?;
        self.meter
            .received(page.objects.iter().map(|id| (id.namespace().len() + id.name().len()) as u64).sum());
        Ok(page)
    }

    fn token_after(&self, object: &ObjectId) -> Option<ListToken> {
        self.pool.token_after(object)
    }

    async fn scrub(&self, after: Option<ListToken>) -> Result<ScrubPage> {
        self.pool.scrub(after).await
    }
}

fn guards_bytes(guards: &[Guard]) -> usize {
    let guard_bytes = |guard: &Guard| match guard {
        Guard::Exists | Guard::Version(_) => 0,
        Guard::Xattr { name, value, .. } => name.len() + value.len(),
        Guard::Omap { key, value } => key.len() + value.len(),
    };
    guards.iter().map(guard_bytes).sum()
}

fn read_step_bytes(step: &ReadStep) -> usize {
    match step {
        ReadStep::Read { .. } | ReadStep::Stat | ReadStep::ListXattrs => 0,
        ReadStep::GetXattr { name } => name.len(),
        ReadStep::OmapGet { keys } => keys.iter().map(Bytes::len).sum(),
        ReadStep::OmapRange { after, prefix, .. } => after.as_ref().map_or(0, Bytes::len) + prefix.len(),
        ReadStep::Exec(call) => call.input.len(),
    }
}

fn write_step_bytes(step: &WriteStep) -> usize {
    match step {
        WriteStep::Create { .. }
        | WriteStep::Truncate { .. }
        | WriteStep::Zero { .. }
        | WriteStep::Remove
        | WriteStep::OmapClear => 0,
        WriteStep::Write { data, .. } | WriteStep::WriteFull { data } | WriteStep::Append { data } => {
            data.len()
        }
        WriteStep::SetXattr { name, value } => name.len() + value.len(),
        WriteStep::RemoveXattr { name } => name.len(),
        WriteStep::OmapSet { entries } => entries.iter().map(|(key, value)| key.len() + value.len()).sum(),
        WriteStep::OmapRemove { keys } => keys.iter().map(Bytes::len).sum(),
        WriteStep::Exec(call) => call.input.len(),
    }
}
