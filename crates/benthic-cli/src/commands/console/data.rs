//! Downloads, uploads and deletions.
//!
//! A download reads the next range when the client has taken the last one, so a client that goes
//! away stops the reading. An upload is in memory until it is complete, so a client that goes away
//! leaves nothing behind; objects are at most 128 MiB, and few uploads run at once.

use crate::commands;
use crate::commands::console::Console;
use crate::commands::console::query::Query;
use crate::commands::console::reply::{Reply, json_reply};
use benthic_core::op::check_object_size;
use benthic_core::{Error, Fetch, ObjectId, OptionalExtension, Pool, Result};
use benthic_program::transfer::{self, Replaced};
use benthic_striped::lock::Lock;
use benthic_striped::read::{self, Options, StripedReader};
use benthic_striped::{Striped, StripedState};
use bytes::{Bytes, BytesMut};
use futures::stream::{self, Stream, StreamExt};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::header::{
    CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue,
};
use hyper::{Request, Response};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// Bytes that one read of a download fetches.
const RANGE_BYTES: u64 = 4 * 1024 * 1024;
const UPLOADS_MAX: usize = 2;
/// Time limit for the next part of an upload.
const PART_LIMIT: Duration = Duration::from_secs(30);
/// Time limit to read one range, or to write an object.
const STORE_LIMIT: Duration = Duration::from_secs(60);
/// Time to wait for writers of a striped object.
const LOCK_WAIT: Duration = Duration::from_secs(5);

/// The policy of responses with data of objects: a browser that shows them runs nothing in them.
const SANDBOX: &str = "default-src 'none'; sandbox; frame-ancestors 'none'";

pub fn upload_slots() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(UPLOADS_MAX))
}

pub fn sandbox(mut reply: Reply) -> Reply {
    reply.headers_mut().insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(SANDBOX));
    reply
}

pub async fn download(console: &Console<'_>, query: &Query, only_head: bool) -> Result<Reply> {
    let pool = console.session.pool(query.required("pool")?).await?;
    let object = query.object()?;
    let disposition = disposition(object.name());
    let (size_bytes, body) = if query.is_set("striped")? {
        let at = commands::striped_object(console.session, pool, object).await?;
        let (lock, reader) = open_striped(at).await?;
        (reader.size_bytes, striped_ranges(Held(Some(lock)), reader).boxed())
    } else {
        let (stat, version) = pool.stat(&object).await?;
        (stat.size_bytes, ranges(pool, object, version, stat.size_bytes).boxed())
    };
    let body = if only_head { stream::empty().boxed() } else { body };
    let mut reply = Response::new(StreamBody::new(body).boxed_unsync());
    let headers = reply.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers.insert(CONTENT_LENGTH, HeaderValue::from(size_bytes));
    headers.insert(CONTENT_DISPOSITION, disposition);
    Ok(sandbox(reply))
}

/// The name of the file that a browser stores: the last part of the object's name.
fn disposition(name: &str) -> HeaderValue {
    let file = name.rsplit('/').find(|part| !part.is_empty()).unwrap_or("object");
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let escaped = file.bytes().fold(String::new(), |escaped, byte| match byte {
        byte if plain(byte) => escaped + char::from(byte).encode_utf8(&mut [0; 4]),
        byte => escaped + &format!("%{byte:02X}"),
    });
    HeaderValue::from_str(&format!("attachment; filename*=UTF-8''{escaped}"))
        .unwrap_or(HeaderValue::from_static("attachment"))
}

async fn in_time<T>(read: impl Future<Output = Result<T>>) -> Result<T> {
    let late = || Error::unavailable("the store did not answer in time");
    timeout(STORE_LIMIT, read).await.unwrap_or_else(|_| Err(late()))
}

/// The data of one version of an object. If the object changes meanwhile, the download breaks off.
fn ranges(
    pool: Arc<dyn Pool>,
    object: ObjectId,
    version: u64,
    size_bytes: u64,
) -> impl Stream<Item = Result<Frame<Bytes>>> + Send {
    stream::try_unfold((pool, object, 0), move |(pool, object, offset_bytes)| async move {
        let len_bytes = RANGE_BYTES.min(size_bytes - offset_bytes);
        if len_bytes == 0 {
            return Ok(None);
        }
        let range = Fetch::read_exact(version, offset_bytes, len_bytes);
        let (data, _) = in_time(pool.fetch(&object, range)).await?;
        Ok(Some((Frame::data(data), (pool, object, offset_bytes + len_bytes))))
    })
}

