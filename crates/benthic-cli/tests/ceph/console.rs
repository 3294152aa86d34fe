//! The console in a real browser, on a directory and on a cluster.

use crate::browser::Browser;
use crate::support::{Home, shared_store};
use crate::web::{Console, SERVE, escaped};
use benthic_testkit::random::Rng;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Names that would run a script or reverse the text if a page did not escape them.
const HOSTILE: [&str; 3] =
    ["<img src=x onerror=\"window.ran=1\">", "\"><script>window.ran=1</script>", "a\u{202e}b\n'&amp;"];
const LOADED: &str = "document.getElementById('content') && !document.body.textContent.includes('Loading…')";
/// A picture of one pixel.
const PNG: &str = "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c49444154789c63\
                   606060000000040001f61738550000000049454e44ae426082";

/// A stand-in for `benthic-sql`, whose columns and plans have hostile names. The tests of the
/// program itself are those of its crate.
const SQL: &str = r#"#!/bin/sh
case "$*" in
*EXPLAIN*) printf '%s\n' '{"plan_type":"Plan with Metrics","plan":"SortExec: <img src=x onerror=\"window.ran=1\">, metrics=[output_rows=3]\n  FragmentExec: objects=2, beside each: FilterExec: a > 1 <- ParquetExec, metrics=[objects_pushed=2, bytes_moved=10 K]\n"}';;
*"table ls"*) printf '%s\n' '{"pool":"p","table":"<img src=x onerror=\"window.ran=1\">","state":"live","rows":3,"objects":1,"size_bytes":10,"time_unix_ms":1}';;
*DESCRIBE*) printf '%s\n' '{"column_name":"<img src=x onerror=\"window.ran=1\">","data_type":"Utf8","is_nullable":"NO"}';;
*) printf '%s\n' '{"<img src=x onerror=\"window.ran=1\">":"<script>window.ran=1</script>","n":12345678901234567}';;
esac
"#;

fn start(home: &Home, args: &[&str]) -> Console {
    fs::create_dir(home.path("bin")).unwrap();
    let script = home.file("benthic-sql.sh", SQL);
    // Another process writes the programs. If this one did, children that other tests start
    // meanwhile would keep the files open for writing, and they could not be run.
    for (from, to) in
        [(Path::new(env!("CARGO_BIN_EXE_benthic")), "bin/benthic"), (&script, "bin/benthic-sql")]
    {
        let to = home.path(to);
        assert!(Command::new("install").args(["-m", "755"]).args([from, &to]).status().unwrap().success());
    }
    let mut command = Command::new(home.path("bin/benthic"));
    command.args(SERVE).args(args).current_dir(home.dir()).env_remove("BENTHIC_STORE");
    Console::run(command)
}

/// Fails if the page ran something that it should only show, or has errors or faults.
#[track_caller]
fn is_sound(browser: &mut Browser, page: &str) {
    assert_eq!(browser.evaluate("window.ran"), Value::Null, "{page}");
    assert_eq!(browser.evaluate("document.querySelectorAll('img[src=x], main script').length"), 0, "{page}");
    assert_eq!(browser.complaints, Vec::<String>::new(), "{page}");
    let faults = browser.evaluate(include_str!("accessibility.js"));
    assert_eq!(faults, json!([]), "{page}");
    // The full set of rules, if the file of axe-core is there.
    if let Some(axe) = std::env::var_os("BENTHIC_TEST_AXE") {
        let axe = fs::read_to_string(axe).unwrap();
        browser.evaluate(&format!("{axe}; 1"));
        let violations = browser.evaluate(
            "axe.run().then((found) => found.violations.map((one) => one.id + ': ' + one.nodes[0].html))",
        );
        assert_eq!(violations, json!([]), "{page}");
    }
    for unknown in ["NaN", "undefined", "[object"] {
        assert_eq!(
            browser.evaluate(&format!("document.body.innerText.includes('{unknown}')")),
            false,
            "{page}"
        );
    }
}

/// Looks at a page in all sizes and themes.
#[track_caller]
fn look(home: &Home, browser: &mut Browser, name: &str) {
    for (width, height, is_dark) in
        [(1_280, 900, false), (1_280, 900, true), (360, 800, false), (360, 800, true)]
    {
        browser.resize(width, height, is_dark);
        is_sound(browser, &format!("{name} {width} {is_dark}"));
        // A directory for people who want to look at the pictures.
        let pictures = std::env::var_os("BENTHIC_TEST_PICTURES").map_or(home.path("pictures"), PathBuf::from);
        fs::create_dir_all(&pictures).unwrap();
        let theme = if is_dark { "dark" } else { "light" };
        browser.picture(&pictures.join(format!("{name}-{width}-{theme}.png")));
    }
    browser.resize(1_280, 900, false);
}

