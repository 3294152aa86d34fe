//! Objects that would take much memory to decode.

use super::{Plan, aggregate, op, partial, project, scan_of};
use arrow::array::{
    ArrayRef, DictionaryArray, FixedSizeBinaryArray, Int32Array, ListArray, RecordBatch, StringArray,
    new_null_array,
};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field, Int32Type, Schema};
use benthic_fragment::fragment::Status;
use datafusion_common::ScalarValue;
use datafusion_expr::Operator;
use datafusion_functions::string::upper;
use datafusion_functions::unicode::character_length;
use datafusion_functions_aggregate::approx_distinct::approx_distinct_udaf;
use datafusion_functions_aggregate::approx_median::approx_median_udaf;
use datafusion_functions_aggregate::min_max::max_udaf;
use datafusion_functions_nested::length::array_length_udf;
use datafusion_physical_expr::ScalarFunctionExpr;
use datafusion_physical_expr::expressions::{CastExpr, IsNotNullExpr, col, lit};
use datafusion_physical_plan::aggregates::{AggregateExec, AggregateMode, PhysicalGroupBy};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding};
use parquet::file::properties::{WriterProperties, WriterPropertiesBuilder, WriterVersion};
use std::sync::Arc;

pub fn properties() -> WriterPropertiesBuilder {
    WriterProperties::builder().set_compression(Compression::SNAPPY)
}

pub fn file(column: ArrayRef, properties: WriterPropertiesBuilder) -> Vec<u8> {
    let batch = RecordBatch::try_from_iter([("s", column)]).unwrap();
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties.build())).unwrap();
    writer.write(&batch).unwrap();
    writer.into_inner().unwrap()
}

pub fn strings(rows: usize, len: usize) -> ArrayRef {
    let values = (0..rows).map(|row| format!("{row:08}").repeat(len.div_ceil(8)));
    Arc::new(StringArray::from_iter_values(values))
}

pub type Bomb = (&'static str, Vec<u8>, Status, &'static str);

/// `SELECT max(upper(s))` over a scan whose predicate matches some row groups only in part.
pub fn plan() -> Plan {
    let schema = Arc::new(Schema::new(vec![Field::new("s", DataType::Utf8View, true)]));
    let differs = op(col("s", &schema).unwrap(), Operator::NotEq, lit("00000500".repeat(13)));
    max_upper(scan_of(schema, &["s"], Some(differs)))
}

/// `SELECT max(upper(s)) WHERE s IS NOT NULL`, with a filter node between scan and aggregate.
pub fn filtered() -> Plan {
    let schema = Arc::new(Schema::new(vec![Field::new("s", DataType::Utf8View, true)]));
    let scan = scan_of(Arc::clone(&schema), &["s"], None);
    let there = Arc::new(IsNotNullExpr::new(col("s", &schema).unwrap()));
    max_upper(super::filter(scan, there))
}

/// Sixteen quantiles, and a number of different values, of each `s`.
pub fn quantiles_of_groups() -> Plan {
    let schema = Arc::new(Schema::new(vec![Field::new("s", DataType::Utf8View, true)]));
    let scan = scan_of(Arc::clone(&schema), &["s"], None);
    let length = super::events::call(character_length(), vec![col("s", &schema).unwrap()], &schema);
    let length = Arc::new(CastExpr::new(length, DataType::Float64, None));
    let plan = project(scan, vec![(col("s", &schema).unwrap(), "s"), (length, "length")]);
    let of = |name: &str| col(name, &plan.schema()).unwrap();
    let mut aggregates = vec![aggregate(&plan, approx_median_udaf(), of("length"), "q"); 16];
    aggregates.push(aggregate(&plan, approx_distinct_udaf(), of("s"), "d"));
    partial(plan, &["s"], aggregates)
}

/// Numbers of different 16-bit integers of each `s`: a bitmap of 8 KiB for each group and
/// aggregate.
pub fn bitmaps_of_groups() -> Plan {
    let schema = Arc::new(Schema::new(vec![Field::new("s", DataType::Utf8View, true)]));
    let scan = scan_of(Arc::clone(&schema), &["s"], None);
    let length = super::events::call(character_length(), vec![col("s", &schema).unwrap()], &schema);
    let length = Arc::new(CastExpr::new(length, DataType::Int16, None));
    let plan = project(scan, vec![(col("s", &schema).unwrap(), "s"), (length, "length")]);
    let length = || col("length", &plan.schema()).unwrap();
    let aggregates = (0..64).map(|n| aggregate(&plan, approx_distinct_udaf(), length(), &format!("d{n}")));
    let aggregates = aggregates.collect();
    partial(plan, &["s"], aggregates)
}

