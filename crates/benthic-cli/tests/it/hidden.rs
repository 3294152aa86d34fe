//! Namespaces that are reserved for Benthic.

use crate::support::Home;
use benthic_core::{ObjectId, Store};
use benthic_embedded::{EmbeddedStore, Options};
use futures::executor::block_on;

const RESERVED: &str = "benthic.table.0123456789abcdef";

/// A pool with an object in each kind of namespace.
fn home() -> Home {
    let home = Home::with_pool();
    let store = EmbeddedStore::open(&home.path("benthic-data"), false, Options::default()).unwrap();
    let pool = block_on(store.open_pool("p")).unwrap();
    for (namespace, name) in [("", "plain"), ("ns", "own"), (RESERVED, "d/part"), ("benthic.tables", "trips")]
    {
        let object = ObjectId::in_namespace(namespace, name).unwrap();
        block_on(pool.write_full(&object, "data")).unwrap();
    }
    store.close().unwrap();
    home
}

fn sorted(listing: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = listing.lines().collect();
    lines.sort_unstable();
    lines
}

#[test]
fn a_listing_of_all_namespaces_hides_reserved_ones_by_default() {
    let home = home();
    assert_eq!(home.ok(&["ls", "p"]), "plain\n");
    assert_eq!(sorted(&home.ok(&["ls", "p", "--all-namespaces"])), ["p/plain", "p:ns/own"]);
    let all = home.ok(&["ls", "p", "--all-namespaces", "--hidden"]);
    let part = format!("p:{RESERVED}/d/part");
    assert_eq!(sorted(&all), ["p/plain", part.as_str(), "p:benthic.tables/trips", "p:ns/own"]);
    // An address that names a hidden namespace shows it.
    assert_eq!(home.ok(&["ls", &format!("p:{RESERVED}")]), "d/part\n");
    assert_eq!(home.json(&["ls", "p", "--all-namespaces", "--long"]).len(), 2);
    home.fails(2, &["ls", "p", "--hidden"]);
}

#[test]
fn single_object_commands_cannot_write_to_reserved_namespaces() {
    let home = home();
    let part = format!("p:{RESERVED}/d/part");
    let before = home.json(&["stat", &part]);
    home.file("f", "other");
    let into = format!("p:{RESERVED}/");
    for args in [
        &["rm", &part][..],
        &["rm", "p/plain", &part],
        &["put", &part, "f"],
        &["put", "p:benthic.tables/new", "f"],
        &["cp", "f", &into],
        &["cp", "p/plain", &into],
        &["cp", "-r", "p:ns", &into],
        &["mv", "p/plain", &into],
        &["mv", &part, "p/part"],
        &["mirror", "p:ns", &into],
        &["mirror", "p:ns", &into, "--remove"],
        &["xattr", "set", &part, "name", "value"],
        &["xattr", "rm", &part, "name"],
        &["omap", "set", &part, "key", "value"],
        &["omap", "rm", &part, "key"],
        &["exec", &part, "digest", "sha256"],
        &["exec", "--all", &format!("p:{RESERVED}"), "digest", "sha256"],
    ] {
        let error = home.fails_with("permission_denied", args);
        assert!(error["message"].as_str().unwrap().contains("benthic table drop"), "{args:?}: {error}");
    }
    assert_eq!(home.json(&["stat", &part]), before);
    assert_eq!(home.ok(&["ls", "p"]), "plain\n", "an address that is refused removes nothing");
    // Reads are allowed.
    assert_eq!(home.ok(&["get", &part, "-"]), "data");
    assert_eq!(home.ok(&["exec", &part, "digest", "compute", "crc32c"]).trim_end().len(), 8);
    assert_eq!(home.ok(&["cat", &part]), "data");
    home.ok(&["cp", &part, "p:copy/"]);
    assert_eq!(home.ok(&["cat", "p:copy/part"]), "data");
    home.ok(&["cp", &part, "./back"]);
    assert_eq!(home.read("back"), b"data");
}
