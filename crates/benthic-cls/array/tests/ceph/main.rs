//! The class `array` inside the OSDs of a real cluster. Results have the same bits as those of this
//! process, and no input or object harms an OSD.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../../../benthic-array/tests/common/mod.rs"]
mod common;

use benthic_core::{ErrorKind, Pool, Store};
use benthic_rados::{Options, RadosStore};
use benthic_testkit::cluster::{osd_boot_epochs, shared_conf};
use std::env;
use std::path::PathBuf;
use std::sync::{Arc, Once};

/// Returns the path of the cluster's ceph.conf. The first call installs the class library.
fn conf() -> PathBuf {
    let conf = shared_conf();
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let program = env::current_exe().unwrap();
        let library = program.parent().unwrap().join("libcls_array_1.so");
        benthic_ceph::classes::install(&library, &conf.with_file_name("classes")).unwrap();
    });
    conf
}

async fn pool(name: &str) -> Arc<dyn Pool> {
    let store = RadosStore::connect(Some(&conf()), None, Options::default()).unwrap();
    match store.create_pool(name).await {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => panic!("{error}"),
        _ => store.open_pool(name).await.unwrap(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_arrays_reduce_to_the_same_bits_in_osds() {
    let pushed = common::suite::run(&pool("benthic-cls-array-test").await, 60).await;
    assert!(pushed > 0, "the class did not run");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_arrays_are_regridded_to_the_same_bits_in_osds() {
    let pushed = common::regrid::run(&pool("benthic-cls-array-regrid").await, 60).await;
    assert!(pushed > 0, "the class did not run");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_inputs_and_objects_do_not_harm_an_osd() {
    let before = osd_boot_epochs(&conf());
    common::hostile::run(&pool("benthic-cls-array-hostile").await).await;
    assert_eq!(osd_boot_epochs(&conf()), before, "an OSD restarted");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statistics_name_the_versions_of_objects_in_osds() {
    common::statistics::run(&pool("benthic-cls-array-statistics").await).await;
}
