//! `benthic map`: each object is in the result exactly once, however a run ends.

use crate::outage;
use crate::support::{Home, Running, json_lines};
use benthic_testkit::wait;
use rustix::process::Signal;
use std::fs;
use std::path::Path;
use std::time::Duration;

const CODE: &str = r#"
#include "benthic.h"

static char text[64];

/* Parses digits; -1 if there is something else. */
static int64_t parse(uint32_t len) {
    int64_t number = 0;
    for (uint32_t i = 0; i < len; i++) {
        if (text[i] < '0' || text[i] > '9')
            return -1;
        number = number * 10 + (text[i] - '0');
    }
    return number;
}

/* Returns the number that the object holds. */
BENTHIC_METHOD(value) {
    int64_t len = benthic_read_into(0, text, sizeof text);
    if (len < 0)
        return (int32_t)-len;
    if (parse((uint32_t)len) < 0) {
        benthic_fail("not a number", 12);
        return 22;
    }
    return (int32_t)-benthic_output(text, (uint32_t)len);
}

/* The same, slower than the test that stops the run. */
BENTHIC_METHOD(slow) {
    for (volatile int i = 0; i < 300000; i++)
        ;
    return value();
}

BENTHIC_METHOD(keep) { return (int32_t)-benthic_set_xattr("kept", 4, "1", 1); }

BENTHIC_METHOD(sum) {
    struct benthic_results list;
    uint64_t total = 0;
    int64_t next = benthic_results_begin(&list);
    while (next >= 0 && (next = benthic_results_next(&list)) > 0) {
        benthic_take(text, list.offset, list.len);
        total += (uint64_t)parse(list.len);
    }
    if (next < 0)
        return (int32_t)-next;
    uint32_t from = sizeof text;
    do {
        text[--from] = '0' + total % 10;
        total /= 10;
    } while (total);
    return (int32_t)-benthic_output(text + from, sizeof text - from);
}

BENTHIC_METHOD(trap) { __builtin_trap(); }
"#;

const MANIFEST: &str = r#"{ "class": "tally", "version": 1, "methods": [
    { "method": "value", "reads": true }, { "method": "slow", "reads": true },
    { "method": "keep", "reads": true, "writes": true },
    { "method": "sum", "reads": true, "merges": true }, { "method": "trap", "reads": true, "merges": true } ] }"#;

const MODULE: &str = "tally/tally.wasm";
const OBJECTS: u64 = 600;

/// A store with the pool `p`, to which the class `tally` is deployed.
fn home() -> Home {
    let home = Home::with_pool();
    build(&home, CODE);
    home.ok(&["class", "deploy", MODULE, "--pool", "p"]);
    home
}

fn build(home: &Home, code: &str) {
    if !home.path("tally").exists() {
        home.ok(&["class", "new", "tally", "--lang", "c"]);
    }
    home.file("tally/class.json", MANIFEST);
    home.file("tally/main.c", code);
    home.ok(&["class", "build", "tally"]);
}

/// Stores objects that hold these numbers.
fn fill(home: &Home, to: &str, numbers: impl Iterator<Item = u64>) {
    for (index, number) in numbers.enumerate() {
        home.file(&format!("numbers/an-object-with-a-name-of-a-usual-length-{index:05}"), number.to_string());
    }
    home.ok(&["cp", "-r", "numbers", to]);
    fs::remove_dir_all(home.path("numbers")).unwrap();
}

fn put(home: &Home, object: &str, text: &str) {
    home.file("one", text);
    home.ok(&["put", object, "one"]);
}

const SUM: [&str; 6] = ["map", "p", "tally", "value", "--reduce", "sum"];

fn with<'a>(args: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    [args, more].concat()
}

