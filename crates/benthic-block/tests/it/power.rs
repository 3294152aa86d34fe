//! Power cuts below an image. A child process runs random operations on an image in a directory and
//! marks them in the record of its file changes; see `benthic_testkit::power`. After a cut at any
//! point, the image must show the effects of all operations up to some one, at least up to the last
//! one that was durable. The operation in progress may be applied in part, in whole sectors.

use super::{KIB, images_of, options, run, small};
use benthic_block::{Image, Images, OpenMode, Zeroes};
use benthic_core::{Durability, ErrorKind};
use benthic_embedded::{EmbeddedStore, Options};
use benthic_testkit::power::{Call, Cut, Disk, FileTree, Record, Recorder, mark};
use benthic_testkit::random::Rng;
use benthic_testkit::seed;
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::Command;

const TASK: &str = "BENTHIC_TEST_IMAGE_POWER";
const SECTOR: usize = 512;
const SIZE: u64 = 600 * KIB;
const STEPS: usize = 60;

#[derive(Clone, Debug)]
enum Step {
    Write { at: u64, len: u64, durable: bool },
    Zero { at: u64, len: u64, zeroes: Zeroes },
    Flush,
    Snapshot(String),
    Remove(String),
    RollBack(String),
    Resize(u64),
    Reopen,
}

/// The contents of the image and of its snapshots after a step.
#[derive(Clone)]
struct State {
    bytes: Vec<u8>,
    snapshots: Vec<(String, Vec<u8>)>,
}

/// The steps of a seed, in whole sectors.
fn steps(seed: u64) -> Vec<Step> {
    let mut rng = Rng(seed);
    let mut size = SIZE;
    let mut snapshots: Vec<(String, u64)> = Vec::new();
    let mut steps = Vec::new();
    for index in 0..STEPS {
        let at = rng.below(size as usize / SECTOR) as u64 * SECTOR as u64;
        let most = if rng.one_in(4) { 400 } else { 24 };
        let len = ((1 + rng.below(most)) * SECTOR) as u64;
        let len = len.min(size - at);
        let named = |rng: &mut Rng, snapshots: &[(String, u64)]| rng.below(snapshots.len());
        steps.push(match rng.below(16) {
            0..=6 => Step::Write { at, len, durable: rng.one_in(4) },
            7 => Step::Zero { at, len, zeroes: Zeroes::Punch },
            8 => Step::Zero { at, len, zeroes: Zeroes::Allocate },
            9 => Step::Zero { at: 0, len: size, zeroes: Zeroes::Punch },
            10 => {
                snapshots.push((format!("s{index}"), size));
                Step::Snapshot(format!("s{index}"))
            }
            11 if !snapshots.is_empty() => {
                let (name, _) = snapshots.remove(named(&mut rng, &snapshots));
                Step::Remove(name)
            }
            12 if !snapshots.is_empty() => {
                let (name, old) = snapshots[named(&mut rng, &snapshots)].clone();
                size = old;
                Step::RollBack(name)
            }
            13 => {
                size = ((1 + rng.below(1_200)) * SECTOR) as u64;
                Step::Resize(size)
            }
            14 => Step::Reopen,
            _ => Step::Flush,
        });
    }
    steps
}

/// The bytes that a step writes: in each sector the number of the step and of the sector.
fn data(index: usize, at: u64, len: u64) -> Vec<u8> {
    let sectors = at / SECTOR as u64..(at + len) / SECTOR as u64;
    sectors.flat_map(|sector| [index as u8 + 1, sector as u8].repeat(SECTOR / 2)).collect()
}

fn apply(index: usize, step: &Step, state: &mut State) {
    match step {
        Step::Write { at, len, .. } => {
            state.bytes[*at as usize..(at + len) as usize].copy_from_slice(&data(index, *at, *len));
        }
        Step::Zero { at, len, .. } => state.bytes[*at as usize..(at + len) as usize].fill(0),
        Step::Snapshot(name) => state.snapshots.push((name.clone(), state.bytes.clone())),
        Step::Remove(name) => state.snapshots.retain(|(listed, _)| listed != name),
        Step::RollBack(name) => {
            state.bytes = state.snapshots.iter().find(|(listed, _)| listed == name).unwrap().1.clone();
        }
        Step::Resize(size) => state.bytes.resize(*size as usize, 0),
        Step::Flush | Step::Reopen => {}
    }
}

