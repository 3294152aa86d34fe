//! `benthic image`, with real clients of the NBD protocol: `nbdcopy`, and Python's `nbd` module.

use crate::guest::Guest;
use crate::nbd::{Server, python, tool};
use crate::support::{Home, pattern, printed};
use benthic_core::{ObjectId, Store};
use benthic_embedded::{EmbeddedStore, Options};
use benthic_testkit::wait;
use futures::executor::block_on;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

/// A disk of 10 MiB and some bytes, with a hole.
fn disk(home: &Home) -> Vec<u8> {
    let mut disk = pattern(10 * MIB + 700);
    disk[MIB..7 * MIB].fill(0);
    home.file("disk.raw", &disk);
    disk
}

#[test]
fn a_file_becomes_an_image_and_a_file_again() {
    let home = Home::with_pool();
    let disk = disk(&home);
    assert_eq!(home.ok(&["image", "import", "disk.raw", "p/i"]), "imported 10.0 MiB into p/i\n");
    home.ok(&["image", "export", "p/i", "back.raw"]);
    assert!(home.read("back.raw") == disk);
    let piped = home.run(&["image", "export", "p/i", "-"]);
    assert!(piped.stdout == disk);
    let imported = home.pipe(&["image", "import", "-", "p/piped", "--object-size", "64KiB"], &disk);
    assert!(imported.status.success());
    assert!(home.run(&["image", "export", "p/piped", "-"]).stdout == disk);
    // The hole takes no space.
    assert_eq!(home.json(&["image", "du", "p/i"])[0]["used_bytes"], json!(2 * 4 * MIB + 2 * MIB + 700));
    assert_eq!(home.ok(&["image", "ls", "p"]), "i\npiped\n");
    assert_eq!(home.ok(&["ls", "p"]), "");
}

#[test]
fn an_import_that_fails_leaves_nothing() {
    let home = Home::with_pool();
    disk(&home);
    home.fails_with("not_found", &["image", "import", "missing", "p/i"]);
    home.fails_with("invalid_argument", &["image", "import", ".", "p/i"]);
    home.fails_with("invalid_argument", &["image", "import", "disk.raw", "p/i@s"]);
    home.fails_with("invalid_argument", &["image", "import", "disk.raw", "p/i", "--object-size", "5KiB"]);
    assert_eq!(home.ok(&["image", "ls", "p"]), "");
    // The remains of a killed import do not disturb the next one.
    home.fails_with("invalid_argument", &["image", "create", "p/i.importing", "--size", "5MiB"]);
    let mut import = home.command(&["image", "import", "-", "p/i"]);
    let mut import = import.stdin(Stdio::piped()).spawn().unwrap();
    import.stdin.as_mut().unwrap().write_all(&pattern(20 * MIB)).unwrap();
    while home.ok(&["image", "ls", "p"]).is_empty() {}
    import.kill().unwrap();
    import.wait().unwrap();
    assert_eq!(home.ok(&["image", "ls", "p"]), "i.importing\n");
    home.ok(&["image", "import", "disk.raw", "p/i"]);
    assert_eq!(home.ok(&["image", "ls", "p"]), "i\n");
    home.fails_with("already_exists", &["image", "import", "disk.raw", "p/i"]);
}

#[test]
fn snapshots_and_clones_keep_their_bytes() {
    let home = Home::with_pool();
    let disk = disk(&home);
    home.ok(&["image", "import", "disk.raw", "p/template"]);
    home.ok(&["image", "snap", "create", "p/template@v1"]);
    home.ok(&["image", "clone", "p/template@v1", "p/vm"]);
    home.ok(&["image", "resize", "p/template", "--size", "1MiB", "--shrink"]);
    assert!(home.run(&["image", "export", "p/template@v1", "-"]).stdout == disk);
    assert!(home.run(&["image", "export", "p/vm", "-"]).stdout == disk);
    let info = &home.json(&["image", "info", "p/vm"])[0];
    assert_eq!(info["parent"], json!("p/template@v1"));
    assert_eq!(info["size_bytes"], json!(disk.len()));
    assert_eq!(home.json(&["image", "snap", "ls", "p/template"])[0]["snapshot"], json!("v1"));
    home.fails_with("conflict", &["image", "snap", "rm", "p/template@v1"]);
    home.fails_with("conflict", &["image", "rm", "p/template", "--yes", "template"]);
    home.ok(&["image", "snap", "rollback", "p/template@v1", "--yes", "template"]);
    assert!(home.run(&["image", "export", "p/template", "-"]).stdout == disk);
    home.ok(&["image", "rm", "p/vm", "--yes", "vm"]);
    home.ok(&["image", "snap", "rm", "p/template@v1"]);
    home.ok(&["image", "rename", "p/template", "p/base"]);
    home.ok(&["image", "rm", "p/base", "--yes", "base"]);
    assert_eq!(home.ok(&["image", "ls", "p"]), "");
    assert_eq!(home.json(&["fsck"])[0]["findings"], json!([]));
}

