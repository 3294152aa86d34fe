//! Power cuts at every point of the work of the queue of pending changes: see
//! `benthic_testkit::power`.
//!
//! A child process makes changes while the upstream is unreachable, and sends them afterwards.
//! Every acknowledged change must be there after a cut, until it is sent; and a change that has
//! been sent may only come back together with the later ones of its key.

use super::far::{self, Far};
use super::proxy::Proxy;
use crate::sal::{data, finish, put, read};
use benthic_core::ErrorKind;
use benthic_s3::sal::{Buckets, Delete, NewBucket, Objects, Sal};
use benthic_s3::upstream::{self, UpstreamSal};
use benthic_testkit::power::{Call, Cut, Disk, Fault, FileTree, Record, Recorder, Sync, mark};
use benthic_testkit::random::Rng;
use futures::executor::block_on;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

const TASK_VARIABLE: &str = "BENTHIC_TEST_WRITE_BACK";
/// Of this many cuts, one is read back, because that takes the time of a gateway's start.
const READ_EVERY: usize = 25;
/// The changes, in order: the key, and the size of the new object, or `None` for a deletion.
const CHANGES: [(&str, Option<usize>); 8] = [
    ("a", Some(10)),
    ("b", Some(70_000)),
    ("a", Some(0)),
    ("large", Some((1 << 20) + 5)),
    ("b", None),
    ("a", Some(5_000)),
    ("c", None),
    ("b", Some(1)),
];

fn bytes(number: usize, size: usize) -> Vec<u8> {
    data(number as u64, size)
}

fn options(far: &Far, address: &str, cache: &Path) -> upstream::Options {
    upstream::Options { write_back: true, cache_bytes: 64 << 20, ..far.options(address, cache) }
}

fn new_bucket() -> NewBucket {
    NewBucket { name: "photos".into(), owner: "main".into(), ..NewBucket::default() }
}

#[test]
#[ignore = "the other tests start it"]
fn child() {
    std::env::var(TASK_VARIABLE).expect("the tests of power cuts start this test");
    let path = |name| PathBuf::from(std::env::var(name).unwrap());
    let (dir, marks) = (path("BENTHIC_POWER_DIR"), path("BENTHIC_POWER_MARKS"));
    let marks = OpenOptions::new().create(true).append(true).open(marks).unwrap();
    let far_sal = far::in_memory();
    let far = Far::serve(&far_sal);
    let line = Proxy::to(&far.address);
    block_on(far_sal.create_bucket(new_bucket())).unwrap();
    let sal = far::open(far::in_memory(), options(&far, &line.address, &dir));
    let bucket = block_on(sal.bucket("photos")).unwrap();
    line.set_up(false);
    mark(&marks, &format!("upstream http://{}/", line.address));
    for (number, (key, size)) in CHANGES.into_iter().enumerate() {
        let changed = match size {
            Some(size) => {
                let data = bytes(number, size);
                put(sal.as_ref(), &bucket, key, &data, finish(&data)).map(drop)
            }
            None => {
                let delete = Delete { key: key.into(), ..Delete::default() };
                block_on(sal.delete(&bucket, &delete)).map(drop)
            }
        };
        match changed {
            Ok(()) => mark(&marks, &format!("done {number}")),
            Err(error) => mark(&marks, &format!("failed {number} {}", error.kind())),
        }
    }
    mark(&marks, "sends");
    line.set_up(true);
    block_on(sal.drain_all()).unwrap();
    block_on(sal.stop());
}

/// The state that a cut at a point must keep.
struct Point {
    acknowledged: usize,
    sends: bool,
}

fn point_at(record: &Record, at: usize) -> Point {
    let marks = record.events[..at].iter().filter_map(|event| match &event.call {
        Call::Mark { text } => Some(text.as_str()),
        _ => None,
    });
    let mut point = Point { acknowledged: 0, sends: false };
    for text in marks {
        match text.split_once(' ') {
            Some(("done", number)) => point.acknowledged = number.trim().parse::<usize>().unwrap() + 1,
            _ if text.trim() == "sends" => point.sends = true,
            _ => {}
        }
    }
    point
}

/// The numbers of the changes whose files are in a tree.
fn pending(tree: &FileTree) -> BTreeSet<usize> {
    let number = |path: &String| {
        let name = path.strip_prefix("pending/").filter(|name| name.len() == 16)?;
        Some(usize::from_str_radix(name, 16).ok()? - 1)
    };
    tree.0.keys().filter_map(number).collect()
}

/// Checks a tree that a cut left. The error names the lost change.
fn check(tree: &FileTree, point: &Point) -> Result<(), String> {
    let found = pending(tree);
    let mut of_key: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (number, change) in CHANGES.iter().enumerate().take(point.acknowledged) {
        of_key.entry(change.0).or_default().push(number);
    }
    for (key, numbers) in of_key {
        let kept: Vec<usize> = numbers.iter().copied().filter(|number| found.contains(number)).collect();
        if !point.sends && kept != numbers {
            return Err(format!("acknowledged changes of {key} are lost: {numbers:?}, {kept:?}"));
        }
        if !numbers.ends_with(&kept) {
            return Err(format!("a change of {key} came back without the later ones: {kept:?}"));
        }
    }
    Ok(())
}

