//! Arrow IPC files and streams.
//!
//! A file is a stream between a magic word and a footer, so both are read as streams. This module
//! reads the message frames itself, because Arrow's readers allocate the declared length before
//! they know whether the file has that many bytes.

use super::reader::{Batch, Raw, Reader, format_error, unreadable};
use arrow::array::RecordBatch;
use arrow::buffer::Buffer;
use arrow::datatypes::SchemaRef;
use arrow::ipc::convert::fb_to_schema;
use arrow::ipc::reader::FileDecoder;
use arrow::ipc::{Block, MessageHeader, root_as_message};
use benthic_core::{Error, Result};
use benthic_table::TableSchema;
use std::io::Read;
use std::sync::Arc;

const DAMAGED: &str = "this is not an Arrow file or stream, or it is damaged";
/// Beginning of a file: the magic word and padding. A stream has neither before its first message.
const FILE_START: [u8; 8] = *b"ARROW1\0\0";
const ALIGNMENT_BYTES_MAX: usize = 4096;
const CONTINUATION: [u8; 4] = [0xff; 4];
const HEAD_BYTES_MAX: u32 = 64 * 1024 * 1024;
/// Maximum size of a message's body, which is in memory as a whole.
const BODY_BYTES_MAX: u64 = 4 * 1024 * 1024 * 1024;

pub(super) struct ArrowIpc {
    from: Box<dyn Read + Send>,
    /// Whether the input is a file, which marks the end of its messages.
    is_file: bool,
    schema: SchemaRef,
    decoder: FileDecoder,
}

struct Message {
    bytes: Vec<u8>,
    /// Length of everything before the body.
    head_bytes: usize,
    /// Length of the frame: the length field and its marker.
    frame_bytes: usize,
}

impl ArrowIpc {
    pub(super) fn open(raw: Raw) -> Result<ArrowIpc> {
        let mut from = raw.stream();
        let mut start = up_to(&mut from, FILE_START.len() as u64)?;
        let is_file = start == FILE_START;
        if is_file {
            // Skip the alignment padding. The next message does not begin with zeros.
            for _ in 0..ALIGNMENT_BYTES_MAX / 4 {
                start = up_to(&mut from, 4)?;
                if start != [0; 4] {
                    break;
                }
            }
        }
        from = Box::new(std::io::Cursor::new(start).chain(from));
        let first = Message::read(&mut from, is_file)?.ok_or_else(|| damaged("it has no schema"))?;
        let message = first.message()?;
        let schema = message.header_as_schema().ok_or_else(|| damaged("it does not begin with a schema"))?;
        if !schema.endianness().equals_to_target_endianness() {
            return Err(Error::unsupported("the Arrow file has another byte order than this machine"));
        }
        let schema = Arc::new(fb_to_schema(schema));
        let decoder = FileDecoder::new(Arc::clone(&schema), message.version());
        Ok(ArrowIpc { from, is_file, schema, decoder })
    }

    fn next(&mut self) -> Result<Option<Batch>> {
        let mut read_bytes = 0;
        loop {
            let Some(message) = Message::read(&mut self.from, self.is_file)? else {
                return Ok(None);
            };
            read_bytes += message.bytes.len() as u64;
            if let Some(rows) = self.decode(message)? {
                return Ok(Some(Batch { rows, read_bytes }));
            }
        }
    }

    fn decode(&mut self, message: Message) -> Result<Option<RecordBatch>> {
        let failed = |error| format_error(DAMAGED, error);
        let description = message.message()?;
        let header = description.header_type();
        let dictionary = description.header_as_dictionary_batch().and_then(|dictionary| dictionary.data());
        if let Some(batch) = description.header_as_record_batch().or(dictionary) {
            check_sizes(&batch, &message.bytes[message.head_bytes..])?;
        }
        let (head_bytes, body_bytes) = (message.head_bytes, message.bytes.len() - message.head_bytes);
        let (Ok(head), Ok(body)) = (i32::try_from(head_bytes), i64::try_from(body_bytes)) else {
            return Err(damaged("a message is too large"));
        };
        let (block, bytes) = (Block::new(0, head, body), Buffer::from_vec(message.bytes));
        match header {
            MessageHeader::RecordBatch => self.decoder.read_record_batch(&block, &bytes).map_err(failed),
            MessageHeader::DictionaryBatch => {
                self.decoder.read_dictionary(&block, &bytes).map_err(failed)?;
                Ok(None)
            }
            _ => Err(damaged("a message holds no rows")),
        }
    }
}

