//! `benthic console serve`: its interface for programs, what it refuses, and its limits.

use crate::support::{Home, keys, pattern};
use crate::web::{Console, SERVE, escaped};
use benthic_core::{ObjectId, Stopwatch, Store, SystemClock, WriteOp};
use benthic_embedded::{EmbeddedStore, Options};
use benthic_testkit::wait;
use futures::executor::block_on;
use futures::{StreamExt, stream};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

/// Names that would run scripts or reverse the text if a page did not escape them.
pub const HOSTILE: [&str; 4] =
    ["<img src=x onerror=alert(1)>", "a\"b'&amp;\n\u{202e}c", "../../etc/passwd", "-rf --yes"];

fn object(name: &str) -> String {
    format!("pool=p&object={}", escaped(name))
}

#[test]
fn objects_are_listed_in_pages_and_shown() {
    let home = Home::with_pool();
    for name in HOSTILE.into_iter().chain(["b/1", "b/2", "b/deep/3", "c"]) {
        home.pipe(&["put", "--", &format!("p/{name}"), "-"], name.as_bytes());
    }
    home.ok(&["xattr", "set", "p/c", "owner", "<b>ada</b>"]);
    for key in 0..30 {
        home.ok(&["omap", "set", "p/c", &format!("key{key:02}"), "value"]);
    }
    let console = Console::start(&home, &[]);
    assert_eq!(console.get("/api/pools"), json!({ "pools": ["p"] }));
    let about = console.get("/api/console");
    assert_eq!(
        (&about["engine"], &about["writable"], &about["version"]),
        (&json!("embedded"), &json!(false), &json!(1))
    );
    let build = about["benthic"].as_str().unwrap();
    assert_eq!(home.ok(&["--version"]).trim(), format!("benthic {build}"));

    let (mut names, mut after) = (Vec::new(), String::new());
    loop {
        let page = console.get(&format!("/api/objects?pool=p&limit=3{after}"));
        let objects = page["objects"].as_array().unwrap();
        assert!(objects.len() <= 3 && page["incomplete"] == false, "{page}");
        names.extend(objects.iter().map(|one| one["object"].as_str().unwrap().to_owned()));
        let Some(next) = page["next"].as_str() else { break };
        after = format!("&after={next}");
    }
    let mut expected: Vec<&str> = HOSTILE.into_iter().chain(["b/1", "b/2", "b/deep/3", "c"]).collect();
    expected.sort_unstable();
    names.sort_unstable();
    assert_eq!(names, expected);

    let named = |page: &Value| -> Vec<String> {
        page["objects"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["object"].as_str().unwrap().to_owned())
            .collect()
    };
    let page = console.get("/api/objects?pool=p&prefix=b/");
    assert_eq!(named(&page), ["b/1", "b/2", "b/deep/3"]);
    let folders = console.get("/api/objects?pool=p&delimiter=/");
    assert_eq!(folders["prefixes"], json!(["../", "b/"]), "{folders}");
    assert!(
        !named(&folders).iter().any(|name| name.contains('/')) && named(&folders).contains(&"c".to_owned())
    );
    let inner = console.get("/api/objects?pool=p&delimiter=/&prefix=b/");
    assert_eq!(
        (&inner["prefixes"], named(&inner)),
        (&json!(["b/deep/"]), vec!["b/1".to_owned(), "b/2".to_owned()])
    );

    for name in HOSTILE {
        let shown = console.get(&format!("/api/object?{}", object(name)));
        assert_eq!((&shown["object"], &shown["size_bytes"]), (&json!(name), &json!(name.len())));
        assert_eq!(shown["kind"], "text");
        assert_eq!(console.get(&format!("/api/object/text?{}", object(name)))["text"], name);
    }
    let shown = console.get("/api/object?pool=p&object=c");
    assert_eq!(shown["xattrs"], json!([{ "name": "owner", "value": "<b>ada</b>", "size_bytes": 10 }]));
    let first = console.get("/api/object/omap?pool=p&object=c&limit=20");
    assert_eq!(first["entries"].as_array().unwrap().len(), 20);
    let next = first["next"].as_str().unwrap();
    let second = console.get(&format!("/api/object/omap?pool=p&object=c&limit=20&after={next}"));
    assert_eq!((second["entries"].as_array().unwrap().len(), &second["next"]), (10, &Value::Null));
    assert_eq!(second["entries"][0]["key"], "key20");
    documented(&console, &shown);
    assert_eq!(console.stop(), Some(130));
}

