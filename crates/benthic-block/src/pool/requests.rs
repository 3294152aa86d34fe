//! Changes of an image that another program has open. A program that finds the image busy leaves a
//! request in the omap of the header. The program that has the image open looks for requests ten
//! times a second, carries them out, and leaves the results there.

use super::image::PoolImage;
use super::objects::ImageId;
use super::writer::holders;
use crate::contract::{Change, Image};
use benthic_classes::lock::wire::ListedHolder;
use benthic_core::codec::Wire;
use benthic_core::{
    Environment, Error, ErrorKind, Fetch, ObjectId, Pool, Result, Stopwatch, WriteOp, limits, wire_enum,
    wire_struct,
};
use bytes::Bytes;
use std::sync::{Arc, Weak};
use std::time::Duration;

const REQUEST_PREFIX: &str = "request/";
const RESULT_PREFIX: &str = "result/";
const POLL: Duration = Duration::from_millis(100);
/// Requests that are read at a time.
const REQUESTS_MAX: usize = 64;
/// How long a request waits for the program that has the image open to take it.
const TAKE_LIMIT: Duration = Duration::from_secs(10);

/// The result of a request; of an error, the name of its kind and its message.
struct Outcome {
    error: Option<Failure>,
}

struct Failure {
    kind: String,
    message: String,
}

wire_struct! {
    Outcome { error }
    Failure { kind, message }
}

/// A request to the writer of an image.
pub(super) enum Request {
    Change { change: Change },
    Pause { pause: u64 },
    SnapshotPaused { pause: u64, name: String },
    EndPause { pause: u64 },
}

wire_enum! {
    Change {
        1 CreateSnapshot { name: name }
        2 RemoveSnapshot { name: name }
        3 Resize { size_bytes: size_bytes }
        4 Flatten {}
        5 ProtectSnapshot { name: name, protect: protect }
    }
    Request {
        1 Change { change: change }
        2 Pause { pause: pause }
        3 SnapshotPaused { pause: pause, name: name }
        4 EndPause { pause: pause }
    }
}

/// Asks the program that has the image open.
///
/// # Errors
/// Those of the request; `Busy` if the other program does not take the request, and nothing was
/// changed; `OutcomeUnknown` if it took the request but ended without a result.
pub(super) async fn ask(
    pool: &dyn Pool,
    id: ImageId,
    request: &Request,
    environment: &Environment,
) -> Result<()> {
    let header = id.header()?;
    let encoded = request.encode();
    let number = environment.random.random_u64()?;
    let (request, result) =
        (format!("{REQUEST_PREFIX}{number:016x}"), format!("{RESULT_PREFIX}{number:016x}"));
    let op = WriteOp::new().assert_exists().omap_set([(request.clone(), encoded.clone())]);
    pool.write(&header, op).await?;
    let asked = holders(pool, &header).await?;
    let watch = Stopwatch::start(&*environment.clock);
    loop {
        tokio::time::sleep(POLL / 2).await;
        // The other order would miss a result that comes between the two reads.
        let is_there = !asked.is_empty() && is_same(&holders(pool, &header).await?, &asked);
        let (page, _) = pool.fetch(&header, Fetch::omap_get([request.clone(), result.clone()])).await?;
        let find = |key: &str| page.entries.iter().find(|(found, _)| found == key.as_bytes());
        if let Some((_, outcome)) = find(&result) {
            let outcome = Outcome::from_stored(outcome)?;
            pool.write(&header, WriteOp::new().assert_exists().omap_remove([result])).await?;
            return outcome.error.map_or(Ok(()), |failure| {
                let kind = ErrorKind::from_name(&failure.kind).unwrap_or(ErrorKind::Internal);
                Err(Error::new(kind, failure.message))
            });
        }
        let is_taken = find(&request).is_none();
        if is_taken && !is_there {
            let message =
                "the program that had the image open ended before it said whether it made the change";
            return Err(Error::outcome_unknown(message));
        }
        if is_taken || (is_there && watch.elapsed() < TAKE_LIMIT) {
            continue;
        }
        // If the request is still there, nobody will carry it out after this.
        let op = WriteOp::new().cmp_omap(request.clone(), encoded.clone()).omap_remove([request.clone()]);
        match pool.write(&header, op).await {
            Err(error) if error.kind() == ErrorKind::Conflict => {}
            Err(error) => return Err(error),
            Ok(_) => {
                let message =
                    "the program that has the image open does not answer; stop it, or try again later";
                return Err(Error::busy(message));
            }
        }
    }
}

