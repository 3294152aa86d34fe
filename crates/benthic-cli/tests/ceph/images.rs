//! `benthic image` on a cluster, beside `rbd` and QEMU's own driver.

use crate::guest::Guest;
use crate::nbd::{Server, python, tool};
use crate::support::{Home, Running, pattern, printed, shared_conf, shared_store};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::process::Command;

const MIB: usize = 1024 * 1024;

/// A pool of one test in the shared cluster. Dropping it removes the pool.
struct OwnPool<'a> {
    home: &'a Home,
    name: String,
}

impl OwnPool<'_> {
    fn new<'a>(home: &'a Home, test: &str) -> OwnPool<'a> {
        let pool = OwnPool { home, name: format!("cli-images.{test}.{}", std::process::id()) };
        pool.ok(&["pool", "create", &pool.name]);
        pool
    }

    fn ok(&self, args: &[&str]) -> String {
        self.home.ok(&[&["--store", &shared_store()], args].concat())
    }

    fn json(&self, args: &[&str]) -> Value {
        self.home.json(&[&["--store", &shared_store()], args].concat()).remove(0)
    }

    fn fails_with(&self, kind: &str, args: &[&str]) -> Value {
        self.home.fails_with(kind, &[&["--store", &shared_store()], args].concat())
    }

    /// `POOL/IMAGE`.
    fn at(&self, image: &str) -> String {
        format!("{}/{image}", self.name)
    }

    fn file(&self, name: &str) -> String {
        self.home.path(name).display().to_string()
    }

    fn rbd(&self, words: &[&str]) -> String {
        let conf = shared_conf();
        let run = Command::new("rbd").args(["--conf", &conf]).args(words).output().unwrap();
        printed(&run, &["rbd"])
    }
}

impl Drop for OwnPool<'_> {
    fn drop(&mut self) {
        let args = ["--store", &shared_store(), "pool", "rm", &self.name, "--yes", &self.name];
        let _ = self.home.command(&args).output();
    }
}

fn disk(home: &Home) -> Vec<u8> {
    let mut disk = pattern(10 * MIB + 700);
    disk[MIB..9 * MIB].fill(0);
    home.file("disk.raw", &disk);
    disk
}

#[test]
fn rbd_and_benthic_exchange_images_and_changes() {
    let home = Home::bare();
    let pool = OwnPool::new(&home, "exchange");
    let mut disk = disk(&home);
    let (ours, theirs, copy) = (&pool.at("ours"), &pool.at("theirs"), &pool.at("copy"));
    pool.ok(&["image", "import", "disk.raw", ours]);
    pool.rbd(&["export", ours, &pool.file("exported")]);
    assert!(home.read("exported") == disk);
    pool.rbd(&["import", &pool.file("disk.raw"), theirs]);
    pool.ok(&["image", "export", theirs, "exported"]);
    assert!(home.read("exported") == disk);
    assert_eq!(pool.ok(&["image", "ls", &pool.name]), "ours\ntheirs\n");
    // Objects of 4 MiB; the middle one is a hole.
    assert_eq!(pool.json(&["image", "du", ours])["used_bytes"], json!(6 * MIB + 700));
    let features = &pool.json(&["image", "info", ours])["features"];
    assert!(features.as_array().unwrap().contains(&json!("fast-diff")), "{features}");

    // Changes in both directions: benthic writes them and rbd applies them, and the reverse.
    let snapshots: Vec<_> = ["one", "two", "three"].iter().map(|name| format!("{ours}@{name}")).collect();
    pool.ok(&["image", "snap", "create", &snapshots[0]]);
    pool.ok(&["image", "create", copy, "--size", "1MiB"]);
    pool.ok(&["image", "export-diff", &snapshots[0], "whole.diff"]);
    pool.rbd(&["import-diff", &pool.file("whole.diff"), copy]);
    for (at, snapshot) in [(5 * MIB, &snapshots[1]), (100, &snapshots[2])] {
        disk[at..at + MIB].copy_from_slice(&pattern(MIB));
        home.file("disk.raw", &disk);
        let server = Server::start(&home, &["--store", &shared_store(), ours]);
        tool("nbdcopy", &["--flush", &pool.file("disk.raw"), &server.uri(ours)]);
        pool.ok(&["image", "snap", "create", snapshot]);
        server.stop();
    }
    pool.ok(&["image", "export-diff", "--from", "one", &snapshots[1], "ours.diff"]);
    pool.rbd(&["import-diff", &pool.file("ours.diff"), copy]);
    pool.rbd(&["export-diff", "--from-snap", "two", &snapshots[2], &pool.file("theirs.diff")]);
    pool.ok(&["image", "import-diff", "theirs.diff", copy]);
    pool.ok(&["image", "export", copy, "exported"]);
    assert!(home.read("exported") == disk);
    assert!(pool.rbd(&["snap", "ls", copy]).contains("three"));
    // The files of both programs as one.
    let merged = &pool.at("merged");
    pool.ok(&["image", "merge-diff", "ours.diff", "theirs.diff", "both.diff"]);
    pool.ok(&["image", "create", merged, "--size", "1MiB"]);
    for file in ["whole.diff", "both.diff"] {
        pool.rbd(&["import-diff", &pool.file(file), merged]);
    }
    pool.ok(&["image", "export", merged, "exported"]);
    assert!(home.read("exported") == disk);
}

