//! `benthic cp --stripe`: copies one file to or from many objects.

use super::CpArgs;
use super::plan::{self, Destination, Sources, Target};
use crate::commands;
use benthic_core::{Error, ErrorKind, ObjectAddress, ObjectId, Result};
use benthic_program::exit::{Failure, Outcome};
use benthic_program::local;
use benthic_program::output::{Output, object_json};
use benthic_program::progress::Progress;
use benthic_program::session::Session;
use benthic_program::store::blocking;
use benthic_program::units;
use benthic_striped::layout::{Layout, PIECE_BYTES_MAX};
use benthic_striped::lock::WAIT_DEFAULT_S;
use benthic_striped::read::{self, CopyResult, Options, StripedReader, Verification};
use benthic_striped::write::{self, Source, SourceFile};
use benthic_striped::{Head, Striped, StripedState};
use clap::Args;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Default number of pieces in flight; the same as in `rados bench`.
const JOBS_DEFAULT: usize = 16;

#[derive(Args)]
pub struct StripeArgs {
    /// Copy a file to a striped object, which consists of many objects; a striped object to a file;
    /// or one to another
    #[arg(long, conflicts_with = "recursive")]
    pub stripe: bool,
    /// With --stripe: size of the units of the file that go to the objects in turn, a multiple of
    /// 64 KiB [default: the object size]
    #[arg(long, value_name = "SIZE", requires = "stripe", value_parser = units::parse_size)]
    stripe_unit: Option<u64>,
    /// With --stripe: number of objects that get units in turn [default: 1]
    #[arg(long, value_name = "N", requires = "stripe")]
    stripe_count: Option<u64>,
    /// With --stripe: size of the objects, at most 32 MiB [default: 4 MiB, more for files over 16
    /// GiB]
    #[arg(long, value_name = "SIZE", requires = "stripe", value_parser = units::parse_size)]
    object_size: Option<u64>,
    /// With --stripe: seconds to wait for other clients that have locked the striped object
    /// [default: 30]
    #[arg(long, value_name = "SECONDS", requires = "stripe")]
    lock_wait: Option<u64>,
}

impl StripeArgs {
    fn has_layout(&self) -> bool {
        self.stripe_unit.is_some() || self.stripe_count.is_some() || self.object_size.is_some()
    }
}

pub async fn run(args: CpArgs, session: &Session) -> Outcome {
    let [source] = args.sources.as_slice() else {
        return Err(Failure::Usage("--stripe takes one source, a file or a striped object".to_owned()));
    };
    let options = Options {
        jobs: args.copy.jobs.unwrap_or(JOBS_DEFAULT),
        checksum: args.copy.checksum,
        check: !args.copy.no_check,
        lock_wait: Duration::from_secs(args.stripe.lock_wait.unwrap_or(WAIT_DEFAULT_S)),
        progress,
    };
    match plan::classify(&args.sources)? {
        Sources::Paths(paths) => {
            let Some(path) = paths.first() else { return Ok(()) };
            upload(path, source, &args, options, session).await
        }
        Sources::Objects(sources) => {
            let Some(from) = sources.first() else { return Ok(()) };
            if from.is_directory() {
                return Err(Failure::Usage(format!("name a striped object got={source:?}")));
            }
            if args.stripe.has_layout() {
                return Err(Failure::Usage(
                    "a copy keeps the layout of the striped object; to change it, copy to a file and copy that back"
                        .to_owned(),
                ));
            }
            match args.copy.place.destination(&args.destination, session).await? {
                Destination::Path(path) => download(from, path, &args, options, session).await,
                Destination::Objects(to) => copy(from, &to, &args, options, session).await,
            }
        }
    }
}

fn progress(total_bytes: u64) -> Box<dyn Fn(u64)> {
    let bar = Progress::bytes("copying", total_bytes);
    Box::new(move |bytes| bar.advance(bytes))
}

async fn upload(path: &Path, source: &str, args: &CpArgs, options: Options, session: &Session) -> Outcome {
    let target = args.copy.place.destination_of_files(source, &args.destination)?;
    commands::check_writable(&target.namespace)?;
    let name = path.file_name().and_then(|name| name.to_str());
    let object = target_object(&target, name)?;
    let path_to_open = path.to_owned();
    let file = blocking(move || SourceFile::open(&path_to_open)).await?;
    let StripeArgs { object_size, stripe_unit, stripe_count, .. } = args.stripe;
    let layout = Layout::choose(file.size_bytes(), object_size, stripe_unit, stripe_count)?;
    let pool = session
        .pool_or_create(&target.pool, args.copy.place.create_pool)
        .await
        .map_err(|error| plan::explain_missing_pool(error, &args.sources))?;
    session.check_writable().await?;
    let to = commands::striped_object(session, pool, object).await?;
    let stored = store(Source::File(file), &to, layout, options, session).await?;
    print_result(session, &to, ("path", path.to_string_lossy().into_owned()), &stored)
}

