//! `benthic demo`: the active-storage experiment. It loads files, computes the digest of every
//! object beside the object and again at the client, compares both with `md5sum`, and shows the
//! cost of each.

mod dataset;
mod phases;
mod published;
mod report;
mod text;

use crate::commands::cp::plan;
use crate::commands::pool::find_foreign_use;
use crate::jobs;
use benthic_classes::digest::{Algorithm, client};
use benthic_core::{
    Error, ErrorKind, ListRequest, Namespaces, ObjectAddress, ObjectId, OptionalExtension, Pool, Result,
    names,
};
use benthic_program::exit::Outcome;
use benthic_program::local::NewFile;
use benthic_program::session::Session;
use benthic_program::store::blocking;
use benthic_program::uri::StoreUri;
use benthic_program::{measure, units};
use clap::Args;
use dataset::Dataset;
use phases::{Digests, Phase};
use published::Published;
use serde::Serialize;
use serde_json::json;
use std::path::PathBuf;
use std::sync::Arc;

/// Namespace of the objects that are not user data: the demo's mark, and the object of the
/// published form.
const NAMESPACE: &str = "benthic-demo";
const ROUND_TRIPS: usize = 21;

#[derive(Args)]
#[command(after_help = "\
Without --data, the demo generates files of 0 bytes to 64 MiB, the same in every run. Inside a clone of a \
repository it also uses the files of the clone. The demo creates its pool, and recreates it at the next run; it \
refuses a pool that it did not create. The pool stays afterwards: list it with `benthic ls benthic-demo`, remove \
it with `benthic pool rm benthic-demo`. If any digest differs, the exit status is 12.

Examples:
  benthic demo
  benthic demo --data ~/Pictures --report pictures.html
  benthic demo --store ceph: --size 256MiB")]
pub struct DemoArgs {
    /// Use the files of DIR
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// The file for the HTML report
    #[arg(long, value_name = "FILE", default_value = "benthic-demo.html")]
    report: PathBuf,
    /// Total size of the generated files
    #[arg(long, default_value = "1GiB", value_parser = units::parse_size, conflicts_with = "data")]
    size: u64,
    /// The pool
    #[arg(long, value_name = "NAME", default_value = "benthic-demo")]
    pool: String,
    /// Concurrent objects [default: two per core, 8 to 16]
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// Repetitions of the experiment in its published form, which uses one object
    #[arg(long, value_name = "N", default_value = "1000", value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    /// Sizes of the object in the published form
    #[arg(long, value_delimiter = ',', default_value = "4KiB,64KiB,1MiB", value_parser = units::parse_size)]
    object_size: Vec<u64>,
}

#[derive(Serialize)]
struct Mismatch {
    object: String,
    in_storage: String,
    at_client: String,
    expected: String,
}

struct Findings {
    store: String,
    ceph: bool,
    /// Median latency of [`ROUND_TRIPS`] calls of `stat`.
    round_trip_ms: f64,
    pool: String,
    jobs: usize,
    data: String,
    skipped: Vec<String>,
    phases: Vec<Phase>,
    repeat: u32,
    published: Vec<Published>,
    mismatches: Vec<Mismatch>,
}

pub async fn run(args: DemoArgs, session: &Session) -> Outcome {
    names::check_pool_name(&args.pool)?;
    published::check_sizes(&args.object_size)?;
    if let Some(directory) = args.data.as_ref().filter(|directory| !directory.is_dir()) {
        return Err(Error::not_found("--data needs an existing directory")
            .with("path", directory.display())
            .into());
    }
    let report_path = args.report.clone();
    // Check first that the report can be written, so that a bad path fails before minutes of work.
    let report_path = blocking(move || NewFile::create(&report_path).map(|_| report_path)).await?;
    let (ceph, store_directory) = match session.uri().parse()? {
        StoreUri::File(directory) => (false, Some(directory)),
        StoreUri::Mem => (false, None),
        StoreUri::Ceph { .. } => (true, None),
    };
    let pool = create_pool(session, &args.pool).await?;
    let round_trip_ms = check_store(&*pool).await?;
    let say = |step: &str| session.out.note(step).and_then(|()| session.out.flush());

    say(if args.data.is_some() { "listing the files …" } else { "generating files …" })?;
    let dataset = match args.data {
        Some(directory) => {
            blocking(move || Dataset::of_directory(&directory, store_directory.as_deref())).await?
        }
        None => blocking(move || Dataset::generate(args.size, store_directory.as_deref())).await?,
    };
    plan::warn_of_skipped(&dataset.plan.skipped, &session.out);
    for (path, error) in &dataset.plan.refused {
        session.out.warning(format_args!("skipped {}: {error}", units::one_line(path)));
    }
    let jobs = args.jobs.unwrap_or_else(jobs::default_jobs);
    let uploads = &dataset.plan.uploads;
    let objects: Arc<[ObjectId]> = uploads.iter().map(|upload| upload.object.clone()).collect();
    let sizes = phases::Sizes { objects: objects.len() as u64, bytes: dataset.plan.total_bytes() };
    say(&format!(
        "{}, {}: {}",
        units::count(sizes.objects, "file"),
        units::size(sizes.bytes),
        dataset.description
    ))?;
    say("loading …")?;
    let load = phases::load(&pool, uploads, sizes, jobs, session).await?;
    say("digesting beside the objects …")?;
    let store_digest = |pool: Arc<dyn Pool>, object: ObjectId| async move {
        client::store(&*pool, &object, Algorithm::Md5, 1).await
    };
    let (storage_phase, in_storage) =
        phases::digest_all("digest in storage", &pool, &objects, jobs, sizes, store_digest).await?;
    say("digesting at the client …")?;
    let hash_in_client = |pool: Arc<dyn Pool>, object: ObjectId| async move {
        client::hash_in_client(&*pool, &object, Algorithm::Md5).await
    };
    let (client_phase, at_client) =
        phases::digest_all("digest at the client", &pool, &objects, jobs, sizes, hash_in_client).await?;
    say("running md5sum …")?;
    let (md5sum_phase, by_md5sum) = phases::md5sum(uploads, sizes).await?;
    let mut mismatches = compare(&args.pool, &objects, &in_storage, &at_client, &by_md5sum);
    let mut published = Vec::new();
    for size_bytes in args.object_size {
        say(&format!(
            "{} on one object of {} …",
            units::count(args.repeat.into(), "repetition"),
            units::size(size_bytes)
        ))?;
        let store = session.store().await?;
        published
            .push(published::run(&*store, &pool, size_bytes, args.repeat, !ceph, &mut mismatches).await?);
    }
    let findings = Findings {
        store: session.uri().to_owned(),
        ceph,
        round_trip_ms,
        pool: args.pool,
        jobs,
        data: dataset.description.clone(),
        skipped: dataset.skipped_and_refused(),
        phases: vec![load, storage_phase, client_phase, md5sum_phase],
        repeat: args.repeat,
        published,
        mismatches,
    };
    let page = report::page(&findings);
    blocking(move || NewFile::write_whole(&report_path, page.as_bytes())).await?;
    print_findings(&findings, &args.report.display().to_string(), session)
}

