//! Copies objects to objects, in one store or between two. With `moves`, removes each source.
//!
//! A move writes two objects: it removes the source after the copy is durable and verified, and
//! only if the source still has the version that was copied. A move that is killed in between
//! leaves both objects. The repair is to repeat it: it compares the contents, copies the object
//! again if they differ, and then removes the source.

use super::plan::Target;
use super::{ATTEMPTS, Copied, Options, Tally, check_directory, copy_objects, upload};
use crate::commands;
use crate::jobs;
use benthic_core::{Action, Error, ErrorKind, ObjectAddress, ObjectId, Pool, Result, WriteOp};
use benthic_program::copy::{Location, Snapshot, copy, is_equal};
use benthic_program::exit::{Failure, Outcome};
use benthic_program::session::Session;
use benthic_program::transfer::COPIED_XATTR;
use std::sync::Arc;
use tokio::sync::Semaphore;

/// The destination of objects.
pub struct To<'a> {
    /// The session of the destination's store.
    pub there: &'a Session,
    pub target: Target,
    pub create_pool: bool,
    /// Remove the sources.
    pub moves: bool,
}

pub async fn run(
    sources: Vec<Target>,
    to: To<'_>,
    recursive: bool,
    options: Options,
    tally: &mut Tally<'_>,
) -> Outcome {
    let To { there, target, create_pool, moves } = to;
    let in_one_store = std::ptr::eq(there, tally.session);
    commands::check_writable(&target.namespace)?;
    if sources.len() > 1 {
        check_directory(&target)?;
    }
    for source in &sources {
        if moves {
            commands::check_writable(&source.namespace)?;
        }
        if recursive && in_one_store && source.overlaps(&target) {
            return Err(Failure::Usage(format!(
                "source and destination overlap; choose another prefix source={source} destination={target}"
            )));
        }
    }
    let pool = there.pool_or_create(&target.pool, create_pool && !options.dry_run).await?;
    if !options.dry_run {
        there.check_writable().await?;
    }
    if moves {
        tally.session.check_writable().await?;
    }
    let memory = Arc::new(Semaphore::new(upload::MEMORY_KIB as usize));
    let object_of = |name: &str| {
        let name = if recursive {
            target.below() + name
        } else if target.is_directory() {
            target.prefix.clone() + name
        } else {
            target.prefix.clone()
        };
        ObjectId::in_namespace(target.namespace.clone(), name)
    };
    let job = |from: Arc<dyn Pool>, source: ObjectId, object: ObjectId| {
        let (pool, memory) = (Arc::clone(&pool), Arc::clone(&memory));
        async move {
            let from = Location { pool: &*from, object: &source };
            let to = Location { pool: &*pool, object: &object };
            let job = Job { from, to, in_one_store, moves, options };
            jobs::until_stopped(Action::Write, job.run(&memory)).await
        }
    };
    let report = |tally: &mut Tally<'_>, from: &ObjectAddress, object: &ObjectId, copied: &Copied| {
        tally.pool.clone_from(&target.pool);
        tally.add(object, ("from", &from.to_string()), copied)
    };
    copy_objects(sources, recursive, options, tally, object_of, job, report).await
}

/// The copy or move of one object.
struct Job<'a> {
    from: Location<'a>,
    to: Location<'a>,
    in_one_store: bool,
    moves: bool,
    options: Options,
}

impl Job<'_> {
    async fn run(&self, memory: &Semaphore) -> Result<Copied> {
        let mut attempt = 1;
        loop {
            match self.run_once(memory).await {
                Err(error) if is_race(&error) && attempt < ATTEMPTS => attempt += 1,
                done => return done,
            }
        }
    }

    async fn run_once(&self, memory: &Semaphore) -> Result<Copied> {
        let Job { from, to, moves, options, .. } = *self;
        let source = Snapshot::read(from).await?.ok_or_else(|| missing_source(from))?;
        let target = Snapshot::read(to).await?;
        let is_same_name = (from.pool.name(), from.object) == (to.pool.name(), to.object);
        // A store may be mounted twice. A move must not mistake an object for its own copy.
        let is_same = self.in_one_store || moves && target.as_ref() == Some(&source);
        if is_same_name && is_same {
            return Err(Error::invalid_argument("source and destination are the same object"));
        }
        let mut unchanged = match &target {
            Some(target) => is_equal(from, &source, to, target, options.checksum || moves).await?,
            None => false,
        };
        if !unchanged && !options.dry_run {
            let _memory = memory.acquire_many(upload::kib(source.memory_bytes())).await;
            let (version, read) = copy(from, &source, to, target.as_ref()).await?;
            if options.check {
                upload::check(to.pool, to.object, version, &read, COPIED_XATTR).await?;
            }
        }
        if moves {
            if let Some(target) = target.filter(|_| unchanged) {
                claim(to, target.version, &source).await?;
            }
            remove_source(from, source.version).await?;
            unchanged = false;
        }
        Ok(Copied { unchanged, size_bytes: source.stat.size_bytes })
    }
}

/// Another client changed the source or the target during the copy.
fn is_race(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Conflict | ErrorKind::AlreadyExists)
}

/// Gives an equal target a new version, so that a move in the other direction, which has read the
/// old version, does not remove the target as its own source.
async fn claim(to: Location<'_>, version: u64, source: &Snapshot) -> Result<()> {
    let op = WriteOp::new().assert_version(version).set_xattr(COPIED_XATTR, source.record());
    match to.pool.write(to.object, op).await {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let message = "another client removed the target during the move; repeat the command";
            Err(Error::conflict(message).with_source(error))
        }
        claimed => claimed.map(drop),
    }
}

async fn remove_source(from: Location<'_>, version: u64) -> Result<()> {
    let removal = WriteOp::new().assert_version(version).remove();
    match from.pool.write(from.object, removal).await {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::Conflict => {
            Err(Error::conflict("the source changed during the move and was not removed; repeat the command"))
        }
        Err(error) => Err(error.with("while", "removing the source of a complete copy")),
    }
}

fn missing_source(at: Location<'_>) -> Error {
    let address = ObjectAddress { pool: at.pool.name().to_owned(), object: at.object.clone() };
    Error::not_found("no such object").with("object", address)
}

#[cfg(test)]
#[path = "between_tests.rs"]
mod tests;
