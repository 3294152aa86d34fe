//! Writing zeros, with and without freeing the space.

use super::image::{OBJECT_LOCKS, PIECES_IN_FLIGHT, PoolImage, run_all};
use super::map::Entry;
use super::writer::{Writer, explain};
use benthic_core::{Durability, ErrorKind, OptionalExtension, Result};
use bytes::Bytes;
use std::ops::Range;

/// Groups of objects that are removed at a time.
const GROUPS_IN_FLIGHT: usize = 4;
/// Source of zeros to write.
static ZEROS: [u8; 1024 * 1024] = [0; 1024 * 1024];

impl PoolImage {
    /// Makes a range read as zeros and frees its space.
    pub(super) async fn punch(
        &self,
        offset_bytes: u64,
        len_bytes: u64,
        durability: Durability,
    ) -> Result<()> {
        let shared = self.gate.read().await;
        let writer = self.writer().await?;
        self.punch_range(writer, offset_bytes, len_bytes).await?;
        drop(shared);
        match durability {
            Durability::Durable => self.make_durable().await,
            Durability::Buffered => Ok(()),
        }
    }

    /// As [`PoolImage::punch`]; the caller holds the gate.
    pub(super) async fn punch_range(&self, writer: &Writer, offset_bytes: u64, len_bytes: u64) -> Result<()> {
        let (geometry, size_bytes) = {
            let state = self.state.read();
            (state.header.geometry, state.size_bytes)
        };
        let Some(end) = offset_bytes.checked_add(len_bytes).filter(|end| *end <= size_bytes) else {
            return self.pieces(offset_bytes, len_bytes).map(|_| ());
        };
        // The end of the image counts as the end of its set of objects.
        let set_bytes = geometry.set_bytes();
        let first_set = offset_bytes.div_ceil(set_bytes);
        let last_set = if end == size_bytes { end.div_ceil(set_bytes) } else { end / set_bytes };
        let mut edges = Vec::new();
        if first_set < last_set {
            let whole = first_set * geometry.stripe_count..last_set * geometry.stripe_count;
            self.remove_objects(writer, whole.start as u32..whole.end as u32).await?;
            edges.push(offset_bytes..first_set * set_bytes);
            edges.push((last_set * set_bytes).min(end)..end);
        } else {
            edges.push(offset_bytes..end);
        }
        for edge in edges.into_iter().filter(|edge| !edge.is_empty()) {
            self.zero_pieces(writer, edge.start, edge.end - edge.start).await?;
        }
        Ok(())
    }

    /// Makes whole objects read as zeros.
    async fn remove_objects(&self, writer: &Writer, objects: Range<u32>) -> Result<()> {
        let groups = objects.start / OBJECT_LOCKS..objects.end.div_ceil(OBJECT_LOCKS);
        let group = |number: u32| {
            let first = number * OBJECT_LOCKS;
            first.max(objects.start)..(first + OBJECT_LOCKS).min(objects.end)
        };
        run_all(groups.map(|number| self.remove_group(writer, group(number))), GROUPS_IN_FLIGHT).await
    }

    /// Makes objects with different locks read as zeros, with one change of the map.
    async fn remove_group(&self, writer: &Writer, objects: Range<u32>) -> Result<()> {
        // Most objects of a large range may not exist.
        let is_written = |object: u32| !self.shows_zeros(self.entry(object));
        let Some(first) = objects.clone().find(|object| is_written(*object)) else { return Ok(()) };
        let last = objects.clone().rev().find(|object| is_written(*object)).unwrap_or(first);
        let mut locked = Vec::new();
        for object in first..=last {
            locked.push(self.object_lock(object).lock().await);
        }
        let old: Vec<Entry> = (first..=last).map(|object| self.entry(object)).collect();
        self.set_entries(writer, first, &vec![Entry::ZEROS; old.len()]).await?;
        let own = (first..).zip(old).filter_map(|(object, entry)| Some((object, self.own_version(entry)?)));
        let removals = own.map(|(object, version)| async move {
            let op = writer.guarded_op().remove().buffered();
            let removed = self.pool.write(&self.id.data(object, version)?, op).await;
            self.remember(object, version, None);
            match removed {
                Err(error) if error.kind() != ErrorKind::NotFound => Err(explain(error)),
                _ => Ok(()),
            }
        });
        run_all(removals, PIECES_IN_FLIGHT).await
    }

    /// Zeros parts of objects.
    async fn zero_pieces(&self, writer: &Writer, offset_bytes: u64, len_bytes: u64) -> Result<()> {
        let zeros = self.pieces(offset_bytes, len_bytes)?.into_iter().map(|piece| async move {
            let entry = self.entry(piece.object);
            if self.shows_zeros(entry) {
                return Ok(());
            }
            if let Some(version) = self.own_version(entry).filter(|_| entry.is_whole()) {
                let op = writer.guarded_op().zero(piece.offset_bytes, piece.len_bytes).buffered();
                let written = self.pool.write(&self.id.data(piece.object, version)?, op).await;
                // If it was discarded meanwhile, it reads as zeros.
                return written.optional().map(drop).map_err(explain);
            }
            self.write_zeros(writer, piece.object, piece.range(), Durability::Buffered).await
        });
        run_all(zeros, PIECES_IN_FLIGHT).await
    }

    /// Writes zeros as data, so that the space is allocated.
    pub(super) async fn allocate_zeros(
        &self,
        offset_bytes: u64,
        len_bytes: u64,
        durability: Durability,
    ) -> Result<()> {
        let _shared = self.gate.read().await;
        let writer = self.writer().await?;
        let pieces = self.pieces(offset_bytes, len_bytes)?.into_iter();
        let zeros = pieces.map(|piece| self.write_zeros(writer, piece.object, piece.range(), durability));
        run_all(zeros, PIECES_IN_FLIGHT).await?;
        // Another operation may have been told of a loss.
        if durability == Durability::Durable { writer.check_losses() } else { Ok(()) }
    }

    async fn write_zeros(
        &self,
        writer: &Writer,
        object: u32,
        range: Range<u64>,
        durability: Durability,
    ) -> Result<()> {
        let mut at = range.start;
        while at < range.end {
            let len_bytes = (range.end - at).min(ZEROS.len() as u64);
            let zeros = Bytes::from_static(&ZEROS[..len_bytes as usize]);
            self.write_piece(writer, object, at, zeros, durability).await?;
            at += len_bytes;
        }
        Ok(())
    }
}
