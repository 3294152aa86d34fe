//! The status page of a real cluster in a real browser.

use crate::support::{CLUSTER_DIR, ClusterCleanup, Home, Server, failed, printed};
use benthic_testkit::wait;
use rustix::process::Signal;
use serde_json::{Value, json};
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Pool names that would run scripts or reverse the text if the page did not escape them.
const HOSTILE_POOLS: [&str; 3] = [
    "<img src=x onerror=\"document.title='run'\">",
    "<script>document.title='run'</script>",
    "a\"b'&amp;\n\u{202e}c",
];
/// Time that the browser simulates, on its virtual clock.
const LOOK_MS: u32 = 5_000;

#[test]
fn the_page_shows_the_state_of_a_cluster() {
    let home = Home::bare();
    let _removed = ClusterCleanup(&home, &[CLUSTER_DIR]);
    home.ok(&["cluster", "up", "--osds", "3"]);
    let conf = home.path("benthic-cluster").canonicalize().unwrap().join("ceph.conf");
    let conf = conf.to_str().unwrap();
    let ceph = |args: &[&str]| {
        printed(&Command::new("ceph").args(["--conf", conf]).args(args).output().unwrap(), args)
    };
    for pool in HOSTILE_POOLS {
        ceph(&["osd", "pool", "create", "--", pool, "4"]);
    }
    ceph(&["osd", "pool", "create", "scratch", "4"]);
    let store = format!("ceph:?conf={conf}");
    let history = home.path("history").to_str().unwrap().to_owned();
    let serve = |interval_s: &str, more: &[&str]| {
        let args =
            ["--store", &store, "status", "serve", "--listen", "127.0.0.1:0", "--interval", interval_s];
        Server::start(&home, &[&args[..], &["--history", &history], more].concat())
    };

    let served = serve("1", &["--probe-pool", "scratch"]);
    responses_are_protected(&served);
    // The manager reports new pools with a delay.
    let seen = wait_for_status(&served, |seen| {
        let mut pools = seen["pools"].as_array().unwrap().iter();
        seen["io"].is_object() && pools.all(|pool| pool["stored_bytes"].is_number())
    });
    documented(&home, &seen);
    readable_with_hostile_names(&home, &served);
    the_page_reports_a_lost_server(&home, &served);
    let calls = calls_are_counted(&home, &served, &store);

    home.ok(&["cluster", "kill", "osd.1"]);
    let is_reported = |seen: &Value| seen["report"]["findings"].to_string().contains("\"CephOSDDownHigh\"");
    wait_for_status(&served, is_reported);
    let page = looked_at(&home, &served.url, LOOK_MS);
    assert!(
        page.contains("CephOSDDownHigh") && page.contains("osd.1") && page.contains("2 of 3 up"),
        "{page}"
    );
    assert!(!page.contains(">Healthy<") && !page.contains("<title>Healthy"), "{page}");

    home.ok(&["cluster", "start", "osd.1"]);
    an_osd_that_starts_again_counts_on(&home, &served, &store, calls);
    assert_eq!(served.stop(Signal::INT), Some(130));
    the_history_survives_a_restart(&home, &history, &serve);
    starts_while_the_cluster_is_down(&home, &history, &serve);
}

fn json_of(answer: &str) -> Value {
    serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
}

/// Waits until the served JSON meets the condition.
fn wait_for_status(served: &Server, is_so: impl Fn(&Value) -> bool) -> Value {
    let mut last = Value::Null;
    wait::until("the page to tell it", || {
        last = json_of(&served.ask("GET /status.json", "localhost"));
        is_so(&last)
    });
    last
}

fn responses_are_protected(served: &Server) {
    let port = served.address().rsplit_once(':').unwrap().1;
    for host in ["localhost", &format!("localhost:{port}"), &format!("127.0.0.1:{port}"), "[::1]"] {
        assert!(served.ask("GET /", host).starts_with("HTTP/1.1 200 "), "{host}");
    }
    for line in [
        "GET /",
        "GET /page.css",
        "GET /page.js",
        "GET /status.json",
        "GET /-/health",
        "GET /nowhere",
        "POST /status.json",
    ] {
        let answer = served.ask(line, "localhost");
        let head = answer.split("\r\n\r\n").next().unwrap();
        assert!(
            head.contains("\r\ncontent-security-policy: default-src 'none'; script-src 'self'; "),
            "{head}"
        );
        assert!(
            head.contains("\r\nx-content-type-options: nosniff")
                && head.contains("\r\nx-frame-options: DENY")
        );
        assert!(
            head.contains("\r\ncache-control: no-store") && head.contains("\r\nreferrer-policy: no-referrer")
        );
    }
    let other = served.ask("GET /status.json", "evil.example");
    assert!(
        other.starts_with("HTTP/1.1 421 ") && !other.contains("fsid") && other.contains("--host"),
        "{other}"
    );
    assert!(served.ask("POST /status.json", "localhost").starts_with("HTTP/1.1 405 "));
    assert!(served.ask("DELETE /", "localhost").starts_with("HTTP/1.1 405 "));
    assert!(served.ask("HEAD /", "localhost").ends_with("\r\n\r\n"));
    assert!(served.ask("GET /../etc/passwd", "localhost").starts_with("HTTP/1.1 404 "));
    assert!(served.ask("GET /-/health", "localhost").ends_with("\r\n\r\nok\n"));
}

