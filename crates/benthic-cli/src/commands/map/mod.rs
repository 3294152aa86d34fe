//! `benthic map`: runs a method of a WebAssembly class beside every object of a pool, and merges
//! the results into one with another method of the class.
//!
//! The command works through the listing page by page. A page ends when each of its objects is
//! merged, has failed or is gone. So the progress of a run is the position of a page, the merged
//! result, and a bounded number of names ([`state`]).

mod state;

use crate::commands::call::CallArgs;
use crate::commands::class;
use crate::jobs::{self, Failures, Limits};
use benthic_core::{
    Action, ClassInfo, Error, ErrorKind, ListRequest, Namespaces, ObjectAddress, ObjectId, Pool, PoolAddress,
    Result, Stopwatch, SystemClock,
};
use benthic_program::exec::PreparedCall;
use benthic_program::exit::{Failure, Outcome};
use benthic_program::interrupt;
use benthic_program::progress::Progress;
use benthic_program::reduce::Reducer;
use benthic_program::session::Session;
use benthic_program::units::shell_word;
use bytes::Bytes;
use clap::Args;
use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};
use serde_json::{Map, json};
use sha2::{Digest, Sha256};
use state::{Position, RunState};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;

/// Objects of a page, whose names the command and its file may have to hold.
const PAGE_OBJECTS: usize = 4_096;
/// A run with `--resume` stops when more objects than this have failed, because its file holds
/// their names.
const FAILED_MAX: usize = 10_000;
/// Longest time between two saves, if objects are merged meanwhile.
const SAVE_PAUSE: Duration = Duration::from_secs(10);
/// Pauses before a busy object is called again. Each is twice as long as the one before.
const BUSY_PAUSE: Duration = Duration::from_millis(50);
const BUSY_PAUSE_MAX: Duration = Duration::from_millis(3_200);

#[derive(Args)]
#[command(
    after_help = "The class is a deployed WebAssembly class, or a file (--code). The method must not write. The method of \
    --reduce runs in this process. Its input is a list of results, its output is one result, and the order of \
    the results is unspecified, so it must be associative and commutative (docs/guide/classes.md, \"More than \
    one object\").\n\n\
    Each object counts once. Busy objects and those without an answer are called again. Objects that fail are \
    listed at the end, the result is that of the others, and the exit status is 1.\n\n\
    With --resume, an interrupted run continues when the command is repeated. It tries failed objects again. \
    The file is removed when all objects are in the result.\n\n\
    Examples:\n  benthic map logs wordcount count --reduce sum\n  \
    benthic map logs wordcount count --reduce sum --prefix 2026/ --resume words.run\n  \
    benthic map logs --code wordcount.wasm count --reduce sum\n  \
    benthic map logs spam score --reduce sum --object words=lists/spam.txt"
)]
pub struct MapArgs {
    /// The pool: POOL or POOL:NAMESPACE
    #[arg(value_name = "POOL")]
    pool: String,
    #[command(flatten)]
    call: CallArgs,
    /// The method of the same class that merges results
    #[arg(long, value_name = "METHOD")]
    reduce: String,
    /// Only objects whose names begin with PREFIX
    #[arg(long, value_name = "PREFIX", default_value = "", hide_default_value = true)]
    prefix: String,
    /// Keep the progress in FILE, so that the same command continues after an interruption
    #[arg(long, value_name = "FILE")]
    resume: Option<PathBuf>,
    /// Concurrent calls [default: two per core, 8 to 16]
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// Stop when the store has not answered for this number of seconds
    #[arg(long, value_name = "SECONDS", value_parser = jobs::parse_seconds, default_value = "60")]
    outage_wait: Duration,
}

