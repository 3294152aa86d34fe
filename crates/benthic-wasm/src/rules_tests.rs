use super::{Rules, RulesFile};
use crate::{Limits, Signatures, SigningKey, signature};
use benthic_core::ErrorKind::{Busy, InvalidArgument, PermissionDenied};
use std::fs;

const EMPTY: &[u8] = b"\0asm\x01\0\0\0";

fn unsigned() -> Signatures {
    Signatures::read(EMPTY).unwrap()
}

fn signed() -> Signatures {
    Signatures::read(&key().sign(EMPTY).unwrap()).unwrap()
}

fn key() -> SigningKey {
    SigningKey::from_pem(signature::tests::KEY).unwrap()
}

/// Rules with the key of the tests.
fn rules(allow: &str, rest: &str) -> String {
    let pem = key().public_pem();
    let public = pem.lines().nth(1).unwrap();
    format!(r#"{{"keys":[{{"name":"alice","public_key":"{public}","allow":{allow}}}]{rest}}}"#)
}

fn parse(json: &str) -> Rules {
    Rules::parse(json.as_bytes()).unwrap()
}

#[test]
fn rights_depend_on_the_signer() {
    let open = RulesFile::new(None).current(0);
    assert!(open.rights(&unsigned()).unwrap().check_writes().is_ok());

    let closed = parse(&rules(r#"{"classes":["words"],"fuel":5}"#, ""));
    assert_eq!(closed.rights(&unsigned()).unwrap_err().kind(), PermissionDenied);
    let rights = closed.rights(&signed()).unwrap();
    assert_eq!(rights.limits, Limits { fuel: 5, ..Limits::MAX });
    assert_eq!(rights.check_writes().unwrap_err().kind(), PermissionDenied);
    assert_eq!(rights.check_class("other").unwrap_err().kind(), PermissionDenied);
    rights.check_class("words").unwrap();

    let mixed = parse(&rules(r#"{"write":true}"#, r#","unsigned":{"fuel":7}"#));
    let (alice, others) = (mixed.rights(&signed()).unwrap(), mixed.rights(&unsigned()).unwrap());
    assert!(alice.check_writes().is_ok() && others.check_writes().is_err());
    assert_eq!((alice.limits, others.limits.fuel), (Limits::MAX, 7));
    others.check_class("any").unwrap();
}

#[test]
fn rules_that_are_not_valid_are_refused() {
    for json in [
        "",
        "[]",
        r#"{"key":[]}"#,
        r#"{"keys":[{"name":"a","public_key":"AAAA"}]}"#,
        &rules(r#"{"writes":true}"#, ""),
        &rules(r#"{"fuel":-1}"#, ""),
    ] {
        assert_eq!(Rules::parse(json.as_bytes()).err().unwrap().kind(), InvalidArgument, "{json}");
    }
}

#[test]
fn quotas_limit_fuel_per_second() {
    let rules = parse(&rules(r#"{"fuel_per_s":1000}"#, r#","unsigned":{},"client_fuel_per_s":100"#));
    let (alice, others) = (rules.rights(&signed()).unwrap(), rules.rights(&unsigned()).unwrap());
    let busy = |rights, client, now_ms| rules.quotas(rights, client, now_ms).err().map(|error| error.kind());
    // A call may use more than is left: the debt is paid off before the next one.
    rules.quotas(&others, Some(1), 0).unwrap().spend(250, 0);
    assert_eq!(busy(&others, Some(1), 1_500), Some(Busy));
    assert_eq!(busy(&others, Some(1), 1_510), None);
    // Other clients, and engines that know none, are not affected.
    assert_eq!((busy(&others, Some(2), 0), busy(&others, None, 0)), (None, None));
    // A signer's quota holds for all clients together.
    rules.quotas(&alice, Some(3), 0).unwrap().spend(1_000, 0);
    assert_eq!(busy(&alice, Some(4), 0), Some(Busy));
    assert_eq!(busy(&others, Some(4), 0), None);
    assert_eq!(busy(&alice, Some(4), 1), None);
    // Time saves up one second's fuel at most.
    rules.quotas(&alice, None, 1_000_000).unwrap().spend(1_000, 1_000_000);
    assert_eq!(busy(&alice, None, 1_000_000), Some(Busy));
}

#[test]
fn the_number_of_clients_is_limited() {
    let rules = parse(r#"{"unsigned":{},"client_fuel_per_s":100}"#);
    let rights = rules.rights(&unsigned()).unwrap();
    for client in 0..super::CLIENTS_MAX as u64 {
        rules.quotas(&rights, Some(client), 0).unwrap().spend(50, 0);
    }
    assert_eq!(rules.quotas(&rights, Some(u64::MAX), 0).err().unwrap().kind(), Busy);
    rules.quotas(&rights, Some(0), 0).unwrap();
    // Half a second later all of them are as if new.
    rules.quotas(&rights, Some(u64::MAX), 500).unwrap();
}

#[test]
fn a_changed_file_takes_effect_within_a_second() {
    let dir = std::env::temp_dir().join(format!("benthic-rules-{}", std::process::id()));
    fs::create_dir_all(&dir).unwrap();
    let path = dir.join(super::FILE_NAME);
    let file = RulesFile::new(Some(path.clone()));
    let replace = |json: &str| {
        fs::write(dir.join("new"), json).unwrap();
        fs::rename(dir.join("new"), &path).unwrap();
    };
    let is_open = |now_ms| file.current(now_ms).rights(&unsigned()).is_ok();
    assert!(is_open(0));
    replace(&rules("{}", ""));
    assert!(is_open(999), "the file is not read at each call");
    assert!(!is_open(1_000) && file.current(1_000).rights(&signed()).is_ok());
    let generation = file.current(1_999).generation;
    assert_eq!(file.current(2_000).generation, generation, "an unchanged file changes nothing");
    // A damaged file stops everything.
    replace("{");
    assert_eq!(file.current(3_000).rights(&signed()).unwrap_err().kind(), PermissionDenied);
    assert!(file.current(3_000).generation > generation);
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert!(!is_open(4_000));
    fs::remove_dir(&path).unwrap();
    assert!(is_open(5_000));
    fs::remove_dir_all(&dir).unwrap();
}