/// Starts imports of the file into `p/i`, and kills each in its second step, until one has left its
/// image. Returns that image's name.
fn killed_import(home: &Home, size_bytes: u64) -> String {
    for _ in 0..20 {
        let mut import = home.command(&["image", "import", "large.raw", "p/i"]).spawn().unwrap();
        while !home.json(&["image", "ls", "p"]).iter().any(|image| image["size_bytes"] == json!(size_bytes)) {
        }
        import.kill().unwrap();
        import.wait().unwrap();
        let listed = home.ok(&["image", "ls", "p"]);
        if listed != "i\n" {
            return listed.trim().to_owned();
        }
        // It was faster than the kill.
        home.ok(&["image", "rm", "p/i", "--yes", "i"]);
    }
    panic!("every import was complete before it was killed");
}

/// A file larger than the step after which an import can continue.
#[test]
fn a_killed_import_of_a_file_continues() {
    const STEP: u64 = 1024 * MIB as u64;
    const SIZE: u64 = 1800 * MIB as u64;
    let home = Home::with_pool();
    // Data in both steps; the rest is holes.
    let path = home.path("large.raw");
    let file = File::create(&path).unwrap();
    file.write_all_at(&pattern(3 * MIB), 0).unwrap();
    file.write_all_at(&pattern(40 * MIB), STEP).unwrap();
    file.set_len(SIZE).unwrap();
    let left = killed_import(&home, SIZE);
    assert!(left.starts_with("i.") && left.ends_with(".importing"), "{left}");
    // The bytes of the first step are not written again: they keep this change.
    let left = format!("p/{left}");
    let server = Server::start(&home, &[&left]);
    let script =
        "import nbd, sys\nh = nbd.NBD()\nh.connect_uri(sys.argv[1])\nh.pwrite(b'kept', 0)\nh.flush()";
    printed(&python(script, &[&server.uri(&left)]).output().unwrap(), &["change"]);
    server.stop();
    let resumed = home.ok(&["image", "import", "large.raw", "p/i"]);
    assert!(resumed.contains("imported 1.8 GiB"), "{resumed}");
    let exported = home.path("exported.raw");
    let part = |path: &Path, offset: u64, len: usize| {
        let mut part = vec![0; len];
        File::open(path).unwrap().read_exact_at(&mut part, offset).unwrap();
        part
    };
    home.ok(&["image", "export", "p/i", "exported.raw"]);
    assert_eq!(std::fs::metadata(&exported).unwrap().len(), SIZE);
    for (offset, len) in [(4, 10 * MIB), (STEP - MIB as u64, 100 * MIB), (SIZE - MIB as u64, MIB)] {
        assert!(part(&path, offset, len) == part(&exported, offset, len), "{offset}");
    }
    assert_eq!(part(&exported, 0, 4), b"kept");

    // A file that has changed is imported from its start.
    home.ok(&["image", "rm", "p/i", "--yes", "i"]);
    killed_import(&home, SIZE);
    file.write_all_at(b"new", 0).unwrap();
    home.ok(&["image", "import", "large.raw", "p/i"]);
    assert_eq!(home.ok(&["image", "ls", "p"]), "i\n");
    home.ok(&["image", "export", "p/i", "exported.raw"]);
    assert_eq!(part(&exported, 0, 3), b"new");
}

/// Starts exports of the snapshot `p/i@s` to `out.raw`, and ends each in its second step, until one
/// has left a part. Returns the part's path.
fn ended_export(home: &Home, step_bytes: u64, signal: Signal) -> PathBuf {
    let part = || {
        let entries = std::fs::read_dir(home.path("")).unwrap().map(|entry| entry.unwrap().path());
        entries.into_iter().find(|path| path.extension().is_some_and(|extension| extension == "benthic-part"))
    };
    for _ in 0..20 {
        let mut export = home.command(&["image", "export", "p/i@s", "out.raw"]).spawn().unwrap();
        let is_late =
            || part().and_then(|part| part.metadata().ok()).is_some_and(|found| found.len() > step_bytes);
        while !is_late() && export.try_wait().unwrap().is_none() {}
        // It may have ended.
        let _ = kill_process(Pid::from_child(&export), signal);
        export.wait().unwrap();
        if let Some(part) = part() {
            return part;
        }
    }
    panic!("every export was complete before it ended");
}

