//! Copies files to objects.

use super::plan::{self, Plan, Upload};
use super::{Copied, Options, Tally};
use crate::jobs;
use benthic_classes::digest::{Algorithm, Hasher};
use benthic_core::{Action, Error, ErrorKind, ObjectId, Pool, Result, WriteOp};
use benthic_program::exit::Outcome;
use benthic_program::local::{self, Content};
use benthic_program::progress::Progress;
use benthic_program::session::Session;
use benthic_program::store::blocking;
use benthic_program::transfer::{self, SOURCE_XATTR, Source};
use bytes::Bytes;
use futures::stream;
use std::path::Path;
use std::sync::Arc;
use tokio::sync::Semaphore;

/// Memory limit in KiB. Each copy holds a whole file, so this allows four files of maximum size.
const MEMORY_KIB: u32 = 4 * 128 * 1024;

pub async fn run(pool: Arc<dyn Pool>, plan: Plan, options: Options, session: &Session) -> Outcome {
    plan::warn_of_skipped(&plan.skipped, &session.out);
    let skipped = plan.skipped.len() as u64;
    let progress = Progress::bytes("copying", plan.total_bytes());
    let mut tally = Tally::new(session, pool.name());
    for (path, error) in plan.refused {
        tally.failures.push(path, error);
    }
    let ended = copy_all(session, pool, plan.uploads, options, |upload, copied| {
        let path = upload.path.to_string_lossy();
        match copied {
            Ok(copied) => {
                progress.advance(upload.size_bytes);
                progress.suspend(|| tally.add(&path, &upload.object, &copied))
            }
            Err(error) => {
                tally.failures.push(path, error);
                Ok(())
            }
        }
    })
    .await;
    drop(progress);
    tally.finish(skipped, ended)
}

/// Copies files to objects, `options.jobs` at a time. Calls `done` with the result of each.
pub async fn copy_all(
    session: &Session,
    pool: Arc<dyn Pool>,
    uploads: Vec<Upload>,
    options: Options,
    mut done: impl FnMut(Upload, Result<Copied>) -> Outcome,
) -> Outcome {
    let memory = Arc::new(Semaphore::new(MEMORY_KIB as usize));
    let job = |upload: Upload| {
        let (pool, memory) = (Arc::clone(&pool), Arc::clone(&memory));
        async move {
            let copied = jobs::until_stopped(Action::Write, copy(&*pool, &upload, options, &memory)).await;
            (upload, copied)
        }
    };
    let uploads = stream::iter(uploads.into_iter().map(Ok));
    jobs::run(uploads, options.limits(session), job, |(upload, copied)| done(upload, copied)).await
}

async fn copy(pool: &dyn Pool, upload: &Upload, options: Options, memory: &Semaphore) -> Result<Copied> {
    let known = match transfer::read_state(pool, &upload.object).await {
        Ok(known) => Some(known),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    let unchanged = Copied { unchanged: true, size_bytes: upload.size_bytes };
    let recorded = known.as_ref().and_then(|known| known.source.as_ref());
    if !options.checksum
        && recorded.is_some_and(|source| {
            (source.size_bytes, source.modified_unix_ns) == (upload.size_bytes, upload.modified_unix_ns)
        })
    {
        return Ok(unchanged);
    }
    let wanted_kib = u32::try_from(upload.size_bytes / 1024 + 1).unwrap_or(MEMORY_KIB).min(MEMORY_KIB);
    let _memory = memory.acquire_many(wanted_kib).await;
    let path = upload.path.clone();
    let (data, source) = blocking(move || read(&path)).await?;
    if let Some(known) = known.filter(|known| options.checksum && known.stat.size_bytes == source.size_bytes)
        && transfer::stored_xxh3(pool, &upload.object, known.version).await? == source.xxh3
    {
        return Ok(unchanged);
    }
    let version = transfer::upload(pool, &upload.object, data, Some(&source)).await?;
    if options.check {
        check(pool, &upload.object, version, &source).await?;
    }
    Ok(Copied { unchanged: false, size_bytes: source.size_bytes })
}

fn read(path: &Path) -> Result<(Bytes, Source)> {
    let Content { data, modified_unix_ns } = local::read_file(path)?;
    let mut hasher = Hasher::new(Algorithm::Xxh3);
    hasher.update(&data);
    let source = Source { size_bytes: data.len() as u64, modified_unix_ns, xxh3: hasher.finish() };
    Ok((data, source))
}

/// Compares the stored data with the data read. If that fails, it removes the record of the source,
/// so that the next run copies the file again.
async fn check(pool: &dyn Pool, object: &ObjectId, version: u64, source: &Source) -> Result<()> {
    let error = match transfer::stored_xxh3(pool, object, version).await {
        Ok(stored) if stored == source.xxh3 => return Ok(()),
        Ok(stored) => Error::new(ErrorKind::Corrupt, "the stored data differ from the file; copy it again")
            .with("stored", stored)
            .with("read", &source.xxh3),
        Err(error) if error.kind() == ErrorKind::Conflict => Error::new(
            ErrorKind::Conflict,
            "another client wrote to the object before it was verified; copy it again",
        ),
        Err(error) => error.with("while", "checking"),
    };
    let forget = WriteOp::new().assert_version(version).remove_xattr(SOURCE_XATTR);
    match pool.write(object, forget).await {
        Ok(_) => Err(error),
        Err(failed) => Err(error.with("note", format_args!("cannot be removed: {failed}"))),
    }
}

#[cfg(test)]
#[path = "upload_tests.rs"]
mod tests;