fn fill(home: &Home, store: &str, pool: &str) {
    let at = |args: &[&str]| home.ok(&[&["--store", store], args].concat());
    let put = |name: &str, data: &[u8]| {
        let run = home.pipe(&["--store", store, "put", "--", &format!("{pool}/{name}"), "-"], data);
        assert!(run.status.success());
    };
    for name in HOSTILE {
        put(name, name.as_bytes());
        at(&["xattr", "set", &format!("{pool}/{name}"), "<img src=x onerror=window.ran=1>", name]);
        at(&["omap", "set", &format!("{pool}/{name}"), name, name]);
    }
    put("picture", &hex(PNG));
    put("rows.parquet", b"PAR1 only the first bytes of one");
    put("binary", &Rng(1).bytes(3_000));
    for object in 0..120 {
        home.file(&format!("logs/2026/{object:03}.txt"), "2026-11-29 12:00:00 started\n");
    }
    at(&["cp", "-r", "logs", &format!("{pool}/logs/")]);
}

fn hex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

fn sign_in(browser: &mut Browser, console: &Console) {
    browser.open(&console.url, "document.getElementById('token')");
    is_sound(browser, "sign-in");
    browser.insert("wrong");
    browser.press("Enter", 13);
    browser.evaluate("document.querySelector('form').requestSubmit()");
    browser.wait_until("document.getElementById('failure').textContent.includes('not the token')");
    browser.open("about:blank", "true");
    browser.open(&format!("{}#token={}", console.url, console.token), LOADED);
    assert_eq!(
        browser.evaluate("location.hash + document.cookie"),
        "",
        "scripts see neither token nor cookie"
    );
}

#[test]
fn the_console_of_a_directory_is_safe_and_usable() {
    let home = Home::with_pool();
    let store = "file:./benthic-data";
    fill(&home, store, "p");
    let console = start(&home, &["--writable"]);
    let mut browser = Browser::start(&home);
    browser.resize(1_280, 900, false);
    sign_in(&mut browser, &console);
    let page = |path: &str| format!("{}{path}", console.url);

    browser.open(&page(""), LOADED);
    look(&home, &mut browser, "pools");
    browser.open(&page("?pool=p"), LOADED);
    look(&home, &mut browser, "objects");
    let rows = browser.evaluate("document.querySelectorAll('tbody tr').length");
    assert_eq!(rows, 100);
    browser.evaluate("document.querySelector('a[rel=next]').click()");
    browser.wait_until(
        "location.search.includes('after=') && document.querySelectorAll('tbody tr').length === 26",
    );
    browser.open(&page("?pool=p&folders=1"), LOADED);
    let folders =
        browser.evaluate("[...document.querySelectorAll('a.folder')].map((one) => one.textContent)");
    // One of the names has a slash.
    assert_eq!(folders, json!(["\"><script>window.ran=1</", "logs/"]));
    look(&home, &mut browser, "folders");
    for (index, name) in HOSTILE.into_iter().chain(["picture", "rows.parquet", "binary"]).enumerate() {
        browser.open(&page(&format!("?pool=p&object={}", escaped(name))), LOADED);
        look(&home, &mut browser, &format!("object-{index}"));
    }
    browser.open(&page("?pool=p&object=picture"), LOADED);
    browser.wait_until("document.querySelector('img.preview').naturalWidth === 1");
    every_control_gets_the_focus(&mut browser);

    browser.open(
        &page(&format!("classes?pool=p&class=hello&method=say&object={}", escaped(HOSTILE[0]))),
        LOADED,
    );
    browser.evaluate("document.querySelector('details[open] textarea').focus()");
    browser.insert(HOSTILE[0]);
    browser.evaluate("document.querySelector('details[open] form').requestSubmit()");
    browser.wait_until("document.querySelector('details[open] pre.box').textContent.includes('<img')");
    look(&home, &mut browser, "classes");

    browser.open(&page("tables?pool=p"), LOADED);
    for button in ["Run", "Run and show where"] {
        let click = format!(
            "[...document.querySelectorAll('button')].find((one) => one.textContent === '{button}').click()"
        );
        browser.evaluate(&click);
        let shown = if button == "Run" { ".grid-table" } else { ".plan .place-objects .place-objects" };
        browser.wait_until(&format!("document.querySelector('{shown}')"));
        look(&home, &mut browser, &format!("tables-{}", button.len()));
    }
    for path in ["arrays", "s3"] {
        browser.open(&page(path), LOADED);
        browser.wait_until("document.querySelector('.notice').textContent.includes('make ')");
        look(&home, &mut browser, path);
    }

    browser.open(&page(&format!("?pool=p&object={}", escaped(HOSTILE[1]))), LOADED);
    for button in ["Delete", "Delete"] {
        browser.evaluate(&format!(
            "[...document.querySelectorAll('button')].find((one) => one.textContent === '{button}').click()"
        ));
    }
    browser.wait_until("!location.search.includes('object=') && document.querySelector('tbody')");
    let error = home.fails(3, &["stat", &format!("p/{}", HOSTILE[1])]);
    assert!(error.contains("not_found") || error.contains("no such object"), "{error}");
    browser.evaluate("document.getElementById('sign-out').click()");
    browser.wait_until("document.getElementById('token')");
}