/// Checks that the guide documents every key of the JSON.
fn documented(home: &Home, seen: &Value) {
    let guide = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/status.md");
    let guide = fs::read_to_string(guide).unwrap();
    for key in seen.as_object().unwrap().keys() {
        assert!(guide.contains(&format!("| `{key}` |")), "{key}");
    }
    assert_eq!((&seen["version"], &seen["interval_s"], &seen["error"]), (&json!(1), &json!(1), &Value::Null));
    let pools = seen["pools"].as_array().unwrap();
    for name in HOSTILE_POOLS {
        let pool = pools.iter().find(|pool| pool["pool"] == name).unwrap();
        assert_eq!(
            (&pool["size"], &pool["pgs"], &pool["stored_bytes"]),
            (&json!(3), &json!(4), &json!(0)),
            "{pool}"
        );
    }
    assert_eq!((&seen["places"][0]["osds"], &seen["places"][0]["osds_up"]), (&json!(3), &json!(3)));
    assert!(seen["io"]["write_ops_per_s"].is_number() && !seen["history"]["minutes"]["rows"][0].is_null());
    let health: Value = home.json(&["--store", seen_store(home).as_str(), "health"]).remove(0);
    let keys = |report: &Value| report.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&seen["report"]), keys(&health), "it is the report of `benthic health`");
}

fn seen_store(home: &Home) -> String {
    format!("ceph:?conf={}", home.path("benthic-cluster/ceph.conf").display())
}

fn readable_with_hostile_names(home: &Home, served: &Server) {
    let mut page = String::new();
    // A loaded machine may have a slow disk at any moment.
    wait::until("a page that calls it healthy", || {
        page = looked_at(home, &served.url, LOOK_MS);
        page.contains(">Healthy<")
    });
    assert!(page.contains("<title>Healthy · cluster status</title>"), "{page}");
    assert!(
        page.contains("&lt;img src=x onerror=") && page.contains("&lt;script&gt;document.title="),
        "{page}"
    );
    assert!(!page.contains("<img") && page.matches("<script").count() == 1, "{page}");
    // The page shows invisible characters as escapes.
    assert!(page.contains("a\"b'&amp;amp;\\u{a}\\u{202e}c") && !page.contains('\u{202e}'), "{page}");
    for part in [
        "Sites, hosts and OSDs",
        "3 of 3 up",
        "active+clean",
        "benthic_1",
        "Client throughput",
        "<figcaption",
    ] {
        assert!(page.contains(part), "{part} in {page}");
    }
    let numbers_missing = ["NaN", "undefined", "[object"];
    assert!(numbers_missing.iter().all(|sign| !page.contains(sign)), "{page}");
    for (width, height) in [(360, 800), (1_280, 900)] {
        let picture = home.path(&format!("page-{width}.png"));
        let size = format!("--window-size={width},{height}");
        let shot = format!("--screenshot={}", picture.display());
        browser(home, &[&size, &shot, &format!("--virtual-time-budget={LOOK_MS}"), &served.url]);
        assert!(fs::metadata(&picture).unwrap().len() > 10_000);
    }
}

/// The reported calls of `benthic_1`.
fn library_calls(seen: &Value) -> &Value {
    let libraries = seen["calls"].as_array().unwrap().iter();
    libraries.into_iter().find(|library| library["library"] == "benthic_1").unwrap_or(&Value::Null)
}

/// The reported calls of a class.
fn of_class<'a>(seen: &'a Value, name: &str) -> &'a Value {
    let classes = library_calls(seen)["classes"].as_array().unwrap().iter();
    classes.into_iter().find(|class| class["class"] == name).unwrap()
}

