//! Striped objects: `rados --striper` reads objects of Benthic and the reverse, also after one
//! overwrote the other.

use crate::support::{Home, pattern, printed, shared_conf, shared_store};
use serde_json::{Value, json};
use std::process::{Command, Output};

const MIB: usize = 1024 * 1024;

/// A pool of one test. Dropping it removes the pool.
struct Pool {
    home: Home,
    name: String,
}

impl Pool {
    fn new(name: &str) -> Pool {
        let pool = Pool { home: Home::bare(), name: format!("{name}-{}", std::process::id()) };
        pool.ours(&["pool", "create", &pool.name]);
        pool
    }

    fn at(&self, name: &str) -> String {
        format!("{}/{name}", self.name)
    }

    fn ours(&self, args: &[&str]) -> Vec<Value> {
        self.home.json(&[&["--store", &shared_store()], args].concat())
    }

    fn fails_with(&self, kind: &str, args: &[&str]) {
        self.home.fails_with(kind, &[&["--store", &shared_store()], args].concat());
    }

    fn rados(&self, args: &[&str]) -> Output {
        let mut command = Command::new("rados");
        command.args(["--conf", &shared_conf(), "--pool", &self.name]).args(args);
        command.current_dir(self.home.path("")).output().unwrap()
    }

    fn striper(&self, args: &[&str]) -> String {
        printed(&self.rados(&[&["--striper"], args].concat()), args)
    }

    /// The sorted names of all objects.
    fn objects(&self) -> Vec<String> {
        let mut names: Vec<String> =
            printed(&self.rados(&["ls"]), &["ls"]).lines().map(str::to_owned).collect();
        names.sort();
        names
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let _ = self.home.run(&["--store", &shared_store(), "pool", "rm", &self.name, "--yes", &self.name]);
    }
}

#[test]
fn rados_reads_striped_objects_of_benthic() {
    let pool = Pool::new("striped-ours");
    let data = pattern(11 * MIB + 7);
    pool.home.file("f", &data);
    for (name, options) in [
        ("plain", &[][..]),
        ("turns", &["--stripe-count=3", "--stripe-unit=64KiB", "--object-size=1MiB"][..]),
    ] {
        let stored = pool.ours(&[&["cp", "--stripe"], options, &["f", &pool.at(name)]].concat()).remove(0);
        assert_eq!(stored["checked"], "digest");
        pool.striper(&["get", name, "back"]);
        assert!(pool.home.read("back") == data, "{name}");
        assert!(pool.striper(&["stat", name]).contains(&format!("size {}", data.len())));
    }
    assert_eq!(pool.objects().len(), 3 + 12);
    let mut listed: Vec<String> = pool.striper(&["ls"]).lines().map(str::to_owned).collect();
    listed.sort();
    assert_eq!(listed, ["plain", "turns"]);
    // No lock remains.
    let locks = printed(&pool.rados(&["lock", "info", "plain.0000000000000000", "striper.lock"]), &["lock"]);
    assert!(!locks.contains("client."), "{locks}");

    pool.striper(&["rm", "plain"]);
    assert!(pool.objects().iter().all(|name| name.starts_with("turns.")));
    pool.ours(&["rm", "--stripe", &pool.at("turns")]);
    assert_eq!(pool.objects(), [""; 0]);
}

#[test]
fn benthic_reads_striped_objects_of_rados() {
    let pool = Pool::new("striped-theirs");
    let data = pattern(9 * MIB + 1);
    pool.home.file("f", &data);
    pool.striper(&["put", "theirs", "f"]);
    let stat = pool.ours(&["stat", "--stripe", &pool.at("theirs")]).remove(0);
    assert_eq!(
        (&stat["size_bytes"], &stat["pieces"], &stat["xxh3"]),
        (&json!(data.len()), &json!(3), &Value::Null)
    );
    assert_eq!(pool.ours(&["ls", "--stripe", &pool.name])[0]["object"], "theirs");
    let fetched = pool.ours(&["cp", "--stripe", &pool.at("theirs"), "./back"]).remove(0);
    assert_eq!(fetched["checked"], "lengths");
    assert!(pool.home.read("back") == data);

    // `rados --striper` overwrites Benthic's objects with longer and shorter data, and the reverse.
    let shorter: Vec<u8> = pattern(5 * MIB).into_iter().rev().collect();
    pool.home.file("g", &shorter);
    pool.ours(&["cp", "--stripe", "f", &pool.at("both")]);
    pool.striper(&["put", "both", "g"]);
    let fetched = pool.ours(&["cp", "--stripe", &pool.at("both"), "./back"]).remove(0);
    assert_eq!(fetched["checked"], "lengths");
    assert!(pool.home.read("back") == shorter);
    // The content matches the stored checksum, although another program wrote it.
    pool.striper(&["put", "both", "f"]);
    assert_eq!(pool.ours(&["cp", "--stripe", &pool.at("both"), "./back"])[0]["checked"], "digest");
    assert!(pool.home.read("back") == data);
    let over = pool.ours(&["cp", "--stripe", "g", &pool.at("both")]).remove(0);
    assert_eq!((&over["pieces"], &over["pieces_kept"]), (&json!(2), &json!(0)));
    pool.striper(&["get", "both", "back"]);
    assert!(pool.home.read("back") == shorter);

    pool.ours(&["rm", "--stripe", &pool.at("theirs")]);
    pool.striper(&["rm", "both"]);
    assert_eq!(pool.objects(), [""; 0]);
}

