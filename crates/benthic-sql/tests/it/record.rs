//! The conditions that are recorded.

use arrow::datatypes::{DataType, Field, Schema};
use benthic_fragment::text_search::functions;
use benthic_sql::record::{conditions, kind};
use benthic_table::{ConditionKind, TableSchema};
use datafusion::logical_expr::{Expr, cast, col, lit, not};

#[test]
fn conditions_are_recorded_by_kind_and_without_values() {
    let fields = [Field::new("a", DataType::Int64, true), Field::new("b", DataType::Utf8, true)];
    let schema = TableSchema::from_arrow(&Schema::new(fields.to_vec())).unwrap();
    let like = |expr: Expr, pattern: &str| expr.like(lit(pattern));
    let words = || functions()[0].call(vec![col("b"), lit("x")]);
    for (condition, expected) in [
        (col("a").eq(lit(1)), ConditionKind::Equal),
        (lit(1).eq(col("a")), ConditionKind::Equal),
        (col("a").in_list(vec![lit(1), lit(2)], false), ConditionKind::Equal),
        (col("a").is_null(), ConditionKind::Equal),
        (col("a"), ConditionKind::Equal),
        (not(col("a")), ConditionKind::Equal),
        (col("a").gt(lit(1)), ConditionKind::Range),
        (lit(1).lt_eq(col("a")), ConditionKind::Range),
        (col("a").between(lit(1), lit(2)), ConditionKind::Range),
        (like(col("b"), "x%"), ConditionKind::Range),
        (col("a").eq(lit(1)).or(col("a").eq(lit(2))), ConditionKind::Equal),
        (col("a").eq(lit(1)).or(col("a").gt(lit(2))), ConditionKind::Range),
        (like(col("b"), "%x"), ConditionKind::Other),
        (col("a").not_eq(lit(1)), ConditionKind::Other),
        (col("a").eq(col("b")), ConditionKind::Other),
        ((col("a") + lit(1)).eq(lit(3)), ConditionKind::Other),
        (col("a").eq(lit(1)).or(col("b").eq(lit(2))), ConditionKind::Other),
        (col("a").in_list(vec![lit(1)], true), ConditionKind::Other),
        // An index answers a cast that changes no value.
        (cast(col("a"), DataType::Float64).eq(lit(1.5)), ConditionKind::Other),
        (cast(col("a"), DataType::Int32).eq(lit(1)), ConditionKind::Other),
        (cast(col("b"), DataType::Utf8View).eq(lit("x")), ConditionKind::Equal),
        (words(), ConditionKind::Words),
        (words().or(col("b").eq(lit("x"))), ConditionKind::Other),
        (col("b").eq(lit("x")).or(words()), ConditionKind::Other),
    ] {
        assert_eq!(kind(&condition, &schema), expected, "{condition}");
    }
}

#[test]
fn each_condition_of_a_conjunction_is_recorded_with_its_columns() {
    let fields = ["a", "b", "c"].map(|name| Field::new(name, DataType::Int64, true));
    let schema = TableSchema::from_arrow(&Schema::new(fields.to_vec())).unwrap();
    let filters = [col("a").eq(lit(1)).and(col("b").lt(lit(2))), col("c").not_eq(col("a")), lit(true)];
    let found: Vec<_> = conditions(&filters, &schema).into_iter().collect();
    assert_eq!(
        found,
        [
            (1, ConditionKind::Equal),
            (1, ConditionKind::Other),
            (2, ConditionKind::Range),
            (3, ConditionKind::Other)
        ]
    );
}