impl Message {
    /// The next message, or `None` at the end. A message of length zero marks the end; without
    /// `marked`, the end of the input may also do so.
    fn read(from: &mut impl Read, marked: bool) -> Result<Option<Message>> {
        let mut bytes = up_to(from, 4)?;
        if bytes.is_empty() && !marked {
            return Ok(None);
        }
        let mut length = bytes.clone();
        // Before 2019, messages had no continuation marker.
        if bytes == CONTINUATION {
            length = up_to(from, 4)?;
            bytes.extend(&length);
        }
        let frame_bytes = bytes.len();
        let length = match <[u8; 4]>::try_from(length) {
            Ok(length) => u32::from_le_bytes(length),
            Err(_) => return Err(damaged("it ends too early")),
        };
        if length == 0 {
            return Ok(None);
        }
        if length > HEAD_BYTES_MAX {
            return Err(damaged("a message has an invalid length"));
        }
        more(from, u64::from(length), &mut bytes)?;
        let head_bytes = bytes.len();
        let mut message = Message { bytes, head_bytes, frame_bytes };
        let body_bytes = u64::try_from(message.message()?.bodyLength()).unwrap_or(u64::MAX);
        if body_bytes > BODY_BYTES_MAX {
            let error = Error::invalid_argument("a batch of the Arrow file is too large, or damaged");
            return Err(error.with("len_bytes", body_bytes).with("len_bytes_max", BODY_BYTES_MAX));
        }
        more(from, body_bytes, &mut message.bytes)?;
        Ok(Some(message))
    }

    fn message(&self) -> Result<arrow::ipc::Message<'_>> {
        let message = root_as_message(&self.bytes[self.frame_bytes..self.head_bytes]);
        message.map_err(|error| damaged("a message cannot be decoded").with("cause", error))
    }
}

/// Checks the declared sizes of compressed buffers, because the decoder allocates them at once.
fn check_sizes(batch: &arrow::ipc::RecordBatch<'_>, body: &[u8]) -> Result<()> {
    let (Some(_), Some(buffers)) = (batch.compression(), batch.buffers()) else { return Ok(()) };
    for buffer in buffers {
        let start = usize::try_from(buffer.offset()).ok().and_then(|offset| body.get(offset..));
        let size = start.and_then(|start| start.first_chunk()).map_or(0, |size| i64::from_le_bytes(*size));
        if u64::try_from(size).is_ok_and(|size| size > BODY_BYTES_MAX) {
            return Err(damaged("a buffer is too large").with("len_bytes", size));
        }
    }
    Ok(())
}

/// Reads `len_bytes` bytes, or fewer at the end of the input.
fn up_to(from: &mut impl Read, len_bytes: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(len_bytes).read_to_end(&mut bytes).map_err(unreadable)?;
    Ok(bytes)
}

fn more(from: &mut impl Read, len_bytes: u64, to: &mut Vec<u8>) -> Result<()> {
    let read = from.take(len_bytes).read_to_end(to).map_err(unreadable)?;
    if read as u64 == len_bytes { Ok(()) } else { Err(damaged("it ends too early")) }
}

fn damaged(how: &str) -> Error {
    Error::invalid_argument(format!("{DAMAGED}: {how}"))
}

impl Reader for ArrowIpc {
    fn schema(&self) -> Result<SchemaRef> {
        Ok(Arc::clone(&self.schema))
    }

    fn batches(
        mut self: Box<Self>,
        _: &TableSchema,
    ) -> Result<Box<dyn Iterator<Item = Result<Batch>> + Send>> {
        Ok(Box::new(std::iter::from_fn(move || self.next().transpose())))
    }
}
