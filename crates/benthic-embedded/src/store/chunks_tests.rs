//! Tests of the places of ranges in the data file.

use super::one_run;
use crate::store::keys::{Block, CHUNK_BYTES, Chunk};
use std::collections::BTreeMap;

const WHOLE: u32 = CHUNK_BYTES as u32;

fn stream(offset_bytes: u64, len_bytes: u32) -> Chunk {
    Chunk::Stream { offset_bytes, len_bytes, crc: 0 }
}

#[test]
fn one_run_consists_of_whole_streams_without_a_gap() {
    let run = |chunks: &[(u32, Chunk)], offset_bytes, len_bytes| {
        one_run(&BTreeMap::from_iter(chunks.iter().cloned()), offset_bytes, len_bytes)
    };
    let chunk = CHUNK_BYTES;
    let object = [(2, stream(4_096, WHOLE)), (3, stream(4_096 + chunk, 100))];
    assert_eq!(run(&object, 2 * chunk, chunk + 100), Some(4_096));
    assert_eq!(run(&object, 2 * chunk, chunk + 99), None, "a part of the last");
    assert_eq!(run(&object, 2 * chunk, chunk + 101), None, "zeros behind the last");
    assert_eq!(run(&object, 2 * chunk + 1, chunk + 99), None, "a part of the first");
    assert_eq!(run(&object, chunk, 2 * chunk + 100), None, "a hole before");
    assert_eq!(run(&object[..1], 2 * chunk, chunk + 100), None, "a hole behind");
    assert_eq!(run(&[], 0, chunk), None, "nothing but a hole");
    let hole = [(0, stream(0, WHOLE)), (2, stream(chunk, WHOLE))];
    assert_eq!(run(&hole, 0, 3 * chunk), None, "a hole within");
    let apart = [(0, stream(0, WHOLE)), (1, stream(chunk + 4_096, WHOLE))];
    assert_eq!(run(&apart, 0, 2 * chunk), None, "elsewhere in the file");
    let mut blocks = Box::new([None; 16]);
    blocks[0] = Some(Block { offset_bytes: chunk, crc: 0 });
    let mixed = [(0, stream(0, WHOLE)), (1, Chunk::Blocks(blocks))];
    assert_eq!(run(&mixed, 0, 2 * chunk), None, "blocks have checksums of their own");
}
