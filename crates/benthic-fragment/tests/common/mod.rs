//! An object like one of TPC-H's lineitem, and plans over it.

pub mod bombs;
pub mod events;
pub mod hostile;

use arrow::array::{
    ArrayRef, Date32Array, Decimal128Array, Int32Array, Int64Array, RecordBatch, StringArray,
};
use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use benthic_core::Result;
use benthic_fragment::fragment::{OBJECT_URL, Ranges};
use benthic_fragment::json;
use benthic_fragment::membership::MembershipFilter;
use bytes::Bytes;
use datafusion_common::ScalarValue;
use datafusion_datasource::file_scan_config::FileScanConfigBuilder;
use datafusion_datasource::source::DataSourceExec;
use datafusion_datasource_parquet::source::ParquetSource;
use datafusion_execution::object_store::ObjectStoreUrl;
use datafusion_expr::{AggregateUDF, Operator};
use datafusion_functions_aggregate::average::avg_udaf;
use datafusion_functions_aggregate::count::count_udaf;
use datafusion_functions_aggregate::sum::sum_udaf;
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::ScalarFunctionExpr;
use datafusion_physical_expr::aggregate::{AggregateExprBuilder, AggregateFunctionExpr};
use datafusion_physical_expr::expressions::{BinaryExpr, IsNullExpr, col, lit};
use datafusion_physical_expr::{LexOrdering, PhysicalSortExpr};
use datafusion_physical_plan::ExecutionPlan;
use datafusion_physical_plan::aggregates::{AggregateExec, AggregateMode, PhysicalGroupBy};
use datafusion_physical_plan::filter::FilterExec;
use datafusion_physical_plan::projection::ProjectionExec;
use datafusion_physical_plan::sorts::sort::SortExec;
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;
use std::ops::Range;
use std::sync::Arc;

pub type Expr = Arc<dyn PhysicalExpr>;
pub type Plan = Arc<dyn ExecutionPlan>;

/// An object in memory.
pub struct Object(pub Bytes);

impl Ranges for Object {
    fn size_bytes(&self) -> u64 {
        self.0.len() as u64
    }

    fn gap_bytes_max(&self) -> u64 {
        4_096
    }

    fn read(&mut self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        Ok(ranges.iter().map(|range| self.0.slice(range.start as usize..range.end as usize)).collect())
    }

    fn check_deadline(&mut self) -> Result<()> {
        Ok(())
    }
}

/// 1992-01-01 as days since 1970, and the number of days that follow.
pub const FIRST_DAY: i32 = 8_035;
pub const DAYS: u64 = 2_520;

pub const ROWS: usize = 150_000;
pub const ROW_GROUP_ROWS: usize = 20_000;

pub struct Lineitem {
    pub batch: RecordBatch,
    pub parquet: Bytes,
}

/// Pseudorandom numbers, identical in every run.
pub struct Numbers(pub u64);

