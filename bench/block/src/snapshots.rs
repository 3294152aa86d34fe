//! Snapshots, clones and opening of an image of 1 TiB, through the library.

use crate::{Setting, fresh};
use bench_harness::report::{Aim, Section};
use bench_harness::{Outcome, noise};
use benthic_block::pool::PoolImages;
use benthic_block::{CreateOptions, Geometry, Image, Images, OpenMode, Zeroes};
use benthic_core::{Durability, Environment, Stopwatch, Store, SystemClock};
use benthic_embedded::{EmbeddedStore, Options};
use futures::stream::{self, StreamExt, TryStreamExt};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

const TIB: u64 = 1 << 40;
const OBJECT_BYTES: u64 = 4 << 20;

pub fn run(setting: &Setting) -> Outcome<Section> {
    let note = "An image of 1 TiB in a directory. 10% of its objects have data, 4 KiB each, so that it fits on the disk.";
    let mut section = Section { title: "Snapshots of 1 TiB", note: note.to_owned(), rows: Vec::new() };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    for round in 0..setting.rounds {
        eprintln!("    round {}", round + 1);
        fresh(setting)?;
        runtime.block_on(measure(setting, &mut section))?;
        fresh(setting)?;
        runtime.block_on(measure_space(setting, &mut section))?;
    }
    std::fs::remove_dir_all(&setting.dir)?;
    Ok(section)
}

fn ms(since: Stopwatch<'_>) -> [f64; 1] {
    [since.elapsed().as_secs_f64() * 1e3]
}

async fn measure(setting: &Setting, section: &mut Section) -> Outcome {
    let options = Options::default().with_classes(benthic_classes::registry());
    let store = EmbeddedStore::open(&setting.dir.join("store"), true, options)?;
    store.create_pool("p").await?;
    let images = PoolImages::new(store.clone(), store.open_pool("p").await?, Environment::default());
    images.create("i", CreateOptions::new(TIB, Geometry::default())).await?;
    let image = images.open("i", None, OpenMode::Write).await?;
    let written = if setting.quick { 1_000 } else { TIB / OBJECT_BYTES / 10 };
    touch(&*image, written).await?;
    image.flush().await?;

    let began = Stopwatch::start(&SystemClock);
    image.create_snapshot("s").await?;
    section.push("taking the first snapshot", "ms", Aim::AtMost(50.0), ms(began), []);
    for number in 0..99 {
        image.create_snapshot(&format!("s{number}")).await?;
    }
    let began = Stopwatch::start(&SystemClock);
    image.create_snapshot("last").await?;
    section.push("taking the 101st snapshot", "ms", Aim::AtMost(50.0), ms(began), []);
    let began = Stopwatch::start(&SystemClock);
    images.clone_snapshot("i", "last", "clone").await?;
    section.push("creating a clone", "ms", Aim::AtMost(50.0), ms(began), []);
    image.close().await?;
    let began = Stopwatch::start(&SystemClock);
    let image = images.open("i", None, OpenMode::Write).await?;
    section.push("opening for writing", "ms", Aim::AtMost(20.0), ms(began), []);
    let began = Stopwatch::start(&SystemClock);
    let taken = images.open("i", None, OpenMode::TakeOver).await?;
    section.push("taking over, nothing written since the snapshot", "ms", Aim::None, ms(began), []);
    drop(image);
    touch(&*taken, written).await?;
    let began = Stopwatch::start(&SystemClock);
    let taken = images.open("i", None, OpenMode::TakeOver).await?;
    section.push("taking over, all objects written since the snapshot", "ms", Aim::None, ms(began), []);
    let began = Stopwatch::start(&SystemClock);
    taken.write_zeroes(0, TIB, Zeroes::Punch, Durability::Durable).await?;
    section.push("discarding all of it", "ms", Aim::AtMost(1_000.0), ms(began), []);
    let began = Stopwatch::start(&SystemClock);
    taken.remove_snapshot("s50").await?;
    section.push("removing a snapshot that shares everything", "ms", Aim::None, ms(began), []);
    taken.close().await?;
    Ok(store.close()?)
}

/// Overwrites an image ten times in random order, after a snapshot, and compares the space of the
/// directory with the bytes of the image and of the snapshot.
async fn measure_space(setting: &Setting, section: &mut Section) -> Outcome {
    const SIZE_BYTES: u64 = 256 << 20;
    const BLOCK_BYTES: u64 = 16 << 10;
    const BLOCKS: u64 = SIZE_BYTES / BLOCK_BYTES;
    let dir = setting.dir.join("store");
    let options = Options::default().with_classes(benthic_classes::registry());
    let store = EmbeddedStore::open(&dir, true, options)?;
    store.create_pool("p").await?;
    let images = PoolImages::new(store.clone(), store.open_pool("p").await?, Environment::default());
    images.create("i", CreateOptions::new(SIZE_BYTES, Geometry::default())).await?;
    let image = images.open("i", None, OpenMode::Write).await?;
    for round in 0..if setting.quick { 2 } else { 11 } {
        // An odd factor visits every block once.
        let places = (0..BLOCKS).map(|number| (number * 7_919 + round) % BLOCKS * BLOCK_BYTES);
        let writes = stream::iter(places)
            .map(|at| image.write(at, noise(BLOCK_BYTES as usize).into(), Durability::Buffered));
        writes.buffer_unordered(16).try_for_each(|()| async { Ok(()) }).await?;
        if round == 0 {
            image.create_snapshot("s").await?;
        }
    }
    image.close().await?;
    store.close()?;
    let ratio = stored_bytes(&dir)? as f64 / (2 * SIZE_BYTES) as f64;
    section.push("space after 10 overwrites, of image and snapshot", "times", Aim::AtMost(1.3), [ratio], []);
    Ok(())
}

/// The space that a directory takes on the disk.
fn stored_bytes(dir: &Path) -> Outcome<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        bytes += match entry.file_type()?.is_dir() {
            true => stored_bytes(&entry.path())?,
            false => entry.metadata()?.blocks() * 512,
        };
    }
    Ok(bytes)
}

/// Writes 4 KiB to each of the first objects.
pub async fn touch(image: &dyn Image, objects: u64) -> Outcome {
    let writes = stream::iter(0..objects)
        .map(|object| image.write(object * OBJECT_BYTES, vec![7; 4096].into(), Durability::Buffered));
    Ok(writes.buffer_unordered(64).try_for_each(|()| async { Ok(()) }).await?)
}
