//! Reads through the cache: the heads of objects, and the blocks of their data.
//!
//! A block belongs to one state of an object: its key has the upstream, the bucket, the key, the
//! version, the ETag and the size. Every fetch requires the ETag (`If-Match`), so a block of
//! another state is never stored. The known facts about an object (its head) are an entry of the
//! cache, too, so that the gateway can answer while the upstream is unreachable, also after a
//! restart.

use super::cache::Cache;
use super::client::{Answer, Call, Client, error_of};
use super::head::Head;
use super::{UpstreamMetrics, Validate, objects_error};
use benthic_core::{Environment, Error, ErrorKind, Result};
use bytes::Bytes;
use futures::future::{BoxFuture, Shared};
use futures::{FutureExt, StreamExt};
use hyper::{Method, StatusCode};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use tokio::sync::Semaphore;

/// Blocks that one reader fetches ahead, including the one that it waits for.
const BLOCKS_AHEAD: usize = 4;
/// Maximum number of heads in memory.
const HEADS_MAX: usize = 10_000;
/// Concurrent accesses to the cache's files.
const FILES_MAX: usize = 64;

type Block = Shared<BoxFuture<'static, std::result::Result<Bytes, Arc<Error>>>>;

/// The reader of one upstream.
pub(super) struct Blocks {
    pub client: Client,
    pub cache: Arc<Cache>,
    pub metrics: Arc<UpstreamMetrics>,
    pub(super) environment: Environment,
    /// The URL of the upstream.
    origin: String,
    validate: Validate,
    block_bytes: u64,
    heads: Mutex<HashMap<Vec<u8>, CachedHead>>,
    fetches: Mutex<HashMap<Vec<u8>, Block>>,
    files: Arc<Semaphore>,
}

#[derive(Clone)]
struct CachedHead {
    head: Arc<Head>,
    validated_ms: u64,
}

/// A state of an object, and where it is.
#[derive(Clone, Debug)]
pub struct Located {
    /// The name of the bucket at the upstream.
    pub(super) bucket: String,
    pub(super) key: String,
    pub(super) head: Arc<Head>,
    /// Whether the upstream could not be asked, so that the object may have changed.
    pub(super) is_stale: bool,
}

/// A name of an entry of the cache. Lengths separate the parts, because keys can have any
/// character.
fn name(kind: &str, parts: &[&str]) -> Vec<u8> {
    let mut name = kind.as_bytes().to_vec();
    for part in parts {
        name.extend_from_slice(&(part.len() as u32).to_le_bytes());
        name.extend_from_slice(part.as_bytes());
    }
    name
}

impl Blocks {
    pub fn new(
        client: Client,
        cache: Arc<Cache>,
        metrics: Arc<UpstreamMetrics>,
        environment: Environment,
        origin: String,
        validate: Validate,
        block_bytes: u64,
    ) -> Blocks {
        Blocks {
            client,
            cache,
            metrics,
            environment,
            origin,
            validate,
            block_bytes,
            heads: Mutex::default(),
            fetches: Mutex::default(),
            files: Arc::new(Semaphore::new(FILES_MAX)),
        }
    }

