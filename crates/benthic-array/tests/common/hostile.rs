//! Inputs and objects that would abort the process that runs the class, fill its memory, or run for
//! hours.

use super::{Expected, Numbers, Stored, object, place};
use benthic_array::class::{Input, Reply, Task};
use benthic_array::decoders::{ByteRange, BytesCodec, Encoding, ObjectFormat, Pipeline, ShardIndexFormat};
use benthic_array::{
    AxisRole, Bounded, Decoding, Dtype, Groups, Mask, Missing, Reduction, ReductionKind, Regrid, Slice,
    Tally, TallyKind, Weight, WeightParts, Weights,
};
use benthic_core::codec::Wire;
use benthic_core::{ClassCall, ErrorKind, Pool};
use bytes::Bytes;
use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};
use std::io::Write;
use std::sync::Arc;

fn format(shape: &[u64], codecs: Vec<BytesCodec>) -> ObjectFormat {
    let pipeline = Pipeline { bytes: Bounded(codecs), ..Pipeline::default() };
    ObjectFormat {
        dtype: Dtype::Float32,
        shape: Bounded(shape.to_vec()),
        fill: Bytes::from_static(&[0; 4]),
        encoding: Encoding::Chunk { pipeline },
    }
}

fn whole(format: ObjectFormat, task: Task) -> Input {
    let slices = format.shape.0.iter().map(|len| Slice::all(*len)).collect();
    Input { format, range: None, slices: Bounded(slices), task, may_pack: false }
}

fn reduction(kind: ReductionKind, axes: usize) -> Reduction {
    Reduction { kind, axes: Bounded(vec![AxisRole::Reduce {}; axes]), skip_nan: true, decoding: None }
}

fn sum(format: ObjectFormat) -> Input {
    let reduction = reduction(ReductionKind::Sum {}, format.shape.0.len());
    whole(format, Task::Reduce { reduction })
}

/// A minimum of two axes with a missing value.
fn tally() -> Tally {
    let missing = Missing { values: Bounded(vec![Bytes::from_static(&[0; 4])]), ..Missing::default() };
    Tally { kind: TallyKind::Min {}, reduced: Bounded(vec![true, false]), missing }
}

/// The encoding of shards with inner chunks of this shape.
fn shard(inner_shape: &[u64]) -> Encoding {
    let index = ShardIndexFormat { is_at_start: false, is_big_endian: false, has_checksum: true };
    Encoding::Shard { inner_shape: Bounded(inner_shape.to_vec()), pipeline: Pipeline::default(), index }
}