/// Stores the source. If that leaves an incomplete striped object, warns about it.
async fn store(
    source: Source,
    to: &Striped,
    layout: Layout,
    options: Options,
    session: &Session,
) -> Result<CopyResult> {
    let stored = write::store(source, to, layout, options).await;
    // The copy was refused before it changed anything.
    let refused = |error: &Error| error.kind() == ErrorKind::InvalidArgument;
    let begun = |head: &Head| match head.state {
        StripedState::Unfinished(_) => true,
        // Taking the lock creates an empty first object.
        StripedState::Bare => head.is_marked || head.stat.size_bytes == 0,
        StripedState::Complete { .. } => false,
    };
    if stored.as_ref().is_err_and(|error| !refused(error))
        && to.read_head().await.is_ok_and(|head| head.as_ref().is_some_and(begun))
    {
        let address = address(to);
        session.out.warning(format_args!(
            "{address} is incomplete, and readers ignore it; repeat the command to continue, or remove it with \
             `benthic rm --stripe {address}`"
        ));
    }
    stored
}

async fn download(
    from: &Target,
    path: PathBuf,
    args: &CpArgs,
    options: Options,
    session: &Session,
) -> Outcome {
    if args.copy.place.create_pool {
        return Err(Failure::Usage("--create-pool works only for copies to a pool".to_owned()));
    }
    let object = target_object(from, None)?;
    let is_directory = args.destination.ends_with('/') || path.is_dir();
    let path = if is_directory {
        local::local_path(&path, object.name().rsplit('/').next().unwrap_or_default())?
    } else {
        path
    };
    let pool = session.pool(&from.pool).await?;
    let from = commands::striped_object(session, pool, object).await?;
    let fetched = read::fetch(from.clone(), &path, options).await?;
    warn_of_no_digest(&session.out, &fetched);
    print_result(session, &from, ("path", path.to_string_lossy().into_owned()), &fetched)
}

async fn copy(from: &Target, to: &Target, args: &CpArgs, options: Options, session: &Session) -> Outcome {
    commands::check_writable(&to.namespace)?;
    let object = target_object(from, None)?;
    let object_there = target_object(to, object.name().rsplit('/').next())?;
    let from = commands::striped_object(session, session.pool(&from.pool).await?, object).await?;
    let (to, copied) = args
        .copy
        .place
        .in_store(session, async |there| {
            let is_same =
                std::ptr::eq(there, session) && from.pool.name() == to.pool && from.object == object_there;
            if is_same {
                return Err(Failure::Usage("source and destination are the same striped object".to_owned()));
            }
            let pool = there.pool_or_create(&to.pool, args.copy.place.create_pool).await?;
            there.check_writable().await?;
            let to = commands::striped_object(there, pool, object_there).await?;
            let (lock, reader) = read::open(from.clone(), options).await?;
            let copied = match check_layout(&reader) {
                Ok(layout) => store(Source::Striped(Arc::new(reader)), &to, layout, options, session).await,
                Err(error) => Err(error),
            };
            lock.release().await;
            Ok((to, copied?))
        })
        .await?;
    warn_of_no_digest(&session.out, &copied);
    print_result(session, &to, ("from", address(&from)), &copied)
}

/// Checks that Benthic can write pieces of this layout.
fn check_layout(reader: &StripedReader) -> Result<Layout> {
    if reader.layout.object_size <= PIECE_BYTES_MAX {
        return Ok(reader.layout);
    }
    let message = "the objects of the source are larger than 32 MiB; copy it to a file, and copy that with another layout";
    Err(Error::unsupported(message).with("layout", reader.layout))
}

/// The object that a target names. If the target is a prefix, `name` is appended.
fn target_object(target: &Target, name: Option<&str>) -> Outcome<ObjectId> {
    let name = match name {
        Some(name) if target.is_directory() => target.prefix.clone() + name,
        None if target.is_directory() => {
            let message = "the file's name is not UTF-8; give the object a name";
            return Err(Error::invalid_argument(message).into());
        }
        _ => target.prefix.clone(),
    };
    Ok(ObjectId::in_namespace(target.namespace.clone(), name)?)
}

fn address(at: &Striped) -> String {
    ObjectAddress { pool: at.pool.name().to_owned(), object: at.object.clone() }.to_string()
}

fn warn_of_no_digest(out: &Output, copied: &CopyResult) {
    if copied.checked == Verification::Lengths {
        out.warning(
            "there is no checksum, because another program wrote the source; only the lengths of the pieces were checked",
        );
    }
}

fn print_result(session: &Session, at: &Striped, other: (&str, String), copied: &CopyResult) -> Outcome {
    let CopyResult { size_bytes, pieces, pieces_kept, unchanged, checked } = *copied;
    let text = if unchanged {
        format!("unchanged: {}", units::size(size_bytes))
    } else {
        let kept = if pieces_kept > 0 { format!(", {pieces_kept} unchanged") } else { String::new() };
        format!("copied {} in {}{kept}", units::size(size_bytes), units::count(pieces, "piece"))
    };
    session.out.result(text, || {
        let more = json!({
            (other.0): other.1,
            "size_bytes": size_bytes,
            "status": if unchanged { "unchanged" } else { "copied" },
            "pieces": pieces,
            "pieces_kept": pieces_kept,
            "checked": checked.name(),
        });
        object_json(at.pool.name(), &at.object, more)
    })
}
