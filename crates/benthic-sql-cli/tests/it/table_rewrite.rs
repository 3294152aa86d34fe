//! `benthic table rewrite`, and tables from objects of a pool.

use crate::files::{csv, json, parquet, trips};
use crate::home::{Home, printed};
use benthic_core::{ObjectId, Pool, Store, WriteOp};
use benthic_testkit::program::json_lines;
use benthic_testkit::wait;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::process::{Command, Stdio};
use std::sync::Arc;

/// The rows of a query, as JSON.
#[track_caller]
fn sql(home: &Home, text: &str) -> Vec<Value> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_benthic-sql"));
    let run =
        command.args(["--json", "sql", text]).current_dir(home.dir()).env_remove("BENTHIC_STORE").output();
    let run = run.unwrap();
    printed(&run, &[text]);
    json_lines(&run.stdout)
}

fn put(home: &Home, objects: &[(&str, Vec<u8>)]) {
    home.with_store(async |store| {
        let pool: Arc<dyn Pool> = store.open_pool("lake").await.unwrap();
        for (name, data) in objects {
            let op = WriteOp::new().write_full(data.clone());
            pool.write(&ObjectId::new(*name).unwrap(), op).await.unwrap();
        }
    });
}

#[test]
fn a_rewrite_changes_the_storage_of_all_rows_and_of_those_added_later() {
    let home = Home::new();
    home.file("a.parquet", parquet(&trips(0..5_000)));
    home.file("b.parquet", parquet(&trips(5_000..6_000)));
    home.ok(&["create", "lake/t", "a.parquet"]);
    home.ok(&["index", "lake/t", "--text", "name"]);
    sql(&home, "DELETE FROM lake.t WHERE id < 10");
    let query = "SELECT count(*) AS n, sum(id) AS s, sum(fare) AS f FROM lake.t";
    let (rows, answer) = (home.rows("t"), sql(&home, query));
    for codec in ["zstd:9", "lz4", "none", "zstd", "snappy"] {
        let done = home.json(&["rewrite", "lake/t", "--codec", codec]).remove(0);
        let exact = if codec == "zstd" { "zstd:3" } else { codec };
        assert_eq!(
            (&done["codec"], &done["objects_rewritten"], &done["objects_remaining"], &done["commits"]),
            (&json!(exact), &json!(1), &json!(0), &json!(1))
        );
        assert_eq!((sql(&home, query), home.rows("t")), (answer.clone(), rows.clone()), "{codec}");
        let checked = home.json(&["fsck", "lake/t"]).remove(0);
        assert_eq!((&checked["findings"], &checked["parts_missing"]), (&json!([]), &json!(0)));
    }
    home.ok(&["append", "lake/t", "b.parquet"]);
    let done = home.ok(&["rewrite", "lake/t", "--sort-by", "name, id", "--row-group-size", "1MiB"]);
    assert!(done.starts_with("lake/t: 2 objects, "), "{done}");
    let layout = "codec snappy, row groups of 1.0 MiB, objects of 32.0 MiB, sorted by name, id\n";
    assert!(done.contains(" were written again; 1 object now, ") && done.ends_with(layout), "{done}");
    let shown = home.ok(&["show", "lake/t"]);
    for line in ["sorted by        name, id\n", "codec            snappy\n", "row-group size   1.0 MiB\n"] {
        assert!(shown.contains(line), "{shown}");
    }
    assert_eq!(home.rows("t").len(), 5_990);
    // Nothing is left to do; another size of objects is something.
    assert!(
        home.ok(&["rewrite", "lake/t"])
            .starts_with("lake/t: 0 objects, 0 B were written again; 1 object now, ")
    );
    let done =
        home.json(&["rewrite", "lake/t", "--unsorted", "--object-size", "1MiB", "--rate", "1GiB"]).remove(0);
    assert_eq!((&done["sort_by"], &done["object_size_bytes"]), (&json!([]), &json!(1 << 20)));
    let history = home.json(&["history", "lake/t"]);
    assert_eq!(history.last().unwrap()["operation"], "compact");
    // The first snapshot is as it was.
    let old = sql(&home, "SELECT count(*) AS n FROM lake.t FOR VERSION AS OF 2");
    assert_eq!(old[0]["n"], 5_000);
    home.ok(&["vacuum", "lake/t", "--keep", "0s"]);
    assert_eq!(home.rows("t").len(), 5_990);
}

