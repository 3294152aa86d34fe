//! The OSD is killed while clients deploy, roll back, remove and call WebAssembly classes. Every
//! acknowledged deployment stays callable, no record lacks its module, and no call returns the
//! answer of another version.
//!
//! Each version answers with its own number. Two deployers share a class, and each removes only its
//! own versions, so the versions that must exist at the end are known. No removed module is
//! deployed again, because of the known race in docs/design/0007.

use crate::support::{CLUSTER_DIR, ClusterCleanup, Home};
use benthic_core::{Error, ErrorKind, ObjectId, Pool, Result, Store, SystemClock};
use benthic_rados::{Options, RadosStore};
use benthic_testkit::random::Rng;
use benthic_testkit::{seed, wait};
use benthic_wasm::deployed::{self, Action, Actor, DeployedClass, Version};
use benthic_wasm::{Call, Limits, ModuleId, with_manifest};
use bytes::Bytes;
use futures::executor::block_on;
use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

const POOL: &str = "deployments";
const OBJECT: &str = "called";
const KILLS: usize = 4;
const DEPLOYERS: u32 = 6;
const CALLERS: u64 = 4;
/// A deployer with more versions removes one.
const KEPT_MAX: usize = 8;
/// The shortest time-out. Some outages are longer, so that clients see errors.
const TIMEOUT_MS: u64 = 3_000;
const ACTOR: Actor<'static> = Actor { name: "test", clock: &SystemClock };

fn class_name(deployer: u32) -> String {
    format!("answer{}", deployer / 2)
}

/// A module whose method `run` answers with a number.
fn module(class: &str, number: u32) -> Bytes {
    let answer: String = number.to_le_bytes().iter().map(|byte| format!("\\{byte:02x}")).collect();
    let wasm = wat::parse_str(format!(
        r#"(module (import "benthic_1" "output" (func $output (param i32 i32) (result i64)))
            (memory (export "memory") 1) (data (i32.const 0) "{answer}{}")
            (func (export "run") (result i32)
                (drop (call $output (i32.const 0) (i32.const 4))) i32.const 0))"#,
        "x".repeat(32 * 1024)
    ));
    let json =
        format!(r#"{{"class":"{class}","version":{number},"methods":[{{"method":"run","reads":true}}]}}"#);
    with_manifest(&wasm.unwrap(), json.as_bytes()).into()
}

/// Whether an error says that the store was not available for a time, so that the client may retry.
fn is_outage(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::OutcomeUnknown)
}

/// Calls a version, and returns its answer.
async fn call(pool: &dyn Pool, id: ModuleId, version: &Version) -> Result<u32> {
    let (method, input) = ("run".to_owned(), Bytes::new());
    let call = Call { module: id, limits: version.limits, method, input, attached: None };
    let object = ObjectId::new(OBJECT)?;
    let answer = benthic_wasm::exec(pool, &object, call, false, async || deployed::fetch(pool, id).await);
    Ok(u32::from_le_bytes((&answer.await?[..]).try_into().unwrap()))
}

#[derive(Default)]
struct Load {
    stop: AtomicBool,
    /// Acknowledged deployments of each deployer.
    deployments: [AtomicU64; DEPLOYERS as usize],
    calls: AtomicU64,
    outages: AtomicU64,
    /// Calls of versions that another client had removed.
    late_calls: AtomicU64,
}

impl Load {
    fn runs(&self) -> bool {
        !self.stop.load(Ordering::SeqCst)
    }

    /// Repeats a request until the store answers it.
    fn repeat<T>(&self, mut request: impl AsyncFnMut() -> Result<T>) -> Result<T> {
        loop {
            match block_on(request()) {
                Err(error) if is_outage(&error) => drop(self.outages.fetch_add(1, Ordering::SeqCst)),
                // Other deployers changed the records too often meanwhile.
                Err(error) if error.kind() == ErrorKind::Conflict => {}
                answer => return answer,
            }
        }
    }