pub async fn run(args: MapArgs, session: &Session) -> Outcome {
    // Without a reader there is no result, and the file must stay.
    session.out.end_with_reader();
    let address = parse_pool(&args.pool)?;
    let pool = session.pool(&address.pool).await?;
    let (mut call, classes) = args.call.prepare("POOL", &*pool, None, session).await?;
    check_method(&call, &classes)?;
    let reducer = call.reducer(&*pool, &args.reduce).await?;
    let state = match &args.resume {
        None => RunState::new(BTreeMap::new()),
        Some(path) => {
            let run = describe(&call, reducer.method(), &address, &args.prefix, session).await?;
            let state = RunState::load(path, run)?;
            // A file that cannot be written is an error now, not after the first hour.
            state.save(path)?;
            state
        }
    };
    let jobs = args.jobs.unwrap_or_else(jobs::default_jobs);
    let run = Run {
        limits: Limits { outage_wait: args.outage_wait, session: Some(session), ..jobs.into() },
        session,
        pool,
        progress: Progress::objects(&format!("{}.{}", call.call().class, call.call().method)),
        address,
        prefix: args.prefix,
        call,
        reducer: reducer.continue_from(state.result.clone()),
        state,
        resume: args.resume,
        saved_at: Stopwatch::start(&SystemClock),
        cannot_save: false,
        failures: Failures::default(),
        failed_here: BTreeSet::new(),
    };
    run.complete().await
}

fn parse_pool(text: &str) -> Result<PoolAddress> {
    if text.contains('/') {
        let message = "the target is POOL or POOL:NS; --prefix selects some of its objects";
        return Err(Error::invalid_argument(message).with("got", text));
    }
    text.parse()
}

/// Refuses methods that `map` does not run.
fn check_method(call: &PreparedCall, classes: &[ClassInfo]) -> Result<()> {
    let refused = |kind, message: &str| {
        Err(Error::new(kind, message).with("class", &call.call().class).with("method", &call.call().method))
    };
    if !call.is_module() {
        class::find_method(classes, call.call())?;
        let message = "`benthic map` runs WebAssembly classes; `benthic exec --all` runs a native class beside every object";
        return refused(ErrorKind::Unsupported, message);
    }
    if call.module_writes() {
        let message = "the method writes, and `benthic map` only reads; `benthic exec --all` runs it beside every object";
        return refused(ErrorKind::InvalidArgument, message);
    }
    Ok(())
}

/// Identifies a run. A file of `--resume` is valid for runs with the same description only.
async fn describe(
    call: &PreparedCall,
    reduce: &str,
    address: &PoolAddress,
    prefix: &str,
    session: &Session,
) -> Result<BTreeMap<String, String>> {
    // The input contains the other objects, so the hash covers their contents.
    let input: String = Sha256::digest(&call.call().input).iter().map(|byte| format!("{byte:02x}")).collect();
    let fields = [
        ("store", session.store_name().await?),
        ("pool", address.pool.clone()),
        ("namespace", address.namespace.clone()),
        ("prefix", prefix.to_owned()),
        ("class", call.call().class.clone()),
        ("module", call.module_id().map(|id| id.to_string()).unwrap_or_default()),
        ("method", call.call().method.clone()),
        ("reduce method", reduce.to_owned()),
        ("input", input),
    ];
    Ok(fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}

struct Run<'a> {
    session: &'a Session,
    pool: Arc<dyn Pool>,
    address: PoolAddress,
    prefix: String,
    call: PreparedCall,
    limits: Limits<'a>,
    reducer: Reducer,
    state: RunState,
    resume: Option<PathBuf>,
    saved_at: Stopwatch<'static>,
    /// A merge or a save failed, and would fail again.
    cannot_save: bool,
    progress: Progress,
    failures: Failures,
    /// The failed objects of this page. A resumed run starts at this page.
    failed_here: BTreeSet<String>,
}

