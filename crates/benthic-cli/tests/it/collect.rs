//! Methods that need other objects: the client reads them and attaches them to the input.

use crate::support::Home;
use serde_json::json;
use std::fs;

const CODE: &str = r#"
#include "benthic.h"

static char text[1024];

/* Returns the object, and after it each part of the input. A part of more than 64 bytes is shortened. */
BENTHIC_METHOD(show) {
    int64_t len = benthic_read_into(0, text, 64);
    struct benthic_results list;
    int64_t next = len < 0 ? len : benthic_results_begin(&list);
    while (next >= 0 && (next = benthic_results_next(&list)) > 0) {
        uint32_t part = list.len < 64 ? list.len : 64;
        text[len++] = '|';
        benthic_take(text + len, list.offset, part);
        len += part;
    }
    return (int32_t)-(next < 0 ? next : benthic_output(text, (uint32_t)len));
}

/* Stores the last part of the input in an attribute. */
BENTHIC_METHOD(keep) {
    struct benthic_results list;
    int64_t next = benthic_results_begin(&list);
    while (next >= 0 && (next = benthic_results_next(&list)) > 0)
        benthic_take(text, list.offset, list.len);
    return (int32_t)-(next < 0 ? next : benthic_set_xattr("kept", 4, text, list.len));
}

/* Returns the first byte of the object if the other object begins with it. */
BENTHIC_METHOD(match) {
    char first;
    if (benthic_read_into(0, &first, 1) != 1)
        return 22;
    struct benthic_results list;
    int64_t next = benthic_results_begin(&list);
    while (next >= 0 && (next = benthic_results_next(&list)) > 0)
        benthic_take(text, list.offset, list.len < 64 ? list.len : 64);
    if (next < 0 || first == '!')
        return 22;
    return (int32_t)-benthic_output(&first, first == text[0]);
}

/* Concatenates results. */
BENTHIC_METHOD(join) {
    struct benthic_results list;
    uint32_t len = 0;
    int64_t next = benthic_results_begin(&list);
    while (next >= 0 && (next = benthic_results_next(&list)) > 0) {
        benthic_take(text + len, list.offset, list.len);
        len += list.len;
    }
    return (int32_t)-(next < 0 ? next : benthic_output(text, len));
}

BENTHIC_METHOD(plain) { return (int32_t)-benthic_output("plain", 5); }
"#;

const MODULE: &str = "glue/glue.wasm";

/// A store with the class `glue` in the pool `p`, the objects `a` and `b`, and lists in the pool
/// `lists`.
fn home() -> Home {
    let home = Home::with_pool();
    home.ok(&["class", "new", "glue", "--lang", "c"]);
    home.file("glue/main.c", CODE);
    let manifest = json!({ "class": "glue", "version": 1, "methods": [
        { "method": "show", "reads": true, "objects": ["first", "second"], "input": "text", "examples": ["in"] },
        { "method": "keep", "reads": true, "writes": true, "result_xattr": "kept", "objects": ["first"] },
        { "method": "match", "reads": true, "objects": ["letter"] },
        { "method": "join", "reads": true, "merges": true },
        { "method": "plain", "reads": true },
    ] });
    home.file("glue/class.json", manifest.to_string());
    home.ok(&["class", "build", "glue"]);
    home.ok(&["class", "deploy", MODULE, "--pool", "p"]);
    home.ok(&["pool", "create", "lists"]);
    put(&home, "p/a", b"A");
    put(&home, "p/b", b"B");
    put(&home, "lists/one", b"1");
    put(&home, "lists:ns/two/more", b"22");
    home
}

fn put(home: &Home, object: &str, data: &[u8]) {
    let file = home.file("one", data);
    home.ok(&["put", object, file.to_str().unwrap()]);
}

const OTHERS: [&str; 4] = ["--object", "second=lists:ns/two/more", "--object", "first=lists/one"];

fn with<'a>(args: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    [args, more].concat()
}

#[test]
fn a_method_gets_other_objects_in_declared_order() {
    let home = home();
    let call = with(&["exec", "p/a", "glue", "show", "input"], &OTHERS);
    assert_eq!(home.ok(&call), "A|input|1|22\n");
    assert_eq!(home.json(&call).remove(0)["output"], "A|input|1|22");
    let code = ["exec", "p/a", "--code", MODULE, "show", "input"];
    assert_eq!(home.ok(&with(&code, &OTHERS)), "A|input|1|22\n");
    let all = home.ok(&with(&["exec", "--all", "p", "glue", "show"], &OTHERS));
    assert!(all.contains("a\tA||1|22\n") && all.contains("b\tB||1|22\n"), "{all}");
    let keep = ["exec", "p/a", "glue", "keep", "--object", "first=p/b"];
    assert_eq!(home.ok(&keep), "B\n", "a method that writes");
    // The object itself, an empty one, and a method without other objects.
    put(&home, "lists/empty", b"");
    let call = ["exec", "p/a", "glue", "show", "--object", "first=p/a", "--object", "second=lists/empty"];
    assert_eq!(home.ok(&call), "A||A|\n");
    assert_eq!(home.ok(&["exec", "p/a", "glue", "plain"]), "plain\n");
}

