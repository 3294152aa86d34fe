//! `benthic class test`: cases, the functions in which a call ended, and profiles. The tests need
//! clang.

use crate::support::Home;
use serde_json::{Value, json};
use std::fs;

/// A class whose method `divide` traps two functions deep, `deep` recurses, `spoil` fails
/// after a change, and `copy` stores its input. `work` spends nearly all of its fuel in `busy`.
const CODE: &str = r#"
#include "benthic.h"
static volatile uint32_t zero;
__attribute__((noinline)) uint32_t divide_by(uint32_t n) { return 100 / n; }
__attribute__((noinline)) uint32_t parse_line(void) { return divide_by(zero) + 1; }
BENTHIC_METHOD(divide) { return parse_line() == 7; }
__attribute__((noinline)) uint32_t recurse(uint32_t n) { return zero + n == 7 ? 0 : recurse(n + zero) + recurse(n); }
BENTHIC_METHOD(deep) { return recurse(1); }
BENTHIC_METHOD(spoil) { benthic_write_full("spoiled", 7); return 16; }
BENTHIC_METHOD(copy) {
    char buffer[16];
    int64_t len = benthic_input();
    benthic_take(buffer, 0, (uint32_t)len);
    benthic_write_full(buffer, len);
    benthic_set_xattr("copy", 4, buffer, len);
    return 0;
}
__attribute__((noinline)) void busy(uint32_t n) { for (uint32_t i = 0; i < n; i++) zero = 0; }
__attribute__((noinline)) void idle(void) { busy(zero + 10); }
BENTHIC_METHOD(work) {
    for (int i = 0; i < 3; i++) idle();
    busy(zero + 1000);
    return (int32_t)-benthic_output("a\xff", 2);
}
"#;

/// The directory `odd` with the class, and these cases.
fn class(cases: &Value) -> Home {
    let home = Home::bare();
    home.ok(&["class", "new", "odd", "--lang", "c"]);
    let method = |name, writes| json!({ "method": name, "reads": true, "writes": writes });
    let mut methods: Vec<Value> = ["divide", "deep", "work"].map(|name| method(name, false)).into();
    methods.push(method("spoil", true));
    methods.push(method("copy", true));
    methods[4]["result_xattr"] = json!("copy");
    fs::write(home.path("odd/main.c"), CODE).unwrap();
    let manifest = json!({ "class": "odd", "version": 1, "methods": methods });
    fs::write(home.path("odd/class.json"), manifest.to_string()).unwrap();
    fs::write(home.path("odd/cases.json"), cases.to_string()).unwrap();
    home
}

#[test]
fn the_template_passes_its_cases() {
    for lang in ["rust", "c"] {
        let home = Home::bare();
        home.ok(&["class", "new", "words", "--lang", lang]);
        let printed = home.ok(&["class", "test", "words"]);
        assert!(printed.contains("ok      count counts words, fuel "), "{printed}");
        assert!(printed.ends_with("3 cases passed, 0 failed\n"), "{printed}");
        assert_eq!(home.ok(&["class", "test", "words/words.wasm", "--filter", "empty"]).lines().count(), 2);
        let profile = home.ok(&["class", "test", "words", "--profile"]);
        assert!(profile.contains(if lang == "rust" { "  words::keep\n" } else { "  count\n" }), "{profile}");
        assert!(!home.path("benthic-data").exists(), "it needs no store");
    }
}