impl Run<'_> {
    async fn complete(mut self) -> Outcome {
        self.progress.advance(self.state.objects);
        let ended = match self.run_pages().await {
            Ok(()) => self.finish(),
            Err(stopped) => {
                if self.resume.is_some()
                    && !self.cannot_save
                    && let Err(Failure::Error(error)) = self.save()
                {
                    self.session.out.error(&error, None);
                }
                Err(stopped)
            }
        };
        drop(self.progress);
        let out = &self.session.out;
        let failed = self.failures.count();
        let is_incomplete = ended.is_err() || failed > 0;
        if failed > 0 && ended.is_ok() {
            out.warning(format_args!("the result does not include the objects that failed failed={failed}"));
        }
        let reported = self.failures.finish(out, self.state.objects + failed);
        if self.resume.is_some() && is_incomplete {
            out.warning(format_args!("the same command continues the run: {}", this_command()));
        }
        ended.and(reported)
    }

    /// Runs the method beside all objects that are not merged yet.
    async fn run_pages(&mut self) -> Outcome {
        let failed = self.state.failed.iter();
        let failed = failed.map(|name| ObjectId::in_namespace(&self.address.namespace, name));
        let failed: Vec<Result<ObjectId>> = failed.collect();
        self.run_beside(stream::iter(failed).boxed()).await?;
        self.end_page(None)?;
        while self.state.position != Position::End {
            let mut next = Position::End;
            let page = self.list_page(&mut next);
            self.run_beside(page).await?;
            self.end_page(Some(next))?;
        }
        Ok(())
    }

    /// Streams the objects of a page that are not merged yet, and sets the position of the next
    /// page.
    fn list_page<'s>(&self, next: &'s mut Position) -> BoxStream<'s, Result<ObjectId>> {
        let (pool, merged) = (Arc::clone(&self.pool), self.state.merged.clone());
        let after = match &self.state.position {
            Position::After(token) => Some(token.clone()),
            Position::Start | Position::End => None,
        };
        let request = ListRequest {
            namespaces: Namespaces::One(self.address.namespace.clone()),
            prefix: self.prefix.clone(),
            after,
            objects_max: PAGE_OBJECTS,
        };
        let list = async move {
            let page = pool.list(request).await?;
            *next = page.next.map_or(Position::End, Position::After);
            let objects = page.objects.into_iter().filter(move |object| !merged.contains(object.name()));
            Ok(stream::iter(objects.map(Ok)))
        };
        stream::once(list).try_flatten().boxed()
    }

    /// Runs the method beside these objects, and again beside those that were busy or did not
    /// answer.
    async fn run_beside(&mut self, objects: BoxStream<'_, Result<ObjectId>>) -> Outcome {
        let again = self.try_once(objects, true).await?;
        self.try_once(stream::iter(again.into_iter().map(Ok)).boxed(), false).await?;
        Ok(())
    }

    /// Runs the method beside these objects. With `may_repeat`, returns those that were busy or did
    /// not answer.
    async fn try_once(
        &mut self,
        objects: BoxStream<'_, Result<ObjectId>>,
        may_repeat: bool,
    ) -> Outcome<Vec<ObjectId>> {
        let (call, pool) = (self.call.clone(), Arc::clone(&self.pool));
        let job = |object: ObjectId| {
            let (call, pool) = (call.clone(), Arc::clone(&pool));
            async move {
                let result = jobs::until_stopped(Action::Read, call_beside(&call, &*pool, &object)).await;
                (object, result)
            }
        };
        let mut again = Vec::new();
        let limits = self.limits;
        let done = |(object, result): (ObjectId, Result<Option<Bytes>>)| match result {
            Ok(Some(result)) => self.merge(&object, result),
            Ok(None) => {
                self.state.failed.remove(object.name());
                Ok(())
            }
            // Stop: no other object has the class or method either.
            Err(error) if error.kind() == ErrorKind::Unsupported && self.state.objects == 0 => {
                Err(Failure::Error(error))
            }
            Err(error) if may_repeat && is_transient(&error) => {
                again.push(object);
                Ok(())
            }
            Err(error) => {
                self.failed_here.insert(object.name().to_owned());
                self.failures
                    .push(ObjectAddress { pool: self.address.pool.clone(), object }.to_string(), error);
                Ok(())
            }
        };
        jobs::run(objects, limits, job, done).await?;
        Ok(again)
    }

    fn merge(&mut self, object: &ObjectId, result: Bytes) -> Outcome {
        if !self.state.failed.remove(object.name()) {
            self.state.merged.insert(object.name().to_owned());
        }
        self.state.objects = self.state.objects.saturating_add(1);
        self.reducer.push(result);
        self.progress.advance(1);
        if self.reducer.is_full() || self.resume.is_some() && self.saved_at.elapsed() >= SAVE_PAUSE {
            self.save()?;
        }
        Ok(())
    }

    /// Merges the results that wait, and saves the progress if the run has a file.
    fn save(&mut self) -> Outcome {
        let saved = self.reducer.merge().and_then(|()| match &self.resume {
            None => Ok(()),
            Some(path) => {
                self.state.result = self.reducer.merged().cloned();
                self.state.save(path)
            }
        });
        self.saved_at = Stopwatch::start(&SystemClock);
        self.cannot_save = saved.is_err();
        Ok(saved?)
    }

    /// All objects of the page are merged, have failed or are gone.
    fn end_page(&mut self, next: Option<Position>) -> Outcome {
        let failed = std::mem::take(&mut self.failed_here);
        if let Some(next) = next {
            self.state.position = next;
            self.state.merged.clear();
        }
        if self.resume.is_none() {
            return Ok(());
        }
        self.state.failed.extend(failed);
        self.save()?;
        if self.state.failed.len() > FAILED_MAX {
            let message =
                "too many objects failed; fix the cause and repeat the command, or run it without --resume";
            return Err(Error::limit_exceeded(message).with("failed_max", FAILED_MAX).into());
        }
        Ok(())
    }

    fn finish(&mut self) -> Outcome {
        let result = self.reducer.finish()?;
        let (out, failed) = (&self.session.out, self.failures.count());
        if self.state.objects == 0 && failed == 0 {
            out.warning("no objects here");
        }
        let mut fields = Map::new();
        for (key, value) in [
            ("pool", json!(self.address.pool)),
            ("namespace", json!(self.address.namespace)),
            ("class", json!(self.call.call().class)),
            ("method", json!(self.call.call().method)),
            ("reduce", json!(self.reducer.method())),
            ("objects", json!(self.state.objects)),
            ("failed", json!(failed)),
        ] {
            fields.insert(key.to_owned(), value);
        }
        self.progress.suspend(|| out.method_result(&result, "result", fields))?;
        out.flush()?;
        match &self.resume {
            Some(path) if failed == 0 => Ok(std::fs::remove_file(path)
                .map_err(benthic_program::local::failed("cannot remove the file", path))?),
            _ => Ok(()),
        }
    }
}

