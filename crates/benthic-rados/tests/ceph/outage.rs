//! A cluster that is full, lacks the classes, or has stopped daemons: every call ends in time with
//! the right error kind.
//!
//! These tests damage the cluster, so they start one of their own and always remove it at the end.

use crate::support::{block_on, ceph_of, id, kind, options};
use benthic_ceph::local::{Cluster, Daemon};
use benthic_core::{ClassCall, ErrorKind, ListRequest, Pool, Stopwatch, Store, SystemClock, WriteOp};
use benthic_rados::{Options, RadosStore};
use benthic_testkit::wait;
use futures::FutureExt;
use std::fmt::Debug;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

const TIMEOUT_MS: u64 = 2_000;
/// Limit for a call that waits for one time-out, on a busy machine.
const SOON: Duration = Duration::from_secs(8);

const LOG_LINES_PRINTED: usize = 60;

const CHILD_CONF: &str = "BENTHIC_TEST_CHILD_CONF";
const CONNECTED: &str = "the child is connected";

struct Own {
    /// `drop` takes the cluster to remove it.
    cluster: Option<Cluster>,
    conf: PathBuf,
}

impl Own {
    fn up() -> Own {
        // The path is short because the path of a Unix socket has a length limit.
        let dir = std::env::temp_dir().join(format!("benthic-outage-{}", std::process::id()));
        let conf = dir.join("ceph.conf");
        match Cluster::up(&dir, Some(1), &mut |_| Ok(())) {
            Ok((cluster, _)) => Own { cluster: Some(cluster), conf },
            Err(error) => {
                drop(Own { cluster: Cluster::open(&dir).ok(), conf });
                panic!("{error}");
            }
        }
    }

    fn cluster(&self) -> &Cluster {
        self.cluster.as_ref().unwrap()
    }

    fn connect(&self) -> benthic_core::Result<Arc<RadosStore>> {
        connect_to(&self.conf)
    }

    fn ceph(&self, words: &[&str]) {
        ceph_of(&self.conf, words);
    }

    /// Sends SIGSTOP to a daemon. Dropping the guard resumes it.
    fn stop(&self, daemon: Daemon) -> Stopped {
        let status = self.cluster().status().unwrap();
        let found = status.daemons.iter().find(|found| found.name == daemon.to_string()).unwrap();
        let stopped = Stopped { pid: found.pid.unwrap() };
        stopped.signal("-STOP");
        // On a busy machine, threads go on for a while and still answer.
        eventually("a stopped daemon", || stopped.has_stopped().then_some(()).ok_or("a thread runs"));
        stopped
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        if std::thread::panicking() {
            print_logs(self.conf.with_file_name("log").as_path());
        }
        let removed = self.cluster.take().map(|cluster| cluster.remove(&mut |_| Ok(())));
        assert!(std::thread::panicking() || removed.is_some_and(|removed| removed.is_ok()), "left behind");
    }
}

/// Prints the end of every log, because the logs are removed with the cluster.
#[expect(clippy::print_stderr, reason = "a test has no other way to show them")]
fn print_logs(dir: &Path) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let text = std::fs::read(entry.path()).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<_> = text.lines().collect();
        let end = lines[lines.len().saturating_sub(LOG_LINES_PRINTED)..].join("\n");
        eprintln!("the end of {}:\n{end}", entry.path().display());
    }
}

struct Stopped {
    pid: u32,
}

impl Stopped {
    fn signal(&self, signal: &str) {
        let status = Command::new("kill").args([signal, &self.pid.to_string()]).status().unwrap();
        assert!(status.success(), "kill {signal}");
    }

    /// Whether all threads have stopped.
    fn has_stopped(&self) -> bool {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.pid)).unwrap();
        threads.flatten().all(|thread| {
            // The state follows the name, which is in parentheses.
            let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
            stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T'))
        })
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        self.signal("-CONT");
    }
}

fn connect_to(conf: &Path) -> benthic_core::Result<Arc<RadosStore>> {
    let options = Options { osd_timeout_ms: TIMEOUT_MS, mon_timeout_ms: TIMEOUT_MS, ..options() };
    RadosStore::connect(Some(conf), None, options)
}

