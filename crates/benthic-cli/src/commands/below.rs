//! The objects below a prefix, streamed page by page, and their counts by the parts of their names
//! between slashes.

use super::cp::plan::Target;
use crate::jobs;
use benthic_core::{Error, Namespaces, ObjectId, OptionalExtension, Pool, Result, Stat};
use benthic_program::exit::Outcome;
use benthic_program::session::Session;
use futures::stream::{BoxStream, StreamExt, TryStreamExt};
use std::collections::BTreeMap;
use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Concurrent requests for sizes and times.
pub const STATS_AT_ONCE: usize = 32;

/// Limit on the lines of a report, because they stay in memory until all objects are counted.
const LEVELS_MAX: usize = 100_000;

/// The objects of a pool, or those below `PREFIX/` of it.
pub struct Below {
    pub target: Target,
    pool: Arc<dyn Pool>,
    is_found: Arc<AtomicBool>,
}

impl Below {
    pub async fn open(text: &str, session: &Session) -> Outcome<Below> {
        let mut target = Target::parse(text)?;
        target.prefix = target.below();
        let pool = session.pool(&target.pool).await?;
        Ok(Below { target, pool, is_found: Arc::default() })
    }

    pub fn objects(&self) -> BoxStream<'static, Result<ObjectId>> {
        let (namespace, is_found) = (self.target.namespace.clone(), Arc::clone(&self.is_found));
        let prefix = self.target.prefix.clone();
        let listed = jobs::objects(Arc::clone(&self.pool), Namespaces::One(namespace), prefix);
        listed.inspect_ok(move |_| is_found.store(true, Ordering::Relaxed)).boxed()
    }

    /// Adds sizes and times. Omits objects that were removed after they were listed.
    pub fn stats(
        &self,
        objects: BoxStream<'static, Result<ObjectId>>,
    ) -> BoxStream<'static, Result<(ObjectId, Stat)>> {
        let pool = Arc::clone(&self.pool);
        let stats = objects.map_ok(move |object| {
            let pool = Arc::clone(&pool);
            async move {
                let found = pool.stat(&object).await.optional();
                found.map(|found| found.map(|(stat, _)| (object, stat)))
            }
        });
        stats.try_buffered(STATS_AT_ONCE).try_filter_map(|found| ready(Ok(found))).boxed()
    }

    /// The part of a name behind the prefix.
    pub fn relative<'a>(&self, object: &'a ObjectId) -> &'a str {
        object.name().strip_prefix(&self.target.prefix).unwrap_or_default()
    }

    /// Fails if a prefix was given and no object was listed. The pool itself may be empty.
    pub fn check_found(&self) -> Result<()> {
        if self.is_found.load(Ordering::Relaxed) || self.target.prefix.is_empty() {
            return Ok(());
        }
        Err(Error::not_found("no objects here; `benthic ls` lists the objects").with("prefix", &self.target))
    }
}

/// Counts of the objects whose names begin with the same parts.
#[derive(Default)]
pub struct Level {
    pub objects: u64,
    pub size_bytes: u64,
    /// The next level by the next part of the name. A part that others follow ends with `/`.
    pub below: BTreeMap<String, Level>,
}

/// Counts objects by the levels of their names.
pub struct Levels {
    pub root: Level,
    /// The number of levels below the root to keep.
    depth: usize,
    /// Also keep the objects, which are the last level of their names.
    with_objects: bool,
    count: usize,
}

impl Levels {
    pub fn new(depth: usize, with_objects: bool) -> Levels {
        Levels { root: Level::default(), depth, with_objects, count: 0 }
    }

    /// Counts an object. `name` is relative to the root.
    ///
    /// # Errors
    /// `LimitExceeded` if there are too many levels.
    pub fn add(&mut self, name: &str, size_bytes: u64) -> Result<()> {
        let parts = name.split_inclusive('/').filter(|part| self.with_objects || part.ends_with('/'));
        let mut level = &mut self.root;
        level.objects += 1;
        level.size_bytes += size_bytes;
        for part in parts.take(self.depth) {
            if !level.below.contains_key(part) {
                self.count += 1;
            }
            level = level.below.entry(part.to_owned()).or_default();
            level.objects += 1;
            level.size_bytes += size_bytes;
        }
        if self.count <= LEVELS_MAX {
            return Ok(());
        }
        let message = "there would be too many lines; name a prefix, or a smaller --depth";
        Err(Error::limit_exceeded(message).with("lines_max", LEVELS_MAX))
    }
}
