use super::Compressor;
use crate::codec::{BytesCodec, Pipeline};
use crate::dtype::Dtype;
use crate::selection::Bounded;

/// Numbers that compress, and numbers that do not.
fn chunks() -> Vec<Vec<u8>> {
    let mut state = 7u64;
    let mut noise = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u8
    };
    let smooth = |len: u32| (0..len).flat_map(|number| (number as f32).sin().to_le_bytes()).collect();
    vec![
        smooth(1),
        smooth(3),
        smooth(100_000),
        vec![0; 1 << 20],
        (0..40).map(|_| noise()).collect(),
        (0..1 << 20).map(|_| noise()).collect(),
        (0..(1 << 18) + 8).map(|_| noise()).collect(),
    ]
}

#[test]
fn every_compressor_has_its_decoder() {
    for (compressor, codec) in [
        (Compressor::Blosc, Some(BytesCodec::Blosc {})),
        (Compressor::Zstd, Some(BytesCodec::Zstd {})),
        (Compressor::Gzip, Some(BytesCodec::Gzip {})),
        (Compressor::None, None),
    ] {
        let pipeline = Pipeline { bytes: Bounded(codec.into_iter().collect()), ..Pipeline::default() };
        for dtype in [Dtype::Uint8, Dtype::Int16, Dtype::Float32, Dtype::Float64] {
            for chunk in chunks() {
                let count = (chunk.len() / dtype.size_bytes()) as u64;
                let chunk = chunk[..count as usize * dtype.size_bytes()].to_vec();
                if chunk.is_empty() {
                    continue;
                }
                let encoded = compressor.encode(dtype, chunk.clone()).unwrap();
                // A copy in Blosc has a header of 16 bytes.
                assert!(encoded.len() <= chunk.len() + 16 + chunk.len() / 1000 + 32, "{compressor:?}");
                let decoded = pipeline.decode(dtype, &[count], &encoded.into(), &mut || Ok(())).unwrap();
                assert_eq!(decoded.data, chunk, "{compressor:?} {dtype}");
            }
        }
    }
}
