//! Authentication and authorization, and the error messages of refusals.

use crate::support::{OwnPool, block_on, ceph, conf, connect, id, kind, options};
use benthic_core::{ClassCall, ErrorKind, Stopwatch, Store, SystemClock, WriteOp};
use benthic_rados::{Options, RadosStore};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

fn scratch(name: &str, text: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-{name}", std::process::id()));
    std::fs::write(&path, text).unwrap();
    path
}

/// The cluster's configuration with a different keyring.
fn conf_with_keyring(name: &str, keyring: &str) -> PathBuf {
    let keyring = scratch(&format!("{name}.keyring"), keyring);
    let text = std::fs::read_to_string(conf()).unwrap();
    let others = text.lines().filter(|line| !line.trim_start().starts_with("keyring"));
    let text = others.collect::<Vec<_>>().join("\n");
    let keyring = format!("\n[client]\nkeyring = {}\n", keyring.display());
    scratch(&format!("{name}.conf"), &(text + &keyring))
}

fn impatient() -> Options {
    Options { osd_timeout_ms: 3_000, mon_timeout_ms: 3_000, ..options() }
}

#[test]
fn a_missing_configuration_is_not_found() {
    let error = RadosStore::connect(Some(Path::new("/nowhere/ceph.conf")), None, options()).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().contains("conf=/nowhere/ceph.conf"), "{error}");
}

#[test]
fn an_unreachable_cluster_is_unavailable_in_time() {
    // Nothing listens on the discard port.
    let conf = scratch("nobody.conf", "[global]\nmon_host = v2:127.0.0.1:9/0\nauth_client_required = none\n");
    let started = Stopwatch::start(&SystemClock);
    let error = RadosStore::connect(Some(&conf), None, impatient()).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
}

#[test]
fn a_wrong_key_is_refused_and_never_printed() {
    let wrong = "AQBXU4Bm5mYQLBAAxxDnEdl5lgw3yV+5TFjyHg==";
    let conf = conf_with_keyring("wrong", &format!("[client.admin]\n\tkey = {wrong}\n"));
    let error = RadosStore::connect(Some(&conf), None, impatient()).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
    assert!(error.to_string().contains("id=client.admin"), "{error}");
    assert!(!format!("{error:?}").contains(wrong));
}

/// Ceph 20.2.4 makes keys of this type. An older librados refuses the whole keyring.
#[test]
fn a_key_that_librados_cannot_read_is_named_and_never_printed() {
    let newer = "AgDKowtr8ZKlHCAAp616LebpD130sqy3/TQI+tJzwztKUQAvAGZRqXFFVu0=";
    let keyring = format!("[client.admin]\n\tkey = {newer}\n");
    let conf = conf_with_keyring("newer", &keyring);
    let list = Command::new("ceph-authtool").arg("-l").arg(scratch("listed.keyring", &keyring)).output();
    let can_read = list.unwrap().status.success();
    let error = RadosStore::connect(Some(&conf), None, impatient()).err().unwrap();
    let expected = if can_read { ErrorKind::PermissionDenied } else { ErrorKind::Unsupported };
    assert_eq!(error.kind(), expected, "{error}");
    assert_eq!(error.to_string().contains("key_type=aes256k"), !can_read, "{error}");
    assert!(!format!("{error:?}").contains(newer));
}

#[test]
fn errors_report_a_missing_key() {
    let empty = conf_with_keyring("empty", "");
    let error = RadosStore::connect(Some(&empty), Some("nobody"), impatient()).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
    assert!(error.to_string().contains("id=client.nobody"), "{error}");
    let missing = conf_with_keyring("missing", "");
    std::fs::remove_file(missing.with_extension("keyring")).unwrap();
    let error = RadosStore::connect(Some(&missing), None, impatient()).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    assert!(error.to_string().contains("keyring"), "{error}");
}

#[test]
fn errors_name_the_missing_caps() {
    let own = OwnPool::new("caps");
    block_on(own.pool.write_full(&id("o"), "data")).unwrap();
    let pool_caps = |caps: &str| format!("allow {caps} pool={}", own.pool.name());
    let client = |name: &str, caps: &str| {
        let entity = format!("client.{name}");
        let keyring = ceph(&["auth", "get-or-create", &entity, "mon", "allow r", "osd", &pool_caps(caps)]);
        let conf = conf_with_keyring(name, &keyring);
        RadosStore::connect(Some(&conf), Some(name), options()).unwrap()
    };
    let call = || ClassCall { class: "hello".into(), method: "say".into(), input: "".into() };

    let store = client("benthic-rw", "rw");
    let pool = block_on(store.open_pool(own.pool.name())).unwrap();
    block_on(pool.write_full(&id("o"), "new")).unwrap();
    for error in [
        block_on(pool.exec(&id("o"), call())).err().unwrap(),
        block_on(pool.write(&id("o"), WriteOp::new().exec("hello", "old_and_new", "x"))).err().unwrap(),
    ] {
        assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
        assert!(error.to_string().contains("OSD caps need x"), "{error}");
    }

    let store = client("benthic-r", "r");
    let pool = block_on(store.open_pool(own.pool.name())).unwrap();
    assert_eq!(block_on(pool.read_range(&id("o"), 0, 9)).unwrap(), "new");
    let error = block_on(pool.write_full(&id("o"), "x")).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
    assert!(error.to_string().contains("w to write"), "{error}");
    assert_eq!(kind(block_on(store.create_pool("not-allowed"))), Some(ErrorKind::PermissionDenied));
    assert_eq!(block_on(own.pool.read_range(&id("o"), 0, 9)).unwrap(), "new");
    for name in ["client.benthic-rw", "client.benthic-r"] {
        ceph(&["auth", "rm", name]);
    }
}

#[test]
fn a_missing_pool_is_not_found() {
    assert_eq!(kind(block_on(connect().open_pool("no-such-pool")).map(|_| ())), Some(ErrorKind::NotFound));
}