/// `SELECT max(s), … GROUP BY s, s, …`, with each grouping set this often.
pub fn texts_of_groups(sets: usize, keys: usize, maxima: usize) -> Plan {
    let schema = Arc::new(Schema::new(vec![Field::new("s", DataType::Utf8View, true)]));
    let scan = scan_of(Arc::clone(&schema), &["s"], None);
    let s = || col("s", &schema).unwrap();
    let keys: Vec<_> = (0..keys).map(|n| (s(), format!("k{n}"))).collect();
    let by = match sets {
        0 => PhysicalGroupBy::new_single(keys),
        _ => {
            let nulls = keys.iter().map(|(_, name)| (lit(ScalarValue::Utf8View(None)), name.clone()));
            let groups = vec![vec![false; keys.len()]; sets];
            PhysicalGroupBy::new(keys.clone(), nulls.collect(), groups, true)
        }
    };
    let maxima: Vec<_> = (0..maxima).map(|n| aggregate(&scan, max_udaf(), s(), &format!("m{n}"))).collect();
    let filters = vec![None; maxima.len()];
    let mode = AggregateMode::Partial;
    Arc::new(AggregateExec::try_new(mode, by, maxima, filters, scan, schema).unwrap())
}

/// `SELECT upper(s) AS u ORDER BY u LIMIT 8192`.
pub fn first_upper() -> Plan {
    let schema = Arc::new(Schema::new(vec![Field::new("s", DataType::Utf8View, true)]));
    let projected = upper_of(scan_of(schema, &["s"], None));
    let key = col("u", &projected.schema()).unwrap();
    super::first(projected, vec![key], true, 8_192)
}

/// `SELECT s ORDER BY character_length(s) LIMIT 8192`: the sort keeps strings that it does not
/// compare.
pub fn first_by_length() -> Plan {
    let schema = Arc::new(Schema::new(vec![Field::new("s", DataType::Utf8View, true)]));
    let scan = scan_of(Arc::clone(&schema), &["s"], None);
    let length = super::events::call(character_length(), vec![col("s", &schema).unwrap()], &schema);
    super::first(scan, vec![length], true, 8_192)
}

/// `SELECT max(s || s)`, doubled ten times.
pub fn doubled() -> Plan {
    let schema = Arc::new(Schema::new(vec![Field::new("s", DataType::Utf8View, true)]));
    let mut plan = scan_of(Arc::clone(&schema), &["s"], None);
    for _ in 0..10 {
        let s = || col("s", &plan.schema()).unwrap();
        let twice = op(s(), Operator::StringConcat, s());
        plan = project(plan, vec![(twice, "s")]);
    }
    let s = col("s", &plan.schema()).unwrap();
    let max = aggregate(&plan, max_udaf(), s, "m");
    partial(plan, &[], vec![max])
}

/// `SELECT array_length(s)` of a column of lists.
pub fn lengths() -> Plan {
    let element = Field::new("element", DataType::Int64, true);
    let schema = Arc::new(Schema::new(vec![Field::new_list("s", element, false)]));
    let length = super::events::call(array_length_udf(), vec![col("s", &schema).unwrap()], &schema);
    project(scan_of(schema, &["s"], None), vec![(length, "length")])
}

/// Lists of nulls, which take no bytes in the file.
pub fn nulls(lengths: &[usize]) -> Vec<u8> {
    let item = Arc::new(Field::new("element", DataType::Int64, true));
    let values = new_null_array(&DataType::Int64, lengths.iter().sum());
    let list = ListArray::new(item, OffsetBuffer::from_lengths(lengths.iter().copied()), values, None);
    file(Arc::new(list), properties())
}

fn upper_of(input: Plan) -> Plan {
    let schema = input.schema();
    let args = vec![col("s", &schema).unwrap()];
    let upper = ScalarFunctionExpr::try_new(upper(), args, &schema, Arc::default()).unwrap();
    project(input, vec![(Arc::new(upper), "u")])
}

