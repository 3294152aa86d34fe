//! The console in a real browser, on a directory and on a cluster.

use crate::browser::Browser;
use crate::support::{Home, shared_store};
use crate::web::{Console, SERVE, escaped};
use benthic_testkit::random::Rng;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Names that would run a script or reverse the text if a page did not escape them.
const HOSTILE: [&str; 3] =
    ["<img src=x onerror=\"window.ran=1\">", "\"><script>window.ran=1</script>", "a\u{202e}b\n'&amp;"];
/// One of the hostile names has a slash.
const FOLDERS: [&str; 2] = ["\"><script>window.ran=1</", "logs/"];
const LOADED: &str = "document.getElementById('content') && !document.body.textContent.includes('Loading…')";
/// A picture of one pixel.
const PNG: &str = "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c49444154789c63\
                   606060000000040001f61738550000000049454e44ae426082";

/// A table, and a CSV file whose column and values have hostile names.
const TABLE: &str = HOSTILE[0];
const ROWS: &str = "\"<img src=x onerror=\"\"window.ran=1\"\">\",n\n\
                    <script>window.ran=1</script>,12345678901234567\nb,2\nc,3\n";
const COUNT: &str = r#"SELECT "<img src=x onerror=""window.ran=1"">" AS name, count(*) FROM "#;

/// Starts a console beside `benthic-sql`, and without the programs for arrays and S3.
fn start(home: &Home, args: &[&str]) -> Console {
    fs::create_dir(home.path("bin")).unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_benthic"));
    // Another process writes the program. If this one did, children that other tests start
    // meanwhile would keep the file open for writing, and it could not be run.
    let to = home.path("bin/benthic");
    assert!(Command::new("install").args(["-m", "755"]).args([program, &to]).status().unwrap().success());
    install(home, "benthic-sql");
    let mut command = Command::new(to);
    command.args(SERVE).args(args).current_dir(home.dir()).env_remove("BENTHIC_STORE");
    Console::run(command)
}

/// Puts a program of the build beside the console.
fn install(home: &Home, name: &str) {
    let program = Path::new(env!("CARGO_BIN_EXE_benthic")).with_file_name(name);
    symlink(program, home.path(&format!("bin/{name}"))).unwrap();
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
    home.file("rows.csv", ROWS);
    at(&["table", "create", &format!("{pool}/{TABLE}"), "rows.csv"]);
    let parquet = home.run(&["sql", "--output", "parquet", "SELECT * FROM 'rows.csv'"]);
    put("rows.parquet", &parquet.stdout);
    put("broken.parquet", b"PAR1 only the first bytes of one");
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
        "location.search.includes('after=') && document.querySelectorAll('tbody tr').length === 27",
    );
    browser.open(&page("?pool=p&folders=1"), LOADED);
    let folders =
        browser.evaluate("[...document.querySelectorAll('a.folder')].map((one) => one.textContent)");
    assert_eq!(folders, json!(FOLDERS));
    look(&home, &mut browser, "folders");
    browser.open(&page("?pool=p&folders=1&prefix=lo"), LOADED);
    assert_eq!(browser.evaluate("document.querySelector('a.folder').textContent"), FOLDERS[1]);
    for (index, name) in
        HOSTILE.into_iter().chain(["picture", "rows.parquet", "broken.parquet", "binary"]).enumerate()
    {
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

    browser.open(&page("?pool=p&object=rows.parquet"), LOADED);
    assert_eq!(cells(&mut browser), rows_of_csv());
    browser.open(&page("tables?pool=p"), LOADED);
    look(&home, &mut browser, "tables");
    browser.evaluate("document.querySelector('table a').click()");
    browser.wait_until(&format!("location.search.includes('table=') && {LOADED}"));
    browser.wait_until("document.querySelectorAll('main table').length === 3");
    click(&mut browser, "Run");
    browser.wait_until("document.querySelector('.grid-table')");
    assert_eq!(cells(&mut browser), rows_of_csv());
    look(&home, &mut browser, "table");
    // The console has the directory open, and it has no query engine.
    explain(&mut browser, "p", ".plan .place-client .place-client");
    look(&home, &mut browser, "plan");
    for path in ["arrays", "s3"] {
        browser.open(&page(path), LOADED);
        browser.wait_until("document.querySelector('.notice').textContent.includes('make ')");
        look(&home, &mut browser, path);
    }
    arrays_and_buckets_are_shown(&home, &mut browser, &page);
    a_file_is_uploaded(&home, &mut browser, &page("?pool=p&prefix=new/"));

    browser.open(&page(&format!("?pool=p&object={}", escaped(HOSTILE[1]))), LOADED);
    for button in ["Delete", "Delete"] {
        click(&mut browser, button);
    }
    browser.wait_until("!location.search.includes('object=') && document.querySelector('tbody')");
    let error = home.fails(3, &["stat", &format!("p/{}", HOSTILE[1])]);
    assert!(error.contains("not_found") || error.contains("no such object"), "{error}");
    browser.evaluate("document.getElementById('sign-out').click()");
    browser.wait_until("document.getElementById('token')");
}