#[test]
fn an_export_of_a_snapshot_continues() {
    const STEP: u64 = 1024 * MIB as u64;
    const SIZE: u64 = 1800 * MIB as u64;
    let home = Home::with_pool();
    home.ok(&["image", "create", "p/i", "--size", &SIZE.to_string()]);
    let server = Server::start(&home, &["p/i"]);
    let script = "import nbd, sys\nh = nbd.NBD()\nh.connect_uri(sys.argv[1])\nh.pwrite(b'first', 0)\n\
        for at in range(1 << 30, (1 << 30) + (400 << 20), 1 << 20): h.pwrite(b'second' * 100_000, at)\nh.flush()";
    printed(&python(script, &[&server.uri("p/i")]).output().unwrap(), &["write"]);
    server.stop();
    home.ok(&["image", "snap", "create", "p/i@s"]);
    home.ok(&["image", "export", "p/i", "whole.raw"]);
    let same = |other: &str| {
        let (whole, other) = (home.path("whole.raw"), home.path(other));
        Command::new("cmp").args([whole, other]).status().unwrap().success()
    };
    for signal in [Signal::KILL, Signal::TERM] {
        let part = ended_export(&home, STEP, signal);
        // The bytes of the first step are not written again: they keep this change.
        File::options().write(true).open(&part).unwrap().write_all_at(b"FIRST", 0).unwrap();
        let exported = home.ok(&["image", "export", "p/i@s", "out.raw"]);
        assert!(exported.contains("were there from an interrupted export"), "{exported}");
        assert!(!part.exists() && !same("out.raw"));
        let out = File::options().read(true).write(true).open(home.path("out.raw")).unwrap();
        let mut first = [0; 5];
        out.read_exact_at(&mut first, 0).unwrap();
        assert_eq!(&first, b"FIRST");
        out.write_all_at(b"first", 0).unwrap();
        assert!(same("out.raw"), "{signal:?}");
    }
    // Another snapshot is exported from its start.
    let part = ended_export(&home, STEP, Signal::KILL);
    File::options().write(true).open(&part).unwrap().write_all_at(b"FIRST", 0).unwrap();
    home.ok(&["image", "snap", "rm", "p/i@s"]);
    home.ok(&["image", "snap", "create", "p/i@s"]);
    home.ok(&["image", "export", "p/i@s", "out.raw"]);
    assert!(same("out.raw") && !part.exists());
}

/// The signal also ends the program that writes to the pipe, so that its end looks like that of the
/// file.
#[test]
fn an_interrupted_import_leaves_nothing() {
    let home = Home::with_pool();
    let mut import = home.command(&["image", "import", "-", "p/i"]).stdin(Stdio::piped()).spawn().unwrap();
    let mut pipe = import.stdin.take().unwrap();
    pipe.write_all(&vec![7; 8 * MIB]).unwrap();
    kill_process(Pid::from_child(&import), Signal::TERM).unwrap();
    wait::pause(Duration::from_millis(300));
    drop(pipe);
    assert!(!import.wait().unwrap().success());
    assert_eq!(home.ok(&["image", "ls", "p"]), "");
}

