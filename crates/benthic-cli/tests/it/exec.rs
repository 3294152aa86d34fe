//! exec and class.

use crate::support::{Home, json_lines, printed};
use serde_json::json;

const MD5_OF_ABC: &str = "900150983cd24fb0d6963f7d28e17f72";

fn home_with_abc() -> Home {
    let home = Home::with_pool();
    home.file("abc", "abc");
    home.ok(&["put", "p/abc", "abc"]);
    home
}

#[test]
fn a_method_prints_its_output_or_the_attribute_that_it_keeps() {
    let home = home_with_abc();
    let line = format!("{MD5_OF_ABC}\n");
    assert_eq!(home.ok(&["exec", "p/abc", "digest", "compute", "md5"]), line);
    assert_eq!(home.ok(&["xattr", "ls", "p/abc"]), "");
    assert_eq!(home.ok(&["exec", "p/abc", "digest", "md5"]), line);
    assert_eq!(home.ok(&["xattr", "get", "p/abc", "digest.md5"]), MD5_OF_ABC);
    assert_eq!(home.ok(&["exec", "p/abc", "digest", "md5", r#"{"repeat":3}"#]), line);
    home.file("input", "md5");
    assert_eq!(home.ok(&["exec", "p/abc", "digest", "compute", "@input"]), line);
    let piped = home.pipe(&["exec", "p/abc", "digest", "compute", "-"], b"md5");
    assert_eq!(printed(&piped, &["exec"]), line);
    assert_eq!(
        home.json(&["exec", "p/abc", "digest", "md5"]),
        [json!({
            "pool": "p",
            "namespace": "",
            "object": "abc",
            "class": "digest",
            "method": "md5",
            "output": MD5_OF_ABC,
        })]
    );
}

#[test]
fn a_call_that_cannot_run_explains_the_reason() {
    let home = home_with_abc();
    assert!(home.fails(7, &["exec", "p/abc", "nothing", "md5"]).contains("benthic class ls"));
    assert!(home.fails(7, &["exec", "p/abc", "digest", "nothing"]).contains("benthic class show"));
    for (args, meant) in [
        (&["exec", "p/abc", "digst", "md5"][..], "did you mean \"digest\"?"),
        (&["exec", "p/abc", "digest", "mdd5"], "did you mean \"md5\"?"),
        (&["exec", "--all", "p", "digest", "mdd5"], "did you mean \"md5\"?"),
        (&["exec", "p/abc", "digest", "nothing"], "benthic class show digest"),
    ] {
        assert!(home.fails(7, args).contains(meant), "{args:?}");
    }
    home.fails(6, &["exec", "p/abc", "digest", "compute", "rot13"]);
    assert!(home.fails(3, &["exec", "p/missing", "digest", "md5"]).contains("p/missing"));
    assert!(home.fails(6, &["exec", "p", "digest", "md5"]).contains("--all"));
    assert!(home.fails(6, &["exec", "--all", "p/abc", "digest", "md5"]).contains("--prefix"));
    home.fails(3, &["exec", "p/abc", "digest", "compute", "@no-such-file"]);
    assert!(home.fails(2, &["exec", "--jobs", "2", "p/abc", "digest", "md5"]).contains("--all"));
}

#[test]
fn only_text_gets_a_line_end() {
    let home = Home::with_pool();
    for (content, printed) in
        [(&b"text"[..], &b"text\n"[..]), (b"line\n", b"line\n"), (b"\xff\0", b"\xff\0"), (b"", b"")]
    {
        // `replay` returns this attribute.
        assert!(home.pipe(&["xattr", "set", "p/o", "hello.greeting", "-"], content).status.success());
        assert_eq!(home.run(&["exec", "p/o", "hello", "replay"]).stdout, printed);
    }
}

#[test]
fn a_panic_of_a_method_is_reported_once() {
    let home = home_with_abc();
    let stderr = home.fails(13, &["exec", "p/abc", "hello", "panic"]);
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    let run = home.run(&["-vv", "exec", "p/abc", "hello", "panic"]);
    let log = String::from_utf8(run.stderr).unwrap();
    assert!(log.contains("as its name says") && !log.contains('\u{1b}'), "{log}");
}

#[test]
fn all_objects_get_a_line_each_and_failures_come_last() {
    let home = home_with_abc();
    home.file("empty", "");
    home.ok(&["put", "p/x/1", "abc"]);
    home.ok(&["put", "p/x/2", "empty"]);
    home.ok(&["put", "p:ns/other", "empty"]);
    let lines = |args: &[&str]| -> Vec<String> {
        let mut lines: Vec<String> = home.ok(args).lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let empty = "d41d8cd98f00b204e9800998ecf8427e";
    assert_eq!(
        lines(&["exec", "--all", "--prefix", "x/", "--jobs", "2", "p", "digest", "md5"]),
        [format!("x/1\t{MD5_OF_ABC}"), format!("x/2\t{empty}")]
    );
    assert_eq!(lines(&["exec", "--all", "p:ns", "digest", "md5"]), [format!("other\t{empty}")]);

    // p/abc has no stored digest to compare with.
    let run = home.run(&["exec", "--all", "p", "digest", "verify"]);
    assert_eq!(run.status.code(), Some(1));
    assert_eq!(String::from_utf8_lossy(&run.stdout).lines().count(), 2);
    let stderr = String::from_utf8_lossy(&run.stderr).into_owned();
    assert!(stderr.contains("p/abc: ") && stderr.contains("1 of 3 failed"), "{stderr}");
    let run = home.run(&["--json", "exec", "--all", "p", "digest", "verify"]);
    assert!(json_lines(&run.stdout).iter().all(|line| line["output"].as_str().unwrap().contains("md5")));
    assert_eq!(json_lines(&run.stderr)[0]["error"]["kind"], "not_found");

    home.fails(7, &["exec", "--all", "p", "digest", "nothing"]);
    let run = home.run(&["exec", "--all", "--prefix", "none", "p", "digest", "md5"]);
    assert_eq!(printed(&run, &["exec"]), "");
    assert!(String::from_utf8_lossy(&run.stderr).contains("no objects here"));
}

#[test]
fn classes_are_listed_and_shown() {
    let home = Home::with_pool();
    let names: Vec<_> = home.json(&["class", "ls"]).into_iter().map(|class| class["class"].clone()).collect();
    assert_eq!(names, ["bucket", "digest", "hello", "lock", "picture", "select", "wasm"]);
    let page = home.ok(&["class", "show", "digest"]);
    for part in [
        "md5 (reads and writes)",
        "input:",
        "output:",
        "kept in: attribute digest.md5",
        "example: benthic exec",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    let class = home.json(&["class", "show", "digest"]).remove(0);
    let method =
        class["methods"].as_array().unwrap().iter().find(|method| method["method"] == "md5").unwrap();
    assert_eq!((&method["reads"], &method["writes"]), (&json!(true), &json!(true)));
    assert_eq!(method["result_xattr"], "digest.md5");
    assert!(home.fails(7, &["class", "show", "digst"]).contains("did you mean \"digest\"?"));
}

#[test]
fn the_examples_of_a_class_work() {
    let home = home_with_abc();
    home.ok(&["exec", "p/abc", "digest", "md5"]);
    for method in home.json(&["class", "show", "digest"])[0]["methods"].as_array().unwrap() {
        for input in method["examples"].as_array().unwrap() {
            let output = home.ok(&[
                "exec",
                "p/abc",
                "digest",
                method["method"].as_str().unwrap(),
                input.as_str().unwrap(),
            ]);
            assert!(!output.is_empty(), "{method} {input}");
        }
    }
}
