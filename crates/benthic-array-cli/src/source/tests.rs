use super::{attribute_values, fill_value_attribute, reserved_name};
use benthic_array::{AttributeValue, Dtype};

#[test]
fn attributes_keep_their_numbers() {
    let one = |dtype, data: &[u8]| attribute_values(dtype, data);
    assert_eq!(one(Dtype::Int16, &(-2i16).to_le_bytes()), AttributeValue::Integer(-2));
    assert_eq!(one(Dtype::Int64, &i64::MIN.to_le_bytes()), AttributeValue::Integer(i64::MIN));
    assert_eq!(one(Dtype::Uint8, &[255]), AttributeValue::Unsigned(255));
    // The value of a float32 as a float64, as Python has it.
    assert_eq!(one(Dtype::Float32, &0.01f32.to_le_bytes()), AttributeValue::Float(f64::from(0.01f32)));
    let list = AttributeValue::List(vec![AttributeValue::Integer(-1), AttributeValue::Integer(1)]);
    assert_eq!(one(Dtype::Int8, &[255, 1]), list);
}

#[test]
fn a_fill_value_has_the_type_of_its_array() {
    let text = AttributeValue::Text("AAAAAAAA8D8=".to_owned());
    assert_eq!(fill_value_attribute(Dtype::Float32, AttributeValue::Float(1.0)), text);
    assert_eq!(fill_value_attribute(Dtype::Float64, AttributeValue::Integer(1)), text);
    assert_eq!(fill_value_attribute(Dtype::Int8, AttributeValue::Float(-1.0)), AttributeValue::Integer(-1));
}

#[test]
fn names_that_would_mean_something_else_are_refused() {
    for name in ["", ".", "..", "a/b", "__x", "zarr.json", ".zarray"] {
        assert!(reserved_name(name).is_some(), "{name}");
    }
    assert_eq!(reserved_name("t2m.x"), None);
}
