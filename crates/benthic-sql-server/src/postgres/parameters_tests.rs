use super::{ITEMS_MAX, decode};
use arrow::array::Array;
use arrow::datatypes::DataType;
use benthic_core::{Error, ErrorKind};
use bytes::Bytes;
use datafusion::common::ScalarValue;

/// The number of `bigint[]`.
const INT8_ARRAY: u32 = 1_016;

/// The items of an array of texts that a client sends as text.
fn texts(sent: &str) -> Result<Vec<Option<String>>, Error> {
    let wanted = DataType::new_list(DataType::Utf8, true);
    let decoded = decode(Some(Bytes::copy_from_slice(sent.as_bytes())), false, 0, false, Some(&wanted))?;
    let ScalarValue::List(list) = decoded else { panic!("{sent}") };
    let item = |row: usize| match ScalarValue::try_from_array(&list.value(0), row).unwrap() {
        ScalarValue::Utf8(item) => item,
        other => panic!("{other}"),
    };
    Ok((0..list.value(0).len()).map(item).collect())
}

fn numbers(sent: Vec<u8>, is_binary: bool) -> Result<ScalarValue, Error> {
    decode(Some(sent.into()), is_binary, INT8_ARRAY, true, None)
}

fn list(items: &[Option<i64>]) -> ScalarValue {
    let items: Vec<ScalarValue> = items.iter().map(|item| ScalarValue::Int64(*item)).collect();
    ScalarValue::List(ScalarValue::new_list_nullable(&items, &DataType::Int64))
}

#[test]
fn the_text_of_an_array_is_that_of_postgres() {
    for (sent, expected) in [
        ("{}", vec![]),
        (" { } ", vec![]),
        ("{a}", vec![Some("a")]),
        ("{a,\"b, c\",NULL}", vec![Some("a"), Some("b, c"), None]),
        ("{ a b , \" c \" , null }", vec![Some("a b"), Some(" c "), None]),
        (r#"{"NULL","","\"\\",\,}"#, vec![Some("NULL"), Some(""), Some("\"\\"), Some(",")]),
    ] {
        let expected: Vec<Option<String>> =
            expected.into_iter().map(|item| item.map(str::to_owned)).collect();
        assert_eq!(texts(sent).unwrap(), expected, "{sent}");
    }
    for sent in
        ["", "a", "{", "}", "{a", "{a,}", "{,a}", "{a,,b}", "{\"a}", "{\"a\"b}", "{a\"b\"}", "{{a}}", "{a\\}"]
    {
        assert_eq!(texts(sent).unwrap_err().kind(), ErrorKind::InvalidArgument, "{sent}");
    }
    assert_eq!(numbers(b"{1, -2,NULL}".to_vec(), false).unwrap(), list(&[Some(1), Some(-2), None]));
    assert!(numbers(b"{1,x}".to_vec(), false).is_err());
}

/// A binary array with this header, and items with their lengths.
fn binary(header: &[i32], items: &[(i32, &[u8])]) -> Vec<u8> {
    let mut sent: Vec<u8> = header.iter().flat_map(|number| number.to_be_bytes()).collect();
    for (len, item) in items {
        sent.extend(len.to_be_bytes());
        sent.extend(*item);
    }
    sent
}

#[test]
fn binary_arrays_with_wrong_lengths_are_refused() {
    let (two, int8) = (2_i64.to_be_bytes(), 20);
    let sent = binary(&[1, 1, int8, 2, 1], &[(8, &two), (-1, &[])]);
    assert_eq!(numbers(sent.clone(), true).unwrap(), list(&[Some(2), None]));
    assert_eq!(numbers(binary(&[0, 0, int8], &[]), true).unwrap(), list(&[]));
    for sent in [
        sent[..sent.len() - 1].to_vec(),
        [sent.as_slice(), &[0]].concat(),
        binary(&[1, 0, int8, i32::MAX, 1], &[(8, &two)]),
        binary(&[1, 0, int8, -1, 1], &[(8, &two)]),
        binary(&[1, 0, int8, 1, 1], &[(i32::MAX, &two)]),
        binary(&[1, 0, int8, 1, 1], &[(4, &two[..4])]),
        binary(&[1], &[]),
    ] {
        assert_eq!(numbers(sent.clone(), true).unwrap_err().kind(), ErrorKind::InvalidArgument, "{sent:?}");
    }
    let nested = numbers(binary(&[2, 0, int8, 1, 1, 1, 1], &[(8, &two)]), true);
    assert_eq!(nested.unwrap_err().kind(), ErrorKind::Unsupported);
    let nulls = vec![(-1, &b""[..]); ITEMS_MAX + 1];
    let count = i32::try_from(nulls.len()).unwrap();
    let many = numbers(binary(&[1, 1, int8, count, 1], &nulls), true);
    assert_eq!(many.unwrap_err().kind(), ErrorKind::LimitExceeded);
}
