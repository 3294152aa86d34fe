//! Pools, stores and invalid names.

use crate::support::{Home, keys};
use serde_json::json;

#[test]
fn pools_are_created_listed_and_removed() {
    let home = Home::bare();
    assert_eq!(home.ok(&["pool", "create", "photos"]), "created pool photos\n");
    home.ok(&["pool", "create", "logs"]);
    assert_eq!(home.ok(&["pool", "ls"]), "logs\nphotos\n");
    assert_eq!(home.json(&["pool", "ls"]), [json!({"pool": "logs"}), json!({"pool": "photos"})]);
    home.fails_with("already_exists", &["pool", "create", "logs"]);
    home.ok(&["pool", "rm", "logs"]);
    assert_eq!(home.ok(&["pool", "ls"]), "photos\n");
    assert!(home.fails(3, &["pool", "rm", "logs"]).contains("no such pool"));
}

#[test]
fn an_invalid_pool_name_creates_no_store() {
    let home = Home::bare();
    for name in ["a/b", "a:b", ".a", "a\nb", ""] {
        home.fails(6, &["pool", "create", name]);
    }
    home.fails(11, &["pool", "create", &"x".repeat(129)]);
    assert!(!home.path("benthic-data").exists());
    home.ok(&["pool", "create", &"x".repeat(128)]);
}

#[test]
fn only_pool_create_creates_a_store() {
    let home = Home::bare();
    home.file("f", "data");
    for args in [
        &["pool", "ls"][..],
        &["pool", "rm", "p"],
        &["ls", "p"],
        &["stat", "p/o"],
        &["get", "p/o", "-"],
        &["put", "p/o", "f"],
        &["rm", "p/o"],
        &["cp", "f", "p/"],
        &["cp", "p/o", "back"],
        &["xattr", "set", "p/o", "a", "b"],
        &["omap", "ls", "p/o"],
        &["exec", "p/o", "digest", "md5"],
        &["bench", "write", "p"],
        &["scrub"],
        &["fsck"],
    ] {
        let stderr = home.fails(3, args);
        assert!(
            stderr.starts_with("benthic: ") && stderr.contains("benthic pool create"),
            "{args:?}: {stderr}"
        );
    }
    assert!(!home.path("benthic-data").exists());
    // The program lists its own classes, with or without a store.
    assert!(home.ok(&["class", "ls"]).contains("digest"));
}

#[test]
fn an_unknown_pool_is_not_created_and_a_similar_one_is_suggested() {
    let home = Home::bare();
    home.ok(&["pool", "create", "photos"]);
    home.file("f", "data");
    for args in
        [&["put", "photo/o", "f"][..], &["cp", "f", "photo/"], &["ls", "photo"], &["pool", "rm", "photo"]]
    {
        let stderr = home.fails(3, args);
        assert!(stderr.contains("did you mean \"photos\"?"), "{stderr}");
    }
    assert!(home.fails(3, &["ls", "entirely-different"]).contains("benthic pool create entirely-different"));
    assert_eq!(home.ok(&["pool", "ls"]), "photos\n");
}

#[test]
fn a_store_is_named_by_option_or_environment() {
    let home = Home::bare();
    home.ok(&["--store", "file:other", "pool", "create", "a"]);
    home.ok(&["pool", "create", "b", "--store", "file:third"]);
    assert!(
        home.path("other").is_dir() && home.path("third").is_dir() && !home.path("benthic-data").exists()
    );
    let by_environment = home.command(&["pool", "ls"]).env("BENTHIC_STORE", "file:other").output().unwrap();
    assert_eq!(by_environment.stdout, b"a\n");
    let empty = home.command(&["pool", "create", "c"]).env("BENTHIC_STORE", "").output().unwrap();
    assert!(empty.status.success() && home.path("benthic-data").is_dir(), "counts as not set");
    // The memory engine's data ends with the process.
    home.ok(&["--store", "mem:", "pool", "create", "a"]);
    assert_eq!(home.ok(&["--store", "mem:", "pool", "ls"]), "");
}

#[test]
fn a_store_that_cannot_be_opened_explains_the_reason() {
    let home = Home::bare();
    let error = home.fails_with("invalid_argument", &["--store", "ceph:?x=1", "pool", "ls"]);
    assert_eq!(keys(&error), ["context", "kind", "message"]);
    let error = home.fails_with("invalid_argument", &["--store", "/srv/data", "pool", "ls"]);
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("file:/srv/data"), "{message}");
    home.fails_with("invalid_argument", &["--store", "", "pool", "ls"]);
    assert_eq!(
        home.fails(3, &["pool", "ls"]),
        "benthic: there is no store here; `benthic pool create POOL` creates one, --store selects another \
         store=file:./benthic-data\n"
    );
    let stderr =
        String::from_utf8(home.run(&["--store", "file:/proc/x", "pool", "create", "x"]).stderr).unwrap();
    assert!(!stderr.contains("pool create"), "{stderr}");

    home.file("notes/todo.txt", "buy milk");
    assert!(home.fails(6, &["--store", "file:notes", "pool", "ls"]).contains("not a store"));
    home.fails(6, &["--store", "file:notes", "pool", "create", "p"]);
    assert_eq!(crate::support::tree(&home.path("notes")), ["todo.txt"]);
}

#[test]
fn an_unreadable_store_suggests_what_to_check() {
    use std::fs::{copy, set_permissions};
    use std::os::unix::fs::PermissionsExt;
    let home = Home::with_pool();
    let store = home.path("benthic-data");
    let mode = |path: &std::path::Path, mode| set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    mode(&store, 0o000);
    let run = if rustix::process::getuid().is_root() {
        // Root may read everything, so another user runs a copy of the program in an accessible
        // place.
        mode(store.parent().unwrap(), 0o755);
        let program = home.path("program");
        copy(env!("CARGO_BIN_EXE_benthic"), &program).unwrap();
        let mut somebody = std::process::Command::new("setpriv");
        somebody.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(program);
        somebody.args(["--json", "ls", "p"]).current_dir(store.parent().unwrap()).output().unwrap()
    } else {
        home.run(&["--json", "ls", "p"])
    };
    mode(&store, 0o755);
    let stderr = crate::support::failed(&run, 8);
    assert!(stderr.contains("permission_denied") && stderr.contains("check who owns"), "{stderr}");
}
