//! Other users of a cluster keep working with Benthic's class directory: Ceph's block images and S3
//! gateway, whose object classes the OSDs load from it.

use crate::support::{Home, pattern, printed, shared_conf};
use benthic_core::{Stopwatch, SystemClock};
use benthic_testkit::wait;
use std::net::TcpListener;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

/// A client of the shared cluster.
struct Client {
    conf: String,
    home: Home,
}

impl Client {
    fn new() -> Client {
        Client { conf: shared_conf(), home: Home::bare() }
    }

    fn command(&self, program: &str, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(args).env("CEPH_CONF", &self.conf).current_dir(self.home.path("")).stdin(Stdio::null());
        command
    }

    fn run(&self, program: &str, args: &[&str]) -> Output {
        self.command(program, args).output().unwrap_or_else(|error| panic!("{program}: {error}; `make ceph`"))
    }

    fn ok(&self, program: &str, args: &[&str]) -> String {
        printed(&self.run(program, args), args)
    }

    /// Benthic's classes work in the same cluster.
    fn ours_answer(&self, pool: &str) {
        let store = format!("ceph:?conf={}", self.conf);
        self.home.pipe(&["--store", &store, "put", &format!("{pool}/ours"), "-"], b"data");
        let exec = ["--store", &store, "exec", &format!("{pool}/ours"), "hello", "say", "Ada"];
        assert_eq!(self.home.ok(&exec), "Hello, Ada!\n");
    }

    fn remove_pool(&self, pool: &str) {
        self.ok("ceph", &["osd", "pool", "rm", pool, pool, "--yes-i-really-really-mean-it"]);
    }
}

#[test]
fn block_images_of_ceph_live_beside_our_classes() {
    let client = Client::new();
    let rbd = |args: &[&str]| client.ok("rbd", args);
    client.ok("ceph", &["osd", "pool", "create", "neighbour-rbd", "8"]);
    rbd(&["pool", "init", "neighbour-rbd"]);
    let data = pattern(6 << 20);
    let file = client.home.file("disk", &data);
    rbd(&["import", "--no-progress", file.to_str().unwrap(), "neighbour-rbd/disk"]);
    assert_eq!(rbd(&["ls", "neighbour-rbd"]), "disk\n");
    assert!(rbd(&["info", "neighbour-rbd/disk"]).contains("size 6 MiB"));
    client.ours_answer("neighbour-rbd");

    rbd(&["snap", "create", "--no-progress", "neighbour-rbd/disk@before"]);
    rbd(&["snap", "protect", "neighbour-rbd/disk@before"]);
    rbd(&["clone", "neighbour-rbd/disk@before", "neighbour-rbd/clone"]);
    assert_eq!(rbd(&["children", "neighbour-rbd/disk@before"]), "neighbour-rbd/clone\n");
    rbd(&["bench", "--io-type", "write", "--io-size", "64K", "--io-total", "1M", "neighbour-rbd/disk"]);
    rbd(&["export-diff", "--no-progress", "--from-snap", "before", "neighbour-rbd/disk", "diff"]);
    // `rbd bench` fills its blocks with one random byte. If it is zero, the file has no blocks.
    assert!(client.home.read("diff").starts_with(b"rbd diff v1\n"));
    assert!(rbd(&["diff", "--from-snap", "before", "neighbour-rbd/disk"]).contains("data"));
    rbd(&["export", "--no-progress", "neighbour-rbd/clone", "copy"]);
    assert_eq!(client.home.read("copy"), data);

    // Comes last, because only the lock holder can write afterwards.
    let lock = ["lock", "add", "neighbour-rbd/disk", "mine"];
    rbd(&lock);
    assert!(rbd(&["lock", "ls", "neighbour-rbd/disk"]).contains("mine"));
    assert!(!client.run("rbd", &lock).status.success(), "it is locked");
    client.remove_pool("neighbour-rbd");
}

/// A running gateway. Dropping it stops the process and removes its pools.
struct Gateway<'a> {
    client: &'a Client,
    process: Child,
}

impl Drop for Gateway<'_> {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let pools = self.client.run("ceph", &["osd", "pool", "ls"]);
        let pools = String::from_utf8_lossy(&pools.stdout).into_owned();
        for pool in pools.lines().filter(|pool| pool.starts_with(".rgw") || pool.starts_with("default.rgw")) {
            let _ =
                self.client.run("ceph", &["osd", "pool", "rm", pool, pool, "--yes-i-really-really-mean-it"]);
        }
    }
}

#[test]
fn the_s3_gateway_of_ceph_lives_beside_our_classes() {
    let client = Client::new();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let (listen, log) = (format!("beast endpoint=127.0.0.1:{port}"), client.home.path("radosgw.log"));
    let mut command = client.command("radosgw", &["-f", "-n", "client.admin", "--rgw-frontends", &listen]);
    command.args(["--rgw-thread-pool-size=8", "--log-file"]).arg(&log);
    command.arg("--rgw-data").arg(client.home.path(""));
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let gateway =
        Gateway { client: &client, process: command.spawn().expect("`make ceph` installs radosgw") };
    let user =
        ["user", "create", "--uid=ada", "--display-name=Ada", "--access-key=ada", "--secret-key=secret"];
    client.ok("radosgw-admin", &user);

    let s3 = |args: &[&str], path: &str| {
        let url = format!("http://127.0.0.1:{port}/{path}");
        let signed = [
            "-sS",
            "--max-time",
            "60",
            "--aws-sigv4",
            "aws:amz:us-east-1:s3",
            "--user",
            "ada:secret",
            "-H",
            "x-amz-content-sha256: UNSIGNED-PAYLOAD",
        ];
        client.run("curl", &[&signed[..], args, &[&url]].concat())
    };
    let began = Stopwatch::start(&SystemClock);
    while !s3(&["-f"], "").status.success() {
        let log = || std::fs::read_to_string(&log).unwrap_or_default();
        assert!(began.elapsed() < Duration::from_secs(120), "the gateway did not come up: {}", log());
        wait::pause(Duration::from_millis(200));
    }
    let ok = |args: &[&str], path: &str| printed(&s3(&[&["-f"], args].concat(), path), args);
    let data = pattern(5 << 20);
    let file = client.home.file("reef.jpg", &data);
    ok(&["-X", "PUT"], "photos");
    ok(&["-T", file.to_str().unwrap()], "photos/reef.jpg");
    ok(&["-o", "back.jpg"], "photos/reef.jpg");
    assert_eq!(client.home.read("back.jpg"), data);
    let listed = ok(&[], "photos?list-type=2");
    assert!(listed.contains("<Key>reef.jpg</Key>") && listed.contains("<Size>5242880</Size>"), "{listed}");
    client.ours_answer("default.rgw.buckets.data");
    ok(&["-X", "DELETE"], "photos/reef.jpg");
    assert!(!ok(&[], "photos?list-type=2").contains("reef.jpg"));
    drop(gateway);
}
