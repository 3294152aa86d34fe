//! A store that does not answer: its owner is stopped, or its disk is full. Nothing waits in
//! silence, and a command over many objects stops in time.

use crate::support::{Home, Running, SAID_WITHIN, json_lines, pattern};
use benthic_testkit::wait;
use rustix::process::Signal;
use serde_json::Value;
use std::process::Command;
use std::time::Duration;

const FILES: usize = 20_000;
/// Time for the end of a program that is about to end.
const SOON: Duration = Duration::from_secs(5);

/// A process that owns the store until it is dropped, even while it is stopped.
pub fn owner(home: &Home) -> Running {
    let owner = Running::start(home.command(&[
        "bench",
        "write",
        "p",
        "--seconds",
        "600",
        "--size",
        "1KiB",
        "--in-flight",
        "1",
    ]));
    while home.ok(&["ls", "p:benthic-bench"]).is_empty() {}
    owner
}

/// Begins a copy of many files through the owner, and stops the owner when the first file is
/// stored.
fn copy_through_an_owner_that_stops(home: &Home, args: &[&str]) -> (Running, Running) {
    for index in 0..FILES {
        home.file(&format!("d/{index:05}"), "");
    }
    let owner = owner(home);
    let copy = Running::start(home.command(&[&["--json", "cp", "-r"], args, &["d", "p"]].concat()));
    copy.stdout.recv_timeout(SOON).unwrap();
    owner.signal(Signal::STOP);
    (owner, copy)
}

/// Reads the rest of the output: the number of reported copies, and the errors.
fn rest(copy: &Running) -> (usize, Vec<Value>) {
    let copied = 1 + copy.stdout.iter().count();
    let errors = copy.stderr.iter().flat_map(|line| json_lines(line.as_bytes()));
    (copied, errors.map(|line| line["error"].clone()).filter(|error| !error.is_null()).collect())
}

#[test]
fn a_command_says_which_process_it_waits_for() {
    let home = Home::with_pool();
    let owner = owner(&home);
    owner.signal(Signal::STOP);
    let silent = Running::start(home.command(&["ls", "p"]));
    let verbose = Running::start(home.command(&["-v", "ls", "p"]));
    let mut json = Running::start(home.command(&["--json", "ls", "p"]));
    let said = json.says("waiting");
    let pid = owner.pid();
    assert_eq!(said["for"], format!("process {pid}"));
    assert!(said["seconds"].as_u64().unwrap() >= 2, "{said}");
    let message = format!(
        "waiting for process {pid}, which owns the store and is stopped; `kill -CONT {pid}` lets it continue"
    );
    assert_eq!(said["message"], message);
    assert_eq!(verbose.stderr.recv_timeout(SAID_WITHIN).unwrap(), format!("benthic: {message}"));

    // The command has done nothing, so one Ctrl-C ends it.
    json.signal(Signal::INT);
    assert_eq!(json.says("waiting")["message"], message);
    assert_eq!(json.ends_within(SOON).code(), Some(130));
    assert_eq!(json.says("error")["kind"], "interrupted");

    // The others continue as soon as the owner does.
    owner.signal(Signal::CONT);
    for mut listing in [silent, verbose] {
        assert_eq!(listing.ends_within(SOON).code(), Some(0));
        assert_eq!(listing.stderr.iter().next(), None);
    }
}

#[test]
fn a_copy_whose_store_stops_answering_ends_at_ctrl_c() {
    let home = Home::with_pool();
    let (owner, mut copy) = copy_through_an_owner_that_stops(&home, &[]);
    assert_eq!(copy.says("waiting")["for"], format!("process {}", owner.pid()));
    copy.signal(Signal::INT);
    let said = copy.says("waiting");
    assert_eq!(said["for"], format!("process {}", owner.pid()), "it answers at once");
    assert!(copy.says("warning")["message"].as_str().unwrap().contains("a second Ctrl-C exits at once"));
    // The operations in flight get no answer, so it does not wait for them for long.
    assert_eq!(copy.ends_within(SOON).code(), Some(130));
    let (copied, errors) = rest(&copy);
    let (last, failed) = errors.split_last().unwrap();
    assert_eq!(last["kind"], "interrupted");
    assert!(
        !failed.is_empty() && failed.iter().all(|error| error["kind"] == "outcome_unknown"),
        "{failed:?}"
    );
    owner.signal(Signal::CONT);
    let listed = home.ok(&["ls", "p"]).lines().count();
    assert!((copied..=copied + failed.len()).contains(&listed), "{copied} {} {listed}", failed.len());
}

