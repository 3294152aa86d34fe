use super::{KEY_BYTES_MAX, Keys, Kind, VALUE_BYTES_MAX};
use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Decimal128Array, Decimal256Array, Float32Array, Float64Array,
    Int16Array, Int64Array, StringArray, StringViewArray, TimestampMicrosecondArray, UInt8Array, UInt64Array,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, TimeUnit, i256};
use proptest::prelude::{Strategy, any, prop};
use proptest::{prop_assert_eq, proptest};
use std::cmp::Ordering;
use std::sync::Arc;

fn array<A: arrow::array::Array + 'static>(array: A) -> ArrayRef {
    Arc::new(array)
}

/// The order of the two keys of a pair.
fn order(pair: ArrayRef) -> Ordering {
    let keys = Keys::of(&[pair]).unwrap();
    keys.get(0).cmp(keys.get(1))
}

fn pairs<T: Clone + std::fmt::Debug + proptest::arbitrary::Arbitrary>()
-> impl Strategy<Value = Vec<Option<T>>> {
    prop::collection::vec(any::<Option<T>>(), 2..=2)
}

/// Random floats, often near zero: random bits alone would rarely give equal values.
fn floats() -> impl Strategy<Value = f64> {
    proptest::prop_oneof![
        any::<f64>(),
        (-3_i8..3).prop_map(|n| f64::from(n) / 2.0),
        proptest::strategy::Just(-0.0)
    ]
}

proptest! {
    #[test]
    fn keys_have_the_order_of_their_values(
        ints in pairs::<i64>(),
        small in pairs::<i16>(),
        uints in pairs::<u64>(),
        bools in pairs::<bool>(),
        wide in pairs::<i128>(),
        halves in pairs::<(i128, u128)>(),
    ) {
        // Null sorts first, as `None` does.
        prop_assert_eq!(order(array(Int64Array::from(ints.clone()))), ints[0].cmp(&ints[1]));
        prop_assert_eq!(order(array(TimestampMicrosecondArray::from(ints.clone()))), ints[0].cmp(&ints[1]));
        prop_assert_eq!(order(array(Int16Array::from(small.clone()))), small[0].cmp(&small[1]));
        prop_assert_eq!(order(array(UInt64Array::from(uints.clone()))), uints[0].cmp(&uints[1]));
        prop_assert_eq!(order(array(BooleanArray::from(bools.clone()))), bools[0].cmp(&bools[1]));
        prop_assert_eq!(order(array(Decimal128Array::from(wide.clone()))), wide[0].cmp(&wide[1]));
        let wider: Vec<Option<i256>> =
            halves.iter().map(|half| half.map(|(high, low)| i256::from_parts(low, high))).collect();
        prop_assert_eq!(order(array(Decimal256Array::from(wider.clone()))), wider[0].cmp(&wider[1]));
    }

    #[test]
    fn keys_of_floats_have_one_zero_and_one_nan(one in floats(), other in floats()) {
        let expected = one.partial_cmp(&other).unwrap_or_else(|| one.is_nan().cmp(&other.is_nan()));
        prop_assert_eq!(order(array(Float64Array::from(vec![one, other]))), expected);
        let narrow = (one as f32, other as f32);
        let expected = narrow.0.partial_cmp(&narrow.1).unwrap_or_else(|| one.is_nan().cmp(&other.is_nan()));
        prop_assert_eq!(order(array(Float32Array::from(vec![narrow.0, narrow.1]))), expected);
    }

    #[test]
    fn keys_of_strings_keep_the_order_of_truncated_values(
        start in prop::collection::vec(prop::sample::select(vec![0_u8, 1, 255]), 0..70),
        ends in prop::collection::vec(prop::collection::vec(prop::sample::select(vec![0_u8, 1, 255]), 0..4), 2..=2),
    ) {
        let values: Vec<Vec<u8>> = ends.iter().map(|end| [start.as_slice(), end].concat()).collect();
        let found = order(array(BinaryArray::from_iter_values(&values)));
        let cut = |value: &Vec<u8>| value[..value.len().min(VALUE_BYTES_MAX)].to_vec();
        prop_assert_eq!(found, cut(&values[0]).cmp(&cut(&values[1])));
    }

    #[test]
    fn the_second_column_decides_where_the_first_is_equal(
        texts in prop::collection::vec(prop::sample::select(vec!["", "a", "a\0", "ab", "b"]), 2..=2),
        numbers in pairs::<i16>(),
    ) {
        let columns = [array(StringArray::from(texts.clone())), array(Int16Array::from(numbers.clone()))];
        let keys = Keys::of(&columns).unwrap();
        let expected = texts[0].cmp(texts[1]).then(numbers[0].cmp(&numbers[1]));
        prop_assert_eq!(keys.get(0).cmp(keys.get(1)), expected);
    }

    #[test]
    fn a_key_stays_when_its_column_is_widened(small in any::<i16>(), tiny in any::<u8>(), text in any::<String>()) {
        for (narrow, to) in [
            (array(Int16Array::from(vec![small])), DataType::Int64),
            (array(UInt8Array::from(vec![tiny])), DataType::UInt64),
            (array(Float32Array::from(vec![f32::from(small) / 8.0])), DataType::Float64),
            (array(StringArray::from(vec![text.as_str()])), DataType::Utf8View),
        ] {
            let wide = cast(&narrow, &to).unwrap();
            prop_assert_eq!(Kind::of(narrow.data_type()), Kind::of(wide.data_type()));
            let (narrow, wide) = (Keys::of(&[narrow]).unwrap(), Keys::of(&[wide]).unwrap());
            prop_assert_eq!(narrow.get(0), wide.get(0));
        }
    }
}