#[test]
fn a_backup_receives_only_the_changes() {
    let home = Home::with_pool();
    let mut disk = disk(&home);
    home.ok(&["image", "import", "disk.raw", "p/i"]);
    home.ok(&["image", "snap", "create", "p/i@one"]);
    home.ok(&["image", "export-diff", "p/i@one", "one.diff"]);
    home.ok(&["image", "create", "p/backup", "--size", "1MiB"]);
    home.ok(&["image", "import-diff", "one.diff", "p/backup"]);
    assert!(home.run(&["image", "export", "p/backup", "-"]).stdout == disk);

    let server = Server::start(&home, &["p/i"]);
    disk[300 * KIB..300 * KIB + 8192].fill(7);
    disk[8 * MIB..9 * MIB].fill(0);
    let script = "import sys, nbd\nh = nbd.NBD()\nh.connect_uri(sys.argv[1])\n\
        h.pwrite(b'\\7' * 8192, 300 << 10)\nh.zero(1 << 20, 8 << 20)\nh.flush()\n";
    printed(&python(script, &[&server.uri("p/i")]).output().unwrap(), &["writer"]);
    home.ok(&["image", "snap", "create", "p/i@two"]);
    server.stop();
    home.ok(&["image", "resize", "p/i", "--size", "12MiB"]);
    let exported = &home.json(&["image", "export-diff", "--from", "one", "p/i@two", "two.diff"])[0];
    assert_eq!(exported["data_bytes"], json!(8192));
    let changes = home.read("two.diff");
    assert!(changes.starts_with(b"rbd diff v1\nf\x03\0\0\0onet\x03\0\0\0two"));
    assert!(changes.len() < 9_000, "{}", changes.len());

    // A file that ends early leaves the image as it was.
    home.file("cut.diff", &changes[..changes.len() - 1]);
    home.fails_with("invalid_argument", &["image", "import-diff", "cut.diff", "p/backup"]);
    let sent = home.run(&["image", "export-diff", "--from", "one", "p/i@two", "-"]);
    assert!(home.pipe(&["image", "import-diff", "-", "p/backup"], &sent.stdout).status.success());
    for image in ["p/backup", "p/backup@two"] {
        assert!(home.run(&["image", "export", image, "-"]).stdout == disk);
    }
    home.fails_with("already_exists", &["image", "import-diff", "two.diff", "p/backup"]);
    // Both files as one.
    let merged = &home.json(&["image", "merge-diff", "one.diff", "two.diff", "both.diff"])[0];
    assert_eq!((&merged["from"], &merged["to"]), (&Value::Null, &json!("two")));
    home.ok(&["image", "create", "p/merged", "--size", "1MiB"]);
    home.ok(&["image", "import-diff", "both.diff", "p/merged"]);
    assert!(home.run(&["image", "export", "p/merged@two", "-"]).stdout == disk);
    let piped = home.pipe(&["image", "merge-diff", "one.diff", "-", "-"], &changes);
    assert!(piped.stdout == home.read("both.diff"));
    for (first, second) in [("two.diff", "one.diff"), ("one.diff", "cut.diff"), ("-", "-")] {
        home.fails_with("invalid_argument", &["image", "merge-diff", first, second, "bad.diff"]);
    }
    assert!(!home.path("bad.diff").exists());
    // Changes of a whole image have no zeros, so old bytes would stay.
    home.ok(&["image", "import", "disk.raw", "p/full"]);
    home.fails_with("conflict", &["image", "import-diff", "one.diff", "p/full"]);
    home.ok(&["image", "create", "p/other", "--size", "1MiB"]);
    home.fails_with("not_found", &["image", "import-diff", "two.diff", "p/other"]);
    home.fails_with("invalid_argument", &["image", "import-diff", "disk.raw", "p/other"]);
    assert_eq!(home.json(&["image", "info", "p/other"])[0]["writer"], Value::Null);
}

#[test]
fn a_check_removes_what_a_killed_program_has_left() {
    let home = Home::with_pool();
    home.ok(&["image", "create", "p/i", "--size", "100MiB"]);
    let checked = &home.json(&["image", "check", "p/i"])[0];
    assert_eq!((&checked["damage_count"], &checked["repairable_count"]), (&json!(0), &json!(0)));
    // A snapshot's map is stored before the header names it.
    let names = home.ok(&["ls", "p:benthic.images", "--prefix", "map."]);
    let (map, _) = names.lines().next().unwrap().rsplit_once('.').unwrap();
    let left = format!("{}7fffffff.00000000", &map[..map.len() - 8]);
    let store = EmbeddedStore::open(&home.path("benthic-data"), false, Options::default()).unwrap();
    let object = ObjectId::in_namespace("benthic.images", &*left).unwrap();
    block_on(block_on(store.open_pool("p")).unwrap().write_full(&object, "map")).unwrap();
    store.close().unwrap();
    let found = home.run(&["image", "check", "p/i"]);
    let text = String::from_utf8([found.stdout, found.stderr].concat()).unwrap();
    assert!(!found.status.success() && text.contains(&left) && text.contains("check --repair p/i"), "{text}");
    home.ok(&["image", "check", "--repair", "p/i"]);
    home.ok(&["image", "check", "p/i"]);
    let server = Server::start(&home, &["p/i"]);
    home.fails_with("busy", &["image", "check", "p/i"]);
    server.stop();
}

