//! Lays out an object's new data.
//!
//! For each chunk it chooses inline data, a stream or blocks. It verifies the old data that it
//! merges with the new data, writes the result to free extents, and lists the allocated and freed
//! extents in the record.

use super::data::Source;
use super::disk::Disk;
use super::keys::{
    self, BLOCK_BYTES, BLOCKS_PER_CHUNK, Block, CHUNK_BYTES, Chunk, Data, Extent, INLINE_BYTES_MAX, Onode,
    data_crc,
};
use super::pieces::Pieces;
use super::record::{RECORD_DATA_BYTES_MAX, Record};
use benthic_core::{Result, limits};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A chunk with at least this many new bytes is rewritten as one stream.
const STREAM_BYTES_MIN: u64 = CHUNK_BYTES / 2;
const LAST_CHUNK: u32 = (limits::OBJECT_BYTES_MAX / CHUNK_BYTES) as u32;

/// The object after the operation.
pub(crate) struct Target {
    pub oid: u64,
    pub size_bytes: u64,
    /// Old data is visible up to this offset.
    pub cut_bytes: u64,
}

pub(crate) struct NewLayout {
    pub data: Data,
    /// Data written to extents that the record does not contain.
    pub unsynced_bytes: u64,
}

pub(crate) fn free_all(disk: &Disk, onode: &Onode, record: &mut Record) -> Result<()> {
    if onode.data == Data::Chunks {
        for (index, chunk) in disk.chunks(onode.oid, 0, LAST_CHUNK)? {
            record.changes.push((keys::chunk(onode.oid, index).into(), None));
            record.freed.extend(chunk.extents());
        }
    }
    Ok(())
}

pub(crate) fn lay_out(
    disk: &Disk,
    before: Option<&Onode>,
    target: &Target,
    pieces: &Pieces,
    record: &mut Record,
) -> Result<NewLayout> {
    assert!(target.cut_bytes <= target.size_bytes, "old data is visible at most up to the object's end");
    if target.size_bytes <= INLINE_BYTES_MAX {
        let mut data = vec![0; target.size_bytes as usize];
        if let Some(before) = before {
            let old = disk.read(before, 0, target.cut_bytes.min(target.size_bytes), Source::Disk)?;
            data[..old.len()].copy_from_slice(&old);
            free_all(disk, before, record)?;
        }
        pieces.overlay(0, &mut data);
        assert!(record.allocated.is_empty(), "an object with inline data takes no blocks");
        return Ok(NewLayout { data: Data::Inline(Bytes::from(data)), unsynced_bytes: 0 });
    }
    // Inline data moves to chunks as if the operation had written it.
    let mut moved = Pieces::default();
    let (old, pieces) = match before.map(|onode| (onode, &onode.data)) {
        None => (None, pieces),
        Some((onode, Data::Chunks)) => (Some(onode), pieces),
        Some((_, Data::Inline(data))) => {
            moved.write(0, data.slice(..data.len().min(target.cut_bytes as usize)));
            for (offset_bytes, len_bytes, data) in pieces.iter() {
                match data {
                    Some(data) => moved.write(offset_bytes, data.clone()),
                    None => moved.zero(offset_bytes, len_bytes),
                }
            }
            (None, &moved)
        }
    };
    let mut layout = Layout { disk, target, pieces, contents: Vec::new(), blocks: BTreeMap::new() };
    let old_chunks = layout.old_chunks(old)?;
    for index in layout.touched_chunks(&old_chunks) {
        layout.chunk(index, old_chunks.get(&index), record)?;
    }
    let unsynced_bytes = layout.write(record)?;
    Ok(NewLayout { data: Data::Chunks, unsynced_bytes })
}

struct Layout<'a> {
    disk: &'a Disk,
    target: &'a Target,
    pieces: &'a Pieces,
    /// Data to write: chunk, block within the chunk (`None` for a stream), bytes.
    contents: Vec<(u32, Option<usize>, Bytes)>,
    blocks: BTreeMap<u32, Box<[Option<Block>; BLOCKS_PER_CHUNK]>>,
}

