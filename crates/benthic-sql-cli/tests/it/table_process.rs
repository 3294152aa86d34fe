//! `benthic table` as a process: signals, kills, and concurrent runs.

use crate::files::{csv, parquet, trips};
use crate::home::{Home, printed};
use benthic_testkit::wait;
use rustix::process::{Pid, Signal, kill_process};
use std::io::Write;
use std::process::{Child, ChildStdin, Stdio};
use std::time::Duration;

/// Starts a verb that reads CSV from stdin, and sends some rows.
fn start(home: &Home, args: &[&str]) -> (Child, ChildStdin) {
    let mut command = home.command(&[args, &["-", "--format", "csv"]].concat());
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // More rows than the sample for guessing types, so that the load begins.
    stdin.write_all(&csv(&trips(0..120_000))).unwrap();
    (child, stdin)
}

/// Waits until a writer is registered in the table.
fn wait_for_writer(home: &Home, child: &mut Child) {
    loop {
        let shown = home.run(&["--json", "show", "lake/t"]);
        if String::from_utf8_lossy(&shown.stdout).contains("\"writers\":1") {
            return;
        }
        assert!(child.try_wait().unwrap().is_none(), "it runs");
        wait::pause(Duration::from_millis(20));
    }
}

#[test]
fn an_interrupted_append_adds_nothing_and_leaves_nothing() {
    let home = Home::new();
    home.file("a.parquet", parquet(&trips(0..10)));
    home.ok(&["create", "lake/t", "a.parquet", "--object-size", "1MiB"]);
    let before = home.objects();
    let (mut child, stdin) = start(&home, &["append", "lake/t"]);
    wait_for_writer(&home, &mut child);
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let run = child.wait_with_output().unwrap();
    drop(stdin);
    assert_eq!(run.status.code(), Some(130));
    assert!(String::from_utf8_lossy(&run.stderr).contains("interrupted"));
    assert_eq!(home.objects(), before);
    let shown = home.json(&["show", "lake/t"]).remove(0);
    assert_eq!((&shown["rows"], &shown["writers"]), (&10.into(), &0.into()));
}

#[test]
fn a_load_keeps_its_rate_and_its_memory() {
    let home = Home::new();
    home.file("a.csv", csv(&trips(0..20_000)));
    home.ok(&["create", "lake/t", "a.csv", "--rate", "1GiB", "--memory", "16MiB"]);
    let before = home.objects();
    // At this rate it takes hours.
    let mut command = home.command(&["append", "lake/t", "a.csv", "--rate", "10"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for_writer(&home, &mut child);
    wait::pause(Duration::from_millis(300));
    assert!(child.try_wait().unwrap().is_none(), "it runs");
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(130));
    assert_eq!(home.objects(), before);
    assert_eq!(home.rows("t").len(), 20_000);
    for (limit, message) in [(["--rate", "0"], "at least 1 byte"), (["--memory", "15MiB"], "at least 16MiB")]
    {
        let told = home.fails(2, &["append", "lake/t", "a.csv", limit[0], limit[1]]);
        assert!(told.contains(message), "{told}");
    }
}

#[test]
fn an_interrupted_create_leaves_no_table() {
    let home = Home::new();
    let (mut child, stdin) = start(&home, &["create", "lake/t"]);
    wait_for_writer(&home, &mut child);
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(143));
    drop(stdin);
    assert_eq!(home.objects().len(), 0);
}

#[test]
fn a_killed_create_leaves_an_empty_table_and_a_killed_append_the_rows_that_were_there() {
    let home = Home::new();
    let (mut child, stdin) = start(&home, &["create", "lake/t", "--object-size", "1MiB"]);
    wait_for_writer(&home, &mut child);
    child.kill().unwrap();
    child.wait().unwrap();
    drop(stdin);
    assert_eq!(home.json(&["show", "lake/t"])[0]["rows"], 0);
    home.file("a.csv", csv(&trips(0..10)));
    home.ok(&["append", "lake/t", "a.csv"]);
    assert_eq!(home.rows("t").len(), 10);
    assert!(
        home.fails(10, &["drop", "lake/t", "--yes", "lake/t"]).contains("--force"),
        "the killed one is registered still"
    );
    home.ok(&["drop", "lake/t", "--force"]);
    assert_eq!(home.objects().len(), 0);
}

