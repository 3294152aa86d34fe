//! `benthic cp`: [`plan`] decides what to copy, and [`upload`], [`download`] or [`stripe`] copies
//! it.

pub mod download;
pub mod plan;
pub mod stripe;
pub mod upload;

use crate::commands;
use crate::jobs::{self, Failures, Limits};
use benthic_core::ObjectId;
use benthic_program::exit::{Failure, Outcome};
use benthic_program::output::object_json;
use benthic_program::session::Session;
use benthic_program::store::blocking;
use benthic_program::units;
use clap::Args;
use plan::Sources;
use serde_json::json;
use std::time::Duration;
use stripe::StripeArgs;

#[derive(Args)]
#[command(after_help = "\
Paths and addresses: /x, ./x and ../x are paths. An argument with a ':' before the first '/' is an address \
(POOL:NAMESPACE/OBJECT, or POOL:/OBJECT in the default namespace). Any other source is a path if such a file \
exists, and an address otherwise. The destination is an address if the sources are paths, and a path \
otherwise; write it as ./x if it begins with the name of a pool.

Names: one file goes to POOL/NAME, or to POOL/PREFIX/ under its own name. With -r, the files of a directory \
go to POOL/PREFIX/ under their paths relative to the directory, with '/' between the parts; empty \
directories are not copied. In the other direction, POOL/PREFIX with -r means all objects below PREFIX/. The \
command follows symbolic links to files. Inside a directory it skips links to directories, and everything \
that is neither file nor directory.

Repeated copies: every object that was copied from a file has the attribute benthic.source with the file's \
size, modification time and XXH3 digest. The command does not copy a file again if size and time are the \
same; --checksum compares the contents instead. After a copy, the store computes the digest of the object, \
and the command compares it.

Large files: --stripe spreads one file over many objects, NAME.0000000000000000 and so on, in the layout of \
libradosstriper; `rados --striper` can read and write these striped objects. --stripe also copies a striped \
object to a file or to another pool (POOL/NAME POOL2/NAME); with --to-store, the pool is in another store. A \
copy that fails or is killed leaves an incomplete striped object, which readers ignore. Repeat the command \
to continue, or remove the object with `benthic rm --stripe`. The old content of the destination is lost \
when a copy begins. A download is named .NAME.benthic-part until it is complete.

Outages: the command stops when the store has not answered for the time of --outage-wait, and soon after the \
store is full. It lists the files that failed, and counts those that it did not try. Repeat the command to \
continue.

With --json, the command prints a line for each file as soon as it is durable. It lists failures at the end.

Examples:
  benthic cp cat.jpg photos/cats/
  benthic cp -r ./holiday photos/2026
  benthic cp -r photos/2026 ./back
  benthic cp -r --outage-wait 600 ./holiday photos/2026
  benthic cp --stripe run42.root data/
  benthic cp --stripe data/run42.root archive/run42.root --to-store file:./archive")]
pub struct CpArgs {
    /// Copy directories, or all objects below a prefix
    #[arg(short, long)]
    recursive: bool,
    /// Concurrent copies; with --stripe, concurrent objects [default: two per core, 8 to 16; with --stripe 16]
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// Compare contents instead of size and time to find files that are already copied
    #[arg(long)]
    checksum: bool,
    /// Do not verify the copies
    #[arg(long)]
    no_check: bool,
    /// Stop when the store has not answered for this number of seconds
    #[arg(
        long,
        value_name = "SECONDS",
        value_parser = jobs::parse_seconds,
        default_value = "60",
        conflicts_with = "stripe"
    )]
    outage_wait: Duration,
    /// Create the pool of the destination, and the store, if they do not exist
    #[arg(long)]
    create_pool: bool,
    #[command(flatten)]
    stripe: StripeArgs,
    /// Files, directories, or objects
    #[arg(required = true, value_name = "SRC")]
    sources: Vec<String>,
    /// The destination
    #[arg(value_name = "DST")]
    destination: String,
}

#[derive(Clone, Copy)]
pub struct Options {
    pub jobs: usize,
    pub checksum: bool,
    pub check: bool,
    pub outage_wait: Duration,
}

impl Options {
    fn limits(self, session: &Session) -> Limits<'_> {
        Limits { jobs: self.jobs, outage_wait: self.outage_wait, session: Some(session) }
    }
}

pub struct Copied {
    /// True if the target already had the content.
    pub unchanged: bool,
    pub size_bytes: u64,
}

/// Counts the copies and reports each one.
struct Tally<'a> {
    session: &'a Session,
    pool: String,
    copied: u64,
    copied_bytes: u64,
    unchanged: u64,
    failures: Failures,
}

impl<'a> Tally<'a> {
    fn new(session: &'a Session, pool: &str) -> Tally<'a> {
        Tally {
            session,
            pool: pool.to_owned(),
            copied: 0,
            copied_bytes: 0,
            unchanged: 0,
            failures: Failures::default(),
        }
    }

    fn add(&mut self, path: &str, object: &ObjectId, copied: &Copied) -> Outcome {
        if copied.unchanged {
            self.unchanged += 1;
        } else {
            self.copied += 1;
            self.copied_bytes += copied.size_bytes;
        }
        if !self.session.out.is_json() {
            return Ok(());
        }
        let status = if copied.unchanged { "unchanged" } else { "copied" };
        let more = json!({ "path": path, "size_bytes": copied.size_bytes, "status": status });
        self.session.out.json_line(&object_json(&self.pool, object, more))?;
        // A reader of this line may rely on the copy being durable.
        self.session.out.flush()
    }

    fn finish(self, skipped: u64, ended: Outcome) -> Outcome {
        let summary = self.session.out.note(format_args!(
            "copied {} ({}), unchanged {}, skipped {skipped}, failed {}",
            self.copied,
            units::size(self.copied_bytes),
            self.unchanged,
            self.failures.count()
        ));
        let of = self.copied + self.unchanged + self.failures.count();
        let reported = summary.and(self.session.out.flush()).and(self.failures.finish(&self.session.out, of));
        ended.and(reported)
    }
}

pub async fn run(args: CpArgs, session: &Session) -> Outcome {
    if args.stripe.stripe {
        return stripe::run(args, session).await;
    }
    let options = Options {
        jobs: args.jobs.unwrap_or_else(jobs::default_jobs),
        checksum: args.checksum,
        check: !args.no_check,
        outage_wait: args.outage_wait,
    };
    match plan::classify(&args.sources)? {
        Sources::Paths(paths) => {
            let target = plan::target(&args.sources[0], &args.destination)?;
            commands::check_writable(&target.namespace)?;
            if paths.len() > 1 && !target.is_directory() {
                return Err(Failure::Usage(format!(
                    "several sources need a destination that ends with '/' got={:?}",
                    args.destination
                )));
            }
            let pool = session
                .pool_or_create(&target.pool, args.create_pool)
                .await
                .map_err(|error| plan::explain_missing_pool(error, &args.sources))?;
            let recursive = args.recursive;
            let plan = blocking(move || Ok(plan::plan_files(&paths, &target, recursive))).await?;
            upload::run(pool, plan, options, session).await
        }
        Sources::Objects(sources) => {
            if args.create_pool {
                return Err(Failure::Usage(
                    "--create-pool works only for copies from files to a pool".to_owned(),
                ));
            }
            let pools = session.store().await?.list_pools().await?;
            plan::check_path(&args.sources[0], &args.destination, &pools)?;
            download::run(sources, &args.destination, args.recursive, options, session).await
        }
    }
}