#[test]
fn wrong_objects_are_refused_with_the_next_step() {
    let home = home();
    let fails = |status, args: &[&str], texts: &[&str]| {
        let error = home.fails(status, args);
        texts.iter().for_each(|text| assert!(error.contains(text), "{args:?}: {text}: {error}"));
    };
    let (show, one) = (["exec", "p/a", "glue", "show"], ["--object", "first=lists/one"]);
    fails(6, &show, &["give it as --object NAME=POOL/OBJECT", "method=show", "name=first"]);
    fails(6, &with(&show, &one), &["give it as --object", "name=second"]);
    fails(6, &with(&show, &[&one[..], &one].concat()), &["gives an object twice", "name=first"]);
    let third = ["--object", "third=lists/one"];
    fails(6, &with(&show, &[&OTHERS[..], &third].concat()), &["its names: first, second", "name=third"]);
    fails(6, &["exec", "--all", "p", "glue", "show"], &["name=first"]);
    fails(6, &["exec", "p/a", "--code", MODULE, "show"], &["name=first"]);
    fails(6, &["map", "p", "glue", "match", "--reduce", "join"], &["name=letter"]);
    fails(6, &with(&["exec", "p/a", "glue", "plain"], &one), &["declares no objects; call it without"]);
    let missing = ["--object", "first=lists/on", "--object", "second=lists/one"];
    let texts = ["does not exist; `benthic ls POOL`", "name=first", "other_object=lists/on"];
    fails(3, &with(&show, &missing), &texts);
    fails(3, &with(&show, &["--object", "second=list/one", one[0], one[1]]), &["did you mean \"lists\"?"]);
    for text in ["first", "first=lists", "=", ""] {
        fails(2, &with(&show, &["--object", text]), &["NAME=POOL/OBJECT or NAME=POOL:NS/OBJECT"]);
    }
    // A native class, and a class that does not exist.
    let native = ["exec", "p/a", "digest", "compute", "md5"];
    fails(7, &with(&native, &one), &["only methods of WebAssembly classes", "class=digest"]);
    fails(7, &with(&["exec", "p/a", "glu", "show"], &one), &["`benthic class ls --pool POOL`", "class=glu"]);
    assert_eq!(home.ok(&["xattr", "ls", "p/a"]), "");
}

/// The limit is that of the input and all contents together, and no more than that is read of a
/// larger object.
#[test]
fn the_contents_have_a_limit() {
    let home = home();
    let mebibyte = 1 << 20;
    put(&home, "lists/half", &vec![b'h'; 8 * mebibyte]);
    put(&home, "lists/more", &vec![b'm'; 8 * mebibyte + 1]);
    put(&home, "lists/large", &vec![b'l'; 100 * mebibyte]);
    home.ok(&["class", "deploy", MODULE, "--pool", "p", "--memory", "64MiB"]);
    let call = |input: &'static str, first: &'static str, second: &'static str| {
        ["exec", "p/a", "glue", "show", input, "--object", first, "--object", second]
    };
    let shown = home.ok(&call("", "first=lists/half", "second=lists/half"));
    assert_eq!(shown, format!("A||{}|{}\n", "h".repeat(64), "h".repeat(64)));
    for (args, name, size_bytes) in [
        (call("", "first=lists/half", "second=lists/more"), "name=second", 16 * mebibyte + 1),
        (call("1", "first=lists/half", "second=lists/half"), "name=second", 16 * mebibyte + 1),
        (call("", "first=lists/large", "second=lists/one"), "name=first", 100 * mebibyte),
    ] {
        let error = home.fails(11, &args);
        for text in
            ["use smaller ones", name, &format!("size_bytes={size_bytes} "), "size_bytes_max=16777216"]
        {
            assert!(error.contains(text), "{text}: {error}");
        }
    }
}

