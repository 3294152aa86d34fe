//! `benthic image`: the trash, protected snapshots, groups, and the programs that have an image
//! open.

use crate::nbd::Server;
use crate::support::{Home, pattern};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::process::Stdio;

#[test]
fn a_trashed_image_is_restored_or_purged() {
    let home = Home::with_pool();
    let data = pattern(1_000_000);
    home.file("disk.raw", &data);
    home.ok(&["image", "import", "disk.raw", "p/i"]);
    home.ok(&["image", "trash", "mv", "p/i", "--keep", "1d"]);
    assert_eq!(home.ok(&["image", "ls", "p"]), "");
    home.fails_with("not_found", &["image", "info", "p/i"]);
    let listed = home.json(&["image", "trash", "ls", "p"]);
    assert_eq!(listed[0]["image"], json!("p/i"));
    let id = listed[0]["image_id"].as_str().unwrap();
    assert!(home.ok(&["image", "trash", "ls", "p"]).starts_with(&format!("{id}  i  moved ")));

    // Its time is not over.
    assert_eq!(home.ok(&["image", "trash", "purge", "p"]), "");
    assert_eq!(home.ok(&["image", "trash", "restore", "p/i"]), "restored p/i\n");
    assert!(home.run(&["image", "export", "p/i", "-"]).stdout == data);
    home.fails_with("not_found", &["image", "trash", "restore", "p/i"]);

    // Two images of one name have different ids.
    home.ok(&["image", "trash", "mv", "p/i"]);
    home.ok(&["image", "create", "p/i", "--size", "1MiB"]);
    home.ok(&["image", "trash", "mv", "p/i", "--keep", "1d"]);
    let refused = home.fails_with("invalid_argument", &["image", "trash", "restore", "p/i"]);
    assert!(refused.to_string().contains(id), "{refused}");
    home.ok(&["image", "trash", "restore", &format!("p/{id}"), "--name", "old"]);
    assert!(home.run(&["image", "export", "p/old", "-"]).stdout == data);
    home.ok(&["image", "trash", "mv", "p/old"]);
    home.fails(2, &["image", "trash", "purge", "p"]);
    assert_eq!(home.ok(&["image", "trash", "purge", "p", "--yes", "p"]), format!("removed {id}  old\n"));
    assert_eq!(home.json(&["image", "trash", "ls", "p"]).len(), 1);
    home.ok(&["image", "trash", "purge", "p", "--all", "--yes", "p"]);
    assert_eq!(home.ok(&["image", "trash", "ls", "p"]), "");
    assert_eq!(home.json(&["fsck"])[0]["findings"], json!([]));
}

#[test]
fn a_protected_snapshot_is_not_removed() {
    let home = Home::with_pool();
    home.ok(&["image", "create", "p/i", "--size", "1MiB"]);
    home.ok(&["image", "snap", "create", "p/i@s"]);
    let server = Server::start(&home, &["p/i"]);
    assert_eq!(home.ok(&["image", "snap", "protect", "p/i@s"]), "protected snapshot p/i@s\n");
    server.stop();
    assert_eq!(home.json(&["image", "snap", "ls", "p/i"])[0]["is_protected"], json!(true));
    let refused = home.fails_with("conflict", &["image", "snap", "rm", "p/i@s"]);
    assert!(refused.to_string().contains("unprotect"), "{refused}");
    home.ok(&["image", "snap", "unprotect", "p/i@s"]);
    home.ok(&["image", "snap", "rm", "p/i@s"]);
}

#[test]
fn a_group_snapshot_includes_served_images() {
    let home = Home::with_pool();
    home.ok(&["image", "group", "create", "p/g"]);
    for image in ["p/a", "p/b", "p/c"] {
        home.ok(&["image", "create", image, "--size", "1MiB"]);
    }
    home.ok(&["image", "group", "add", "p/g", "p/a", "p/b", "p/c"]);
    // Two programs have images of the group open; nobody has the third.
    let socket = home.path("second.sock").display().to_string();
    let (first, second) = (Server::start(&home, &["p/a"]), Server::start_at(&home, &socket, &["p/b"]));
    assert_eq!(home.ok(&["image", "group", "snap", "p/g@s"]), "created snapshot p/g@s\n");
    assert_eq!(
        home.json(&["image", "group", "info", "p/g"])[0],
        json!({ "group": "p/g", "images": ["p/a", "p/b", "p/c"], "snapshots": ["s"] })
    );
    for image in ["p/a", "p/b", "p/c"] {
        assert_eq!(home.json(&["image", "snap", "ls", image])[0]["snapshot"], json!("s"), "{image}");
    }
    home.fails_with("busy", &["image", "group", "rollback", "p/g@s", "--yes", "g"]);
    first.stop();
    second.stop();
    home.fails_with("conflict", &["image", "rm", "p/a", "--yes", "a"]);
    home.ok(&["image", "group", "rollback", "p/g@s", "--yes", "g"]);
    home.fails_with("conflict", &["image", "group", "rm", "p/g"]);
    home.ok(&["image", "group", "snap-rm", "p/g@s"]);
    home.ok(&["image", "group", "remove", "p/g", "p/a"]);
    home.ok(&["image", "rm", "p/a", "--yes", "a"]);
    home.ok(&["image", "group", "rm", "p/g"]);
    assert_eq!(home.ok(&["image", "group", "ls", "p"]), "");
}

#[test]
fn watch_shows_programs_that_open_and_close_an_image() {
    let home = Home::with_pool();
    home.ok(&["image", "create", "p/i", "--size", "1MiB"]);
    assert!(home.ok(&["image", "watch", "p/i"]).contains("no program"));
    let mut watch = home.command(&["image", "watch", "p/i", "--follow", "--json"]);
    let mut watch = watch.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let server = Server::start(&home, &["p/i"]);
    let mut next = || serde_json::from_str::<Value>(&lines.next().unwrap().unwrap()).unwrap();
    let opened = next();
    let writer = opened["writer"].as_str().unwrap().to_owned();
    assert!(writer.ends_with(&format!("process {}", server.pid())), "{writer}");
    assert_eq!(opened["is_open"], json!(true));
    assert_eq!(home.ok(&["image", "watch", "p/i"]), format!("open for writing by {writer}\n"));
    server.stop();
    let closed = next();
    assert_eq!((&closed["writer"], &closed["is_open"]), (&json!(writer), &json!(false)));
    watch.kill().unwrap();
    watch.wait().unwrap();
}

#[test]
fn an_encrypted_image_is_recognised() {
    let home = Home::with_pool();
    home.file("disk.raw", [&b"LUKS\xba\xbe"[..], &[0; 506]].concat());
    home.ok(&["image", "import", "disk.raw", "p/i"]);
    assert!(home.ok(&["image", "info", "p/i"]).contains("encrypted in the format LUKS"));
    home.ok(&["image", "create", "p/empty", "--size", "0"]);
    assert_eq!(home.json(&["image", "info", "p/empty"])[0]["encryption"], Value::Null);
    let refused = home.fails_with("usage", &["image", "info", "p/namespace/i"]);
    assert!(refused.to_string().contains("namespaces"), "{refused}");
    let refused =
        home.fails_with("unsupported", &["image", "create", "p/j", "--size", "1MiB", "--data-pool", "p"]);
    assert!(refused.to_string().contains("Ceph"), "{refused}");
}
