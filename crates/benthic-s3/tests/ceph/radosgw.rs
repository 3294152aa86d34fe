//! The SAL suite on the driver for an upstream, which is Ceph's own gateway on the shared cluster.

use crate::far::{self, Far, RUNTIME};
use crate::sal::{
    self, Case, Front, Pools, buckets, conditions, copies, keys, listing, objects, uploads, versions,
};
use benthic_core::{Stopwatch, Store, SystemClock};
use benthic_embedded::{MemStore, Options};
use benthic_s3::sal::Sal;
use benthic_s3::upstream::{self, Credentials};
use benthic_testkit::cluster::shared_conf;
use benthic_testkit::wait;
use futures::executor::block_on;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;

/// A running radosgw. Dropping it stops the process and removes its pools.
struct Radosgw {
    far: Far,
    process: Child,
    _home: TempDir,
}

fn run(program: &str, args: &[&str]) -> String {
    let done = Command::new(program).args(args).env("CEPH_CONF", shared_conf()).output().unwrap();
    assert!(done.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8_lossy(&done.stdout).into_owned()
}

impl Radosgw {
    fn start() -> Radosgw {
        let home = tempfile::Builder::new().prefix("benthic-s3").tempdir().unwrap();
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        let mut command = Command::new("radosgw");
        command.args(["-f", "-n", "client.admin", "--rgw-thread-pool-size=16"]);
        command.arg(format!("--rgw-frontends=beast endpoint={address}")).arg("--rgw-data").arg(home.path());
        command.arg("--log-file").arg(home.path().join("log")).env("CEPH_CONF", shared_conf());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let process = command.spawn().expect("`make ceph` installs radosgw");
        let credentials =
            Credentials { access_key: "upstream".into(), secret_key: "secret".into(), session_token: None };
        let gateway = Radosgw { far: Far { address, credentials }, process, _home: home };
        let key = ["--access-key=upstream", "--secret-key=secret", "--max-buckets=0"];
        run(
            "radosgw-admin",
            &[&["user", "create", "--uid=upstream", "--display-name=Upstream"], &key[..]].concat(),
        );
        let begun = Stopwatch::start(&SystemClock);
        while RUNTIME.block_on(tokio::net::TcpStream::connect(&gateway.far.address)).is_err() {
            assert!(begun.elapsed() < Duration::from_secs(120), "radosgw did not come up");
            wait::pause(Duration::from_millis(200));
        }
        gateway
    }
}

impl Drop for Radosgw {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let pools = run("ceph", &["osd", "pool", "ls"]);
        for pool in pools.lines().filter(|pool| pool.starts_with(".rgw") || pool.starts_with("default.rgw")) {
            run("ceph", &["osd", "pool", "rm", pool, pool, "--yes-i-really-really-mean-it"]);
        }
    }
}

/// The gateway under test. Each case has buckets of its own.
struct Gateways {
    far: Far,
    prefix: String,
    caches: Mutex<Vec<TempDir>>,
}

impl Front for Gateways {
    fn open(&self, _far: &Arc<dyn Sal>, own: Arc<dyn Sal>) -> Arc<dyn Sal> {
        let cache = tempfile::Builder::new().prefix("benthic-s3").tempdir().unwrap();
        let options = self.far.options(&self.far.address, cache.path());
        self.caches.lock().unwrap().push(cache);
        far::open(own, upstream::Options { bucket_prefix: self.prefix.clone(), ..options })
    }

    fn prefix(&self) -> &str {
        &self.prefix
    }
}

type CaseFn = fn(&Case);

/// Cases that look at nothing but the driver. Of radosgw 16, they leave out keys with NUL, which it
/// refuses; lookups of delete markers, which it does not tell from missing keys; and an abort of an
/// upload that is completed at the same moment, which it may report as successful, too.
const CASES: &[(&str, CaseFn)] = &[
    ("created", buckets::a_bucket_is_created_once),
    ("changed", buckets::a_bucket_changes_by_compare_and_swap),
    ("usage", buckets::usage_is_exact),
    ("sizes", objects::data_of_every_size_are_read_back),
    ("ranges", objects::a_range_returns_exactly_its_bytes),
    ("long", objects::a_long_write_renews_its_lease),
    ("keys", keys::keys_have_limits),
    ("deletions", conditions::conditions_of_deletions_hold),
    ("markers", listing::a_listing_starts_after_its_marker),
    ("hidden", listing::delete_markers_are_not_listed_as_objects),
    ("uploads", listing::uploads_are_listed),
    ("concurrent", listing::concurrent_changes_do_not_disturb_a_listing),
    ("limits", listing::pages_have_limits),
    ("missing", versions::deleting_a_missing_version_succeeds),
    ("many", versions::each_of_many_deletions_has_its_own_result),
    ("parts", uploads::parts_are_listed_by_pages),
    ("copied", copies::copying_a_deleted_object_fails),
];

/// Needs more than a minute, so it runs only with BENTHIC_TEST_LONG.
#[test]
fn the_suite_holds_with_radosgw_as_the_upstream() {
    if std::env::var_os("BENTHIC_TEST_LONG").is_none() {
        return;
    }
    let gateway = Radosgw::start();
    let store = MemStore::new(Options::default().with_classes(benthic_classes::registry()));
    let pool = |name| {
        block_on(store.create_pool(name)).unwrap();
        block_on(store.open_pool(name)).unwrap()
    };
    let pools = Pools { index: pool("index"), data: pool("data"), cold: pool("cold"), store: store.clone() };
    let mut failed = Vec::new();
    for (name, case) in CASES {
        let front = Gateways {
            far: gateway.far.clone(),
            prefix: format!("{name}-{}-", std::process::id()),
            caches: Mutex::default(),
        };
        let case_of = || case(&sal::Case::behind(&pools, name, Box::new(front)));
        if std::panic::catch_unwind(std::panic::AssertUnwindSafe(case_of)).is_err() {
            failed.push(*name);
        }
    }
    assert_eq!(failed, Vec::<&str>::new());
}
