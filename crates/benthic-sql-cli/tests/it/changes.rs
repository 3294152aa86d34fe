//! Statements that change rows, and `benthic table` rollback, tag, diff and compact.

use crate::files::{csv, parquet, trips};
use crate::home::{Home, printed};
use benthic_testkit::program::{failed, json_lines};
use benthic_testkit::wait;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

fn command(home: &Home, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_benthic-sql"));
    command.args(args).current_dir(home.dir()).env_remove("BENTHIC_STORE");
    command
}

fn run(home: &Home, args: &[&str]) -> Output {
    command(home, args).output().unwrap()
}

/// The rows of a statement, as JSON.
#[track_caller]
fn sql(home: &Home, text: &str) -> Vec<Value> {
    let run = run(home, &["--json", "sql", text]);
    printed(&run, &[text]);
    json_lines(&run.stdout)
}

fn home() -> Home {
    let home = Home::new();
    home.file("a.parquet", parquet(&trips(0..1_000)));
    home.ok(&["create", "lake/t", "a.parquet"]);
    home
}

fn ids(home: &Home, condition: &str) -> Vec<i64> {
    let rows = sql(home, &format!("SELECT id FROM lake.t {condition} ORDER BY id"));
    rows.iter().map(|row| row["id"].as_i64().unwrap()).collect()
}

#[test]
fn statements_change_rows_and_say_how_many() {
    let home = home();
    let told = sql(&home, "DELETE FROM lake.t WHERE id < 10");
    assert_eq!(told, [json!({ "inserted": 0, "updated": 0, "deleted": 10, "snapshot": 3 })]);
    let told = sql(&home, "UPDATE lake.t SET name = 'x' WHERE id IN (1, 11, 12)");
    assert_eq!(told, [json!({ "inserted": 0, "updated": 2, "deleted": 0, "snapshot": 4 })]);
    home.file("more.csv", csv(&trips(995..1_005)));
    let merge = "MERGE INTO lake.t USING 'more.csv' AS m ON lake.t.id = m.id \
        WHEN MATCHED AND m.id = 995 THEN DELETE \
        WHEN MATCHED THEN UPDATE SET name = 'merged' \
        WHEN NOT MATCHED THEN INSERT (id, name) VALUES (m.id, m.name)";
    let merge = merge.replace("lake.t.id", "t.id");
    let told = sql(&home, &merge);
    assert_eq!(told, [json!({ "inserted": 5, "updated": 4, "deleted": 1, "snapshot": 5 })]);
    assert_eq!(ids(&home, "WHERE name IN ('x', 'merged') OR id >= 1000").len(), 11);
    assert_eq!(ids(&home, "").len(), 994);
    // A statement that matches no row makes no snapshot.
    let told = sql(&home, "DELETE FROM lake.t WHERE id = 995");
    assert_eq!(told, [json!({ "inserted": 0, "updated": 0, "deleted": 0, "snapshot": 5 })]);
    let created = sql(&home, "CREATE TABLE lake.u AS SELECT id, fare FROM lake.t WHERE id < 20");
    assert_eq!(created[0]["inserted"], 10);
    assert_eq!(home.columns("lake/u"), ["id int64", "fare float64"]);
    assert_eq!(home.json(&["fsck", "lake/t"])[0]["findings"], json!([]));
}

#[test]
fn a_statement_that_fails_changes_nothing() {
    let home = home();
    let before = home.objects();
    for (status, text, word) in [
        (
            6,
            "INSERT INTO lake.t (id) SELECT 9223372036854775807 + CAST(id AS DECIMAL(38, 0)) FROM lake.t",
            "does not fit",
        ),
        (6, "UPDATE lake.t SET id = id / (id - 999)", "ivide by zero"),
        (6, "CREATE TABLE lake.v AS SELECT 10 / (id - 500) AS x FROM lake.t", "ivide by zero"),
        (4, "CREATE TABLE lake.t AS SELECT 1 AS x", "exists"),
        (3, "INSERT INTO lake.nothing SELECT 1", "no such table"),
        (7, "DELETE FROM lake.t LIMIT 3", "not supported"),
        (7, "DROP TABLE lake.t", "benthic table drop"),
        (7, "EXPLAIN DELETE FROM lake.t", "does not explain how"),
    ] {
        let error = failed(&run(&home, &["sql", text]), status);
        assert!(error.contains(word), "{text}: {error}");
    }
    assert_eq!(home.objects(), before);
    assert_eq!(home.json(&["show", "lake/t"])[0]["writers"], 0);
}

