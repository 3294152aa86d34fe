//! Systematic damage: the store must detect it, report it and never return damaged data. The tests
//! flip every live byte of a small store in turn, zero sectors, and truncate and remove files.

use crate::support::{block_on, files, id, noise, print_counts};
use benthic_core::{Error, ErrorKind, Pool, ReadOp, ReadOutput, Result, Store, WriteOp};
use benthic_embedded::{EmbeddedStore, Options};
use benthic_testkit::{seed, wait};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tempfile::TempDir;

/// Returns 1 in `make test-long`, to test every byte, else `usual`. A step that is not a power of
/// two hits every kind of field.
pub fn step(usual: usize) -> usize {
    if seed::is_long() { 1 } else { usual }
}

pub fn options() -> Options {
    Options { workers: 2, cache_bytes: 1 << 20, ..crate::support::options() }
}

/// Uses a directory in memory if there is one. Otherwise a test that opens ten thousand stores
/// would spend its time on syncs.
pub fn scratch() -> TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory).unwrap() } else { tempfile::tempdir().unwrap() }
}

pub const NAMES: [&str; 7] = ["empty", "inline", "stream", "blocks", "sparse", "late", "late blocks"];

/// Objects by name: data, and the outputs of a read of attributes and omap.
pub type Contents = BTreeMap<String, (Vec<u8>, Vec<ReadOutput>)>;

/// Creates a closed store with every kind of data. Part of it is in the key-value store's tables,
/// part only in the log.
pub fn fill(dir: &Path) -> Contents {
    let small_log = Options { log_bytes_max: 1_000, ..options() };
    let store = EmbeddedStore::open(dir, true, small_log).unwrap();
    block_on(store.create_pool("p")).unwrap();
    let pool = crate::support::pool(&store);
    for (name, size) in [("empty", 0), ("inline", 900), ("stream", 140_000), ("blocks", 40_000)] {
        write(pool.as_ref(), name, size);
    }
    block_on(pool.write(&id("blocks"), WriteOp::new().write(5_000, noise(5, 100)))).unwrap();
    write(pool.as_ref(), "sparse", 0);
    block_on(pool.write(&id("sparse"), WriteOp::new().write(200_000, noise(6, 5_000)))).unwrap();
    wait_for_table(dir);
    store.close().unwrap();
    let store = EmbeddedStore::open(dir, false, options()).unwrap();
    let pool = crate::support::pool(&store);
    write(pool.as_ref(), "late", 300);
    write(pool.as_ref(), "late blocks", 9_000);
    let whole = contents(pool.as_ref()).0;
    assert_eq!(whole.len(), NAMES.len());
    store.close().unwrap();
    whole
}

/// Waits until the cleaner has truncated the long log, which writes a table.
pub fn wait_for_table(dir: &Path) {
    wait::until("a table", || fs::read_dir(dir.join("kv/tables")).unwrap().next().is_some());
}

fn write(pool: &dyn Pool, name: &str, size: usize) {
    let op = WriteOp::new()
        .write_full(noise(size as u64 + 1, size))
        .set_xattr("name", name.to_owned())
        .omap_set([("key", name.to_owned())]);
    block_on(pool.write(&id(name), op)).unwrap();
}

pub fn content(pool: &dyn Pool, name: &str) -> Result<(Vec<u8>, Vec<ReadOutput>)> {
    let op = ReadOp::new().read(0, 1 << 20).list_xattrs().omap_range(None, "", 100);
    let mut outputs = block_on(pool.read(&id(name), op))?.outputs;
    let ReadOutput::Data(data) = outputs.remove(0) else { panic!("no data") };
    Ok((data.to_vec(), outputs))
}

/// Reads all objects and returns their contents, and the errors of those that cannot be read.
fn contents(pool: &dyn Pool) -> (Contents, Vec<ErrorKind>) {
    let (mut found, mut errors) = (Contents::new(), Vec::new());
    for name in NAMES {
        match content(pool, name) {
            Ok(content) => drop(found.insert(name.to_owned(), content)),
            Err(error) => errors.push(error.kind()),
        }
    }
    (found, errors)
}