/// A child process that runs [`a_process_with_a_stuck_thread_ends`].
struct Child {
    process: std::process::Child,
    /// Must stay open while the child may print.
    out: BufReader<ChildStdout>,
}

impl Child {
    /// Returns once the child is connected.
    fn start(conf: &Path) -> Child {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["outage::a_process_with_a_stuck_thread_ends", "--exact", "--ignored", "--nocapture"]);
        command.env(CHILD_CONF, conf).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let out = BufReader::new(process.stdout.take().unwrap());
        let mut child = Child { process, out };
        let connected = child.out.by_ref().lines().any(|line| line.unwrap().contains(CONNECTED));
        assert!(connected, "the child did not connect");
        child
    }

    /// Lets the child continue and waits for its end.
    fn end(&mut self) {
        drop(self.process.stdin.take());
        eventually("the child's end", || self.process.try_wait().unwrap().map(|_| ()).ok_or("it runs"));
        let status = self.process.wait().unwrap();
        let mut said = String::new();
        self.out.read_to_string(&mut said).unwrap();
        assert!(status.success(), "{status}: {said}");
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // The kill fails if the child has already ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
#[ignore = "runs as a child of the other test, which stops the monitor meanwhile"]
fn a_process_with_a_stuck_thread_ends() {
    let conf = PathBuf::from(std::env::var_os(CHILD_CONF).unwrap());
    let store = connect_to(&conf).unwrap();
    std::io::stdout().write_all(format!("{CONNECTED}\n").as_bytes()).unwrap();
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
    fails("open pool", ErrorKind::Unavailable, || block_on(store.open_pool("unknown")).map(|_| ()));
}

/// Runs a call that must fail within [`SOON`].
fn fails<T: Debug>(
    what: &str,
    expected: ErrorKind,
    call: impl FnOnce() -> benthic_core::Result<T>,
) -> String {
    let started = Stopwatch::start(&SystemClock);
    let error = call().err().unwrap_or_else(|| panic!("{what} succeeded"));
    assert_eq!(error.kind(), expected, "{what}: {error}");
    assert!(started.elapsed() < SOON, "{what} took {:?}", started.elapsed());
    error.to_string()
}

/// Repeats a check until it returns `Ok`.
fn eventually<E: Debug>(what: &str, mut check: impl FnMut() -> std::result::Result<(), E>) {
    let started = Stopwatch::start(&SystemClock);
    while let Err(last) = check() {
        assert!(started.elapsed() < Duration::from_secs(90), "{what} never happened: {last:?}");
        wait::pause(Duration::from_millis(200));
    }
}

#[test]
fn every_call_ends_in_any_state_of_the_cluster() {
    let own = Own::up();
    // An OSD that was stopped for longer than its lease, 16 s, counts as laggy and delays writes,
    // once for minutes. With this ratio, the lease is ten minutes.
    own.ceph(&["config", "set", "osd", "osd_pool_default_read_lease_ratio", "30"]);
    // Creating a pool may take longer than the time-out of the other connections.
    let patient = RadosStore::connect(Some(&own.conf), None, options()).unwrap();
    for pool in ["p", "doomed"] {
        // librados repeats a request whose reply it lost, and the monitors then say that the pool
        // exists.
        match block_on(patient.create_pool(pool)) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            created => created.unwrap(),
        }
    }
    let store = own.connect().unwrap();
    let pool = block_on(store.open_pool("p")).unwrap();
    block_on(pool.write_full(&id("o"), "data")).unwrap();

    classes_that_are_not_installed_are_unsupported(&*pool);
    a_full_cluster_refuses_writes_and_takes_removals(&own, &*pool);
    stopped_osds_time_out(&own, &*pool);
    operations_over_the_limits_wait_without_a_thread(&own, &patient);
    a_stopped_monitor_times_out(&own, &store, &*pool);
    a_killed_monitor_times_out(&own, &store, &*pool);
}

