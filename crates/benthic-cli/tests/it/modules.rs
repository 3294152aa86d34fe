//! Classes that are WebAssembly modules: from a template to a result. The tests need the compilers
//! of the languages; `make test` installs them.

use crate::support::{Home, failed, json_lines, printed, run_block};
use serde_json::Value;
use std::env;
use std::fs;
use std::path::Path;

/// A store with the pool `logs` and an object of four words.
fn home() -> Home {
    let home = Home::bare();
    home.ok(&["pool", "create", "logs"]);
    let file = home.file("text", "one two\nthree  four\n");
    home.ok(&["put", "logs/today", file.to_str().unwrap()]);
    home
}

/// Creates and builds a class, and returns the path of its module.
fn build(home: &Home, name: &str, lang: &str) -> String {
    home.ok(&["class", "new", name, "--lang", lang]);
    try_build(home, name).unwrap()
}

/// Builds a class with the compilers that `make wasm-compilers` installs, and returns the path of
/// its module. `None` if its compiler is missing here. Continuous integration has all compilers.
#[expect(clippy::print_stderr, reason = "the output of a test names what it skips")]
fn try_build(home: &Home, name: &str) -> Option<String> {
    let built = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target");
    let installed = ["zig-env/bin", "assemblyscript/node_modules/.bin"].map(|dir| format!("{built}/{dir}"));
    let path = [&installed[..], &[env::var("PATH").unwrap()]].concat().join(":");
    let args = ["--json", "class", "build", name];
    let run = home.command(&args).env("PATH", path).output().unwrap();
    let error = String::from_utf8_lossy(&run.stderr);
    let is_missing = error.contains("is missing; install") || error.contains("go.mod requires go >=");
    if is_missing && env::var("CI").as_deref() != Ok("true") {
        eprintln!("skipped, because a compiler is missing: {error}");
        return None;
    }
    let built = json_lines(printed(&run, &args).as_bytes()).remove(0);
    assert_eq!(built["class"], name);
    Some(built["file"].as_str().unwrap().to_owned())
}

#[test]
fn a_class_in_each_language_is_built_deployed_and_called() {
    for lang in ["rust", "c", "cpp", "zig", "assemblyscript", "go"] {
        let home = home();
        home.ok(&["class", "new", "words", "--lang", lang]);
        let Some(module) = try_build(&home, "words") else { continue };
        // Three words each. They cross the ends of the buffers.
        let large = home.file("large", b"ab\x0bc\t\xff\r\n\x0cx ".repeat(10_000));
        home.ok(&["put", "logs/large", large.to_str().unwrap()]);
        home.ok(&["put", "logs/empty", "/dev/null"]);
        let printed = home.ok(&["class", "deploy", &module]);
        assert!(printed.contains("deployed words ") && printed.contains("to the pool logs"), "{printed}");
        assert_eq!(home.ok(&["exec", "logs/today", "words", "count"]), "4\n");
        assert_eq!(home.ok(&["exec", "logs/today", "words", "keep"]), "4\n");
        assert_eq!(home.ok(&["xattr", "get", "logs/today", "words"]).trim_end(), "4");
        let all = home.ok(&["exec", "--all", "logs", "words", "count"]);
        let mut lines: Vec<&str> = all.lines().collect();
        lines.sort_unstable();
        assert_eq!(lines, ["empty\t0", "large\t30000", "today\t4"], "{lang}");
        assert_eq!(home.ok(&["exec", "logs/today", "--code", &module, "count"]), "4\n");
        let listed = home.json(&["class", "ls", "--pool", "logs"]).remove(0);
        assert_eq!(
            (&listed["class"], &listed["methods"][1]["result_xattr"]),
            (&"words".into(), &"words".into())
        );
        assert_eq!(home.ok(&["ls", "logs"]), "empty\nlarge\ntoday\n", "modules are hidden");
    }
}

/// The functions of each language do the same.
#[test]
fn every_function_of_a_language_works() {
    for (lang, code, crash) in [
        ("zig", "main.zig", "index"),
        ("assemblyscript", "main.ts", "Index out of range at ~lib/typedarray.ts"),
        ("go", "main.go", "the method panicked: runtime error: slice bounds out of range"),
    ] {
        let home = home();
        home.ok(&["class", "new", "tour", "--lang", lang]);
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/compilers");
        let tour = format!("tour.{}", code.rsplit_once('.').unwrap().1);
        for (from, to) in [(tour.as_str(), code), ("class.json", "class.json")] {
            fs::copy(sources.join(from), home.path("tour").join(to)).unwrap();
        }
        let Some(module) = try_build(&home, "tour") else { continue };
        home.ok(&["class", "deploy", &module]);
        home.ok(&["exec", "logs/today", "tour", "change"]);
        let greeting = home.ok(&["exec", "logs/today", "hello", "say", "Ada"]);
        let expected =
            "input|six|B\0|value|none|empty=,name=value,|k1=1,|k1=1,k2=,|more|k3=3,|end|".to_owned();
        let shown = home.ok(&["exec", "logs/today", "tour", "show", "input"]);
        assert_eq!(shown, expected + &greeting, "{lang}");
        let failed = home.fails(4, &["exec", "logs/today", "tour", "fail", "my own text"]);
        assert!(failed.contains("my own text"), "{lang}: {failed}");
        let crashed = home.fails_with("class_failed", &["exec", "logs/today", "tour", "crash", "input"]);
        assert!(crashed.to_string().contains(crash), "{lang}: {crashed}");
    }
}

