//! OSDs die and sites are cut off while clients write. No acknowledged write is lost, and no read
//! returns wrong data.
//!
//! Every object has one writer, which numbers its versions and records each acknowledgement. The
//! number determines a version's content. A reader can therefore detect a wrong byte, a torn
//! version, and a version older than the last one acknowledged before the read began.

use crate::support::{CLUSTER_DIR, ClusterCleanup, Home, printed, status};
use benthic_core::{ErrorKind, Fetch, ObjectId, Pool, Stopwatch, Store, SystemClock, WriteOp};
use benthic_rados::{Options, RadosStore};
use benthic_testkit::random::Rng;
use benthic_testkit::{seed, wait};
use bytes::Bytes;
use futures::executor::block_on;
use serde_json::Value;
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

const WRITERS: usize = 8;
const READERS: usize = 3;
const OBJECTS_PER_WRITER: usize = 8;
const VERSION_BYTES_MAX: u64 = 128 * 1024;
/// Time that the load continues after each event.
const CALM: Duration = Duration::from_secs(4);
/// The pause of a client after an operation, which leaves the machine to the tests beside this one.
const PAUSE: Duration = Duration::from_millis(15);
/// Limit for any operation. The monitors declare an OSD dead after 20 s without an answer.
const STALL_MAX: Duration = Duration::from_secs(60);

/// The versions of one object of the load.
#[derive(Default)]
struct Track {
    /// The version in flight, or the last one written.
    issued: AtomicU64,
    /// The last acknowledged version.
    acknowledged: AtomicU64,
}

/// Statistics since an event.
#[derive(Clone, Default)]
struct Phase {
    name: String,
    writes: u64,
    reads: u64,
    longest_write: Duration,
    longest_read: Duration,
}

struct Load {
    pool: Arc<dyn Pool>,
    tracks: Vec<Track>,
    stop: AtomicBool,
    phases: Mutex<Vec<Phase>>,
}

fn object(index: usize) -> ObjectId {
    ObjectId::new(format!("load/{index}")).unwrap()
}

/// The content of a version.
fn content(index: usize, version: u64) -> Bytes {
    let mut random = Rng((index as u64) << 32 | version);
    let words = 1 + random.below(VERSION_BYTES_MAX as usize / 8);
    random.bytes(8 * words).into()
}

impl Load {
    fn write(&self, index: usize) {
        let track = &self.tracks[index];
        let version = track.issued.load(Ordering::SeqCst) + 1;
        track.issued.store(version, Ordering::SeqCst);
        let op = WriteOp::new().write_full(content(index, version)).set_xattr("version", version.to_string());
        let began = Stopwatch::start(&SystemClock);
        let result = block_on(self.pool.write(&object(index), op));
        match result {
            Ok(_) => track.acknowledged.store(version, Ordering::SeqCst),
            // The write may or may not have taken effect. A reader may see either version, and the
            // next write replaces both.
            Err(error) if error.kind() == ErrorKind::OutcomeUnknown => {}
            Err(error) => panic!("write of {index}, version {version}: {error}"),
        }
        let took = began.elapsed();
        self.note(|phase| {
            phase.writes += 1;
            phase.longest_write = phase.longest_write.max(took);
        });
    }

    /// Reads an object. Its version must lie between the last one acknowledged before the read and
    /// the last one issued after it.
    fn read(&self, index: usize) {
        let track = &self.tracks[index];
        let oldest = track.acknowledged.load(Ordering::SeqCst);
        let began = Stopwatch::start(&SystemClock);
        let whole = Fetch::read(0, VERSION_BYTES_MAX + 8).and(Fetch::get_xattr("version"));
        let ((data, version), _) = match block_on(self.pool.fetch(&object(index), whole)) {
            Ok(found) => found,
            Err(error) if error.kind() == ErrorKind::NotFound && oldest == 0 => return,
            Err(error) => panic!("read of {index}, at least version {oldest}: {error}"),
        };
        let newest = track.issued.load(Ordering::SeqCst);
        let version: u64 = std::str::from_utf8(&version).unwrap().parse().unwrap();
        assert!((oldest..=newest).contains(&version), "{index}: {version} is not in {oldest}..={newest}");
        assert!(data == content(index, version), "{index}: wrong bytes in version {version}");
        let took = began.elapsed();
        self.note(|phase| {
            phase.reads += 1;
            phase.longest_read = phase.longest_read.max(took);
        });
    }

    fn note(&self, add: impl FnOnce(&mut Phase)) {
        add(self.phases.lock().unwrap().last_mut().unwrap());
    }

    fn pause() {
        if !seed::is_long() {
            wait::pause(PAUSE);
        }
    }

    fn begin(&self, name: &str) {
        self.phases.lock().unwrap().push(Phase { name: name.to_owned(), ..Phase::default() });
    }

    fn writes(&self) -> u64 {
        self.phases.lock().unwrap().iter().map(|phase| phase.writes).sum()
    }

    /// Waits until every writer has completed a write, which proves that no stall remains.
    fn wait_for_progress(&self) {
        let issued = || -> Vec<u64> {
            let of_writer =
                |writer: &[Track]| writer.iter().map(|track| track.issued.load(Ordering::SeqCst)).sum();
            self.tracks.chunks(OBJECTS_PER_WRITER).map(of_writer).collect()
        };
        // Two writes, because the first may have been sent before the event.
        let (before, began) = (issued(), Stopwatch::start(&SystemClock));
        while issued().iter().zip(&before).any(|(now, before)| *now < before + 2) {
            assert!(began.elapsed() < STALL_MAX, "writers stalled for longer than {STALL_MAX:?}");
            wait::pause(Duration::from_millis(50));
        }
    }

