//! Copies objects to files.

use super::plan::{self, Target};
use super::{Copied, Options, Tally};
use crate::jobs;
use benthic_classes::digest::{Algorithm, Hasher};
use benthic_core::{Action, Error, ErrorKind, Namespaces, ObjectAddress, ObjectId, Pool, Result};
use benthic_program::exit::{Failure, Outcome};
use benthic_program::interrupt;
use benthic_program::local::{self, NewFile};
use benthic_program::progress::Progress;
use benthic_program::session::Session;
use benthic_program::store::blocking;
use benthic_program::transfer::{self, Download, StoredObject};
use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};
use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Attempts to copy an object that another client writes during the copy.
const ATTEMPTS: usize = 5;

/// An object and its target file, or the reason why it has none.
type CopyTask = (ObjectId, Result<PathBuf>);

pub async fn run(
    sources: Vec<Target>,
    destination: &str,
    recursive: bool,
    options: Options,
    session: &Session,
) -> Outcome {
    let into_directory =
        recursive || sources.len() > 1 || destination.ends_with('/') || Path::new(destination).is_dir();
    let progress = Progress::objects("copying");
    let mut tally = Tally::new(session, "");
    let mut taken = HashSet::new();
    let several = sources.len() > 1;
    let mut opened = Vec::new();
    for source in sources {
        let pool = session.pool(&source.pool).await;
        opened.push((pool.map_err(|error| error.with("note", "there is no such file either"))?, source));
    }
    let mut ended = Ok(());
    for (pool, source) in opened {
        tally.pool.clone_from(&source.pool);
        let tasks =
            list_tasks(Arc::clone(&pool), &source, Path::new(destination), into_directory, recursive)?;
        let tasks = tasks.map_ok(|(object, path)| {
            let twice = several && path.as_ref().is_ok_and(|path| !taken.insert(path.clone()));
            let message = "another source has the same path in the destination";
            (object, if twice { Err(Error::new(ErrorKind::InvalidArgument, message)) } else { path })
        });
        let job = |(object, path): CopyTask| {
            let pool = Arc::clone(&pool);
            async move {
                let copied = match path {
                    Ok(path) => jobs::until_stopped(Action::Read, copy(&*pool, &object, &path, options))
                        .await
                        .map(|copied| (path, copied)),
                    Err(error) => Err(error),
                };
                (object, copied)
            }
        };
        let mut found = false;
        ended = jobs::run(tasks, options.limits(session), job, |(object, copied)| {
            found = true;
            match copied {
                Ok((path, copied)) => {
                    progress.advance(1);
                    progress.suspend(|| tally.add(&path.to_string_lossy(), &object, &copied))
                }
                Err(error) => {
                    let address = ObjectAddress { pool: source.pool.clone(), object };
                    tally.failures.push(address.to_string(), error);
                    Ok(())
                }
            }
        })
        .await;
        if ended.is_err() {
            break;
        }
        if !found {
            let error = Error::new(ErrorKind::NotFound, "no objects here; `benthic ls` lists the objects");
            tally.failures.push(format!("{}/{}", source.pool, source.below()), error);
        }
    }
    drop(progress);
    tally.finish(0, ended)
}

fn list_tasks(
    pool: Arc<dyn Pool>,
    source: &Target,
    destination: &Path,
    into_directory: bool,
    recursive: bool,
) -> Outcome<BoxStream<'static, Result<CopyTask>>> {
    let destination = destination.to_owned();
    if recursive {
        let prefix = source.below();
        let listed = jobs::objects(pool, Namespaces::One(source.namespace.clone()), prefix.clone());
        return Ok(listed
            .map_ok(move |object| {
                let below = object.name().strip_prefix(&prefix).unwrap_or_default();
                let path = plan::local_path(&destination, below);
                (object, path)
            })
            .boxed());
    }
    if source.is_directory() {
        return Err(Failure::Usage(format!(
            "name an object, or use -r for all objects below the prefix got=\"{}/{}\"",
            source.pool, source.prefix
        )));
    }
    let object = ObjectId::in_namespace(source.namespace.clone(), source.prefix.clone())?;
    let path = if into_directory {
        plan::local_path(&destination, object.name().rsplit('/').next().unwrap_or_default())
    } else {
        Ok(destination)
    };
    Ok(stream::iter([Ok((object, path))]).boxed())
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
    let target = path.to_owned();
    let mut file = blocking(move || {
        if let Some(parent) = target.parent() {
            fs::create_dir_all(parent).map_err(|error| {
                Error::io(benthic_core::Action::Admin, "cannot create the directory", error)
                    .with("path", parent.display())
            })?;
        }
        NewFile::create(&target)
    })
    .await?;
    let mut hasher = Hasher::new(Algorithm::Xxh3);
    let mut download = Download::of_version(pool, object, known.version, size_bytes);
    while let Some(data) = download.next().await? {
        if interrupt::is_set() {
            return Err(Error::new(ErrorKind::Unavailable, "interrupted before the file was complete"));
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
/// function then compares the data with what is stored.
async fn is_source(pool: &dyn Pool, object: &ObjectId, known: &StoredObject, read: String) -> Result<bool> {
    match &known.source {
        None => Ok(false),
        Some(source) if source.xxh3 == read => Ok(true),
        Some(_) if transfer::stored_xxh3(pool, object, known.version).await? == read => Ok(false),
        Some(source) => Err(Error::new(
            ErrorKind::Corrupt,
            "the data read differ from the stored data; copy the object again",
        )
        .with("read", read)
        .with("copied", &source.xxh3)),
    }
}