fn max_upper(input: Plan) -> Plan {
    let projected = upper_of(input);
    let max = aggregate(&projected, max_udaf(), col("u", &projected.schema()).unwrap(), "m");
    partial(projected, &[], vec![max])
}

/// A file that consists of this footer only.
fn with_footer(footer: &[u8]) -> Vec<u8> {
    [b"PAR1", footer, &(footer.len() as u32).to_le_bytes(), b"PAR1"].concat()
}

/// A hand-written file with string columns `s`, `s1`, …, which all have these pages as data.
pub fn handmade(pages: &[u8], columns: usize, rows: i64) -> Vec<u8> {
    handmade_with(pages, columns, rows, 0)
}

/// Such a file whose pages are compressed with this codec.
fn handmade_with(pages: &[u8], columns: usize, rows: i64, codec: i64) -> Vec<u8> {
    let leaf = |name: &str| Thrift::default().int(1, 6).int(3, 0).bytes(4, name.as_bytes()).int(6, 0).end();
    let names: Vec<String> =
        (0..columns).map(|n| if n == 0 { "s".to_owned() } else { format!("s{n}") }).collect();
    let root = Thrift::default().bytes(4, b"r").int(5, columns as i64).end();
    let schema = std::iter::once(root).chain(names.iter().map(|name| leaf(name))).collect();
    let chunk = |name: &String| {
        let path = vec![Thrift::string(name.as_bytes())];
        let metadata = Thrift::default().int(1, 6).list(2, 5, vec![vec![0]]).list(3, 8, path).int(4, codec);
        let metadata = metadata.long(5, rows).long(6, 1).long(7, pages.len() as i64).long(9, 4).end();
        Thrift::default().long(2, 4).structure(3, metadata).end()
    };
    let group =
        Thrift::default().list(1, 12, names.iter().map(chunk).collect()).long(2, 1).long(3, rows).end();
    let footer = Thrift::default().int(1, 1).list(2, 12, schema).long(3, rows).list(4, 12, vec![group]).end();
    [b"PAR1", pages, &footer, &(footer.len() as u32).to_le_bytes(), b"PAR1"].concat()
}

/// A plain-encoded page of one short string, with its true length. The header claims `rows` values.
pub fn page(rows: i64) -> Vec<u8> {
    let body = [1, 0, 0, 0, b'x'];
    let data = Thrift::default().int(1, rows).int(2, 0).int(3, 3).int(4, 3).end();
    let header = Thrift::default().int(1, 0).int(2, 5).int(3, 5).structure(5, data).end();
    [&header[..], &body].concat()
}

/// A file whose page has a gigabyte, compressed with Zstandard. Its header claims five bytes.
fn zstd_bomb() -> Vec<u8> {
    // A frame with a window of 128 KiB, and blocks that repeat a byte as often.
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0, 7 << 3];
    for block in 0..8_192_u32 {
        let is_last = u32::from(block == 8_191);
        let head = (128 * 1024) << 3 | 1 << 1 | is_last;
        frame.extend([&head.to_le_bytes()[..3], b"x"].concat());
    }
    let data = Thrift::default().int(1, 1).int(2, 0).int(3, 3).int(4, 3).end();
    let header = Thrift::default().int(1, 0).int(2, 5).int(3, frame.len() as i64).structure(5, data).end();
    handmade_with(&[header, frame].concat(), 1, 1, 6)
}

/// A file whose page has a quarter of a gigabyte, compressed with gzip. Its header claims this many
/// bytes.
fn gzip_bomb(claimed_bytes: i64) -> Vec<u8> {
    // A block with fixed codes: an x, and a million times the 258 bytes that follow when it is
    // repeated.
    let codes = [(0b011_u64, 3), (0x15, 8)].into_iter().chain(std::iter::repeat_n((0xa3, 13), 1 << 20));
    let mut body = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];
    let (mut bits, mut count) = (0, 0);
    for (code, code_bits) in codes {
        bits |= code << count;
        count += code_bits;
        while count >= 8 {
            body.push(bits as u8);
            (bits, count) = (bits >> 8, count - 8);
        }
    }
    let data = Thrift::default().int(1, 1).int(2, 0).int(3, 3).int(4, 3).end();
    let header = Thrift::default().int(1, 0).int(2, claimed_bytes).int(3, body.len() as i64);
    handmade_with(&[header.structure(5, data).end(), body].concat(), 1, 1, 2)
}

