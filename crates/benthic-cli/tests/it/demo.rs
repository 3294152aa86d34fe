//! demo, end to end.

use crate::support::{Home, failed};
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;

const QUICK: [&str; 4] = ["--repeat", "3", "--object-size", "0,4KiB"];

fn demo<'a>(args: &[&'a str]) -> Vec<&'a str> {
    ["demo"].iter().chain(args).chain(&QUICK).copied().collect()
}

#[test]
fn generated_files_agree_with_md5sum_and_the_report_stands_alone() {
    let home = Home::bare();
    let text = home.ok(&demo(&["--size", "4MiB"]));
    for part in [
        "the same.",
        "from the store",
        "digest in storage",
        "no network",
        "3 times stat",
        "client, buffered",
        "4.5× fewer round trips to digest one object 3 times: the published form, on 0 B: 2 in storage, 9 at the client",
        "Mastering Ceph",
    ] {
        assert!(text.split_whitespace().collect::<Vec<_>>().join(" ").contains(part), "{part}: {text}");
    }
    let page = String::from_utf8(home.read("benthic-demo.html")).unwrap();
    // The results of the experiment come first, then the charts, then the tables.
    let at = |part: &str| page.find(part).unwrap_or_else(|| panic!("{part}: {page}"));
    let parts = ["class=figures", "fewer bytes moved", "no network here", "<svg", "Mastering Ceph", "<table"];
    assert!(parts.map(at).is_sorted(), "{:?}", parts.map(at));
    let chart = &page[at("<svg")..at("</svg>")];
    let bars: Vec<f64> =
        chart.split(" width=").skip(1).map(|rest| rest.split(' ').next().unwrap().parse().unwrap()).collect();
    assert!(matches!(bars[..], [in_storage, at_client] if in_storage < at_client / 10.0), "{chart}");
    assert!(page.contains("<svg") && page.contains("prefers-color-scheme") && page.contains("viewport"));
    assert!(
        !page.contains("http") && !page.contains("<script") && !page.contains("NaN"),
        "nothing from outside"
    );
    assert!(page.trim_end().ends_with("</html>"));
    // The digests remain stored.
    let listed = home.ok(&[
        "exec",
        "--all",
        "--prefix",
        "generated/edges/",
        "benthic-demo",
        "digest",
        "verify",
        "md5",
    ]);
    assert!(listed.lines().count() > 5, "{listed}");
    // A second run recreates the demo's own pool.
    home.ok(&demo(&["--size", "1MiB"]));
}

#[test]
fn a_data_directory_is_used_without_the_store_in_it() {
    let home = Home::bare();
    home.file("a", "abc");
    home.file("sub/new\nline", "x");
    home.file("sub/back\\slash", "");
    File::create(home.path("huge")).unwrap().set_len(128 * 1024 * 1024 + 1).unwrap();
    let found = home.json(&demo(&["--data", ".", "--report", "r.html"])).remove(0);
    assert_eq!(found["phases"].as_array().unwrap().len(), 4);
    for (phase, name) in found["phases"].as_array().unwrap().iter().zip([
        "load",
        "digest in storage",
        "digest at the client",
        "md5sum of the files",
    ]) {
        assert_eq!(
            (phase["phase"].as_str(), phase["objects"].as_u64(), phase["bytes"].as_u64()),
            (Some(name), Some(3), Some(4))
        );
    }
    // The storage needs a call and a read of the attribute per object; the client needs `stat`, and
    // a read if the object is not empty.
    let round_trips: Vec<_> =
        found["phases"].as_array().unwrap().iter().map(|phase| phase["round_trips"].as_u64()).collect();
    assert_eq!(round_trips[1..], [Some(2 * 3), Some(2 * 2 + 1), None]);
    // Each digest returned 32 characters.
    assert_eq!(found["phases"][1]["received_bytes"], 3 * 32);
    assert_eq!(found["mismatches"].as_array().unwrap().len(), 0);
    assert!(home.ok(&demo(&["--data", "."])).contains("the same. Skipped: 1."));
    assert!(found["skipped"][0].as_str().unwrap().contains("128 MiB"), "{}", found["skipped"]);
    let published = &found["published"][1];
    assert_eq!(
        (published["size_bytes"].as_u64(), published["calls_in_storage"].as_u64()),
        (Some(4096), Some(1))
    );
    assert!(
        published["client_durable"]["crossed_bytes"].as_u64()
            > published["in_storage"]["crossed_bytes"].as_u64()
    );
    assert!(home.path("r.html").is_file());
}

#[test]
fn a_clone_is_used_without_build_output() {
    let home = Home::bare();
    for name in [".git/HEAD", "target/release/big", "README.md", "src/lib.rs"] {
        home.file(name, "x");
    }
    home.ok(&demo(&["--size", "1MiB", "--store", "mem:"]));
    home.ok(&demo(&["--size", "1MiB"]));
    let mut names: Vec<String> =
        home.ok(&["ls", "benthic-demo", "--prefix", "clone/"]).lines().map(str::to_owned).collect();
    names.sort();
    // The report of the first run is a file of the clone in the second run.
    assert_eq!(names, ["clone/README.md", "clone/benthic-demo.html", "clone/src/lib.rs"]);
}

#[test]
fn a_pool_that_the_demo_did_not_create_is_not_removed() {
    let home = Home::bare();
    home.file("f", "x");
    home.ok(&["pool", "create", "mine"]);
    home.ok(&["put", "mine/o", "f"]);
    assert!(home.fails(4, &demo(&["--size", "1MiB", "--pool", "mine"])).contains("--pool"));
    assert_eq!(home.ok(&["get", "mine/o", "-"]), "x");
    home.fails(3, &demo(&["--data", "no-such-directory"]));
    assert_eq!(home.ok(&["pool", "ls"]), "mine\n", "nothing was begun");
    home.fails(3, &demo(&["--report", "no/such/directory/r.html"]));
    home.fails(11, &["demo", "--object-size", "65MiB"]);
    home.fails(2, &["demo", "--repeat", "0"]);
}

#[test]
fn a_wrong_digest_is_reported() {
    let home = Home::bare();
    home.file("data/f", "abc");
    // A system whose md5sum prints a wrong digest.
    let lying = home.file("bin/md5sum", "#!/bin/sh\nprintf '%s  %s\\0' 00000000000000000000000000000000 f\n");
    fs::set_permissions(&lying, fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = home.command(&demo(&["--data", "data"]));
    let run = command.env("PATH", home.path("bin")).output().unwrap();
    let stderr = failed(&run, 12);
    assert!(stderr.contains("digests differ"), "{stderr}");
    let text = String::from_utf8_lossy(&run.stdout).into_owned();
    assert!(text.contains("benthic-demo/f in_storage=900150983cd24fb0d6963f7d28e17f72"), "{text}");
    assert!(String::from_utf8(home.read("benthic-demo.html")).unwrap().contains("digests differ"));
    // A system without md5sum.
    let run = home.command(&demo(&["--data", "data"])).env("PATH", "").output().unwrap();
    assert!(failed(&run, 9).contains("coreutils"));
}
