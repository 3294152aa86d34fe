//! Random operations against an oracle: the bytes of the image, of its snapshots and of its clones.

use super::{KIB, in_directory, in_memory, run, small, striped};
use benthic_block::{ExtentKind, Image, Images, OpenMode, Zeroes};
use benthic_core::{Durability, ErrorKind};
use benthic_testkit::seed;
use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop};
use proptest::{prop_oneof, proptest};
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Clone, Debug)]
enum Step {
    Write {
        at: u64,
        len: u64,
        byte: u8,
    },
    Zero {
        at: u64,
        len: u64,
        punch: bool,
    },
    Snapshot {
        name: u8,
    },
    Remove {
        name: u8,
    },
    RollBack {
        name: u8,
    },
    Resize {
        size: u64,
    },
    /// Continues in a clone of the snapshot.
    Clone {
        name: u8,
    },
    Reopen {
        close: bool,
    },
    Changes {
        name: u8,
    },
    Flatten,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let len = || prop_oneof![1_u64..5_000, Just(4 * KIB), Just(64 * KIB), 1_u64..400 * KIB];
    let at = || prop_oneof![0_u64..800 * KIB, (0_u64..13).prop_map(|n| n * 64 * KIB)];
    let name = || 0_u8..4;
    let step = prop_oneof![
        8 => (at(), len(), 1_u8..=255).prop_map(|(at, len, byte)| Step::Write { at, len, byte }),
        3 => (at(), len(), any::<bool>()).prop_map(|(at, len, punch)| Step::Zero { at, len, punch }),
        3 => name().prop_map(|name| Step::Snapshot { name }),
        2 => name().prop_map(|name| Step::Remove { name }),
        1 => name().prop_map(|name| Step::RollBack { name }),
        1 => (0_u64..800 * KIB).prop_map(|size| Step::Resize { size }),
        1 => name().prop_map(|name| Step::Clone { name }),
        1 => any::<bool>().prop_map(|close| Step::Reopen { close }),
        1 => name().prop_map(|name| Step::Changes { name }),
        1 => Just(Step::Flatten),
    ];
    prop::collection::vec(step, 1..40)
}

struct Model {
    images: Arc<dyn Images>,
    image: Arc<dyn Image>,
    name: String,
    bytes: Vec<u8>,
    snapshots: BTreeMap<u8, Vec<u8>>,
    /// Every view that must still read as it did: image, snapshot, bytes.
    others: Vec<(String, Option<String>, Vec<u8>)>,
    clones: u32,
}

impl Model {
    async fn start(images: Arc<dyn Images>, is_striped: bool) -> Model {
        let size_bytes = 500 * KIB;
        let options = if is_striped { striped(size_bytes) } else { small(size_bytes) };
        images.create("image", options).await.unwrap();
        let image = images.open("image", None, OpenMode::Write).await.unwrap();
        let bytes = vec![0; size_bytes as usize];
        let name = "image".to_owned();
        Model { images, image, name, bytes, snapshots: BTreeMap::new(), others: Vec::new(), clones: 0 }
    }

    fn clip(&self, at: u64, len: u64) -> (u64, u64) {
        let size = self.bytes.len() as u64;
        let at = at.min(size);
        (at, len.min(size - at))
    }

