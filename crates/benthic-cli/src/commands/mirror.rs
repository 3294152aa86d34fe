//! `benthic mirror`: makes a target equal to a source. The copy is that of `benthic cp -r`. Only
//! then, and only with `--remove`, the command looks up in the source each object of the target,
//! and removes those that it does not find. So it holds neither listing in memory.

use super::cp::between::{self, To};
use super::cp::plan::{Destination, Sources, Target, Upload};
use super::cp::{self, CopyArgs, Options, Tally, download, plan};
use crate::jobs;
use benthic_core::{Action, Error, ErrorKind, ObjectAddress, ObjectId, Pool, Result, Store};
use benthic_program::exit::{Failure, Outcome};
use benthic_program::local;
use benthic_program::session::Session;
use benthic_program::store::blocking;
use clap::Args;
use futures::stream;
use std::fs;
use std::io::ErrorKind as Io;
use std::path::{Path, PathBuf};
use std::slice;
use std::sync::Arc;

#[derive(Args)]
#[command(
    after_help = "The source and the target are a directory and POOL/PREFIX, in either direction, or two of \
    POOL/PREFIX. `benthic cp --help` explains how they are told apart, which files are skipped, and how the \
    command finds out that a copy is unchanged. Repeat an interrupted command to continue it.\n\n\
    With --remove, the command first copies. If anything fails or the source is empty, it removes nothing. It \
    leaves empty directories.\n\n\
    Examples:\n  benthic mirror ./photos photos/2026 --remove --dry-run\n  benthic mirror photos/2026 ./back\n  \
    benthic mirror photos photos --to-store file:./archive --create-pool"
)]
pub struct MirrorArgs {
    /// After the copy, remove what the source does not have from the target
    #[arg(long)]
    remove: bool,
    /// Print what would be copied and removed, and change nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    copy: CopyArgs,
    /// A directory, or POOL/PREFIX
    source: String,
    /// A directory, or POOL/PREFIX
    target: String,
}

pub async fn run(args: MirrorArgs, session: &Session) -> Outcome {
    let mut tally = Tally::new(session, if args.dry_run { "would copy" } else { "copied" });
    tally.removed = args.remove.then_some(0);
    let ended = mirror(&args, &mut tally).await;
    tally.finish(ended)
}

async fn mirror(args: &MirrorArgs, tally: &mut Tally<'_>) -> Outcome {
    let (session, place) = (tally.session, &args.copy.place);
    let options = args.copy.options(args.dry_run);
    let sources = slice::from_ref(&args.source);
    match plan::classify(sources)? {
        Sources::Paths(paths) => {
            let target = place.destination_of_files(&args.source, &args.target)?;
            let directory = PathBuf::from(&args.source);
            if directory.is_file() {
                return Err(Failure::Usage(format!(
                    "the source is a file; `benthic cp` copies files got={:?}",
                    args.source
                )));
            }
            let root = Root::new(directory);
            cp::upload_files(sources, paths, &target, true, place.create_pool, options, tally).await?;
            if !may_remove(tally)? {
                return Ok(());
            }
            let pool = session.pool(&target.pool).await?;
            let is_in_source = |name: String| {
                let root = root.clone();
                async move { blocking(move || root.has_file(&name)).await }
            };
            remove_objects(pool, &target, options, is_in_source, tally).await
        }
        Sources::Objects(sources) => {
            let source = sources[0].clone();
            match place.destination(&args.target, session).await? {
                Destination::Path(directory) => {
                    download::run(sources, &directory, true, options, tally).await?;
                    if !may_remove(tally)? {
                        return Ok(());
                    }
                    remove_files(directory, source, options, tally).await
                }
                Destination::Objects(target) => {
                    place
                        .in_store(session, async |there| {
                            let create_pool = place.create_pool;
                            let to = To { there, target: target.clone(), create_pool, moves: false };
                            between::run(sources, to, true, options, tally).await?;
                            if !may_remove(tally)? {
                                return Ok(());
                            }
                            let from = session.pool(&source.pool).await?;
                            let store = session.store().await?;
                            let is_in_source = |name: String| {
                                is_object(Arc::clone(&store), Arc::clone(&from), &source, &name)
                            };
                            let pool = there.pool(&target.pool).await?;
                            remove_objects(pool, &target, options, is_in_source, tally).await
                        })
                        .await
                }
            }
        }
    }
}

/// Returns whether to remove objects that the source does not have. After a failure, the command
/// cannot know which objects the source has.
fn may_remove(tally: &Tally<'_>) -> Outcome<bool> {
    if tally.removed.is_none() {
        return Ok(false);
    }
    if tally.failures.count() > 0 {
        tally.session.out.warning("nothing was removed, because the copy failed in part");
        return Ok(false);
    }
    if tally.found() == 0 {
        let message = "the source is empty, and --remove would remove everything; check the source";
        return Err(Error::new(ErrorKind::NotFound, message).into());
    }
    Ok(true)
}

/// The outcome for an object or file of the target.
enum Removal {
    Kept,
    Removed,
    /// The whole source is gone, so the command must not remove anything more.
    NoSource(Error),
}

