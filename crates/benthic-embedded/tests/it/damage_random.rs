//! Random damage to a store with many objects: one to five bit flips, lost sectors or foreign
//! sectors at once. The test then reads, scrubs and salvages everything.

use crate::damage::{copy_of, in_parallel, options, scratch};
use crate::support::{block_on, files, id, noise, pool, print_counts};
use benthic_core::{ErrorKind, Pool, ReadOp, ReadOutput, Result, Store, WriteOp};
use benthic_embedded::{EmbeddedStore, Options, salvage};
use benthic_testkit::random::Rng;
use benthic_testkit::seed;
use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

const SECTOR_BYTES: u64 = 512;
/// Size of the largest objects.
const SIZE_BYTES_MAX: usize = 200_000;

/// Number of objects, and number of damaged copies.
fn scale() -> (u64, u64) {
    if seed::is_long() { (5_000, 300) } else { (1_500, 24) }
}

fn name(index: u64) -> String {
    format!("{index:06}")
}

/// Writes an object. Most objects are small. Some large ones are stored as streams, others as
/// blocks because of a later partial write.
fn write(pool: &dyn Pool, index: u64) {
    let sizes = [0, 90, 700, 2_500, 4_096, 9_000, 40_000, 70_000];
    let size = if index % 40 == 39 { SIZE_BYTES_MAX } else { sizes[index as usize % sizes.len()] };
    let op = WriteOp::new()
        .write_full(noise(index + 1, size))
        .set_xattr("index", name(index))
        .omap_set((0..index % 4).map(|key| (key.to_string(), name(index))))
        .buffered();
    block_on(pool.write(&id(&name(index)), op)).unwrap();
    if index.is_multiple_of(3) && size > 8_192 {
        let part = WriteOp::new().write(5_000, noise(index + 2, 100)).buffered();
        block_on(pool.write(&id(&name(index)), part)).unwrap();
    }
}

type Content = Vec<ReadOutput>;

fn content(pool: &dyn Pool, index: u64) -> Result<Content> {
    let op = ReadOp::new().read(0, SIZE_BYTES_MAX as u64).list_xattrs().omap_range(None, "", 100);
    Ok(block_on(pool.read(&id(&name(index)), op))?.outputs)
}

/// Creates a closed store. Most of it is in tables; the last objects are only in the log.
fn fill(dir: &Path, objects: u64) -> Vec<Content> {
    let tables = objects * 9 / 10;
    for (from, to) in [(0, tables), (tables, objects)] {
        let small_log = Options { log_bytes_max: 1 << 20, ..options() };
        let store = EmbeddedStore::open(dir, true, if from == 0 { small_log } else { options() }).unwrap();
        if from == 0 {
            block_on(store.create_pool("p")).unwrap();
        }
        (from..to).for_each(|index| write(&*pool(&store), index));
        store.close().unwrap();
    }
    let store = EmbeddedStore::open(dir, false, options()).unwrap();
    let whole = (0..objects).map(|index| content(&*pool(&store), index).unwrap()).collect();
    store.close().unwrap();
    whole
}

/// Damages one to five places and returns a description of each.
fn damage(dir: &Path, seed: u64) -> Vec<String> {
    let mut random = Rng(seed + 1);
    let mut below = |end: u64| random.number() % end;
    let files: Vec<_> = files(dir).into_iter().filter(|path| fs::metadata(path).unwrap().len() > 0).collect();
    let all_bytes: u64 = files.iter().map(|path| fs::metadata(path).unwrap().len()).sum();
    let place = |_| {
        // Half of the places are uniform over all bytes, half over all files, so that small files
        // are damaged too.
        let mut at = below(all_bytes);
        let mut files = files.iter().map(|path| (path, fs::metadata(path).unwrap().len()));
        let (path, len) = if below(2) == 0 {
            let behind = |(_, len): &(_, u64)| at.checked_sub(*len).map(|rest| at = rest).is_none();
            files.find(behind).unwrap()
        } else {
            let (path, len) = files.nth(below(files.len() as u64) as usize).unwrap();
            at %= len;
            (path, len)
        };
        let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
        let how = below(3);
        if how == 0 {
            let mut byte = [0];
            file.read_exact_at(&mut byte, at).unwrap();
            file.write_all_at(&[byte[0] ^ 1 << below(8)], at).unwrap();
        } else {
            let start = at - at % SECTOR_BYTES;
            let len = (len - start).min(SECTOR_BYTES) as usize;
            let sector = if how == 1 { vec![0; len] } else { noise(seed + at, len) };
            file.write_all_at(&sector, start).unwrap();
        }
        let how = ["a flip", "a lost sector", "a strange sector"][how as usize];
        format!("{how} at {at} of {}", path.strip_prefix(dir).unwrap().display())
    };
    (0..=seed % 5).map(place).collect()
}