#[test]
fn the_result_is_that_of_all_objects() {
    let home = home();
    let run = home.run(&SUM);
    assert_eq!((run.status.code(), &run.stdout[..]), (Some(0), &b"0\n"[..]));
    assert!(String::from_utf8_lossy(&run.stderr).contains("no objects here"));

    put(&home, "p/one", "007");
    assert_eq!(home.ok(&SUM), "7\n", "a single result is merged, too");
    put(&home, "p:ns/two", "2");
    assert_eq!(home.ok(&["map", "p:ns", "tally", "value", "--reduce", "sum"]), "2\n");

    // More than a page of the listing.
    let numbers = 4_200;
    fill(&home, "p/many", 1..=numbers);
    let sum = numbers * (numbers + 1) / 2;
    assert_eq!(home.ok(&SUM), format!("{}\n", sum + 7));
    let result = home.json(&with(&SUM, &["--prefix", "many/", "--jobs", "3"])).remove(0);
    assert_eq!(result["result"], sum.to_string());
    assert_eq!((&result["objects"], &result["failed"]), (&numbers.into(), &0.into()));
    let code = ["map", "p", "--code", MODULE, "value", "--reduce", "sum", "--resume", "run"];
    assert_eq!(home.ok(&code), format!("{}\n", sum + 7));
    assert!(!home.path("run").exists(), "nothing is left to continue");
}

#[test]
fn failed_objects_are_listed_and_a_resumed_run_tries_them_again() {
    let home = home();
    fill(&home, "p", [1, 2, 3].into_iter());
    put(&home, "p/bad", "x");
    put(&home, "p/worse", "y");
    let run = home.run(&SUM);
    assert_eq!((run.status.code(), &run.stdout[..]), (Some(1), &b"6\n"[..]));
    let stderr = String::from_utf8_lossy(&run.stderr);
    for text in ["p/bad: not a number", "p/worse: ", "does not include", "failed=2", "2 of 5 failed"] {
        assert!(stderr.contains(text), "{text}: {stderr}");
    }

    let resumed = with(&SUM, &["--resume", "run"]);
    for _ in 0..2 {
        let run = home.run(&with(&["--json"], &resumed));
        assert_eq!(run.status.code(), Some(1));
        let result = json_lines(&run.stdout).remove(0);
        assert_eq!((&result["result"], &result["objects"]), (&"6".into(), &3.into()));
        assert_eq!(result["failed"], 2);
        let stderr = String::from_utf8_lossy(&run.stderr);
        assert!(stderr.contains("benthic --json map p tally value --reduce sum --resume run"), "{stderr}");
    }
    put(&home, "p/bad", "10");
    let run = home.run(&resumed);
    assert_eq!((run.status.code(), &run.stdout[..]), (Some(1), &b"16\n"[..]));
    home.ok(&["rm", "p/worse"]);
    assert_eq!(home.ok(&resumed), "16\n", "an object that is gone does not count");
    assert!(!home.path("run").exists());
}

#[test]
fn the_template_adds_the_words_of_all_objects() {
    let home = Home::with_pool();
    put(&home, "p/one", "one two\nthree");
    put(&home, "p/two", "four");
    home.ok(&["class", "new", "words", "--lang", "rust"]);
    home.ok(&["class", "build", "words"]);
    home.ok(&["class", "deploy", "words/words.wasm"]);
    assert_eq!(home.ok(&["map", "p", "words", "count", "--reduce", "sum"]), "4\n");
    let error = home.fails(6, &["exec", "p/one", "words", "sum", "1234"]);
    assert!(error.contains("not a list of results"), "{error}");
}

/// Sets all objects to 1,000 after a run over ones was stopped, and checks that the next run takes
/// exactly the other objects into the result.
fn check_continues(home: &Home, args: &[&str]) {
    assert!(home.path("run").exists());
    fill(home, "p", (0..OBJECTS).map(|_| 1_000));
    let result = home.json(args).remove(0);
    assert_eq!((&result["objects"], &result["failed"]), (&OBJECTS.into(), &0.into()));
    let sum: u64 = result["result"].as_str().unwrap().parse().unwrap();
    let ones = sum % 1_000;
    assert!(ones > 0 && ones < OBJECTS, "the run was stopped in the middle: {sum}");
    assert_eq!(sum, ones + 1_000 * (OBJECTS - ones));
    assert!(!home.path("run").exists());
}