/// A lock that ends when the download ends, also if the client goes away.
struct Held(Option<Lock>);

impl Drop for Held {
    fn drop(&mut self) {
        if let (Some(lock), Ok(runtime)) = (self.0.take(), tokio::runtime::Handle::try_current()) {
            runtime.spawn(lock.release());
        }
    }
}

async fn open_striped(at: Striped) -> Result<(Lock, StripedReader)> {
    let head = at.read_head().await?.ok_or_else(|| {
        Error::not_found("there is no striped object of this name").with("object", at.object.name())
    })?;
    let has_digests = matches!(&head.state, StripedState::Complete { note: Some(_), .. });
    if let StripedState::Complete { layout, .. } = &head.state
        && layout.stripe_count != 1
    {
        let message =
            "the console streams only striped objects with one object per stripe; use `benthic cp --stripe`";
        return Err(Error::unsupported(message).with("layout", layout));
    }
    // Objects of other programs have no digests and may have holes.
    let options = Options {
        jobs: 1,
        checksum: false,
        check: has_digests,
        lock_wait: LOCK_WAIT,
        progress: |_| Box::new(|_| ()),
    };
    in_time(read::open(at, options)).await
}

/// The pieces of a striped object, one after the other.
fn striped_ranges(lock: Held, reader: StripedReader) -> impl Stream<Item = Result<Frame<Bytes>>> + Send {
    stream::try_unfold((lock, reader, 0), |(lock, reader, piece)| async move {
        if piece == reader.pieces() {
            return Ok(None);
        }
        let (data, _) = in_time(reader.piece(piece)).await?;
        Ok(Some((Frame::data(data), (lock, reader, piece + 1))))
    })
}

pub async fn upload(console: &Console<'_>, query: &Query, request: Request<Incoming>) -> Result<Reply> {
    console.check_writable()?;
    let object = query.object()?;
    commands::check_writable(object.namespace())?;
    let pool = console.session.pool(query.required("pool")?).await?;
    let replaced = if query.is_set("replace")? { Replaced::Any } else { Replaced::Nothing };
    let announced = request.headers().get(CONTENT_LENGTH).and_then(|len| len.to_str().ok()?.parse().ok());
    check_object_size(announced.unwrap_or(0))?;
    let Ok(slot) = console.uploads.try_acquire() else {
        return Err(
            Error::busy("other uploads are running; repeat this one later").with("uploads_max", UPLOADS_MAX)
        );
    };
    if replaced == Replaced::Nothing && pool.stat(&object).await.optional()?.is_some() {
        let message = "there is an object of this name; send replace=1 to replace it";
        return Err(Error::already_exists(message).with("object", object.name()));
    }
    let data = receive(request.into_body()).await?;
    let size_bytes = data.len();
    let version = in_time(transfer::upload(&*pool, &object, replaced, data, None)).await?;
    drop(slot);
    Ok(json_reply(&json!({ "size_bytes": size_bytes, "version": version })))
}

async fn receive(mut body: Incoming) -> Result<Bytes> {
    let mut data = BytesMut::new();
    loop {
        let part = timeout(PART_LIMIT, body.frame()).await;
        let late = |_| Error::unavailable("the upload stopped; nothing was stored");
        let Some(frame) = part.map_err(late)? else { return Ok(data.freeze()) };
        let broken = |_| Error::invalid_argument("the upload broke off; nothing was stored");
        if let Ok(part) = frame.map_err(broken)?.into_data() {
            check_object_size((data.len() + part.len()) as u64)?;
            data.extend_from_slice(&part);
        }
    }
}

pub async fn remove(console: &Console<'_>, query: &Query) -> Result<Reply> {
    console.check_writable()?;
    let object = query.object()?;
    commands::check_writable(object.namespace())?;
    let pool = console.session.pool_for_removal(query.required("pool")?).await?;
    pool.remove(&object).await?;
    Ok(json_reply(&json!({ "removed": object.name() })))
}

#[cfg(test)]
#[path = "data_tests.rs"]
mod tests;