    /// Accesses the cache on a thread that may block.
    async fn on_cache<T: Send + 'static>(
        self: &Arc<Self>,
        access: impl FnOnce(&Cache) -> T + Send + 'static,
    ) -> Option<T> {
        let permit = Arc::clone(&self.files).acquire_owned().await.ok()?;
        let cache = Arc::clone(&self.cache);
        let task = self.client.runtime().spawn_blocking(move || {
            let done = access(&cache);
            drop(permit);
            done
        });
        task.await.ok()
    }

    fn head_name(&self, bucket: &str, key: &str, version: Option<&str>) -> Vec<u8> {
        name("head", &[&self.origin, bucket, key, version.unwrap_or_default()])
    }

    fn block_name(&self, located: &Located, index: u64) -> Vec<u8> {
        let Located { bucket, key, head, .. } = located;
        let numbers = format!("{} {} {index}", head.size_bytes, self.block_bytes);
        let version = head.version.as_deref().unwrap_or_default();
        name("block", &[&self.origin, bucket, key, version, &head.etag, &numbers])
    }

    fn block_range(&self, head: &Head, index: u64) -> Range<u64> {
        let start = index * self.block_bytes;
        start..(start + self.block_bytes).min(head.size_bytes)
    }

    /// The last known state of an object.
    async fn find_head(self: &Arc<Self>, name: &[u8]) -> Option<CachedHead> {
        let known = self.heads.lock().get(name).cloned();
        if known.is_some() {
            // The entry is in use, too. Otherwise it would be evicted before the data.
            if let Some(set_time) = self.cache.touch(name) {
                self.on_cache(set_time).await;
            }
            return known;
        }
        if !self.cache.contains(name) {
            return None;
        }
        let key = name.to_vec();
        let text = self.on_cache(move |cache| cache.get(&key)).await??;
        let head = serde_json::from_slice(&text).ok()?;
        Some(CachedHead { head: Arc::new(head), validated_ms: 0 })
    }

    async fn remember(self: &Arc<Self>, name: Vec<u8>, head: &Arc<Head>, is_new: bool) {
        let known =
            CachedHead { head: Arc::clone(head), validated_ms: self.environment.clock.monotonic_ms() };
        {
            let mut heads = self.heads.lock();
            if heads.len() >= HEADS_MAX && !heads.contains_key(&name) {
                heads.clear();
            }
            heads.insert(name.clone(), known);
        }
        let is_missing = is_new || !self.cache.contains(&name);
        if let Some(text) = serde_json::to_vec(head.as_ref()).ok().filter(|_| is_missing) {
            self.on_cache(move |cache| cache.put(&name, &text)).await;
        }
    }

    /// Removes the cache entries of a key that changes.
    pub async fn forget(self: &Arc<Self>, bucket: &str, key: &str, version: Option<&str>) {
        let mut names = vec![self.head_name(bucket, key, None)];
        if version.is_some() {
            names.push(self.head_name(bucket, key, version));
        }
        for name in names {
            self.heads.lock().remove(&name);
            if self.cache.contains(&name) {
                self.on_cache(move |cache| cache.remove(&name)).await;
            }
        }
    }

    /// Removes the cache entries of a key after a change, also after one whose outcome is unknown,
    /// but not if the upstream cannot be reached.
    pub async fn forget_after<T>(
        self: &Arc<Self>,
        change: Result<T>,
        bucket: &str,
        key: &str,
        version: Option<&str>,
    ) -> Result<T> {
        let was_sent = |error: &Error| error.kind() != ErrorKind::Unavailable || !self.client.is_down();
        if change.as_ref().err().is_none_or(was_sent) {
            self.forget(bucket, key, version).await;
        }
        change
    }

    /// Looks up an object. `version` is the name of a version. With `from_start`, the answer may
    /// include the first block.
    ///
    /// # Errors
    /// `NotFound`; `Unavailable` if the upstream cannot be asked and nothing is known.
    pub async fn find(
        self: &Arc<Self>,
        bucket: &str,
        key: &str,
        version: Option<&str>,
        from_start: bool,
    ) -> Result<(Located, Option<Bytes>)> {
        let name = self.head_name(bucket, key, version);
        let known = self.find_head(&name).await;
        let located = |head: &Arc<Head>, is_stale| Located {
            bucket: bucket.to_owned(),
            key: key.to_owned(),
            head: Arc::clone(head),
            is_stale,
        };
        if let Some(known) = &known {
            let age_ms = self.environment.clock.monotonic_ms().saturating_sub(known.validated_ms);
            let is_fresh = match self.validate {
                Validate::Always => false,
                Validate::After(ms) => known.validated_ms > 0 && age_ms < ms,
                Validate::Never => true,
            };
            if is_fresh {
                return Ok((located(&known.head, false), None));
            }
        }
        let has_first = known.as_ref().is_some_and(|known| {
            known.head.size_bytes == 0
                || self.cache.contains(&self.block_name(&located(&known.head, false), 0))
        });
        match self.ask(bucket, key, version, from_start && !has_first).await {
            Ok((head, first)) => {
                let is_new = known.is_none_or(|known| *known.head != head);
                let head = Arc::new(head);
                self.remember(name, &head, is_new).await;
                let located = located(&head, false);
                if let Some(first) = first.clone() {
                    let name = self.block_name(&located, 0);
                    self.metrics.misses.fetch_add(1, Relaxed);
                    self.on_cache(move |cache| cache.put(&name, &first)).await;
                }
                Ok((located, first))
            }
            Err(error) if error.kind() == ErrorKind::Unavailable => match known {
                Some(known) => {
                    self.metrics.stale.fetch_add(1, Relaxed);
                    Ok((located(&known.head, true), None))
                }
                None => Err(error),
            },
            Err(error) => {
                if error.kind() == ErrorKind::NotFound {
                    self.forget(bucket, key, version).await;
                }
                Err(error)
            }
        }
    }

    /// Asks the upstream for an object, and for its first block if that is wanted and there is one.
    async fn ask(
        &self,
        bucket: &str,
        key: &str,
        version: Option<&str>,
        with_first: bool,
    ) -> Result<(Head, Option<Bytes>)> {
        let call = |method| {
            let call = Call::new(method, bucket, key);
            if let Some(version) = version { call.query("versionId", version) } else { call }
        };
        if with_first {
            let mut get = call(Method::GET).header("range", format!("bytes=0-{}", self.block_bytes - 1));
            get.answer_bytes_max = self.block_bytes;
            let answer = self.client.send(get).await?;
            match answer.status {
                StatusCode::PARTIAL_CONTENT => {
                    let mut head = Head::of(&answer)?;
                    let range = self.block_range(&head, 0);
                    check_range(&answer, &range, head.size_bytes)?;
                    self.add_tags(bucket, key, &mut head, &answer).await?;
                    return Ok((head, Some(answer.body)));
                }
                // The object is empty, or the upstream has sent it whole. HEAD tells.
                StatusCode::RANGE_NOT_SATISFIABLE | StatusCode::OK => {}
                _ => return Ok((self.marker_or_error(&answer)?, None)),
            }
        }
        let head = call(Method::HEAD).header("x-amz-checksum-mode", "ENABLED");
        let answer = self.client.send(head).await?;
        if answer.status != StatusCode::OK {
            return Ok((self.marker_or_error(&answer)?, None));
        }
        let mut head = Head::of(&answer)?;
        self.add_tags(bucket, key, &mut head, &answer).await?;
        Ok((head, None))
    }

    /// An answer other than success, which may be about a delete marker.
    fn marker_or_error(&self, answer: &Answer) -> Result<Head> {
        let is_status = [StatusCode::NOT_FOUND, StatusCode::METHOD_NOT_ALLOWED].contains(&answer.status);
        if is_status && answer.header("x-amz-delete-marker") == Some("true") {
            return Head::of(answer);
        }
        Err(error_of(answer))
    }

    /// Headers have only the number of tags.
    async fn add_tags(&self, bucket: &str, key: &str, head: &mut Head, answer: &Answer) -> Result<()> {
        if answer.header("x-amz-tagging-count").is_none_or(|count| count == "0") {
            return Ok(());
        }
        let mut call = Call::new(Method::GET, bucket, key).query("tagging", "");
        if let Some(version) = &head.version {
            call = call.query("versionId", version.clone());
        }
        let answer = self.client.call(call).await?;
        if let Some(tags) = super::objects::tags_of(&answer.body)? {
            head.attributes.insert(crate::gateway::names::TAGS.to_owned(), tags);
        }
        Ok(())
    }

    /// The blocks of a range, in order. The first one is fetched before the call returns, so that
    /// an error is known before an answer begins.
    ///
    /// # Errors
    /// `Unavailable` if the object has changed, or a block is not in the cache and the upstream
    /// cannot be reached.
    pub async fn read(
        self: &Arc<Self>,
        located: &Located,
        range: Range<u64>,
        first: Option<Bytes>,
    ) -> Result<BlockReader> {
        if range.is_empty() {
            return Ok(BlockReader { first: None, rest: futures::stream::empty().boxed() });
        }
        let indexes = range.start / self.block_bytes..range.end.div_ceil(self.block_bytes);
        if located.is_stale
            && !indexes.clone().all(|index| self.cache.contains(&self.block_name(located, index)))
        {
            return Err(objects_error(
                ErrorKind::Unavailable,
                "the upstream cannot be reached, and the cache does not have all of these data; try again later",
            ));
        }
        let mut rest = {
            let (blocks, located) = (Arc::clone(self), located.clone());
            let first_index = indexes.start;
            futures::stream::iter(indexes)
                .map(move |index| {
                    let (blocks, located, range) = (Arc::clone(&blocks), located.clone(), range.clone());
                    let first = first.clone().filter(|_| index == 0 && first_index == 0);
                    async move {
                        let data = match first {
                            Some(first) => first,
                            None => blocks.block(&located, index).await?,
                        };
                        let of_block = blocks.block_range(&located.head, index);
                        let start = range.start.max(of_block.start) - of_block.start;
                        let end = range.end.min(of_block.end) - of_block.start;
                        Ok(data.slice(start as usize..end as usize))
                    }
                })
                .buffered(BLOCKS_AHEAD)
                .boxed()
        };
        let first = rest.next().await.transpose()?;
        Ok(BlockReader { first, rest })
    }

    /// The first block, if it is in the cache, and its length.
    pub fn first(self: &Arc<Self>, located: &Located) -> Option<(u64, BoxFuture<'static, Result<Bytes>>)> {
        let range = self.block_range(&located.head, 0);
        if range.is_empty() || !self.cache.contains(&self.block_name(located, 0)) {
            return None;
        }
        let (blocks, located) = (Arc::clone(self), located.clone());
        Some((range.end, async move { blocks.block(&located, 0).await }.boxed()))
    }

    /// A block. Concurrent readers of a block share one access.
    async fn block(self: &Arc<Self>, located: &Located, index: u64) -> Result<Bytes> {
        let name = self.block_name(located, index);
        let fetch = {
            let mut fetches = self.fetches.lock();
            match fetches.get(&name) {
                Some(fetch) => fetch.clone(),
                None => {
                    let (blocks, located) = (Arc::clone(self), located.clone());
                    let key = name.clone();
                    // The task completes even if all readers end.
                    let task = self.client.runtime().spawn(async move {
                        let fetching = Fetching { blocks, name: key };
                        let fetched = fetching.blocks.load(&located, index, &fetching.name).await;
                        drop(fetching);
                        fetched.map_err(Arc::new)
                    });
                    let ended = |error| {
                        let error = Error::internal("a fetch ended early").with_source(error);
                        Err(Arc::new(error))
                    };
                    let fetch = task.map(move |done| done.unwrap_or_else(ended)).boxed().shared();
                    fetches.insert(name, fetch.clone());
                    fetch
                }
            }
        };
        let fetched = fetch.await;
        fetched.map_err(|error| Error::new(error.kind(), error.message().to_owned()).with_source(error))
    }

    async fn load(self: &Arc<Self>, located: &Located, index: u64, name: &[u8]) -> Result<Bytes> {
        let range = self.block_range(&located.head, index);
        let len = (range.end - range.start) as usize;
        if self.cache.contains(name) {
            let key = name.to_vec();
            let found = self.on_cache(move |cache| cache.get(&key)).await.flatten();
            match found.filter(|data| data.len() == len) {
                Some(data) => {
                    self.metrics.hits.fetch_add(1, Relaxed);
                    self.metrics.hit_bytes.fetch_add(data.len() as u64, Relaxed);
                    return Ok(data);
                }
                None => {
                    self.metrics.damaged.fetch_add(1, Relaxed);
                    tracing::warn!("a block of the cache is damaged or gone; it is fetched again");
                }
            }
        }
        self.metrics.misses.fetch_add(1, Relaxed);
        let data = self.fetch(located, range).await?;
        let (key, stored) = (name.to_vec(), data.clone());
        self.on_cache(move |cache| cache.put(&key, &stored)).await;
        Ok(data)
    }

    async fn fetch(self: &Arc<Self>, located: &Located, range: Range<u64>) -> Result<Bytes> {
        let Located { bucket, key, head, .. } = located;
        let mut call = Call::new(Method::GET, bucket, key)
            .header("range", format!("bytes={}-{}", range.start, range.end - 1))
            .header("if-match", format!("\"{}\"", head.etag));
        if let Some(version) = &head.version {
            call = call.query("versionId", version.clone());
        }
        call.answer_bytes_max = range.end - range.start;
        let answer = self.client.send(call).await?;
        match answer.status {
            StatusCode::PARTIAL_CONTENT => {
                check_range(&answer, &range, head.size_bytes)?;
                if answer.header("etag").map(|etag| etag.trim_matches('"')) != Some(&head.etag) {
                    return Err(objects_error(
                        ErrorKind::Unavailable,
                        "the upstream has sent another object; try again",
                    ));
                }
                Ok(answer.body)
            }
            StatusCode::PRECONDITION_FAILED | StatusCode::NOT_FOUND | StatusCode::RANGE_NOT_SATISFIABLE => {
                self.forget(bucket, key, head.version.as_deref()).await;
                Err(objects_error(
                    ErrorKind::Unavailable,
                    "the object has changed at the upstream while it was read; read it again",
                ))
            }
            _ => match error_of(&answer) {
                // The caller may read the object, the gateway may not.
                error if error.kind() == ErrorKind::PermissionDenied => Err(error),
                error => Err(error.with_kind(ErrorKind::Unavailable)),
            },
        }
    }
}