fn is_counted_in_all(seen: &Value) -> bool {
    library_calls(seen)["osds"] == 3 && library_calls(seen)["osds_not_seen"] == 0
}

fn digest(home: &Home, store: &str, call: usize) {
    home.ok(&["--store", store, "exec", &format!("scratch/object-{}", call % 8), "digest", "compute", "md5"]);
}

/// Makes calls that succeed and calls that fail, on objects of all OSDs. Returns the number of
/// successful calls.
fn calls_are_counted(home: &Home, served: &Server, store: &str) -> usize {
    let seen = wait_for_status(served, is_counted_in_all);
    for class in library_calls(&seen)["classes"].as_array().unwrap() {
        assert_eq!(
            (&class["calls"], &class["failures"], &class["busy_us"]),
            (&json!(0), &json!(0), &json!(0))
        );
    }
    for object in 0..8 {
        home.pipe(&["--store", store, "put", &format!("scratch/object-{object}"), "-"], b"data");
    }
    let mut calls = 0;
    wait::until("calls a second", || {
        digest(home, store, calls);
        calls += 1;
        let seen = json_of(&served.ask("GET /status.json", "localhost"));
        calls >= 10 && of_class(&seen, "digest")["calls_per_s"].as_f64().is_some_and(|rate| rate > 0.0)
    });
    for object in 0..5 {
        let object = format!("scratch/object-{object}");
        home.fails_with(
            "already_exists",
            &["--store", store, "exec", &object, "hello", "errno", "already_exists"],
        );
    }
    let seen = wait_for_status(served, |seen| {
        of_class(seen, "digest")["calls"] == calls && of_class(seen, "hello")["calls"] == 5
    });
    let [digest, hello] = ["digest", "hello"].map(|class| of_class(&seen, class));
    assert_eq!((&digest["failures"], &hello["failures"]), (&json!(0), &json!(5)));
    for (class, method, expected) in [(digest, "compute", calls), (hello, "errno", 5)] {
        for of_method in class["methods"].as_array().unwrap() {
            let expected = if of_method["method"] == method { expected } else { 0 };
            assert_eq!(of_method["calls"], expected, "{of_method}");
            assert_eq!(of_method["busy_us"].as_u64().unwrap() > 0, expected > 0, "{of_method}");
        }
    }
    let page = looked_at(home, &served.url, LOOK_MS);
    assert!(page.contains("calls are counted in 3 OSDs for "), "{page}");
    let row = |class: &str| {
        let from = page.split(&format!("<span class=\"kept\">{class}</span>")).nth(1).unwrap();
        from.split("</tr>").next().unwrap().to_owned()
    };
    let cell = |name: &str, value: usize| format!("data-label=\"{name}\"><span class=\"kept\">{value}<");
    for (class, calls, failures) in [("digest", calls, 0), ("hello", 5, 5), ("lock", 0, 0)] {
        let row = row(class);
        assert!(row.contains(&cell("Calls", calls)) && row.contains(&cell("Failures", failures)), "{row}");
    }
    calls
}

/// The counters of a restarted OSD's library begin at 0. The sums keep the earlier counts and never
/// decrease.
fn an_osd_that_starts_again_counts_on(home: &Home, served: &Server, store: &str, calls: usize) {
    let not_less = |seen: &Value| {
        let digest = of_class(seen, "digest");
        assert!(digest["calls"].as_u64() >= Some(calls as u64), "{digest}");
        for rate in ["calls_per_s", "failures_per_s", "busy_share"] {
            assert!(digest[rate].as_f64().is_none_or(|rate| rate >= 0.0), "{digest}");
        }
    };
    let seen = wait_for_status(served, |seen| {
        not_less(seen);
        is_counted_in_all(seen)
    });
    assert_eq!(of_class(&seen, "digest")["calls"], calls);
    for call in 0..16 {
        digest(home, store, call);
    }
    let seen = wait_for_status(served, |seen| {
        not_less(seen);
        of_class(seen, "digest")["calls"] == calls + 16
    });
    assert_eq!(of_class(&seen, "digest")["failures"], 0);
}

/// A proxy that stops answering after its first response with numbers.
fn the_page_reports_a_lost_server(home: &Home, served: &Server) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let upstream = served.address().to_owned();
    let is_gone = Arc::new(AtomicBool::new(false));
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let (upstream, is_gone) = (upstream.clone(), Arc::clone(&is_gone));
            // A browser may open connections in advance without sending a request.
            std::thread::spawn(move || pass_on(client.unwrap(), &upstream, &is_gone));
        }
    });
    let page = looked_at(home, &url, 60_000);
    assert!(page.contains("The status server does not answer") && page.contains("was last seen"), "{page}");
    assert!(page.contains("3 of 3 up"), "what was seen last is still shown: {page}");
}