    async fn step(&mut self, step: Step) {
        match step {
            Step::Write { at, len, byte } => {
                let (at, len) = self.clip(at, len);
                // Not one value, so that a shifted copy shows.
                let data: Vec<u8> = (0..len).map(|n| byte.wrapping_add((n / 512) as u8)).collect();
                self.bytes[at as usize..(at + len) as usize].copy_from_slice(&data);
                self.image.write(at, data.into(), Durability::Buffered).await.unwrap();
            }
            Step::Zero { at, len, punch } => {
                let (at, len) = self.clip(at, len);
                self.bytes[at as usize..(at + len) as usize].fill(0);
                let zeroes = if punch { Zeroes::Punch } else { Zeroes::Allocate };
                self.image.write_zeroes(at, len, zeroes, Durability::Buffered).await.unwrap();
            }
            Step::Snapshot { name } => {
                let created = self.image.create_snapshot(&snapshot_name(name)).await;
                match self.snapshots.contains_key(&name) {
                    true => assert_eq!(created.unwrap_err().kind(), ErrorKind::AlreadyExists),
                    false => {
                        created.unwrap();
                        self.snapshots.insert(name, self.bytes.clone());
                    }
                }
            }
            Step::Remove { name } => {
                let removed = self.image.remove_snapshot(&snapshot_name(name)).await;
                match self.snapshots.remove(&name) {
                    None => assert_eq!(removed.unwrap_err().kind(), ErrorKind::NotFound),
                    Some(_) => removed.unwrap(),
                }
            }
            Step::RollBack { name } => {
                if let Some(bytes) = self.snapshots.get(&name) {
                    self.image.roll_back(&snapshot_name(name)).await.unwrap();
                    self.bytes.clone_from(bytes);
                }
            }
            Step::Resize { size } => {
                self.image.resize(size).await.unwrap();
                self.bytes.resize(size as usize, 0);
            }
            Step::Clone { name } => {
                if let Some(bytes) = self.snapshots.get(&name).cloned() {
                    let snapshots = std::mem::take(&mut self.snapshots);
                    for (name, bytes) in snapshots {
                        self.others.push((self.name.clone(), Some(snapshot_name(name)), bytes));
                    }
                    self.others.push((self.name.clone(), None, std::mem::take(&mut self.bytes)));
                    self.image.close().await.unwrap();
                    self.clones += 1;
                    let clone = format!("clone-{}", self.clones);
                    self.images.clone_snapshot(&self.name, &snapshot_name(name), &clone).await.unwrap();
                    self.image = self.images.open(&clone, None, OpenMode::Write).await.unwrap();
                    self.name = clone;
                    self.bytes = bytes;
                }
            }
            Step::Reopen { close: true } => {
                self.image.close().await.unwrap();
                self.image = self.images.open(&self.name, None, OpenMode::Write).await.unwrap();
            }
            // As if the program had been killed.
            Step::Reopen { close: false } => {
                self.image = self.images.open(&self.name, None, OpenMode::TakeOver).await.unwrap();
            }
            Step::Flatten => {
                let has_parent = self.image.info().parent.is_some();
                let flattened = self.image.flatten().await.err().map(|error| error.kind());
                let expected = match (has_parent, self.snapshots.is_empty()) {
                    (false, _) => Some(ErrorKind::InvalidArgument),
                    (true, false) => Some(ErrorKind::Conflict),
                    (true, true) => None,
                };
                // A removed snapshot from which several views continue may still be there.
                assert!(flattened == expected || flattened == Some(ErrorKind::Conflict) && has_parent);
            }
            Step::Changes { name } => {
                if let Some(old) = self.snapshots.get(&name) {
                    self.check_changes(&snapshot_name(name), old).await;
                }
            }
        }
    }

    /// Unchanged extents must be unchanged, and holes must be zero.
    async fn check_changes(&self, snapshot: &str, old: &[u8]) {
        let extents = self.image.extents(0, self.bytes.len() as u64, Some(snapshot)).await.unwrap();
        let mut at = 0;
        for extent in extents {
            let end = at + extent.len_bytes as usize;
            let new = &self.bytes[at..end];
            match extent.kind {
                ExtentKind::Data => {}
                ExtentKind::Hole => assert!(new.iter().all(|byte| *byte == 0)),
                ExtentKind::Unchanged => {
                    let mut before = old.get(at..old.len().min(end)).unwrap_or_default().to_vec();
                    before.resize(new.len(), 0);
                    assert!(before == new, "{at}..{end} has changed");
                }
            }
            at = end;
        }
        assert_eq!(at, self.bytes.len());
    }

    async fn check(&self) {
        // No operation was interrupted, so nothing is left of any.
        let check = self.image.check(false).await.unwrap();
        assert_eq!((check.damage, check.repairable), (Vec::new(), Vec::new()));
        same(&*self.image, &self.bytes, "the image").await;
        let own = self.snapshots.iter().map(|(name, bytes)| (&self.name, Some(snapshot_name(*name)), bytes));
        let others = self.others.iter().map(|(image, snapshot, bytes)| (image, snapshot.clone(), bytes));
        for (image, snapshot, bytes) in own.chain(others) {
            let view = self.images.open(image, snapshot.as_deref(), OpenMode::ReadOnly).await.unwrap();
            same(&*view, bytes, &view.info().address).await;
        }
    }
}

fn snapshot_name(name: u8) -> String {
    format!("s{name}")
}

async fn same(image: &dyn Image, expected: &[u8], what: &str) {
    assert_eq!(image.info().size_bytes, expected.len() as u64, "{what}");
    let read = image.read(0, expected.len() as u64).await.unwrap();
    let wrong = read.iter().zip(expected).position(|(read, expected)| read != expected);
    assert_eq!(wrong, None, "{what} differs");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if seed::is_long() { 20_000 } else { 60 }, max_shrink_iters: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn images_in_memory_do_what_the_oracle_does(is_striped: bool, steps in steps()) {
        run(async {
            let mut model = Model::start(in_memory().await, is_striped).await;
            for step in steps {
                model.step(step).await;
            }
            model.check().await;
        });
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if seed::is_long() { 1_000 } else { 12 }, max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn images_in_a_directory_do_what_the_oracle_does(is_striped: bool, steps in steps()) {
        run(async {
            let (images, _dir) = in_directory().await;
            let mut model = Model::start(images, is_striped).await;
            for step in steps {
                model.step(step).await;
                same(&*model.image, &model.bytes, "the image").await;
            }
            model.check().await;
        });
    }
}
