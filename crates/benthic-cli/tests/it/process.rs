//! The program as a process: usage errors, pipes, signals, concurrent runs.

use crate::support::{Home, json_lines, tree};
use benthic_testkit::program::{check_help, check_hidden_help};
use benthic_testkit::wait;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Stdio};

fn interrupt(child: &Child) {
    signal(child, Signal::INT);
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

#[test]
fn usage_errors_have_their_status_and_help_goes_to_stdout() {
    let home = Home::bare();
    for args in [&["no-such-verb"][..], &["put"], &["stat", "p/o", "extra"], &["--no-such-option"], &[]] {
        assert!(!home.fails(2, args).is_empty());
    }
    let error = home.fails_with("usage", &["no-such-verb"]);
    assert!(error["message"].as_str().unwrap().contains("no-such-verb"));
    for args in [&["--help"][..], &["cp", "--help"], &["help", "exec"]] {
        assert!(home.ok(args).contains("Example"), "{args:?}");
    }
    assert!(home.ok(&["--help"]).contains("12  corrupt"));
    assert!(home.fails(2, &["delete", "p/o"]).contains("'rm'"));
    assert!(home.fails(2, &["sync", "d", "p"]).contains("'mirror'"));
    assert!(home.ok(&["--version"]).starts_with("benthic "));
}

#[test]
fn help_groups_the_commands() {
    let help = Home::bare().ok(&["--help"]);
    let mut group = "";
    let group_of: std::collections::HashMap<&str, &str> = help
        .lines()
        .filter_map(|line| {
            if !line.starts_with(' ') {
                group = line;
            }
            Some((line.strip_prefix("  ")?.split_whitespace().next()?, group))
        })
        .collect();
    for (command, heading) in [
        ("put", "Commands for pools and objects:"),
        ("mirror", "Commands for pools and objects:"),
        ("class", "Commands for classes:"),
        ("sql", "Commands for tables, SQL, arrays and S3:"),
        ("health", "Commands for Ceph clusters:"),
        ("scrub", "Commands for measuring and checking:"),
        ("--store", "Options:"),
    ] {
        assert_eq!(group_of.get(command), Some(&heading), "{command}: {help}");
    }
}

#[test]
fn a_usage_line_does_not_depend_on_the_options_that_are_set() {
    let home = Home::bare();
    for args in
        [&["put"][..], &["--store", "mem:", "put"], &["put", "--json=1"], &["-v", "put", "p/o", "f", "g"]]
    {
        let run = home.command(args).env("BENTHIC_STORE", "file:other").output().unwrap();
        let stderr = String::from_utf8(run.stderr).unwrap();
        assert_eq!(run.status.code(), Some(2));
        assert!(stderr.contains("\nUsage: benthic put [OPTIONS] <OBJECT> <FILE>\n"), "{args:?}: {stderr}");
    }
    assert!(home.ok(&["put", "--help"]).contains("\nUsage: benthic put [OPTIONS] <OBJECT> <FILE>\n"));
    let stderr = home.fails(2, &["--store", "mem:", "pool", "creat"]);
    assert!(
        stderr.contains("Usage: benthic pool [OPTIONS] <COMMAND>") && stderr.contains("'create'"),
        "{stderr}"
    );
}

#[test]
fn the_message_of_an_error_does_not_repeat_its_context() {
    let home = Home::with_pool();
    let error = home.fails_with("not_found", &["stat", "p/missing"]);
    assert_eq!(
        (&error["message"], &error["context"]["object"]),
        (&json!("no such object"), &json!("p/missing"))
    );
    home.file("f", "x");
    let error = home.fails_with("not_found", &["put", "p/o", "none"]);
    assert_eq!(
        (&error["message"], &error["context"]["path"]),
        (&json!("cannot read the file: no such file or directory"), &json!("none"))
    );
    let run = home.run(&["--json", "rm", "p/a", "p/b"]);
    let error = &json_lines(&run.stderr)[0]["error"];
    assert_eq!((&error["message"], &error["subject"]), (&json!("no such object"), &json!("p/a")));
    assert_eq!(home.fails(3, &["put", "p/o", "none"]).matches("none").count(), 1, "text has it once too");
}

#[test]
fn every_command_has_help_with_an_example() {
    check_help(env!("CARGO_BIN_EXE_benthic"), &["benthic"], &["sql", "table", "array", "s3", "csi"]);
    check_hidden_help(env!("CARGO_BIN_EXE_benthic"), &["benthic", "cluster", "wan"]);
}

#[test]
fn every_shell_gets_its_completions() {
    let home = Home::bare();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = home.ok(&["completions", shell]);
        for word in ["benthic", "scrub", "mirror", "to-store", "older"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
    home.fails(2, &["completions", "tcl"]);
}

#[test]
fn a_closed_pipe_ends_the_program_quietly() {
    let home = Home::bare();
    let script = home.ok(&["completions", "bash"]);
    assert!(script.len() > 65_536 + 10, "more than a pipe holds: {}", script.len());
    let mut command = home.command(&["completions", "bash"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut [0; 10]).unwrap();
    drop(stdout);
    let run = child.wait_with_output().unwrap();
    assert_eq!((run.status.code(), run.stderr.as_slice()), (Some(0), &b""[..]));
}

#[test]
fn a_closed_pipe_does_not_cut_short_work() {
    let home = Home::with_pool();
    let files = 1_000;
    for index in 0..files {
        home.file(&format!("tree/{index:04}"), index.to_string());
    }
    // Reads a few bytes of the output and closes the pipe, as `head` does.
    let close_early = |args: &[&str]| {
        let mut command = home.command(args);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdout.take().unwrap().read_exact(&mut [0; 10]).unwrap();
        let run = child.wait_with_output().unwrap();
        assert_eq!(String::from_utf8_lossy(&run.stderr), "", "{args:?}");
        run.status.code()
    };
    assert_eq!(close_early(&["--json", "cp", "-r", "tree", "p"]), Some(0));
    assert_eq!(home.ok(&["ls", "p"]).lines().count(), files);
    assert_eq!(close_early(&["--json", "exec", "--all", "p", "digest", "md5"]), Some(0));
    for object in ["p/0000", "p/0500", "p/0999"] {
        home.ok(&["xattr", "get", object, "digest.md5"]);
    }
    assert_eq!(close_early(&["--json", "cp", "-r", "p/", "back"]), Some(0));
    assert_eq!(tree(&home.path("back")).len(), files);
    // The exit status reports failures of the work.
    let objects: Vec<String> = (0..=files).map(|index| format!("p/{index:04}")).collect();
    let objects: Vec<&str> = objects.iter().map(String::as_str).collect();
    let mut command = home.command(&[&["rm"], &objects[..]].concat());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(1), "p/1000 does not exist");
    assert_eq!(home.ok(&["ls", "p"]), "");
}

#[test]
fn verbose_logs_to_stderr_only() {
    let home = Home::with_pool();
    let run = home.run(&["-vv", "pool", "ls"]);
    assert_eq!(run.stdout, b"p\n");
    assert!(home.run(&["pool", "ls"]).stderr.is_empty());
}

#[test]
fn an_interrupted_copy_leaves_complete_objects_and_can_continue() {
    let home = Home::with_pool();
    let files = 2_000;
    for index in 0..files {
        home.file(&format!("d/{index:04}"), index.to_string());
    }
    let mut command = home.command(&["--json", "cp", "-r", "--jobs", "1", "d", "p"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let first = lines.next().unwrap().unwrap();
    interrupt(&child);
    let reported: Vec<String> = std::iter::once(first).chain(lines.map(Result::unwrap)).collect();
    let run = child.wait_with_output().unwrap();
    assert_eq!(run.status.code(), Some(130));
    assert_eq!(json_lines(&run.stderr).pop().unwrap()["error"]["kind"], "interrupted");
    assert!(reported.len() < files, "it was interrupted");
    // Every reported line has an object, and the next run copies only the rest.
    let listed = home.ok(&["ls", "p"]).lines().count();
    assert!(listed >= reported.len());
    let run = home.ok(&["cp", "-r", "d", "p"]);
    assert!(run.starts_with(&format!("copied {} ", files - listed)), "{run}, {listed} were there");
}

#[test]
fn waiting_for_input_can_be_interrupted() {
    let home = Home::with_pool();
    let mut command = home.command(&["put", "p/o", "-"]);
    let mut child = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let stdin = child.stdin.take();
    // The signal may arrive before the program has installed its handler, and a pipe does not show
    // when it has. The test therefore repeats the signal until the process ends.
    let ended = loop {
        wait::pause(std::time::Duration::from_millis(200));
        interrupt(&child);
        if let Some(ended) = child.try_wait().unwrap() {
            break ended;
        }
    };
    drop(stdin);
    assert_eq!(ended.code(), Some(130));
    assert_eq!(home.ok(&["ls", "p"]), "");
}

#[test]
fn an_interrupted_benchmark_removes_its_objects() {
    let home = Home::with_pool();
    for what in ["write", "rand"] {
        let mut command = home.command(&["bench", what, "p", "--seconds", "600", "--size", "1KiB"]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        while home.ok(&["ls", "p:benthic-bench"]).is_empty() {
            assert!(child.try_wait().unwrap().is_none(), "it runs");
        }
        interrupt(&child);
        assert_eq!(child.wait().unwrap().code(), Some(130));
        assert_eq!(home.ok(&["ls", "p", "--all-namespaces"]), "");
    }
}

#[test]
fn sigterm_sets_the_exit_status() {
    let home = Home::with_pool();
    let mut command = home.command(&["bench", "write", "p", "--seconds", "600", "--size", "1KiB"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    while home.ok(&["ls", "p:benthic-bench"]).is_empty() {
        assert!(child.try_wait().unwrap().is_none(), "it runs");
    }
    signal(&child, Signal::TERM);
    assert_eq!(child.wait().unwrap().code(), Some(143));
}

#[test]
fn a_second_process_works_while_the_first_owns_the_store() {
    let home = Home::with_pool();
    home.file("f", "data");
    let mut command = home.command(&["bench", "write", "p", "--seconds", "600", "--size", "1KiB"]);
    let mut owner = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    while home.ok(&["ls", "p:benthic-bench"]).is_empty() {
        assert!(owner.try_wait().unwrap().is_none(), "it runs");
    }
    home.ok(&["put", "p/o", "f"]);
    assert_eq!(home.ok(&["exec", "p/o", "digest", "crc32c"]).trim_end().len(), 8);
    owner.kill().unwrap();
    owner.wait().unwrap();
    assert_eq!(home.ok(&["get", "p/o", "-"]), "data");
    assert!(!tree(&home.path("benthic-data")).is_empty());
}
