//! `benthic cp`: [`plan`] finds the objects and files to copy, and [`upload`], [`download`],
//! [`between`] or [`stripe`] copies it. `benthic mv` and `benthic mirror` use the same parts.

pub mod between;
pub mod download;
pub mod plan;
pub mod stripe;
pub mod upload;

use crate::commands;
use crate::jobs::{self, Failures, Limits};
use benthic_core::{ClassHost, Clock, Error, ObjectAddress, ObjectId, Pool, Result, SystemClock};
use benthic_program::exit::{Failure, Outcome};
use benthic_program::output::object_json;
use benthic_program::progress::Progress;
use benthic_program::session::Session;
use benthic_program::store::blocking;
use benthic_program::units;
use benthic_program::uri::StoreUri;
use between::To;
use clap::Args;
use futures::TryStreamExt;
use plan::{Destination, Sources, Target};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::hash::Hash;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use stripe::StripeArgs;

/// The first word of a dry run's lines.
const WOULD: &str = "would ";

/// Attempts to copy an object that another client writes during the copy.
const ATTEMPTS: usize = 5;

#[derive(Args)]
#[command(after_help = "\
Paths and addresses: /x, ./x and ../x are paths. An argument with a ':' before the first '/' is an address \
(POOL:NAMESPACE/OBJECT, or POOL:/OBJECT in the default namespace). Any other source is a path if such a file \
exists, and an address otherwise. The destination is an address if the sources are paths. Otherwise it is an \
address if it begins with the name of a pool, and a path if not.

Names: one file goes to POOL/NAME, or to POOL/PREFIX/ under its own name. With -r, the files of a directory \
go to POOL/PREFIX/ under their paths relative to the directory, with '/' between the parts; empty \
directories are not copied. As a source, POOL/PREFIX with -r means all objects below PREFIX/. The command \
follows symbolic links to files. Inside a directory it skips links to directories, and everything that is \
neither file nor directory.

Objects to objects: the copy has the data, attributes and keys of the source, and no others; what the target \
had before is lost. With --to-store, the pool is in another store.

Repeated copies: every object that was copied from a file has the attribute benthic.source with the file's \
size, modification time and XXH3 digest. The command does not copy a file again if size and time are the \
same; --checksum compares the contents instead. A copy of an object has the attribute benthic.copied with the \
version and time of its source in the same way. After a copy, the store computes the digest of the object, and \
the command compares it. If another client writes an object at the same time, such as another copy of the same \
directory, the command succeeds if the contents are equal. Otherwise it reports a conflict and leaves the other \
client's object in place. A copy of more than 64 MiB that fails or is killed can leave an incomplete object; \
repeat the command to replace it.

Large files: --stripe spreads one file over many objects, NAME.0000000000000000 and so on, in the layout of \
libradosstriper; `rados --striper` can read and write these striped objects. --stripe also copies a striped \
object to a file or to another striped object (POOL/NAME POOL2/NAME). A copy that fails or is killed leaves an incomplete striped object, which readers ignore. Repeat the command \
to continue, or remove the object with `benthic rm --stripe`. The old content of the destination is lost \
when a copy begins. A download is named .NAME.benthic-part until it is complete.

Outages: the command stops when the store has not answered for the time of --outage-wait, and soon after the \
store is full. It lists the files that failed, and counts those that it did not try. Repeat the command to \
continue.

With --json, the command prints a line for each file as soon as it is complete, and in a store also durable. It \
lists failures at the end.

Examples:
  benthic cp cat.jpg photos/cats/
  benthic cp -r ./holiday photos/2026
  benthic cp -r photos/2026 ./back
  benthic cp photos/cats/cat.jpg archive/cats/
  benthic cp -r photos/2026 photos/2026 --to-store file:./archive
  benthic cp -r --outage-wait 600 ./holiday photos/2026
  benthic cp --stripe run42.root data/
  benthic cp --stripe data/run42.root archive/run42.root --to-store file:./archive")]
pub struct CpArgs {
    /// Copy directories, or all objects below a prefix
    #[arg(short, long)]
    recursive: bool,
    #[command(flatten)]
    copy: CopyArgs,
    #[command(flatten)]
    stripe: StripeArgs,
    /// Files, directories, or objects
    #[arg(required = true, value_name = "SRC")]
    sources: Vec<String>,
    /// The destination
    #[arg(value_name = "DST")]
    destination: String,
}