/// Opens a tree, and checks that readers see the last acknowledged change of each key, or one that
/// was not acknowledged yet.
fn check_reads(dir: &Path, origin: &str, point: &Point, own: &Arc<dyn Sal>) {
    let credentials =
        upstream::Credentials { access_key: "k".to_owned(), secret_key: "s".to_owned(), session_token: None };
    let endpoint = upstream::Endpoint::new(origin, far::REGION.to_owned(), credentials).unwrap();
    let options = upstream::Options {
        write_back: true,
        ..upstream::Options::new(endpoint, dir.to_path_buf(), 64 << 20)
    };
    let sal: Arc<UpstreamSal> = far::open(Arc::clone(own), options);
    let bucket = block_on(sal.bucket("photos")).unwrap();
    let last: BTreeMap<&str, usize> =
        (0..point.acknowledged).map(|number| (CHANGES[number].0, number)).collect();
    for (key, number) in last {
        let found = block_on(sal.object(&bucket, key, None));
        let later =
            CHANGES.iter().enumerate().skip(point.acknowledged).take(1).find(|(_, (of, _))| *of == key);
        let wanted = [Some(number), later.map(|(number, _)| number)];
        let is = |number: usize| match (&found, CHANGES[number].1) {
            (Ok(object), Some(size)) => read(sal.as_ref(), &bucket, object).unwrap() == bytes(number, size),
            (Err(error), None) => error.kind() == ErrorKind::NotFound,
            _ => false,
        };
        assert!(wanted.into_iter().flatten().any(is), "{key} {wanted:?}");
    }
    assert_eq!(sal.metrics().damaged_pending.load(std::sync::atomic::Ordering::Relaxed), 0);
    block_on(sal.stop());
}

fn record(folder: &Path) -> Record {
    let record = run(&Recorder::build(folder).unwrap(), &folder.join("cache"), None);
    assert!(record.status.success(), "{}", record.stderr);
    record
}

fn run(recorder: &Recorder, dir: &Path, fault: Option<Fault>) -> Record {
    std::fs::create_dir(dir).unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--ignored", "--exact", "upstream::power::child", "--nocapture", "--test-threads=1"]);
    command.env(TASK_VARIABLE, "1");
    recorder.run(command, dir, "child", fault).unwrap()
}

/// The texts of the marks up to a point.
fn marks(record: &Record, at: usize) -> Vec<&str> {
    let texts = record.events[..at].iter().filter_map(|event| match &event.call {
        Call::Mark { text } => Some(text.trim()),
        _ => None,
    });
    texts.collect()
}

/// The changes whose complete files are in a tree. Numbers do not identify them after a failure.
fn complete(tree: &FileTree) -> BTreeSet<usize> {
    let number = |content: &[u8]| {
        let text = String::from_utf8_lossy(content);
        (0..CHANGES.len()).find(|number| {
            let (key, size) = CHANGES[*number];
            text.contains(&format!("\"key\":\"{key}\",\"deletes\":{}", size.is_none()))
                && text.contains(&format!("\"size_bytes\":{},", size.unwrap_or(0)))
        })
    };
    let files =
        tree.0.iter().filter(|(path, _)| path.strip_prefix("pending/").is_some_and(|name| name.len() == 16));
    let files =
        files.filter_map(|(_, content)| content.as_deref().filter(|data| data.ends_with(b"BNTHWB01")));
    files.filter_map(number).collect()
}

/// Lets a sync fail. A change is acknowledged only if it is durable: the one whose sync failed is
/// not, and no cut loses another. Returns whether there was such a sync.
fn one_sync_fails(recorder: &Recorder, folder: &Path, fault: Fault) -> bool {
    let Fault { kind, nth, .. } = fault;
    let what = format!("kind={kind} nth={nth}");
    let record = run(recorder, &folder.join(format!("{kind}{nth}")), Some(fault));
    let failed_at = record.events.iter().position(|event| matches!(event.call, Call::Fault { .. }));
    let Some(failed_at) = failed_at else { return false };
    let before = marks(&record, failed_at);
    if !before.iter().any(|text| text.starts_with("upstream")) {
        // A gateway whose directory is not durable does not start.
        assert!(
            !record.status.success() && record.stderr.contains("cannot sync"),
            "{what} {}",
            record.stderr
        );
        return true;
    }
    assert!(record.status.success(), "{what} {}", record.stderr);
    let all = marks(&record, record.events.len());
    let failed: Vec<&str> = all.iter().filter_map(|text| text.strip_prefix("failed ")).collect();
    if before.contains(&"sends") {
        assert!(failed.is_empty(), "{what} {failed:?}");
    } else {
        let change = before.iter().filter(|text| text.starts_with("done")).count();
        let kind = if kind == 'd' { "outcome_unknown" } else { "internal" };
        assert_eq!(failed, [format!("{change} {kind}")], "{what}");
    }
    let mut disk = Disk::new(&record, &FileTree::default(), 1);
    let mut rng = Rng(nth.into());
    for at in failed_at..=record.events.len() {
        disk.advance(at);
        let marks = marks(&record, at);
        if marks.contains(&"sends") {
            break;
        }
        let done = marks.iter().filter_map(|text| text.strip_prefix("done ")?.parse().ok()).collect();
        let kept = complete(&disk.cut(Cut::Any, &mut rng));
        assert!(kept.is_superset(&done), "{what} at={at} {done:?} {kept:?}");
    }
    disk.advance(record.events.len());
    assert!(complete(&disk.live()).is_empty(), "{what}: all changes were sent");
    true
}

