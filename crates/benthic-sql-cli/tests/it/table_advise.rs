//! `benthic table advise`.

use crate::home::{Home, printed};
use benthic_testkit::program::json_lines;
use serde_json::{Value, json};
use std::process::Command;

const ROWS: u32 = 60_000;

/// A table of two objects with the columns `id`, `name`, `word` and `unused`. Names and words are
/// scattered.
fn home() -> Home {
    let home = Home::new();
    let rows = |from: u32| {
        let row = |id: u32| {
            let name = u64::from(id) * 7_919 % u64::from(ROWS);
            format!("{id},n{name},the {name} of {id},{}\n", id.wrapping_mul(2_654_435_761))
        };
        let lines: String = (from..from + ROWS / 2).map(row).collect();
        format!("id,name,word,unused\n{lines}")
    };
    home.file("a.csv", rows(0));
    home.file("b.csv", rows(ROWS / 2));
    home.ok(&["create", "lake/t", "a.csv"]);
    home.ok(&["append", "lake/t", "b.csv"]);
    home
}

#[track_caller]
fn sql(home: &Home, text: &str) -> Vec<Value> {
    run(home, &["--json", "sql", text])
}

#[track_caller]
fn run(home: &Home, arguments: &[&str]) -> Vec<Value> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_benthic-sql"));
    command.args(arguments).current_dir(home.dir()).env_remove("BENTHIC_STORE");
    let run = command.output().unwrap();
    printed(&run, arguments);
    json_lines(&run.stdout)
}

fn advice(home: &Home) -> Value {
    home.json(&["advise", "lake/t"]).remove(0)
}

#[test]
fn recorded_queries_suggest_an_index_that_makes_them_read_less() {
    let home = home();
    assert!(
        home.ok(&["advise", "lake/t"])
            .contains("queries are not recorded; `benthic table advise lake/t --record on`")
    );
    assert_eq!(home.ok(&["advise", "lake/t", "--record", "on"]), "lake/t: queries are recorded\n");
    assert!(home.ok(&["advise", "lake/t"]).contains("no query is recorded yet"));
    for name in [17, 4_711] {
        assert_eq!(sql(&home, &format!("SELECT id FROM lake.t WHERE name = 'n{name}'")).len(), 1);
    }
    let before = advice(&home);
    let [suggested] = &before["suggestions"].as_array().unwrap()[..] else { panic!("{before}") };
    assert_eq!(
        (&suggested["kind"], &suggested["command"], &suggested["conditions"]),
        (&json!("index"), &json!("benthic table index lake/t name"), &json!("name = ?"))
    );
    assert_eq!(
        (&suggested["queries"], &suggested["rows"], &suggested["rows_selected"]),
        (&json!(2), &json!(2 * ROWS), &json!(2))
    );
    assert_eq!(before["unread_columns"], json!(["word", "unused"]));
    let read = suggested["bytes_read"].as_u64().unwrap();
    let estimate = suggested["bytes_after"].as_u64().unwrap();
    assert!(estimate < read / 4, "{before}");
    let told = home.ok(&["advise", "lake/t"]);
    for part in [
        "lake/t: 2 queries recorded since 2",
        "benthic table index lake/t name",
        "2 queries with name = ? read ",
        "selected 2 of 120,000 rows (below 0.01%); they would read about ",
        "no recorded query read these columns: word, unused",
    ] {
        assert!(told.contains(part), "{part}\n{told}");
    }
    // The command helps: the same queries read fewer bytes.
    home.ok(&["index", "lake/t", "name"]);
    home.ok(&["index", "lake/t", "--text", "word"]);
    home.ok(&["advise", "lake/t", "--record", "off"]);
    home.ok(&["advise", "lake/t", "--record", "on"]);
    for name in [17, 4_711] {
        assert_eq!(sql(&home, &format!("SELECT id FROM lake.t WHERE name = 'n{name}'")).len(), 1);
    }
    let after = advice(&home);
    assert_eq!((&after["queries"], &after["suggestions"]), (&json!(2), &json!([])));
    let [unused] = &after["unused_indexes"].as_array().unwrap()[..] else { panic!("{after}") };
    assert_eq!((&unused["kind"], &unused["columns"]), (&json!("text_index"), &json!(["word"])));
    assert!(unused["size_bytes"].as_u64().unwrap() > 100_000, "{after}");
    let told = home.ok(&["advise", "lake/t"]);
    assert!(
        told.contains("not used by a recorded query: the index text(word), which takes about "),
        "{told}"
    );
}