/// Uploads a file with a hostile name, and then another one to the same name, which is refused.
fn a_file_is_uploaded(home: &Home, browser: &mut Browser, url: &str) {
    browser.open(url, LOADED);
    every_control_gets_the_focus(browser);
    let choose = |text: &str| {
        let name = json!(HOSTILE[0]);
        format!(
            "(() => {{ const files = new DataTransfer(), input = document.querySelector('input[type=file]'); \
             files.items.add(new File(['{text}'], {name})); input.files = files.files; \
             input.dispatchEvent(new Event('change')); }})()"
        )
    };
    browser.evaluate(&choose("from a browser"));
    click(browser, "Upload");
    browser.wait_until("document.querySelector('div[role=status] a')");
    let stored = browser.evaluate("document.querySelector('div[role=status] a').textContent");
    let object = format!("p/new/{}", HOSTILE[0]);
    assert_eq!(format!("p/{}", stored.as_str().unwrap()), object);
    look(home, browser, "uploaded");
    browser.evaluate(&choose("another one"));
    click(browser, "Upload");
    browser.wait_until("document.querySelector('.notice.bad').textContent.includes('already exists')");
    assert_eq!(home.ok(&["cat", &object]), "from a browser");
}

/// Once their programs are there, the pages of arrays and of S3 work without a restart.
fn arrays_and_buckets_are_shown(home: &Home, browser: &mut Browser, page: &dyn Fn(&str) -> String) {
    let zarr = json!({
        "zarr_format": 3, "node_type": "array", "shape": [4, 6], "data_type": "float32", "fill_value": 0.0,
        "chunk_grid": { "name": "regular", "configuration": { "chunk_shape": [4, 6] } },
        "chunk_key_encoding": { "name": "default", "configuration": { "separator": "/" } },
        "codecs": [{ "name": "bytes", "configuration": { "endian": "little" } }],
        "dimension_names": ["y", "x"], "attributes": { HOSTILE[0]: HOSTILE[1] },
    });
    home.file("field/zarr.json", zarr.to_string());
    home.file("field/c/0/0", (0..24_u8).flat_map(|value| f32::from(value).to_le_bytes()).collect::<Vec<_>>());
    home.ok(&["pool", "create", "arrays"]);
    home.ok(&["array", "create", "arrays/field", "--from", "field"]);
    // A damaged array hides no other one, and an array with one dimension has no picture.
    let mut line = zarr.clone();
    line["shape"] = json!([6]);
    line["chunk_grid"]["configuration"]["chunk_shape"] = json!([6]);
    line["dimension_names"] = json!(["x"]);
    for (name, metadata) in [("damaged", "{".to_owned()), ("line", line.to_string())] {
        let object = format!("arrays/{name}/zarr.json");
        assert!(home.pipe(&["put", &object, "-"], metadata.as_bytes()).status.success());
    }
    install(home, "benthic-array");
    browser.open(&page("arrays?pool=arrays"), LOADED);
    browser.wait_until("document.querySelector('table').textContent.includes('malformed')");
    look(home, browser, "arrays-list");
    browser.open(&page("arrays?pool=arrays&array=arrays/line"), LOADED);
    browser.wait_until("document.querySelector('main').textContent.includes('needs two dimensions')");
    look(home, browser, "array-line");
    browser.open(&page("arrays?pool=arrays"), LOADED);
    browser.evaluate("document.querySelector('table a').click()");
    browser.wait_until("document.querySelector('img.preview')?.naturalWidth > 0");
    browser
        .wait_until(&format!("document.querySelector('table').textContent.includes({})", json!(HOSTILE[1])));
    look(home, browser, "array");
    browser.open(&page(&format!("?pool=arrays&object={}", escaped("field/zarr.json"))), LOADED);
    look(home, browser, "array-metadata");
    let link = "[...document.querySelectorAll('a')].find((one) => one.textContent === 'Show the array')";
    browser.evaluate(&format!("{link}.click()"));
    browser.wait_until("document.querySelector('img.preview')?.naturalWidth > 0");

    home.ok(&["s3", "account", "create", "lab"]);
    home.ok(&["s3", "bucket", "create", "shown", "--view", "p", "--account", "lab"]);
    install(home, "benthic-s3");
    browser.open(&page("s3"), LOADED);
    look(home, browser, "buckets");
    browser.evaluate("document.querySelector('table a').click()");
    browser
        .wait_until(&format!("document.querySelector('table')?.textContent.includes({})", json!(HOSTILE[0])));
    look(home, browser, "bucket");
}