/// Tab reaches every control once, in the order of the page, and each shows that it has the focus.
fn every_control_gets_the_focus(browser: &mut Browser) {
    browser.evaluate("document.activeElement.blur(); window.scrollTo(0, 0)");
    let controls = browser.evaluate(
        "document.querySelectorAll('a[href], button:not(:disabled), input, select, textarea, summary, [tabindex=\"0\"]').length",
    );
    let controls = controls.as_u64().unwrap();
    let mut reached = Vec::new();
    for _ in 0..controls {
        browser.press("Tab", 9);
        let state = browser.evaluate(
            "(() => { const all = [...document.querySelectorAll('*')], at = document.activeElement; \
             return [all.indexOf(at), getComputedStyle(at).outlineStyle !== 'none' || at.matches('input')]; })()",
        );
        assert_eq!(state[1], true, "{state}");
        reached.push(state[0].as_u64().unwrap());
    }
    let mut sorted = reached.clone();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(reached, sorted, "the order of focus is that of the page");
}

#[test]
fn the_console_of_a_cluster_shows_its_objects_and_its_health() {
    let home = Home::bare();
    let (store, pool) = (shared_store(), "console");
    home.ok(&["--store", &store, "pool", "create", pool]);
    fill(&home, &store, pool);
    let console = start(&home, &["--store", &store]);
    let mut browser = Browser::start(&home);
    browser.resize(1_280, 900, false);
    sign_in(&mut browser, &console);
    let page = |path: &str| format!("{}{path}", console.url);
    browser.open(&page(&format!("?pool={pool}")), LOADED);
    assert_eq!(browser.evaluate("document.querySelectorAll('tbody tr').length"), 100);
    browser.open(&page(&format!("?pool={pool}&object={}", escaped(HOSTILE[0]))), LOADED);
    look(&home, &mut browser, "ceph-object");
    browser.open(
        &page("cluster"),
        "!document.getElementById('all').hidden && document.getElementById('mode').textContent",
    );
    look(&home, &mut browser, "cluster");
    let answer = console.ask(
        "POST /api/exec",
        json!({ "pool": pool, "object": "binary", "class": "digest", "method": "compute", "input": "md5" })
            .to_string()
            .as_bytes(),
    );
    assert_eq!(answer.json()["output"].as_str().unwrap().len(), 32);
    let record =
        json!({ "pool": pool, "object": "binary", "class": "hello", "method": "record", "input": "x" });
    assert_eq!(console.refused(403, "POST /api/exec", record.to_string().as_bytes()), "permission_denied");
    let (names, mut after) = (&mut Vec::new(), String::new());
    loop {
        let page = console.get(&format!("/api/objects?pool={pool}&limit=7{after}"));
        names.extend(
            page["objects"].as_array().unwrap().iter().map(|one| one["object"].as_str().unwrap().to_owned()),
        );
        let Some(next) = page["next"].as_str() else { break };
        after = format!("&after={next}");
    }
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), 126);
    drop(console);
    home.ok(&["--store", &store, "pool", "rm", pool, "--yes", pool]);
}