    /// Deploys, selects and removes versions. Returns the numbers of those that must exist.
    fn deploy(&self, pool: &dyn Pool, deployer: u32, mut random: Rng) -> BTreeSet<u32> {
        let (class, mut kept) = (class_name(deployer), BTreeSet::new());
        for number in (deployer * 100_000).. {
            if !self.runs() {
                break;
            }
            let wasm = module(&class, number);
            let request = async || deployed::deploy(pool, wasm.clone(), Limits::default(), ACTOR).await;
            let found = self.repeat(request).unwrap();
            let is_listed =
                |found: &DeployedClass| found.versions.iter().any(|(_, v)| v.manifest.version == number);
            assert!(is_listed(&found), "{number}: {found:?}");
            kept.insert(number);
            self.deployments[deployer as usize].fetch_add(1, Ordering::SeqCst);

            let mut any = |kept: &BTreeSet<u32>| *kept.iter().nth(random.below(kept.len())).unwrap();
            let id = |number| ModuleId::of(&module(&class, number));
            if number % 3 == 0 {
                let selected = id(any(&kept));
                self.repeat(async || deployed::select(pool, &class, selected, ACTOR).await).unwrap();
            }
            while kept.len() > KEPT_MAX {
                let removed = any(&kept);
                let request = async || deployed::undeploy(pool, &class, Some(id(removed)), ACTOR).await;
                match self.repeat(request) {
                    // Calls use it.
                    Err(error) if error.kind() == ErrorKind::Busy => continue,
                    // An attempt without an answer removed it.
                    Err(error) if error.kind() == ErrorKind::NotFound => {}
                    removed => drop(removed.unwrap()),
                }
                kept.remove(&removed);
            }
        }
        kept
    }

    /// Calls versions, in half of the cases the one that calls use.
    fn call(&self, pool: &dyn Pool, mut random: Rng) {
        while self.runs() {
            let name = class_name(random.below(DEPLOYERS as usize) as u32);
            let Some(class) = self.repeat(async || deployed::find(pool, &name).await).unwrap() else {
                continue;
            };
            let (id, version) = match random.one_in(2) {
                true => (class.current, class.version().unwrap()),
                false => {
                    let (id, version) = &class.versions[random.below(class.versions.len())];
                    (*id, version)
                }
            };
            // An OSD that has the module in its cache does not need the stored one.
            let answer = async || {
                let module = deployed::fetch(pool, id).await?;
                assert_eq!(ModuleId::of(&module), id);
                call(pool, id, version).await
            };
            match block_on(answer()) {
                Ok(answer) => {
                    assert_eq!(answer, version.manifest.version, "{name}");
                    self.calls.fetch_add(1, Ordering::SeqCst);
                }
                Err(error) if is_outage(&error) => drop(self.outages.fetch_add(1, Ordering::SeqCst)),
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    let now = self.repeat(async || deployed::get(pool, &name).await).unwrap();
                    assert!(
                        now.versions.iter().all(|(known, _)| *known != id),
                        "{name} {id} lacks its module"
                    );
                    self.late_calls.fetch_add(1, Ordering::SeqCst);
                }
                Err(error) => panic!("call of {name} {id}: {error}"),
            }
        }
    }

    /// Waits until every deployer has deployed twice: the first deployment may have been over
    /// already.
    fn wait_for_deployments(&self) {
        let counts = || self.deployments.each_ref().map(|count| count.load(Ordering::SeqCst));
        let before = counts();
        wait::until("deployments", || {
            !self.runs() || counts().iter().zip(before).all(|(now, then)| *now >= then + 2)
        });
    }
}

