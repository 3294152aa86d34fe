//! The four phases: load, digest in storage, digest at the client, and the system's `md5sum` as the judge.

use super::dataset::Dataset;
use crate::commands::cp::plan::Upload;
use crate::commands::cp::{Options, upload};
use crate::jobs::{self, Failures};
use benthic_classes::digest::{Algorithm, client};
use benthic_core::{Error, ErrorKind, Meter, ObjectId, Pool, Result};
use benthic_program::exit::Outcome;
use benthic_program::interrupt;
use benthic_program::progress::Progress;
use benthic_program::session::Session;
use benthic_program::store::blocking;
use futures::stream;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

/// Files that one run of `md5sum` gets, and bytes of their paths; well below what a system takes.
const FILES_A_RUN: usize = 256;

/// A digest by object.
pub type Digests = HashMap<ObjectId, String>;

/// How much a phase worked on.
#[derive(Clone, Copy)]
pub struct Sizes {
    /// Objects or files.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// What one phase did and cost.
pub struct Phase {
    /// What it is.
    pub name: &'static str,
    /// How much it worked on.
    pub sizes: Sizes,
    /// How long it took.
    pub seconds: f64,
    /// Payload that went to the engine and came back; nothing if the engine had no part in it.
    pub crossed_bytes: Option<(u64, u64)>,
}

impl Phase {
    fn new(name: &'static str, sizes: Sizes, started_at: Instant, meter: Option<&Meter>) -> Phase {
        let seconds = started_at.elapsed().as_secs_f64();
        let crossed_bytes = meter.map(|meter| (meter.sent_bytes(), meter.received_bytes()));
        Phase { name, sizes, seconds, crossed_bytes }
    }

    /// Payload that crossed the boundary of the engine, both ways.
    pub fn crossed_both_ways(&self) -> Option<u64> {
        self.crossed_bytes.map(|(sent, received)| sent + received)
    }

    /// The phase as `--json` has it.
    pub fn to_json(&self) -> Value {
        json!({
            "phase": self.name,
            "objects": self.sizes.objects,
            "bytes": self.sizes.bytes,
            "seconds": self.seconds,
            "sent_bytes": self.crossed_bytes.map(|(sent, _)| sent),
            "received_bytes": self.crossed_bytes.map(|(_, received)| received),
        })
    }
}

/// Copies the files to objects as `cp` does, without its check: the digests check more.
pub async fn load(pool: &Arc<dyn Pool>, dataset: &Dataset, jobs: usize, session: &Session) -> Outcome<Phase> {
    let meter = Arc::new(Meter::default());
    let progress = Progress::bytes("loading", dataset.total_bytes);
    let options = Options { jobs, checksum: false, check: false };
    let started_at = Instant::now();
    let mut failures = Failures::default();
    let uploads = dataset.uploads.clone();
    upload::copy_all(meter.pool(Arc::clone(pool)), uploads, options, |upload, copied| {
        progress.advance(upload.size_bytes);
        if let Err(error) = copied {
            failures.push(upload.path.to_string_lossy(), error);
        }
        Ok(())
    })
    .await?;
    drop(progress);
    let sizes = Sizes { objects: dataset.uploads.len() as u64, bytes: dataset.total_bytes };
    failures.finish(&session.out, sizes.objects)?;
    Ok(Phase::new("load", sizes, started_at, Some(&meter)))
}

/// Lets the class digest every object, keep the digest as an attribute, and reads that back.
pub async fn in_storage(
    pool: &Arc<dyn Pool>,
    objects: &Arc<[ObjectId]>,
    jobs: usize,
    sizes: Sizes,
) -> Outcome<(Phase, Digests)> {
    let digest = |pool: Arc<dyn Pool>, object: ObjectId| async move {
        let digest = client::store(&*pool, &object, Algorithm::Md5, 1).await;
        (object, digest)
    };
    digest_all("digest in storage", pool, objects, jobs, sizes, digest).await
}

/// Reads every object and digests it here.
pub async fn at_client(
    pool: &Arc<dyn Pool>,
    objects: &Arc<[ObjectId]>,
    jobs: usize,
    sizes: Sizes,
) -> Outcome<(Phase, Digests)> {
    let digest = |pool: Arc<dyn Pool>, object: ObjectId| async move {
        let digest = client::hash_here(&*pool, &object, Algorithm::Md5).await;
        (object, digest)
    };
    digest_all("digest at the client", pool, objects, jobs, sizes, digest).await
}

async fn digest_all<F>(
    name: &'static str,
    pool: &Arc<dyn Pool>,
    objects: &Arc<[ObjectId]>,
    jobs: usize,
    sizes: Sizes,
    digest: impl Fn(Arc<dyn Pool>, ObjectId) -> F,
) -> Outcome<(Phase, Digests)>
where
    F: Future<Output = (ObjectId, Result<String>)> + Send + 'static,
{
    let meter = Arc::new(Meter::default());
    let pool = meter.pool(Arc::clone(pool));
    let progress = Progress::objects(name);
    let started_at = Instant::now();
    let mut digests = Digests::new();
    let items = stream::iter(objects.iter().cloned().map(Ok));
    jobs::run(
        items,
        jobs,
        |object| digest(Arc::clone(&pool), object),
        |(object, digest)| {
            progress.advance(1);
            digests.insert(object, digest?);
            Ok(())
        },
    )
    .await?;
    Ok((Phase::new(name, sizes, started_at, Some(&meter)), digests))
}

/// Lets `md5sum` digest the files.
pub async fn md5sum(uploads: &[Upload], sizes: Sizes) -> Outcome<(Phase, Digests)> {
    let progress = Progress::objects("md5sum");
    let started_at = Instant::now();
    let mut digests = Digests::new();
    for files in uploads.chunks(FILES_A_RUN) {
        interrupt::check()?;
        let paths: Vec<PathBuf> = files.iter().map(|file| file.path.clone()).collect();
        let sums = blocking(move || md5sum_of(&paths)).await?;
        digests.extend(files.iter().map(|file| file.object.clone()).zip(sums));
        progress.advance(files.len() as u64);
    }
    Ok((Phase::new("md5sum of the files", sizes, started_at, None), digests))
}

/// One run. With `-z` lines end with NUL and no name is escaped, so that any name can be in them.
fn md5sum_of(paths: &[PathBuf]) -> Result<Vec<String>> {
    let run = Command::new("md5sum").args(["-z", "--"]).args(paths).stdin(Stdio::null()).output();
    let run = run.map_err(|error| {
        Error::new(ErrorKind::Unavailable, "cannot run md5sum; it is in the package coreutils")
            .with_source(error)
    })?;
    let lines: Vec<&[u8]> = run.stdout.split(|byte| *byte == 0).filter(|line| !line.is_empty()).collect();
    if !run.status.success() || lines.len() != paths.len() {
        return Err(Error::new(ErrorKind::Unavailable, "md5sum could not read every file; did they change?")
            .with("md5sum", String::from_utf8_lossy(&run.stderr).trim().escape_debug()));
    }
    Ok(lines
        .iter()
        .map(|line| String::from_utf8_lossy(line.get(..32).unwrap_or(line)).into_owned())
        .collect())
}