fn pass_on(mut client: TcpStream, upstream: &str, is_gone: &AtomicBool) {
    let mut head = vec![0; 16 * 1024];
    let len = client.read(&mut head).unwrap_or(0);
    let has_numbers = head.starts_with(b"GET /status.json");
    if len == 0 || is_gone.fetch_or(has_numbers, Ordering::Relaxed) {
        return;
    }
    let mut server = TcpStream::connect(upstream).unwrap();
    server.write_all(&head[..len]).unwrap();
    let mut answer = Vec::new();
    server.read_to_end(&mut answer).unwrap();
    client.write_all(&answer).unwrap();
}

fn the_history_survives_a_restart(home: &Home, history: &str, serve: &impl Fn(&str, &[&str]) -> Server) {
    let observed_s = |seen: &Value| {
        let rows = seen["history"]["days"]["rows"].as_array().unwrap();
        rows.iter().map(|row| row[1].as_u64().unwrap()).sum::<u64>()
    };
    let kept: Value = serde_json::from_slice(&fs::read(history).unwrap()).unwrap();
    let before_s: u64 =
        kept["days"].as_array().unwrap().iter().map(|day| day["observed_s"].as_u64().unwrap()).sum();
    assert!(before_s > 0, "{kept}");
    let served = serve("3600", &[]);
    let seen = json_of(&served.ask("GET /status.json", "localhost"));
    // The first sample of a run counts as one second, and the next sample is an hour away.
    assert_eq!(observed_s(&seen), before_s + 1);
    served.stop(Signal::TERM);
    let milk = home.file("milk", "milk\n");
    let milk = milk.to_str().unwrap();
    let error = failed(&home.run(&serve_args(&seen_store(home), milk)), 6);
    assert!(error.contains("move it away") && fs::read(milk).unwrap() == b"milk\n", "{error}");
}

fn serve_args<'a>(store: &'a str, history: &'a str) -> [&'a str; 8] {
    ["--store", store, "status", "serve", "--listen", "127.0.0.1:0", "--history", history]
}

fn starts_while_the_cluster_is_down(home: &Home, history: &str, serve: &impl Fn(&str, &[&str]) -> Server) {
    let kept = fs::read(history).unwrap();
    let fsid = serde_json::from_slice::<Value>(&kept).unwrap()["fsid"].as_str().unwrap().to_owned();
    let text = String::from_utf8(kept.clone()).unwrap();
    let of_another = text.replace(&fsid, "00000000-0000-0000-0000-000000000000");
    let others = home.file("others", &of_another);
    home.ok(&["cluster", "kill", "mon.a"]);

    // Errors that need no monitor are reported at once.
    let store = seen_store(home);
    let conf = fs::read_to_string(home.path("benthic-cluster/ceph.conf")).unwrap();
    let keyless = home.file("keyless.conf", conf.replace("\nkeyring =", "\nkeyring = /nowhere #"));
    for conf in ["/nowhere", keyless.to_str().unwrap()] {
        failed(&home.run(&serve_args(&format!("ceph:?conf={conf}"), history)), 3);
    }
    let served = serve("1", &["--probe-pool", "scratch"]);
    let beside = Server::start(
        home,
        &[&serve_args(&store, others.to_str().unwrap())[..], &["--interval", "1"]].concat(),
    );
    let down_s = |seen: &Value| {
        let days = seen["history"]["days"]["rows"].as_array().unwrap().iter();
        days.map(|day| day[3].as_u64().unwrap()).sum::<u64>()
    };
    // The first sample counts as one second; the interval to the next one counts fully.
    let seen = wait_for_status(&served, |seen| down_s(seen) > 1);
    let finding = &seen["report"]["findings"][0];
    assert_eq!(
        (&seen["report"]["verdict"], &finding["name"]),
        (&json!("down"), &json!("BenthicMonNoAnswer"))
    );
    assert!(finding["next"].as_str().unwrap().contains("monitors' logs"), "{finding}");
    assert!(seen["error"].is_null() && seen["report"]["fsid"] == "", "{seen}");
    assert!(served.ask("GET /-/health", "localhost").ends_with("\r\n\r\nok\n"));
    let page = looked_at(home, &served.url, LOOK_MS);
    assert!(page.contains(">Down<") && page.contains("BenthicMonNoAnswer"), "{page}");
    assert!(
        page.contains("no client can connect") && !page.contains("The last poll of the cluster failed"),
        "{page}"
    );
    assert_eq!(
        tile(&page, "OSDs up"),
        ("unknown".to_owned(), "unknown".to_owned()),
        "nothing was ever known"
    );
    assert_eq!(fs::read(history).unwrap(), kept, "nobody knows yet whose it is");

    home.ok(&["cluster", "start", "mon.a"]);
    home.ok(&["cluster", "start", "osd.1"]);
    let seen = wait_for_status(&served, |seen| {
        seen["report"]["verdict"] == "healthy" && seen["report"]["numbers"]["probe"]["read_ms"].is_number()
    });
    assert_eq!((&seen["report"]["fsid"], &seen["error"]), (&json!(fsid), &Value::Null));
    assert!(down_s(&seen) > 1, "{seen}");
    let before = serde_json::from_slice::<Value>(&kept).unwrap();
    let minutes = |slots: &Value| slots.as_array().unwrap().len();
    assert!(
        minutes(&seen["history"]["minutes"]["rows"]) >= minutes(&before["minutes"]),
        "it goes on with its history"
    );
    wait_for_status(&beside, |seen| seen["report"]["fsid"] == fsid.as_str());
    the_page_shows_what_was_last_known(home, &served);
    for server in [served, beside] {
        assert_eq!(server.stop(Signal::TERM), Some(143));
    }
    assert_eq!(fs::read(others).unwrap(), of_another.as_bytes(), "that of another cluster is left alone");
    let kept_now: Value = serde_json::from_slice(&fs::read(history).unwrap()).unwrap();
    let days = kept_now["days"].as_array().unwrap().iter();
    assert!(days.map(|day| day["down_s"].as_u64().unwrap()).sum::<u64>() > 1, "{kept_now}");
}