#[test]
fn columns_move_to_objects_of_their_own_and_back() {
    let home = Home::new();
    home.file("a.parquet", parquet(&trips(0..5_000)));
    home.ok(&["create", "lake/t", "a.parquet", "--group", "name"]);
    let query =
        "SELECT count(*) AS n, sum(id) AS s, min(name) AS m, sum(fare) AS f FROM lake.t WHERE fare > 1";
    let (rows, answer) = (home.rows("t"), sql(&home, query));
    assert_eq!(home.json(&["show", "lake/t"])[0]["column_groups"], json!([["name"]]));
    assert!(home.ok(&["show", "lake/t"]).contains("\n  column groups    name\n"));
    let done = home.ok(&["rewrite", "lake/t", "--group", "name", "--group", " fare"]);
    assert!(done.ends_with("not sorted, column groups name; fare\n"), "{done}");
    sql(&home, "DELETE FROM lake.t WHERE id = 7");
    sql(&home, "UPDATE lake.t SET fare = fare + 1 WHERE name = 'no such name'");
    assert_eq!(sql(&home, "SELECT name FROM lake.t WHERE id = 7"), [] as [Value; 0]);
    let checked = home.json(&["fsck", "lake/t"]).remove(0);
    assert_eq!(checked["findings"], json!([]));
    let planned = home.json(&["rewrite", "lake/t", "--one-group", "--dry-run"]).remove(0);
    let done = home.json(&["rewrite", "lake/t", "--one-group"]).remove(0);
    assert_eq!(planned["size_bytes_to_rewrite"], done["size_bytes_rewritten"]);
    assert_eq!(planned["size_bytes_estimated"], done["size_bytes"]);
    assert_eq!((&done["column_groups"], &done["objects_remaining"]), (&json!([]), &json!(0)));
    home.ok(&["vacuum", "lake/t", "--keep", "0s"]);
    // A list and a data object.
    assert_eq!(home.objects().len(), 3, "{:?}", home.objects());
    home.ok(&["append", "lake/t", "a.parquet"]);
    sql(&home, "DELETE FROM lake.t WHERE id <> 7 AND id < 0");
    assert_eq!(home.rows("t").len(), 2 * rows.len() - 1);
    let history = home.json(&["history", "lake/t"]);
    assert_eq!(history[0]["operation"], "compact");
    let failed = home.fails(6, &["rewrite", "lake/t", "--group", "nam"]);
    assert!(failed.contains("did you mean"), "{failed}");
    assert!(answer[0]["n"].as_u64().unwrap() > 0);
}

/// Number of objects that statistics exclude from a query with this condition.
fn pruned(home: &Home, table: &str, condition: &str) -> u64 {
    let plan = sql(home, &format!("EXPLAIN ANALYZE SELECT sum(x) FROM lake.{table} WHERE {condition}"));
    let plan = json!(plan).to_string();
    let count = plan.split_once("objects_pruned=").map(|(_, rest)| rest.split(|c: char| !c.is_ascii_digit()));
    count.and_then(|mut parts| parts.next()?.parse().ok()).unwrap_or(0)
}