/// Inputs that the class must refuse, whether it selects or reduces.
fn inputs() -> Vec<(&'static str, Bytes)> {
    let mut inputs = vec![("nothing", Bytes::new()), ("noise", Bytes::from(vec![0xA5; 900]))];
    let mut add = |name, change: &dyn Fn(&mut Input)| {
        for mut input in [
            sum(format(&[4, 4], Vec::new())),
            whole(format(&[4, 4], Vec::new()), Task::Select {}),
            whole(format(&[4, 4], Vec::new()), Task::Tally { tally: tally() }),
        ] {
            change(&mut input);
            inputs.push((name, input.encode()));
        }
    };
    add("an empty axis", &|input| input.format.shape.0[0] = 0);
    add("an endless axis", &|input| input.format.shape.0[0] = u64::MAX);
    add("a shape that overflows", &|input| input.format.shape = Bounded(vec![1 << 40; 30]));
    add("a range that overflows", &|input| {
        input.range = Some(ByteRange { offset_bytes: 1 << 63, len_bytes: 1 << 63 });
    });
    add("a hundred axes", &|input| input.format.shape = Bounded(vec![1; 100]));
    add("a hundred codecs", &|input| {
        let pipeline = Pipeline { bytes: Bounded(vec![BytesCodec::Gzip {}; 100]), ..Pipeline::default() };
        input.format.encoding = Encoding::Chunk { pipeline };
    });
    add("no slices", &|input| input.slices.0.clear());
    add("a slice out of range", &|input| input.slices.0[0].start = 4);
    add("a slice that overflows", &|input| {
        input.slices.0[0] = Slice { start: u64::MAX, step: u64::MAX, count: u64::MAX };
    });
    add("a step of zero", &|input| input.slices.0[0].step = 0);
    add("a fill value of another type", &|input| input.format.fill = Bytes::new());
    add("an impossible order", &|input| {
        let pipeline = Pipeline { order: Bounded(vec![0, 0]), ..Pipeline::default() };
        input.format.encoding = Encoding::Chunk { pipeline };
    });
    add("uneven inner chunks", &|input| input.format.encoding = shard(&[3, 4]));
    add("a shard of 2⁶⁰ chunks", &|input| {
        input.format.shape = Bounded(vec![1 << 30, 1 << 30]);
        input.format.encoding = shard(&[1, 1]);
    });
    let mut add_reduction = |name, change: &dyn Fn(&mut Reduction)| {
        let mut reduction = reduction(ReductionKind::Sum {}, 2);
        change(&mut reduction);
        inputs.push((name, whole(format(&[4, 4], Vec::new()), Task::Reduce { reduction }).encode()));
    };
    add_reduction("an axis too few to reduce", &|reduction| reduction.axes.0.truncate(1));
    for (name, count, of) in [
        ("a group too few", 2, vec![0, 1, 1]),
        ("a group that does not exist", 2, vec![0, 1, 2, 0]),
        ("four billion groups", u32::MAX, vec![0; 4]),
    ] {
        add_reduction(name, &|reduction| {
            let groups = Groups { count, of: Bounded(of.clone()) };
            reduction.axes.0[0] = AxisRole::Group { groups };
        });
    }
    add_reduction("sixteen million positions", &|reduction| {
        let groups = Groups { count: 1, of: Bounded(vec![0; 1 << 24]) };
        reduction.axes.0[0] = AxisRole::Group { groups };
    });
    add_reduction("positions in groups", &|reduction| {
        reduction.kind = ReductionKind::Argmin {};
        reduction.axes.0[0] = AxisRole::Group { groups: Groups::of_neighbours(4, 2).unwrap() };
    });
    for (name, edges) in [
        ("edges out of order", vec![1.0, 0.0]),
        ("edges that are no numbers", vec![f64::NAN, f64::NAN]),
        ("a million edges", (0..1_000_000).map(f64::from).collect()),
    ] {
        add_reduction(name, &|reduction| {
            reduction.kind = ReductionKind::Histogram { edges: Bounded(edges.clone()) };
        });
    }
    for (name, q) in [
        ("no quantiles", Vec::new()),
        ("a quantile that is no number", vec![f64::NAN]),
        ("a quantile out of range", vec![0.5, -0.1]),
        ("a million quantiles", vec![0.5; 1_000_000]),
    ] {
        add_reduction(name, &|reduction| {
            reduction.kind = ReductionKind::Quantile { q: Bounded(q.clone()) };
        });
    }
    add_reduction("a million missing values", &|reduction| {
        let missing = Bounded(vec![Bytes::new(); 1_000_000]);
        reduction.decoding = Some(Decoding { missing, ..Decoding::default() });
    });
    for (name, shape, bits) in [
        ("a mask with an axis too few", vec![4], vec![0xFF]),
        ("a mask of other positions", vec![4, 3], vec![0xFF; 2]),
        ("a mask without bits", vec![4, 4], Vec::new()),
        ("a mask with more bits", vec![4, 4], vec![0xFF; 1 << 20]),
        ("a mask of 2⁸⁰ positions", vec![1 << 40, 1 << 40], vec![0xFF; 2]),
    ] {
        let reduction = reduction(ReductionKind::Sum {}, 2);
        let task = Task::ReduceMasked { reduction, mask: Mask { shape: Bounded(shape), bits: bits.into() } };
        inputs.push((name, whole(format(&[4, 4], Vec::new()), task).encode()));
    }
    let integers = ObjectFormat { dtype: Dtype::Int32, ..format(&[4, 4], Vec::new()) };
    let mask = Mask::new(vec![4, 4], [true; 16]).unwrap();
    let task = Task::ReduceMasked { reduction: reduction(ReductionKind::Sum {}, 2), mask };
    inputs.push(("a mask of integers", whole(integers, task).encode()));
    let weight = |source, cell, weight| Weight { source, cell, weight };
    let mut add_regrid = |name, source_shape: &[u64], cells, list: Vec<Weight>, missing_max| {
        let weights = Weights {
            source_shape: Bounded(source_shape.to_vec()),
            cells,
            list: Arc::new(list),
            parts: WeightParts::default(),
        };
        let regrid = Regrid { weights, missing_max, decoding: None };
        inputs.push((name, whole(format(&[4, 4], Vec::new()), Task::Regrid { regrid }).encode()));
    };
    for (name, wrong) in [
        ("a source out of range", weight(16, 0, 1.0)),
        ("the last source", weight(u32::MAX, 0, 1.0)),
        ("a cell out of range", weight(3, 2, 1.0)),
        ("the last cell", weight(3, u32::MAX, 1.0)),
        ("a weight that is no number", weight(3, 1, f64::NAN)),
        ("an infinite weight", weight(3, 1, f64::NEG_INFINITY)),
    ] {
        add_regrid(name, &[4, 4], 2, vec![weight(2, 1, 1.0), wrong], None);
    }
    add_regrid("weights in another order", &[4, 4], 2, vec![weight(2, 1, 1.0), weight(1, 1, 1.0)], None);
    add_regrid("weights of no axes", &[], 2, Vec::new(), None);
    add_regrid("weights of other axes", &[4, 3], 2, Vec::new(), None);
    add_regrid("weights of an axis too many", &[4, 4, 4], 2, Vec::new(), None);
    add_regrid("weights of 2⁸⁰ elements", &[1 << 40, 1 << 40], 2, Vec::new(), None);
    add_regrid("a missing part of 2", &[4, 4], 2, vec![weight(2, 1, 1.0)], Some(2.0));
    add_regrid("a missing part that is no number", &[4, 4], 2, vec![weight(2, 1, 1.0)], Some(f64::NAN));
    add_regrid("two million weights", &[4, 4], 2, vec![weight(2, 1, 1.0); 2 << 20], None);
    let mut add_tally = |name, change: &dyn Fn(&mut Tally)| {
        let mut tally = tally();
        change(&mut tally);
        inputs.push((name, whole(format(&[4, 4], Vec::new()), Task::Tally { tally }).encode()));
    };
    add_tally("an axis too few to count", &|tally| tally.reduced.0.truncate(1));
    add_tally("a minimum of another type", &|tally| tally.missing.min = Some(Bytes::new()));
    add_tally("a million values to skip", &|tally| {
        tally.missing.values = Bounded(vec![Bytes::from_static(&[0; 4]); 1_000_000]);
    });
    inputs
}