#[test]
fn bad_requests_are_refused() {
    let home = Home::with_pool();
    home.ok(&["image", "create", "p/i", "--size", "10MiB"]);
    for (kind, args) in [
        ("invalid_argument", &["image", "info", "p"][..]),
        ("not_found", &["image", "info", "p/none"]),
        ("not_found", &["image", "info", "p/i@none"]),
        ("not_found", &["image", "ls", "none"]),
        ("already_exists", &["image", "create", "p/i", "--size", "1"]),
        ("limit_exceeded", &["image", "create", "p/j", "--size", "1000TiB"]),
        ("invalid_argument", &["image", "create", "p/j", "--size", "1", "--stripe-unit", "3"]),
        ("invalid_argument", &["image", "resize", "p/i", "--size", "1MiB"]),
        ("invalid_argument", &["image", "snap", "create", "p/i"]),
        ("invalid_argument", &["image", "clone", "p/i", "p/j"]),
        ("unsupported", &["image", "clone", "p/i@s", "q/j"]),
        ("invalid_argument", &["image", "rename", "p/i", "q/i"]),
        ("not_found", &["image", "snap", "rollback", "p/i@none", "--yes", "i"]),
        ("not_found", &["image", "serve", "p/none"]),
        ("not_found", &["image", "limit", "p/none"]),
        ("invalid_argument", &["image", "limit", "p/i@s"]),
        ("invalid_argument", &["image", "limit", "p/i", "--iops", "0"]),
        ("invalid_argument", &["image", "limit", "p/i", "--bytes-per-s", "100TiB"]),
        ("invalid_argument", &["image", "limit", "p/i", "--iops", "5", "--read-iops", "5"]),
        ("invalid_argument", &["image", "serve", "p/i", "--client-iops", "0"]),
        ("invalid_argument", &["image", "serve", "p/i", "--listen", &format!("unix:{}", "long".repeat(50))]),
    ] {
        // A malformed address is an error of the command line.
        let run = home.run(&[&["--json"], args].concat());
        assert!(!run.status.success(), "{args:?}");
        let said = String::from_utf8(run.stderr).unwrap();
        assert!(said.contains(kind) || run.status.code() == Some(2), "{args:?}: {said}");
    }
    assert_eq!(home.json(&["image", "info", "p/i"])[0]["size_bytes"], json!(10 * MIB));
    let refused = home.run(&["--store", "ceph:?conf=none", "image", "ls", "p"]);
    assert!(!refused.status.success());
}

#[test]
fn an_image_is_served_and_snapshotted_meanwhile() {
    let home = Home::with_pool();
    let disk = disk(&home);
    let size = format!("{}", disk.len());
    home.ok(&["image", "create", "p/i", "--size", &size]);
    let server = Server::start(&home, &["p"]);
    let file = home.path("disk.raw").display().to_string();
    tool("nbdcopy", &["--flush", &file, &server.uri("p/i")]);
    home.ok(&["image", "snap", "create", "p/i@full"]);
    let info = &home.json(&["image", "info", "p/i"])[0];
    assert!(info["writer"].as_str().unwrap().ends_with(&format!("process {}", server.pid())));
    let zeros = home.file("zeros.raw", vec![0; disk.len()]).display().to_string();
    tool("nbdcopy", &["--flush", &zeros, &server.uri("p/i")]);
    assert!(home.run(&["image", "export", "p/i@full", "-"]).stdout == disk);
    let busy = home.fails_with("busy", &["image", "snap", "rollback", "p/i@full", "--yes", "i"]);
    assert!(busy.to_string().contains("process"), "{busy}");
    home.fails_with("busy", &["image", "rm", "p/i", "--yes", "i"]);
    home.ok(&["image", "resize", "p/i", "--size", "20MiB"]);
    assert!(tool("nbdinfo", &["--size", &server.uri("p/i")]).trim() == format!("{}", 20 * MIB));
    server.stop();
    home.ok(&["image", "snap", "rollback", "p/i@full", "--yes", "i"]);
    assert!(home.run(&["image", "export", "p/i", "-"]).stdout == disk);
    let server = Server::start(&home, &["p/i@full"]);
    assert!(tool("nbdinfo", &[&server.uri("p/i@full")]).contains("is_read_only: true"));
    server.stop();
}

/// Writes blocks with their numbers, and prints each number once the block is flushed.
const WRITER: &str = r#"
import sys, nbd
h = nbd.NBD()
h.connect_uri(sys.argv[1])
blocks = h.get_size() // 4096
for n in range(int(sys.argv[2]), 1 << 30):
    h.pwrite(n.to_bytes(8, "big") * 512, (n * 7919 % blocks) * 4096, nbd.CMD_FLAG_FUA if n % 3 == 0 else 0)
    if n % 3:
        h.flush()
    print(n, flush=True)
"#;

