//! Fuzzes metadata of arrays, and chunks with any codecs.

use benthic_array::class::{Input, Task, compute};
use benthic_array::decoders::{
    BytesCodec, ChunkIndex, Encoding, ObjectFormat, Page, Pipeline, ReadObject, ShardIndexFormat, parse_v2,
    parse_v3,
};
use benthic_array::{
    ArrayMetadata, AxisRole, Bounded, DateRange, Dtype, Node, Reduction, ReductionKind, Slice, TimeUnits,
    decoding, element_json,
};
use benthic_core::codec::Wire;
use benthic_core::{ErrorKind, Result};
use bytes::Bytes;
use std::ops::Range;

pub type Target = fn(&[u8]);

pub const TARGETS: [(&str, Target); 6] = [
    ("array_chunk", array_chunk),
    ("array_dates", array_dates),
    ("array_input", array_input),
    ("array_metadata", array_metadata),
    ("array_places", array_places),
    ("array_statistics", array_statistics),
];

/// The index of an array in a file, without the checksum. The first byte is the number of chunks.
pub fn array_places(input: &[u8]) {
    let Some((chunks, content)) = input.split_first() else { return };
    let mut data = content.to_vec();
    data.extend(crc32c::crc32c(content).to_le_bytes());
    match ChunkIndex::decode(&data.into(), u64::from(*chunks)) {
        Ok(index) => {
            for chunk in 0..u64::from(*chunks) {
                if let Some((name, range)) = index.object_range("f", chunk) {
                    assert!(name.starts_with('f'));
                    range.check().expect("an accepted range ends");
                }
            }
        }
        Err(error) => assert_eq!(error.kind(), ErrorKind::Corrupt),
    }
}

/// Metadata documents. An accepted one has a valid format, and its chunks have keys.
pub fn array_metadata(input: &[u8]) {
    let accepted = |metadata: &ArrayMetadata| {
        metadata.format.check().expect("the format is checked");
        let _ = (decoding(metadata), element_json(metadata.format.dtype, &metadata.format.fill));
        if metadata.shape.iter().all(|len| *len > 0) {
            let position = vec![0; metadata.shape.len()];
            assert_eq!(metadata.chunk_position(&metadata.chunk_key(&position)), Some(position));
        }
    };
    let document = Bytes::copy_from_slice(input);
    if let Ok(Node::Array(metadata)) = parse_v3(&document) {
        accepted(&metadata);
    }
    if let Ok(metadata) = parse_v2(input, Some(&document)) {
        accepted(&metadata);
    }
}

/// A page of statistics. A decoded value encodes to the same bytes.
pub fn array_statistics(input: &[u8]) {
    if let Ok(page) = Page::from_bytes(input) {
        assert_eq!(page.to_bytes(), input);
    }
    // The rest of the decoder runs only after a valid checksum.
    let sealed = Page::seal(input.to_vec());
    if let Ok(page) = Page::from_bytes(&sealed) {
        assert_eq!(page.to_bytes(), sealed);
    }
}

/// Units, a calendar and a range of dates, a line each.
pub fn array_dates(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let mut lines = text.splitn(3, '\n');
    let (Some(units), Some(calendar), Some(range)) = (lines.next(), lines.next(), lines.next()) else {
        return;
    };
    let (Some(range), Ok(units)) = (DateRange::parse(range), TimeUnits::parse(units, Some(calendar))) else {
        return;
    };
    if let Ok(is_in) = range.contains(&[f64::NAN, -1e300, -1e6, -1.0, 0.0, 0.5, 1e6, 1e300], &units) {
        assert!(!is_in[0], "a missing coordinate is in no range");
    }
}

/// Inputs of the method, for an object of zeros.
pub fn array_input(input: &[u8]) {
    if let Ok(input) = Input::decode(input)
        && is_small(&input.format)
        && input.check().is_ok()
    {
        expected(compute(&input, &mut Object(Bytes::from(vec![0; 256]))));
    }
}

/// A large chunk would take the fuzzer too long.
fn is_small(format: &ObjectFormat) -> bool {
    let elements = format.shape.0.iter().try_fold(1u64, |product, len| product.checked_mul(*len));
    format.check().is_ok() && elements.is_some_and(|elements| elements <= 1 << 16)
}

