//! `benthic-sql sql` on a terminal, which `script` provides.

use crate::files::{csv, trips};
use benthic_core::Store;
use benthic_embedded::{EmbeddedStore, Options};
use benthic_testkit::program::Home;
use futures::executor::block_on;
use std::io::Write;
use std::process::{Command, Stdio};

const PROGRAM: &str = env!("CARGO_BIN_EXE_benthic-sql");

fn home() -> Home {
    let home = Home::new(PROGRAM, &["sql"]);
    home.file("few.csv", csv(&trips(0..3)));
    home.file("many.csv", csv(&trips(0..12_345)));
    home
}

/// Runs `benthic-sql sql ARGS` on a terminal where the user types these lines. Returns the content
/// of the terminal. The terminal is dumb, so that it keeps lines that are typed before the prompt.
fn on_terminal(home: &Home, args: &str, typed: &[&str]) -> String {
    let mut script = Command::new("script");
    script.args(["-qec", &format!("{PROGRAM} sql {args}"), "/dev/null"]).current_dir(home.dir());
    script.env_remove("BENTHIC_STORE").env("TERM", "dumb").env("XDG_STATE_HOME", home.path("state"));
    let mut script = script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = script.stdin.take().unwrap();
    for line in typed {
        writeln!(stdin, "{line}").unwrap();
    }
    // Keep the terminal's input open: its end is the end of the prompt.
    let output = script.wait_with_output().unwrap();
    drop(stdin);
    let shown = String::from_utf8(output.stdout).unwrap().replace('\r', "");
    assert!(output.status.success(), "{args}: {shown}");
    shown
}

fn table_rows(shown: &str) -> usize {
    shown.lines().filter(|line| line.contains("| trip ")).count()
}

#[test]
fn a_terminal_shows_the_first_rows_and_their_number() {
    let home = home();
    let all = "\"SELECT * FROM 'many.csv' ORDER BY id\"";
    let shown = on_terminal(&home, all, &[]);
    assert_eq!(table_rows(&shown), 40, "{shown}");
    assert!(shown.contains("| trip 39 ") && !shown.contains("trip 40"), "{shown}");
    let last = shown.lines().last().unwrap();
    assert!(last.starts_with("the first 40 of 12,345 rows, "), "{last}");
    assert!(last.ends_with(" s; `--all` shows all"), "{last}");

    let shown = on_terminal(&home, &format!("--all {all}"), &[]);
    assert_eq!(table_rows(&shown), 12_345);
    assert!(shown.lines().last().unwrap().starts_with("12,345 rows, "), "{:?}", shown.lines().last());

    let shown = on_terminal(&home, "\"SELECT * FROM 'few.csv'\"", &[]);
    assert_eq!(table_rows(&shown), 3);
    let last = shown.lines().last().unwrap();
    assert!(last.starts_with("3 rows, ") && last.ends_with(" s"), "{last}");

    let shown = on_terminal(&home, "\"EXPLAIN SELECT * FROM 'few.csv'\"", &[]);
    assert!(shown.starts_with("logical_plan") && !shown.contains(" rows, "), "{shown}");
}

#[test]
fn programs_get_all_rows_and_nothing_else() {
    let home = home();
    let sql = "SELECT * FROM 'many.csv'";
    let table = home.ok(&[sql]);
    assert_eq!((table_rows(&table), table.lines().count()), (12_345, 12_345 + 4));
    for args in ["--output csv", "--output json", "--json"] {
        let shown = on_terminal(&home, &format!("{args} \"{sql}\""), &[]);
        let words: Vec<&str> = args.split(' ').collect();
        assert_eq!(shown, home.ok(&[&words[..], &[sql]].concat()), "{args}");
    }
}

#[test]
fn the_prompt_has_the_commands_of_psql_and_sqlite() {
    let home = home();
    let store = EmbeddedStore::open(&home.path("benthic-data"), true, Options::default()).unwrap();
    block_on(store.create_pool("lake")).unwrap();
    store.close().unwrap();
    let create = ["table", "create", "lake/trips", "few.csv"];
    assert!(Command::new(PROGRAM).args(create).current_dir(home.dir()).output().unwrap().status.success());
    let shows = |typed: &[&str], times: usize, expected: &str| {
        let shown = on_terminal(&home, "", typed);
        assert_eq!(shown.matches(expected).count(), times, "{typed:?} {expected}: {shown}");
    };
    shows(&[".tables", "\\d", "SHOW TABLES;", ".quit"], 3, "| lake | trips |");
    shows(&[".schema lake.trips", "\\d lake.trips", "\\d 'few.csv'", ".schema", ".exit"], 4, "| Float64   |");
    shows(&[".help", "\\?", "help", "\\q"], 3, "ends the prompt, like Ctrl-D");
    shows(&["SELECT count(*)", "FROM lake.trips;", "quit"], 1, "1 row, ");
    shows(&[".timer off", "\\timing on", "\\timing", ".quit"], 2, "timing is off");
    shows(&[".timer off", "SELECT 1 AS n;", ".quit"], 1, "1 row\n");
    shows(&["SELECT name FROM 'many.csv';", ".quit"], 1, "s; `\\all` shows all");
    shows(&["\\all", "SELECT name FROM 'many.csv';", "\\all off", ".quit"], 1, "12,345 rows, ");
    shows(&[".nonsense", "\\x", ".quit"], 2, "`\\?` lists the commands");
    shows(&[".timer maybe", ".quit"], 1, ".timer takes on, off or nothing");
    // A line that continues a query is no command.
    shows(&["SELECT 1 +", ".5 AS sum;", ".quit"], 1, "| 1.5 |");
}

#[test]
fn the_prompt_needs_a_store_only_for_its_tables() {
    let home = home();
    let shown = on_terminal(&home, "", &["SELECT count(*) AS n FROM 'many.csv';", ".tables", ".quit"]);
    assert!(shown.contains("| 12345 |") && shown.contains("there is no store here"), "{shown}");
}