#[test]
fn a_change_whose_sync_fails_is_not_acknowledged() {
    const EIO: i32 = 5;
    let folder = tempfile::Builder::new().prefix("benthic-s3").tempdir().unwrap();
    let recorder = Recorder::build(folder.path()).unwrap();
    for kind in ['d', 's'] {
        let fails = |nth| one_sync_fails(&recorder, folder.path(), Fault { kind, nth, errno: EIO });
        if benthic_testkit::seed::is_long() {
            let count = (1..).take_while(|nth| fails(*nth)).count();
            assert!(count >= CHANGES.len(), "{kind} {count}");
        } else {
            // The start of the gateway, changes, and the removal of one that is sent.
            let samples: &[u32] = if kind == 'd' { &[1, 4, 8, 14] } else { &[1, 3] };
            assert!(samples.iter().all(|nth| fails(*nth)), "{kind}");
        }
    }
}

#[test]
fn a_power_cut_loses_no_acknowledged_change() {
    let folder = tempfile::Builder::new().prefix("benthic-s3").tempdir().unwrap();
    let record = record(folder.path());
    let origin = record.events.iter().find_map(|event| match &event.call {
        Call::Mark { text } => text.strip_prefix("upstream "),
        _ => None,
    });
    let origin = origin.unwrap().trim().to_owned();
    let seed = benthic_testkit::seed::one();
    let own = far::in_memory();
    block_on(own.create_bucket(new_bucket())).unwrap();
    let mut disk = Disk::new(&record, &FileTree::default(), seed);
    let mut rng = Rng(seed);
    let (mut cuts, mut reads) = (0_usize, 0);
    for at in 0..=record.events.len() {
        disk.advance(at);
        let point = point_at(&record, at);
        for cut in [Cut::Nothing, Cut::AllButOne, Cut::Any] {
            let tree = disk.cut(cut, &mut rng);
            if let Err(error) = check(&tree, &point) {
                panic!("{error} at={at} seed={seed}");
            }
            cuts += 1;
            let is_read = point.acknowledged > 0 && !point.sends && cuts % READ_EVERY == 0;
            if is_read {
                let dir = folder.path().join(format!("cut{cuts}"));
                tree.write(&dir).unwrap();
                check_reads(&dir, &origin, &point, &own);
                std::fs::remove_dir_all(&dir).unwrap();
                reads += 1;
            }
        }
    }
    assert!(pending(&disk.live()).is_empty(), "all changes were sent");
    assert!(cuts > 200 && reads > 0, "cuts={cuts} reads={reads}");
}

/// Without one of the syncs, a cut loses something: so each is needed, and the test above can fail.
#[test]
fn each_sync_of_a_change_is_needed() {
    let folder = tempfile::Builder::new().prefix("benthic-s3").tempdir().unwrap();
    let record = record(folder.path());
    let is_directory = |sync: &Sync<'_>| sync.path == "pending";
    let is_file = |sync: &Sync<'_>| sync.path.starts_with("pending/");
    for (what, skip) in [
        ("directory", &is_directory as &dyn Fn(&Sync<'_>) -> bool),
        ("file", &is_file as &dyn Fn(&Sync<'_>) -> bool),
    ] {
        let mut rng = Rng(1);
        let noticed = (0..20_u64).any(|seed| {
            let mut disk = Disk::without(&record, &FileTree::default(), seed, skip);
            (0..=record.events.len()).any(|at| {
                disk.advance(at);
                let point = point_at(&record, at);
                let tree = disk.cut(Cut::Any, &mut rng);
                check(&tree, &point).is_err() || has_torn_file(&tree, &point)
            })
        });
        assert!(noticed, "no cut needs the sync of the {what}");
    }
}

/// Whether an acknowledged change has a file without its end.
fn has_torn_file(tree: &FileTree, point: &Point) -> bool {
    tree.0.iter().any(|(path, content)| {
        let number = pending(&FileTree(BTreeMap::from([(path.clone(), None)]))).first().copied();
        number.is_some_and(|number| number < point.acknowledged)
            && content.as_ref().is_none_or(|content| !content.ends_with(b"BNTHWB01"))
    })
}
