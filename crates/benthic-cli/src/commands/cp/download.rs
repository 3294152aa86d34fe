//! Copies objects to files.

use super::plan::Target;
use super::{ATTEMPTS, Copied, Options, Tally, copy_objects};
use crate::jobs;
use benthic_classes::digest::{Algorithm, Hasher};
use benthic_core::{Action, Error, ErrorKind, ObjectAddress, ObjectId, Pool, Result};
use benthic_program::exit::Outcome;
use benthic_program::interrupt;
use benthic_program::local::{self, NewFile};
use benthic_program::store::blocking;
use benthic_program::transfer::{self, Download, StoredObject};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub async fn run(
    sources: Vec<Target>,
    destination: &Path,
    recursive: bool,
    options: Options,
    tally: &mut Tally<'_>,
) -> Outcome {
    let into_directory = recursive
        || sources.len() > 1
        || destination.as_os_str().as_encoded_bytes().ends_with(b"/")
        || destination.is_dir();
    let path_of = |name: &str| {
        if into_directory { local::local_path(destination, name) } else { Ok(destination.to_owned()) }
    };
    let store = tally.session.directory().map(Arc::from);
    let job = move |pool: Arc<dyn Pool>, object: ObjectId, path: PathBuf| {
        let store = store.clone();
        async move {
            check_target(&path, into_directory, store).await?;
            jobs::until_stopped(Action::Read, copy(&*pool, &object, &path, options)).await
        }
    };
    let report = |tally: &mut Tally<'_>, from: &ObjectAddress, path: &PathBuf, copied: &Copied| {
        tally.pool.clone_from(&from.pool);
        tally.add(&from.object, ("path", &path.to_string_lossy()), copied)
    };
    copy_objects(sources, recursive, options, tally, path_of, job, report).await
}

/// Refuses to replace a part of the store, and to write into a pipe or device below a directory.
pub async fn check_target(path: &Path, in_directory: bool, store: Option<Arc<Path>>) -> Result<()> {
    let target = path.to_owned();
    let refused = blocking(move || {
        if store.is_some_and(|store| local::is_inside(&target, &store)) {
            return Ok(Some("this path is a part of the store; choose another destination"));
        }
        let is_special = fs::metadata(&target).is_ok_and(|found| !found.is_file() && !found.is_dir());
        Ok((in_directory && is_special)
            .then_some("a pipe or device has this name; `benthic get` writes to it"))
    });
    match refused.await? {
        Some(message) => Err(Error::invalid_argument(message).with("path", path.display())),
        None => Ok(()),
    }
}

async fn copy(pool: &dyn Pool, object: &ObjectId, path: &Path, options: Options) -> Result<Copied> {
    let mut attempt = 1;
    loop {
        match copy_once(pool, object, path, options).await {
            Err(error) if error.kind() == ErrorKind::Conflict && attempt < ATTEMPTS => attempt += 1,
            copied => return copied,
        }
    }
}

async fn copy_once(pool: &dyn Pool, object: &ObjectId, path: &Path, options: Options) -> Result<Copied> {
    let known = transfer::read_state(pool, object).await?;
    let size_bytes = known.stat.size_bytes;
    if is_copied(pool, object, path, &known, options.checksum).await? {
        return Ok(Copied { unchanged: true, size_bytes });
    }
    if options.dry_run {
        return Ok(Copied { unchanged: false, size_bytes });
    }
    let target = path.to_owned();
    let mut file = blocking(move || {
        if let Some(parent) = target.parent() {
            fs::create_dir_all(parent).map_err(local::failed("cannot create the directory", parent))?;
        }
        NewFile::create(&target)
    })
    .await?;
    let mut hasher = Hasher::new(Algorithm::Xxh3);
    let mut download = Download::of_version(pool, object, known.version, size_bytes);
    while let Some(data) = download.next().await? {
        if interrupt::is_set() {
            return Err(Error::unavailable("interrupted before the file was complete"));
        }
        (file, hasher) = blocking(move || {
            hasher.update(&data);
            file.write(&data)?;
            Ok((file, hasher))
        })
        .await?;
    }
    let is_source = !options.check || is_source(pool, object, &known, hasher.finish()).await?;
    let modified = known.source.filter(|_| is_source).map(|source| source.modified_unix_ns);
    let modified = modified.or_else(|| i64::try_from(known.stat.modified_unix_ns).ok());
    blocking(move || file.finish(modified)).await?;
    Ok(Copied { unchanged: false, size_bytes })
}

/// Returns whether the file is already a copy of the object.
async fn is_copied(
    pool: &dyn Pool,
    object: &ObjectId,
    path: &Path,
    known: &StoredObject,
    checksum: bool,
) -> Result<bool> {
    let Ok(metadata) = fs::metadata(path) else { return Ok(false) };
    if !metadata.is_file() || metadata.len() != known.stat.size_bytes {
        return Ok(false);
    }
    if checksum {
        let path = path.to_owned();
        let here = blocking(move || {
            let mut hasher = Hasher::new(Algorithm::Xxh3);
            hasher.update(&local::read_file(&path)?.data);
            Ok(hasher.finish())
        });
        return Ok(here.await? == transfer::stored_xxh3(pool, object, known.version).await?);
    }
    let modified = local::modified_unix_ns(&metadata);
    Ok(known.source.as_ref().is_some_and(|source| source.modified_unix_ns == modified)
        || i64::try_from(known.stat.modified_unix_ns) == Ok(modified))
}

/// Returns whether the data read match the recorded source file; then the copy is verified. If they
/// do not match, another client may have changed the object and left the record in place. The
/// function then compares the data with the stored data.
async fn is_source(pool: &dyn Pool, object: &ObjectId, known: &StoredObject, read: String) -> Result<bool> {
    match &known.source {
        None => Ok(false),
        Some(source) if source.xxh3 == read => Ok(true),
        Some(_) if transfer::stored_xxh3(pool, object, known.version).await? == read => Ok(false),
        Some(source) => {
            Err(Error::corrupt("the data read differ from the stored data; copy the object again")
                .with("read", read)
                .with("copied", &source.xxh3))
        }
    }
}
