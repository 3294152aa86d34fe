//! TPC-H: the rows of its generator, its 22 queries, and DuckDB's answers to them (`tests/tpch`).

use crate::fixtures::{answer, append, create, pool, session};
use crate::support::rows;
use arrow::array::{Array, AsArray, RecordBatch};
use arrow::compute::{SortColumn, concat_batches, lexsort_to_indices, take_record_batch};
use arrow::csv::ReaderBuilder;
use arrow::datatypes::{DataType, Field, Schema};
use arrow::error::ArrowError;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use benthic_core::Store;
use benthic_sql::session::Settings;
use benthic_table::{Definition, Partitioning};
use std::fs;
use std::io::BufReader;
use std::path::Path;
use std::sync::Arc;
use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator, PartSuppGenerator,
    RegionGenerator, SupplierGenerator,
};
use tpchgen_arrow::{
    CustomerArrow, LineItemArrow, NationArrow, OrderArrow, PartArrow, PartSuppArrow, RegionArrow,
    SupplierArrow,
};

const POOL: &str = "tpch";
pub const QUERIES: usize = 22;
/// Tolerance between our sums of floating-point numbers and DuckDB's.
const RELATIVE_DIFFERENCE_MAX: f64 = 1e-9;

type Batches = Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>>>;

/// Generates the tables at a scale.
pub fn tables(scale: f64) -> [(&'static str, Batches); 8] {
    [
        ("customer", Box::new(CustomerArrow::new(CustomerGenerator::new(scale, 1, 1)))),
        ("lineitem", Box::new(LineItemArrow::new(LineItemGenerator::new(scale, 1, 1)))),
        ("nation", Box::new(NationArrow::new(NationGenerator::new(scale, 1, 1)))),
        ("orders", Box::new(OrderArrow::new(OrderGenerator::new(scale, 1, 1)))),
        ("part", Box::new(PartArrow::new(PartGenerator::new(scale, 1, 1)))),
        ("partsupp", Box::new(PartSuppArrow::new(PartSuppGenerator::new(scale, 1, 1)))),
        ("region", Box::new(RegionArrow::new(RegionGenerator::new(scale, 1, 1)))),
        ("supplier", Box::new(SupplierArrow::new(SupplierGenerator::new(scale, 1, 1)))),
    ]
}

/// Loads all tables into a store: lineitem sorted by its shipping date and split into objects,
/// orders in partitions.
pub async fn load(store: &Arc<dyn Store>, scale: f64) {
    let pool = pool(store, POOL).await;
    for (name, batches) in tables(scale) {
        let mut batches: Vec<RecordBatch> = batches.collect::<Result<_, _>>().unwrap();
        let mut definition = Definition::new(&batches[0].schema()).unwrap();
        definition.layout.object_bytes = 1024 * 1024;
        let id = |column: &str| definition.schema.by_name(column).unwrap().id;
        match name {
            "lineitem" => {
                definition.layout.sort = vec![id("l_shipdate")];
                batches = vec![sorted(&batches, "l_shipdate")];
            }
            "orders" => definition.partitioning = Partitioning::Hash { field: id("o_custkey"), buckets: 5 },
            _ => {}
        }
        append(&create(&pool, name, &definition).await, &batches).await;
    }
}

fn sorted(batches: &[RecordBatch], column: &str) -> RecordBatch {
    let rows = concat_batches(&batches[0].schema(), batches).unwrap();
    let values = Arc::clone(rows.column_by_name(column).unwrap());
    let order = lexsort_to_indices(&[SortColumn { values, options: None }], None).unwrap();
    take_record_batch(&rows, &order).unwrap()
}

/// Runs all queries in all these ways, and compares each answer with DuckDB's. Every query orders
/// its rows completely, so that the order is unique.
pub async fn queries_are_answered(store: &Arc<dyn Store>, scale: &str, ways: &[(&str, Settings)]) {
    let sessions: Vec<_> =
        ways.iter().map(|(way, settings)| (way, session(store, settings.clone()))).collect();
    for number in 1..=QUERIES {
        let sql = query(number);
        let expected = expected(&file(&format!("answers/{scale}/q{number:02}.csv")));
        for (way, session) in &sessions {
            let (_, rows) = answer(session, &sql).await.unwrap();
            if let Err(difference) = compare(&rows, &expected) {
                panic!("q{number:02} ({way}) at scale {scale}: {difference}");
            }
        }
    }
}

/// Returns the output of EXPLAIN ANALYZE for a query.
pub async fn explained(store: &Arc<dyn Store>, settings: Settings, number: usize) -> String {
    let sql = format!("EXPLAIN ANALYZE {}", query(number).split_once('\n').unwrap().1);
    let (_, plan) = answer(&session(store, settings), &sql).await.unwrap();
    rows(&plan).join("\n")
}

/// The text of a query.
pub fn query(number: usize) -> String {
    file(&format!("q{number:02}.sql"))
}

fn file(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tpch").join(path)).unwrap()
}

/// DuckDB's answer: all values as text, and a flag for each column of floating-point numbers.
struct Expected {
    rows: Vec<Vec<String>>,
    is_float: Vec<bool>,
}

fn expected(text: &str) -> Expected {
    let header = text.lines().next().unwrap();
    let fields: Vec<Field> =
        header.split(',').map(|column| Field::new(column, DataType::Utf8, true)).collect();
    let reader = ReaderBuilder::new(Arc::new(Schema::new(fields)))
        .with_header(true)
        .build(BufReader::new(text.as_bytes()))
        .unwrap();
    let mut rows = Vec::new();
    for batch in reader {
        let batch = batch.unwrap();
        rows.extend((0..batch.num_rows()).map(|row| {
            batch.columns().iter().map(|column| column.as_string::<i32>().value(row).to_owned()).collect()
        }));
    }
    let is_float = header.split(',').map(|column| column.ends_with(" double")).collect();
    Expected { rows, is_float }
}

fn compare(batches: &[RecordBatch], expected: &Expected) -> Result<(), String> {
    let mut rows = expected.rows.iter();
    for batch in batches {
        let options = FormatOptions::default().with_null("NULL");
        let columns: Vec<ArrayFormatter<'_>> =
            batch.columns().iter().map(|column| ArrayFormatter::try_new(column, &options).unwrap()).collect();
        for row in 0..batch.num_rows() {
            let Some(wanted) = rows.next() else { return Err("there are more rows".to_owned()) };
            let ours: Vec<String> = columns.iter().map(|column| column.value(row).to_string()).collect();
            let equal = |place: usize| {
                let data_type = batch.column(place).data_type();
                match expected.is_float[place] {
                    true => is_near(&ours[place], &wanted[place], data_type),
                    false => plain(&ours[place], data_type) == plain(&wanted[place], data_type),
                }
            };
            if ours.len() != wanted.len() || !(0..ours.len()).all(equal) {
                return Err(format!("{ours:?} instead of {wanted:?}"));
            }
        }
    }
    match rows.next() {
        Some(wanted) => Err(format!("no row {wanted:?}")),
        None => Ok(()),
    }
}

/// Removes trailing zeros of a decimal; the scale of its type determines their number.
fn plain<'a>(text: &'a str, data_type: &DataType) -> &'a str {
    match data_type {
        DataType::Decimal128(_, _) | DataType::Decimal256(_, _) if text.contains('.') => {
            text.trim_end_matches('0').trim_end_matches('.')
        }
        _ => text,
    }
}

/// Whether a number is close to DuckDB's floating-point number. Averages and quotients of decimals
/// are decimals here, so they have limited precision.
fn is_near(ours: &str, wanted: &str, data_type: &DataType) -> bool {
    let (Ok(number), Ok(wanted)) = (ours.parse::<f64>(), wanted.parse::<f64>()) else {
        return ours == wanted;
    };
    let last_place = match data_type {
        DataType::Decimal128(_, scale) | DataType::Decimal256(_, scale) => 10_f64.powi(-i32::from(*scale)),
        _ => 0.0,
    };
    (number - wanted).abs() <= last_place.max(wanted.abs() * RELATIVE_DIFFERENCE_MAX)
}
