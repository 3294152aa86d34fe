//! Decodes the chunks of an array in a directory, in turns with our decoder and with `zarrs`, on
//! one thread. `bench/array/measure.py` runs it.
//!
//! Only the decoding of encoded chunks in memory to elements in memory is timed: no reads, no
//! reduction. Both sides decode every chunk once per round, and must return the same bytes. `zarrs`
//! calls the C library c-blosc.

use benthic_array::Node;
use benthic_array::decoders::{Encoding, parse_v3};
use benthic_core::{Stopwatch, SystemClock};
use bytes::Bytes;
use std::borrow::Cow;
use std::env;
use std::error::Error;
use std::fs;
use std::sync::Arc;
use zarrs::array::{Array, ArrayToBytesCodecTraits, CodecOptions};
use zarrs::filesystem::FilesystemStore;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let (Some(dir), Some(rounds)) = (arguments.next(), arguments.next()) else {
        return Err("usage: bench-array ARRAY-DIR ROUNDS".into());
    };
    let Node::Array(ours) = parse_v3(&fs::read(format!("{dir}/zarr.json"))?.into())? else {
        return Err(format!("{dir} is not an array").into());
    };
    let Encoding::Chunk { pipeline } = &ours.format.encoding else {
        return Err("the array has shards".into());
    };
    let theirs = Array::open(Arc::new(FilesystemStore::new(&dir)?), "/")?;
    let chunks = encoded_chunks(&theirs)?;
    let (codecs, options) = (theirs.codecs(), CodecOptions::default().with_concurrent_target(1));
    let shape = theirs.chunk_shape(&vec![0; ours.shape.len()])?;

    let by_us =
        |chunk: &Bytes| pipeline.decode(ours.format.dtype, &ours.format.shape.0, chunk, &mut || Ok(()));
    let by_them = |chunk: &Bytes| {
        codecs
            .decode(Cow::Borrowed(chunk), &shape, theirs.data_type(), theirs.fill_value(), &options)
            .and_then(|decoded| Ok(decoded.into_fixed()?.into_owned()))
    };
    let mut decoded_bytes = 0;
    for chunk in &chunks {
        let decoded = by_us(chunk)?.data;
        if decoded != by_them(chunk)? {
            return Err("the two decoders returned different bytes".into());
        }
        decoded_bytes += decoded.len();
    }
    let (mut ours_s, mut zarrs_s) = (Vec::new(), Vec::new());
    for _ in 0..rounds.parse()? {
        let stopwatch = Stopwatch::start(&SystemClock);
        for chunk in &chunks {
            by_us(chunk)?;
        }
        ours_s.push(stopwatch.elapsed().as_secs_f64());
        let stopwatch = Stopwatch::start(&SystemClock);
        for chunk in &chunks {
            by_them(chunk)?;
        }
        zarrs_s.push(stopwatch.elapsed().as_secs_f64());
    }
    println!("{}", serde_json::json!({ "bytes": decoded_bytes, "ours_s": ours_s, "zarrs_s": zarrs_s }));
    Ok(())
}

fn encoded_chunks(array: &Array<FilesystemStore>) -> Result<Vec<Bytes>, Box<dyn Error>> {
    let grid = array.chunk_grid_shape();
    let mut chunks = Vec::new();
    for number in 0..grid.iter().product::<u64>() {
        let mut rest = number;
        let mut position: Vec<u64> = Vec::new();
        for len in grid.iter().rev() {
            position.insert(0, rest % len);
            rest /= len;
        }
        chunks.push(array.retrieve_encoded_chunk(&position)?.ok_or("a chunk is missing")?.into());
    }
    Ok(chunks)
}