const GUIDE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/console.md");

/// Checks that the guide documents every field.
fn documented(console: &Console, shown: &Value) {
    let guide = fs::read_to_string(GUIDE).unwrap();
    for answer in [shown, &console.get("/api/console"), &console.get("/api/objects?pool=p")] {
        for key in keys(answer) {
            assert!(guide.contains(&format!("`{key}`")), "the guide lacks {key}");
        }
    }
}

#[test]
fn the_guide_lists_every_endpoint() {
    // The words of the source that are addresses.
    let router = include_str!("../../src/commands/console/router.rs");
    let paths = router.split('"').filter(|word| word.starts_with("/api/") || *word == "/status.json");
    // Only the page itself signs in and out.
    let is_public = |path: &&str| !["/api/", "/api/sign-in", "/api/sign-out"].contains(path);
    let served: BTreeSet<&str> = paths.filter(is_public).collect();
    let guide = fs::read_to_string(GUIDE).unwrap();
    let rows = guide.lines().filter_map(|line| line.strip_prefix("| `"));
    let requests = rows.filter_map(|row| row.split(['`', ' ']).nth(1));
    let is_endpoint = |path: &&str| path.starts_with('/') && *path != "/-/health";
    let listed: BTreeSet<&str> = requests.filter(is_endpoint).collect();
    assert!(served.len() > 15, "{served:?}");
    assert_eq!(served, listed);
}

/// A browser loads nothing from elsewhere, and runs no script but those of the console.
#[test]
fn pages_have_a_strict_policy_and_load_nothing_from_elsewhere() {
    let home = Home::with_pool();
    let console = Console::start(&home, &[]);
    let strangers = console.raw("GET /", &[("host", "localhost")], b"");
    assert_eq!(strangers.status, 401);
    let paths =
        ["/", "/classes", "/tables", "/arrays", "/s3", "/common.js", "/page.css", "/api/pools", "/none"];
    for (path, answer) in paths
        .map(|path| (path, console.ask(&format!("GET {path}"), b"")))
        .into_iter()
        .chain([("the page to sign in", strangers)])
    {
        let policy = answer.header("content-security-policy").unwrap();
        assert!(
            policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self'; "),
            "{path}: {policy}"
        );
        for part in ["base-uri 'none'", "frame-ancestors 'none'", "require-trusted-types-for 'script'"] {
            assert!(policy.contains(part), "{path}: {policy}");
        }
        assert!(!policy.contains("unsafe") && !policy.contains("http"), "{path}: {policy}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{path}");
        assert_eq!(answer.header("cache-control"), Some("no-store"), "{path}");
        let body = String::from_utf8_lossy(&answer.body);
        if body.starts_with("<!doctype html>") {
            for foreign in ["//", "<style", " style=", " onclick=", "<script>"] {
                assert!(!body.contains(foreign), "{path} has {foreign}");
            }
        }
    }
}

