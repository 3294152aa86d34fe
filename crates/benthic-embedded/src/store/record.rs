//! The log record of one operation: its changes to the key-value store, the extents that it
//! allocates and frees, and small data.

use super::keys::{BLOCK_BYTES, DATA_FILE_BYTES_MAX, Extent};
use super::kv::Changes;
use benthic_core::codec::{Decoded, Decoder, Encode, Malformed};
use bytes::Bytes;

/// Maximum size of data in a record. Larger data is written to its extents and synced before the
/// record.
pub(crate) const RECORD_DATA_BYTES_MAX: u64 = 65_536;

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Record {
    /// The next object or omap number after this operation.
    pub next_id: u64,
    pub changes: Changes,
    pub allocated: Vec<Extent>,
    pub freed: Vec<Extent>,
    /// Data with its offset in the data file. A piece of data starts at a block boundary and may
    /// end within a block.
    pub data: Vec<(u64, Bytes)>,
}

impl Record {
    pub fn len_bytes(&self) -> usize {
        let changes =
            self.changes.iter().map(|(key, value)| key.len() + value.as_ref().map_or(0, Bytes::len));
        let data = self.data.iter().map(|(_, data)| data.len());
        changes.chain(data).sum::<usize>() + 16 * (self.allocated.len() + self.freed.len())
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        out.put_u64(self.next_id);
        out.put_len(self.changes.len());
        for (key, value) in &self.changes {
            out.put_bytes(key);
            match value {
                None => out.put_u8(0),
                Some(value) => {
                    out.put_u8(1);
                    out.put_bytes(value);
                }
            }
        }
        for extents in [&self.allocated, &self.freed] {
            out.put_len(extents.len());
            for extent in extents {
                let whole = extent.offset_bytes.is_multiple_of(BLOCK_BYTES)
                    && extent.len_bytes.is_multiple_of(BLOCK_BYTES);
                assert!(whole, "the extents of a record consist of whole blocks");
                out.put_u64(extent.offset_bytes);
                out.put_u64(extent.len_bytes);
            }
        }
        out.put_len(self.data.len());
        for (offset_bytes, data) in &self.data {
            assert!(
                offset_bytes.is_multiple_of(BLOCK_BYTES),
                "the data of a record starts at a block boundary"
            );
            out.put_u64(*offset_bytes);
            out.put_bytes(data);
        }
    }

    pub fn decode(bytes: &Bytes) -> Decoded<Record> {
        let mut input = Decoder::sharing(bytes);
        let mut record = Record { next_id: input.u64()?, ..Record::default() };
        for _ in 0..input.len(5)? {
            // Copy, so that entries in memory do not keep the log's buffer alive.
            let key = Bytes::copy_from_slice(&input.bytes()?);
            let value = if input.bool()? { Some(Bytes::copy_from_slice(&input.bytes()?)) } else { None };
            record.changes.push((key, value));
        }
        record.allocated = extents(&mut input)?;
        record.freed = extents(&mut input)?;
        for _ in 0..input.len(12)? {
            let offset_bytes = input.u64()?;
            if !offset_bytes.is_multiple_of(BLOCK_BYTES) {
                return Err(Malformed);
            }
            record.data.push((offset_bytes, input.bytes()?));
        }
        input.end()?;
        Ok(record)
    }
}

fn extents(input: &mut Decoder<'_>) -> Decoded<Vec<Extent>> {
    (0..input.len(16)?)
        .map(|_| {
            let extent = Extent { offset_bytes: input.u64()?, len_bytes: input.u64()? };
            let end = extent.offset_bytes.checked_add(extent.len_bytes).ok_or(Malformed)?;
            let whole = extent.offset_bytes.is_multiple_of(BLOCK_BYTES)
                && extent.len_bytes.is_multiple_of(BLOCK_BYTES);
            if whole && end <= DATA_FILE_BYTES_MAX { Ok(extent) } else { Err(Malformed) }
        })
        .collect()
}