/// A stored chunk. The first bytes select its codecs and shape.
pub fn array_chunk(input: &[u8]) {
    let Some((head, data)) = input.split_first_chunk::<6>() else { return };
    let codec = |number: u8| match number % 9 {
        // The corpus has fields of GRIB with these numbers.
        _ if number >= 250 => Some(BytesCodec::Grib {
            element_bytes: if number.is_multiple_of(2) { 4 } else { 8 },
            row_elements: if number < 254 { 0 } else { 12 },
        }),
        0 => None,
        1 => Some(BytesCodec::Blosc {}),
        2 => Some(BytesCodec::Gzip {}),
        3 => Some(BytesCodec::Zlib {}),
        4 => Some(BytesCodec::Zstd {}),
        5 => Some(BytesCodec::Lz4 {}),
        6 => Some(BytesCodec::Shuffle { element_bytes: u32::from(number / 9) }),
        7 => Some(BytesCodec::Crc32c {}),
        _ => Some(BytesCodec::Fletcher32 {}),
    };
    let dtype = Dtype::ALL[usize::from(head[0]) % Dtype::ALL.len()];
    let codecs = Bounded(head[1..3].iter().filter_map(|number| codec(*number)).collect());
    let inner = [u64::from(head[3] % 64) + 1, u64::from(head[4] % 64) + 1];
    let order = if head[5] & 1 == 1 { vec![1, 0] } else { Vec::new() };
    let pipeline = Pipeline { order: Bounded(order), is_big_endian: head[5] & 2 == 2, bytes: codecs };
    let (shape, encoding) = if head[5] & 4 == 4 {
        let index = ShardIndexFormat {
            is_at_start: head[5] & 8 == 8,
            is_big_endian: head[5] & 16 == 16,
            // The rest of the decoder runs only after a valid checksum.
            has_checksum: false,
        };
        ([inner[0] * 2, inner[1]], Encoding::Shard { inner_shape: Bounded(inner.to_vec()), pipeline, index })
    } else {
        (inner, Encoding::Chunk { pipeline })
    };
    let format = ObjectFormat {
        dtype,
        shape: Bounded(shape.to_vec()),
        fill: vec![0; dtype.size_bytes()].into(),
        encoding,
    };
    let step = 1 + u64::from(head[5] >> 6);
    let slices = Bounded(shape.map(|len| Slice { start: 0, step, count: len.div_ceil(step) }).to_vec());
    let whole = Bounded(shape.map(Slice::all).to_vec());
    let mut object = Object(Bytes::copy_from_slice(data));
    let select =
        Input { format: format.clone(), range: None, slices, task: Task::Select {}, may_pack: false };
    expected(compute(&select, &mut object));
    let quantile = ReductionKind::Quantile { q: Bounded(vec![0.5]) };
    for kind in [ReductionKind::Mean {}, ReductionKind::Argmax {}, ReductionKind::Std { ddof: 1 }, quantile] {
        let axes = Bounded(vec![AxisRole::Reduce {}, AxisRole::reduce_if(head[5] & 32 == 32)]);
        let reduction = Reduction { kind, axes, skip_nan: true, decoding: None };
        let (format, slices) = (format.clone(), whole.clone());
        expected(compute(
            &Input { format, range: None, slices, task: Task::Reduce { reduction }, may_pack: false },
            &mut object,
        ));
    }
}

fn expected(outcome: Result<Bytes>) {
    if let Err(error) = outcome {
        assert!(matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::LimitExceeded), "{error}");
    }
}

struct Object(Bytes);

impl ReadObject for Object {
    fn size_bytes(&mut self) -> Result<u64> {
        Ok(self.0.len() as u64)
    }

    fn read(&mut self, range: Range<u64>) -> Result<Bytes> {
        Ok(self.0.slice(range.start as usize..range.end as usize))
    }

    fn reserve(&mut self, _: u64) -> Result<()> {
        Ok(())
    }

    fn before_decoding(&mut self, _: u64) -> Result<()> {
        Ok(())
    }

    fn check_deadline(&mut self) -> Result<()> {
        Ok(())
    }
}