#[test]
fn an_interrupted_statement_changes_nothing_and_leaves_nothing() {
    let home = home();
    let before = home.objects();
    let text = "INSERT INTO lake.t (id) SELECT value FROM generate_series(1, 100000000000)";
    let mut command = command(&home, &["sql", text]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    while home.json(&["show", "lake/t"])[0]["writers"] == 0 {
        assert!(child.try_wait().unwrap().is_none(), "it runs");
        wait::pause(Duration::from_millis(20));
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let run = child.wait_with_output().unwrap();
    assert_eq!(run.status.code(), Some(130), "{run:?}");
    assert_eq!(home.objects(), before);
    let shown = home.json(&["show", "lake/t"]).remove(0);
    assert_eq!((&shown["rows"], &shown["writers"]), (&1_000.into(), &0.into()));
}

#[test]
fn two_programs_update_the_same_rows_one_after_the_other() {
    let home = home();
    sql(&home, "CREATE TABLE lake.n AS SELECT id, 0 AS n FROM lake.t WHERE id < 100");
    let start =
        || command(&home, &["sql", "UPDATE lake.n SET n = n + 1"]).stdout(Stdio::null()).spawn().unwrap();
    let running: Vec<_> = (0..4).map(|_| start()).collect();
    let succeeded = running.into_iter().map(|mut child| child.wait().unwrap().success());
    assert_eq!(succeeded.filter(|success| *success).count(), 4);
    assert_eq!(sql(&home, "SELECT DISTINCT n FROM lake.n"), [json!({ "n": 4 })]);
    assert_eq!(home.json(&["fsck", "lake/n"])[0]["findings"], json!([]));
}

#[test]
fn a_table_goes_back_in_time() {
    let home = home();
    sql(&home, "DELETE FROM lake.t WHERE id >= 500");
    assert_eq!(home.ok(&["tag", "lake/t", "whole", "--snapshot", "2"]), "lake/t: snapshot 2 is whole\n");
    assert_eq!(home.ok(&["tag", "lake/t"]), "     2 whole\n");
    let counted = |at: &str| sql(&home, &format!("SELECT count(*) AS n FROM lake.t {at}"))[0]["n"].clone();
    assert_eq!(counted("FOR VERSION AS OF 'whole'"), 1_000);
    assert_eq!(counted("FOR VERSION AS OF 1"), 0);
    assert_eq!(counted(""), 500);
    home.ok(&["vacuum", "lake/t", "--keep", "0s"]);
    assert_eq!(counted("FOR VERSION AS OF 'whole'"), 1_000);
    let error = home.fails(3, &["rollback", "lake/t", "1"]);
    assert!(error.contains("no such snapshot"), "{error}");
    let told = home.ok(&["rollback", "lake/t", "whole"]);
    assert!(told.starts_with("lake/t is as it was in whole: 1,000 rows in 1 object, "), "{told}");
    assert_eq!(counted(""), 1_000);
    assert_eq!(home.json(&["rollback", "lake/t", "3"])[0]["rows"], 500);
    let operations: Vec<Value> =
        home.json(&["history", "lake/t"]).iter().map(|line| line["operation"].clone()).collect();
    assert_eq!(operations, ["append", "delete", "rollback", "rollback"]);
    assert_eq!(home.ok(&["tag", "lake/t", "whole", "--delete"]), "lake/t has no tag whole any more\n");
    assert!(home.fails(3, &["show", "lake/t", "--snapshot", "whole"]).contains("no such tag"));
    assert!(home.fails(6, &["tag", "lake/t", "7"]).contains("does not begin with a digit"));
}

#[test]
fn a_diff_has_the_rows_that_changed() {
    let home = home();
    // Snapshot 2 has all rows, in one object.
    sql(&home, "DELETE FROM lake.t WHERE id < 2");
    sql(&home, "UPDATE lake.t SET name = 'x' WHERE id = 5");
    home.file("more.csv", "id,name\n5000,new\n5000,new\n");
    home.ok(&["append", "lake/t", "more.csv"]);
    let diff = |args: &[&str]| -> Vec<(i64, i64, Value)> {
        let rows = home.json(&[&["diff", "lake/t"], args].concat());
        let row =
            |row: &Value| (row["change"].as_i64().unwrap(), row["id"].as_i64().unwrap(), row["name"].clone());
        rows.iter().map(row).collect()
    };
    let row = |change: i64, id: i64, name: &str| (change, id, json!(name));
    let deleted = [row(-1, 0, "trip 0"), row(-1, 1, "trip 1")];
    let updated = [row(-1, 5, "trip 5"), row(1, 5, "x")];
    let added = [row(2, 5000, "new")];
    assert_eq!(diff(&["2", "3"]), deleted);
    assert_eq!(diff(&["3", "4"]), updated);
    assert_eq!(diff(&["4"]), added);
    let all = [&deleted[..], &updated, &added].concat();
    assert_eq!(diff(&["2"]), all);
    // A compaction writes all rows again, and changes none.
    home.ok(&["compact", "lake/t", "--all"]);
    assert!(diff(&["5"]).is_empty());
    assert_eq!(diff(&["2", "6"]), all);
    // Other way round, and between a snapshot and its copy.
    let back: Vec<i64> = diff(&["6", "2"]).iter().map(|(change, ..)| *change).collect();
    assert_eq!((back.iter().sum::<i64>(), back.len()), (0, 5));
    home.ok(&["rollback", "lake/t", "2"]);
    assert!(diff(&["2"]).is_empty());
    let printed = home.ok(&["diff", "lake/t", "2", "3", "--output", "csv"]);
    assert!(printed.starts_with("change,id,") && printed.lines().count() == 3, "{printed}");
    assert!(home.fails(3, &["diff", "lake/t", "99"]).contains("no such snapshot"));
    assert!(home.fails(3, &["diff", "lake/t", "nothing"]).contains("no such tag"));
}

#[test]
fn a_diff_has_the_columns_of_the_newer_schema() {
    let home = Home::new();
    home.file(
        "a.jsonl",
        "{\"id\": 1, \"change\": 7, \"tags\": [\"a\"]}\n{\"id\": 2, \"change\": 8, \"tags\": []}\n",
    );
    home.ok(&["create", "lake/n", "a.jsonl"]);
    home.ok(&["alter", "lake/n", "--rename", "id:number"]);
    home.ok(&["alter", "lake/n", "--add", "note utf8"]);
    let before = home.json(&["show", "lake/n"])[0]["snapshot"].to_string();
    sql(&home, "UPDATE lake.n SET note = 'x' WHERE number = 2");
    // The table has a column `change`, so the new one has another name.
    let rows = home.json(&["diff", "lake/n", &before]);
    let row = |change: i64, note: Value| json!({ "_change": change, "number": 2, "change": 8, "tags": [], "note": note });
    assert_eq!(rows, [row(-1, Value::Null), row(1, json!("x"))]);
    // The object of the first snapshot has other columns, but its rows did not change.
    assert_eq!(home.json(&["diff", "lake/n", "2"]), rows);
    let back = home.json(&["diff", "lake/n", &(before.parse::<u64>().unwrap() + 1).to_string(), "2"]);
    assert_eq!(back, [row(1, Value::Null), row(-1, json!("x"))]);
}

#[test]
fn a_compaction_writes_small_objects_again() {
    let home = home();
    for part in 1..6 {
        home.file("b.csv", csv(&trips(part * 1_000..part * 1_000 + 100)));
        home.ok(&["append", "lake/t", "b.csv"]);
    }
    sql(&home, "DELETE FROM lake.t WHERE id < 100");
    let before = ids(&home, "");
    let told = home.ok(&["compact", "lake/t"]);
    assert!(told.starts_with("lake/t: 6 objects, "), "{told}");
    assert!(told.contains(" were written again; 1 object now, "), "{told}");
    assert_eq!(ids(&home, ""), before);
    let again = home.json(&["compact", "lake/t"]).remove(0);
    assert_eq!((&again["objects_rewritten"], &again["commits"]), (&json!(0), &json!(0)));
    assert_eq!(home.json(&["compact", "lake/t", "--all"])[0]["objects_rewritten"], 1);
    assert_eq!(home.json(&["fsck", "lake/t"])[0]["findings"], json!([]));
    home.ok(&["vacuum", "lake/t", "--keep", "0s"]);
    assert_eq!(ids(&home, ""), before);
}