fn print_findings(findings: &Findings, report: &str, session: &Session) -> Outcome {
    session.out.result(format_args!("\n{}\n\nreport: {report}", text::summary(findings)), || {
        json!({
            "store": findings.store,
            "pool": findings.pool,
            "round_trip_ms": findings.round_trip_ms,
            "phases": findings.phases,
            "repeat": findings.repeat,
            "published": findings.published,
            "skipped": findings.skipped,
            "mismatches": findings.mismatches,
            "report": report,
        })
    })?;
    if findings.mismatches.is_empty() {
        return Ok(());
    }
    let message = if findings.ceph {
        "digests differ; `ceph osd deep-scrub all` and `ceph health detail` show whether stored data are damaged"
    } else {
        "digests differ; `benthic scrub` shows whether stored data are damaged"
    };
    Err(Error::corrupt(message).with("objects", findings.mismatches.len()).into())
}

/// Removes and recreates the demo's pool. It refuses a pool of another application, and a pool that
/// is not empty and lacks the demo's mark, because somebody else made that pool.
async fn create_pool(session: &Session, name: &str) -> Outcome<Arc<dyn Pool>> {
    let store = session.store_or_create().await?;
    let mark = mark()?;
    match store.open_pool(name).await {
        Ok(pool) => {
            let is_marked = pool.stat(&mark).await.optional()?.is_some();
            let is_foreign = find_foreign_use(session, name).await?.is_some();
            if is_foreign || !is_marked && !is_empty(&*pool).await? {
                return Err(Error::already_exists(
                    "the demo did not create this pool and would remove it; name another with --pool",
                )
                .with("pool", name)
                .into());
            }
            store.remove_pool(name).await?;
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error.into()),
    }
    store.create_pool(name).await?;
    let pool = store.open_pool(name).await?;
    pool.write_full(&mark, "the next run of the demo removes this pool").await?;
    Ok(pool)
}

fn mark() -> Result<ObjectId> {
    ObjectId::in_namespace(NAMESPACE, "made-by-benthic-demo")
}

/// Checks that the store has the class `digest` before anything is loaded. Returns the median
/// round-trip time in milliseconds.
async fn check_store(pool: &dyn Pool) -> Result<f64> {
    let mark = mark()?;
    client::compute(pool, &mark, Algorithm::Md5, 1).await.map_err(|error| match error.kind() {
        ErrorKind::Unsupported => Error::unsupported("the store does not have the class digest; on Ceph, `make ceph` builds the class library and `benthic \
             class install` installs it",
        )
        .with_source(error),
        _ => error,
    })?;
    measure::round_trip_ms(pool, &mark, ROUND_TRIPS).await
}

async fn is_empty(pool: &dyn Pool) -> Outcome<bool> {
    let mut request = ListRequest { namespaces: Namespaces::All, objects_max: 1, ..ListRequest::default() };
    loop {
        let page = pool.list(request.clone()).await?;
        if !page.objects.is_empty() {
            return Ok(false);
        }
        match page.next {
            Some(token) => request.after = Some(token),
            None => return Ok(true),
        }
    }
}

fn compare(
    pool: &str,
    objects: &[ObjectId],
    in_storage: &Digests,
    at_client: &Digests,
    by_md5sum: &Digests,
) -> Vec<Mismatch> {
    let digest = |digests: &Digests, object| digests.get(object).cloned().unwrap_or_default();
    objects
        .iter()
        .map(|object| Mismatch {
            object: ObjectAddress { pool: pool.to_owned(), object: object.clone() }.to_string(),
            in_storage: digest(in_storage, object),
            at_client: digest(at_client, object),
            expected: digest(by_md5sum, object),
        })
        .filter(|row| row.in_storage != row.expected || row.at_client != row.expected)
        .collect()
}