/// Chunks that claim to be small and decode to a quarter of a gigabyte or claim to.
fn bombs() -> Vec<(&'static str, BytesCodec, Vec<u8>)> {
    let zeros = vec![0; 1 << 20];
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    let mut zlib = ZlibEncoder::new(Vec::new(), Compression::best());
    let mut zstd = zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
    for _ in 0..256 {
        gzip.write_all(&zeros).unwrap();
        zlib.write_all(&zeros).unwrap();
        zstd.write_all(&zeros).unwrap();
    }
    let mut blosc = vec![2, 1, 0x21, 4];
    blosc.extend((1u32 << 30).to_le_bytes());
    blosc.extend((1u32 << 30).to_le_bytes());
    blosc.extend(64u32.to_le_bytes());
    blosc.resize(64, 0);
    // A field of 2³⁰ values without bits: sections 5 and 7.
    let mut grib = vec![0, 0, 0, 21, 5, 64];
    grib.resize(21, 0);
    grib.extend([0, 0, 0, 5, 7]);
    let lz4 = (1u32 << 30).to_le_bytes().into_iter().chain([0; 60]).collect();
    vec![
        ("gzip", BytesCodec::Gzip {}, gzip.finish().unwrap()),
        ("zlib", BytesCodec::Zlib {}, zlib.finish().unwrap()),
        ("zstd", BytesCodec::Zstd {}, zstd.finish().unwrap()),
        ("lz4", BytesCodec::Lz4 {}, lz4),
        ("blosc", BytesCodec::Blosc {}, blosc),
        ("grib", BytesCodec::Grib { element_bytes: 4, row_elements: 0 }, grib),
    ]
}