#[test]
fn a_cluster_and_a_directory_exchange_striped_objects() {
    let pool = Pool::new("striped-stores");
    let data = pattern(9 * MIB);
    pool.home.file("f", &data);
    pool.ours(&["cp", "--stripe", "f", &pool.at("f")]);
    pool.ours(&["cp", "--stripe", "--create-pool", "--to-store=file:dir", &pool.at("f"), "q/f"]);
    let store = shared_store();
    let back = pool.at("back");
    pool.home.ok(&["--store=file:dir", "cp", "--stripe", "--to-store", &store, "q/f", &back]);
    pool.striper(&["get", "back", "back"]);
    assert!(pool.home.read("back") == data);
}

#[test]
fn locks_are_those_of_libradosstriper() {
    let pool = Pool::new("striped-locks");
    let data = pattern(MIB);
    pool.home.file("f", &data);
    pool.ours(&["cp", "--stripe", "f", &pool.at("f")]);
    let at = pool.at("f");
    let lock = |args: &[&str]| {
        let all = [&["lock", args[0], "f.0000000000000000", "striper.lock"], &args[1..]].concat();
        assert!(pool.rados(&all).status.success(), "{all:?}");
    };
    let holder = || -> String {
        let info = printed(&pool.rados(&["lock", "info", "f.0000000000000000", "striper.lock"]), &["info"]);
        let at = info.find("client.").unwrap_or_else(|| panic!("{info}"));
        info[at..].chars().take_while(|c| c.is_alphanumeric() || *c == '.').collect()
    };
    lock(&["get", "--lock-type=shared", "--lock-tag=Tag", "--lock-cookie=1"]);
    assert_eq!(pool.ours(&["cp", "--stripe", "--lock-wait=0", &at, "./back"])[0]["checked"], "digest");
    pool.home.file("g", pattern(2 * MIB));
    pool.fails_with("busy", &["cp", "--stripe", "--lock-wait=0", "g", &at]);
    pool.fails_with("busy", &["rm", "--stripe", "--lock-wait=0", &at]);
    lock(&["break", &holder(), "--lock-cookie=1"]);
    lock(&["get", "--lock-type=exclusive", "--lock-cookie=2"]);
    pool.fails_with("busy", &["cp", "--stripe", "--lock-wait=0", &at, "./again"]);
    lock(&["break", &holder(), "--lock-cookie=2"]);
    assert_eq!(pool.ours(&["stat", "--stripe", &at])[0]["size_bytes"], data.len());
    pool.ours(&["rm", "--stripe", "--lock-wait=0", &at]);
    assert_eq!(pool.objects(), [""; 0]);
}

#[test]
fn plain_objects_are_not_taken_for_pieces() {
    let pool = Pool::new("striped-others");
    pool.home.file("f", pattern(5 * MIB));
    let names = ["rbd_data.1.0000000000000000", "rbd_data.2.0000000000000001"];
    for name in names {
        printed(&pool.rados(&["put", name, "f"]), &["put"]);
    }
    let looks = || names.map(|name| printed(&pool.rados(&["stat", name]), &["stat"]));
    let before = looks();
    pool.fails_with("invalid_argument", &["cp", "--stripe", "f", &pool.at("rbd_data.1")]);
    pool.fails_with("invalid_argument", &["rm", "--stripe", &pool.at("rbd_data.1")]);
    pool.fails_with("invalid_argument", &["cp", "--stripe", "f", &pool.at("rbd_data.2")]);
    pool.fails_with("not_found", &["rm", "--stripe", &pool.at("rbd_data.2")]);
    assert_eq!(looks(), before);
    assert_eq!(pool.objects(), names);
    assert_eq!(printed(&pool.rados(&["listxattr", names[0]]), &["listxattr"]), "", "not even a lock");
}
