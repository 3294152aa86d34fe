//! Writes data objects again: those that a compaction or a change of the layout selects.

use crate::error;
use crate::head::Operation;
use crate::ids::TableObject;
use crate::layout::{FOOTER_KEY, Layout, ROWS_BYTES_KEY};
use crate::list::FileEntry;
use crate::object;
use crate::snapshot::{Snapshot, SnapshotSelector};
use crate::table::Table;
use crate::writer::encode::{encode_object, sort_rows};
use crate::writer::{Writer, WriterOptions, full_bytes};
use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use benthic_core::{Error, ErrorKind, Result};
use futures::channel::mpsc;
use futures::future::{poll_fn, try_join};
use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};
use std::collections::BTreeMap;

/// Limit of the bytes that one commit writes again.
const GROUP_BYTES_MAX: u64 = 1024 * 1024 * 1024;
/// Attempts at one group. Each failed attempt means that another change succeeded.
const ATTEMPTS_MAX: u32 = 5;
/// Footers read concurrently.
const FOOTERS_AT_ONCE: usize = 16;

/// Groups of objects of one partition, each of at most about 1 GiB.
fn groups(entries: Vec<FileEntry>) -> Vec<Vec<FileEntry>> {
    let mut partitions: BTreeMap<Option<i64>, Vec<FileEntry>> = BTreeMap::new();
    for entry in entries {
        partitions.entry(entry.partition).or_default().push(entry);
    }
    let mut groups = Vec::new();
    for entries in partitions.into_values() {
        let mut group: Vec<FileEntry> = Vec::new();
        let mut group_bytes = 0;
        for entry in entries {
            if group_bytes >= GROUP_BYTES_MAX {
                groups.push(std::mem::take(&mut group));
                group_bytes = 0;
            }
            group_bytes += entry.all_bytes();
            group.push(entry);
        }
        groups.push(group);
    }
    groups
}

/// Rows of a table, batch by batch.
pub type RowStream = BoxStream<'static, Result<RecordBatch>>;

/// The outcome of [`Table::rewrite`].
#[derive(Clone, Debug, Default)]
pub struct Rewritten {
    /// The objects that were replaced.
    pub replaced: Vec<FileEntry>,
    /// Whether the memory limit of the writer made objects smaller than half of their target.
    pub is_limited_by_memory: bool,
}

impl Snapshot {
    /// The data objects that a compaction should write again, in groups. Each group has objects of
    /// one partition, and at most about 1 GiB, so that a compaction commits one group after the
    /// other. Chosen are objects with deleted rows, and objects below half of the target size if a
    /// partition has several of them, and a writer with these options would make fewer of them.
    /// With `all`, every object is chosen. May read the footers of small objects.
    ///
    /// # Errors
    /// `NotFound` if the snapshot was vacuumed, `Corrupt`.
    pub async fn to_compact(&self, all: bool, options: &WriterOptions) -> Result<Vec<Vec<FileEntry>>> {
        let small_bytes = self.layout().object_bytes / 2;
        let mut chosen = Vec::new();
        let mut entries = self.entries();
        while let Some(entry) = entries.try_next().await? {
            if all || entry.deleted.is_some() || entry.largest_bytes() < small_bytes {
                chosen.push(entry);
            }
        }
        let mut kept = Vec::new();
        for group in groups(chosen) {
            let has_deleted = group.iter().any(|entry| entry.deleted.is_some());
            if all || has_deleted || self.would_be_fewer(&group, options).await? {
                kept.push(group);
            }
        }
        Ok(kept)
    }

