use crate::pack::tests::look_up;
use crate::probe::{Definition, IndexKind, Probe};
use crate::ranges::Ranges;
use crate::{check, pack};
use arrow::array::{ArrayRef, BooleanArray, Int64Array, ListArray, StringArray};
use arrow::buffer::{BooleanBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, Field, Int32Type};
use benthic_core::ErrorKind;
use bytes::Bytes;
use proptest::prelude::prop;
use proptest::{prop_assert, prop_assert_eq, proptest};
use std::collections::HashMap;
use std::sync::Arc;

fn index() -> Definition {
    Definition { number: 3, columns: vec![1], kind: IndexKind::Elements }
}

fn packed(column: &ArrayRef) -> HashMap<Bytes, Bytes> {
    let columns = std::slice::from_ref(column);
    let entries = pack(&index(), columns).unwrap().into_iter().collect();
    check(&index(), columns, &entries).unwrap();
    entries
}

fn find(entries: &HashMap<Bytes, Bytes>, value: i64) -> Option<Vec<u32>> {
    let value: ArrayRef = Arc::new(Int64Array::from(vec![value]));
    let probe = Probe::new(&index(), &[Ranges::equal(&value).unwrap()]).unwrap();
    look_up(&probe.into(), entries)
}

proptest! {
    /// The index finds exactly the rows whose lists have the element, unless they are many.
    #[test]
    fn an_index_of_elements_finds_the_rows_that_have_one(
        rows in prop::collection::vec(
            prop::option::of(prop::collection::vec(prop::option::of(0..40_i32), 0..6)),
            0..300,
        ),
        skipped in 0..10_usize,
    ) {
        let lists = ListArray::from_iter_primitive::<Int32Type, _, _>(rows.iter().cloned());
        let skipped = skipped.min(rows.len());
        let lists: ArrayRef = Arc::new(lists.slice(skipped, rows.len() - skipped));
        let entries = packed(&lists);
        for value in 0..41 {
            let has = |row: &Option<Vec<Option<i32>>>| row.iter().flatten().any(|element| *element == Some(value));
            let rows = rows[skipped..].iter().zip(0_u32..);
            let expected: Vec<u32> = rows.filter(|(row, _)| has(row)).map(|(_, number)| number).collect();
            let found = find(&entries, value.into());
            prop_assert!(found.is_some() || expected.len() > 16 || 5 * expected.len() > lists.len());
            if let Some(found) = found {
                prop_assert_eq!(found, expected);
            }
        }
    }
}

#[test]
fn damage_and_other_columns_are_detected() {
    let lists = |number: i32| -> ArrayRef {
        let rows = (0..100).map(|row| Some(vec![Some(row % 7), Some(number)]));
        Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(rows))
    };
    let entries = packed(&lists(1));
    let error = check(&index(), &[lists(2)], &entries).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    let values = Definition { kind: IndexKind::Values, ..index() };
    let column: ArrayRef = Arc::new(Int64Array::from_iter_values(0..100));
    assert_eq!(check(&values, &[column], &entries).unwrap_err().kind(), ErrorKind::Corrupt);
    let texts: ArrayRef = Arc::new(StringArray::from(vec!["a"]));
    assert_eq!(pack(&index(), &[texts]).unwrap_err().kind(), ErrorKind::InvalidArgument);
}

#[test]
fn only_the_elements_of_an_object_count() {
    let lengths = [super::ELEMENTS_MAX + 1, 1];
    let values = BooleanArray::new(BooleanBuffer::new_set(lengths.iter().sum()), None);
    let field = Arc::new(Field::new_list_field(DataType::Boolean, true));
    let lists = ListArray::new(field, OffsetBuffer::from_lengths(lengths), Arc::new(values), None);
    let all: ArrayRef = Arc::new(lists.clone());
    assert_eq!(pack(&index(), &[all]).unwrap_err().kind(), ErrorKind::LimitExceeded);
    let last: ArrayRef = Arc::new(lists.slice(1, 1));
    packed(&last);
}