/// True if everything up to this step is durable once it has ended.
fn is_durable(step: &Step) -> bool {
    !matches!(step, Step::Write { durable: false, .. } | Step::Zero { .. })
}

fn quick() -> Options {
    Options { log_bytes_max: 60_000, buffered_ms_max: 3, workers: 4, ..options() }
}

#[test]
#[ignore = "runs as a child of the other test, which records its file changes"]
fn child() {
    let path = |name| PathBuf::from(std::env::var_os(name).expect("the test of power cuts starts this"));
    let seed = std::env::var(TASK).unwrap();
    let store = EmbeddedStore::open(&path("BENTHIC_POWER_DIR"), true, quick()).unwrap();
    let marks = OpenOptions::new().create(true).append(true).open(path("BENTHIC_POWER_MARKS")).unwrap();
    run(async {
        let images = images_of(store.clone()).await;
        images.create("i", small(SIZE)).await.unwrap();
        let mut image = images.open("i", None, OpenMode::Write).await.unwrap();
        for (index, step) in steps(seed.parse().unwrap()).iter().enumerate() {
            mark(&marks, &format!("begin {index}"));
            match step {
                Step::Write { at, len, durable } => {
                    let durability = if *durable { Durability::Durable } else { Durability::Buffered };
                    image.write(*at, data(index, *at, *len).into(), durability).await.unwrap();
                }
                Step::Zero { at, len, zeroes } => {
                    image.write_zeroes(*at, *len, *zeroes, Durability::Buffered).await.unwrap();
                }
                Step::Flush => image.flush().await.unwrap(),
                Step::Snapshot(name) => image.create_snapshot(name).await.unwrap(),
                Step::Remove(name) => image.remove_snapshot(name).await.unwrap(),
                Step::RollBack(name) => image.roll_back(name).await.unwrap(),
                Step::Resize(size) => image.resize(*size).await.unwrap(),
                Step::Reopen => {
                    image.close().await.unwrap();
                    image = images.open("i", None, OpenMode::Write).await.unwrap();
                }
            }
            mark(&marks, &format!("done {index}"));
        }
        image.close().await.unwrap();
    });
    store.close().unwrap();
}

struct Bench {
    recorder: Recorder,
    folder: tempfile::TempDir,
    count: u32,
}

impl Bench {
    fn new() -> Bench {
        // In memory if possible, because each state lives for milliseconds only.
        let memory = Path::new("/dev/shm");
        let folder =
            if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap();
        let recorder = Recorder::build(folder.path()).unwrap();
        Bench { recorder, folder, count: 0 }
    }

    fn fresh(&mut self) -> PathBuf {
        self.count += 1;
        self.folder.path().join(self.count.to_string())
    }

    fn record(&mut self, seed: u64) -> Record {
        let dir = self.fresh();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--ignored", "--exact", "power::child", "--nocapture", "--test-threads=1"]);
        command.env(TASK, seed.to_string());
        let record = self.recorder.run(command, &dir, "child", None).unwrap();
        assert!(record.status.success(), "seed {seed}\n{}", record.stderr);
        record
    }
}

/// The number of the last step that a mark before `point` names.
fn last(record: &Record, point: usize, word: &str, holds: impl Fn(usize) -> bool) -> Option<usize> {
    record.events[..point].iter().rev().find_map(|event| {
        let Call::Mark { text } = &event.call else { return None };
        let number = text.strip_prefix(word)?.trim().parse().ok()?;
        Some(number).filter(|number| holds(*number))
    })
}

/// True if every sector is as in one of two states.
fn is_between(found: &[u8], before: &State, after: &State) -> bool {
    if found.len() != before.bytes.len() && found.len() != after.bytes.len() {
        return false;
    }
    let sector = |state: &State, at: usize| {
        let mut sector =
            state.bytes.get(at..(at + SECTOR).min(state.bytes.len())).unwrap_or_default().to_vec();
        sector.resize(SECTOR, 0);
        sector
    };
    found.chunks(SECTOR).enumerate().all(|(index, chunk)| {
        let at = index * SECTOR;
        chunk == sector(before, at) || chunk == sector(after, at)
    })
}

async fn read_all(image: &dyn Image) -> Vec<u8> {
    image.read(0, image.info().size_bytes).await.unwrap().to_vec()
}

