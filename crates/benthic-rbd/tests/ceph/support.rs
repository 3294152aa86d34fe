//! Pools of the shared cluster, and the `rbd` program.

use benthic_block::Images;
use benthic_core::Store;
use benthic_rados::{Options, RadosStore};
use benthic_rbd::RbdImages;
use benthic_testkit::cluster::shared_conf;
use std::process::Command;
use std::sync::Arc;

/// A pool of one test.
pub struct OwnPool {
    pub store: Arc<RadosStore>,
    pub name: String,
    pub images: Arc<dyn Images>,
}

impl OwnPool {
    pub async fn new(test: &str) -> OwnPool {
        let store = connect();
        let name = format!("images.{test}.{}", std::process::id());
        store.create_pool(&name).await.unwrap();
        let images = RbdImages::open(Arc::clone(&store), &name).await.unwrap();
        OwnPool { store, name, images }
    }

    pub async fn remove(self) {
        let OwnPool { store, name, images } = self;
        drop(images);
        store.remove_pool(&name).await.unwrap();
    }

    /// Runs `rbd` with the pool as default, and returns its output.
    pub fn rbd(&self, words: &[&str]) -> String {
        let output = Command::new("rbd")
            .arg("--conf")
            .arg(shared_conf())
            .args(["--pool", &self.name])
            .args(words)
            .output()
            .unwrap();
        assert!(output.status.success(), "rbd {words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// The images of the pool as another program sees them, with a connection of its own.
    pub async fn other_program(&self) -> Arc<dyn Images> {
        RbdImages::open(connect(), &self.name).await.unwrap()
    }
}

fn connect() -> Arc<RadosStore> {
    // Few placement groups, so that many small pools fit on one OSD.
    let options = Options { pool_pgs: 4, ..Options::default() };
    RadosStore::connect(Some(&shared_conf()), None, options).unwrap()
}

pub fn run<T>(test: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap().block_on(test)
}

/// Runs a case of the conformance suite in a pool of its own.
pub fn with_images<F: Future<Output = ()>>(case: &str, test: impl FnOnce(Arc<dyn Images>) -> F) {
    with_pool(case, |pool| {
        let images = Arc::clone(&pool.images);
        async move {
            test(images).await;
            pool
        }
    });
}

/// Runs a test in a pool of its own. The test returns the pool, which is then removed.
pub fn with_pool<F: Future<Output = OwnPool>>(name: &str, test: impl FnOnce(OwnPool) -> F) {
    run(async { test(OwnPool::new(name).await).await.remove().await });
}