#[test]
fn cases_compare_what_they_name() {
    let copied = json!({ "object": "new", "xattrs": { "copy": "new", "kept": "1", "none": null }, "omap": { "k": "v", "none": null } });
    let mut with_output = copied.clone();
    with_output["output"] = json!("new");
    let object = json!({ "object": "old", "xattrs": { "kept": "1" }, "omap": { "k": "v" }, "method": "copy", "input": "new" });
    let case = |name: &str, fields: Value, expect: &Value| {
        let mut case = fields;
        case["name"] = json!(name);
        case["expect"] = expect.clone();
        case
    };
    let of = |method: &str| json!({ "object": "old", "method": method });
    let cases = json!([
        case("copied", object.clone(), &with_output),
        case(
            "created",
            json!({ "method": "copy", "input": { "base64": "/wA=" } }),
            &json!({ "object": { "base64": "/wA=" } })
        ),
        case(
            "from a file",
            json!({ "method": "copy", "input": { "file": "input.txt" } }),
            &json!({ "output": { "file": "input.txt" } })
        ),
        case("binary", of("work"), &json!({ "output": { "base64": "Yf8=" } })),
        case(
            "missing",
            json!({ "object": null, "method": "work" }),
            &json!({ "error": "not_found", "object": null })
        ),
        case(
            "spoiled",
            of("spoil"),
            &json!({ "error": "busy", "error_contains": "without a message", "object": "old" })
        ),
        case("wrong output", of("work"), &json!({ "output": "b\n" })),
        case(
            "wrong object",
            object.clone(),
            &json!({ "object": null, "xattrs": { "copy": null }, "omap": { "k": "w" } })
        ),
        case("wrong kind", of("spoil"), &json!({ "error": "conflict" })),
        case("wrong text", of("spoil"), &json!({ "error": "busy", "error_contains": "else" })),
        case("no error", of("work"), &json!({ "error_contains": "x" })),
        case("an error", of("spoil"), &json!({})),
        case("no such method", of("other"), &json!({})),
    ]);
    let home = class(&cases);
    fs::write(home.path("odd/input.txt"), "from a file").unwrap();
    let printed = home.run(&["--json", "class", "test", "odd"]);
    assert_eq!(printed.status.code(), Some(1));
    let lines = crate::support::json_lines(&printed.stdout);
    let failed: Vec<&str> =
        lines.iter().filter(|line| line["ok"] == false).map(|line| line["case"].as_str().unwrap()).collect();
    assert_eq!(
        failed,
        [
            "wrong output",
            "wrong object",
            "wrong kind",
            "wrong text",
            "no error",
            "an error",
            "no such method"
        ]
    );
    assert_eq!(lines.last().unwrap(), &json!({ "passed": 6, "failed": 7 }));
    assert!(lines[0]["fuel"].as_u64().unwrap() > 3_000, "{}", lines[0]);
    let differences = |index: usize| lines[index]["differences"].as_array().unwrap().clone();
    assert_eq!(differences(6), [json!({ "what": "output", "expected": "\"b\\n\"", "actual": "\"a\\xff\"" })]);
    assert_eq!(
        differences(7),
        [
            json!({ "what": "object", "expected": "missing", "actual": "\"new\"" }),
            json!({ "what": "attribute copy", "expected": "missing", "actual": "\"new\"" }),
            json!({ "what": "omap k", "expected": "\"w\"", "actual": "\"v\"" }),
        ]
    );
    let again = home.run(&["--json", "class", "test", "odd"]);
    assert_eq!(printed.stdout, again.stdout, "fuel is deterministic");
}

#[test]
fn a_failed_case_says_where_the_call_ended() {
    let case = |method: &str| json!({ "name": method, "object": "", "method": method, "expect": {} });
    let home = class(&json!([case("divide"), case("deep")]));
    let shows = |args: &[&str], parts: &[&str]| {
        let run = home.run(args);
        let printed = String::from_utf8(run.stdout).unwrap();
        assert_eq!(run.status.code(), Some(1), "{printed}");
        parts.iter().for_each(|part| assert!(printed.contains(part), "{part}: {printed}"));
    };
    shows(
        &["class", "test", "odd"],
        &[
            "class_failed: the method trapped: ",
            "; in divide_by < parse_line < divide\n",
            "recursion is too deep; in recurse < recurse < ",
            "recurse < ...\n",
        ],
    );
    // Names from a module that somebody else built.
    let module = home.path("odd/odd.wasm");
    let wasm = fs::read(&module).unwrap();
    let renamed = |name: &[u8; 9]| {
        let at = wasm.windows(9).position(|part| part == b"divide_by").unwrap();
        let mut wasm = wasm.clone();
        wasm[at..at + 9].copy_from_slice(name);
        fs::write(&module, wasm).unwrap();
    };
    let args = ["class", "test", "odd/odd.wasm", "--filter", "divide"];
    renamed(b"a\x1b[2J\nb\x07c");
    shows(&args, &["; in a?[2J?b?c < parse_line < divide\n"]);
    renamed(b"\xff\xff\xff\xff\xff\xff\xff\xff\xff");
    shows(&args, &["; in func["]);
    // A panic in Rust.
    home.ok(&["class", "new", "words", "--lang", "rust"]);
    let code = String::from_utf8(home.read("words/src/lib.rs")).unwrap();
    let code =
        code.replace("let words = data", "assert!(data.len() < 10, \"too long\");\n    let words = data");
    fs::write(home.path("words/src/lib.rs"), code).unwrap();
    shows(&["class", "test", "words"], &["panicked: ", "; in words::"]);
}