/// The content of an object before the last operation on it, if there was more than one.
pub fn earlier_content(name: &str, last: &(Vec<u8>, Vec<ReadOutput>)) -> Option<(Vec<u8>, Vec<ReadOutput>)> {
    let data = match name {
        "blocks" => noise(40_001, 40_000),
        "sparse" => Vec::new(),
        _ => return None,
    };
    Some((data, last.1.clone()))
}

/// Whether and when the store detected damage.
#[derive(Debug, PartialEq)]
enum Detection {
    /// The store did not open.
    AtOpen,
    /// The store opened and reported damage. `readable` counts the objects that could be read.
    ByChecks { readable: usize },
    /// Nothing was reported, and all contents were intact.
    NotDetected,
}

/// Opens a damaged store and checks that everything it returns is correct.
fn examine(dir: &Path, whole: &Contents, what: &str) -> Detection {
    let store = match EmbeddedStore::open(dir, false, options()) {
        Ok(store) => store,
        Err(error) => {
            let expected = matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Unsupported);
            assert!(expected, "{what}: {error}");
            return Detection::AtOpen;
        }
    };
    let pool =
        block_on(store.open_pool("p")).unwrap_or_else(|error| panic!("{what}: the pool is gone: {error}"));
    let (found, errors) = contents(pool.as_ref());
    for (name, content) in &found {
        assert!(content == &whole[name], "{what}: wrong bytes were served of {name}");
    }
    assert!(errors.iter().all(|kind| *kind == ErrorKind::Corrupt), "{what}: {errors:?}");
    let damage = block_on(pool.scrub(None)).map_or(1, |page| page.damage.len());
    assert!(errors.is_empty() || damage > 0, "{what}: a read found damage that the scrub did not find");
    let findings = block_on(store.fsck()).unwrap().findings.len();
    if errors.is_empty() && damage + findings == 0 {
        return Detection::NotDetected;
    }
    Detection::ByChecks { readable: found.len() }
}

/// Runs `check` on every item, with one thread per core.
pub fn in_parallel<T: Sync>(items: &[T], check: impl Fn(&T) + Sync) {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
                    check(item);
                }
            });
        }
    });
}

/// Copies a store that is not running.
pub fn copy_of(dir: &Path) -> TempDir {
    let copy = scratch();
    for file in files(dir) {
        let target = copy.path().join(file.strip_prefix(dir).unwrap());
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        fs::copy(&file, &target).unwrap();
    }
    copy
}

/// All files of a store except the data file, which another test damages while the store runs.
fn metadata_files(dir: &Path) -> Vec<PathBuf> {
    let relative = |path: PathBuf| path.strip_prefix(dir).unwrap().to_owned();
    let files: Vec<PathBuf> = files(dir).into_iter().map(relative).collect();
    assert!(
        files.iter().any(|path| path.starts_with("log")) && files.iter().any(|path| path.starts_with("kv"))
    );
    files.into_iter().filter(|path| path != Path::new("data")).collect()
}

/// Length of the part of a file to damage: everything up to the preallocated zeros at the end of
/// the log, and up to 63 of those.
fn live_len(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| bytes.len().min(last + 64))
}

/// Files without effect on correctness: a note for the next open, reserved space, and a copy for
/// salvage.
fn is_optional(file: &Path) -> bool {
    ["closed", "log/reserve", "kv/list"].iter().any(|name| file == Path::new(name))
}

/// Whether damage at this place may go unnoticed because nothing depends on it.
fn may_be_silent(file: &Path, bytes: &[u8], at: usize) -> bool {
    // The last log frame of a closed store contains no operation. Free space follows it.
    let end = bytes.windows(4).rposition(|window| window == b"BNFR").unwrap_or(bytes.len());
    is_optional(file) || (file.starts_with("log") && at >= end)
}