async fn exec(pool: &Arc<dyn Pool>, name: &str, input: Bytes) -> Result<Reply, ErrorKind> {
    loop {
        let call = ClassCall::new("array", "compute", input.clone());
        let output = pool.exec(&object(name), call).await.map_err(|error| error.kind())?;
        match Reply::decode(&output).unwrap() {
            // Other tests use the class, too.
            Reply::Busy {} => {}
            reply => return Ok(reply),
        }
    }
}

/// Calls the class with all of them. Every call must fail in an orderly way.
pub async fn run(pool: &Arc<dyn Pool>) {
    pool.write_full(&object("hostile"), vec![0; 64]).await.unwrap();
    for (name, input) in inputs() {
        let refused = exec(pool, "hostile", input).await.unwrap_err();
        assert!(
            matches!(refused, ErrorKind::InvalidArgument | ErrorKind::LimitExceeded),
            "{name}: {refused:?}"
        );
    }
    for (name, codec, bomb) in bombs() {
        pool.write_full(&object("bomb"), bomb).await.unwrap();
        let codecs = [vec![codec.clone()], vec![codec, BytesCodec::Crc32c {}]];
        for codecs in codecs {
            let input = sum(format(&[4, 4], codecs)).encode();
            assert_eq!(exec(pool, "bomb", input).await, Err(ErrorKind::Corrupt), "{name}");
        }
    }
    nested_bombs(pool).await;
    regridding(pool).await;
    ranges(pool).await;
    large_steps(pool).await;
    large_chunks(pool).await;
    damaged_chunks(pool).await;
}

/// A bomb in as many codecs as a chunk may have. None of them may produce more than the next one
/// can have written.
async fn nested_bombs(pool: &Arc<dyn Pool>) {
    let gzip = |data: Vec<u8>| {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(&data).unwrap();
        encoder.finish().unwrap()
    };
    for layers in [2, 16] {
        let bomb = (0..layers).fold(vec![0; 1 << 24], |data, _| gzip(data));
        pool.write_full(&object("nested"), bomb).await.unwrap();
        let input = sum(format(&[4, 4], vec![BytesCodec::Gzip {}; layers]));
        assert_eq!(exec(pool, "nested", input.encode()).await, Err(ErrorKind::Corrupt), "{layers}");
    }
}

/// Valid weights may be repeated, be none, or have far more cells than weights.
async fn regridding(pool: &Arc<dyn Pool>) {
    let input = |cells, list| {
        let weights = Weights {
            source_shape: Bounded(vec![4, 4]),
            cells,
            list: Arc::new(list),
            parts: WeightParts::default(),
        };
        let regrid = Regrid { weights, missing_max: Some(1.0), decoding: None };
        whole(format(&[4, 4], Vec::new()), Task::Regrid { regrid }).encode()
    };
    let weight = Weight { source: 5, cell: 0, weight: 1.0 };
    for (cells, list) in [(1, vec![weight; 1000]), (3, Vec::new()), (0, Vec::new())] {
        let reply = exec(pool, "hostile", input(cells, list)).await;
        assert!(matches!(reply, Ok(Reply::Done { .. })), "{cells}: {reply:?}");
    }
    let many_cells = exec(pool, "hostile", input(u32::MAX, vec![weight])).await;
    assert_eq!(many_cells, Ok(Reply::TooLarge {}));
}

/// A chunk may be a range of its object, which must have all of it.
async fn ranges(pool: &Arc<dyn Pool>) {
    let data: Vec<u8> = (0..20_u8).flat_map(|number| f32::from(number).to_le_bytes()).collect();
    pool.write_full(&object("file"), data).await.unwrap();
    let mut input = whole(format(&[4, 4], Vec::new()), Task::Select {});
    input.range = Some(ByteRange { offset_bytes: 12, len_bytes: 64 });
    let expected: Vec<u8> = (3..19_u8).flat_map(|number| f32::from(number).to_le_bytes()).collect();
    assert_eq!(exec(pool, "file", input.encode()).await, Ok(Reply::Done { data: expected.into() }));
    for range in [ByteRange { offset_bytes: 20, len_bytes: 64 }, ByteRange { offset_bytes: 0, len_bytes: 60 }]
    {
        input.range = Some(range);
        assert_eq!(exec(pool, "file", input.encode()).await, Err(ErrorKind::Corrupt));
    }
}