/// Prints the number in each block.
const READER: &str = r#"
import sys, nbd
h = nbd.NBD()
h.connect_uri(sys.argv[1])
for at in range(0, h.get_size(), 4096):
    block = h.pread(4096, at)
    assert block == block[:8] * 512, at
    print(int.from_bytes(block[:8], "big"))
"#;

/// A client that writes until its server is killed. Returns the last number that was flushed.
fn write_until_killed(server: Server, first: u64, delay: Duration) -> u64 {
    let mut writer = python(WRITER, &[&server.uri("p/i"), &first.to_string()]);
    let mut writer: Child = writer.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let lines = BufReader::new(writer.stdout.take().unwrap()).lines();
    let (sender, numbers) = std::sync::mpsc::channel();
    let reader =
        std::thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| sender.send(line)));
    let begun = numbers.recv_timeout(Duration::from_secs(60)).expect("the client writes");
    wait::pause(delay);
    // Kills it.
    drop(server);
    writer.wait().unwrap();
    reader.join().unwrap().unwrap();
    numbers.iter().last().unwrap_or(begun).parse().unwrap()
}

#[test]
fn flushed_writes_survive_a_killed_server() {
    let rounds = if benthic_testkit::seed::is_long() { 60 } else { 4 };
    let home = Home::with_pool();
    home.ok(&["image", "create", "p/i", "--size", "1MiB", "--object-size", "64KiB"]);
    let blocks = 256;
    let mut next = 1;
    // Numbers whose writes may have been in progress when a server was killed.
    let mut unknown = Vec::new();
    for round in 0..rounds {
        // A killed server's image is free at once.
        let server = Server::start(&home, &["p/i"]);
        let last = write_until_killed(server, next, Duration::from_millis(50 + round * 97 % 400));
        if round % 2 == 0 {
            home.ok(&["image", "snap", "create", &format!("p/i@s{round}")]);
        }
        let server = Server::start(&home, &["p/i"]);
        let read = printed(&python(READER, &[&server.uri("p/i")]).output().unwrap(), &["reader"]);
        for (block, number) in read.lines().enumerate() {
            let number: u64 = number.parse().unwrap();
            let flushed = (1..=last)
                .rev()
                .find(|n| n * 7919 % blocks == block as u64 && !unknown.contains(n))
                .unwrap_or(0);
            assert!(number >= flushed, "round {round}: block {block} has {number} instead of {flushed}");
            // A block is one that a client sent.
            assert!(number == 0 || number * 7919 % blocks == block as u64 && number <= last + 1);
        }
        server.stop();
        unknown.push(last + 1);
        next = last + 2;
    }
}

/// The frozen server is a client of the directory's owner, which goes on.
#[test]
fn a_frozen_server_changes_nothing_after_it_wakes() {
    let home = Home::with_pool();
    for image in ["p/other", "p/i"] {
        home.ok(&["image", "create", image, "--size", "4MiB"]);
    }
    let owner = Server::start(&home, &["p/other"]);
    let frozen = Server::start_at(&home, &home.path("frozen.sock").display().to_string(), &["p/i"]);
    let mut client = python(
        "import sys, nbd\nh = nbd.NBD()\nh.connect_uri(sys.argv[1])\nh.pwrite(b'a' * 8192, 0)\nh.flush()\n\
         print('written', flush=True)\nsys.stdin.readline()\n\
         for at in [0, 4096, 1 << 20]:\n  try:\n    h.pwrite(b'z' * 4096, at)\n    print('applied', flush=True)\n  \
         except nbd.Error as e:\n    print(e.errno, flush=True)\n",
        &[&frozen.uri("p/i")],
    );
    let mut client = client.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(client.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "written");
    frozen.freeze();
    // The request is in the frozen server's socket when it wakes.
    client.stdin.take().unwrap().write_all(b"go\n").unwrap();
    home.fails_with("busy", &["image", "serve", "--listen", "unix:x.sock", "p/i"]);
    let taker =
        Server::start_at(&home, &home.path("taker.sock").display().to_string(), &["--take-over", "p/i"]);
    let before = taken_bytes(&taker, &home);
    assert!(before[..8192] == *b"a".repeat(8192) && before[8192..].iter().all(|byte| *byte == 0));
    frozen.signal(Signal::CONT);
    for _ in 0..3 {
        assert_ne!(lines.next().unwrap().unwrap(), "applied");
    }
    assert!(taken_bytes(&taker, &home) == before);
    client.wait().unwrap();
    taker.stop();
    owner.stop();
}