/// Runs the method beside an object, again while it is busy. `None` if the object is gone.
async fn call_beside(call: &PreparedCall, pool: &dyn Pool, object: &ObjectId) -> Result<Option<Bytes>> {
    let mut pause = BUSY_PAUSE;
    loop {
        let result = call.run(pool, object).await;
        match result.as_ref().map_err(Error::kind) {
            Err(ErrorKind::Busy) if pause <= BUSY_PAUSE_MAX && !interrupt::is_set() => {
                sleep(pause).await;
                pause *= 2;
            }
            Err(ErrorKind::NotFound) if is_gone(pool, object).await => return Ok(None),
            _ => return result.map(Some),
        }
    }
}

async fn is_gone(pool: &dyn Pool, object: &ObjectId) -> bool {
    pool.stat(object).await.is_err_and(|error| error.kind() == ErrorKind::NotFound)
}

/// Whether a method that only reads may succeed when it is repeated.
fn is_transient(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Busy | ErrorKind::Unavailable | ErrorKind::OutcomeUnknown)
}

/// The command line of this process.
fn this_command() -> String {
    let args = std::env::args_os().skip(1).map(|word| shell_word(&word.to_string_lossy()));
    std::iter::once("benthic".to_owned()).chain(args).collect::<Vec<_>>().join(" ")
}