/// The step of a single element may be any number.
async fn large_steps(pool: &Arc<dyn Pool>) {
    for order in [Vec::new(), vec![1, 0]] {
        let pipeline = Pipeline { order: Bounded(order), ..Pipeline::default() };
        let format = ObjectFormat { encoding: Encoding::Chunk { pipeline }, ..format(&[4, 4], Vec::new()) };
        let slices = Bounded(vec![Slice { start: 1, step: u64::MAX, count: 1 }; 2]);
        for task in [Task::Select {}, Task::Reduce { reduction: reduction(ReductionKind::Argmax {}, 2) }] {
            let (format, slices) = (format.clone(), slices.clone());
            let input = Input { format, range: None, slices, task, may_pack: true };
            assert!(matches!(exec(pool, "hostile", input.encode()).await, Ok(Reply::Done { .. })));
        }
    }
}

/// Chunks whose reduction needs more memory than a method has are left to the client; others take
/// no more memory than is counted.
async fn large_chunks(pool: &Arc<dyn Pool>) {
    let large = format(&[1 << 14, 1 << 14], Vec::new());
    let select = whole(large, Task::Select {});
    assert_eq!(exec(pool, "hostile", select.encode()).await, Ok(Reply::TooLarge {}));
    // The inner chunk is not stored, so nothing is decoded, and a long row takes little memory.
    let none = [u8::MAX; 16];
    let index: Vec<u8> = none.into_iter().chain(crc32c::crc32c(&none).to_le_bytes()).collect();
    pool.write_full(&object("sparse"), index).await.unwrap();
    let format = |len: u64| ObjectFormat {
        dtype: Dtype::Uint8,
        fill: Bytes::from_static(&[1]),
        encoding: shard(&[len]),
        ..format(&[len], Vec::new())
    };
    let variance = |len| Task::Reduce { reduction: reduction(ReductionKind::Variance { ddof: len }, 1) };
    let reply = exec(pool, "sparse", whole(format(1 << 24), variance(0)).encode()).await;
    assert!(matches!(reply, Ok(Reply::Done { .. })), "{reply:?}");
}

/// Flips a bit in many bytes of stored chunks. The class must return a result or report damage, and
/// must report it if there is a checksum.
async fn damaged_chunks(pool: &Arc<dyn Pool>) {
    let mut numbers = Numbers(7);
    let array = Expected::random(&mut numbers, Dtype::Int32, &[6, 6]);
    for codec in super::CODECS {
        for inner in [None, Some(vec![3, 3])] {
            let has_checksum = matches!(codec, "crc32c" | "fletcher32");
            let index_bytes = if inner.is_some() { 4 * 16 + 4 } else { 0 };
            let stored = Stored {
                chunk: vec![6, 6],
                inner,
                codec,
                is_big_endian: false,
                is_transposed: false,
                is_index_at_start: false,
            };
            let opened = stored.store(&place(pool, "damaged"), &array, 0.0).await;
            let name = "damaged/c/0/0";
            let good = pool.read_range(&object(name), 0, 1 << 20).await.unwrap();
            let input = sum(opened.metadata().format.clone()).encode();
            for at in (0..good.len()).step_by(3) {
                let mut bad = good.to_vec();
                bad[at] ^= 1 << (at % 8);
                pool.write_full(&object(name), bad).await.unwrap();
                let outcome = exec(pool, name, input.clone()).await;
                let is_checked = has_checksum || at >= good.len() - index_bytes;
                match outcome {
                    Ok(Reply::Done { .. }) if !is_checked => {}
                    Err(ErrorKind::Corrupt) => {}
                    outcome => panic!("{codec} {at}: {outcome:?}"),
                }
            }
        }
    }
}