#[test]
fn data_come_back_as_they_are_and_nothing_runs_in_a_browser() {
    let home = Home::with_pool();
    let data = pattern(9 * 1024 * 1024 + 7);
    home.file("data", &data);
    home.ok(&["put", "p/data", "data"]);
    let png = [b"\x89PNG\r\n\x1a\n", pattern(100).as_slice()].concat();
    home.pipe(&["put", "p/a.png", "-"], &png);
    home.pipe(&["put", "p/page.png", "-"], b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>");
    let console = Console::start(&home, &[]);
    let whole = console.ask("GET /api/object/data?pool=p&object=data", b"");
    assert!(whole.status == 200 && whole.body == data);
    assert_eq!(whole.header("content-length"), Some(data.len().to_string().as_str()));
    let page = console.ask("GET /api/object/data?pool=p&object=page.png", b"");
    assert_eq!(page.header("content-type"), Some("application/octet-stream"));
    assert_eq!(page.header("content-disposition"), Some("attachment; filename*=UTF-8''page.png"));
    let image = console.ask("GET /api/object/image?pool=p&object=a.png", b"");
    assert!(image.body == png && image.header("content-type") == Some("image/png"));
    for answer in [&whole, &page, &image] {
        assert!(answer.header("content-security-policy").unwrap().contains("sandbox"), "{}", answer.head);
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
    }
    assert_eq!(console.refused(501, "GET /api/object/image?pool=p&object=page.png", b""), "unsupported");
    let head = console.ask("HEAD /api/object/data?pool=p&object=data", b"");
    assert!(head.status == 200 && head.body.is_empty());
}

#[test]
fn a_read_only_console_changes_nothing() {
    let home = Home::with_pool();
    home.pipe(&["put", "p/o", "-"], b"before");
    let console = Console::start(&home, &[]);
    for line in [
        "PUT /api/object/data?pool=p&object=new",
        "PUT /api/object/data?pool=p&object=o&replace=1",
        "DELETE /api/object?pool=p&object=o",
    ] {
        assert_eq!(console.refused(403, line, b"after"), "permission_denied");
    }
    let call = |class: &str, method: &str| {
        json!({ "pool": "p", "object": "o", "class": class, "method": method, "input": "md5" }).to_string()
    };
    let answer = console.ask("POST /api/exec", call("digest", "compute").as_bytes());
    let md5 = home.ok(&["exec", "p/o", "digest", "compute", "md5"]);
    assert_eq!(answer.json()["output"], md5.trim(), "{}", answer.head);
    let record = call("hello", "record");
    assert_eq!(console.refused(403, "POST /api/exec", record.as_bytes()), "permission_denied");
    let unknown = call("nothing", "at_all");
    assert_eq!(console.refused(501, "POST /api/exec", unknown.as_bytes()), "unsupported");
    assert_eq!(home.ok(&["ls", "p"]), "o\n");
    assert_eq!(home.ok(&["cat", "p/o"]), "before");
}

#[test]
fn a_writable_console_uploads_deletes_and_calls() {
    let home = Home::with_pool();
    let console = Console::start(&home, &["--writable"]);
    let data = pattern(3 * 1024 * 1024);
    let put =
        |parameters: &str, data: &[u8]| console.ask(&format!("PUT /api/object/data?{parameters}"), data);
    for name in HOSTILE {
        assert_eq!(put(&object(name), &data).status, 200, "{name:?}");
        assert!(console.ask(&format!("GET /api/object/data?{}", object(name)), b"").body == data);
        assert_eq!(put(&object(name), b"x").json()["error"]["kind"], "already_exists");
        assert_eq!(put(&(object(name) + "&replace=1"), b"x").json()["size_bytes"], 1);
        assert_eq!(console.ask(&format!("DELETE /api/object?{}", object(name)), b"").status, 200);
    }
    assert_eq!(home.ok(&["ls", "p"]), "");
    assert_eq!(
        put("pool=p&object=o&namespace=benthic.tables", b"x").json()["error"]["kind"],
        "permission_denied"
    );
    assert_eq!(put("pool=q&object=o", b"x").json()["error"]["kind"], "not_found");

    // An upload that breaks off, and one that announces too much, store nothing.
    let bearer = format!("Bearer {}", console.token);
    for (name, len) in [("short", 1_000), ("huge", 200 * 1024 * 1024)] {
        let mut stream = console.connect();
        let head = format!(
            "PUT /api/object/data?pool=p&object={name} HTTP/1.1\r\nhost: localhost\r\nauthorization: {bearer}\r\n\
             content-length: {len}\r\n\r\npart"
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        assert!(!answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    assert_eq!(home.ok(&["ls", "p"]), "");

    put("pool=p&object=o", b"x");
    let call = json!({
        "pool": "p", "object": "o", "class": "hello", "method": "append_line", "input_hex": "416461",
    });
    let answer = console.ask("POST /api/exec", call.to_string().as_bytes());
    assert_eq!((answer.status, &answer.json()["truncated"]), (200, &json!(false)));
    assert!(home.ok(&["cat", "p/o"]).ends_with("Ada\n"), "{}", home.ok(&["cat", "p/o"]));
}

#[test]
fn strangers_get_nothing() {
    let home = Home::with_pool();
    home.pipe(&["put", "p/secret", "-"], b"secret");
    let console = Console::start(&home, &["--writable"]);
    let bearer = format!("Bearer {}", console.token);
    let host = ("host", "localhost");
    for path in [
        "/api/pools",
        "/api/object/data?pool=p&object=secret",
        "/status.json",
        "/api/nothing",
        "/api/sign-out",
    ] {
        for headers in
            [&[host][..], &[host, ("authorization", "Bearer x")], &[host, ("cookie", "benthic-console=x")]]
        {
            let answer = console.raw(&format!("GET {path}"), headers, b"");
            assert_eq!(answer.status, 401, "{path}");
            assert!(!String::from_utf8_lossy(&answer.body).contains("secret\""), "{path}");
        }
    }
    // Pages are the page to sign in, and its script is public.
    let page = console.raw("GET /tables", &[host], b"");
    assert!(page.status == 401 && String::from_utf8_lossy(&page.body).contains("Sign in"));
    assert_eq!(console.raw("GET /objects.js", &[host], b"").status, 401);
    for path in ["/sign-in.js", "/console.css", "/-/health"] {
        assert_eq!(console.raw(&format!("GET {path}"), &[host], b"").status, 200, "{path}");
    }
    let other = console.raw("GET /api/pools", &[("host", "evil.example"), ("authorization", &bearer)], b"");
    assert!(other.status == 421 && !String::from_utf8_lossy(&other.body).contains("pools"));
    assert_eq!(console.raw("GET /api/pools", &[("authorization", &bearer)], b"").status, 421);

    let origin = format!("http://{}", console.address());
    let address = console.address().to_owned();
    let sign_in = |token: &str, origin: &str, kind: &str| {
        let body = json!({ "token": token }).to_string();
        let len = body.len().to_string();
        let headers = [
            ("host", address.as_str()),
            ("origin", origin),
            ("content-type", kind),
            ("content-length", &len),
        ];
        console.raw("POST /api/sign-in", &headers, body.as_bytes())
    };
    assert_eq!(sign_in("wrong", &origin, "application/json").status, 403);
    assert_eq!(sign_in(&console.token, "http://evil.example", "application/json").status, 403);
    assert_eq!(sign_in(&console.token, &origin, "text/plain").status, 400);
    let signed_in = sign_in(&console.token, &origin, "application/json");
    let cookie = signed_in.header("set-cookie").unwrap();
    assert!(cookie.contains("; HttpOnly; SameSite=Strict") && !cookie.contains(&console.token), "{cookie}");
    let cookie = cookie.split(';').next().unwrap().to_owned();
    let own = |line: &str, more: &[(&str, &str)]| {
        let headers = [&[("host", address.as_str()), ("cookie", cookie.as_str())], more].concat();
        console.raw(line, &headers, b"").status
    };
    assert_eq!(own("GET /api/pools", &[]), 200);
    let delete = "DELETE /api/object?pool=p&object=secret";
    assert_eq!(own(delete, &[]), 403, "a request of a browser names its origin");
    assert_eq!(own(delete, &[("origin", "http://localhost:1")]), 403);
    assert_eq!(
        own("GET /api/pools", &[("sec-fetch-site", "same-site")]),
        403,
        "another port is the same site"
    );
    assert_eq!(home.ok(&["cat", "p/secret"]), "secret");
    assert_eq!(own("POST /api/sign-out", &[("origin", &origin)]), 200);
    assert_eq!(own("GET /api/pools", &[]), 401);
    assert!(sign_in(&console.token, &origin, "application/json").status == 200);
}

#[test]
fn bad_requests_get_errors_and_the_console_goes_on() {
    let home = Home::with_pool();
    let console = Console::start(&home, &[]);
    for (status, kind, line) in [
        (404, "not_found", "GET /../etc/passwd"),
        (404, "not_found", "GET /api/../../x"),
        (404, "not_found", "GET //"),
        (404, "not_found", "GET /%2e%2e/frame.html"),
        (404, "not_found", "GET /api/objects?pool=q"),
        (400, "invalid_argument", "GET /api/objects"),
        (400, "invalid_argument", "GET /api/objects?pool=p&pool=p"),
        (400, "invalid_argument", "GET /api/objects?pool=p&limit=0"),
        (400, "invalid_argument", "GET /api/objects?pool=p&limit=1001"),
        (400, "invalid_argument", "GET /api/objects?pool=p&after=zz"),
        (400, "invalid_argument", "GET /api/objects?pool=p&all_namespaces=yes"),
        (404, "not_found", "GET /api/object?pool=p&object=none"),
        (404, "not_found", "GET /api/object/data?pool=p&object=none"),
        (404, "not_found", "GET /api/object/data?pool=p&object=none&striped=1"),
        (400, "invalid_argument", "GET /api/object?pool=p&object=%00"),
        (400, "invalid_argument", "GET /api/tables?pool=--help"),
        (400, "invalid_argument", "GET /api/table?pool=p&table=%00"),
        (501, "unsupported", "GET /status.json"),
        (405, "unsupported", "POST /api/pools"),
        (405, "unsupported", "GET /api/exec"),
        (405, "unsupported", "GET /api/sql"),
        (405, "unsupported", "DELETE /api/object/data?pool=p&object=x"),
        (405, "unsupported", "OPTIONS /api/pools"),
    ] {
        assert_eq!(console.refused(status, line, b""), kind, "{line}");
    }
    let long = "n".repeat(3_000);
    assert_eq!(console.refused(413, &format!("GET /api/object?pool=p&object={long}"), b""), "limit_exceeded");
    for body in ["", "{", "[]", "{\"sql\":1}", "{\"sql\":\"SELECT 1\",\"shell\":\"x\"}", "\u{0}"] {
        assert_eq!(console.refused(400, "POST /api/sql", body.as_bytes()), "invalid_argument", "{body}");
    }
    let big = json!({ "sql": "x".repeat(3 * 1024 * 1024) }).to_string();
    assert_eq!(console.refused(413, "POST /api/sql", big.as_bytes()), "limit_exceeded");

    let bearer = format!("Bearer {}", console.token);
    let large = "x".repeat(100 * 1024);
    let headers = [("host", "localhost"), ("authorization", bearer.as_str()), ("x-large", large.as_str())];
    assert!([431, 400].contains(&console.raw("GET /api/pools", &headers, b"").status));
    for garbage in
        [&b"\x16\x03\x01\x02\x00"[..], b"GET\r\n\r\n", b"\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"]
    {
        let mut stream = console.connect();
        stream.write_all(garbage).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let _ = stream.read_to_end(&mut Vec::new());
    }
    // Clients that connect and say nothing do not keep others out.
    let idle: Vec<_> = (0..20).map(|_| console.connect()).collect();
    assert_eq!(console.get("/api/pools"), json!({ "pools": ["p"] }));
    drop(idle);
}

#[test]
fn the_arguments_are_checked() {
    let home = Home::with_pool();
    let error = home.fails(2, &["console", "serve", "--listen", "0.0.0.0:0"]);
    assert!(error.contains("--tls-cert"), "{error}");
    home.file("short", "abc");
    home.file("token", "0123456789abcdef0123456789abcdef\n");
    let error = home.fails(6, &["console", "serve", "--token-file", "short"]);
    assert!(error.contains("openssl rand"), "{error}");
    let console = Console::start(&home, &["--token-file", "token"]);
    assert_eq!(console.token, "0123456789abcdef0123456789abcdef");
    let bare = Home::bare();
    bare.fails(3, &["console", "serve", "--listen", "127.0.0.1:0"]);
    assert!(!bare.path("benthic-data").exists());
}

/// The size of a striped object is in an attribute, so one of 100 GiB without data is quickly made,
/// in the way of libradosstriper, which reads holes as zeros.
#[test]
fn a_cancelled_download_of_100_gib_stops_reading() {
    const SIZE: u64 = 100 << 30;
    let home = Home::with_pool();
    let first = "p/big.0000000000000000";
    home.pipe(&["put", first, "-"], b"begin");
    for (name, value) in [
        ("striper.layout.object_size", "4194304"),
        ("striper.layout.stripe_unit", "4194304"),
        ("striper.layout.stripe_count", "1"),
        ("striper.size", &SIZE.to_string()),
    ] {
        home.ok(&["xattr", "set", first, name, value]);
    }
    let console = Console::start(&home, &[]);
    let shown = console.get("/api/object?pool=p&object=big.0000000000000000");
    assert_eq!(shown["striped"], json!({ "object": "big", "size_bytes": SIZE, "pieces": SIZE / 4_194_304 }));
    let mut stream = console.connect();
    let request = format!(
        "GET /api/object/data?pool=p&object=big&striped=1 HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\n\r\n",
        console.token
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut begin = vec![0; 10 * 1024 * 1024];
    stream.read_exact(&mut begin).unwrap();
    let head = String::from_utf8_lossy(&begin[..2_000]).into_owned();
    assert!(
        head.contains(&format!("content-length: {SIZE}\r\n")) && head.contains("\r\n\r\nbegin"),
        "{head}"
    );
    let busy_ms = || {
        let stat = fs::read_to_string(format!("/proc/{}/stat", console.pid())).unwrap();
        let fields: Vec<u64> =
            stat.rsplit(") ").next().unwrap().split(' ').filter_map(|field| field.parse().ok()).collect();
        // The times in user and kernel mode, in hundredths of a second; the text field is not a
        // number.
        10 * (fields[10] + fields[11])
    };
    drop(stream);
    let settled = (0..100).find(|_| {
        let before_ms = busy_ms();
        wait::pause(Duration::from_millis(100));
        busy_ms() == before_ms
    });
    assert!(settled.is_some(), "the console still works");
    assert_eq!(console.get("/api/pools"), json!({ "pools": ["p"] }));
}

/// A console whose program for tables is this shell script.
fn with_tables(home: &Home, script: &str, args: &[&str]) -> Console {
    fs::create_dir(home.path("bin")).unwrap();
    fs::copy(env!("CARGO_BIN_EXE_benthic"), home.path("bin/benthic")).unwrap();
    let program = home.file("bin/benthic-sql", format!("#!/bin/sh\n{script}\n"));
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = Command::new(home.path("bin/benthic"));
    command.args(SERVE).args(args).current_dir(home.dir()).env_remove("BENTHIC_STORE");
    Console::run(command)
}

#[test]
fn programs_get_their_arguments_without_a_shell() {
    let home = Home::with_pool();
    let console =
        with_tables(&home, "printf '%s\\n' \"$@\" > args; printf '{\"z\":1,\"a\":\"<b>\"}\\n'", &[]);
    let statement = "--help $(touch pwned); SELECT 'x' \u{1f600}";
    let sql = |fields: Value| console.ask("POST /api/sql", fields.to_string().as_bytes());
    let answer = sql(json!({ "sql": statement, "pushdown": "always" })).json();
    assert_eq!((&answer["columns"], &answer["rows"]), (&json!(["z", "a"]), &json!([[1, "<b>"]])));
    let args = String::from_utf8(home.read("args")).unwrap();
    let expected = format!(
        "--store\nfile:./benthic-data\n--json\nsql\n--no-local-files\n--pushdown\nalways\n--read-only\n--\n{statement}\n"
    );
    assert!(args == expected && !home.path("pwned").exists(), "{args}");
    let table = console.get(&format!("/api/table?pool=p&table={}&snapshot=-1", escaped("--help")));
    assert_eq!(table["z"], 1);
    let args = String::from_utf8(home.read("args")).unwrap();
    assert!(args.ends_with("table\nshow\n--snapshot=-1\n--\np/--help\n"), "{args}");
    assert_eq!(sql(json!({ "sql": "SELECT 1", "pushdown": "--help" })).status, 400);
    assert_eq!(sql(json!({ "sql": "SELECT 1", "rows_max": 100_000 })).status, 400);
    assert_eq!(sql(json!({ "sql": " " })).status, 400);
    // Programs that are not installed are an error that says how to get them.
    let missing = console.ask("GET /api/s3/buckets", b"");
    assert!(
        missing.status == 501 && missing.json()["error"]["message"].as_str().unwrap().contains("make s3")
    );
    assert_eq!(console.get("/api/console")["programs"], json!({ "sql": true, "array": false, "s3": false }));
    assert_eq!(console.stop(), Some(130));
}

#[test]
fn a_damaged_table_hides_no_other_table() {
    let home = Home::with_pool();
    let script = "echo '{\"table\":\"a\",\"state\":\"damaged\",\"kind\":\"corrupt\",\"message\":\"the head is cut off\"}'
    case \"$*\" in
        *lost) echo '{\"error\":{\"kind\":\"unavailable\",\"message\":\"no monitor answers\"}}' >&2; exit 10;;
        *) echo '{\"table\":\"b\",\"state\":\"live\"}'
           echo '{\"error\":{\"kind\":\"corrupt\",\"message\":\"the head is cut off\"}}' >&2; exit 12;;
    esac";
    let console = with_tables(&home, script, &[]);
    let tables = console.get("/api/tables?pool=p")["tables"].clone();
    assert_eq!((&tables[0]["state"], &tables[1]["state"]), (&json!("damaged"), &json!("live")));
    assert_eq!(console.refused(503, "GET /api/tables?pool=lost", b""), "unavailable");
}

#[test]
fn programs_end_with_their_client_and_at_their_limits() {
    let home = Home::with_pool();
    let script = "case \"$*\" in
        *endless*) exec yes '{\"a\":1}';;
        *long*) exec tr '\\0' x < /dev/zero;;
        *fail*) echo '{\"error\":{\"kind\":\"conflict\",\"message\":\"why\"}}' >&2; exit 5;;
        *) echo $$ > pid.new; mv pid.new pid; exec sleep 1000;;
    esac";
    let console = with_tables(&home, script, &["--writable"]);
    let sql = |text: &str| {
        console.ask("POST /api/sql", json!({ "sql": text, "rows_max": 7 }).to_string().as_bytes())
    };
    let endless = sql("endless").json();
    assert_eq!((endless["rows"].as_array().unwrap().len(), &endless["truncated"]), (7, &json!(true)));
    let long = sql("long");
    assert_eq!((long.status, &long.json()["error"]["kind"]), (413, &json!("limit_exceeded")));
    let failed = sql("fail");
    assert_eq!((failed.status, &failed.json()["error"]["message"]), (409, &json!("why")));

    let body = json!({ "sql": "wait" }).to_string();
    let mut client = console.connect();
    let head = format!(
        "POST /api/sql HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        console.token,
        body.len()
    );
    client.write_all(head.as_bytes()).unwrap();
    wait::until("the start of the program", || home.path("pid").exists());
    let pid = String::from_utf8(home.read("pid")).unwrap();
    let process = std::path::PathBuf::from(format!("/proc/{}", pid.trim()));
    assert!(process.exists());
    drop(client);
    wait::until("the end of the program, whose client is gone", || !process.exists());
    assert_eq!(console.get("/api/pools"), json!({ "pools": ["p"] }));
}

