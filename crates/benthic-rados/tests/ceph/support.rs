//! Helpers for the tests: the shared cluster and its clients.

use benthic_core::{ErrorKind, ObjectId, Pool, Result, Store};
use benthic_rados::{Options, RadosStore};
use benthic_testkit::cluster::shared_conf;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, LazyLock};

pub use futures::executor::block_on;

/// The configuration of the shared cluster: three OSDs with Benthic's class library.
pub fn conf() -> &'static Path {
    static CONF: LazyLock<PathBuf> = LazyLock::new(shared_conf);
    &CONF
}

pub fn options() -> Options {
    Options {
        classes: benthic_classes::registry(),
        // Few placement groups, so that many small pools fit on one OSD.
        pool_pgs: 4,
        ..Options::default()
    }
}

pub fn connect() -> Arc<RadosStore> {
    RadosStore::connect(Some(conf()), None, options()).unwrap()
}

/// A pool of one test. Dropping it removes the pool, so that placement groups do not accumulate.
pub struct OwnPool {
    pub store: Arc<RadosStore>,
    pub pool: Arc<dyn Pool>,
}

impl OwnPool {
    pub fn new(name: &str) -> OwnPool {
        let store = connect();
        let name = format!("{name}.{}", std::process::id());
        block_on(store.create_pool(&name)).unwrap();
        let pool = block_on(store.open_pool(&name)).unwrap();
        OwnPool { store, pool }
    }
}

impl Drop for OwnPool {
    fn drop(&mut self) {
        let removed = block_on(self.store.remove_pool(self.pool.name()));
        assert!(std::thread::panicking() || removed.is_ok(), "{removed:?}");
    }
}

/// Runs the `ceph` program as the administrator and returns its output.
pub fn ceph(words: &[&str]) -> String {
    ceph_of(conf(), words)
}

/// Like [`ceph`], for another cluster.
pub fn ceph_of(conf: &Path, words: &[&str]) -> String {
    let output = Command::new("ceph").arg("--conf").arg(conf).args(words).output().unwrap();
    assert!(output.status.success(), "ceph {words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

pub fn id(name: &str) -> ObjectId {
    ObjectId::new(name).unwrap()
}

pub fn kind<T>(result: Result<T>) -> Option<ErrorKind> {
    result.err().map(|error| error.kind())
}