#[test]
fn a_compaction_clusters_rows_by_one_or_several_columns() {
    let home = Home::new();
    let schema = "a int64, b int64, x float64, \"the tags\" list(int64)";
    home.ok(&["create", "lake/t", "--schema", schema, "--object-size", "1MiB"]);
    // Each object has values from the whole ranges of a and b.
    sql(
        &home,
        "INSERT INTO lake.t SELECT value * 7919 % 1009, CASE WHEN value % 50 > 0 THEN value * 104729 % 1013 END, \
         sqrt(value), [value] FROM generate_series(1, 600000)",
    );
    sql(&home, "DELETE FROM lake.t WHERE a = 500");
    let all = "SELECT count(*) AS n, sum(a) AS a, sum(b) AS b, sum(x * a) AS x, count(b) AS c, sum(\"the tags\"[1]) AS t \
        FROM lake.t";
    let before = sql(&home, all).remove(0);
    assert_eq!((pruned(&home, "t", "a < 90"), pruned(&home, "t", "b < 90")), (0, 0));
    // Each object has a range of a, and all values of b.
    let done = home.json(&["compact", "lake/t", "--cluster-by", "a"]).remove(0);
    let objects = done["objects"].as_u64().unwrap();
    assert!(objects >= 6, "{done}");
    assert!(pruned(&home, "t", "a < 90") >= objects - 2, "{objects}");
    assert_eq!(pruned(&home, "t", "b < 90"), 0);
    // Each object has a range of a and a range of b. Null comes first.
    let done = home.json(&["compact", "lake/t", "--cluster-by", "a, b"]).remove(0);
    let objects = done["objects"].as_u64().unwrap();
    for condition in ["a < 90", "a > 920", "b BETWEEN 10 AND 90", "b > 920"] {
        assert!(pruned(&home, "t", condition) >= objects / 3, "{condition}: {objects}");
    }
    home.ok(&["compact", "lake/t", "--cluster-by", "x,a,b"]);
    let after = sql(&home, all).remove(0);
    for column in ["n", "a", "b", "c", "t"] {
        assert_eq!(after[column], before[column], "{column}");
    }
    let (x, expected) = (after["x"].as_f64().unwrap(), before["x"].as_f64().unwrap());
    assert!((x - expected).abs() < 1e-6 * expected, "{x} {expected}");
    assert_eq!(home.json(&["fsck", "lake/t"])[0]["findings"], json!([]));
    // The rows of an object are sorted by another column, but those that wait for the next object
    // are the last ones of the clustering.
    home.ok(&["create", "lake/s", "--schema", schema, "--object-size", "1MiB", "--sort-by", "b"]);
    sql(&home, "INSERT INTO lake.s SELECT * FROM lake.t");
    let done = home.json(&["compact", "lake/s", "--cluster-by", "a"]).remove(0);
    let objects = done["objects"].as_u64().unwrap();
    assert!(objects >= 6 && pruned(&home, "s", "a < 90") >= objects - 3, "{objects}");
    assert_eq!(sql(&home, &all.replace("lake.t", "lake.s"))[0]["n"], before["n"]);
    for (columns, message) in [
        ("a,a", "by a column twice"),
        ("c", "no such column"),
        ("the tags", "by lists, structs and maps"),
        ("a,b,x,a,b", "by four columns"),
    ] {
        let told = home.fails(6, &["compact", "lake/t", "--cluster-by", columns]);
        assert!(told.contains(message), "{columns}: {told}");
    }
}

#[test]
fn a_compaction_puts_rows_in_z_order() {
    let home = Home::new();
    home.ok(&[
        "create",
        "lake/t",
        "--schema",
        "a int64, b utf8, c timestamp(ns), d decimal(9, 2), x float64, y float64",
        "--object-size",
        "1MiB",
    ]);
    // Each object has values from the whole ranges. Most values of a are small, and most values of
    // c are the same.
    sql(
        &home,
        "INSERT INTO lake.t SELECT CAST(exp((value * 7919 % 1009) / 50.0) AS BIGINT), \
         CASE WHEN value % 50 > 0 THEN lpad(CAST(value * 104729 % 1013 AS TEXT), 4, '0') END, \
         to_timestamp(greatest(value * 7 % 1000 - 800, 0)), CAST(value % 977 AS DECIMAL(9, 2)), sqrt(value), \
         ln(value) FROM generate_series(1, 400000)",
    );
    sql(&home, "DELETE FROM lake.t WHERE b = '0500'");
    let all = "SELECT count(*) AS n, sum(a) AS a, count(b) AS b, min(b) AS m, count(DISTINCT c) AS c, sum(d) AS d, \
        count(DISTINCT x) AS x FROM lake.t";
    let before = sql(&home, all).remove(0);
    let on_a = ["a < 6", "a > 100000000"];
    let on_b = ["b < '0090'", "b > '0920'"];
    for condition in on_a.into_iter().chain(on_b) {
        assert_eq!(pruned(&home, "t", condition), 0, "{condition}");
    }
    for limits in [&[] as &[&str], &["--memory", "16MiB", "--rate", "1GiB"]] {
        let args = ["compact", "lake/t", "--z-order", "a, b"];
        let done = home.json(&[&args[..], limits].concat()).remove(0);
        let objects = done["objects"].as_u64().unwrap();
        assert!(objects >= 5, "{done}");
        for condition in on_a.into_iter().chain(on_b) {
            let found = pruned(&home, "t", condition);
            assert!(found >= objects / 4, "{condition}: {found} of {objects}");
        }
        assert_eq!(sql(&home, all).remove(0), before);
    }
    home.ok(&["compact", "lake/t", "--z-order", "c,d,b,x"]);
    assert_eq!(sql(&home, all).remove(0), before);
    assert_eq!(home.json(&["fsck", "lake/t"])[0]["findings"], json!([]));
    for (status, columns, message) in [
        (6, "a", "two to four columns"),
        (6, "a,e", "no such column"),
        (6, "a,a", "by a column twice column=a"),
        (6, "a,b,c,d,x", "by four columns"),
    ] {
        let told = home.fails(status, &["compact", "lake/t", "--z-order", columns]);
        assert!(told.contains(message), "{columns}: {told}");
    }
    for columns in ["", "a,,b", "a, "] {
        let told = home.fails(2, &["compact", "lake/t", "--z-order", columns]);
        assert!(told.contains("--z-order") && told.contains("has an empty name"), "{columns}: {told}");
    }
    let told = home.fails(2, &["compact", "lake/t", "--z-order", "a,b", "--cluster-by", "a"]);
    assert!(told.contains("cannot be used with"), "{told}");
}

