//! `benthic array export`: copies an array or group into a Zarr directory.

use super::{place, watch_progress};
use benthic_array::{ArrayAddress, CREATION_MARKER, Node, Place, is_metadata, is_statistics, writing_order};
use benthic_core::{Error, ErrorKind, ObjectId, Result};
use benthic_program::exit::Outcome;
use benthic_program::local::{self, NewFile};
use benthic_program::progress::Progress;
use benthic_program::session::Session;
use benthic_program::store::blocking;
use benthic_program::transfer::Download;
use benthic_program::units;
use clap::Args;
use futures::{TryStreamExt, stream};
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of objects that are copied at once.
const COPIES_AT_ONCE: usize = 8;

/// Arguments of `benthic array export`.
#[derive(Args)]
#[command(after_help = "\
Every object below the array or group becomes a file, so that zarr-python and other programs read the directory. The metadata \
are copied last. A group that was created with --reference has no such objects and cannot be exported. Objects are copied one by one: do not change the array meanwhile. If the command is interrupted, remove the directory and repeat it.

Examples:
  benthic array export climate/era5 ./era5.zarr
  benthic array export climate/era5/t2m ./t2m.zarr --json")]
pub struct ExportArgs {
    /// The array or group: POOL[:NS]/PATH
    place: ArrayAddress,
    /// The new directory
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

#[derive(Default)]
struct Tally {
    objects: AtomicU64,
    bytes: AtomicU64,
}

pub async fn run(args: ExportArgs, session: &Session) -> Outcome {
    let place = place(&args.place, session).await?;
    // An array of an unknown type or codec can be copied, too.
    if let Err(error) = place.node().await
        && error.kind() == ErrorKind::NotFound
    {
        return Err(error.into());
    }
    check_no_file(&place).await?;
    let (directory, store) = (args.directory.clone(), session.directory());
    blocking(move || prepare(&directory, store.as_deref())).await?;
    let tally = Tally::default();
    let progress = Progress::bytes("copying", 0);
    let export = export(&place, &args.directory, &tally);
    watch_progress(&progress, || tally.bytes.load(Ordering::Relaxed), export).await?;
    let (objects, bytes) = (tally.objects.into_inner(), tally.bytes.into_inner());
    let text = format!(
        "{}: {} with {}",
        units::one_line_path(&args.directory),
        units::count(objects, "object"),
        units::size(bytes)
    );
    session.out.result(text, || {
        json!({
            "array": args.place.to_string(), "path": args.directory, "objects": objects, "bytes": bytes,
        })
    })
}

/// Fails if an array has its chunks in a file: they are not chunks of a Zarr directory.
async fn check_no_file(place: &Place) -> Result<()> {
    for listed in benthic_array::list(place).await? {
        if let Ok(Node::Array(array)) = listed.node
            && let Some(references) = array.references
        {
            let message = "the chunks of this array are in a stored file, whose objects `benthic get` copies; \
                the `to_zarr` of xarray makes a Zarr directory of it";
            return Err(Error::unsupported(message).with("array", listed.path).with("file", references.file));
        }
    }
    Ok(())
}

/// Creates the directory, which must be new or empty.
fn prepare(directory: &Path, store: Option<&Path>) -> Result<()> {
    let refused = |kind, message: &str| Err(Error::new(kind, message).with("path", directory.display()));
    if store.is_some_and(|store| local::is_inside(directory, store)) {
        return refused(
            ErrorKind::InvalidArgument,
            "this path is a part of the store; choose another directory",
        );
    }
    fs::create_dir_all(directory).map_err(local::failed("cannot create the directory", directory))?;
    let entries = fs::read_dir(directory).map_err(local::failed("cannot read the directory", directory))?;
    if entries.count() > 0 {
        return refused(ErrorKind::AlreadyExists, "the directory is not empty; choose a new one");
    }
    Ok(())
}

/// Copies the chunks, then the metadata, those of the place itself last: until then, no program
/// finds an array in the directory.
async fn export(place: &Place, directory: &Path, tally: &Tally) -> Result<()> {
    let prefix_bytes = place.prefix().len();
    let copy = |object: ObjectId| async move {
        let path = local::local_path(directory, &object.name()[prefix_bytes..])?;
        let copied = copy(place, &object, path, tally).await;
        copied.map_err(|error| error.with("object", &object))
    };
    let marker = place.object(CREATION_MARKER)?;
    let mut metadata = Vec::new();
    let mut pages = std::pin::pin!(place.names());
    while let Some(page) = pages.try_next().await? {
        let (documents, chunks): (Vec<ObjectId>, Vec<ObjectId>) = page
            .into_iter()
            .filter(|object| *object != marker && !has_statistics(object))
            .partition(|object| is_metadata(object.name()));
        metadata.extend(documents);
        let chunks = stream::iter(chunks.into_iter().map(Ok));
        chunks.try_for_each_concurrent(COPIES_AT_ONCE, copy).await?;
    }
    metadata.sort_by_key(|object| writing_order(object.name()));
    for object in metadata {
        copy(object).await?;
    }
    Ok(())
}

/// Statistics name versions of objects, so they mean nothing in a directory.
fn has_statistics(object: &ObjectId) -> bool {
    let name = object.name();
    name.match_indices('/').any(|(at, _)| is_statistics(&name[at + 1..])) || is_statistics(name)
}

async fn copy(place: &Place, object: &ObjectId, path: PathBuf, tally: &Tally) -> Result<()> {
    let mut download = Download::start(&*place.pool, object).await?;
    let create = move || {
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(local::failed("cannot create the directory", parent))?;
        }
        NewFile::create(&path)
    };
    let mut file = blocking(create).await?;
    while let Some(data) = download.next().await? {
        tally.bytes.fetch_add(data.len() as u64, Ordering::Relaxed);
        file = blocking(move || file.write(&data).map(|()| file)).await?;
    }
    blocking(move || file.finish(None)).await?;
    tally.objects.fetch_add(1, Ordering::Relaxed);
    Ok(())
}
