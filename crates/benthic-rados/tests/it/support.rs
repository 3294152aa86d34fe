//! What the tests share: a cluster, and clients of it.
//!
//! `BENTHIC_TEST_CEPH_CONF` names the configuration of a running cluster of one to nine OSDs that has Benthic's class
//! library installed. Without it the tests start one of their own, which ends with them.

use benthic_core::{ErrorKind, ObjectId, Pool, Result, Store};
use benthic_rados::{Options, RadosStore};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, LazyLock};

pub use futures::executor::block_on;

const CLASS_LIBRARY: &str = "libcls_benthic_1.so";

/// Ends the daemons of the cluster in `$2` and removes it when the process `$1` is gone, however it went.
const KEEPER: &str = r#"
while kill -0 "$1" 2>/dev/null; do sleep 1; done
for pid in "$2"/run/*.pid; do kill -9 "$(cat "$pid")"; done
sleep 1
rm -rf "$2"
"#;

static CONF: LazyLock<PathBuf> = LazyLock::new(|| match std::env::var_os("BENTHIC_TEST_CEPH_CONF") {
    Some(conf) => PathBuf::from(conf),
    None => start(),
});

#[expect(clippy::zombie_processes, reason = "the keeper outlives this process")]
fn start() -> PathBuf {
    // The daemons' sockets want a short path.
    let dir = std::env::temp_dir().join(format!("benthic-rados-{}", std::process::id()));
    let cluster = benthic_ceph::local::Cluster::up(&dir, Some(1), &mut |_| Ok(()));
    let mut keeper = Command::new("sh");
    keeper.args(["-c", KEEPER, "keeper", &std::process::id().to_string()]).arg(&dir);
    keeper.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0).spawn().unwrap();
    let (cluster, _) = cluster.unwrap();
    install_classes(&dir.join("classes"));
    cluster.conf()
}

/// As an administrator would: built, copied under another name, renamed.
fn install_classes(class_dir: &Path) {
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--release", "-p", "benthic-cls-library"]).current_dir(env!("CARGO_MANIFEST_DIR"));
    assert!(build.status().unwrap().success(), "the class library does not build");
    let library = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../release").join(CLASS_LIBRARY);
    let temporary = class_dir.join("new");
    std::fs::copy(library, &temporary).unwrap();
    std::fs::rename(temporary, class_dir.join(CLASS_LIBRARY)).unwrap();
}

pub fn conf() -> &'static Path {
    &CONF
}

pub fn options() -> Options {
    Options {
        classes: benthic_classes::registry(),
        // Few, so that many small pools fit on one OSD.
        pool_pgs: 4,
        ..Options::default()
    }
}

pub fn connect() -> Arc<RadosStore> {
    RadosStore::connect(Some(conf()), None, options()).unwrap()
}

/// A pool that its test has for itself; removed at the end, so that its placement groups do not add up.
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

/// Runs Ceph's own program as the administrator and gives what it prints.
pub fn ceph(words: &[&str]) -> String {
    let output = Command::new("ceph").arg("--conf").arg(conf()).args(words).output().unwrap();
    assert!(output.status.success(), "ceph {words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

pub fn id(name: &str) -> ObjectId {
    ObjectId::new(name).unwrap()
}

pub fn kind<T>(result: Result<T>) -> Option<ErrorKind> {
    result.err().map(|error| error.kind())
}