    /// Whether a writer would make fewer objects of a group. Not if it runs out of memory before an
    /// object is full, because the rows compress very well. The answer is yes if an older build
    /// wrote one of the objects.
    async fn would_be_fewer(&self, group: &[FileEntry], options: &WriterOptions) -> Result<bool> {
        if group.len() < 2 {
            return Ok(false);
        }
        let size = |entry: FileEntry| async move {
            let size = object::footer_value(self.reader(&entry), ROWS_BYTES_KEY).await;
            match size {
                Ok(size) => Ok(size.and_then(|size| size.parse::<u64>().ok())),
                Err(error) => Err(self.explain(error, entry.object).await),
            }
        };
        let sizes: Vec<Option<u64>> =
            stream::iter(group.to_vec()).map(size).buffered(FOOTERS_AT_ONCE).try_collect().await?;
        let sum = sizes.into_iter().try_fold(0_u64, |sum, size| sum.checked_add(size?));
        let Some(rows_bytes) = sum else { return Ok(true) };
        let bytes: u64 = group.iter().map(FileEntry::largest_bytes).sum();
        let target = usize::try_from(self.layout().object_bytes).unwrap_or(usize::MAX);
        let full = full_bytes(target, rows_bytes as f64 / bytes.max(1) as f64).min(options.buffer_bytes_max);
        Ok(rows_bytes.div_ceil(full.max(1) as u64) < group.len() as u64)
    }

    /// The data objects that were not written with this layout, in groups as
    /// [`to_compact`](Snapshot::to_compact). Reads the footer of every object.
    ///
    /// # Errors
    /// `NotFound` if the snapshot was vacuumed, `Corrupt`.
    pub async fn to_rewrite(&self, layout: &Layout) -> Result<Vec<Vec<FileEntry>>> {
        let layout = layout.to_string();
        let differs = |entry: FileEntry| {
            let layout = &layout;
            async move {
                let found = object::footer_value(self.reader(&entry), FOOTER_KEY).await;
                match found {
                    Ok(found) => Ok((found.as_ref() != Some(layout)).then_some(entry)),
                    Err(error) => Err(self.explain(error, entry.object).await),
                }
            }
        };
        let entries = self.entries().map_ok(differs).try_buffered(FOOTERS_AT_ONCE);
        Ok(groups(entries.try_filter_map(async |entry| Ok(entry)).try_collect().await?))
    }

    /// The size that the live rows of a data object have in another layout. Encodes the rows in
    /// memory, and writes nothing.
    ///
    /// # Errors
    /// As [`Snapshot::read`].
    pub async fn size_in(&self, entry: &FileEntry, layout: &Layout) -> Result<u64> {
        let batches: Vec<RecordBatch> = self.read(entry, self.schema()).await?.try_collect().await?;
        let rows = concat_batches(self.schema().arrow(), &batches);
        let rows = rows.map_err(|source| error::arrow("rows cannot be concatenated", source))?;
        let rows = sort_rows(rows, layout, self.schema())?;
        let bytes_target = usize::try_from(layout.object_bytes).unwrap_or(usize::MAX);
        let (mut start, mut bytes) = (0, 0);
        while start < rows.num_rows() {
            let rest = rows.slice(start, rows.num_rows() - start);
            let (objects, taken) = encode_object(&rest, layout, self.schema(), bytes_target).await?;
            bytes += objects.iter().map(|object| object.len() as u64).sum::<u64>();
            start += taken;
        }
        Ok(bytes)
    }
}

impl Table {
    /// Writes the live rows of a group of data objects again, with the table's layout and indexes,
    /// and commits them in the place of these objects. Returns the objects that were replaced:
    /// without those that another change removed before, or removed or changed while this call
    /// wrote them. If it fails, the table has not changed, except after `OutcomeUnknown`.
    ///
    /// `pace` is called after each batch of rows with the number of bytes that it takes in its
    /// object. It may wait to limit the rate, and an error of it ends the work.
    ///
    /// # Errors
    /// `Conflict` if other changes of the same objects came first, several times, and `NotFound` if
    /// a vacuum also removed the objects; as [`Writer::finish`].
    pub async fn rewrite(
        &self,
        group: &[FileEntry],
        options: &WriterOptions,
        pace: &mut impl AsyncFnMut(u64) -> Result<()>,
    ) -> Result<Rewritten> {
        let mut as_stored =
            async |_: &Snapshot, _: &[FileEntry], rows: RowStream| -> Result<RowStream> { Ok(rows) };
        self.rewrite_in_order(group, options, &mut as_stored, pace).await
    }