/// Checks the image in a state that a power cut left. `states[n]` is the state before step `n`.
async fn examine(dir: &Path, states: &[State], durable: Option<usize>, begun: Option<usize>) {
    let store = EmbeddedStore::open(dir, true, quick()).unwrap();
    let images = images_of(store.clone()).await;
    let image = match images.open("i", None, OpenMode::TakeOver).await {
        Err(error) if error.kind() == ErrorKind::NotFound && begun.is_none() => return,
        image => image.unwrap(),
    };
    let found = read_all(&*image).await;
    let (first, end) = (durable.map_or(0, |step| step + 1), begun.map_or(0, |step| step + 1));
    let fits = |n: &usize| is_between(&found, &states[*n], &states[(n + 1).min(end)]);
    assert!((first..=end).any(|n| fits(&n)), "no state from {first} to {end} fits");
    // Every snapshot was durable when its step ended, and is gone when its removal has ended.
    let listed: Vec<String> = image.snapshots().await.unwrap().into_iter().map(|found| found.name).collect();
    for (name, bytes) in &states[first].snapshots {
        let is_kept =
            states[first..=end].iter().all(|state| state.snapshots.iter().any(|(kept, _)| kept == name));
        assert!(!is_kept || listed.contains(name), "snapshot {name} is missing");
        if listed.contains(name) {
            let snapshot = images.open("i", Some(name), OpenMode::ReadOnly).await.unwrap();
            assert!(read_all(&*snapshot).await == *bytes, "snapshot {name} has changed");
        }
    }
    // A repair removes the remains of interrupted operations, and nothing else.
    let check = image.check(true).await.unwrap();
    assert_eq!(check.damage, Vec::new());
    assert_eq!(image.check(false).await.unwrap().repairable, Vec::new());
    assert!(read_all(&*image).await == found, "the repair has changed the image");
    for (name, bytes) in states[first].snapshots.iter().filter(|(name, _)| listed.contains(name)) {
        let snapshot = images.open("i", Some(name), OpenMode::ReadOnly).await.unwrap();
        assert!(read_all(&*snapshot).await == *bytes, "the repair has changed snapshot {name}");
    }
    // The image works.
    image.create_snapshot("after").await.unwrap();
    image.resize(SIZE).await.unwrap();
    image.write(SIZE - 100, vec![9; 100].into(), Durability::Durable).await.unwrap();
    for name in listed {
        image.remove_snapshot(&name).await.unwrap();
    }
    image.roll_back("after").await.unwrap();
    assert!(read_all(&*image).await == found);
    image.close().await.unwrap();
    store.close().unwrap();
}

#[test]
fn flushed_writes_survive_every_power_cut() {
    let (workloads, cuts) = if seed::is_long() { (60, 150) } else { (3, 40) };
    let mut bench = Bench::new();
    let mut examined = 0;
    for seed in seed::many(workloads) {
        let mut rng = Rng(seed);
        let steps = steps(seed);
        let mut states = vec![State { bytes: vec![0; SIZE as usize], snapshots: Vec::new() }];
        for (index, step) in steps.iter().enumerate() {
            let mut state = states[index].clone();
            apply(index, step, &mut state);
            states.push(state);
        }
        let record = bench.record(seed);
        let mut disk = Disk::new(&record, &FileTree::default(), seed);
        let mut points: Vec<usize> = (0..cuts).map(|_| rng.below(record.events.len() + 1)).collect();
        points.sort_unstable();
        for point in points {
            disk.advance(point);
            let cut = match rng.below(6) {
                0 => Cut::Nothing,
                1 => Cut::AllButOne,
                _ => Cut::Any,
            };
            let dir = bench.fresh();
            disk.cut(cut, &mut rng).write(&dir).unwrap();
            let durable = last(&record, point, "done", |step| is_durable(&steps[step]));
            let begun = last(&record, point, "begin", |_| true);
            let examine = std::panic::catch_unwind(|| run(examine(&dir, &states, durable, begun)));
            assert!(examine.is_ok(), "BENTHIC_TEST_SEED={seed} point={point} of={}", record.events.len());
            std::fs::remove_dir_all(dir).unwrap();
            examined += 1;
        }
    }
    assert_eq!(examined, workloads * cuts);
}
