//! Tokens and temporary keys.

use benthic_catalog::auth::Auth;
use benthic_catalog::iceberg::keys::Folder;
use benthic_core::{Environment, ManualClock, Store};
use benthic_embedded::{MemStore, Options};
use benthic_s3::PoolSal;
use benthic_s3::gateway::{KeyUse, Keys};
use benthic_s3::grants::{Access, Grant};
use benthic_s3::identity::{Identities, NewKey, Refusal};
use benthic_s3::sal::Sal;
use benthic_s3::seal::Sealer;
use benthic_table::ids::Id;
use futures::executor::block_on;
use std::sync::Arc;

/// A store with a key of the account `main`, and another with another sealing key.
fn auths() -> (Auth, Auth, NewKey, Arc<ManualClock>) {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::default());
    clock.advance_ms(1_000_000);
    let environment = Environment { clock: clock.clone(), ..Environment::default() };
    let store = MemStore::new(Options::default().with_classes(benthic_classes::registry()));
    let pool = block_on(async {
        store.create_pool("s3").await.unwrap();
        store.open_pool("s3").await.unwrap()
    });
    let sal = block_on(PoolSal::open(pool.clone(), pool, benthic_s3::Options::default())).unwrap();
    let sal = Arc::new(sal) as Arc<dyn Sal>;
    let sealer = |name: &str| Sealer::open(&dir.path().join(name), true, environment.clone()).unwrap();
    let identities = || Identities::new(Arc::clone(&sal), Some(sealer("one")), environment.clone());
    let key = block_on(identities().create_first_key()).unwrap().unwrap();
    let auth = |name: &str| {
        let access = Access::new(identities(), vec!["main=lake".parse::<Grant>().unwrap()]);
        Auth::new(access, Vec::new(), &sealer(name), environment.clone(), 60)
    };
    (auth("one"), auth("two"), key, clock)
}

fn folder(table: &str) -> Folder {
    Folder { pool: "lake".to_owned(), table: table.to_owned(), id: Id(7) }
}

fn admits(auth: &Auth, key: &str, operation: &str, object: Option<&str>, query: &str) -> bool {
    block_on(auth.admits(key, &KeyUse { operation, object, query })).is_ok_and(|is_admitted| is_admitted)
}

#[test]
fn a_token_lasts_as_long_as_promised_and_only_with_its_sealing_key() {
    let (auth, other, key, clock) = auths();
    let token = block_on(auth.log_in(&key.access_key, &key.secret)).unwrap().unwrap();
    assert!(block_on(auth.log_in(&key.access_key, "other")).unwrap().is_none());
    assert_eq!(block_on(auth.grant(&token)).unwrap().unwrap().account, "main");
    assert!(block_on(other.grant(&token)).unwrap().is_none());
    clock.advance_ms(59_999);
    assert!(block_on(auth.grant(&token)).unwrap().is_some());
    clock.advance_ms(1);
    assert!(block_on(auth.grant(&token)).unwrap().is_none());
}

#[test]
fn a_temporary_key_lasts_as_long_as_promised_and_reads_one_table() {
    let (auth, other, _, clock) = auths();
    let key = auth.temporary_key(&folder("trips"), false);
    let found = |auth: &Auth| block_on(auth.secret(&key.access_key)).unwrap();
    assert_eq!(found(&auth), Some(key.secret.clone()));
    assert_ne!(found(&other), Some(key.secret.clone()));
    for (token, is_valid) in [(None, true), (Some(key.access_key.as_str()), true), (Some(""), false)] {
        assert_eq!(block_on(auth.find(&key.access_key, token)).unwrap().is_ok(), is_valid, "{token:?}");
    }
    let own = format!("{}/data/x", folder("trips"));
    for (operation, object, query, expected) in [
        ("GetObject", Some(own.as_str()), "", true),
        ("HeadObject", Some(own.as_str()), "", true),
        ("GetObject", Some("lake/trips-0000000000000008/data/x"), "", false),
        ("GetObject", Some("lake/trips-0000000000000007"), "", false),
        ("PutObject", Some(own.as_str()), "", false),
        ("DeleteObject", Some(own.as_str()), "", false),
        ("ListObjectsV2", None, "prefix=lake%2Ftrips-0000000000000007%2F", true),
        ("ListObjectsV2", None, "prefix=lake%2Ftrips-0000000000000007", false),
        ("ListObjectsV2", None, "prefix=lake/", false),
        ("ListObjectsV2", None, "", false),
        ("ListObjectsV2", None, "prefix=&prefix=lake%2Ftrips-0000000000000007%2F", false),
        ("ListObjectsV2", None, "prefix=lake%2Ftrips-0000000000000007%2F&prefix=", false),
    ] {
        assert_eq!(
            admits(&auth, &key.access_key, operation, object, query),
            expected,
            "{operation} {object:?} {query}"
        );
    }
    let upload = KeyUse { operation: "PutObject", object: Some(&own), query: "" };
    let error = block_on(auth.admits(&key.access_key, &upload)).unwrap_err();
    assert!(error.message().contains("--allow-writes"), "{error}");
    let writes = auth.temporary_key(&folder("trips"), true).access_key;
    assert!(admits(&auth, &writes, "PutObject", Some(&own), ""));
    assert!(!admits(&auth, &writes, "PutObject", Some("lake/trips-0000000000000008/data/x"), ""));
    assert!(!admits(&auth, &writes, "DeleteObjects", None, ""));
    // The letter for the right is a part of the authenticated text.
    let forged = key.access_key.replacen('R', "W", 1);
    assert_ne!(block_on(auth.secret(&forged)).unwrap().unwrap(), key.secret);
    clock.advance_ms(60_000);
    assert_eq!(found(&auth), None);
    assert!(!admits(&auth, &key.access_key, "GetObject", Some(&own), ""));
}

#[test]
fn a_key_reads_the_pools_of_its_grant() {
    let (auth, _, key, _) = auths();
    for (object, expected) in
        [("lake/t-1/x", true), ("lakes/t-1/x", false), ("other/t-1/x", false), ("lake", false)]
    {
        assert_eq!(admits(&auth, &key.access_key, "GetObject", Some(object), ""), expected, "{object}");
    }
    assert!(admits(&auth, &key.access_key, "ListObjectsV2", None, "prefix=lake/"));
    assert!(!admits(&auth, &key.access_key, "ListObjectsV2", None, "prefix=lake"));
    assert!(!admits(&auth, "BNAAAAAAAAAAAAAAAAAA", "GetObject", Some("lake/t-1/x"), ""));
    let found = block_on(auth.find(&key.access_key, Some(&key.access_key))).unwrap();
    assert!(matches!(found, Err(Refusal::InvalidToken)));
}

#[test]
fn only_servers_draw_the_ids_of_new_tables() {
    let (auth, other, ..) = auths();
    let id = auth.draw_table_id("lake", "new").unwrap();
    let drawn = Folder { id, ..folder("new") };
    assert!(auth.drew(&drawn) && !other.drew(&drawn));
    assert!(!auth.drew(&Folder { id, ..folder("other") }) && !auth.drew(&folder("new")));
    assert_ne!(auth.draw_table_id("lake", "new").unwrap(), id);
}
