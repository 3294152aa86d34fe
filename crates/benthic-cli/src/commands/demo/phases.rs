//! The four phases: load, digest in storage, digest at the client, and the system's `md5sum` as the judge.

use super::dataset::Dataset;
use crate::commands::cp::plan::Upload;
use crate::commands::cp::{Options, upload};
use crate::jobs::{self, Failures};
use benthic_core::{Error, ErrorKind, Meter, ObjectId, Pool, Result, Stopwatch};
use benthic_program::exit::Outcome;
use benthic_program::interrupt;
use benthic_program::measure::{seconds, start};
use benthic_program::progress::Progress;
use benthic_program::session::Session;
use benthic_program::store::blocking;
use futures::stream;
use serde::Serialize;
use std::collections::HashMap;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;

/// Files that one run of `md5sum` gets, and bytes of their paths; well below what a system takes.
const FILES_A_RUN: usize = 256;

/// A digest by object.
pub type Digests = HashMap<ObjectId, String>;

/// How much a phase worked on.
#[derive(Clone, Copy, Serialize)]
pub struct Sizes {
    /// Objects or files.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// What one phase did and cost.
#[derive(Serialize)]
pub struct Phase {
    /// What it is.
    #[serde(rename = "phase")]
    pub name: &'static str,
    /// How much it worked on.
    #[serde(flatten)]
    pub sizes: Sizes,
    /// How long it took.
    pub seconds: f64,
    /// Payload that went to the engine; nothing if the engine had no part in it.
    pub sent_bytes: Option<u64>,
    /// Payload that came back.
    pub received_bytes: Option<u64>,
}

impl Phase {
    fn new(name: &'static str, sizes: Sizes, stopwatch: Stopwatch, meter: Option<&Meter>) -> Phase {
        let (sent_bytes, received_bytes) = (meter.map(Meter::sent_bytes), meter.map(Meter::received_bytes));
        Phase { name, sizes, seconds: seconds(stopwatch), sent_bytes, received_bytes }
    }

    /// Payload that crossed the boundary of the engine, both ways.
    pub fn crossed_both_ways(&self) -> Option<u64> {
        Some(self.sent_bytes? + self.received_bytes?)
    }
}

/// Copies the files to objects as `cp` does, without its check: the digests check more.
pub async fn load(pool: &Arc<dyn Pool>, dataset: &Dataset, jobs: usize, session: &Session) -> Outcome<Phase> {
    let meter = Arc::new(Meter::default());
    let progress = Progress::bytes("loading", dataset.total_bytes);
    let options = Options { jobs, checksum: false, check: false };
    let stopwatch = start();
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
    Ok(Phase::new("load", sizes, stopwatch, Some(&meter)))
}

/// Digests every object in this way.
pub async fn digest_all<F>(
    name: &'static str,
    pool: &Arc<dyn Pool>,
    objects: &Arc<[ObjectId]>,
    jobs: usize,
    sizes: Sizes,
    digest: impl Fn(Arc<dyn Pool>, ObjectId) -> F,
) -> Outcome<(Phase, Digests)>
where
    F: Future<Output = Result<String>> + Send + 'static,
{
    let meter = Arc::new(Meter::default());
    let pool = meter.pool(Arc::clone(pool));
    let progress = Progress::objects(name);
    let stopwatch = start();
    let mut digests = Digests::new();
    let items = stream::iter(objects.iter().cloned().map(Ok));
    jobs::run(
        items,
        jobs,
        |object| {
            let digest = digest(Arc::clone(&pool), object.clone());
            async move { (object, digest.await) }
        },
        |(object, digest)| {
            progress.advance(1);
            digests.insert(object, digest?);
            Ok(())
        },
    )
    .await?;
    Ok((Phase::new(name, sizes, stopwatch, Some(&meter)), digests))
}

/// Lets `md5sum` digest the files.
pub async fn md5sum(uploads: &[Upload], sizes: Sizes) -> Outcome<(Phase, Digests)> {
    let progress = Progress::objects("md5sum");
    let stopwatch = start();
    let mut digests = Digests::new();
    for files in uploads.chunks(FILES_A_RUN) {
        interrupt::check()?;
        let paths: Vec<PathBuf> = files.iter().map(|file| file.path.clone()).collect();
        let sums = blocking(move || md5sum_of(&paths)).await?;
        digests.extend(files.iter().map(|file| file.object.clone()).zip(sums));
        progress.advance(files.len() as u64);
    }
    Ok((Phase::new("md5sum of the files", sizes, stopwatch, None), digests))
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
