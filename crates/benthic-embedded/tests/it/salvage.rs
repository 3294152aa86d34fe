//! Salvage: copies the intact objects of a damaged store into a new one.

use crate::damage::{
    Contents, NAMES, content, copy_of, earlier_content, fill, options, scratch, wait_for_table,
};
use crate::support::{block_on, files, id, noise, pool, print_counts};
use benthic_core::{ErrorKind, Store, WriteOp};
use benthic_embedded::{EmbeddedStore, Options, SalvageReport, salvage};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Salvages `dir` into a new store. Checks that the new store is sound and its contents are
/// correct, that every other object is reported as lost, and that the damaged store is unchanged.
fn salvage_and_check(dir: &Path, whole: &Contents) -> benthic_core::Result<(SalvageReport, Contents)> {
    let image = || files(dir).into_iter().map(|path| (fs::read(&path).unwrap(), path)).collect::<Vec<_>>();
    let before = image();
    let into = scratch();
    let into = into.path().join("new");
    let salvaged = salvage(dir, &into, &options());
    assert!(image() == before, "the damaged store is as it was");
    let salvaged = salvaged?;
    let store = EmbeddedStore::open(&into, false, options())?;
    // Salvage invents a pool name if damage destroyed the original.
    let Some(name) = block_on(store.list_pools())?.pop() else {
        assert_eq!(salvaged.objects, 0);
        return Ok((salvaged, Contents::new()));
    };
    let pool = block_on(store.open_pool(&name))?;
    let found: Contents = NAMES
        .iter()
        .filter_map(|name| Some((name.to_string(), content(pool.as_ref(), name).ok()?)))
        .collect();
    let operations_lost = salvaged.lost.iter().any(|loss| loss.message.contains("operations"));
    for (name, content) in &found {
        let last = &whole[name];
        let right =
            content == last || operations_lost && Some(content) == earlier_content(name, last).as_ref();
        assert!(right, "wrong bytes were saved of {name}: {salvaged:?}");
    }
    assert_eq!(found.len() as u64, salvaged.objects);
    assert_eq!(block_on(store.fsck())?.findings, []);
    assert_eq!(block_on(pool.scrub(None))?.damage, []);
    Ok((salvaged, found))
}

#[test]
fn an_intact_store_is_salvaged_completely() {
    let dir = scratch();
    let whole = fill(dir.path());
    let (salvaged, found) = salvage_and_check(dir.path(), &whole).unwrap();
    assert!(found == whole);
    assert_eq!((salvaged.pools, salvaged.objects_lost), (1, 0));
    assert_eq!(salvaged.lost, []);
}

#[test]
fn only_the_damaged_object_is_lost() {
    let dir = scratch();
    let whole = fill(dir.path());
    let data = fs::read(dir.path().join("data")).unwrap();
    let at = data.windows(16).position(|window| window == &whole["stream"].0[70_000..70_016]).unwrap();
    let mut flipped = data.clone();
    flipped[at] ^= 1;
    fs::write(dir.path().join("data"), flipped).unwrap();
    let (salvaged, found) = salvage_and_check(dir.path(), &whole).unwrap();
    assert_eq!((found.len(), salvaged.objects_lost), (NAMES.len() - 1, 1));
    assert_eq!(salvaged.lost[0].object.as_deref(), Some("p/stream"));
    assert!(salvaged.lost[0].message.contains("offset_bytes=65536"), "{:?}", salvaged.lost);
}

#[test]
fn the_log_is_salvaged_up_to_its_damage() {
    let dir = scratch();
    let whole = fill(dir.path());
    let late = &whole["late blocks"].0[..16];
    let place = files(&dir.path().join("log")).into_iter().find_map(|log| {
        let bytes = fs::read(&log).unwrap();
        let at = bytes.windows(16).position(|window| window == late)?;
        Some((log, bytes, at))
    });
    let (log, mut bytes, at) = place.unwrap();
    bytes[at] ^= 1;
    fs::write(&log, bytes).unwrap();
    assert!(EmbeddedStore::open(dir.path(), false, options()).is_err(), "it does not open");
    let (salvaged, found) = salvage_and_check(dir.path(), &whole).unwrap();
    assert_eq!(found.len(), NAMES.len() - 1, "all but the last operation");
    assert!(salvaged.lost[0].message.contains("operations after the damage are lost"), "{:?}", salvaged.lost);
}