/// Options of every command that copies files and objects.
#[derive(Args)]
pub struct CopyArgs {
    /// Concurrent copies; with --stripe, concurrent objects [default: two per core, 8 to 16; with
    /// --stripe 16]
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// Compare contents instead of size and time to find what is already copied
    #[arg(long)]
    checksum: bool,
    /// Do not verify the copies
    #[arg(long)]
    no_check: bool,
    /// Stop when the store has not answered for this number of seconds; does not apply to --stripe
    #[arg(long, value_name = "SECONDS", value_parser = jobs::parse_seconds, default_value = "60")]
    outage_wait: Duration,
    #[command(flatten)]
    pub place: PlaceArgs,
}

/// Options of every command whose destination may be objects.
#[derive(Args)]
pub struct PlaceArgs {
    /// Create the pool of the destination, and the store, if they do not exist
    #[arg(long)]
    pub create_pool: bool,
    /// For copies from object to object: the store of the destination [default: that of the source]
    #[arg(long, value_name = "URI")]
    to_store: Option<String>,
}

#[derive(Clone, Copy)]
pub struct Options {
    pub jobs: usize,
    pub checksum: bool,
    pub check: bool,
    /// Objects that were modified at this time or later were not there when the command began, so
    /// they are not replaced. `u64::MAX` if the store's clock is another one.
    pub began_unix_ns: u64,
    /// Report what a copy would do, and change nothing.
    pub dry_run: bool,
    pub outage_wait: Duration,
}

impl Options {
    pub fn limits(self, session: &Session) -> Limits<'_> {
        Limits { outage_wait: self.outage_wait, session: Some(session), ..self.jobs.into() }
    }
}

pub struct Copied {
    /// True if the target already had the content.
    pub unchanged: bool,
    pub size_bytes: u64,
}

/// Counts the copies and reports each one.
pub struct Tally<'a> {
    pub session: &'a Session,
    /// The word for a copy, such as "copied".
    verb: &'static str,
    pool: String,
    copied: u64,
    copied_bytes: u64,
    unchanged: u64,
    skipped: u64,
    /// Objects or files that were removed; `None` if the command removes nothing.
    pub removed: Option<u64>,
    pub failures: Failures,
}

impl<'a> Tally<'a> {
    pub fn new(session: &'a Session, verb: &'static str) -> Tally<'a> {
        Tally {
            session,
            verb,
            pool: String::new(),
            copied: 0,
            copied_bytes: 0,
            unchanged: 0,
            skipped: 0,
            removed: None,
            failures: Failures::default(),
        }
    }

    /// Reports the copy of an object. `other` is its source or destination, with the key that it
    /// has in JSON.
    fn add(&mut self, object: &ObjectId, other: (&str, &str), copied: &Copied) -> Outcome {
        let verb = if copied.unchanged {
            self.unchanged += 1;
            "unchanged"
        } else {
            self.copied += 1;
            self.copied_bytes += copied.size_bytes;
            self.verb
        };
        let more = json!({ (other.0): other.1, "size_bytes": copied.size_bytes });
        self.report(verb, object, more, None)
    }

    /// Reports the removal of an object, or of the file `path` that is its copy.
    pub fn add_removed(&mut self, pool: &str, object: &ObjectId, path: Option<&str>) -> Outcome {
        self.removed = Some(self.removed.unwrap_or(0) + 1);
        pool.clone_into(&mut self.pool);
        self.report(self.removed_verb(), object, path.map_or(json!({}), |path| json!({ "path": path })), path)
    }

    fn removed_verb(&self) -> &'static str {
        if self.verb.starts_with(WOULD) { "would remove" } else { "removed" }
    }

    /// Prints a line: always in JSON, and in text for a dry run. In text, `name` stands for the
    /// object.
    fn report(&self, verb: &str, object: &ObjectId, mut more: Value, name: Option<&str>) -> Outcome {
        let out = &self.session.out;
        if out.is_json() {
            more["status"] = json!(verb.replace(' ', "_"));
            out.json_line(&object_json(&self.pool, object, more))?;
            // A reader of this line may rely on the copy being durable.
            return out.flush();
        }
        if !verb.starts_with(WOULD) {
            return Ok(());
        }
        let address = ObjectAddress { pool: self.pool.clone(), object: object.clone() }.to_string();
        out.note(format_args!("{verb} {}", units::one_line(name.unwrap_or(&address))))
    }

    /// Objects and files that were found at the source.
    pub fn found(&self) -> u64 {
        self.copied + self.unchanged + self.failures.count()
    }

    /// Prints the summary and the failures. Prints no summary if the command failed before it
    /// began.
    pub fn finish(self, ended: Outcome) -> Outcome {
        let of = self.found() + self.removed.unwrap_or(0);
        if of == 0 && ended.is_err() {
            return ended;
        }
        let removed =
            self.removed.map_or(String::new(), |count| format!(", {} {count}", self.removed_verb()));
        let summary = self.session.out.note(format_args!(
            "{} {} ({}), unchanged {}, skipped {}{removed}, failed {}",
            self.verb,
            self.copied,
            units::size(self.copied_bytes),
            self.unchanged,
            self.skipped,
            self.failures.count()
        ));
        let reported = summary.and(self.session.out.flush()).and(self.failures.finish(&self.session.out, of));
        ended.and(reported)
    }
}