#[test]
fn a_dry_run_changes_nothing_and_estimates_the_size() {
    let home = Home::new();
    home.file("a.parquet", parquet(&trips(0..20_000)));
    home.ok(&["create", "lake/t", "a.parquet", "--codec", "none", "--sort-by", "id"]);
    let (objects, before) = (home.objects(), home.json(&["show", "lake/t"]));
    let args = ["rewrite", "lake/t", "--codec", "zstd:5", "--dry-run"];
    let told = home.ok(&args);
    for part in [
        "lake/t: 1 of 1 object (",
        ") would be written again\n  from  codec none, row groups of 8.0 MiB, objects of 32.0 MiB, sorted by id\n",
        "\n  to    codec zstd:5, row groups of 8.0 MiB, objects of 32.0 MiB, sorted by id\n  they would take about ",
        " (estimated from 1 object)\n",
    ] {
        assert!(told.contains(part), "{part:?} {told}");
    }
    let planned = home.json(&args).remove(0);
    assert_eq!((home.objects(), home.json(&["show", "lake/t"])), (objects, before));
    let done = home.json(&["rewrite", "lake/t", "--codec", "zstd:5"]).remove(0);
    assert_eq!(planned["size_bytes_to_rewrite"], done["size_bytes_rewritten"]);
    assert_eq!(planned["size_bytes_estimated"], done["size_bytes"], "the sample is the whole table");
    let again = home.json(&args).remove(0);
    assert_eq!((&again["objects_to_rewrite"], &again["size_bytes_estimated"]), (&json!(0), &Value::Null));
}

#[test]
fn a_rewrite_refuses_what_does_not_fit_and_changes_nothing() {
    let home = Home::new();
    home.file("a.parquet", parquet(&trips(0..100)));
    home.ok(&["create", "lake/t", "a.parquet"]);
    let (objects, before) = (home.objects(), home.json(&["show", "lake/t"]));
    for (status, args, message) in [
        (2, &["--codec", "gzip"] as &[&str], "none, snappy, lz4, zstd or zstd:LEVEL"),
        (2, &["--codec", "zstd:20"], "from 1 to 19"),
        (6, &["--row-group-size", "1KiB"], "from 1 MiB to 64 MiB"),
        (6, &["--object-size", "1GiB"], "from 1 MiB to 64 MiB"),
        (6, &["--sort-by", "nam"], "did you mean \"name\""),
        (6, &["--sort-by", "id,id"], "by a column twice"),
        (2, &["--sort-by", "id", "--unsorted"], "cannot be used with"),
        (2, &["--rate", "0"], "at least 1 byte"),
        (2, &["--memory", "15MiB"], "at least 16MiB"),
    ] {
        for dry_run in [&[] as &[&str], &["--dry-run"]] {
            let told = home.fails(status, &[&["rewrite", "lake/t"], args, dry_run].concat());
            assert!(told.contains(message), "{args:?} {told}");
        }
    }
    for limit in [["--rate", "1MiB"], ["--memory", "1GiB"]] {
        let told = home.fails(2, &["rewrite", "lake/t", "--dry-run", limit[0], limit[1]]);
        assert!(told.contains("cannot be used with"), "{told}");
    }
    assert!(home.fails(3, &["rewrite", "lake/tt", "--codec", "lz4"]).contains("did you mean \"t\""));
    assert_eq!((home.objects(), home.json(&["show", "lake/t"])), (objects, before));
}

