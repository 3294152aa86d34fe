//! Classes that are WebAssembly modules: from a template to a result. The tests need the compilers of
//! the languages; `make test` installs them.

use crate::support::{Home, run_block};
use serde_json::Value;
use std::fs;

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
    let built = home.json(&["class", "build", name]).remove(0);
    assert_eq!(built["class"], name);
    built["file"].as_str().unwrap().to_owned()
}

#[test]
fn a_class_in_each_language_is_built_deployed_and_called() {
    for lang in ["rust", "c"] {
        let home = home();
        let module = build(&home, "words", lang);
        let printed = home.ok(&["class", "deploy", &module]);
        assert!(printed.contains("deployed words ") && printed.contains("to the pool logs"), "{printed}");
        assert_eq!(home.ok(&["exec", "logs/today", "words", "count"]), "4\n");
        assert_eq!(home.ok(&["exec", "logs/today", "words", "keep"]), "4\n");
        assert_eq!(home.ok(&["xattr", "get", "logs/today", "words"]).trim_end(), "4");
        assert_eq!(home.ok(&["exec", "--all", "logs", "words", "count"]), "today\t4\n");
        assert_eq!(home.ok(&["exec", "logs/today", "--code", &module, "count"]), "4\n");
        let listed = home.json(&["class", "ls", "--pool", "logs"]).remove(0);
        assert_eq!(
            (&listed["class"], &listed["methods"][1]["result_xattr"]),
            (&"words".into(), &"words".into())
        );
        assert_eq!(home.ok(&["ls", "logs"]), "today\n", "modules are hidden");
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
    // A limit that the method needs more of.
    home.ok(&["class", "new", "small", "--lang", "c"]);
    home.ok(&["class", "build", "small"]);
    home.ok(&["class", "deploy", "small/small.wasm", "--pool", "logs", "--fuel", "10"]);
    fails(11, &["exec", "logs/today", "small", "count"], "more fuel");
}

#[test]
fn the_guide_leads_from_nothing_to_a_result() {
    let printed = run_block("classes", ToOwned::to_owned);
    let results = printed.lines().filter(|line| ["3", "today.txt\t3"].contains(line)).count();
    assert_eq!(results, 5, "{printed}");
}
