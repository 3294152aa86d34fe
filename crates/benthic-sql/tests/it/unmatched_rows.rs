//! Rows that the joins above a scan reject.

use arrow::array::{AsArray, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Int64Type, Schema};
use benthic_sql::unmatched_rows::UnmatchedRows;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CaseExpr, CastExpr, Column, DynamicFilterPhysicalExpr, lit,
};
use datafusion::physical_expr::projection::{ProjectionExpr, ProjectionExprs};
use datafusion::physical_plan::metrics::Count;
use futures::StreamExt;
use futures::executor::block_on;
use futures::stream;
use std::sync::Arc;

type Expr = Arc<dyn PhysicalExpr>;

/// Column 2 of a table.
fn key() -> Expr {
    Arc::new(Column::new("key", 2))
}

fn binary(left: Expr, operator: Operator, right: Expr) -> Expr {
    Arc::new(BinaryExpr::new(left, operator, right))
}

/// The scan returns columns 0, 2 and 3.
fn projection() -> ProjectionExprs {
    let columns = [Column::new("other", 0), Column::new("key", 2), Column::new("float", 3)];
    let exprs =
        columns.map(|column| ProjectionExpr { alias: column.name().to_owned(), expr: Arc::new(column) });
    ProjectionExprs::new(exprs)
}

fn schema() -> Schema {
    let number = DataType::Int64;
    let columns = [("other", &number), ("hidden", &number), ("key", &number), ("float", &DataType::Float64)];
    Schema::new(columns.map(|(name, data_type)| Field::new(name, data_type.clone(), true)).to_vec())
}

fn batch(keys: impl Iterator<Item = i64>) -> RecordBatch {
    let schema = ["other", "key"].map(|name| Field::new(name, DataType::Int64, true));
    let keys: Int64Array = keys.map(Some).collect();
    let others = Int64Array::from(vec![None; keys.len()]);
    RecordBatch::try_new(Arc::new(Schema::new(schema.to_vec())), vec![Arc::new(others), Arc::new(keys)])
        .unwrap()
}

fn keys(predicate: &Expr, batches: Vec<RecordBatch>) -> (Vec<i64>, usize) {
    let dropped = Count::new();
    let unmatched = UnmatchedRows::of(predicate, &schema(), Some(&projection()), dropped.clone()).unwrap();
    let rows = unmatched.drop_from(stream::iter(batches.into_iter().map(Ok)).boxed());
    let batches: Vec<_> = block_on(rows.map(Result::unwrap).collect());
    let keys = batches.iter().flat_map(|batch| batch.column(1).as_primitive::<Int64Type>().values().to_vec());
    (keys.collect(), dropped.value())
}

#[test]
fn rows_that_the_current_filter_rejects_are_dropped_in_order() {
    let filter = Arc::new(DynamicFilterPhysicalExpr::new(vec![key()], lit(true)));
    let predicate =
        binary(binary(key(), Operator::Gt, lit(-1_i64)), Operator::And, Arc::clone(&filter) as Expr);
    let batches = || vec![batch(0..1000), batch(1000..1003), batch(2..4)];
    assert_eq!(keys(&predicate, batches()).1, 0);
    let few = binary(
        binary(key(), Operator::Lt, lit(3_i64)),
        Operator::Or,
        binary(key(), Operator::Eq, lit(1001_i64)),
    );
    filter.update(few).unwrap();
    assert_eq!(keys(&predicate, batches()), (vec![0, 1, 2, 1001, 2], 1000));
}

#[test]
fn a_filter_that_keeps_most_rows_drops_none() {
    let filter = Arc::new(DynamicFilterPhysicalExpr::new(vec![key()], lit(true)));
    filter.update(binary(key(), Operator::Lt, lit(900_i64))).unwrap();
    let (found, dropped) = keys(&(filter as Expr), vec![batch(0..1000)]);
    assert_eq!((found, dropped), ((0..1000).collect(), 0));
}

#[test]
fn the_filter_of_a_partitioned_join_drops_none() {
    let filter = Arc::new(DynamicFilterPhysicalExpr::new(vec![key()], lit(true)));
    let few = binary(key(), Operator::Lt, lit(3_i64));
    let by_partition = CaseExpr::try_new(Some(lit(0)), vec![(lit(0), few)], Some(lit(false))).unwrap();
    filter.update(Arc::new(by_partition)).unwrap();
    assert_eq!(keys(&(filter as Expr), vec![batch(0..10)]).1, 0);
}

#[test]
fn a_filter_that_fails_drops_nothing() {
    let filter = Arc::new(DynamicFilterPhysicalExpr::new(vec![key()], lit(true)));
    let zero = binary(key(), Operator::Divide, lit(0_i64));
    filter.update(binary(zero, Operator::Eq, lit(0_i64))).unwrap();
    assert_eq!(keys(&(filter as Expr), vec![batch(0..10)]).0, (0..10).collect::<Vec<_>>());
}

#[test]
fn conditions_of_the_query_and_unsuitable_columns_are_left_to_others() {
    let of = |predicate: &Expr| UnmatchedRows::of(predicate, &schema(), Some(&projection()), Count::new());
    assert!(of(&binary(key(), Operator::Gt, lit(0_i64))).is_none());
    let column = |name, index| -> Expr { Arc::new(Column::new(name, index)) };
    let as_float: Expr = Arc::new(CastExpr::new(key(), DataType::Float64, None));
    for unsuitable in [column("hidden", 1), column("float", 3), as_float] {
        let filter: Expr = Arc::new(DynamicFilterPhysicalExpr::new(vec![Arc::clone(&unsuitable)], lit(true)));
        assert!(of(&filter).is_none(), "{unsuitable}");
    }
    assert!(of(&(Arc::new(DynamicFilterPhysicalExpr::new(vec![key()], lit(true))) as Expr)).is_some());
}
