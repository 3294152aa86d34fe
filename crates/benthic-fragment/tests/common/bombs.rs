//! Objects that would take much memory.

use super::{Plan, aggregate, op, partial, project, scan_of};
use arrow::array::{ArrayRef, DictionaryArray, FixedSizeBinaryArray, Int32Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Int32Type, Schema};
use benthic_fragment::fragment::Status;
use bytes::Bytes;
use datafusion_expr::Operator;
use datafusion_functions::string::upper;
use datafusion_functions_aggregate::min_max::max_udaf;
use datafusion_physical_expr::ScalarFunctionExpr;
use datafusion_physical_expr::expressions::{col, lit};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding};
use parquet::file::properties::{WriterProperties, WriterPropertiesBuilder};
use parquet::file::reader::{FileReader, SerializedFileReader};
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

/// `SELECT max(upper(s))`, over a scan whose predicate some row groups fit only in part, so that their page index is read.
pub fn plan() -> Plan {
    let schema = Arc::new(Schema::new(vec![Field::new("s", DataType::Utf8View, true)]));
    let differs = op(col("s", &schema).unwrap(), Operator::NotEq, lit("00000500".repeat(13)));
    let scan = scan_of(Arc::clone(&schema), &["s"], Some(differs));
    let args = vec![col("s", &schema).unwrap()];
    let upper = ScalarFunctionExpr::try_new(upper(), args, &schema, Arc::default()).unwrap();
    let projected = project(scan, vec![(Arc::new(upper), "u")]);
    let max = aggregate(&projected, max_udaf(), col("u", &projected.schema()).unwrap(), "m");
    partial(projected, &[], vec![max])
}

/// A footer whose list of row groups has this many, and none.
fn row_groups(count: u32) -> Vec<u8> {
    let mut footer = vec![0x15, 0x02, 0x19, 0x1c, 0x48, 0x01, b'r', 0x15, 0x00, 0x00, 0x16, 0x00, 0x19, 0xfc];
    prost::encoding::encode_varint(u64::from(count), &mut footer);
    footer.push(0);
    [b"PAR1", &footer[..], &(footer.len() as u32).to_le_bytes(), b"PAR1"].concat()
}

/// A file whose list of a column's pages has two billion of them, and none.
fn page_locations() -> Vec<u8> {
    let mut file = file(strings(1_000, 100), properties());
    let reader = SerializedFileReader::new(Bytes::from(file.clone())).unwrap();
    let index = reader.metadata().row_group(0).column(0).offset_index_offset().unwrap() as usize;
    assert_eq!(file[index], 0x19);
    file[index + 1..index + 7].copy_from_slice(&[0xfc, 0xff, 0xff, 0xff, 0xff, 0x07]);
    file
}

/// A file with one page, which says that it is 128 MB long.
fn huge_page() -> Vec<u8> {
    let properties = properties().set_dictionary_enabled(false).set_data_page_size_limit(4 * 1024 * 1024);
    let mut file = file(strings(20_000, 100), properties.set_write_batch_size(20_000));
    // Behind the magic: the page's type, then its size in four bytes, in the compact protocol.
    assert_eq!((file[4], file[6]), (0x15, 0x15));
    assert!(file[7..10].iter().all(|byte| byte & 0x80 != 0) && file[10] & 0x80 == 0);
    file[7..11].copy_from_slice(&[0xfe, 0xff, 0xff, 0x7f]);
    file
}

/// A name for the log, the object, how [`plan`] is answered over it, and part of the message.
pub fn bombs() -> Vec<Bomb> {
    let same: DictionaryArray<Int32Type> = DictionaryArray::new(
        Int32Array::from_iter_values((0..4_000).map(|_| 0)),
        Arc::new(StringArray::from(vec!["x".repeat(256 * 1024)])),
    );
    let dictionary = properties().set_dictionary_page_size_limit(4 * 1024 * 1024);
    let wide = FixedSizeBinaryArray::try_from_iter((0..100).map(|_| [7_u8; 4_096])).unwrap();
    let delta = properties().set_dictionary_enabled(false).set_encoding(Encoding::DELTA_BYTE_ARRAY);
    let gzip = properties().set_compression(Compression::GZIP(Default::default()));
    let long = properties().set_dictionary_enabled(false);
    vec![
        ("a long string in every row", file(Arc::new(same), dictionary), Status::Ok, ""),
        ("two billion row groups", row_groups(i32::MAX as u32), Status::Failed, "promises more"),
        ("two billion pages", page_locations(), Status::Failed, "promises more"),
        ("a huge page", huge_page(), Status::Unsupported, "a page that is too large"),
        (
            "a string longer than a page",
            file(strings(1, 9_000_000), long),
            Status::Unsupported,
            "a page that is too large",
        ),
        ("a wide column", file(Arc::new(wide), properties()), Status::Unsupported, "wide values"),
        ("strings as differences", file(strings(1_000, 100), delta), Status::Unsupported, "an encoding"),
        ("gzip", file(strings(1_000, 100), gzip), Status::Unsupported, "a compression"),
    ]
}