/// A running fetch. At its end, also at a panic, later readers start a new one.
struct Fetching {
    blocks: Arc<Blocks>,
    name: Vec<u8>,
}

impl Drop for Fetching {
    fn drop(&mut self) {
        self.blocks.fetches.lock().remove(&self.name);
    }
}

/// Checks that an answer has exactly this range of an object of this size.
fn check_range(answer: &Answer, range: &Range<u64>, size_bytes: u64) -> Result<()> {
    let wanted = format!("bytes {}-{}/{size_bytes}", range.start, range.end.saturating_sub(1));
    let found = answer.header("content-range").unwrap_or_default();
    if found == wanted && answer.body.len() as u64 == range.end - range.start {
        return Ok(());
    }
    Err(objects_error(ErrorKind::Unavailable, "the upstream has sent another range than requested")
        .with("wanted", wanted)
        .with("received_bytes", answer.body.len()))
}

/// Reads a range of an object.
pub(super) struct BlockReader {
    first: Option<Bytes>,
    rest: futures::stream::BoxStream<'static, Result<Bytes>>,
}

#[async_trait::async_trait]
impl crate::sal::Reader for BlockReader {
    async fn next(&mut self) -> Result<Option<Bytes>> {
        if let Some(first) = self.first.take() { Ok(Some(first)) } else { self.rest.next().await.transpose() }
    }
}