/// Reads, scrubs and checks a damaged store. Returns the readable objects, or `None` if the store
/// does not open.
fn examine(dir: &Path, whole: &[Content], what: &[String]) -> Option<BTreeSet<u64>> {
    let store = match EmbeddedStore::open(dir, false, options()) {
        Ok(store) => store,
        Err(error) => {
            assert!(matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Unsupported), "{what:?}: {error}");
            return None;
        }
    };
    let pool = pool(&store);
    let mut readable = BTreeSet::new();
    for (index, expected) in (0..).zip(whole) {
        match content(&*pool, index) {
            Ok(content) => {
                assert!(content == *expected, "{what:?}: wrong bytes were served of {index}");
                readable.insert(index);
            }
            Err(error) => assert_eq!(error.kind(), ErrorKind::Corrupt, "{what:?}: {error}"),
        }
    }
    let named = named_by_the_scrub(&*pool);
    let findings = block_on(store.fsck()).unwrap().findings;
    for index in (0..whole.len() as u64).filter(|index| !readable.contains(index)) {
        let name = name(index);
        let told = match &named {
            Some(named) => named.contains(&name),
            None => !findings.is_empty(),
        };
        assert!(told, "{what:?}: neither the scrub nor fsck reported {name}: {findings:?}");
    }
    Some(readable)
}

/// The damaged objects that scrub names; `None` if damage hides names.
fn named_by_the_scrub(pool: &dyn Pool) -> Option<BTreeSet<String>> {
    let (mut named, mut after) = (BTreeSet::new(), None);
    loop {
        let page = block_on(pool.scrub(after)).ok()?;
        for damage in page.damage {
            named.insert(damage.object?.name().to_owned());
        }
        after = page.next;
        if after.is_none() {
            return Some(named);
        }
    }
}

/// Salvages a damaged store and returns the objects in the new store; `None` if nothing can be
/// salvaged.
fn salvage_and_check(dir: &Path, whole: &[Content], what: &[String]) -> Option<BTreeSet<u64>> {
    let into = scratch();
    let into = into.path().join("new");
    let salvaged = match salvage(dir, &into, &options()) {
        Ok(salvaged) => salvaged,
        Err(error) => {
            assert!(matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Unsupported), "{what:?}: {error}");
            print_counts(&format!("{what:?}: {error}"));
            return None;
        }
    };
    let store = EmbeddedStore::open(&into, false, options()).unwrap();
    let mut found = BTreeSet::new();
    if let Some(name) = block_on(store.list_pools()).unwrap().pop() {
        let pool = block_on(store.open_pool(&name)).unwrap();
        for (index, expected) in (0..).zip(whole) {
            match content(&*pool, index) {
                Ok(content) => {
                    // The log may end before the later write into the object.
                    let earlier = salvaged.lost.iter().any(|loss| loss.message.contains("operations"));
                    assert!(content == *expected || earlier, "{what:?}: wrong bytes were saved of {index}");
                    found.insert(index);
                }
                Err(error) => assert_eq!(error.kind(), ErrorKind::NotFound, "{what:?}: {error}"),
            }
        }
    }
    assert!(found.len() == whole.len() || !salvaged.lost.is_empty(), "{what:?}: the loss is reported");
    Some(found)
}

#[test]
fn random_damage_is_found_and_intact_objects_are_salvaged() {
    let (objects, rounds) = scale();
    let dir = scratch();
    let whole = fill(dir.path(), objects);
    let [closed, unharmed, lost, unsaved] = [const { AtomicU64::new(0) }; 4];
    let count = |counter: &AtomicU64, by: u64| _ = counter.fetch_add(by, Ordering::Relaxed);
    in_parallel(&Vec::from_iter(seed::many(rounds)), |seed| {
        let copy = copy_of(dir.path());
        let mut what = vec![format!("{}={seed}", seed::VARIABLE)];
        what.extend(damage(copy.path(), *seed));
        let saved = salvage_and_check(copy.path(), &whole, &what);
        match &saved {
            Some(saved) => count(&lost, objects - saved.len() as u64),
            None => count(&unsaved, 1),
        }
        match examine(copy.path(), &whole, &what) {
            None => count(&closed, 1),
            Some(readable) if readable.len() == whole.len() => count(&unharmed, 1),
            Some(readable) => {
                let saved = saved.unwrap_or_default();
                assert!(readable.is_subset(&saved), "{what:?}: salvage lost a readable object");
            }
        }
    });
    let [closed, unharmed, lost, unsaved] = [closed, unharmed, lost, unsaved].map(AtomicU64::into_inner);
    print_counts(&format!(
        "stores={rounds} closed={closed} unharmed={unharmed} unsaved={unsaved} objects_lost={lost}"
    ));
    assert!(unharmed < rounds, "there was damage");
}
