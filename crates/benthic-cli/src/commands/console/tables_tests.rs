use super::table_of;
use crate::commands::console::children::Printed;
use serde_json::json;

fn answer(lines: &[&str]) -> serde_json::Value {
    table_of(&Printed { lines: lines.iter().map(|line| (*line).to_owned()).collect(), is_cut: false })
        .unwrap()
}

#[test]
fn columns_keep_their_order_and_integers_their_value() {
    let lines = [
        r#"{"z":1,"a":9007199254740993,"10":-9007199254740993}"#,
        r#"{"z":null,"a":18446744073709551615,"10":[9007199254740993,{"b":1.5}]}"#,
    ];
    let answer = answer(&lines);
    assert_eq!(answer["columns"], json!(["z", "a", "10"]));
    assert_eq!(answer["rows"][0], json!([1, "9007199254740993", "-9007199254740993"]));
    assert_eq!(answer["rows"][1], json!([null, "18446744073709551615", ["9007199254740993", { "b": 1.5 }]]));
    assert_eq!(answer["plans"], json!([]));
}

#[test]
fn plans_are_trees() {
    let answer = answer(&[r#"{"plan_type":"physical_plan","plan":"A: x\n  B\n"}"#]);
    assert_eq!(answer["plans"][0]["plan"], "physical_plan");
    assert_eq!(answer["plans"][0]["nodes"][0]["children"][0]["name"], "B");
}