/// The names of the columns and the values of the shown rows.
fn cells(browser: &mut Browser) -> Value {
    browser
        .evaluate("[...document.querySelectorAll('.grid-table :is(th, td)')].map((one) => one.textContent)")
}

fn rows_of_csv() -> Value {
    let script = "<script>window.ran=1</script>";
    json!([TABLE, "n", script, "12345678901234567", "b", "2", "c", "3"])
}

#[track_caller]
fn click(browser: &mut Browser, button: &str) {
    browser.evaluate(&format!(
        "[...document.querySelectorAll('button')].find((one) => one.textContent === '{button}').click()"
    ));
}

/// Shows where the parts of a query of the table ran. The plan must have this part.
#[track_caller]
fn explain(browser: &mut Browser, pool: &str, part: &str) {
    let sql = format!("{COUNT}{pool}.\"{}\" WHERE n > 2 GROUP BY 1", TABLE.replace('"', "\"\""));
    browser.evaluate(&format!("document.querySelector('textarea').value = {}", json!(sql)));
    browser.evaluate("document.querySelector('option[value=always]').selected = true");
    click(browser, "Run and show where");
    browser.wait_until("document.querySelector('.plan')");
    assert_eq!(browser.evaluate(&format!("Boolean(document.querySelector('{part}'))")), true);
    let text = browser.evaluate("document.querySelector('.plan').innerText");
    let text = text.as_str().unwrap();
    assert!(
        text.contains("FragmentExec") && text.contains("AggregateExec") && text.contains(TABLE),
        "{text}"
    );
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
    browser.open(&page(&format!("?pool={pool}&folders=1")), LOADED);
    let folders =
        browser.evaluate("[...document.querySelectorAll('a.folder')].map((one) => one.textContent)");
    assert_eq!(folders, json!(FOLDERS));
    browser.evaluate("[...document.querySelectorAll('a.folder')].at(-1).click()");
    browser.wait_until("document.querySelector('a.folder')?.textContent === '2026/'");
    browser.evaluate("document.querySelector('a.folder').click()");
    browser.wait_until("document.querySelectorAll('tbody tr').length === 100");
    browser.wait_until("document.querySelector('.notice').textContent.includes('in no order')");
    look(&home, &mut browser, "ceph-folder");
    browser.open(&page(&format!("?pool={pool}&object={}", escaped(HOSTILE[0]))), LOADED);
    look(&home, &mut browser, "ceph-object");
    browser.open(&page(&format!("tables?pool={pool}&table={}", escaped(TABLE))), LOADED);
    // The aggregation runs in the OSDs.
    explain(&mut browser, pool, ".plan .place-objects .place-objects");
    look(&home, &mut browser, "ceph-plan");
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
    let (mut names, _) = listed(&console, &format!("pool={pool}&limit=7"));
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), 127);
    let (mut names, folders) = listed(&console, &format!("pool={pool}&limit=3&delimiter=/"));
    names.sort_unstable();
    let expected = ["binary", "broken.parquet", "picture", "rows.parquet", HOSTILE[0], HOSTILE[2]];
    let mut expected = expected.map(str::to_owned);
    expected.sort_unstable();
    assert_eq!(names, expected);
    assert_eq!(folders, BTreeSet::from(FOLDERS.map(str::to_owned)));
    drop(console);
    home.ok(&["--store", &store, "pool", "rm", pool, "--yes", pool]);
}

/// The objects and the folders of all pages of a listing.
#[track_caller]
fn listed(console: &Console, parameters: &str) -> (Vec<String>, BTreeSet<String>) {
    let (mut names, mut folders, mut after) = (Vec::new(), BTreeSet::new(), String::new());
    loop {
        let page = console.get(&format!("/api/objects?{parameters}{after}"));
        let objects = page["objects"].as_array().unwrap();
        names.extend(objects.iter().map(|one| one["object"].as_str().unwrap().to_owned()));
        let prefixes = page["prefixes"].as_array().unwrap();
        folders.extend(prefixes.iter().map(|one| one.as_str().unwrap().to_owned()));
        let Some(next) = page["next"].as_str() else { return (names, folders) };
        after = format!("&after={next}");
    }
}