#[test]
fn the_profile_shows_the_functions_that_use_the_most_fuel() {
    let case = json!({ "name": "work", "object": "", "method": "work", "expect": {} });
    let home = class(&json!([case]));
    let lines = home.json(&["class", "test", "odd", "--profile"]);
    let fuel = lines[0]["fuel"].as_u64().unwrap();
    let function = |name: &str| {
        lines.iter().find(|line| line["function"] == name).unwrap_or_else(|| panic!("{name}: {lines:?}"))
    };
    let number = |name: &str, key: &str| function(name)[key].as_u64().unwrap();
    assert_eq!(lines[2]["function"], "busy", "{lines:?}");
    assert_eq!((number("busy", "calls"), number("idle", "calls"), number("work", "calls")), (4, 3, 1));
    assert!(function("busy")["percent"].as_f64().unwrap() > 50.0, "{lines:?}");
    assert!(number("idle", "self_fuel") < number("idle", "total_fuel"), "{lines:?}");
    // All functions together use what the call uses, except what a new instance costs: its memory
    // has 128 KiB.
    let fuel = fuel - 128 * 1024 / 64;
    let sum: u64 = lines[2..].iter().map(|line| line["self_fuel"].as_u64().unwrap()).sum();
    assert!(sum.abs_diff(fuel) < 200, "{sum} of {fuel}: {lines:?}");
    assert!(number("work", "total_fuel").abs_diff(fuel) < 200, "{lines:?}");
    let printed = home.ok(&["class", "test", "odd", "--profile"]);
    assert!(printed.contains("self fuel  share") && printed.contains("%"), "{printed}");
}

#[test]
fn mistakes_in_the_cases_get_an_error_with_the_place() {
    let home = class(&json!([]));
    let fails = |status, cases: Value, text: &str| {
        fs::write(home.path("odd/cases.json"), cases.to_string()).unwrap();
        let error = home.fails(status, &["class", "test", "odd"]);
        assert!(error.contains(text), "{error}");
    };
    let case = |more: Value| {
        let mut case = json!({ "name": "one", "object": "", "method": "work", "expect": {} });
        case.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!([case])
    };
    fails(3, json!([]), "no case");
    fails(6, json!({}), "the cases are not valid");
    fails(6, case(json!({ "objekt": "" })), "unknown field `objekt`");
    fails(6, case(json!({ "input": 5 })), "text is a string");
    fails(6, case(json!({ "input": { "base64": "*" } })), "not Base64");
    fails(3, case(json!({ "input": { "file": "missing.bin" } })), "missing.bin");
    fails(6, case(json!({ "expect": { "error": "Broken" } })), "the kinds are not_found");
    fails(6, case(json!({ "expect": { "error": "busy", "output": "" } })), "not both");
    fails(6, case(json!({ "object": null, "omap": { "a": "b" } })), "has no attributes");
    let large = fs::File::create(home.path("odd/large")).unwrap();
    large.set_len(32 * 1024 * 1024 + 1).unwrap();
    fails(11, case(json!({ "object": { "file": "large" } })), "too large");
    fs::File::create(home.path("odd/cases.json")).unwrap().set_len(16 * 1024 * 1024 + 1).unwrap();
    assert!(home.fails(11, &["class", "test", "odd"]).contains("too large"));
    fs::write(home.path("odd/cases.json"), "[{").unwrap();
    assert!(home.fails(6, &["class", "test", "odd"]).contains("line 1"));
    fs::remove_file(home.path("odd/cases.json")).unwrap();
    assert!(home.fails(3, &["class", "test", "odd"]).contains("--cases"));
    home.ok(&["class", "new", "native"]);
    assert!(home.fails(7, &["class", "test", "native"]).contains("cargo test"));
}