#[test]
fn a_flip_in_metadata_is_found() {
    let dir = scratch();
    let whole = fill(dir.path());
    let mut flips = Vec::new();
    for file in metadata_files(dir.path()) {
        let bytes = Arc::new(fs::read(dir.path().join(&file)).unwrap());
        flips.extend((0..live_len(&bytes)).step_by(step(7)).map(|at| (file.clone(), Arc::clone(&bytes), at)));
    }
    let (opened, readable) = (AtomicUsize::new(0), AtomicUsize::new(0));
    in_parallel(&flips, |(file, bytes, at)| {
        let damaged = copy_of(dir.path());
        let mut flipped = bytes.to_vec();
        flipped[*at] ^= 1 << (at % 8);
        fs::write(damaged.path().join(file), flipped).unwrap();
        let what = format!("{} at {at}", file.display());
        match examine(damaged.path(), &whole, &what) {
            Detection::AtOpen => {}
            Detection::ByChecks { readable: objects } => {
                opened.fetch_add(1, Ordering::Relaxed);
                readable.fetch_add(objects, Ordering::Relaxed);
            }
            Detection::NotDetected => {
                assert!(may_be_silent(file, bytes, *at), "{what}: the flip was not found")
            }
        }
    });
    let (opened, readable) = (opened.into_inner(), readable.into_inner());
    print_counts(&format!("flips={} opened={opened} readable_objects={readable}", flips.len()));
    assert!(flips.len() > 500 && readable > opened, "undamaged objects stay readable where the store opens");
}

/// The live bytes of the data file: offset in the file, object, and offset in the object.
fn live_data(dir: &Path, whole: &Contents) -> Vec<(u64, String, u64)> {
    let file = fs::read(dir.join("data")).unwrap();
    let blocks: Vec<&[u8]> = file.chunks(4_096).collect();
    let mut live = Vec::new();
    for (name, (data, _)) in whole.iter().filter(|(_, (data, _))| data.len() > 4_096) {
        for (index, content) in data.chunks(4_096).enumerate() {
            if content.iter().all(|byte| *byte == 0) {
                continue;
            }
            let at = blocks.iter().position(|block| block.starts_with(content));
            let at = at.unwrap_or_else(|| panic!("block {index} of {name} is in the data file"));
            live.extend(
                (0..content.len() as u64)
                    .map(|byte| (at as u64 * 4_096 + byte, name.clone(), index as u64 * 4_096 + byte)),
            );
        }
    }
    assert!(live.len() > 190_000);
    live
}

#[test]
fn a_flip_in_data_names_object_and_offset() {
    let dir = scratch();
    let whole = fill(dir.path());
    let live = live_data(dir.path(), &whole);
    let store = EmbeddedStore::open(dir.path(), false, options()).unwrap();
    let pool = crate::support::pool(&store);
    let file = fs::OpenOptions::new().read(true).write(true).open(dir.path().join("data")).unwrap();
    let mut flips = 0;
    for (at, name, logical) in live.iter().step_by(step(7)) {
        let mut byte = [0];
        file.read_exact_at(&mut byte, *at).unwrap();
        file.write_all_at(&[byte[0] ^ 1 << (at % 8)], *at).unwrap();
        let what = format!("data at {at}");
        let error = block_on(pool.read_range(&id(name), *logical, 1)).expect_err(&what);
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{what}: {error}");
        let found = offset_of(&error, &format!("p/{name}"));
        assert!(found <= *logical && logical - found < 65_536, "{what}: offset_bytes={found} of {name}");
        if flips % 401 == 0 {
            let damage = block_on(pool.scrub(None)).unwrap().damage;
            assert_eq!(damage.len(), 1, "one place, one damage: {damage:?}");
            assert_eq!((&damage[0].object, damage[0].offset_bytes), (&Some(id(name)), Some(found)));
            for other in NAMES.into_iter().filter(|other| other != name) {
                assert!(content(pool.as_ref(), other).unwrap() == whole[other], "{what}: {other}");
            }
        }
        file.write_all_at(&byte, *at).unwrap();
        flips += 1;
    }
    print_counts(&format!("flips={flips}"));
    assert_eq!(block_on(pool.scrub(None)).unwrap().damage, []);
    // A write that must merge with damaged bytes fails. A write that replaces them repairs the
    // object.
    let (at, ..) = live.iter().find(|(_, name, logical)| name == "stream" && *logical == 70_000).unwrap();
    file.write_all_at(&[whole["stream"].0[70_000] ^ 1], *at).unwrap();
    let merged = block_on(pool.write(&id("stream"), WriteOp::new().write(70_100, "x")));
    assert_eq!(merged.unwrap_err().kind(), ErrorKind::Corrupt);
    block_on(pool.write(&id("stream"), WriteOp::new().write(65_536, noise(1, 65_536)))).unwrap();
    assert_eq!(block_on(pool.scrub(None)).unwrap().damage, []);
}