fn classes_that_are_not_installed_are_unsupported(pool: &dyn Pool) {
    let call = |class: &str| ClassCall { class: class.into(), method: "say".into(), input: "".into() };
    // The error is the same for a missing object.
    for object in ["o", "none"] {
        let said = fails("exec", ErrorKind::Unsupported, || block_on(pool.exec(&id(object), call("hello"))));
        assert!(said.contains("benthic class install"), "{said}");
        let op = WriteOp::new().exec("hello", "record", "");
        let said = fails("write", ErrorKind::Unsupported, || block_on(pool.write(&id(object), op)));
        assert!(said.contains("benthic class install") && said.contains("class=hello"), "{said}");
    }
    let said = fails("exec", ErrorKind::Unsupported, || block_on(pool.exec(&id("o"), call("strange"))));
    assert!(said.contains("osd_class_dir"), "{said}");
}

fn a_full_cluster_refuses_writes_and_takes_removals(own: &Own, pool: &dyn Pool) {
    block_on(pool.write_full(&id("a"), "x")).unwrap();
    let ratios = |nearfull: &str, backfillfull: &str, full: &str| {
        own.ceph(&["osd", "set-nearfull-ratio", nearfull]);
        own.ceph(&["osd", "set-backfillfull-ratio", backfillfull]);
        own.ceph(&["osd", "set-full-ratio", full]);
    };
    ratios("0.0001", "0.0002", "0.0003");
    // A full cluster accepts writes that do not grow an object, so each round writes a new object.
    let mut said = None;
    let mut round = 0;
    eventually("a full cluster", || {
        round += 1;
        let written = block_on(pool.write(&id(&round.to_string()), WriteOp::new().write_full("x")));
        said = written.err();
        said.is_some().then_some(()).ok_or("a write succeeds")
    });
    let said = said.unwrap();
    assert_eq!(said.kind(), ErrorKind::LimitExceeded, "{said}");
    assert!(said.to_string().contains("the cluster is full"), "{said}");
    block_on(pool.remove(&id("a"))).unwrap();
    assert_eq!(kind(block_on(pool.stat(&id("a")))), Some(ErrorKind::NotFound));
    assert_eq!(block_on(pool.read_range(&id("o"), 0, 9)).unwrap(), "data");
    ratios("0.85", "0.9", "0.95");
    eventually("room", || block_on(pool.write_full(&id("room"), "y")).map(|_| ()));
}

fn stopped_osds_time_out(own: &Own, pool: &dyn Pool) {
    let stopped = own.stop(Daemon::Osd(0));
    fails("read", ErrorKind::Unavailable, || block_on(pool.read_range(&id("o"), 0, 9)));
    fails("write", ErrorKind::OutcomeUnknown, || block_on(pool.write_full(&id("late"), "x")));
    fails("list", ErrorKind::Unavailable, || block_on(pool.list(ListRequest::default())));
    drop(stopped);
    eventually("a reading OSD", || {
        block_on(pool.read_range(&id("o"), 0, 9)).map(|data| assert_eq!(data, "data"))
    });
}

/// Uses the connection `patient`, whose time-out no operation reaches.
fn operations_over_the_limits_wait_without_a_thread(own: &Own, patient: &RadosStore) {
    let pool = block_on(patient.open_pool("p")).unwrap();
    let (o, sent, unsent) = (id("o"), id("sent"), id("unsent"));
    let stopped = own.stop(Daemon::Osd(0));
    let sends = |mut read: futures::future::BoxFuture<'static, _>| {
        assert!((&mut read).now_or_never().is_none(), "a stopped OSD answers");
        read
    };
    let read = |len_bytes: u64| {
        let (pool, o) = (Arc::clone(&pool), o.clone());
        sends(async move { pool.read_range(&o, 0, len_bytes).await }.boxed())
    };
    // At 1,024 operations or 100 MiB librados itself would block this thread until the first
    // operation times out.
    let mut reads: Vec<_> = (0..2_000).map(|_| read(9)).collect();
    reads.extend((0..7).map(|_| read(32 << 20)));
    assert!(pool.write_full(&sent, "x").now_or_never().is_none());
    // This read exceeds the engine's own limit of 256 MiB, so it queues. Later operations do not
    // overtake it.
    reads.push(read(32 << 20));
    assert!(pool.write_full(&unsent, "x").now_or_never().is_none());
    assert!((&mut reads[0]).now_or_never().is_none(), "sending blocked until a time-out");
    drop(stopped);
    let read = block_on(futures::future::try_join_all(reads)).unwrap();
    assert!(read.iter().all(|data| data == "data"));
    // Both futures were dropped. The OSD processes operations on one object in order, so the write
    // that was sent is complete by now.
    block_on(pool.stat(&sent)).unwrap();
    assert_eq!(kind(block_on(pool.stat(&unsent))), Some(ErrorKind::NotFound));
}