impl CopyArgs {
    pub fn options(&self, dry_run: bool) -> Options {
        Options {
            jobs: self.jobs.unwrap_or_else(jobs::default_jobs),
            checksum: self.checksum,
            check: !self.no_check,
            began_unix_ns: SystemClock.unix_ns(),
            dry_run,
            outage_wait: self.outage_wait,
        }
    }
}

impl PlaceArgs {
    /// Determines whether objects go to files or to other objects.
    pub async fn destination(&self, text: &str, session: &Session) -> Outcome<Destination> {
        if self.to_store.is_some() {
            return Ok(Destination::Objects(plan::address(text)?));
        }
        match plan::destination(text, &session.store().await?.list_pools().await?)? {
            Destination::Path(_) if self.create_pool => Err(Failure::Usage(format!(
                "--create-pool works only for copies to a pool, and {text:?} is a path; {}",
                plan::disambiguate(text)
            ))),
            destination => Ok(destination),
        }
    }

    /// Whether `--to-store` is a store in memory.
    pub fn is_to_memory(&self) -> bool {
        self.to_store.as_ref().is_some_and(|uri| matches!(uri.parse(), Ok(StoreUri::Mem)))
    }

    /// Parses the destination of files, which is in the store of `--store`.
    pub fn destination_of_files(&self, source: &str, text: &str) -> Outcome<Target> {
        if self.to_store.is_none() {
            return plan::target(source, text);
        }
        Err(Failure::Usage(
            "--to-store works only for copies from object to object; for a file, --store names the destination's store"
                .to_owned(),
        ))
    }

    /// Calls `work` with the session of the destination's store, and closes that store afterwards
    /// if it is another one.
    pub async fn in_store<T>(
        &self,
        session: &Session,
        work: impl AsyncFnOnce(&Session) -> Outcome<T>,
    ) -> Outcome<T> {
        let Some(uri) = &self.to_store else { return work(session).await };
        let there = session.for_store(uri.clone());
        if session.is_same_store(&there).await? {
            return work(session).await;
        }
        let done = work(&there).await;
        let closed = there.close().await;
        let done = done?;
        closed?;
        Ok(done)
    }
}

pub async fn run(args: CpArgs, session: &Session) -> Outcome {
    if args.stripe.stripe {
        return stripe::run(args, session).await;
    }
    let (options, place) = (args.copy.options(false), &args.copy.place);
    let mut tally = Tally::new(session, "copied");
    let ended = match plan::classify(&args.sources)? {
        Sources::Paths(paths) => {
            let target = place.destination_of_files(&args.sources[0], &args.destination)?;
            if paths.len() > 1 {
                check_directory(&target)?;
            }
            let create_pool = place.create_pool;
            upload_files(&args.sources, paths, &target, args.recursive, create_pool, options, &mut tally)
                .await
        }
        Sources::Objects(sources) => match place.destination(&args.destination, session).await? {
            Destination::Path(path) => {
                download::run(sources, &path, args.recursive, options, &mut tally).await
            }
            Destination::Objects(target) => {
                place
                    .in_store(session, async |there| {
                        let to = To { there, target, create_pool: place.create_pool, moves: false };
                        between::run(sources, to, args.recursive, options, &mut tally).await
                    })
                    .await
            }
        },
    };
    tally.finish(ended)
}