#[test]
fn a_second_ctrl_c_ends_a_copy_at_once_with_its_failures() {
    let home = Home::with_pool();
    let (_owner, mut copy) = copy_through_an_owner_that_stops(&home, &[]);
    // Before, it may still have answers to read, and nothing in flight.
    copy.says("waiting");
    copy.signal(Signal::INT);
    // Two signals at the same time could arrive as one.
    wait::pause(Duration::from_millis(100));
    copy.signal(Signal::INT);
    assert_eq!(copy.ends_within(Duration::from_millis(1_500)).code(), Some(130));
    let errors = rest(&copy).1;
    assert!(errors.len() > 1 && errors[0]["kind"] == "outcome_unknown", "{errors:?}");
    assert_eq!(errors.last().unwrap()["kind"], "interrupted");
}

#[test]
fn a_copy_stops_when_the_store_has_not_answered_in_time() {
    let home = Home::with_pool();
    let (owner, mut copy) = copy_through_an_owner_that_stops(&home, &["--outage-wait", "3"]);
    copy.says("waiting");
    assert_eq!(copy.ends_within(2 * SOON).code(), Some(9));
    let (copied, errors) = rest(&copy);
    let (stopped, failed) = errors.split_last().unwrap();
    assert_eq!(stopped["kind"], "unavailable");
    let not_tried: usize = stopped["context"]["not_tried"].as_str().unwrap().parse().unwrap();
    assert_eq!(copied + failed.len() + not_tried, FILES, "every file is accounted for");
    assert!(failed.len() <= 16, "{failed:?}");
    assert!(home.fails(2, &["cp", "--outage-wait", "0", "-r", "d", "p"]).contains("above 0"));
    // The owner may have received some of the failed copies before it stopped.
    drop(owner);
    let listed = home.ok(&["ls", "p"]).lines().count();
    assert!((copied..=copied + failed.len()).contains(&listed), "{copied} {} {listed}", failed.len());
}

#[test]
fn a_removal_and_a_call_of_many_stop_when_the_store_has_not_answered_in_time() {
    let home = Home::with_pool();
    for index in 0..2_000 {
        home.file(&format!("d/{index:04}"), "");
    }
    home.ok(&["cp", "-r", "d", "p"]);
    let objects: Vec<String> = (0..2_000).map(|index| format!("p/{index:04}")).collect();
    let objects: Vec<&str> = objects.iter().map(String::as_str).collect();
    let removal = [&["--json", "rm", "--outage-wait", "3"], &objects[..]].concat();
    for call in [&["--json", "exec", "--all", "--outage-wait", "3", "p", "digest", "md5"][..], &removal] {
        let owner = owner(&home);
        let mut command = Running::start(home.command(call));
        command.stdout.recv_timeout(SOON).unwrap();
        owner.signal(Signal::STOP);
        assert_eq!(command.ends_within(2 * SOON).code(), Some(9), "{:?}", call[1]);
        let errors = rest(&command).1;
        assert!(!errors.last().unwrap()["context"]["not_tried"].is_null(), "{errors:?}");
    }
}

/// Runs the program on a disk of 24 MiB, which fills up. The disk is a tmpfs in a mount namespace
/// of the shell, so it disappears with the shell.
#[test]
fn a_full_disk_stops_a_copy_after_a_few_failures() {
    const FILES: usize = 150;
    let home = Home::bare();
    for index in 0..FILES {
        home.file(&format!("d/{index:03}"), pattern(300_000));
    }
    std::fs::create_dir(home.path("disk")).unwrap();
    let script = r#"mount -t tmpfs -o size=24m none disk || exit 99
        export BENTHIC_STORE=file:disk/store
        "$0" pool create p || exit 98
        "$0" --json cp -r d p >copied 2>failed; echo $? >status
        "$0" ls p >listed"#;
    let run = |flags: &str| {
        let mut command = Command::new("unshare");
        command.args([flags, "sh", "-c", script, env!("CARGO_BIN_EXE_benthic")]).current_dir(home.dir());
        command.status().unwrap().success()
    };
    assert!(["-m", "-rm"].into_iter().any(run), "this test mounts a file system: run it as root");
    let lines = |name: &str| String::from_utf8(home.read(name)).unwrap().lines().count();
    assert_eq!(home.read("status"), b"11\n");
    let mut errors = json_lines(&home.read("failed"));
    let stopped = errors.pop().unwrap()["error"].clone();
    assert_eq!(stopped["kind"], "limit_exceeded");
    let not_tried: usize = stopped["context"]["not_tried"].as_str().unwrap().parse().unwrap();
    assert!(not_tried > 0 && errors.len() <= 3 + 16, "{not_tried} {}", errors.len());
    assert_eq!(lines("copied"), lines("listed"));
    assert_eq!(lines("copied") + errors.len() + not_tried, FILES, "every file is accounted for");
}