fn a_stopped_monitor_times_out(own: &Own, store: &Arc<RadosStore>, pool: &dyn Pool) {
    let stopped = own.stop(Daemon::Mon);
    // Calls that need no monitor succeed.
    block_on(pool.write_full(&id("o"), "data")).unwrap();
    let known = block_on(store.open_pool("p")).unwrap();
    assert_eq!(block_on(known.read_range(&id("o"), 0, 9)).unwrap(), "data");

    fails("connect", ErrorKind::Unavailable, || own.connect().map(|_| ()));
    // The engine first looks up the pool, so it sent no removal.
    fails("remove pool", ErrorKind::Unavailable, || block_on(store.remove_pool("doomed")));
    fails("list pools", ErrorKind::Unavailable, || block_on(store.list_pools()));
    fails("create pool", ErrorKind::Unavailable, || block_on(store.create_pool("new")));
    // More calls than there are threads: none hangs, and the last ones fail without waiting.
    let opened = (0..20).map(|index| {
        let store = Arc::clone(store);
        async move { store.open_pool(&format!("unknown-{index}")).await.map(|_| ()) }
    });
    let opened = {
        let started = Stopwatch::start(&SystemClock);
        let opened = block_on(futures::future::join_all(opened));
        assert!(started.elapsed() < SOON, "{:?}", started.elapsed());
        opened
    };
    assert!(opened.into_iter().all(|opened| kind(opened) == Some(ErrorKind::Unavailable)));
    let said = fails("open pool", ErrorKind::Unavailable, || block_on(store.open_pool("other")).map(|_| ()));
    assert!(said.contains("all threads wait") && said.contains("pool=other"), "{said}");
    block_on(pool.write_full(&id("o"), "data")).unwrap();

    // A store with stuck threads closes at once, and its process ends.
    drop(stopped);
    let second = own.connect().unwrap();
    let mut child = Child::start(&own.conf);
    let stopped = own.stop(Daemon::Mon);
    fails("open pool", ErrorKind::Unavailable, || block_on(second.open_pool("unknown")).map(|_| ()));
    let started = Stopwatch::start(&SystemClock);
    drop(second);
    child.end();
    assert!(started.elapsed() < SOON, "{:?}", started.elapsed());
    drop(stopped);
    // The store itself works again.
    eventually("a store that works again", || match kind(block_on(store.create_pool("again"))) {
        None | Some(ErrorKind::AlreadyExists) => Ok(()),
        Some(other) => {
            assert!(matches!(other, ErrorKind::Unavailable | ErrorKind::OutcomeUnknown), "{other:?}");
            Err(other)
        }
    });
    assert!(block_on(store.list_pools()).unwrap().contains(&"again".to_owned()));
}

fn a_killed_monitor_times_out(own: &Own, store: &Arc<RadosStore>, pool: &dyn Pool) {
    own.cluster().kill(Daemon::Mon, &mut |_| Ok(())).unwrap();
    fails("connect", ErrorKind::Unavailable, || own.connect().map(|_| ()));
    fails("list pools", ErrorKind::Unavailable, || block_on(store.list_pools()));
    fails("open pool", ErrorKind::Unavailable, || block_on(store.open_pool("unknown")).map(|_| ()));
    fails("remove pool", ErrorKind::Unavailable, || block_on(store.remove_pool("again")));
    // Calls that need no monitor succeed.
    assert_eq!(block_on(pool.read_range(&id("o"), 0, 9)).unwrap(), "data");
    own.cluster().start(Daemon::Mon, &mut |_| Ok(())).unwrap();
    eventually("a monitor that serves", || block_on(store.list_pools()).map(|_| ()));
}