/// A writer for Thrift's compact protocol.
#[derive(Default)]
struct Thrift {
    bytes: Vec<u8>,
    last: u8,
}

impl Thrift {
    fn head(mut self, id: u8, kind: u8) -> Thrift {
        self.bytes.push((id - self.last) << 4 | kind);
        self.last = id;
        self
    }

    fn varint(mut self, value: u64) -> Thrift {
        prost::encoding::encode_varint(value, &mut self.bytes);
        self
    }

    fn int(self, id: u8, value: i64) -> Thrift {
        self.head(id, 5).varint((value << 1) as u64)
    }

    fn long(self, id: u8, value: i64) -> Thrift {
        self.head(id, 6).varint((value << 1) as u64)
    }

    fn string(bytes: &[u8]) -> Vec<u8> {
        let mut string = Thrift::default().varint(bytes.len() as u64).bytes;
        string.extend_from_slice(bytes);
        string
    }

    fn bytes(self, id: u8, bytes: &[u8]) -> Thrift {
        let mut this = self.head(id, 8);
        this.bytes.extend(Thrift::string(bytes));
        this
    }

    fn structure(self, id: u8, structure: Vec<u8>) -> Thrift {
        let mut this = self.head(id, 12);
        this.bytes.extend(structure);
        this
    }

    fn announced(self, id: u8, kind: u8, count: u64) -> Thrift {
        let mut this = self.head(id, 9);
        this.bytes.push(0xf0 | kind);
        this.varint(count)
    }

    fn list(self, id: u8, kind: u8, items: Vec<Vec<u8>>) -> Thrift {
        let mut this = self.announced(id, kind, items.len() as u64);
        this.bytes.extend(items.concat());
        this
    }

    fn end(mut self) -> Vec<u8> {
        self.bytes.push(0);
        self.bytes
    }
}

const TWO_BILLION: u64 = i32::MAX as u64;

fn root() -> Vec<u8> {
    Thrift::default().bytes(4, b"r").int(5, 0).end()
}

/// A footer whose list of row groups announces two billion elements but has none.
fn row_groups() -> Vec<u8> {
    let footer = Thrift::default().int(1, 1).list(2, 12, vec![root()]).long(3, 0);
    with_footer(&footer.announced(4, 12, TWO_BILLION).end())
}

/// The same list, with the field type of a number: the decoder checks only the field number.
fn row_groups_as_a_number() -> Vec<u8> {
    let footer = Thrift::default().int(1, 1).list(2, 12, vec![root()]).long(3, 0).head(4, 6);
    let mut footer = footer.end();
    footer.pop();
    footer.extend([0xfc, 0xff, 0xff, 0xff, 0xff, 0x07, 0]);
    with_footer(&footer)
}

/// The same list, inside an unknown field that the decoder skips: skipping a list of booleans
/// consumes no bytes for its elements.
fn row_groups_behind_flags() -> Vec<u8> {
    let hidden = Thrift { bytes: Vec::new(), last: 3 }.announced(4, 12, TWO_BILLION).bytes;
    let mut footer = Thrift::default().int(1, 1).list(2, 12, vec![root()]).long(3, 0);
    // Repeats field 3, so that the hidden field number follows it.
    footer.bytes.extend([0x09, 0x06, (hidden.len() as u8) << 4 | 1]);
    footer.bytes.extend(hidden);
    with_footer(&footer.end())
}

fn children() -> Vec<u8> {
    let root = Thrift::default().bytes(4, b"r").int(5, TWO_BILLION as i64).end();
    with_footer(&Thrift::default().int(1, 1).list(2, 12, vec![root]).long(3, 0).end())
}

/// A schema of nested groups with one child each.
fn deep_schema() -> Vec<u8> {
    let group = Thrift::default().int(3, 0).bytes(4, b"g").int(5, 1).end();
    let schema = std::iter::repeat_n(group, 9_000).chain([root()]).collect();
    with_footer(&Thrift::default().int(1, 1).list(2, 12, schema).long(3, 0).end())
}

/// A page header with two sizes. The second, which takes effect, has a different type.
fn page_of_two_sizes() -> Vec<u8> {
    let data = Thrift::default().int(1, 1).int(2, 0).int(3, 3).int(4, 3).end();
    let mut header = Thrift::default().int(1, 0).int(2, 5);
    header.bytes.extend([0x07, 0x04, 0xfe, 0xff, 0xff, 0xff, 0x0f, 0, 0, 0]);
    let header = header.int(3, 5).structure(5, data).end();
    handmade(&[&header[..], &[1, 0, 0, 0, b'x']].concat(), 1, 1)
}