async fn remove_unless(
    is_in_source: impl Future<Output = Result<bool>>,
    dry_run: bool,
    remove: impl Future<Output = Result<()>>,
) -> Result<Removal> {
    match is_in_source.await {
        Ok(true) => Ok(Removal::Kept),
        Ok(false) if dry_run => Ok(Removal::Removed),
        Ok(false) => remove.await.map(|()| Removal::Removed),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Removal::NoSource(error)),
        Err(error) => Err(error),
    }
}

/// Removes the objects below the target that the source does not have.
async fn remove_objects<F>(
    pool: Arc<dyn Pool>,
    target: &Target,
    options: Options,
    is_in_source: impl Fn(String) -> F,
    tally: &mut Tally<'_>,
) -> Outcome
where
    F: Future<Output = Result<bool>> + Send + 'static,
{
    let listed = plan::objects(Arc::clone(&pool), target, true)?;
    let job = |(object, name): (ObjectId, String)| {
        let (is_in_source, pool) = (is_in_source(name), Arc::clone(&pool));
        async move {
            let removed = remove_unless(is_in_source, options.dry_run, pool.remove(&object)).await;
            (object, removed)
        }
    };
    jobs::run(listed, options.limits(tally.session), job, |(object, removed)| match removed {
        Ok(Removal::Kept) => Ok(()),
        Ok(Removal::Removed) => tally.add_removed(&target.pool, &object, None),
        Ok(Removal::NoSource(error)) => Err(error.into()),
        Err(error) => {
            tally.failures.push(ObjectAddress { pool: target.pool.clone(), object }.to_string(), error);
            Ok(())
        }
    })
    .await
}

/// Removes the files below a directory that have no object below the source.
async fn remove_files(
    directory: PathBuf,
    source: Target,
    options: Options,
    tally: &mut Tally<'_>,
) -> Outcome {
    let pool = tally.session.pool(&source.pool).await?;
    let pool_name = source.pool.clone();
    let (store, store_directory) = (tally.session.store().await?, tally.session.directory());
    let files = blocking(move || Ok(plan::plan_removal(&directory, &source, store_directory.as_deref())));
    let files = files.await?;
    for (path, error) in files.refused {
        tally.failures.push(path, error);
    }
    let job = |file: Upload| {
        let (store, pool) = (Arc::clone(&store), Arc::clone(&pool));
        async move {
            let is_in_source = exists(&*store, &*pool, &file.object);
            let remove = async { remove_file(&file.path) };
            let removed = remove_unless(is_in_source, options.dry_run, remove).await;
            (file, removed)
        }
    };
    jobs::run(
        stream::iter(files.uploads.into_iter().map(Ok)),
        options.limits(tally.session),
        job,
        |(file, removed)| {
            let path = file.path.to_string_lossy();
            match removed {
                Ok(Removal::Kept) => Ok(()),
                Ok(Removal::Removed) => tally.add_removed(&pool_name, &file.object, Some(&path)),
                Ok(Removal::NoSource(error)) => Err(error.into()),
                Err(error) => {
                    tally.failures.push(path, error);
                    Ok(())
                }
            }
        },
    )
    .await
}

/// Returns whether an object with this name is below a prefix.
fn is_object(
    store: Arc<dyn Store>,
    pool: Arc<dyn Pool>,
    below: &Target,
    name: &str,
) -> impl Future<Output = Result<bool>> + Send + 'static + use<> {
    let object = ObjectId::in_namespace(below.namespace.clone(), below.below() + name);
    async move {
        match object {
            Ok(object) => exists(&*store, &*pool, &object).await,
            // The prefix makes the name too long for an object.
            Err(_) => Ok(false),
        }
    }
}

/// # Errors
/// `NotFound` if there is no such pool any more.
async fn exists(store: &dyn Store, pool: &dyn Pool, object: &ObjectId) -> Result<bool> {
    match pool.stat(object).await {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            store.open_pool(pool.name()).await.map(|_| false)
        }
        found => found.map(|_| true),
    }
}

/// The directory that is the source.
#[derive(Clone)]
struct Root {
    path: PathBuf,
    identity: Option<(u64, u64)>,
}

impl Root {
    fn new(path: PathBuf) -> Root {
        Root { identity: local::identity(&path), path }
    }

    /// Returns whether there is a file of this name below the directory.
    ///
    /// # Errors
    /// `NotFound` if the directory is not there any more, for example after an unmount.
    fn has_file(&self, name: &str) -> Result<bool> {
        // No file can have a name that leads outside the directory.
        let Ok(path) = local::local_path(&self.path, name) else { return Ok(false) };
        match fs::metadata(&path) {
            Ok(metadata) => return Ok(metadata.is_file()),
            Err(error) if matches!(error.kind(), Io::NotFound | Io::NotADirectory | Io::InvalidFilename) => {}
            Err(error) => {
                let message = "cannot look up the file";
                return Err(Error::io(Action::Admin, message, error).with("path", path.display()));
            }
        }
        if local::identity(&self.path) == self.identity {
            return Ok(false);
        }
        let message = "the source directory is gone, so nothing more is removed";
        Err(Error::new(ErrorKind::NotFound, message).with("path", self.path.display()))
    }
}

fn remove_file(path: &Path) -> Result<()> {
    let failed =
        |error| Error::io(Action::Admin, "cannot remove the file", error).with("path", path.display());
    fs::remove_file(path).map_err(failed)
}