/// The tone and the large text of a tile.
fn tile(page: &str, name: &str) -> (String, String) {
    let (before, after) = page.split_once(&format!("<dt>{name}</dt><dd class=\"big\">")).unwrap();
    let tone = before.rsplit_once("<div class=\"").unwrap().1.split('"').next().unwrap();
    (tone.to_owned(), after.split('<').next().unwrap().to_owned())
}

fn the_page_shows_what_was_last_known(home: &Home, served: &Server) {
    let page = looked_at(home, &served.url, LOOK_MS);
    assert_eq!(tile(&page, "OSDs up"), ("ok".to_owned(), "3 of 3".to_owned()), "{page}");
    assert!(page.contains("3 of 3 answered Benthic ("), "{page}");
    home.ok(&["cluster", "kill", "mon.a"]);
    let seen = wait_for_status(served, |seen| seen["report"]["fsid"] == "");
    let last = &seen["last_known"]["osds"];
    assert!(last["unix_s"].as_u64() < seen["unix_s"].as_u64(), "{last}");
    assert_eq!(last["value"].as_array().unwrap().len(), 3, "{last}");
    assert!(seen["report"]["numbers"]["unknown"].to_string().contains("\"osds\""), "{seen}");
    let page = looked_at(home, &served.url, LOOK_MS);
    for name in ["OSDs up", "Availability", "Monitors", "Manager", "Space used", "Objects"] {
        assert_eq!(tile(&page, name), ("unknown".to_owned(), "unknown".to_owned()), "{name} in {page}");
    }
    assert!(page.contains("last known: 3 of 3; ") && !page.contains("0 of 0"), "{page}");
    assert!(page.contains("Unknown. Last known ") && page.contains(" UTC, "), "{page}");
}

/// The page's DOM after this time.
fn looked_at(home: &Home, url: &str, for_ms: u32) -> String {
    let printed = browser(home, &["--dump-dom", &format!("--virtual-time-budget={for_ms}"), url]);
    String::from_utf8(printed).unwrap()
}

fn browser(home: &Home, args: &[&str]) -> Vec<u8> {
    let profile = format!("--user-data-dir={}", home.path("browser").display());
    let fixed = [
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--no-first-run",
        &profile,
    ];
    let run = Command::new("chromium").args(fixed).args(args).env("HOME", home.path("")).output();
    let run = run.unwrap_or_else(|error| {
        panic!("{error}: the tests of the page take Debian's chromium; `make test-ceph` installs it with apt")
    });
    let stderr = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{}: {stderr}", run.status);
    run.stdout
}

#[test]
fn the_page_refuses_a_store_in_a_directory() {
    let home = Home::with_pool();
    let error = home.fails(7, &["status", "serve", "--listen", "127.0.0.1:0"]);
    assert!(error.contains("--store ceph:"), "{error}");
}