#[test]
fn versions_are_rolled_back_and_removed() {
    let home = home();
    let module = build(&home, "words", "c");
    home.ok(&["class", "deploy", &module, "--pool", "logs", "--fuel", "5000000", "--memory", "1MiB"]);
    let code = String::from_utf8(home.read("words/main.c")).unwrap();
    fs::write(home.path("words/main.c"), code.replace("int64_t count = 0;", "int64_t count = 100;")).unwrap();
    home.ok(&["class", "build", "words"]);
    let second = home.json(&["class", "deploy", &module]).remove(0);
    assert_eq!(home.ok(&["exec", "logs/today", "words", "count"]), "104\n");
    let shown = home.ok(&["class", "show", "words", "--pool", "logs"]);
    assert!(shown.contains(", current") && shown.contains("fuel 5000000, memory 1.0 MiB"), "{shown}");

    home.ok(&["class", "rollback", "words"]);
    assert_eq!(home.ok(&["exec", "logs/today", "words", "count"]), "4\n");
    let version = second["current"].as_str().unwrap();
    let removed = home.json(&["class", "undeploy", "words", "--version", &version[..8]]).remove(0);
    assert_eq!(removed["removed"], Value::from(vec![version]));
    assert!(home.fails(3, &["class", "rollback", "words"]).contains("no earlier version"));
    let current = home.json(&["class", "show", "words", "--pool", "logs"]).remove(0)["current"].clone();
    let refused = home.fails(10, &["class", "undeploy", "words", "--version", current.as_str().unwrap()]);
    assert!(refused.contains("calls use this version"), "{refused}");
    home.ok(&["class", "undeploy", "words"]);
    assert!(home.fails(7, &["exec", "logs/today", "words", "count"]).contains("no such class"));
    assert_eq!(home.ok(&["class", "ls", "--pool", "logs"]), "");
}

#[test]
fn mistakes_get_an_error_with_the_next_step() {
    let home = home();
    let module = build(&home, "words", "c");
    home.ok(&["class", "deploy", &module]);
    let fails = |status, args: &[&str], text: &str| {
        let error = home.fails(status, args);
        assert!(error.contains(text), "{args:?}: {error}");
    };
    fails(7, &["exec", "logs/today", "words", "cont"], "no such method");
    fails(3, &["exec", "logs/missing", "words", "count"], "no such object");
    fails(6, &["class", "deploy", "words/main.c"], "not a WebAssembly module");
    fails(6, &["class", "deploy", "words/target/module.wasm"], "`benthic class build` adds it");
    fails(3, &["class", "deploy", "missing.wasm"], "missing.wasm");
    fails(6, &["class", "deploy", &module, "--memory", "1GiB"], "larger than the engine allows");
    fails(3, &["class", "undeploy", "other"], "no such class in this pool");
    fails(6, &["exec", "logs/today", "--code", &module, "count", "", "more"], "OBJECT METHOD [INPUT]");
    home.ok(&["pool", "create", "second"]);
    fails(6, &["class", "deploy", &module], "--pool POOL");
    // A class that exists in every store.
    fs::write(
        home.path("words/class.json"),
        String::from_utf8(home.read("words/class.json"))
            .unwrap()
            .replace("\"words\",\n  \"version", "\"digest\",\n  \"version"),
    )
    .unwrap();
    home.ok(&["class", "build", "words"]);
    fails(4, &["class", "deploy", "words/digest.wasm", "--pool", "logs"], "has a class of this name");
    fs::write(home.path("words/class.json"), "{}").unwrap();
    fails(6, &["class", "build", "words"], "class.json");
    fs::write(home.path("words/main.c"), "int x = ;").unwrap();
    home.ok(&["class", "new", "other", "--lang", "c"]);
    fs::write(home.path("other/main.c"), "int x = ;").unwrap();
    fails(6, &["class", "build", "other"], "clang failed");
    fails(3, &["class", "build", "."], "class.json");
    // A compiler that is missing.
    for (lang, needed) in [
        ("cpp", "install clang"),
        ("zig", "pip install ziglang"),
        ("assemblyscript", "npm install assemblyscript"),
        ("go", "https://go.dev/dl"),
    ] {
        let name = format!("in_{lang}");
        home.ok(&["class", "new", &name, "--lang", lang]);
        let run = home.command(&["class", "build", &name]).env("PATH", home.dir()).output().unwrap();
        let error = failed(&run, 7);
        assert!(error.contains("is missing; install") && error.contains(needed), "{error}");
    }
    // A limit that the method needs more of.
    home.ok(&["class", "new", "small", "--lang", "c"]);
    home.ok(&["class", "build", "small"]);
    home.ok(&["class", "deploy", "small/small.wasm", "--pool", "logs", "--fuel", "10"]);
    fails(11, &["exec", "logs/today", "small", "count"], "more fuel");
}

#[test]
fn the_guide_leads_from_nothing_to_a_result() {
    let printed = run_block("guide/classes", ToOwned::to_owned);
    let results = printed.lines().filter(|line| ["3", "today.txt\t3"].contains(line)).count();
    assert_eq!(results, 5, "{printed}");
}