#[test]
fn qemu_reads_the_same_bytes_through_rbd_and_through_nbd() {
    let home = Home::bare();
    let pool = OwnPool::new(&home, "qemu");
    let image = &pool.at("i");
    disk(&home);
    let image_with_conf = format!("rbd:{image}:conf={}", shared_conf().replace(':', "\\:"));
    pool.ok(&["image", "create", image, "--size", "11MiB"]);
    let server = Server::start(&home, &["--store", &shared_store(), image]);
    let nbd = server.uri(image);
    let compare = ["compare", "-f", "raw", "-F", "raw", &nbd, &image_with_conf];
    tool("qemu-img", &["convert", "-n", "-f", "raw", "-O", "raw", &pool.file("disk.raw"), &nbd]);
    tool("qemu-img", &compare);
    let io = "write -P 7 3M 1M; write -z 0 512k; discard 4M 4M; flush";
    let io: Vec<_> = io.split("; ").flat_map(|command| ["-c", command]).collect();
    tool("qemu-io", &[&["-f", "raw"], &io[..], &[&nbd]].concat());
    tool("qemu-img", &compare);
    server.stop();
    let reads = ["-r", "-f", "raw", "-c", "read -P 7 3M 1M", "-c", "read -P 0 4M 4M", &image_with_conf];
    assert!(!tool("qemu-io", &reads).contains("verification failed"));
}

#[test]
fn a_frozen_server_writes_nothing_after_another_has_taken_its_image() {
    let home = Home::bare();
    let pool = OwnPool::new(&home, "frozen");
    let image = &pool.at("i");
    pool.ok(&["image", "create", image, "--size", "8MiB"]);
    let store = shared_store();
    let old = Server::start_at(&home, &pool.file("old"), &["--store", &store, image]);
    // A client writes without end.
    let writer = "import sys, nbd\nh = nbd.NBD()\nh.connect_uri(sys.argv[1])\n\
        print('connected', flush=True)\nwhile True:\n  h.pwrite(b'o' * 4096, 0)";
    let client = Running::start(python(writer, &[&old.uri(image)]));
    assert_eq!(client.stdout.recv().unwrap(), "connected");
    let busy = pool.fails_with("busy", &["image", "serve", image]);
    assert!(busy["message"].as_str().unwrap().contains("taken over"), "{busy}");
    old.freeze();
    let new = Server::start_at(&home, &pool.file("new"), &["--store", &store, "--take-over", image]);
    let io = ["-f", "raw", "-c", "write -P 110 0 8M", "-c", "flush", &new.uri(image)];
    tool("qemu-io", &io);
    old.signal(Signal::CONT);
    // The old server's client gets an error, and not one byte of it is stored.
    assert!(client.stderr.iter().any(|line| line.contains("nbd.Error")));
    let read = tool("qemu-io", &["-r", "-f", "raw", "-c", "read -P 110 0 8M", &new.uri(image)]);
    assert!(!read.contains("verification failed"), "{read}");
    drop(old);
    new.stop();
}

#[test]
fn a_guest_finds_all_synced_files_after_its_server_was_killed() {
    let home = Home::bare();
    let pool = OwnPool::new(&home, "guest");
    // Without --take-over, the killed server counts for 30 s more.
    Guest::new(&home).finds_all_synced_files(&shared_store(), &pool.name, &["--take-over"]);
}
