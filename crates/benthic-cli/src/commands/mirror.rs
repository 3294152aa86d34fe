//! `benthic mirror`: makes a target equal to a source. The copy is that of `benthic cp -r`. Only then,
//! and only with `--remove`, the command looks up in the source what the target has, and removes what
//! it does not find. So it holds neither listing in memory.

use super::cp::between::{self, To};
use super::cp::plan::{Destination, Sources, Target, Upload};
use super::cp::{self, Options, Tally, download, in_store, plan};
use crate::jobs;
use benthic_core::{Action, Error, ErrorKind, ObjectAddress, ObjectId, Pool, Result};
use benthic_program::exit::{Failure, Outcome};
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
    /// Concurrent copies [default: two per core, 8 to 16]
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// Compare contents instead of size and time to find what is already copied
    #[arg(long)]
    checksum: bool,
    /// Do not verify the copies
    #[arg(long)]
    no_check: bool,
    /// Create the pool of the target, and the store, if they do not exist
    #[arg(long)]
    create_pool: bool,
    /// For copies from object to object: the store of the target [default: that of the source]
    #[arg(long, value_name = "URI")]
    to_store: Option<String>,
    /// A directory, or POOL/PREFIX
    source: String,
    /// A directory, or POOL/PREFIX
    target: String,
}

pub async fn run(args: MirrorArgs, session: &Session) -> Outcome {
    let options = Options {
        jobs: args.jobs.unwrap_or_else(jobs::default_jobs),
        checksum: args.checksum,
        check: !args.no_check,
        dry_run: args.dry_run,
    };
    let mut tally = Tally::new(session, if args.dry_run { "would copy" } else { "copied" });
    tally.removed = args.remove.then_some(0);
    let ended = mirror(&args, options, &mut tally).await;
    tally.finish(ended)
}

async fn mirror(args: &MirrorArgs, options: Options, tally: &mut Tally<'_>) -> Outcome {
    let (session, to_store) = (tally.session, args.to_store.as_ref());
    let sources = slice::from_ref(&args.source);
    match plan::classify(sources)? {
        Sources::Paths(paths) => {
            cp::check_store_of_files(to_store)?;
            let target = plan::target(&args.source, &args.target)?;
            let directory = PathBuf::from(&args.source);
            if directory.is_file() {
                return Err(Failure::Usage(format!(
                    "the source is a file; `benthic cp` copies files got={:?}",
                    args.source
                )));
            }
            cp::upload_files(sources, paths, &target, true, args.create_pool, options, tally).await?;
            if !may_remove(tally)? {
                return Ok(());
            }
            let pool = session.pool(&target.pool).await?;
            let is_in_source = |name: String| {
                let path = plan::local_path(&directory, &name);
                // No file can have a name that leads outside the directory.
                async move { blocking(move || path.map_or(Ok(false), |path| is_file(&path))).await }
            };
            remove_objects(pool, &target, options, is_in_source, tally).await
        }
        Sources::Objects(sources) => {
            let source = sources[0].clone();
            match cp::destination(&args.target, to_store, args.create_pool, session).await? {
                Destination::Path(directory) => {
                    download::run(sources, &directory, true, options, tally).await?;
                    if !may_remove(tally)? {
                        return Ok(());
                    }
                    remove_files(directory, source, options, tally).await
                }
                Destination::Objects(target) => {
                    in_store(to_store, session, async |there| {
                        let create_pool = args.create_pool;
                        let to = To { there, target: target.clone(), create_pool, moves: false };
                        between::run(sources, to, true, options, tally).await?;
                        if !may_remove(tally)? {
                            return Ok(());
                        }
                        let from = session.pool(&source.pool).await?;
                        let is_in_source = |name: String| {
                            let name = source.below() + &name;
                            let object = ObjectId::in_namespace(source.namespace.clone(), name);
                            let from = Arc::clone(&from);
                            async move {
                                match object {
                                    Ok(object) => exists(&*from, &object).await,
                                    // The name is too long for the source.
                                    Err(_) => Ok(false),
                                }
                            }
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

/// Returns whether to remove what the source does not have. After a failure, the command cannot know
/// what the source has.
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
            let removed = match is_in_source.await {
                Ok(false) if options.dry_run => Ok(true),
                Ok(false) => pool.remove(&object).await.map(|()| true),
                kept => kept.map(|_| false),
            };
            (object, removed)
        }
    };
    jobs::run(listed, options.jobs, job, |(object, removed)| match removed {
        Ok(false) => Ok(()),
        Ok(true) => tally.add_removed(&target.pool, &object, None),
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
    let files = blocking(move || {
        let paths = if directory.is_dir() { vec![directory] } else { Vec::new() };
        Ok(plan::plan_files(&paths, &source, true))
    });
    let files = files.await?;
    for (path, error) in files.refused {
        tally.failures.push(path, error);
    }
    let job = |file: Upload| {
        let pool = Arc::clone(&pool);
        async move {
            let removed = match exists(&*pool, &file.object).await {
                Ok(false) if options.dry_run => Ok(true),
                Ok(false) => remove_file(&file.path).map(|()| true),
                kept => kept.map(|_| false),
            };
            (file, removed)
        }
    };
    jobs::run(stream::iter(files.uploads.into_iter().map(Ok)), options.jobs, job, |(file, removed)| {
        let path = file.path.to_string_lossy();
        match removed {
            Ok(false) => Ok(()),
            Ok(true) => tally.add_removed(&pool_name, &file.object, Some(&path)),
            Err(error) => {
                tally.failures.push(path, error);
                Ok(())
            }
        }
    })
    .await
}

async fn exists(pool: &dyn Pool, object: &ObjectId) -> Result<bool> {
    match pool.stat(object).await {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        found => found.map(|_| true),
    }
}

fn is_file(path: &Path) -> Result<bool> {
    match fs::metadata(path) {
        Ok(metadata) => Ok(metadata.is_file()),
        Err(error) if matches!(error.kind(), Io::NotFound | Io::NotADirectory | Io::InvalidFilename) => {
            Ok(false)
        }
        Err(error) => {
            Err(Error::io(Action::Admin, "cannot look up the file", error).with("path", path.display()))
        }
    }
}

fn remove_file(path: &Path) -> Result<()> {
    let failed =
        |error| Error::io(Action::Admin, "cannot remove the file", error).with("path", path.display());
    fs::remove_file(path).map_err(failed)
}