/// A file with one page, whose header claims 128 MB.
fn huge_page() -> Vec<u8> {
    let properties = properties().set_dictionary_enabled(false).set_data_page_size_limit(4 * 1024 * 1024);
    let mut file = file(strings(20_000, 100), properties.set_write_batch_size(20_000));
    // After the magic bytes: the page type, then its size in four bytes, in the compact protocol.
    assert_eq!((file[4], file[6]), (0x15, 0x15));
    assert!(file[7..10].iter().all(|byte| byte & 0x80 != 0) && file[10] & 0x80 == 0);
    file[7..11].copy_from_slice(&[0xfe, 0xff, 0xff, 0x7f]);
    file
}

/// 1,000 rows of the same 256 KiB string: eight times the memory that a fragment may use.
pub fn one_long_string() -> Vec<u8> {
    let same: DictionaryArray<Int32Type> = DictionaryArray::new(
        Int32Array::from_iter_values((0..1_000).map(|_| 0)),
        Arc::new(StringArray::from(vec!["x".repeat(256 * 1024)])),
    );
    file(Arc::new(same), properties().set_dictionary_page_size_limit(4 * 1024 * 1024))
}

/// For each object: a name for the log, the object, the expected result of [`plan`] over it, and
/// part of the message.
pub fn bombs() -> Vec<Bomb> {
    let wide = FixedSizeBinaryArray::try_from_iter((0..100).map(|_| [7_u8; 4_096])).unwrap();
    let delta = properties().set_dictionary_enabled(false).set_encoding(Encoding::DELTA_BYTE_ARRAY);
    let gzip = properties().set_compression(Compression::GZIP(Default::default()));
    let brotli = properties().set_compression(Compression::BROTLI(Default::default()));
    let zstd = properties().set_compression(Compression::ZSTD(Default::default()));
    let long = properties().set_dictionary_enabled(false);
    let binary = arrow::array::BinaryArray::from_iter_values((0..100).map(|_| [b'x', 0xf0]));
    vec![
        ("a page by hand", handmade(&page(1), 1, 1), Status::Ok, ""),
        ("a long string in every row", one_long_string(), Status::Ok, ""),
        ("two billion row groups", row_groups(), Status::Failed, "longer than its data"),
        ("two billion row groups as a number", row_groups_as_a_number(), Status::Failed, "another type"),
        ("two billion row groups behind flags", row_groups_behind_flags(), Status::Failed, "in order"),
        ("two billion children", children(), Status::Failed, "the schema"),
        ("a deep schema", deep_schema(), Status::Failed, "the schema"),
        ("a page of two sizes", page_of_two_sizes(), Status::Failed, "in order"),
        ("a huge page", huge_page(), Status::Unsupported, "too large"),
        ("a row group too large", file(strings(10, 9_000_000), long), Status::Unsupported, "too large"),
        ("more rows than values", handmade(&page(1), 1, 1 << 40), Status::Failed, "too many rows"),
        ("bytes that are no text", file(Arc::new(binary), properties()), Status::Unsupported, "another type"),
        ("a wide column", file(Arc::new(wide), properties()), Status::Unsupported, "another type"),
        ("strings as differences", file(strings(1_000, 100), delta), Status::Unsupported, "an encoding"),
        ("brotli", file(strings(1_000, 100), brotli), Status::Unsupported, "a compression"),
        ("gzip", file(strings(1_000, 100), gzip.clone()), Status::Ok, ""),
        (
            "gzip in pages of version 2",
            file(strings(1_000, 100), gzip.set_writer_version(WriterVersion::PARQUET_2_0)),
            Status::Ok,
            "",
        ),
        ("much gzip in a page", gzip_bomb(5), Status::Failed, "longer than its header"),
        // Nothing is decompressed to check this size.
        ("much gzip of a page too large", gzip_bomb(100 << 20), Status::Unsupported, "too large"),
        ("zstd", file(strings(1_000, 100), zstd), Status::Ok, ""),
        ("a gigabyte in a page", zstd_bomb(), Status::Failed, ""),
    ]
}