/// A server that is a client of the directory's owner may lose unflushed writes when the owner is
/// killed. Then it must not say that they are flushed.
#[test]
fn the_loss_of_unflushed_writes_is_reported() {
    let home = Home::with_pool();
    for image in ["p/other", "p/i"] {
        home.ok(&["image", "create", image, "--size", "4MiB"]);
    }
    let owner = Server::start(&home, &["p/other"]);
    let server = Server::start_at(&home, &home.path("second.sock").display().to_string(), &["p/i"]);
    let mut client = python(
        "import sys, nbd\nh = nbd.NBD()\nh.connect_uri(sys.argv[1])\nh.pwrite(b'a' * 4096, 0)\n\
         print('written', flush=True)\nsys.stdin.readline()\n\
         for call in [h.flush, h.flush, lambda: h.pwrite(b'b' * 4096, 0), h.flush]:\n  try:\n    call()\n    \
         print('done', flush=True)\n  except nbd.Error as e:\n    print(e.errno, flush=True)\n",
        &[&server.uri("p/i")],
    );
    let mut client = client.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(client.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "written");
    // Kills it.
    drop(owner);
    client.stdin.take().unwrap().write_all(b"go\n").unwrap();
    for _ in 0..4 {
        assert_ne!(lines.next().unwrap().unwrap(), "done");
    }
    client.wait().unwrap();
    drop(server);
    let again = Server::start(&home, &["p/i"]);
    again.stop();
}

fn taken_bytes(server: &Server, home: &Home) -> Vec<u8> {
    let file = home.path("taken.raw");
    tool("nbdcopy", &[&server.uri("p/i"), &file.display().to_string()]);
    std::fs::read(Path::new(&file)).unwrap()
}

#[test]
fn a_guest_finds_all_synced_files_after_its_server_was_killed() {
    let home = Home::with_pool();
    Guest::new(&home).finds_all_synced_files("file:benthic-data", "p", &[]);
}

#[test]
fn an_image_is_measured_and_overwritten_only_on_purpose() {
    let home = Home::with_pool();
    home.ok(&["image", "create", "p/i", "--size", "1MiB"]);
    let bench = ["image", "bench", "p/i", "--count", "50", "--depth", "4", "--bs", "4KiB", "--rw"];
    let measured = home.json(&[&bench[..], &["randwrite", "--fsync", "10"]].concat()).remove(0);
    assert_eq!((&measured["operations"], &measured["bytes"]), (&json!(50), &json!(50 * 4 * KIB)));
    assert_eq!((&measured["image"], &measured["in_flight"]), (&json!("p/i"), &json!(4)));
    let written = home.run(&["image", "export", "p/i", "-"]).stdout;
    assert!(written.iter().any(|byte| *byte != 0));
    // The image has data now.
    home.fails_with("usage", &[&bench[..], &["write"]].concat());
    assert_eq!(home.json(&[&bench[..], &["randread"]].concat())[0]["operations"], json!(50));
    assert!(home.run(&["image", "export", "p/i", "-"]).stdout == written);
    home.ok(&[&bench[..], &["write", "--yes", "i"]].concat());
    home.fails_with("invalid_argument", &["image", "bench", "p/i", "--rw", "read", "--bs", "2MiB"]);
    // The image was closed.
    home.ok(&["image", "rm", "p/i", "--yes", "i"]);
}

/// Reads a number of sectors one after another, and prints how many seconds that took.
const SECTOR_READER: &str = "import sys, time, nbd\nh = nbd.NBD()\nh.connect_uri(sys.argv[1])\n\
    print('connected', flush=True)\nstart = time.monotonic()\n\
    for n in range(int(sys.argv[2])):\n  h.pread(512, n * 512)\nprint(time.monotonic() - start)\n";