#[test]
fn keys_are_short_and_other_types_are_refused() {
    let zeros = array(BinaryArray::from_iter_values([vec![0; 1_000]]));
    let keys = Keys::of(&[zeros.clone(), zeros.clone(), zeros.clone(), zeros]).unwrap();
    assert_eq!(keys.get(0).len(), KEY_BYTES_MAX);
    let list = DataType::List(Arc::new(arrow::datatypes::Field::new("element", DataType::Int64, true)));
    let error = Keys::of(&[arrow::array::new_null_array(&list, 1)]).unwrap_err();
    assert_eq!(error.kind(), benthic_core::ErrorKind::Unsupported, "{error}");
}

#[test]
fn every_flat_type_has_keys() {
    let view: ArrayRef = Arc::new(StringViewArray::from(vec!["text"]));
    assert!(Keys::of(&[view]).is_ok());
    for data_type in [
        DataType::Float16,
        DataType::Date32,
        DataType::Time32(TimeUnit::Millisecond),
        DataType::Time64(TimeUnit::Nanosecond),
        DataType::Timestamp(TimeUnit::Nanosecond, Some("+02:00".into())),
        DataType::FixedSizeBinary(3),
        DataType::BinaryView,
        DataType::LargeUtf8,
    ] {
        let numbers = array(Int64Array::from(vec![Some(1), None]));
        let values = match &data_type {
            DataType::Float16 | DataType::Timestamp(..) | DataType::Time64(_) => {
                cast(&numbers, &data_type).unwrap()
            }
            DataType::Date32 | DataType::Time32(_) => {
                cast(&cast(&numbers, &DataType::Int32).unwrap(), &data_type).unwrap()
            }
            _ => cast(&array(StringArray::from(vec![Some("abc"), None])), &DataType::Binary)
                .and_then(|bytes| match &data_type {
                    DataType::LargeUtf8 => cast(&cast(&bytes, &DataType::Utf8)?, &data_type),
                    other => cast(&bytes, other),
                })
                .unwrap(),
        };
        assert_eq!(values.data_type(), &data_type);
        let keys = Keys::of(&[values]).unwrap();
        assert!(keys.get(0) > keys.get(1) && keys.get(1) == [0], "{data_type}");
    }
}