#[test]
fn an_interrupted_rewrite_leaves_nothing_behind_and_is_continued() {
    let home = Home::new();
    home.file("a.parquet", parquet(&trips(0..20_000)));
    home.ok(&["create", "lake/t", "a.parquet"]);
    let (objects, rows) = (home.objects(), home.rows("t"));
    for args in [&["compact", "lake/t", "--z-order", "id,fare"], &["rewrite", "lake/t", "--codec", "zstd"]] {
        // At this rate it takes hours.
        let args = [&args[..], &["--rate", "10"]].concat();
        let mut child = home.command(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        while home.json(&["show", "lake/t"])[0]["writers"] != 1 {
            assert!(child.try_wait().unwrap().is_none(), "it runs");
            wait::pause(std::time::Duration::from_millis(20));
        }
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        let run = child.wait_with_output().unwrap();
        assert_eq!(run.status.code(), Some(130), "{}", String::from_utf8_lossy(&run.stderr));
        let writers = home.json(&["show", "lake/t"])[0]["writers"].clone();
        assert_eq!((home.objects(), writers), (objects.clone(), json!(0)));
        assert_eq!(home.rows("t"), rows);
    }
    // The table has the new codec; the command without options continues.
    let done = home.json(&["rewrite", "lake/t"]).remove(0);
    assert_eq!((&done["codec"], &done["objects_rewritten"]), (&json!("zstd:3"), &json!(1)));
    assert_eq!(home.rows("t"), rows);
}

#[test]
fn objects_of_a_pool_become_a_table() {
    let home = Home::new();
    put(
        &home,
        &[
            ("logs/2024-02.csv", csv(&trips(10..20))),
            ("logs/2024-01.csv", csv(&trips(0..10))),
            ("logs/2024-01.csv.bak", b"not csv".to_vec()),
            ("logs/2024-03/late.csv", csv(&trips(90..100))),
            ("logs/2023-12.csv", csv(&trips(50..60))),
            ("events.jsonl", json(&trips(20..30))),
            ("whole.parquet", parquet(&trips(30..40))),
            ("odd[name]*.csv", csv(&trips(40..45))),
        ],
    );
    let told = home.ok(&[
        "create",
        "lake/t",
        "--from",
        "lake/logs/2024-*.csv",
        "--codec",
        "zstd",
        "--sort-by",
        "id",
    ]);
    assert!(told.starts_with("lake/t: 20 rows in 1 object, ") && told.ends_with(", snapshot 2\n"), "{told}");
    assert_eq!(home.json(&["show", "lake/t"])[0]["codec"], "zstd:3");
    let args = [
        "append",
        "lake/t",
        "--from",
        "lake/events.jsonl",
        "--from",
        "lake/whole.parquet",
        "--from",
        "lake/odd[name]*.csv",
    ];
    assert!(home.ok(&args).starts_with("lake/t: 25 rows added, 45 rows in 2 objects, "));
    assert!(home.ok(&["append", "lake/t", "--from", "lake/logs/**/late.csv"]).contains("10 rows added"));
    home.file("expected.parquet", parquet(&trips(0..45)));
    home.file("late.parquet", parquet(&trips(90..100)));
    home.ok(&["create", "lake/expected", "expected.parquet", "late.parquet"]);
    assert_eq!(home.rows("t"), home.rows("expected"));
}

#[test]
fn objects_that_cannot_be_loaded_leave_no_table() {
    let home = Home::new();
    put(
        &home,
        &[
            ("good.csv", csv(&trips(0..10))),
            ("wrong.csv", b"id,fare,name\n1,2.5,a\n2,much,b\n".to_vec()),
            ("plain", csv(&trips(0..10))),
            ("damaged.parquet", b"PAR1 this is no Parquet file PAR1".to_vec()),
            ("empty.csv", Vec::new()),
        ],
    );
    let before = home.objects();
    for (status, args, message) in [
        (3, &["--from", "lake/none.csv"] as &[&str], "no such object"),
        (3, &["--from", "lake/none-*.csv"], "no object matches this pattern"),
        (6, &["--from", "lake/[.csv"], "the pattern is invalid"),
        (3, &["--from", "lakes/good.csv"], "no such pool"),
        (6, &["--from", "lake/plain"], "does not tell the format"),
        (6, &["--from", "lake/empty.csv"], "the file is empty"),
        (6, &["--from", "lake/damaged.parquet"], "not a Parquet file"),
        (6, &["--from", "lake/good.csv", "--from", "lake/wrong.csv"], "path=lake/wrong.csv"),
        (2, &["--from", "good.csv"], "POOL/OBJECT"),
        (2, &["a.csv", "--from", "lake/good.csv"], "cannot be used with"),
    ] {
        let told = home.fails(status, &[&["create", "lake/t"], args].concat());
        assert!(told.contains(message), "{args:?} {told}");
        assert_eq!(home.objects(), before, "{args:?}");
    }
    home.ok(&["create", "lake/t", "--from", "lake/plain", "--format", "csv"]);
    assert_eq!(home.rows("t").len(), 10);
}