/// Stops the load when dropped, so that the test ends if any of its threads fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Checks the deployed versions with a client that has not been there before.
async fn check(pool: &dyn Pool, kept: &[BTreeSet<u32>]) {
    let mut expected: BTreeSet<u32> = kept.iter().flatten().copied().collect();
    for class in deployed::list(pool).await.unwrap() {
        assert!(class.version().is_some(), "{}", class.name);
        for (id, version) in &class.versions {
            let number = version.manifest.version;
            assert_eq!(class.name, class_name(number / 100_000));
            assert!(expected.remove(&number), "{number} was removed");
            assert_eq!(deployed::fetch(pool, *id).await.unwrap(), module(&class.name, number));
            assert_eq!(call(pool, *id, version).await.unwrap(), number);
        }
    }
    assert_eq!(expected, BTreeSet::new(), "acknowledged and not listed");
}

#[test]
fn no_acknowledged_deployment_is_lost_when_the_osd_is_killed() {
    let home = Home::bare();
    let _removed = ClusterCleanup(&home, &[CLUSTER_DIR]);
    home.ok(&["cluster", "up", "--osds", "1"]);
    home.ok(&["cluster", "status"]);
    let library = Path::new(env!("CARGO_BIN_EXE_benthic")).with_file_name("libcls_wasm_1.so");
    home.ok(&["class", "install", library.to_str().unwrap(), "--cluster"]);
    let connect = |timeout_ms| {
        let options = Options {
            osd_timeout_ms: timeout_ms,
            call_timeout_ms: timeout_ms.min(10_000),
            pool_pgs: 8,
            ..Options::default()
        };
        let conf = home.path(CLUSTER_DIR).join("ceph.conf");
        RadosStore::connect(Some(&conf), None, options).unwrap()
    };
    let patient = connect(60_000);
    block_on(patient.create_pool(POOL)).unwrap();
    let open = |store: &RadosStore| -> Arc<dyn Pool> { block_on(store.open_pool(POOL)).unwrap() };
    let pool = open(&patient);
    block_on(pool.write_full(&ObjectId::new(OBJECT).unwrap(), "data")).unwrap();
    let hasty = open(&connect(TIMEOUT_MS));

    let (load, mut random) = (Load::default(), Rng(seed::one()));
    let kept = thread::scope(|scope| {
        let stop = Stop(&load.stop);
        let (load, pool, hasty) = (&load, &pool, &hasty);
        let deployers: Vec<_> = (0..DEPLOYERS)
            .map(|deployer| {
                let (pool, random) = (if deployer % 2 == 0 { pool } else { hasty }, Rng(random.number()));
                scope.spawn(move || {
                    let _stop = Stop(&load.stop);
                    load.deploy(&**pool, deployer, random)
                })
            })
            .collect();
        for caller in 0..CALLERS {
            let (pool, random) = (if caller % 2 == 0 { pool } else { hasty }, Rng(random.number()));
            scope.spawn(move || {
                let _stop = Stop(&load.stop);
                load.call(&**pool, random);
            });
        }
        load.wait_for_deployments();
        for _ in 0..KILLS {
            if !load.runs() {
                break;
            }
            wait::pause(Duration::from_millis(random.below(500) as u64));
            home.ok(&["cluster", "kill", "osd.0"]);
            wait::pause(Duration::from_millis(random.below(1_500) as u64));
            home.ok(&["cluster", "start", "osd.0"]);
            load.wait_for_deployments();
        }
        drop(stop);
        deployers.into_iter().map(|deployer| deployer.join().unwrap()).collect::<Vec<_>>()
    });
    let deployments: u64 = load.deployments.iter().map(|count| count.load(Ordering::SeqCst)).sum();
    let [calls, outages, late] =
        [&load.calls, &load.outages, &load.late_calls].map(|count| count.load(Ordering::SeqCst));
    let report =
        format!("{deployments} deployments, {calls} calls, {late} of removed versions, {outages} errors");
    let _ = writeln!(std::io::stderr(), "{report}");
    assert!(deployments > 50 && calls > 200, "{report}");

    let pool = open(&connect(60_000));
    block_on(check(&*pool, &kept));
    let audit = block_on(deployed::audit(&*pool)).unwrap();
    let deployed = audit.iter().filter(|change| change.action == Action::Deploy);
    assert!(deployed.count() > 0, "the audit log can be read");
}
