//! scrub and fsck.

use crate::support::{Home, pattern, tree};
use serde_json::json;
use std::fs;

#[test]
fn checks_of_an_intact_store_find_nothing() {
    let home = Home::with_pool();
    home.file("f", pattern(200_000));
    home.ok(&["put", "p/o", "f"]);
    home.ok(&["pool", "create", "q"]);
    assert!(home.ok(&["scrub", "p"]).starts_with("p: 1 object, "));
    let scrubbed = home.json(&["scrub"]);
    assert_eq!(scrubbed.len(), 2);
    assert_eq!((&scrubbed[0]["pool"], &scrubbed[0]["objects"]), (&json!("p"), &json!(1)));
    assert!(scrubbed[0]["verified_bytes"].as_u64().unwrap() >= 200_000);
    assert_eq!(scrubbed[0]["damage"], json!([]));
    let report = home.json(&["fsck"]).remove(0);
    assert_eq!(
        (&report["pools"], &report["objects"], &report["findings"]),
        (&json!(2), &json!(1), &json!([]))
    );
    assert!(home.ok(&["fsck"]).contains("2 pools, 1 object, "));
    home.fails(3, &["scrub", "none"]);
}

#[test]
fn scrub_names_the_object_with_a_flipped_bit() {
    let home = Home::with_pool();
    let content = pattern(300_000);
    home.file("f", &content);
    home.ok(&["put", "p/damaged", "f"]);
    home.ok(&["put", "p/sound", "f"]);
    // Finds the bytes of one of the two objects in the store's files.
    let wanted = &content[100_000..100_064];
    let store = home.path("benthic-data");
    let (file, at) = tree(&store)
        .into_iter()
        .find_map(|name| {
            let bytes = fs::read(store.join(&name)).ok()?;
            bytes.windows(wanted.len()).position(|window| window == wanted).map(|at| (name, at))
        })
        .unwrap();
    let mut bytes = fs::read(store.join(&file)).unwrap();
    bytes[at] ^= 1;
    fs::write(store.join(&file), bytes).unwrap();

    let run = home.run(&["scrub"]);
    assert_eq!(run.status.code(), Some(12), "{}", String::from_utf8_lossy(&run.stderr));
    let text = String::from_utf8_lossy(&run.stdout).into_owned();
    assert!(text.contains("offset_bytes="), "{text}");
    let damaged = if text.contains("p/damaged: ") { "damaged" } else { "sound" };
    let error = home.fails_with("corrupt", &["get", &format!("p/{damaged}"), "back"]);
    assert!(error["context"]["offset_bytes"].is_string(), "{error}");
    assert!(!home.path("back").exists());
    let run = home.run(&["--json", "scrub", "p"]);
    let line: serde_json::Value = serde_json::from_slice(&run.stdout).unwrap();
    assert_eq!(line["damage"][0]["object"], damaged);
    assert!(line["damage"][0]["offset_bytes"].as_u64().unwrap() <= 100_000);
}

#[test]
fn repair_copies_intact_objects_into_a_new_store() {
    let home = Home::with_pool();
    let content = pattern(300_000);
    home.file("f", &content);
    home.ok(&["put", "p/damaged", "f"]);
    home.file("g", pattern(100_000));
    home.ok(&["put", "p/sound", "g"]);
    home.ok(&["xattr", "set", "p/sound", "owner", "ada"]);
    let data = home.path("benthic-data/data");
    let mut bytes = fs::read(&data).unwrap();
    let at = bytes.windows(64).position(|window| window == &content[200_000..200_064]).unwrap();
    bytes[at] ^= 1;
    fs::write(&data, &bytes).unwrap();
    home.fails(2, &["fsck", "--repair"]);
    home.fails_with("unsupported", &["fsck", "--repair", "--into", "mem:"]);
    home.fails_with("already_exists", &["fsck", "--repair", "--into", "file:benthic-data"]);

    let run = home.run(&["--json", "fsck", "--repair", "--into", "file:saved"]);
    assert_eq!(run.status.code(), Some(12), "{}", String::from_utf8_lossy(&run.stderr));
    let report: serde_json::Value = serde_json::from_slice(&run.stdout).unwrap();
    assert_eq!((&report["objects"], &report["objects_lost"]), (&json!(1), &json!(1)));
    assert_eq!(report["lost"][0]["object"], "p/damaged");
    assert!(fs::read(&data).unwrap() == bytes, "the damaged store is as it was");
    home.ok(&["--store", "file:saved", "get", "p/sound", "back"]);
    assert!(home.read("back") == home.read("g"));
    assert_eq!(home.ok(&["--store", "file:saved", "xattr", "get", "p/sound", "owner"]).trim_end(), "ada");
    home.ok(&["--store", "file:saved", "fsck"]);
    home.ok(&["--store", "file:saved", "scrub"]);

    // The error for a store that does not open gives the next step. Salvage works nevertheless.
    fs::write(home.path("benthic-data/format"), "nonsense").unwrap();
    assert!(home.fails(12, &["fsck"]).contains("benthic fsck --repair --into"));
    let run = home.run(&["fsck", "--repair", "--into", "file:again"]);
    assert_eq!(run.status.code(), Some(12));
    home.ok(&["--store", "file:again", "get", "p/sound", "once more"]);
    assert!(home.read("once more") == home.read("g"));
}