/// A store with objects that hold 1.
fn ones() -> Home {
    let home = home();
    fill(&home, "p", (0..OBJECTS).map(|_| 1));
    home
}

const SLOW: [&str; 10] = ["map", "p", "tally", "slow", "--reduce", "sum", "--resume", "run", "--jobs", "1"];

/// Waits until a run has saved merged objects.
fn wait_until_saved(file: &Path) {
    wait::until("a saved run", || fs::metadata(file).is_ok_and(|metadata| metadata.len() >= 8_192));
}

#[test]
fn a_killed_run_continues_without_counting_an_object_twice() {
    let home = ones();
    let run = Running::start(home.command(&SLOW));
    wait_until_saved(&home.path("run"));
    // Kills it.
    drop(run);
    check_continues(&home, &SLOW);
}

#[test]
fn an_interrupted_run_names_the_command_that_continues() {
    let home = ones();
    let mut run = Running::start(home.command(&SLOW));
    wait_until_saved(&home.path("run"));
    run.signal(Signal::INT);
    assert_eq!(run.ends_within(Duration::from_secs(10)).code(), Some(130));
    let stderr: Vec<String> = run.stderr.iter().collect();
    let command = format!("the same command continues the run: benthic {}", SLOW.join(" "));
    assert!(stderr.iter().any(|line| line.ends_with(&command)), "{stderr:?}");
    assert_eq!(run.stdout.iter().next(), None, "there is no result yet");
    check_continues(&home, &SLOW);
}

#[test]
fn a_run_that_an_outage_stopped_continues() {
    let home = ones();
    let owner = outage::owner(&home);
    let args = with(&SLOW, &["--outage-wait", "2"]);
    let mut run = Running::start(home.command(&args));
    wait_until_saved(&home.path("run"));
    owner.signal(Signal::STOP);
    assert_eq!(run.ends_within(Duration::from_secs(20)).code(), Some(9));
    let stderr: Vec<String> = run.stderr.iter().collect();
    assert!(stderr.iter().any(|line| line.contains("has not answered for 2 s")), "{stderr:?}");
    owner.signal(Signal::CONT);
    drop(owner);
    check_continues(&home, &SLOW);
}

/// A run with a failed object, which leaves its file.
fn unfinished() -> Home {
    let home = home();
    fill(&home, "p", [1, 2].into_iter());
    put(&home, "p/bad", "x");
    home.fails(1, &with(&SUM, &["--resume", "run"]));
    home
}

#[test]
fn a_damaged_file_is_refused() {
    let home = unfinished();
    let resumed = with(&SUM, &["--resume", "run"]);
    let whole = home.read("run");
    let mut damaged: Vec<Vec<u8>> = (0..whole.len()).step_by(40).map(|at| whole[..at].to_vec()).collect();
    damaged.extend((0..whole.len()).step_by(40).map(|at| {
        let mut damaged = whole.clone();
        damaged[at] ^= 1;
        damaged
    }));
    damaged.push([&whole[..], b"\0"].concat());
    for bytes in damaged {
        home.file("run", &bytes);
        let run = home.run(&resumed);
        let stderr = String::from_utf8_lossy(&run.stderr);
        assert!(!run.status.success() && run.stdout.is_empty(), "{stderr}");
        assert!(stderr.contains("remove it"), "{stderr}");
        assert!(home.read("run") == bytes, "the file is left as it is");
    }
    home.file("run", &whole);
    put(&home, "p/bad", "10");
    assert_eq!(home.ok(&resumed), "13\n");
}