fn is_same(now: &[ListedHolder], before: &[ListedHolder]) -> bool {
    let cookies =
        |holders: &[ListedHolder]| holders.iter().map(|holder| holder.cookie.clone()).collect::<Vec<_>>();
    cookies(now) == cookies(before)
}

/// The keys that programs have left which did not wait for their results, or whose requests nobody
/// took. A new writer removes them, so that it does not carry out an old request.
pub(super) async fn left_keys(pool: &dyn Pool, header: &ObjectId) -> Result<Vec<Bytes>> {
    let mut keys = Vec::new();
    for prefix in [REQUEST_PREFIX, RESULT_PREFIX] {
        let (page, _) =
            pool.fetch(header, Fetch::omap_range(None, prefix, limits::OMAP_PAGE_ENTRIES_MAX)).await?;
        keys.extend(page.entries.into_iter().map(|(key, _)| key));
    }
    Ok(keys)
}

/// Carries out requests until the image is closed or nobody uses it.
pub(super) async fn serve(image: Weak<PoolImage>) {
    loop {
        tokio::time::sleep(POLL).await;
        let Some(image) = image.upgrade() else { return };
        match image.serve_requests().await {
            Ok(()) => {}
            // The image is closed, or another program has it.
            Err(error) if error.kind() == ErrorKind::Conflict => return,
            Err(error) => tracing::warn!("requests of other programs were not read: {error}"),
        }
    }
}

impl PoolImage {
    async fn serve_requests(self: &Arc<Self>) -> Result<()> {
        let writer = self.writer().await?;
        let pending = Fetch::omap_range(None, REQUEST_PREFIX, REQUESTS_MAX);
        let (page, _) = self.pool.fetch(&self.id.header()?, pending).await?;
        for (key, encoded) in page.entries {
            let claim = WriteOp::new().cmp_omap(key.clone(), encoded.clone()).omap_remove([key.clone()]);
            match writer.change_header(claim).await {
                // The other program no longer waits.
                Err(error) if error.kind() == ErrorKind::Conflict && !writer.is_lost() => continue,
                claimed => claimed?,
            }
            let error = self
                .carry_out(&encoded)
                .await
                .err()
                .map(|error| Failure { kind: error.kind().row().name.to_owned(), message: error.text() });
            let number = key.strip_prefix(REQUEST_PREFIX.as_bytes()).unwrap_or_default();
            let result = Bytes::from([RESULT_PREFIX.as_bytes(), number].concat());
            writer.change_header(WriteOp::new().omap_set([(result, Outcome { error }.encode())])).await?;
        }
        Ok(())
    }

    async fn carry_out(self: &Arc<Self>, encoded: &[u8]) -> Result<()> {
        match Request::from_stored(encoded)? {
            Request::Change { change } => self.apply(&change).await,
            Request::Pause { pause } => self.pause_writes(pause).await,
            Request::SnapshotPaused { pause, name } => self.snapshot_paused(pause, &name).await,
            Request::EndPause { pause } => {
                drop(self.end_pause(pause));
                Ok(())
            }
        }
    }

    /// Applies a change to an image that this program has open.
    pub(super) async fn apply(&self, change: &Change) -> Result<()> {
        match change {
            Change::CreateSnapshot { name } => self.create_snapshot(name).await,
            Change::RemoveSnapshot { name } => self.remove_snapshot(name).await,
            Change::ProtectSnapshot { name, protect } => self.protect_snapshot(name, *protect).await,
            Change::Resize { size_bytes } => self.resize(*size_bytes).await,
            Change::Flatten {} => self.flatten().await,
        }
    }
}
