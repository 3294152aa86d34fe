use crate::behaviour::pool;
use crate::modules;
use benthic_core::names::CLASSES_NAMESPACE;
use benthic_core::{ErrorKind, ManualClock, ObjectId, Pool, SystemClock};
use benthic_wasm::deployed::{self, Action, Actor, DeployedClass};
use benthic_wasm::{Limits, ModuleId, with_manifest};
use bytes::Bytes;
use futures::executor::block_on;

fn version(number: u32) -> Bytes {
    let json = format!(r#"{{"class":"c","version":{number},"methods":[{{"method":"run","reads":true}}]}}"#);
    with_manifest(&modules::method(""), json.as_bytes()).into()
}

async fn deploy(pool: &dyn Pool, number: u32) -> DeployedClass {
    let clock = ManualClock::default();
    clock.advance_ms(u64::from(number) * 1_000);
    let actor = Actor { name: "alice@host", clock: &clock };
    deployed::deploy(pool, version(number), Limits::default(), actor).await.unwrap()
}

fn bob() -> Actor<'static> {
    Actor { name: "bob@host", clock: &SystemClock }
}

async fn has_module(pool: &dyn Pool, id: ModuleId) -> bool {
    deployed::fetch(pool, id).await.is_ok()
}

#[test]
fn versions_are_deployed_selected_and_removed() {
    let pool = pool();
    block_on(async {
        assert_eq!(deployed::list(&*pool).await.unwrap(), []);
        assert_eq!(deployed::find(&*pool, "c").await.unwrap(), None);
        let first = deploy(&*pool, 1).await;
        let second = deploy(&*pool, 2).await;
        assert_eq!(second.version().unwrap().manifest.version, 2);
        assert_eq!((second.versions.len(), second.versions[0].0), (2, second.current));
        assert_eq!(deployed::list(&*pool).await.unwrap(), std::slice::from_ref(&second));
        // A class whose name begins like another's.
        assert_eq!(deployed::find(&*pool, "c/").await.unwrap(), None);

        deployed::select(&*pool, "c", first.current, bob()).await.unwrap();
        let rolled_back = deployed::find(&*pool, "c").await.unwrap().unwrap();
        assert_eq!(rolled_back.current, first.current);
        let refused = deployed::undeploy(&*pool, "c", Some(first.current), bob()).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Busy);
        assert_eq!(
            deployed::undeploy(&*pool, "c", Some(second.current), bob()).await.unwrap(),
            [second.current]
        );
        assert!(!has_module(&*pool, second.current).await && has_module(&*pool, first.current).await);
        let missing = deployed::select(&*pool, "c", second.current, bob()).await.unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::NotFound);
        assert_eq!(deployed::undeploy(&*pool, "c", None, bob()).await.unwrap(), [first.current]);
        assert_eq!(
            deployed::undeploy(&*pool, "c", None, bob()).await.unwrap_err().kind(),
            ErrorKind::NotFound
        );
        assert!(!has_module(&*pool, first.current).await);
    });
}

#[test]
fn the_same_module_is_deployed_once() {
    let pool = pool();
    block_on(async {
        deploy(&*pool, 1).await;
        assert_eq!(deploy(&*pool, 1).await.versions.len(), 1);
        for number in 2..=64 {
            deploy(&*pool, number).await;
        }
        let error = deployed::deploy(&*pool, version(65), Limits::default(), bob()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::LimitExceeded);
        assert_eq!(deploy(&*pool, 64).await.versions.len(), 64);
    });
}

#[test]
fn a_damaged_record_is_an_error() {
    let pool = pool();
    block_on(async {
        let class = deploy(&*pool, 1).await;
        let records = ObjectId::in_namespace(CLASSES_NAMESPACE, "classes").unwrap();
        let key = format!("version/c/{}", class.current);
        for value in ["", "{}", "[1]"] {
            let op = benthic_core::WriteOp::new().omap_set([(key.clone(), value)]);
            pool.write(&records, op).await.unwrap();
            assert_eq!(deployed::find(&*pool, "c").await.unwrap_err().kind(), ErrorKind::Corrupt);
        }
        assert_eq!(deployed::undeploy(&*pool, "c", None, bob()).await.unwrap(), [class.current]);
        assert_eq!(deployed::find(&*pool, "c").await.unwrap(), None);
    });
}

#[test]
fn the_audit_log_has_the_latest_changes() {
    let pool = pool();
    block_on(async {
        assert_eq!(deployed::audit(&*pool).await.unwrap(), []);
        let first = deploy(&*pool, 1).await.current;
        let second = deploy(&*pool, 2).await.current;
        deployed::select(&*pool, "c", first, bob()).await.unwrap();
        deployed::undeploy(&*pool, "c", Some(second), bob()).await.unwrap();
        // A change that fails leaves no entry.
        deployed::undeploy(&*pool, "c", Some(second), bob()).await.unwrap_err();
        let changes = deployed::audit(&*pool).await.unwrap();
        let seen: Vec<_> = changes
            .iter()
            .map(|change| (change.by.as_str(), change.action, change.version.clone().unwrap()))
            .collect();
        let (first, second) = (first.to_string(), second.to_string());
        assert_eq!(
            seen,
            [
                ("alice@host", Action::Deploy, first.clone()),
                ("alice@host", Action::Deploy, second.clone()),
                ("bob@host", Action::Rollback, first),
                ("bob@host", Action::Undeploy, second),
            ]
        );
        assert_eq!(changes[0].unix_s, 1);

        let clock = ManualClock::default();
        let actor = Actor { name: "carol@host", clock: &clock };
        for _ in 0..deployed::AUDIT_ENTRIES_MAX + 2 {
            clock.advance_ms(1_000);
            let current = deployed::get(&*pool, "c").await.unwrap().current;
            deployed::select(&*pool, "c", current, actor).await.unwrap();
        }
        let changes = deployed::audit(&*pool).await.unwrap();
        assert_eq!(changes.len() as u64, deployed::AUDIT_ENTRIES_MAX);
        assert!(changes.is_sorted_by_key(|change| change.unix_s));
        assert_eq!((changes[0].unix_s, changes[999].unix_s), (3, 1_002));
    });
}

/// A field that this build does not know, in the manifest, in a method or in the record.
#[test]
fn a_record_of_a_newer_build_says_so() {
    let pool = pool();
    block_on(async {
        let class = deploy(&*pool, 1).await;
        let records = ObjectId::in_namespace(CLASSES_NAMESPACE, "classes").unwrap();
        let key = format!("version/c/{}", class.current);
        let (page, _) = pool.fetch(&records, benthic_core::Fetch::omap_get([key.clone()])).await.unwrap();
        let json = String::from_utf8(page.entries[0].1.to_vec()).unwrap();
        // An older build reads the fields that it knows.
        assert!(!json.contains("merges"), "{json}");
        for (at, newer) in
            [("{\"class\"", "{\"colour\":1,\"class\""), ("{\"method\"", "{\"colour\":1,\"method\"")]
        {
            let op = benthic_core::WriteOp::new().omap_set([(key.clone(), json.replace(at, newer))]);
            pool.write(&records, op).await.unwrap();
            let error = deployed::find(&*pool, "c").await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
            assert!(error.message().contains("install that build of the program"), "{error}");
        }
        let op = benthic_core::WriteOp::new()
            .omap_set([(key.clone(), json.replace("{\"manifest\"", "{\"colour\":1,\"manifest\""))]);
        pool.write(&records, op).await.unwrap();
        assert_eq!(deployed::find(&*pool, "c").await.unwrap(), Some(class));
    });
}