#[test]
fn limits_hold_and_change_while_the_image_is_served() {
    let home = Home::with_pool();
    home.ok(&["image", "create", "p/i", "--size", "4MiB"]);
    assert_eq!(home.ok(&["image", "limit", "p/i"]), "image p/i\nno limits\n");
    home.ok(&["image", "limit", "p/i", "--iops", "20", "--write-bytes-per-s", "1MiB"]);
    let server = Server::start(&home, &["p/i"]);
    let seconds = |count: &str| {
        let run = python(SECTOR_READER, &[&server.uri("p/i"), count]).output().unwrap();
        printed(&run, &["reader"]).lines().last().unwrap().parse::<f64>().unwrap()
    };
    let took = seconds("50");
    assert!(took > 1.0, "50 reads at 20 a second, 20 of them at once, took {took} s");

    // So many reads would take minutes.
    let mut reader = python(SECTOR_READER, &[&server.uri("p/i"), "5000"]);
    let mut reader = reader.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(reader.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "connected");
    let changed = &home.json(&["image", "limit", "p/i", "--read-iops", "none", "--burst", "3"])[0];
    let limits = json!({
        "image": "p/i", "read_ops_per_s": null, "read_bytes_per_s": null, "write_ops_per_s": 20,
        "write_bytes_per_s": MIB, "burst_s": 3,
    });
    assert_eq!(*changed, limits);
    let took: f64 = lines.next().unwrap().unwrap().parse().unwrap();
    assert!(took < 100.0, "the new limit has no effect: {took} s");
    assert!(reader.wait().unwrap().success());
    let shown = home.ok(&["image", "info", "p/i"]);
    assert!(shown.contains("\nlimit of writes 20 operations/s, 1.0 MiB/s\nburst of 3 s\n"), "{shown}");
    server.stop();
    assert_eq!(home.json(&["image", "info", "p/i"])[0]["limits"]["write_ops_per_s"], json!(20));
    assert_eq!(home.ok(&["image", "limit", "p/i", "--none"]), "image p/i\nno limits\n");

    let server = Server::start(&home, &["--client-iops", "20", "p/i"]);
    let run = python(SECTOR_READER, &[&server.uri("p/i"), "50"]).output().unwrap();
    let took: f64 = printed(&run, &["reader"]).lines().last().unwrap().parse().unwrap();
    assert!(took > 1.0, "{took}");
    server.stop();
}

/// Sends a request for a path, and returns the answer with its header.
fn http_get(url: &str, path: &str) -> String {
    let address = url.strip_prefix("http://").unwrap().strip_suffix("/metrics").unwrap();
    http_get_as(address, address, path)
}

fn http_get_as(host: &str, address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn metrics_show_the_requests_of_an_image() {
    let home = Home::with_pool();
    home.ok(&["image", "create", "p/i", "--size", "4MiB"]);
    home.ok(&["image", "limit", "p/i", "--read-bytes-per-s", "1GiB"]);
    let server = Server::start(&home, &["--metrics", "127.0.0.1:0", "--slow-ms", "60000", "p/i"]);
    let line: Value = serde_json::from_str(&server.line()).unwrap();
    let url = line["metrics_url"].as_str().unwrap();
    printed(&python(SECTOR_READER, &[&server.uri("p/i"), "50"]).output().unwrap(), &["reader"]);
    let metrics = http_get(url, "/metrics");
    assert!(metrics.starts_with("HTTP/1.1 200 OK\r\n"), "{metrics}");
    for sample in [
        "benthic_image_request_seconds_count{image=\"p/i\",kind=\"read\"} 50",
        "benthic_image_bytes_total{image=\"p/i\",kind=\"read\"} 25600",
        "benthic_image_slow_requests_total{image=\"p/i\",kind=\"read\"} 0",
        "benthic_image_limit_bytes_per_second{image=\"p/i\",kind=\"read\"} 1073741824",
    ] {
        assert!(metrics.lines().any(|line| line == sample), "{sample} is not in {metrics}");
    }
    let status = http_get(url, "/status.json");
    let (_, status) = status.split_once("\r\n\r\n").unwrap();
    let status: Value = serde_json::from_str(status).unwrap();
    let image = &status["images"][0];
    assert_eq!((&image["image"], &image["clients"]), (&json!("p/i"), &json!(0)));
    let latencies = image["kinds"]["read"]["latencies"].as_array().unwrap();
    assert_eq!(latencies.iter().map(|count| count.as_u64().unwrap()).sum::<u64>(), 50);
    let page = http_get(url, "/");
    assert!(page.contains("<title>Images</title>") && page.contains("content-security-policy: "), "{page}");
    assert!(http_get(url, "/none").starts_with("HTTP/1.1 404 "));
    let address = url.strip_prefix("http://").unwrap().strip_suffix("/metrics").unwrap();
    assert!(http_get_as("rebound.example", address, "/metrics").starts_with("HTTP/1.1 421 "));
    server.stop();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let _listener = std::net::TcpListener::bind(taken).unwrap();
    let taken = ["image", "serve", "p/i", "--listen", "unix:x.sock", "--metrics", &taken.to_string()];
    let refused = home.run(&taken);
    assert!(!refused.status.success());
    assert!(String::from_utf8(refused.stderr).unwrap().contains("cannot listen on this address"));
}