/// The first page of a pool takes about as long with many objects as with few.
#[test]
fn the_first_page_does_not_depend_on_the_size_of_the_pool() {
    let many = if std::env::var_os("BENTHIC_TEST_LONG").is_some() { 1_000_000 } else { 10_000 };
    let home = Home::with_pool();
    home.ok(&["pool", "create", "large"]);
    let store = EmbeddedStore::open(&home.path("benthic-data"), false, Options::default()).unwrap();
    for (pool, objects) in [("p", 10), ("large", many)] {
        let pool = block_on(store.open_pool(pool)).unwrap();
        let writes = stream::iter(0..objects).map(|object| {
            let (pool, name) = (Arc::clone(&pool), ObjectId::new(format!("o{object:07}")).unwrap());
            async move { pool.write(&name, WriteOp::new().buffered().write_full("x")).await.unwrap() }
        });
        block_on(writes.buffer_unordered(64).count());
    }
    store.close().unwrap();
    drop(store);
    let console = Console::start(&home, &[]);
    let quickest_us = |parameters: &str| {
        let times = (0..20).map(|_| {
            let timer = Stopwatch::start(&SystemClock);
            let page = console.get(&format!("/api/objects?limit=10&{parameters}"));
            assert_eq!(page["objects"].as_array().unwrap().len(), 10);
            timer.elapsed().as_micros()
        });
        times.min().unwrap()
    };
    let few = quickest_us("pool=p");
    for parameters in ["pool=large", "pool=large&prefix=o0009", "pool=large&delimiter=/"] {
        let large = quickest_us(parameters);
        assert!(large < 5 * few + 5_000, "{few} us with 10 objects, {large} us with {many}: {parameters}");
    }
}