impl Layout<'_> {
    /// The old chunks that the operation may touch.
    fn old_chunks(&self, old: Option<&Onode>) -> Result<BTreeMap<u32, Chunk>> {
        let Some(old) = old else { return Ok(BTreeMap::new()) };
        let mut chunks = BTreeMap::new();
        if self.target.cut_bytes < old.size_bytes {
            chunks = self.disk.chunks(old.oid, (self.target.cut_bytes / CHUNK_BYTES) as u32, LAST_CHUNK)?;
        }
        for (offset_bytes, len_bytes, _) in self.pieces.iter() {
            let (first, last) = (offset_bytes / CHUNK_BYTES, (offset_bytes + len_bytes - 1) / CHUNK_BYTES);
            chunks.extend(self.disk.chunks(old.oid, first as u32, last as u32)?);
        }
        Ok(chunks)
    }

    fn touched_chunks(&self, old_chunks: &BTreeMap<u32, Chunk>) -> BTreeSet<u32> {
        let written = self.pieces.iter().flat_map(|(offset_bytes, len_bytes, _)| {
            (offset_bytes / CHUNK_BYTES) as u32..=((offset_bytes + len_bytes - 1) / CHUNK_BYTES) as u32
        });
        written.chain(old_chunks.keys().copied()).collect()
    }

    fn read_old(&self, base: u64, chunk: &Chunk, from_bytes: u64, target: &mut [u8]) -> Result<()> {
        self.disk.data.read_chunk(self.target.oid, base, chunk, from_bytes, target, Source::Disk)
    }

    /// Decides how one chunk is stored.
    fn chunk(&mut self, index: u32, old: Option<&Chunk>, record: &mut Record) -> Result<()> {
        let base = u64::from(index) * CHUNK_BYTES;
        let end = self.target.size_bytes.saturating_sub(base).min(CHUNK_BYTES);
        let visible = self.target.cut_bytes.saturating_sub(base).min(CHUNK_BYTES);
        let parts: Vec<_> = self.pieces.within(base, base + end).collect();
        let covered: u64 = parts.iter().map(|(_, len, _)| len).sum();
        assert!(covered <= end, "pieces do not overlap, and end with the object");
        let written = parts.iter().any(|(_, _, data)| data.is_some());
        let old_end = old.map_or(0, chunk_end);
        if covered == 0 && visible >= old_end {
            return Ok(());
        }
        let gone = end == 0 || (!written && (covered == end || visible == 0 || old.is_none()));
        if gone {
            if let Some(old) = old {
                record.freed.extend(old.extents());
                record.changes.push((keys::chunk(self.target.oid, index).into(), None));
            }
            return Ok(());
        }
        if covered >= STREAM_BYTES_MIN || covered == end {
            if let Some(old) = old {
                record.freed.extend(old.extents());
            }
            let content = match &parts[..] {
                [(0, len, Some(data))] if *len == end => data.clone(),
                _ => {
                    let mut content = vec![0; end as usize];
                    if let Some(old) = old.filter(|_| covered < end) {
                        let visible = visible.min(end) as usize;
                        self.read_old(base, old, 0, &mut content[..visible])?;
                    }
                    self.pieces.overlay(base, &mut content);
                    Bytes::from(content)
                }
            };
            self.contents.push((index, None, content));
            return Ok(());
        }
        if let (Some(stream @ Chunk::Stream { offset_bytes, .. }), 0) = (old, covered) {
            return self.shorten_stream(index, stream, *offset_bytes, visible.min(end), record);
        }
        self.chunk_by_blocks(index, end, visible, old, record)
    }

    /// Truncates a stream in place: the data stays, and only the checksum is new.
    fn shorten_stream(
        &mut self,
        index: u32,
        stream: &Chunk,
        offset_bytes: u64,
        len_bytes: u64,
        record: &mut Record,
    ) -> Result<()> {
        let base = u64::from(index) * CHUNK_BYTES;
        assert!(0 < len_bytes && len_bytes < chunk_end(stream), "a stream is truncated within its length");
        let mut content = vec![0; len_bytes as usize];
        self.read_old(base, stream, 0, &mut content)?;
        let kept = len_bytes.next_multiple_of(BLOCK_BYTES);
        record.freed.extend(stream.extents().into_iter().filter(|extent| extent.len_bytes > kept).map(
            |extent| Extent { offset_bytes: extent.offset_bytes + kept, len_bytes: extent.len_bytes - kept },
        ));
        let crc = data_crc(self.target.oid, base, &content);
        let shortened = Chunk::Stream { offset_bytes, len_bytes: len_bytes as u32, crc };
        record.changes.push((keys::chunk(self.target.oid, index).into(), Some(shortened.encode().into())));
        Ok(())
    }

    /// Writes only the blocks that change.
    fn chunk_by_blocks(
        &mut self,
        index: u32,
        end: u64,
        visible: u64,
        old: Option<&Chunk>,
        record: &mut Record,
    ) -> Result<()> {
        let base = u64::from(index) * CHUNK_BYTES;
        let mut stream = Vec::new();
        let mut stream_end = 0;
        let mut blocks = match old {
            None => Box::new([None; BLOCKS_PER_CHUNK]),
            Some(Chunk::Blocks(blocks)) => blocks.clone(),
            Some(chunk @ Chunk::Stream { offset_bytes, len_bytes, .. }) => {
                stream = vec![0; CHUNK_BYTES as usize];
                self.read_old(base, chunk, 0, &mut stream)?;
                stream_end = u64::from(*len_bytes);
                let mut blocks = Box::new([None; BLOCKS_PER_CHUNK]);
                for (at, block) in
                    blocks.iter_mut().enumerate().take(stream_end.div_ceil(BLOCK_BYTES) as usize)
                {
                    let start = at as u64 * BLOCK_BYTES;
                    let bytes = &stream[start as usize..(start + BLOCK_BYTES) as usize];
                    let crc = data_crc(self.target.oid, base + start, bytes);
                    *block = Some(Block { offset_bytes: offset_bytes + start, crc });
                }
                blocks
            }
        };
        for (at, block) in blocks.iter_mut().enumerate() {
            let (start, stop) = (at as u64 * BLOCK_BYTES, (at as u64 + 1) * BLOCK_BYTES);
            let parts: Vec<_> = self.pieces.within(base + start, base + stop.min(end.max(start))).collect();
            let cut = block.is_some() && visible < stop && visible < block_data_end(old, stop, stream_end);
            // The stream's last block contains unrelated bytes after the end of the stream.
            let ragged = stream_end > start && stream_end < stop;
            if parts.is_empty() && !cut && !ragged {
                continue;
            }
            let mut content = match stream.get(start as usize..stop as usize) {
                Some(old) => old.to_vec(),
                None => vec![0; BLOCK_BYTES as usize],
            };
            let kept = visible.clamp(start, stop) - start;
            let covered = matches!(&parts[..], [(0, len, _)] if *len == BLOCK_BYTES);
            if let (Some(chunk @ Chunk::Blocks(_)), Some(_), false) = (old, &block, covered || kept == 0) {
                self.read_old(base, chunk, start, &mut content)?;
            }
            content[kept as usize..].fill(0);
            self.pieces.overlay(base + start, &mut content);
            if let Some(old) = block.take() {
                record.freed.push(Extent { offset_bytes: old.offset_bytes, len_bytes: BLOCK_BYTES });
            }
            if content.iter().any(|byte| *byte != 0) {
                self.contents.push((index, Some(at), Bytes::from(content)));
            }
        }
        self.blocks.insert(index, blocks);
        Ok(())
    }

    /// Writes the data to free extents and adds the new chunks to the record. Returns the number of
    /// bytes that the record does not contain.
    fn write(mut self, record: &mut Record) -> Result<u64> {
        let total_bytes: u64 = self.contents.iter().map(|(_, _, content)| content.len() as u64).sum();
        let padded: u64 =
            self.contents.iter().map(|(_, _, c)| (c.len() as u64).next_multiple_of(BLOCK_BYTES)).sum();
        assert!(record.allocated.is_empty() && record.data.is_empty(), "an operation is laid out once");
        record.allocated = self.disk.allocator.lock().allocate(padded);
        let allocated_bytes: u64 = record.allocated.iter().map(|extent| extent.len_bytes).sum();
        assert_eq!(allocated_bytes, padded, "the extents are as long as the data");
        let written = self.write_contents(record, total_bytes <= RECORD_DATA_BYTES_MAX);
        if let Err(error) = written {
            // A full disk needs the space of the failed operation back.
            self.disk.data.punch_all(record.allocated.clone());
            let mut allocator = self.disk.allocator.lock();
            record.allocated.drain(..).for_each(|extent| allocator.release(extent));
            return Err(error);
        }
        for (index, blocks) in std::mem::take(&mut self.blocks) {
            let value = blocks.iter().any(Option::is_some).then(|| Chunk::Blocks(blocks).encode().into());
            record.changes.push((keys::chunk(self.target.oid, index).into(), value));
        }
        Ok(if total_bytes > RECORD_DATA_BYTES_MAX { total_bytes } else { 0 })
    }

    fn write_contents(&mut self, record: &mut Record, in_record: bool) -> Result<()> {
        let mut free: VecDeque<Extent> = record.allocated.iter().copied().collect();
        let mut put = |offset_bytes, data: Bytes| {
            self.disk.data.write(offset_bytes, &data)?;
            if in_record {
                record.data.push((offset_bytes, data));
            }
            Ok(())
        };
        for (index, block, content) in std::mem::take(&mut self.contents) {
            let base = u64::from(index) * CHUNK_BYTES;
            let padded = (content.len() as u64).next_multiple_of(BLOCK_BYTES);
            if let Some(at) = block {
                assert_eq!(content.len() as u64, BLOCK_BYTES, "a block is written whole");
                let offset_bytes = take(&mut free, BLOCK_BYTES);
                let crc = data_crc(self.target.oid, base + at as u64 * BLOCK_BYTES, &content);
                put(offset_bytes, content)?;
                self.blocks.entry(index).or_insert_with(|| Box::new([None; BLOCKS_PER_CHUNK]))[at] =
                    Some(Block { offset_bytes, crc });
            } else if free.front().is_some_and(|run| run.len_bytes >= padded) {
                let offset_bytes = take(&mut free, padded);
                let crc = data_crc(self.target.oid, base, &content);
                assert!(content.len() as u64 <= CHUNK_BYTES, "a stream ends with its chunk");
                let len_bytes = content.len() as u32;
                put(offset_bytes, content)?;
                let chunk = Chunk::Stream { offset_bytes, len_bytes, crc };
                record
                    .changes
                    .push((keys::chunk(self.target.oid, index).into(), Some(chunk.encode().into())));
            } else {
                // No free run is long enough, so the chunk is stored as blocks.
                let blocks = self.blocks.entry(index).or_insert_with(|| Box::new([None; BLOCKS_PER_CHUNK]));
                for (at, start) in (0..content.len()).step_by(BLOCK_BYTES as usize).enumerate() {
                    let mut bytes = content.slice(start..content.len().min(start + BLOCK_BYTES as usize));
                    if bytes.len() < BLOCK_BYTES as usize {
                        let mut whole = bytes.to_vec();
                        whole.resize(BLOCK_BYTES as usize, 0);
                        bytes = Bytes::from(whole);
                    }
                    let offset_bytes = take(&mut free, BLOCK_BYTES);
                    let crc = data_crc(self.target.oid, base + start as u64, &bytes);
                    put(offset_bytes, bytes)?;
                    blocks[at] = Some(Block { offset_bytes, crc });
                }
            }
        }
        assert!(free.is_empty(), "all allocated blocks are written");
        assert!(in_record || record.data.is_empty(), "only small data is in the record");
        Ok(())
    }
}

/// Takes `len_bytes` from the first allocated run, which must be long enough.
fn take(free: &mut VecDeque<Extent>, len_bytes: u64) -> u64 {
    let Some(run) = free.front_mut() else { unreachable!("the extents are as long as the data") };
    assert!(run.len_bytes >= len_bytes, "the run is long enough");
    let offset_bytes = run.offset_bytes;
    run.offset_bytes += len_bytes;
    run.len_bytes -= len_bytes;
    if run.len_bytes == 0 {
        free.pop_front();
    }
    offset_bytes
}

/// End of the chunk's data, within the chunk.
fn chunk_end(chunk: &Chunk) -> u64 {
    match chunk {
        Chunk::Stream { len_bytes, .. } => u64::from(*len_bytes),
        Chunk::Blocks(blocks) => {
            blocks.iter().rposition(Option::is_some).map_or(0, |last| (last as u64 + 1) * BLOCK_BYTES)
        }
    }
}

/// End of a present block's data, within the chunk.
fn block_data_end(old: Option<&Chunk>, stop: u64, stream_end: u64) -> u64 {
    if let Some(Chunk::Stream { .. }) = old { stream_end.min(stop) } else { stop }
}