#[test]
fn a_create_that_fails_does_not_take_rows_of_others_with_it() {
    let home = Home::new();
    let (mut child, mut stdin) = start(&home, &["create", "lake/t"]);
    wait_for_writer(&home, &mut child);
    home.file("a.csv", csv(&trips(0..10)));
    home.ok(&["append", "lake/t", "a.csv"]);
    stdin.write_all(b"1,2,3,4,5\n").unwrap();
    drop(stdin);
    let run = child.wait_with_output().unwrap();
    assert_eq!(run.status.code(), Some(6), "{}", String::from_utf8_lossy(&run.stderr));
    assert_eq!(home.rows("t").len(), 10);
}

#[test]
fn processes_that_append_at_once_lose_nothing() {
    const PROCESSES: i64 = 4;
    const ROUNDS: i64 = 5;
    const ROWS: i64 = 100;
    let home = Home::new();
    home.ok(&["create", "lake/t", "--schema", "id int64, fare float64, name utf8"]);
    std::thread::scope(|scope| {
        for process in 0..PROCESSES {
            let home = &home;
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let first = (process * ROUNDS + round) * ROWS;
                    let name = format!("{first}.parquet");
                    home.file(&name, parquet(&trips(first..first + ROWS)));
                    let told = home.ok(&["append", "lake/t", &name]);
                    assert!(told.contains("100 rows added"), "{told}");
                }
            });
        }
    });
    let mut expected: Vec<String> = Vec::new();
    home.file("all.parquet", parquet(&trips(0..PROCESSES * ROUNDS * ROWS)));
    home.ok(&["create", "lake/all", "all.parquet"]);
    expected.extend(home.rows("all"));
    assert_eq!(home.rows("t"), expected);
    let history = home.json(&["history", "lake/t"]);
    assert_eq!(history.len() as i64, 1 + PROCESSES * ROUNDS);
}

/// Runs the block "```sh MARK" of a page below docs/ unchanged and returns its output.
fn run_block(page: &str, mark: &str) -> String {
    let page = format!("{}/../../docs/{page}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(page).unwrap();
    let block =
        text.split(&format!("```sh {mark}\n")).nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let home = Home::new();
    // `benthic`, which creates pools, calls this program for `table` and `sql`.
    let program = env!("CARGO_BIN_EXE_benthic-sql");
    let script = format!("benthic() {{ [ \"$1\" = pool ] || {program} \"$@\"; }}\n{block}");
    let mut shell = std::process::Command::new("bash");
    shell.args(["-euo", "pipefail", "-c", &script]).env("TMPDIR", home.dir());
    shell.env("BENTHIC_STORE", format!("file:{}", home.path("benthic-data").display()));
    printed(&shell.output().unwrap(), &["bash"])
}

#[test]
fn the_search_for_words_of_the_guide_works() {
    let told = run_block("guide/tables.md", "words");
    assert_eq!(told.matches("index part built in 1 of 1 object").count(), 2, "{told}");
}

#[test]
fn the_advice_of_the_guide_works() {
    let told = run_block("guide/tables.md", "advise");
    assert!(
        told.contains("\n  benthic table index lake/people name\n    1 query with name = ? read "),
        "{told}"
    );
    assert!(told.contains("no recorded query read these columns: note"), "{told}");
}

#[test]
fn the_column_groups_of_the_guide_work() {
    let told = run_block("guide/tables.md", "groups");
    for part in ["143", "609763", "lake/photos: 1 object, "] {
        assert!(told.contains(part), "{part:?}: {told}");
    }
}

#[test]
fn the_first_success_of_a_data_person_works() {
    let told = run_block("start/data.md", "data");
    // 12.5 + 7.25 and 40, from the file and from the table; then the sums after and before the
    // change.
    for line in ["19.75", "79.5", "59.75"] {
        assert!(told.contains(line), "{line:?}: {told}");
    }
}

#[test]
fn the_tour_of_the_guide_runs_as_it_stands_there() {
    let told = run_block("guide/tables.md", "tour");
    for line in
        ["lake/trips: 3 rows in 2 objects", "5 rows in 4 objects", "status 6", "range(day, month)", "dropped"]
    {
        assert!(told.contains(line), "{line:?}: {told}");
    }
}