    /// A table of the longest wait after each event.
    fn report(&self) -> String {
        let mut table = format!(
            "{:<28}{:>9}{:>9}{:>18}{:>18}\n",
            "after", "writes", "reads", "longest write, s", "longest read, s"
        );
        for phase in self.phases.lock().unwrap().iter() {
            let (write, read) = (phase.longest_write.as_secs_f64(), phase.longest_read.as_secs_f64());
            writeln!(
                table,
                "{:<28}{:>9}{:>9}{write:>18.2}{read:>18.2}",
                phase.name, phase.writes, phase.reads
            )
            .unwrap();
        }
        table
    }
}

/// Stops the load when dropped, so that the test ends even if an event fails it.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

struct Cluster<'a>(&'a Home);

impl Cluster<'_> {
    fn ceph(&self, args: &[&str]) -> String {
        let conf = self.0.path("benthic-cluster/ceph.conf");
        printed(&Command::new(args[0]).args(&args[1..]).env("CEPH_CONF", conf).output().unwrap(), args)
    }

    fn ceph_json(&self, args: &[&str]) -> Value {
        serde_json::from_str(&self.ceph(&[args, &["--format=json"]].concat())).unwrap()
    }

    fn wait_healthy(&self) {
        wait::until("HEALTH_OK", || status(self.0)["health"] == "HEALTH_OK");
    }

    /// Deep-scrubs a pool, which compares all replicas byte by byte, and returns the
    /// inconsistencies.
    fn deep_scrub(&self, pool: &str) -> Vec<Value> {
        let groups = || -> Vec<(String, String)> {
            let list = self.ceph_json(&["ceph", "pg", "ls-by-pool", pool]);
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            let groups = list["pg_stats"].as_array().unwrap().iter();
            groups.map(|group| (text(&group["pgid"]), text(&group["last_deep_scrub_stamp"]))).collect()
        };
        let before = groups();
        let began = Stopwatch::start(&SystemClock);
        loop {
            let left: Vec<_> =
                groups().into_iter().zip(&before).filter(|(now, before)| now == *before).collect();
            if left.is_empty() {
                break;
            }
            assert!(began.elapsed() < Duration::from_secs(180), "{left:?}");
            // An OSD may drop a scrub request while its peers come back, so the test repeats it.
            left.iter().for_each(|((group, _), _)| drop(self.ceph(&["ceph", "pg", "deep-scrub", group])));
            wait::pause(Duration::from_secs(10));
        }
        let inconsistent = |(group, _): &(String, String)| {
            let found = self.ceph_json(&["rados", "list-inconsistent-obj", group]);
            found["inconsistents"].as_array().unwrap().clone()
        };
        before.iter().flat_map(inconsistent).collect()
    }
}

#[test]
fn no_acknowledged_write_is_lost_when_osds_die_and_sites_are_cut() {
    let home = Home::bare();
    let _removed = ClusterCleanup(&home, &[CLUSTER_DIR]);
    let cluster = Cluster(&home);
    home.ok(&["cluster", "up", "--sites", "um,msu,wsu", "--rtt-ms", "1", "--osds", "3"]);
    let options = Options { pool_pgs: 8, ..Options::default() };
    let store = RadosStore::connect(Some(&home.path("benthic-cluster/ceph.conf")), None, options).unwrap();
    block_on(store.create_pool("load")).unwrap();
    let tracks = (0..WRITERS * OBJECTS_PER_WRITER).map(|_| Track::default()).collect();
    let pool = block_on(store.open_pool("load")).unwrap();
    let load = Load { pool, tracks, stop: AtomicBool::new(false), phases: Mutex::default() };
    load.begin("the start");

    thread::scope(|scope| {
        let _stop = Stop(&load.stop);
        let load = &load;
        for writer in 0..WRITERS {
            scope.spawn(move || {
                let objects = writer * OBJECTS_PER_WRITER..(writer + 1) * OBJECTS_PER_WRITER;
                for index in objects.cycle() {
                    if load.stop.load(Ordering::SeqCst) {
                        break;
                    }
                    load.write(index);
                    Load::pause();
                }
            });
        }
        for reader in 0..READERS {
            scope.spawn(move || {
                let mut index = reader;
                while !load.stop.load(Ordering::SeqCst) {
                    // Coprime to the number of objects, so every object is read.
                    index = (index + 37) % load.tracks.len();
                    load.read(index);
                    Load::pause();
                }
            });
        }
        let events: [&[&str]; 7] = [
            &["kill", "osd.0"],
            &["start", "osd.0"],
            &["kill", "osd.1"],
            &["start", "osd.1"],
            &["cut", "wsu"],
            &["heal", "wsu"],
            &["kill", "osd.2"],
        ];
        wait::pause(CALM);
        for event in events {
            if event[0] == "kill" || event[0] == "cut" {
                // Writes need two of the three replicas.
                cluster.wait_healthy();
            }
            load.begin(&event.join(" "));
            home.ok(&[&["cluster"], event].concat());
            load.wait_for_progress();
            wait::pause(CALM);
        }
        home.ok(&["cluster", "start", "osd.2"]);
    });
    let _ = writeln!(std::io::stderr(), "{}", load.report());
    assert!(load.writes() > 1_000, "the load was a load");

    cluster.wait_healthy();
    for (index, track) in load.tracks.iter().enumerate() {
        assert!(track.acknowledged.load(Ordering::SeqCst) > 0, "{index}");
        load.read(index);
    }
    assert_eq!(cluster.deep_scrub("load"), Vec::<Value>::new());
    assert_eq!(cluster.ceph_json(&["rados", "list-inconsistent-pg", "load"]), Value::Array(Vec::new()));
    cluster.wait_healthy();
}
