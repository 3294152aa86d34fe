//! The four phases: load, digest in storage, digest at the client, and `md5sum` as the reference.

use crate::commands::cp::plan::Upload;
use crate::commands::cp::{Options, upload};
use crate::jobs::{self, Failures, OUTAGE_WAIT};
use benthic_core::{Error, Meter, ObjectId, Pool, Result, Stopwatch};
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

/// Number of files per run of `md5sum`. Their paths stay well below the system's limit for
/// arguments.
const FILES_A_RUN: usize = 256;

pub type Digests = HashMap<ObjectId, String>;

#[derive(Clone, Copy, Serialize)]
pub struct Sizes {
    pub objects: u64,
    pub bytes: u64,
}

#[derive(Serialize)]
pub struct Phase {
    #[serde(rename = "phase")]
    pub name: &'static str,
    #[serde(flatten)]
    pub sizes: Sizes,
    pub seconds: f64,
    /// `None` for phases without the engine, as below.
    pub round_trips: Option<u64>,
    /// Payload sent to the engine.
    pub sent_bytes: Option<u64>,
    pub received_bytes: Option<u64>,
}

impl Phase {
    fn new(name: &'static str, sizes: Sizes, stopwatch: Stopwatch, meter: Option<&Meter>) -> Phase {
        Phase {
            name,
            sizes,
            seconds: seconds(stopwatch),
            round_trips: meter.map(Meter::operations),
            sent_bytes: meter.map(Meter::sent_bytes),
            received_bytes: meter.map(Meter::received_bytes),
        }
    }

    /// Payload that crossed the engine's boundary in both directions.
    pub fn crossed_both_ways(&self) -> Option<u64> {
        Some(self.sent_bytes? + self.received_bytes?)
    }
}

/// Copies the files to objects as `cp` does, but without verification, because the digests verify
/// more.
pub async fn load(
    pool: &Arc<dyn Pool>,
    uploads: &[Upload],
    sizes: Sizes,
    jobs: usize,
    session: &Session,
) -> Outcome<Phase> {
    let meter = Arc::new(Meter::default());
    let progress = Progress::bytes("loading", sizes.bytes);
    let options = Options {
        jobs,
        checksum: false,
        check: false,
        began_unix_ns: u64::MAX,
        dry_run: false,
        outage_wait: OUTAGE_WAIT,
    };
    let stopwatch = start();
    let mut failures = Failures::default();
    let metered = meter.pool(Arc::clone(pool));
    let ended = upload::copy_all(session, metered, uploads.to_vec(), options, |upload, copied| {
        match copied {
            Ok(_) => progress.advance(upload.size_bytes),
            Err(error) => failures.push(upload.path.to_string_lossy(), error),
        }
        Ok(())
    })
    .await;
    drop(progress);
    let reported = failures.finish(&session.out, sizes.objects);
    ended.and(reported)?;
    Ok(Phase::new("load", sizes, stopwatch, Some(&meter)))
}

/// Computes the digest of every object with the function `digest`.
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

/// Runs `md5sum` once. With `-z`, lines end with NUL and names are not escaped, so any name is
/// safe.
fn md5sum_of(paths: &[PathBuf]) -> Result<Vec<String>> {
    let run = Command::new("md5sum").args(["-z", "--"]).args(paths).stdin(Stdio::null()).output();
    let run = run.map_err(|error| {
        Error::unavailable("cannot run md5sum; it is in the package coreutils").with_source(error)
    })?;
    let lines: Vec<&[u8]> = run.stdout.split(|byte| *byte == 0).filter(|line| !line.is_empty()).collect();
    if !run.status.success() || lines.len() != paths.len() {
        return Err(Error::unavailable("md5sum could not read every file; check whether they have changed")
            .with("md5sum", String::from_utf8_lossy(&run.stderr).trim().escape_debug()));
    }
    Ok(lines
        .iter()
        .map(|line| String::from_utf8_lossy(line.get(..32).unwrap_or(line)).into_owned())
        .collect())
}