/// Copies files, and with `recursive` directories, to a pool.
pub async fn upload_files(
    sources: &[String],
    paths: Vec<PathBuf>,
    target: &Target,
    recursive: bool,
    create_pool: bool,
    options: Options,
    tally: &mut Tally<'_>,
) -> Outcome {
    commands::check_writable(&target.namespace)?;
    let opened = tally.session.pool_or_create(&target.pool, create_pool && !options.dry_run).await;
    let pool = opened.map_err(|error| plan::explain_missing_pool(error, sources))?;
    if !options.dry_run {
        tally.session.check_writable().await?;
    }
    let options = match tally.session.store().await?.class_host() {
        ClassHost::Local => options,
        ClassHost::Cluster => Options { began_unix_ns: u64::MAX, ..options },
    };
    let (target, store) = (target.clone(), tally.session.directory());
    let plan = blocking(move || Ok(plan::plan_files(&paths, &target, recursive, store.as_deref()))).await?;
    upload::run(pool, plan, options, tally).await
}

/// Several sources need a destination that several objects fit under.
fn check_directory(target: &Target) -> Outcome {
    if target.is_directory() {
        return Ok(());
    }
    Err(Failure::Usage(format!(
        "several sources need a destination that ends with '/' got={:?}",
        target.to_string()
    )))
}

/// Copies the objects of all sources. `target_of` derives the destination from an object's name,
/// and `copy` copies one object.
async fn copy_objects<D, F>(
    sources: Vec<Target>,
    recursive: bool,
    options: Options,
    tally: &mut Tally<'_>,
    target_of: impl Fn(&str) -> Result<D>,
    copy: impl Fn(Arc<dyn Pool>, ObjectId, D) -> F,
    report: impl Fn(&mut Tally<'_>, &ObjectAddress, &D, &Copied) -> Outcome,
) -> Outcome
where
    D: Clone + Eq + Hash + Send + 'static,
    F: Future<Output = Result<Copied>> + Send + 'static,
{
    let progress = Progress::objects("copying");
    let several = sources.len() > 1;
    let mut taken = HashSet::new();
    let mut opened = Vec::new();
    for source in sources {
        let pool = tally.session.pool(&source.pool).await;
        opened.push((pool.map_err(|error| error.with("note", "there is no such file either"))?, source));
    }
    for (pool, source) in opened {
        let listed = plan::objects(Arc::clone(&pool), &source, recursive)?;
        let tasks = listed.map_ok(|(object, name)| {
            let target = target_of(&name);
            let twice = several && target.as_ref().is_ok_and(|target| !taken.insert(target.clone()));
            let message = "another source has the same name in the destination";
            (object, if twice { Err(Error::invalid_argument(message)) } else { target })
        });
        let job = |(object, target): (ObjectId, Result<D>)| {
            let copying =
                target.map(|target| (copy(Arc::clone(&pool), object.clone(), target.clone()), target));
            async move {
                let copied = match copying {
                    Ok((copying, target)) => copying.await.map(|copied| (target, copied)),
                    Err(error) => Err(error),
                };
                (object, copied)
            }
        };
        let mut found = false;
        jobs::run(tasks, options.limits(tally.session), job, |(object, copied)| {
            found = true;
            let address = ObjectAddress { pool: source.pool.clone(), object };
            match copied {
                Ok((target, copied)) => {
                    progress.advance(1);
                    progress.suspend(|| report(tally, &address, &target, &copied))
                }
                Err(error) => {
                    tally.failures.push(address.to_string(), error);
                    Ok(())
                }
            }
        })
        .await?;
        if !found {
            let error = Error::not_found("no objects here; `benthic ls` lists the objects");
            tally.failures.push(format!("{}/{}", source.pool, source.below()), error);
        }
    }
    Ok(())
}