#[test]
fn a_file_of_another_run_is_refused() {
    let home = unfinished();
    home.ok(&["pool", "create", "q"]);
    home.ok(&["class", "deploy", MODULE, "--pool", "q"]);
    let refused = |field: &str, args: &[&str]| {
        let error = home.fails(6, &with(args, &["--resume", "run"]));
        assert!(error.contains(&format!("another run, whose {field} is different")), "{field}: {error}");
    };
    refused("pool", &["map", "q", "tally", "value", "--reduce", "sum"]);
    refused("namespace", &["map", "p:ns", "tally", "value", "--reduce", "sum"]);
    refused("prefix", &with(&SUM, &["--prefix", "a"]));
    refused("method", &["map", "p", "tally", "slow", "--reduce", "sum"]);
    refused("reduce method", &["map", "p", "tally", "value", "--reduce", "trap"]);
    refused("input", &["map", "p", "tally", "value", "other", "--reduce", "sum"]);
    build(&home, &CODE.replace("not a number", "NOT A NUMBER"));
    home.ok(&["class", "deploy", MODULE, "--pool", "p"]);
    refused("module", &SUM);
    home.ok(&["class", "rollback", "tally", "--pool", "p"]);
    // The store, under another path.
    fs::rename(home.path("benthic-data"), home.path("moved")).unwrap();
    refused("store", &with(&["--store", "file:moved"], &SUM));
    fs::rename(home.path("moved"), home.path("benthic-data")).unwrap();
    put(&home, "p/bad", "10");
    assert_eq!(home.ok(&with(&SUM, &["--resume", "run"])), "13\n");
}

#[test]
fn what_cannot_be_mapped_is_refused_with_the_next_step() {
    let home = home();
    put(&home, "p/one", "1");
    let fails = |status, args: &[&str], text: &str| {
        let error = home.fails(status, args);
        assert!(error.contains(text), "{args:?}: {error}");
    };
    fails(6, &["map", "p", "tally", "keep", "--reduce", "sum"], "`benthic exec --all` runs it");
    fails(6, &["map", "p", "tally", "value", "--reduce", "keep"], "does not merge results");
    fails(7, &["map", "p", "tally", "value", "--reduce", "total"], "no such method");
    fails(7, &["map", "p", "tally", "walue", "--reduce", "sum"], "no such method");
    fails(
        7,
        &["map", "p", "digest", "compute", "--reduce", "sum"],
        "`benthic exec --all` runs a native class",
    );
    fails(7, &["map", "p", "missing", "value", "--reduce", "sum"], "no such class");
    fails(6, &["map", "p/one", "tally", "value", "--reduce", "sum"], "--prefix");
    fails(2, &["map", "p", "tally", "value"], "--reduce");
    fails(6, &["map", "p", "--code", MODULE, "value", "", "more", "--reduce", "sum"], "POOL METHOD [INPUT]");
    fails(6, &with(&SUM, &["--resume", "one"]), "not a file of `benthic map --resume`");
    assert_eq!(home.read("one"), b"1");
    fails(3, &with(&SUM, &["--resume", "missing/run"]), "no such directory");
    assert_eq!(home.ok(&["xattr", "ls", "p/one"]), "");
}

#[test]
fn a_merge_that_fails_ends_the_run_without_a_result() {
    let home = home();
    fill(&home, "p", (0..300).map(|_| 1));
    let args = ["map", "p", "tally", "value", "--reduce", "trap", "--resume", "run"];
    let run = home.run(&args);
    assert_eq!((run.status.code(), &run.stdout[..]), (Some(13), &b""[..]));
    let stderr = String::from_utf8_lossy(&run.stderr);
    assert!(stderr.contains("the method that merges results failed: the method trapped"), "{stderr}");
    assert!(stderr.contains("reduce=trap") && stderr.matches("trapped").count() == 1, "{stderr}");
    assert!(home.path("run").exists());
    home.fails(13, &args);
}
