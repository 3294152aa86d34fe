//! Types and partitionings in the syntax that users write.

use arrow::datatypes::{DataType, Schema, TimeUnit};
use benthic_core::ErrorKind;
use benthic_sql::syntax::{
    PartitionBy, parse_column, parse_columns, parse_partitioning, show_column, show_partitioning, show_type,
};
use benthic_table::{Definition, Ranges};

#[test]
fn types_are_read_as_they_are_shown() {
    for text in [
        "a bool",
        "a int8 not null",
        "a int16",
        "a int32",
        "a int64",
        "a uint8",
        "a uint16",
        "a uint32",
        "a uint64",
        "a float16",
        "a float32",
        "a float64",
        "a utf8",
        "a binary",
        "a binary(16)",
        "a date",
        "a time(ms)",
        "a time(us)",
        "a time(ns)",
        "a timestamp(ms)",
        "a timestamp(us, 'Europe/Berlin')",
        "a timestamp(ns, '+01:00')",
        "a decimal(38, 10)",
        "a decimal256(20, 2)",
        "a decimal(76, 0)",
        "a list(int64)",
        "a list(int64 not null) not null",
        "a list(list(utf8), 3)",
        "a struct(x float64, \"y \"\"z\" list(struct(b bool not null)))",
        "a map(utf8, decimal(4, 2) not null)",
        "\"two words\" utf8",
        "\"\"\"\" utf8",
        "Größe float64",
        "a.b-c utf8",
    ] {
        let field = parse_column(text).unwrap();
        let definition = Definition::new(&Schema::new(vec![field.clone()])).unwrap();
        let column = &definition.schema.columns()[0];
        assert_eq!(&column.data_type, field.data_type(), "{text}: a table stores it so");
        assert_eq!(show_column(column), text);
    }
}

#[test]
fn common_names_of_types_are_known() {
    for (text, data_type) in [
        ("a BIGINT", DataType::Int64),
        ("a double", DataType::Float64),
        ("a Text", DataType::Utf8),
        ("  a   decimal ( 5 ,2 )  ", DataType::Decimal128(5, 2)),
        ("a timestamp(us,'UTC')", DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))),
    ] {
        let field = parse_column(text).unwrap();
        assert_eq!((field.name().as_str(), field.data_type(), field.is_nullable()), ("a", &data_type, true));
    }
    assert_eq!(show_type(&DataType::Date32), "date");
    let fields = parse_columns("a int64 not null, b list(utf8), c map(utf8, int8)").unwrap();
    let names: Vec<&str> = fields.iter().map(|field| field.name().as_str()).collect();
    assert_eq!(names, ["a", "b", "c"]);
}

#[test]
fn what_is_no_type_says_what_is() {
    let deep = format!("a {}int8{}", "list(".repeat(1_000), ")".repeat(1_000));
    for (text, hint) in [
        ("", "name is missing"),
        ("a", "a type is bool"),
        ("a int65", "a type is bool"),
        ("a int64(3)", "a type is bool"),
        ("a list", "a type is bool"),
        ("a list(int8", "')' is missing"),
        ("a decimal(5)", "',' is missing"),
        ("a decimal(x, 2)", "a number"),
        ("a timestamp(s)", "ms, us or ns"),
        ("a timestamp(us, UTC)", "single quotes"),
        ("a timestamp(us, 'UTC)", "not closed"),
        ("\"a int8", "not closed"),
        ("a int8 not", "'null'"),
        ("a int8 null", "unexpected text"),
        ("a int8, b int8", "unexpected text"),
        ("a struct()", "name is missing"),
        (&deep, "too deep"),
    ] {
        let error = parse_column(text).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains(hint), "{text:.40}: {error}");
    }
    assert!(parse_columns("a int8,").is_err());
}

#[test]
fn partitionings_are_read_as_they_are_shown() {
    let fields = parse_columns("\"l_order, key\" int64, day date").unwrap();
    let definition = Definition::new(&Schema::new(fields)).unwrap();
    for text in [
        "rows",
        "hash(\"l_order, key\", 64)",
        "range(day, day)",
        "range(day, month)",
        "range(day, year)",
        "range(\"l_order, key\", -5, 0, 20)",
    ] {
        let partitioning = parse_partitioning(text).unwrap().resolve(&definition.schema).unwrap();
        assert_eq!(show_partitioning(&partitioning, &definition.schema), text);
    }
    let by = PartitionBy::Range { column: "Day".to_owned(), ranges: Ranges::Month };
    assert_eq!(parse_partitioning(" RANGE ( Day , MONTH ) ").unwrap(), by);
    let error = by.resolve(&definition.schema).unwrap_err();
    assert!(error.message().contains("did you mean \"day\""), "{error}");
    for text in [
        "",
        "row",
        "hash(a)",
        "hash(a, b)",
        "hash(a, -1)",
        "range(a)",
        "range(a, week)",
        "range(a, 1,)",
        "hash(a, 2) x",
        "hash a, 2",
    ] {
        assert_eq!(parse_partitioning(text).unwrap_err().kind(), ErrorKind::InvalidArgument, "{text}");
    }
}
