//! WebAssembly modules inside the OSDs of a real cluster. No module may harm an OSD.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod counts;
#[path = "../../../../benthic-wasm/tests/it/modules.rs"]
mod modules;
#[path = "../../../../benthic-wasm/tests/it/native.rs"]
mod native;
mod rules;
#[path = "../../../../benthic-wasm/tests/it/suite.rs"]
mod suite;

use benthic_core::{ErrorKind, ObjectId, Pool, Store, SystemClock};
use benthic_rados::{Options, RadosStore};
use benthic_testkit::cluster::{osd_boot_epochs, shared_conf};
use benthic_wasm::deployed::{self, Actor};
use benthic_wasm::{Limits, with_manifest};
use bytes::Bytes;
use futures::executor::block_on;
use futures::future::join_all;
use std::env;
use std::path::PathBuf;
use std::sync::{Arc, Once};

const POOL: &str = "benthic-cls-wasm-test";
const ACTOR: Actor<'static> = Actor { name: "test", clock: &SystemClock };

/// Returns the path of the cluster's ceph.conf. The first call installs the class library.
fn conf() -> PathBuf {
    let conf = shared_conf();
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let program = env::current_exe().unwrap();
        let library = program.parent().unwrap().join("libcls_wasm_1.so");
        benthic_ceph::classes::install(&library, &conf.with_file_name("classes")).unwrap();
    });
    conf
}

fn store() -> Arc<RadosStore> {
    RadosStore::connect(Some(&conf()), None, Options::default()).unwrap()
}

fn pool() -> Arc<dyn Pool> {
    let store = store();
    match block_on(store.create_pool(POOL)) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => panic!("{error}"),
        _ => block_on(store.open_pool(POOL)).unwrap(),
    }
}

/// The native classes as modules.
mod conformance {
    benthic_testkit::class_conformance!(super::native::subject(super::store(), super::pool()));
}

#[test]
fn every_module_ends_as_it_must_and_the_osd_survives() {
    let (pool, before) = (pool(), osd_boot_epochs(&conf()));
    block_on(suite::every_module_ends_as_it_must(&*pool));
    assert_eq!(osd_boot_epochs(&conf()), before);
}

#[test]
fn a_module_reads_and_writes() {
    block_on(suite::a_module_reads_and_writes(&*pool()));
}

#[test]
fn a_module_calls_native_classes() {
    block_on(suite::a_module_calls_native_classes(&*pool()));
}

#[test]
fn the_deadline_ends_a_call() {
    block_on(suite::the_deadline_ends_a_call(&*pool()));
}

/// A module that returns a number, so that a test knows which version ran.
fn version(number: u8) -> Bytes {
    let wasm = modules::method(&format!(
        "(i32.store8 (i32.const 0) (i32.const {number})) (drop (call $output (i32.const 0) (i32.const 1)))"
    ));
    let json =
        format!(r#"{{"class":"deployed","version":{number},"methods":[{{"method":"run","reads":true}}]}}"#);
    with_manifest(&wasm, json.as_bytes()).into()
}

#[test]
fn clients_call_while_versions_are_deployed() {
    let pool = pool();
    let object = ObjectId::new("deployed").unwrap();
    block_on(async {
        pool.write_full(&object, "x").await.unwrap();
        deployed::deploy(&*pool, version(0), Limits::default(), ACTOR).await.unwrap();
        let call = async || {
            let mut seen = Vec::new();
            for _ in 0..100 {
                let class = deployed::find(&*pool, "deployed").await.unwrap().unwrap();
                let wasm = deployed::fetch(&*pool, class.current).await.unwrap();
                seen.push(suite::run(&*pool, &object, &wasm, false, b"").await.unwrap()[0]);
            }
            assert!(seen.is_sorted(), "a call used an older version than one before: {seen:?}");
        };
        let deploy = async {
            for number in 1..20 {
                deployed::deploy(&*pool, version(number), Limits::default(), ACTOR).await.unwrap();
            }
        };
        futures::join!(join_all((0..16).map(|_| call())), deploy);
        assert_eq!(deployed::undeploy(&*pool, "deployed", None, ACTOR).await.unwrap().len(), 20);
    });
}
