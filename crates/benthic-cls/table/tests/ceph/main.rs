//! Fragments, the parts of query plans that run on one Parquet object, inside the OSDs of a real
//! cluster. The results must equal those of the same code in this process. No request or stored
//! object may harm an OSD, and a busy OSD must refuse further fragments at once.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[allow(dead_code, reason = "shared with the tests of the fragment")]
#[path = "../../../../benthic-fragment/tests/common/mod.rs"]
mod common;

use benthic_core::{ClassCall, ErrorKind, ObjectId, Pool, Result, Store};
use benthic_fragment::fragment::{Envelope, Reply, Status, encode, run};
use benthic_rados::{Options, RadosStore};
use benthic_testkit::cluster::{osd_boot_epochs, shared_conf};
use bytes::Bytes;
use common::{Object, Plan};
use futures::executor::block_on;
use futures::future::join_all;
use prost::Message;
use std::env;
use std::path::PathBuf;
use std::sync::{Arc, Once};

const POOL: &str = "benthic-cls-table-test";

/// Returns the path of the cluster's ceph.conf. The first call installs the class library.
fn conf() -> PathBuf {
    let conf = shared_conf();
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let program = env::current_exe().unwrap();
        let library = program.parent().unwrap().join("libcls_table_1.so");
        benthic_ceph::classes::install(&library, &conf.with_file_name("classes")).unwrap();
    });
    conf
}

fn pool() -> Arc<dyn Pool> {
    let store = RadosStore::connect(Some(&conf()), None, Options::default()).unwrap();
    match block_on(store.create_pool(POOL)) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => panic!("{error}"),
        _ => block_on(store.open_pool(POOL)).unwrap(),
    }
}

/// Calls the method that runs a fragment on an object.
async fn scan(pool: &Arc<dyn Pool>, object: &ObjectId, envelope: Bytes) -> Result<Reply> {
    let call = ClassCall { class: "table".to_owned(), method: "scan".to_owned(), input: envelope };
    Ok(Reply::decode(pool.exec(object, call).await?).unwrap())
}

/// Scans an object and retries while the OSD is busy with fragments of other tests.
fn scan_with_retry(pool: &Arc<dyn Pool>, object: &ObjectId, envelope: &Bytes) -> Reply {
    loop {
        let reply = block_on(scan(pool, object, envelope.clone())).unwrap();
        if reply.status != i32::from(Status::Busy) {
            return reply;
        }
    }
}

/// The request that runs a plan.
fn envelope(plan: &Plan) -> Envelope {
    Envelope { output_bytes_max: 16 * 1024 * 1024, ..Envelope::new(encode(plan).unwrap()) }
}

fn put(pool: &Arc<dyn Pool>, name: &str, data: Bytes) -> ObjectId {
    let object = ObjectId::new(name).unwrap();
    block_on(pool.write_full(&object, data)).unwrap();
    object
}

#[test]
fn an_osd_returns_the_same_results_as_this_process() {
    let pool = pool();
    let parquet = common::lineitem().parquet;
    let object = put(&pool, "answers", parquet.clone());
    for (name, plan) in [
        ("all row groups pruned", common::point(0)),
        ("one order", common::point(20_000)),
        ("q6", common::q6()),
        ("q1", common::q1()),
        ("one percent", common::parts(2_000)),
        ("all rows", common::parts(i64::MAX)),
    ] {
        for compress in [false, true] {
            let envelope = Envelope { compress, ..envelope(&plan) }.to_bytes();
            let there = scan_with_retry(&pool, &object, &envelope);
            let here = run(&mut Object(parquet.clone()), &envelope).unwrap();
            assert_eq!(there.status, i32::from(Status::Ok), "{name}: {}", there.message);
            assert!(there.ipc == here.ipc && there.rows == here.rows, "{name}");
        }
    }
}

#[test]
fn harmful_plans_and_objects_are_refused_and_the_osd_survives() {
    let pool = pool();
    let epochs_before = osd_boot_epochs(&conf());
    let object = put(&pool, "good", common::lineitem().parquet);
    let refused = common::hostile::refused().into_iter().chain(common::hostile::refused_filters());
    for (name, envelope, why) in refused {
        let reply = scan_with_retry(&pool, &object, &envelope.to_bytes());
        assert_eq!(reply.status, i32::from(Status::Unsupported), "{name}: {}", reply.message);
        assert!(reply.message.contains(why), "{name}: {}", reply.message);
    }
    let bomb_request = Envelope::new(encode(&common::bombs::plan()).unwrap()).to_bytes();
    // A bomb is an object that takes far more memory or time than its size suggests.
    for (name, bomb, status, why) in common::bombs::bombs() {
        let object = put(&pool, &format!("bomb {name}"), bomb.into());
        let reply = scan_with_retry(&pool, &object, &bomb_request);
        assert!(
            reply.status == i32::from(status) && reply.message.contains(why),
            "{name}: {}",
            reply.message
        );
    }
    for (name, bytes) in [("empty", Bytes::new()), ("no parquet", Bytes::from(vec![0xff; 100_000]))] {
        let object = put(&pool, name, bytes);
        assert_eq!(
            scan_with_retry(&pool, &object, &bomb_request).status,
            i32::from(Status::Failed),
            "{name}"
        );
    }
    let missing = block_on(scan(&pool, &ObjectId::new("missing").unwrap(), bomb_request)).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound);
    let reply = scan_with_retry(&pool, &object, &envelope(&common::q6()).to_bytes());
    assert_eq!((reply.status, reply.rows), (Status::Ok.into(), 1), "{}", reply.message);
    assert_eq!(osd_boot_epochs(&conf()), epochs_before);
}

#[test]
fn a_busy_osd_refuses_at_once_and_serves_the_rest() {
    let pool = pool();
    let parquet = common::lineitem_of(60_000).parquet;
    // An OSD runs the operations of one placement group sequentially, so one object cannot make it
    // busy. Many objects are in many placement groups.
    let objects: Vec<_> = (0..24).map(|n| put(&pool, &format!("busy {n}"), parquet.clone())).collect();
    let envelope = envelope(&common::q1()).to_bytes();
    let expected = scan_with_retry(&pool, &objects[0], &envelope).ipc;
    let (mut done, mut refused) = (0, 0);
    for _ in 0..20 {
        let calls = objects.iter().map(|object| scan(&pool, object, envelope.clone()));
        for reply in block_on(join_all(calls)) {
            let reply = reply.unwrap();
            if reply.status == i32::from(Status::Busy) {
                refused += 1;
            } else {
                assert_eq!(reply.status, i32::from(Status::Ok), "{}", reply.message);
                assert!(reply.ipc == expected);
                done += 1;
            }
        }
    }
    assert!(done > 0 && refused > 0, "done={done} refused={refused}");
}
