use super::statuses;

#[test]
fn the_reference_has_every_exit_status() {
    let reference = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/exit-statuses.md");
    let reference = std::fs::read_to_string(reference).unwrap();
    let rows: String = statuses().iter().map(|(status, kind)| format!("| {status} | `{kind}` |\n")).collect();
    let table = format!("| status | kind |\n| ---: | --- |\n{rows}");
    assert!(reference.contains(&table), "the table must be:\n{table}");
}