#[test]
fn map_attaches_objects_and_resumes_with_the_same_contents_only() {
    let home = home();
    put(&home, "lists/letter", b"B");
    let map = ["map", "p", "glue", "match", "--reduce", "join", "--object", "letter=lists/letter"];
    assert_eq!(home.ok(&map), "B\n");
    let code = ["map", "p", "--code", MODULE, "match", "--reduce", "join", "--object", "letter=p/a"];
    assert_eq!(home.ok(&code), "A\n");

    put(&home, "p/bad", b"!");
    let resumed = with(&map, &["--resume", "run"]);
    home.fails(1, &resumed);
    home.ok(&["rm", "p/bad"]);
    put(&home, "lists/letter", b"A");
    let error = home.fails(6, &resumed);
    assert!(error.contains("another run, whose input is different"), "{error}");
    let other =
        ["map", "p", "glue", "match", "--reduce", "join", "--resume", "run", "--object", "letter=p/a"];
    assert!(home.fails(6, &other).contains("whose input is different"));
    put(&home, "lists/letter", b"B");
    assert_eq!(home.ok(&resumed), "B\n");
    assert!(!home.path("run").exists());
}

#[test]
fn a_class_shows_the_objects_that_its_methods_declare() {
    let home = home();
    let shown = home.ok(&["class", "show", "glue", "--pool", "p"]);
    assert!(shown.contains("\n  objects: first, second (--object NAME=POOL/OBJECT)\n"), "{shown}");
    let example = "exec POOL/OBJECT glue show 'in' --object first=POOL/OBJECT --object second=POOL/OBJECT\n";
    assert!(shown.contains(example) && shown.matches("objects: ").count() == 3, "{shown}");
    for args in [&["class", "ls", "--pool", "p"][..], &["class", "show", "glue", "--pool", "p"]] {
        let methods = home.json(args).remove(0)["methods"].clone();
        assert_eq!(
            (&methods[0]["objects"], &methods[4]["objects"]),
            (&json!(["first", "second"]), &json!([]))
        );
    }
}

#[test]
fn cases_give_the_other_objects() {
    let home = home();
    let case = |name: &str, objects: serde_json::Value, expect: serde_json::Value| json!({ "name": name, "object": "A", "method": "show", "input": "in", "objects": objects, "expect": expect });
    let cases = json!([
        case(
            "given",
            json!({ "second": "2", "first": { "base64": "/w==" } }),
            json!({ "output": { "base64": "QXxpbnz/fDI=" } })
        ),
        case(
            "missing",
            json!({ "first": "1" }),
            json!({ "error": "invalid_argument", "error_contains": "name=second" })
        ),
        case(
            "unknown",
            json!({ "first": "1", "second": "2", "third": "3" }),
            json!({ "error": "invalid_argument", "error_contains": "its names" })
        ),
        case("forgotten", json!({}), json!({ "output": "A" })),
    ]);
    home.file("glue/cases.json", cases.to_string());
    let run = home.run(&["class", "test", MODULE]);
    let printed = String::from_utf8(run.stdout).unwrap();
    assert_eq!(run.status.code(), Some(1));
    assert!(printed.ends_with("3 cases passed, 1 failed\n"), "{printed}");
    assert!(printed.contains("actual   invalid_argument: the method needs another object"), "{printed}");
}

#[test]
fn the_class_of_the_guide_counts_the_words_that_are_not_in_the_list() {
    let guide = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/classes.md");
    let guide = fs::read_to_string(guide).unwrap();
    let section = guide.split("\n## Other objects\n").nth(1).unwrap();
    let blocks: Vec<&str> = section.split("```").skip(1).step_by(2).take(4).collect();
    let [code, manifest, cases, commands] = blocks[..] else { panic!("{blocks:?}") };
    let home = Home::bare();
    home.ok(&["class", "new", "content", "--lang", "rust"]);
    home.file("content/src/lib.rs", code.strip_prefix("rust").unwrap());
    home.file("content/class.json", manifest.strip_prefix("json").unwrap());
    home.file("content/cases.json", cases.strip_prefix("json").unwrap());
    for pool in ["logs", "lists"] {
        home.ok(&["pool", "create", pool]);
    }
    put(&home, "logs/today.txt", b"the end of the day");
    put(&home, "lists/stop.txt", b"the\nof\n");
    let lines = commands.lines().filter_map(|line| line.strip_prefix("benthic "));
    let printed: Vec<String> = lines.map(|line| home.ok(&line.split(' ').collect::<Vec<_>>())).collect();
    assert!(printed[0].ends_with("1 case passed, 0 failed\n"), "{printed:?}");
    assert_eq!(printed[2..], ["2\n", "today.txt\t2\n"]);
}
