//! Damage is found, named, and never served.

use crate::support::{block_on, files, id, noise, open, options, with_pool};
use benthic_core::{ErrorKind, Pool, ReadOp, ReadOutput, Result, Store, WriteOp};
use benthic_embedded::EmbeddedStore;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

fn fill(dir: &Path) {
    let (store, pool) = with_pool(dir);
    for (name, size) in [("empty", 0), ("inline", 900), ("blocks", 70_000), ("stream", 200_000)] {
        let op = WriteOp::new()
            .write_full(noise(size as u64, size))
            .set_xattr("name", name)
            .omap_set([("key", name)]);
        block_on(pool.write(&id(name), op)).unwrap();
    }
    block_on(pool.write(&id("blocks"), WriteOp::new().write(5_000, noise(5, 100)))).unwrap();
    store.close().unwrap();
}

type Contents = BTreeMap<String, (Vec<u8>, Vec<ReadOutput>)>;

/// All that a store gives out: what cannot be read is absent.
fn contents(pool: &dyn Pool) -> (Contents, Vec<ErrorKind>) {
    let mut errors = Vec::new();
    let mut found = Contents::new();
    for name in ["empty", "inline", "blocks", "stream"] {
        let read = || -> Result<_> {
            let op = ReadOp::new().read(0, 1 << 20).list_xattrs().omap_range(None, "", 100);
            let mut outputs = block_on(pool.read(&id(name), op))?.outputs;
            let ReadOutput::Data(data) = outputs.remove(0) else { panic!("no data") };
            Ok((data.to_vec(), outputs))
        };
        match read() {
            Ok(content) => {
                found.insert(name.to_owned(), content);
            }
            Err(error) => errors.push(error.kind()),
        }
    }
    (found, errors)
}

/// Opens a damaged store and checks that all that it gives out is right; says whether the damage showed.
fn examine(dir: &Path, whole: &Contents, what: &str) -> bool {
    let store = match EmbeddedStore::open(dir, false, options()) {
        Ok(store) => store,
        Err(error) => {
            assert!(
                matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Unsupported | ErrorKind::Internal),
                "{what}: {error}"
            );
            return true;
        }
    };
    let pool = match block_on(store.open_pool("p")) {
        Ok(pool) => pool,
        Err(error) => panic!("{what}: the pool is gone: {error}"),
    };
    let (found, errors) = contents(pool.as_ref());
    for (name, content) in &found {
        assert!(content == &whole[name], "{what}: wrong bytes were served of {name}");
    }
    assert!(errors.iter().all(|kind| *kind == ErrorKind::Corrupt), "{what}: {errors:?}");
    let damage = block_on(pool.scrub(None)).map(|page| page.damage.len()).unwrap_or(1);
    if !errors.is_empty() {
        assert!(damage > 0, "{what}: the scrub did not find what a read found");
    }
    !errors.is_empty() || damage > 0
}

#[test]
fn flipped_bits_are_never_served() {
    let whole_dir = tempfile::tempdir().unwrap();
    fill(whole_dir.path());
    let whole = {
        let store = open(whole_dir.path());
        let (whole, errors) = contents(crate::support::pool(&store).as_ref());
        assert_eq!(errors, []);
        whole
    };
    let (mut flips, mut shown) = (0, 0);
    for file in files(whole_dir.path()) {
        let relative = file.strip_prefix(whole_dir.path()).unwrap().to_owned();
        let bytes = fs::read(&file).unwrap();
        let in_data = relative == Path::new("data");
        let step = (bytes.len() / 60).max(1);
        for at in (0..bytes.len()).step_by(step) {
            let damaged = crate::support::copy_of_running(whole_dir.path());
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << (at % 8);
            fs::write(damaged.path().join(&relative), flipped).unwrap();
            flips += 1;
            shown += usize::from(examine(damaged.path(), &whole, &format!("{} at {at}", relative.display())));
            if in_data {
                continue;
            }
        }
    }
    assert!(flips > 200 && shown > flips / 2, "flips={flips} shown={shown}");
}

#[test]
fn a_flip_in_data_names_object_and_offset() {
    let dir = tempfile::tempdir().unwrap();
    fill(dir.path());
    let data = dir.path().join("data");
    let mut bytes = fs::read(&data).unwrap();
    let wanted = &noise(200_000, 200_000)[70_000..70_016];
    let at = bytes.windows(16).position(|window| window == wanted).unwrap();
    bytes[at] ^= 1;
    fs::write(&data, bytes).unwrap();
    let store = open(dir.path());
    let pool = crate::support::pool(&store);
    let error = block_on(pool.read_range(&id("stream"), 69_000, 2_000)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(
        error.to_string().contains("object=p/stream offset_bytes=65536")
            || error.to_string().contains("offset_bytes=65536 object=p/stream"),
        "{error}"
    );
    assert!(
        block_on(pool.read_range(&id("stream"), 0, 65_536)).is_ok(),
        "the rest of the object is readable"
    );
    let damage = block_on(pool.scrub(None)).unwrap().damage;
    assert_eq!(damage.len(), 1, "one place, one damage: {damage:?}");
    assert_eq!((&damage[0].object, damage[0].offset_bytes), (&Some(id("stream")), Some(65_536)));
    // A write that would have to merge with damaged bytes fails, and one that replaces them repairs.
    let error = block_on(pool.write(&id("stream"), WriteOp::new().write(70_100, "x"))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    block_on(pool.write(&id("stream"), WriteOp::new().write(65_536, noise(1, 65_536)))).unwrap();
    assert_eq!(block_on(pool.scrub(None)).unwrap().damage, []);
}