    /// As [`Table::rewrite`], and writes the rows in the order of the stream that `order` makes of
    /// them, so that each new object has rows that are near each other in this order. `order` gets
    /// a snapshot, objects of it, and their rows. It must not wait for rows before it returns its
    /// stream.
    ///
    /// # Errors
    /// As [`Table::rewrite`]; errors of `order` and of its stream; `Internal` if its stream does
    /// not have as many rows.
    pub async fn rewrite_in_order(
        &self,
        group: &[FileEntry],
        options: &WriterOptions,
        order: &mut impl AsyncFnMut(&Snapshot, &[FileEntry], RowStream) -> Result<RowStream>,
        pace: &mut impl AsyncFnMut(u64) -> Result<()>,
    ) -> Result<Rewritten> {
        let mut group = group.to_vec();
        let mut attempts = 0;
        loop {
            attempts += 1;
            let base = self.snapshot(SnapshotSelector::Current).await?;
            // Other changes may have deleted rows of these objects, or replaced the objects.
            let current = base.entries().map_ok(|entry| (entry.object, entry));
            let mut current: BTreeMap<TableObject, FileEntry> = current.try_collect().await?;
            // A later attempt leaves out objects that changed during the one before, because rows
            // that are deleted all the time would otherwise stop the whole group.
            let now =
                |entry: FileEntry| current.remove(&entry.object).filter(|now| attempts == 1 || *now == entry);
            group = group.into_iter().filter_map(now).collect();
            drop(current);
            if group.is_empty() {
                return Ok(Rewritten::default());
            }
            let outcome = match base.change(Operation::Compact, options.clone()).await {
                Ok(writer) => writer.rewrite(&base, &group, order, pace).await,
                Err(error) => Err(error),
            };
            match outcome {
                Ok(is_limited_by_memory) => {
                    return Ok(Rewritten { replaced: group, is_limited_by_memory });
                }
                // An object is missing if another change replaced it and a vacuum removed it. If
                // the table was dropped, the next attempt fails.
                Err(error)
                    if matches!(error.kind(), ErrorKind::Conflict | ErrorKind::NotFound)
                        && attempts < ATTEMPTS_MAX => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl Writer {
    async fn rewrite(
        mut self,
        base: &Snapshot,
        group: &[FileEntry],
        order: &mut impl AsyncFnMut(&Snapshot, &[FileEntry], RowStream) -> Result<RowStream>,
        pace: &mut impl AsyncFnMut(u64) -> Result<()>,
    ) -> Result<bool> {
        let written = async {
            let (mut sender, rows) = mpsc::channel(0);
            let rows = order(base, group, rows.map(Ok).boxed()).await?;
            let read = async move {
                for entry in group {
                    let mut stored = base.read(entry, base.schema()).await?;
                    let (live, mut done) = (entry.live_rows().max(1), 0);
                    let share = |rows: u64| {
                        let bytes = u128::from(entry.all_bytes()) * u128::from(rows) / u128::from(live);
                        u64::try_from(bytes).unwrap_or(u64::MAX)
                    };
                    while let Some(batch) = stored.try_next().await? {
                        let before = share(done);
                        done += batch.num_rows() as u64;
                        let is_open = poll_fn(|context| sender.poll_ready(context)).await;
                        if is_open.and_then(|()| sender.start_send(batch)).is_err() {
                            // The other side has ended, and returns its error.
                            return Ok(());
                        }
                        pace(share(done) - before).await?;
                    }
                }
                Ok::<(), Error>(())
            };
            let write = async {
                // Dropped at the end, so that reading does not wait for a stream that ended early.
                let (mut rows, mut count) = (rows, 0);
                while let Some(batch) = rows.try_next().await? {
                    count += batch.num_rows() as u64;
                    self.write(&batch).await?;
                }
                Ok::<u64, Error>(count)
            };
            let ((), count) = try_join(read, write).await?;
            let live = group.iter().map(FileEntry::live_rows).sum::<u64>();
            if count != live {
                let message =
                    "a rewrite would change the number of rows; check the table with `benthic table fsck`";
                let error = Error::internal(message);
                return Err(error.with("rows", live).with("rows_written", count));
            }
            group.iter().try_for_each(|entry| self.delete(entry, &entry.stored_rows()?))
        };
        match written.await {
            Ok(()) => self.finish().await.map(|_| self.is_limited_by_memory),
            Err(error) => {
                if let Err(error) = self.abort().await {
                    tracing::warn!(%error, "unused objects remain; `benthic table vacuum` removes them");
                }
                Err(error)
            }
        }
    }
}