impl Numbers {
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// The schema of the Parquet file.
fn file_schema() -> SchemaRef {
    let money = DataType::Decimal128(15, 2);
    let field = |name: &str, data_type: &DataType| Field::new(name, data_type.clone(), false);
    Arc::new(Schema::new(vec![
        field("l_orderkey", &DataType::Int64),
        field("l_partkey", &DataType::Int64),
        field("l_suppkey", &DataType::Int64),
        field("l_linenumber", &DataType::Int32),
        field("l_quantity", &money),
        field("l_extendedprice", &money),
        field("l_discount", &money),
        field("l_tax", &money),
        field("l_returnflag", &DataType::Utf8),
        field("l_linestatus", &DataType::Utf8),
        field("l_shipdate", &DataType::Date32),
        field("l_commitdate", &DataType::Date32),
        field("l_receiptdate", &DataType::Date32),
        field("l_shipinstruct", &DataType::Utf8),
        field("l_shipmode", &DataType::Utf8),
        field("l_comment", &DataType::Utf8),
    ]))
}

/// The schema that a scan requests, with strings as views.
pub fn schema() -> SchemaRef {
    let schema = file_schema();
    let fields = schema.fields().iter().map(|field| match field.data_type() {
        DataType::Utf8 => field.as_ref().clone().with_data_type(DataType::Utf8View),
        _ => field.as_ref().clone(),
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

pub fn lineitem() -> Lineitem {
    lineitem_of(ROWS)
}

pub fn lineitem_of(rows: usize) -> Lineitem {
    let mut numbers = Numbers(7);
    let words = "furiously slyly carefully express regular final pending ironic bold even deposits requests accounts packages \
                 theodolites foxes pinto beans instructions dependencies sleep haggle nag wake cajole"
        .split_whitespace()
        .collect::<Vec<_>>();
    let longs = |numbers: &mut Numbers, end| -> ArrayRef {
        Arc::new(Int64Array::from_iter_values((0..rows).map(|_| numbers.below(end) as i64)))
    };
    let money = |numbers: &mut Numbers, step: i128, end| -> ArrayRef {
        let values =
            Decimal128Array::from_iter_values((0..rows).map(|_| i128::from(numbers.below(end)) * step));
        Arc::new(values.with_precision_and_scale(15, 2).unwrap())
    };
    let days = |numbers: &mut Numbers| -> ArrayRef {
        Arc::new(Date32Array::from_iter_values((0..rows).map(|_| FIRST_DAY + numbers.below(DAYS) as i32)))
    };
    let one_of = |numbers: &mut Numbers, values: &[&str]| -> ArrayRef {
        let pick = (0..rows).map(|_| values[numbers.below(values.len() as u64) as usize]);
        Arc::new(StringArray::from_iter_values(pick))
    };
    let comments = (0..rows).map(|_| {
        let count = 3 + numbers.below(3);
        (0..count).map(|_| words[numbers.below(words.len() as u64) as usize]).collect::<Vec<_>>().join(" ")
    });
    let comments: ArrayRef = Arc::new(StringArray::from_iter_values(comments.collect::<Vec<_>>()));
    let n = &mut numbers;
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values((0..rows).map(|row| row as i64 / 4 + 1))),
        longs(n, 200_000),
        longs(n, 10_000),
        Arc::new(Int32Array::from_iter_values((0..rows).map(|row| row as i32 % 4 + 1))),
        money(n, 100, 50),
        money(n, 1, 10_000_000),
        money(n, 1, 11),
        money(n, 1, 9),
        one_of(n, &["A", "N", "R"]),
        one_of(n, &["F", "O"]),
        days(n),
        days(n),
        days(n),
        one_of(n, &["COLLECT COD", "DELIVER IN PERSON", "NONE", "TAKE BACK RETURN"]),
        one_of(n, &["AIR", "FOB", "MAIL", "RAIL", "REG AIR", "SHIP", "TRUCK"]),
        comments,
    ];
    let batch = RecordBatch::try_new(file_schema(), columns).unwrap();
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_max_row_group_row_count(Some(ROW_GROUP_ROWS))
        .set_data_page_row_count_limit(4_000)
        .set_column_bloom_filter_enabled("l_partkey".into(), true)
        .build();
    let mut writer = ArrowWriter::try_new(Vec::new(), file_schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    let parquet = Bytes::from(writer.into_inner().unwrap());
    Lineitem { batch, parquet }
}

pub fn op(left: Expr, operator: Operator, right: Expr) -> Expr {
    Arc::new(BinaryExpr::new(left, operator, right))
}

pub fn and(left: Expr, right: Expr) -> Expr {
    op(left, Operator::And, right)
}

pub fn money(cents: i128) -> Expr {
    lit(ScalarValue::Decimal128(Some(cents), 15, 2))
}

pub fn day(day: i32) -> Expr {
    lit(ScalarValue::Date32(Some(FIRST_DAY + day)))
}

/// A scan of some columns, with a pruning predicate over the whole schema.
pub fn scan(names: &[&str], predicate: Option<Expr>) -> Plan {
    scan_of(schema(), names, predicate)
}

pub fn scan_of(schema: SchemaRef, names: &[&str], predicate: Option<Expr>) -> Plan {
    let indices = names.iter().map(|name| schema.index_of(name).unwrap()).collect();
    let mut source = ParquetSource::new(Arc::clone(&schema));
    if let Some(predicate) = predicate {
        source = source.with_predicate(predicate);
    }
    let scan = FileScanConfigBuilder::new(ObjectStoreUrl::parse(OBJECT_URL).unwrap(), Arc::new(source))
        .with_projection_indices(Some(indices))
        .unwrap()
        .build();
    DataSourceExec::from_data_source(scan)
}

pub fn filter(input: Plan, predicate: Expr) -> Plan {
    Arc::new(FilterExec::try_new(predicate, input).unwrap())
}

pub fn project(input: Plan, exprs: Vec<(Expr, &str)>) -> Plan {
    let exprs = exprs.into_iter().map(|(expr, name)| (expr, name.to_owned()));
    Arc::new(ProjectionExec::try_new(exprs, input).unwrap())
}

/// The first `rows` rows in this order; the last values come first if `descending`.
pub fn first(input: Plan, keys: Vec<Expr>, descending: bool, rows: usize) -> Plan {
    let options = SortOptions { descending, nulls_first: true };
    let keys = keys.into_iter().map(|expr| PhysicalSortExpr { expr, options });
    Arc::new(SortExec::new(LexOrdering::new(keys).unwrap(), input).with_fetch(Some(rows)))
}

pub fn aggregate(
    input: &Plan,
    function: Arc<AggregateUDF>,
    arg: Expr,
    name: &str,
) -> Arc<AggregateFunctionExpr> {
    let expr = AggregateExprBuilder::new(function, vec![arg]).schema(input.schema()).alias(name).build();
    Arc::new(expr.unwrap())
}

pub fn partial(input: Plan, groups: &[&str], aggregates: Vec<Arc<AggregateFunctionExpr>>) -> Plan {
    let schema = input.schema();
    let groups = groups.iter().map(|name| (col(name, &schema).unwrap(), (*name).to_owned())).collect();
    let filters = vec![None; aggregates.len()];
    let groups = PhysicalGroupBy::new_single(groups);
    Arc::new(
        AggregateExec::try_new(AggregateMode::Partial, groups, aggregates, filters, input, schema).unwrap(),
    )
}

/// TPC-H Q6: reads four columns, returns one number.
pub fn q6() -> Plan {
    let names = ["l_quantity", "l_extendedprice", "l_discount", "l_shipdate"];
    let predicate = |schema: &Schema| {
        let of = |name: &str| col(name, schema).unwrap();
        let days = and(
            op(of("l_shipdate"), Operator::GtEq, day(730)),
            op(of("l_shipdate"), Operator::Lt, day(1_095)),
        );
        let discount = and(
            op(of("l_discount"), Operator::GtEq, money(5)),
            op(of("l_discount"), Operator::LtEq, money(7)),
        );
        and(and(days, discount), op(of("l_quantity"), Operator::Lt, money(2_400)))
    };
    let scan = scan(&names, Some(predicate(&schema())));
    let of_scan = predicate(&scan.schema());
    let filtered = filter(scan, of_scan);
    let of = |name: &str| col(name, &filtered.schema()).unwrap();
    let revenue = op(of("l_extendedprice"), Operator::Multiply, of("l_discount"));
    let projected = project(filtered, vec![(revenue, "revenue")]);
    let sum = aggregate(&projected, sum_udaf(), col("revenue", &projected.schema()).unwrap(), "revenue");
    partial(projected, &[], vec![sum])
}

/// Like TPC-H Q1: reads six columns and nearly all rows, returns six groups.
pub fn q1() -> Plan {
    let names = ["l_quantity", "l_extendedprice", "l_discount", "l_returnflag", "l_linestatus", "l_shipdate"];
    let scan = scan(&names, None);
    let days = op(col("l_shipdate", &scan.schema()).unwrap(), Operator::LtEq, day(2_430));
    let input = filter(scan, days);
    let of = |name: &str| col(name, &input.schema()).unwrap();
    let aggregates = vec![
        aggregate(&input, sum_udaf(), of("l_quantity"), "sum_qty"),
        aggregate(&input, sum_udaf(), of("l_extendedprice"), "sum_price"),
        aggregate(&input, avg_udaf(), of("l_discount"), "avg_disc"),
        aggregate(&input, count_udaf(), lit(1_i64), "count_order"),
    ];
    partial(input, &["l_returnflag", "l_linestatus"], aggregates)
}

/// The aggregates of [`q1`] for both columns, the first one, and all rows.
pub fn rollup() -> Plan {
    let q1 = q1();
    let q1: &AggregateExec = q1.downcast_ref().unwrap();
    let null = || lit(ScalarValue::Utf8View(None));
    let groups = PhysicalGroupBy::new(
        q1.group_expr().expr().to_vec(),
        vec![(null(), "l_returnflag".to_owned()), (null(), "l_linestatus".to_owned())],
        vec![vec![false, false], vec![false, true], vec![true, true]],
        true,
    );
    let (aggregates, filters) = (q1.aggr_expr().to_vec(), q1.filter_expr().to_vec());
    let (input, schema) = (Arc::clone(q1.input()), q1.input_schema());
    Arc::new(
        AggregateExec::try_new(AggregateMode::Partial, groups, aggregates, filters, input, schema).unwrap(),
    )
}

/// A few rows of one order. Statistics prune all pages but one.
pub fn point(order: i64) -> Plan {
    let names = ["l_orderkey", "l_partkey", "l_extendedprice", "l_comment"];
    let key = |schema: &Schema| op(col("l_orderkey", schema).unwrap(), Operator::Eq, lit(order));
    let scan = scan(&names, Some(key(&schema())));
    let of_scan = key(&scan.schema());
    filter(scan, of_scan)
}

/// The rows of a part, with a Bloom filter, a filter of a join, a regular expression and a path in
/// JSON.
pub fn filters() -> Plan {
    let part = |schema: &Schema| op(col("l_partkey", schema).unwrap(), Operator::Eq, lit(7_i64));
    let scan = scan(&["l_partkey", "l_orderkey", "l_comment"], Some(part(&schema())));
    let of = |name: &str| col(name, &scan.schema()).unwrap();
    let build: [ArrayRef; 1] = [Arc::new(Int64Array::from_iter_values(0..200))];
    let members = MembershipFilter::of(vec![of("l_orderkey")], &build, 1_024).unwrap().unwrap();
    let foxes = op(
        of("l_comment"),
        Operator::RegexMatch,
        lit(ScalarValue::Utf8View(Some("fox(es)?|[a-c]+ly".to_owned()))),
    );
    let path = [ScalarValue::Utf8View(Some("a".to_owned())), ScalarValue::Int64(Some(-1))].map(lit);
    let args = [of("l_comment")].into_iter().chain(path).collect();
    let length = json::functions().into_iter().find(|function| function.name() == "json_length").unwrap();
    let length = ScalarFunctionExpr::try_new(length, args, &scan.schema(), Arc::default()).unwrap();
    let no_json = Arc::new(IsNullExpr::new(Arc::new(length)));
    filter(scan, and(and(Arc::new(members), foxes), no_json))
}

/// Five columns of the rows whose part number is less than `below`.
pub fn parts(below: i64) -> Plan {
    let names = ["l_orderkey", "l_partkey", "l_extendedprice", "l_shipdate", "l_comment"];
    let part = |schema: &Schema| op(col("l_partkey", schema).unwrap(), Operator::Lt, lit(below));
    let scan = scan(&names, Some(part(&schema())));
    let of_scan = part(&scan.schema());
    filter(scan, of_scan)
}