#[test]
fn the_records_are_removed_with_the_table() {
    let home = Home::new();
    home.file("a.csv", "id\n1\n");
    home.ok(&["create", "lake/t", "a.csv"]);
    home.ok(&["advise", "lake/t", "--record", "on"]);
    sql(&home, "SELECT id FROM lake.t WHERE id = 1");
    assert!(home.objects().iter().any(|object| object.ends_with("/access")), "{:?}", home.objects());
    // An append keeps the setting, and a vacuum and fsck accept the records.
    home.ok(&["append", "lake/t", "a.csv"]);
    assert_eq!(advice(&home)["recording"], json!(true));
    let vacuumed = home.json(&["vacuum", "lake/t", "--keep", "0s"]).remove(0);
    assert_eq!(vacuumed["strangers"], json!(0), "{vacuumed}");
    home.ok(&["fsck", "lake/t"]);
    assert_eq!(advice(&home)["queries"], json!(1));
    run(&home, &["--json", "sql", "--read-only", "SELECT id FROM lake.t WHERE id = 1"]);
    assert_eq!(advice(&home)["queries"], json!(1), "a program that only reads writes no records");
    home.ok(&["drop", "lake/t", "--yes", "lake/t"]);
    assert!(home.objects().is_empty(), "{:?}", home.objects());
}

#[test]
fn invalid_uses_are_refused() {
    let home = Home::new();
    assert!(home.fails(3, &["advise", "lake/missing"]).contains("no such table"));
    assert!(home.fails(3, &["advise", "lake/missing", "--record", "on"]).contains("no such table"));
    assert!(home.fails(2, &["advise", "lake/t", "--record", "maybe"]).contains("possible values"));
}

#[test]
fn commands_keep_the_names_of_columns_or_are_not_printed() {
    let home = Home::new();
    let columns = [
        ("a b", Some("'a b'")),
        ("it's", Some(r"'it'\''s'")),
        ("$(x)", Some("'$(x)'")),
        ("a,b", None),
        ("-x", None),
        ("a\u{1b}[2J", None),
    ];
    let names: Vec<String> = columns.iter().map(|(name, _)| format!("\"{name}\"")).collect();
    let row = |id: u32| {
        let value = format!("n{}", u64::from(id) * 7_919 % u64::from(ROWS));
        format!("{id},{}\n", vec![value; columns.len()].join(","))
    };
    home.file("a.csv", format!("id,{}\n{}", names.join(","), (0..ROWS).map(row).collect::<String>()));
    home.ok(&["create", "lake/t", "a.csv"]);
    home.ok(&["advise", "lake/t", "--record", "on"]);
    for name in &names {
        assert_eq!(sql(&home, &format!("SELECT id FROM lake.t WHERE {name} = 'n17'")).len(), 1);
    }
    let advice = advice(&home);
    let suggestions = advice["suggestions"].as_array().unwrap();
    for (name, listed) in columns {
        let of_column = |one: &&Value| one["conditions"] == format!("{name} = ?");
        let command =
            &suggestions.iter().find(of_column).unwrap_or_else(|| panic!("{name} {advice}"))["command"];
        assert_eq!(
            command,
            &json!(listed.map(|listed| format!("benthic table index lake/t {listed}"))),
            "{name}"
        );
    }
    assert!(!home.ok(&["advise", "lake/t"]).contains('\u{1b}'));
}