/// Damage to a table block loses only the entries of that block; salvage keeps those of all others.
#[test]
fn entries_between_damaged_blocks_are_salvaged() {
    let dir = scratch();
    let small_log = Options { log_bytes_max: 1_000_000, ..options() };
    let store = EmbeddedStore::open(dir.path(), true, small_log).unwrap();
    block_on(store.create_pool("p")).unwrap();
    let objects = pool(&store);
    let sizes = |index: u64| 500 + index as usize % 700;
    for index in 0..3_000 {
        let op = WriteOp::new().write_full(noise(index, sizes(index))).buffered();
        block_on(objects.write(&id(&format!("{index:04}")), op)).unwrap();
    }
    block_on(store.flush()).unwrap();
    wait_for_table(dir.path());
    store.close().unwrap();
    let table =
        files(&dir.path().join("kv/tables")).into_iter().max_by_key(|path| fs::metadata(path).unwrap().len());
    let table = table.unwrap();
    let sound = fs::read(&table).unwrap();
    let mut places = BTreeMap::new();
    for index in (0..3_000).step_by(50) {
        let wanted = noise(index, 100);
        places.extend(sound.windows(100).position(|window| window == wanted).map(|at| (index, at)));
    }
    assert!(places.len() > 20, "objects are in the table: {}", places.len());
    let (mut lost, mut cases) = (0, 0);
    for wanted in [vec![5], vec![3, 9], vec![1, 2, 8, 15, 19]] {
        let damaged = copy_of(dir.path());
        let mut bytes = sound.clone();
        let hit: Vec<u64> = wanted.iter().map(|nth| *places.keys().nth(*nth).unwrap()).collect();
        hit.iter().for_each(|index| bytes[places[index]] ^= 1);
        fs::write(damaged.path().join(table.strip_prefix(dir.path()).unwrap()), bytes).unwrap();
        let into = scratch();
        let into = into.path().join("new");
        let salvaged = salvage(damaged.path(), &into, &options()).unwrap();
        assert!(!salvaged.lost.is_empty());
        let store = EmbeddedStore::open(&into, false, options()).unwrap();
        let objects = pool(&store);
        for index in 0..3_000 {
            let name = format!("{index:04}");
            match block_on(objects.read_range(&id(&name), 0, 10_000)) {
                Ok(data) => assert!(data == noise(index, sizes(index)), "{name}"),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::NotFound);
                    lost += 1;
                }
            }
            assert!(
                !hit.contains(&index) || block_on(objects.stat(&id(&name))).is_err(),
                "{name} was damaged"
            );
        }
        cases += hit.len();
    }
    // A block of 4 KiB holds about five of these objects.
    assert!(lost <= 20 * cases, "lost={lost} blocks={cases}");
}

/// After any flip, all salvaged data is correct and the damaged store is unchanged.
#[test]
fn no_damaged_data_is_salvaged() {
    let dir = scratch();
    let whole = fill(dir.path());
    let (mut saves, mut objects) = (0, 0);
    for file in files(dir.path()) {
        let bytes = fs::read(&file).unwrap();
        let relative = file.strip_prefix(dir.path()).unwrap();
        for at in (0..bytes.len()).step_by((bytes.len() / 30).max(1)) {
            let damaged = copy_of(dir.path());
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << (at % 8);
            fs::write(damaged.path().join(relative), flipped).unwrap();
            match salvage_and_check(damaged.path(), &whole) {
                Ok((salvaged, found)) => {
                    saves += 1;
                    objects += found.len();
                    assert!(
                        found == whole || !salvaged.lost.is_empty(),
                        "{} at {at}: the loss is reported",
                        relative.display()
                    );
                }
                Err(error) => assert!(
                    matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Unsupported),
                    "{} at {at}: {error}",
                    relative.display()
                ),
            }
        }
    }
    print_counts(&format!("saves={saves} objects={objects}"));
    assert!(saves > 50 && objects > 4 * saves);
}

#[test]
fn a_store_in_use_and_an_occupied_target_are_rejected() {
    let dir = scratch();
    fill(dir.path());
    let new = scratch();
    let store = EmbeddedStore::open(dir.path(), false, options()).unwrap();
    let kind = |into: &Path| salvage(dir.path(), into, &options()).unwrap_err().kind();
    assert_eq!(kind(&new.path().join("a")), ErrorKind::Busy);
    store.close().unwrap();
    assert_eq!(kind(dir.path()), ErrorKind::AlreadyExists);
    let none = salvage(&new.path().join("none"), &new.path().join("b"), &options()).unwrap_err();
    assert_eq!(none.kind(), ErrorKind::NotFound);
    assert_eq!(fs::read_dir(new.path()).unwrap().count(), 0, "nothing is left");
}

#[test]
fn without_the_data_file_inline_data_is_salvaged() {
    let dir = scratch();
    let whole = fill(dir.path());
    fs::remove_file(dir.path().join("data")).unwrap();
    let (salvaged, found) = salvage_and_check(dir.path(), &whole).unwrap();
    // The log may still hold all data of larger objects.
    let small = |name: &&String| whole[*name].0.len() <= 4_096;
    assert!(whole.keys().filter(small).all(|name| found.contains_key(name)), "{salvaged:?}");
    assert!(salvaged.objects_lost > 0, "{salvaged:?}");
    assert!(salvaged.lost.iter().any(|loss| loss.message.contains("data file is missing")), "{salvaged:?}");
}

#[test]
fn a_directory_without_a_store_is_not_changed() {
    let dir = scratch();
    let error = salvage(dir.path(), &dir.path().join("new"), &options()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    assert!(!dir.path().join("lock").exists());
}
