//! Copies files to objects.

use super::plan::{self, Plan, Upload};
use super::{Copied, Options, Tally};
use crate::jobs;
use benthic_classes::digest::{Algorithm, Hasher};
use benthic_core::{
    Action, Clock, Error, ErrorKind, ObjectId, OptionalExtension, Pool, Result, SystemClock, WriteOp, limits,
};
use benthic_program::exit::Outcome;
use benthic_program::interrupt;
use benthic_program::local::{self, Content};
use benthic_program::measure::start;
use benthic_program::progress::Progress;
use benthic_program::session::Session;
use benthic_program::store::blocking;
use benthic_program::transfer::{self, Replaced, SOURCE_XATTR, Source};
use bytes::Bytes;
use futures::stream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

/// Pause before an object is read again that another client may still be writing.
const PAUSE: Duration = Duration::from_millis(100);
/// An incomplete object that has not changed for this long stays incomplete.
const STANDSTILL_MAX: Duration = Duration::from_secs(10);
/// Memory limit in KiB. Each copy holds a whole file, so this allows four files of maximum size.
pub const MEMORY_KIB: u32 = 4 * 128 * 1024;

/// The share of [`MEMORY_KIB`] that data of this size take.
pub fn kib(size_bytes: u64) -> u32 {
    u32::try_from(size_bytes / 1024 + 1).unwrap_or(MEMORY_KIB).min(MEMORY_KIB)
}

pub async fn run(pool: Arc<dyn Pool>, plan: Plan, options: Options, tally: &mut Tally<'_>) -> Outcome {
    plan::warn_of_skipped(&plan.skipped, &tally.session.out);
    tally.skipped = plan.skipped.len() as u64;
    pool.name().clone_into(&mut tally.pool);
    let progress = Progress::bytes("copying", plan.total_bytes());
    for (path, error) in plan.refused {
        tally.failures.push(path, error);
    }
    copy_all(tally.session, pool, plan.uploads, options, |upload, copied| {
        let path = upload.path.to_string_lossy();
        match copied {
            Ok(copied) => {
                progress.advance(upload.size_bytes);
                progress.suspend(|| tally.add(&upload.object, ("path", &path), &copied))
            }
            Err(error) => {
                tally.failures.push(path, error);
                Ok(())
            }
        }
    })
    .await
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
    let known = transfer::read_state(pool, &upload.object).await.optional()?;
    let unchanged = Copied { unchanged: true, size_bytes: upload.size_bytes };
    let recorded = known.as_ref().and_then(|known| known.source.as_ref());
    if !options.checksum
        && recorded.is_some_and(|source| {
            (source.size_bytes, source.modified_unix_ns) == (upload.size_bytes, upload.modified_unix_ns)
        })
    {
        return Ok(unchanged);
    }
    let replaced = known.as_ref().map_or(Replaced::Nothing, |known| Replaced::Version(known.version));
    // A time in the future comes from a clock that was wrong.
    let since_began = options.began_unix_ns..=SystemClock.unix_ns();
    let is_new = known.as_ref().is_some_and(|known| since_began.contains(&known.stat.modified_unix_ns));
    let _memory = memory.acquire_many(kib(upload.size_bytes)).await;
    let path = upload.path.clone();
    let (data, source) = blocking(move || read(&path)).await?;
    let replace = async || {
        if is_new {
            let message = "another client wrote to the object after this command began; check the object, then repeat \
                the command";
            return Err(Error::conflict(message));
        }
        if let Some(known) =
            known.filter(|known| options.checksum && known.stat.size_bytes == source.size_bytes)
            && transfer::stored_xxh3(pool, &upload.object, known.version).await? == source.xxh3
        {
            return Ok(true);
        }
        if options.dry_run {
            return Ok(false);
        }
        let version = transfer::upload(pool, &upload.object, replaced, data, Some(&source)).await?;
        if options.check {
            check(pool, &upload.object, version, &source.xxh3, SOURCE_XATTR).await?;
        }
        Ok(false)
    };
    let unchanged = match replace().await {
        Err(error) if error.kind() == ErrorKind::Conflict => {
            let equal = is_stored(pool, &upload.object, &source).await?;
            if equal { true } else { return Err(error) }
        }
        unchanged => unchanged?,
    };
    Ok(Copied { unchanged, size_bytes: source.size_bytes })
}

/// Returns whether the object that another client has written is equal to the file. While a large
/// object is too short, that client may still be writing it. So this waits as long as its version
/// changes.
async fn is_stored(pool: &dyn Pool, object: &ObjectId, source: &Source) -> Result<bool> {
    let mut waiting = (0, start());
    loop {
        let Some(known) = transfer::read_state(pool, object).await.optional()? else { return Ok(false) };
        if known.version != waiting.0 {
            waiting = (known.version, start());
        }
        if known.stat.size_bytes == source.size_bytes {
            match transfer::stored_xxh3(pool, object, known.version).await {
                Err(error) if error.kind() == ErrorKind::Conflict => {}
                stored => return Ok(stored? == source.xxh3),
            }
        } else if known.stat.size_bytes > source.size_bytes
            || source.size_bytes <= limits::OPERATION_BYTES_MAX
            || waiting.1.elapsed() >= STANDSTILL_MAX
            || interrupt::is_set()
        {
            return Ok(false);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

fn read(path: &Path) -> Result<(Bytes, Source)> {
    let Content { data, modified_unix_ns } = local::read_file(path)?;
    let mut hasher = Hasher::new(Algorithm::Xxh3);
    hasher.update(&data);
    let source = Source { size_bytes: data.len() as u64, modified_unix_ns, xxh3: hasher.finish() };
    Ok((data, source))
}

/// Compares the digests of the stored data and of the data read. If that fails, it removes the
/// attribute `record`, so that the next run copies the data again.
pub async fn check(pool: &dyn Pool, object: &ObjectId, version: u64, read: &str, record: &str) -> Result<()> {
    let error = match transfer::stored_xxh3(pool, object, version).await {
        Ok(stored) if stored == read => return Ok(()),
        Err(error) if error.kind() == ErrorKind::Conflict => {
            let message = "another client wrote to the object before it was verified; copy it again";
            return Err(Error::conflict(message));
        }
        Ok(stored) => Error::corrupt("the stored data differ from the source; copy it again")
            .with("stored", stored)
            .with("read", read),
        Err(error) => error.with("while", "checking"),
    };
    let forget = WriteOp::new().assert_version(version).remove_xattr(record);
    match pool.write(object, forget).await {
        Ok(_) => Err(error),
        Err(failed) => Err(error.with("note", format_args!("cannot be removed: {failed}"))),
    }
}

#[cfg(test)]
#[path = "upload_tests.rs"]
mod tests;