/// Returns the offset in the error's context and checks that the error names this object.
pub fn offset_of(error: &Error, object: &str) -> u64 {
    let field = |name| error.context().find(|(key, _)| *key == name).map(|(_, value)| value.to_owned());
    assert_eq!(field("object").as_deref(), Some(object), "{error}");
    field("offset_bytes")
        .and_then(|offset| offset.parse().ok())
        .unwrap_or_else(|| panic!("no offset: {error}"))
}

#[test]
fn zeroed_sectors_and_truncated_files_are_found() {
    let dir = scratch();
    let whole = fill(dir.path());
    let mut damages = Vec::new();
    for file in files(dir.path()) {
        let bytes = Arc::new(fs::read(&file).unwrap());
        let file = file.strip_prefix(dir.path()).unwrap().to_owned();
        for at in (0..bytes.len()).step_by(512) {
            let sector = at..bytes.len().min(at + 512);
            if bytes[sector.clone()].iter().any(|byte| *byte != 0) {
                let mut zeroed = bytes.to_vec();
                zeroed[sector].fill(0);
                damages.push((file.clone(), format!("zeroed at {at}"), zeroed));
            }
        }
        let live_len = live_len(&bytes);
        let cuts = if live_len < 20_000 { step(13) } else { 4_099 };
        for len in (0..live_len).step_by(cuts) {
            damages.push((file.clone(), format!("cut to {len}"), bytes[..len].to_vec()));
        }
    }
    // Damage in freed extents and after the last extent has no effect. Data that is also in the log
    // is written again when the store opens.
    let log: Vec<u8> =
        files(&dir.path().join("log")).iter().flat_map(|path| fs::read(path).unwrap()).collect();
    let live = live_data(dir.path(), &whole);
    let blocks = live.chunk_by(|(a, ..), (b, ..)| a / 4_096 == b / 4_096).filter(|block| {
        let (_, name, last) = block.last().unwrap();
        let end = &whole[name].0[*last as usize - 15..=*last as usize];
        !log.windows(16).any(|window| window == end)
    });
    let live: Vec<u64> = blocks.flatten().map(|(at, ..)| *at).collect();
    let last = live.iter().max().unwrap();
    in_parallel(&damages, |(file, how, bytes)| {
        let damaged = copy_of(dir.path());
        let original = fs::read(dir.path().join(file)).unwrap();
        fs::write(damaged.path().join(file), bytes).unwrap();
        let what = format!("{} {how}", file.display());
        let first = original.iter().zip(bytes.iter()).position(|(a, b)| a != b).unwrap_or(bytes.len());
        let silent = match file.to_str() {
            Some("data") if bytes.len() < original.len() => bytes.len() as u64 > *last,
            Some("data") => !live.iter().any(|at| *at / 512 == first as u64 / 512),
            _ => may_be_silent(file, &original, first),
        };
        let shown = examine(damaged.path(), &whole, &what);
        assert!(shown != Detection::NotDetected || silent, "{what} was not found");
    });
    print_counts(&format!("damages={}", damages.len()));
    assert!(damages.len() > 500);
}

#[test]
fn a_missing_file_is_found() {
    let dir = scratch();
    let whole = fill(dir.path());
    for file in files(dir.path()) {
        let damaged = copy_of(dir.path());
        let file = file.strip_prefix(dir.path()).unwrap();
        fs::remove_file(damaged.path().join(file)).unwrap();
        let shown = examine_missing(damaged.path(), &whole, file);
        let expected = if is_optional(file) { Detection::NotDetected } else { Detection::AtOpen };
        assert_eq!(shown, expected, "{}", file.display());
    }
}

/// A directory without the format file is not a store, and the engine does not create a store in a
/// directory that is not empty.
fn examine_missing(dir: &Path, whole: &Contents, file: &Path) -> Detection {
    if file != Path::new("format") {
        return examine(dir, whole, &format!("without {}", file.display()));
    }
    let Err(error) = EmbeddedStore::open(dir, false, options()) else { panic!("it is no store") };
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    let Err(error) = EmbeddedStore::open(dir, true, options()) else { panic!("it is not empty") };
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    Detection::AtOpen
}
