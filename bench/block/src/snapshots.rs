//! Snapshots, clones and opening of an image of 1 TiB, through the library.

use crate::{Setting, fresh};
use bench_harness::Outcome;
use bench_harness::report::{Aim, Section};
use benthic_block::pool::PoolImages;
use benthic_block::{CreateOptions, Geometry, Image, Images, OpenMode, Zeroes};
use benthic_core::{Durability, Environment, Stopwatch, Store, SystemClock};
use benthic_embedded::{EmbeddedStore, Options};
use futures::stream::{self, StreamExt, TryStreamExt};

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
    images.create("i", CreateOptions { size_bytes: TIB, geometry: Geometry::default() }).await?;
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

/// Writes 4 KiB to each of the first objects.
async fn touch(image: &dyn Image, objects: u64) -> Outcome {
    let writes = stream::iter(0..objects)
        .map(|object| image.write(object * OBJECT_BYTES, vec![7; 4096].into(), Durability::Buffered));
    Ok(writes.buffer_unordered(64).try_for_each(|()| async { Ok(()) }).await?)
}
