//! A store in a directory, for any number of processes.
//!
//! The process that owns the directory runs the engine. Other processes send their operations to
//! the owner's socket. When the owner exits, the first process that takes the lock becomes the new
//! owner.

use crate::Options;
use crate::listing::token_of;
use crate::owner_process::wait_for_owner;
use crate::socket::client::{Connection, ConnectionLost};
use crate::socket::server::{Handler, Server, Service};
use crate::socket::wire::{Payload, Reply, Request};
use crate::store::{Announcement, Completion, Dir, Engine, Ownership, ReadRange};
use crate::workers::{Workers, spawn};
use async_trait::async_trait;
use benthic_core::{
    ClassCall, ClassHost, ClassInfo, ClassRegistry, Error, FsckReport, ListPage, ListRequest, ListToken,
    MethodFlags, ObjectAddress, ObjectId, Pool, ReadOp, ReadReply, Result, ScrubPage, Stopwatch, Store, Wait,
    WriteOp, WriteReply,
};
use bytes::Bytes;
use futures::channel::oneshot;
use parking_lot::Mutex;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Maximum time to become the owner or to connect to it. An exiting owner may have much to write.
const OPEN_MAX: Duration = Duration::from_secs(30);
const RETRY_MS: u64 = 10;
/// Maximum number of owners that may exit during one request.
const OWNERS_MAX: usize = 100;

/// A store in a directory.
///
/// One process owns the directory. All other processes use the store through it transparently, and
/// one of them takes over when it exits. Operations run on threads of the store; the futures need
/// no particular runtime.
pub struct EmbeddedStore {
    shared: Arc<Shared>,
}

struct Shared {
    dir: PathBuf,
    options: Options,
    route: Mutex<Option<Route>>,
    /// Held while a new route is sought.
    routing: Mutex<()>,
    /// The time at which the search for a new route began.
    seeking_since: Mutex<Option<Duration>>,
    /// An owner acknowledged buffered operations and died before it flushed them.
    lost_buffered: AtomicBool,
}

#[derive(Clone)]
enum Route {
    /// This process runs the engine: it owns the directory, or has opened it read-only.
    Owner(Arc<Owner>),
    Client(Arc<Connection>),
}

impl EmbeddedStore {
    /// Opens a store. With `create`, makes a new one if there is none. Blocks.
    ///
    /// A store that this process may read and not write, such as one on a read-only mount, is
    /// opened read-only: nothing in the directory changes, and writes fail with `PermissionDenied`.
    /// Another process that wants to own the store waits meanwhile.
    ///
    /// # Errors
    /// `NotFound` if there is no store, `InvalidArgument` if the directory is something else,
    /// `Unsupported` for a newer format or a network file system, `PermissionDenied`, also for a
    /// store that can only be read and was not closed, `Corrupt`, `Busy` if processes that opened
    /// the store read-only keep it, `Unavailable` if the owner does not answer.
    pub fn open(dir: &Path, create: bool, options: Options) -> Result<Arc<EmbeddedStore>> {
        let route = Route::find(dir, create, &options)?;
        let shared = Shared {
            dir: dir.to_owned(),
            options,
            route: Mutex::new(Some(route)),
            routing: Mutex::new(()),
            seeking_since: Mutex::new(None),
            lost_buffered: AtomicBool::new(false),
        };
        Ok(Arc::new(EmbeddedStore { shared: Arc::new(shared) }))
    }

    /// Finishes running operations, makes them durable and releases the directory. Blocks. Later
    /// operations fail with `Unavailable`. Dropping the store does the same, but only logs errors.
    ///
    /// # Errors
    /// Those of the last writes.
    pub fn close(&self) -> Result<()> {
        let _routing = self.shared.routing.lock();
        let route = self.shared.route.lock().take();
        match route {
            Some(Route::Owner(owner)) => owner.close(),
            Some(Route::Client(_)) | None => Ok(()),
        }
    }

    /// Returns false if another process owns the directory, or if the store is opened read-only.
    pub fn is_owner(&self) -> bool {
        matches!(&*self.shared.route.lock(), Some(Route::Owner(owner)) if owner.server.is_some())
    }
}

impl Drop for EmbeddedStore {
    fn drop(&mut self) {
        if let Err(error) = self.close() {
            tracing::error!(%error, "the store could not be closed cleanly");
        }
    }
}

impl Route {
    fn find(dir: &Path, create: bool, options: &Options) -> Result<Route> {
        let waited = Stopwatch::start(&*options.clock);
        loop {
            match Dir::open(dir, create)? {
                Ownership::Owned(dir) | Ownership::ReadOnly(dir) => {
                    return Ok(Route::Owner(Owner::start(dir, options.clone())?));
                }
                Ownership::Busy => match Connection::open(dir, Arc::clone(&options.clock)) {
                    Ok(connection) => return Ok(Route::Client(Arc::new(connection))),
                    Err(e) if e.kind() == std::io::ErrorKind::InvalidData => {
                        return Err(Error::unsupported(
                            "the process that owns the store runs another version of Benthic; stop it first",
                        )
                        .with("dir", dir.display()));
                    }
                    Err(e) if e.kind() == std::io::ErrorKind::PermissionDenied => {
                        let message = "a process of another user owns the store; run this as that user";
                        return Err(Error::permission_denied(message).with("dir", dir.display()));
                    }
                    Err(_) if waited.elapsed() > OPEN_MAX && Dir::is_held_by_readers(dir) => {
                        let message = "other processes have opened the store read-only; stop them first";
                        return Err(Error::busy(message).with("dir", dir.display()));
                    }
                    Err(e) if waited.elapsed() > OPEN_MAX => {
                        let message = match wait_for_owner(dir) {
                            Some(owner) => format!("no answer of {owner}"),
                            None => "the process that owns the store does not answer".to_owned(),
                        };
                        return Err(Error::unavailable(message).with("dir", dir.display()).with_source(e));
                    }
                    Err(_) => pause(),
                },
            }
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "another process is waited for, which cannot wake this one")]
fn pause() {
    std::thread::sleep(Duration::from_millis(RETRY_MS));
}

impl Shared {
    /// Runs a request with a typed result, and adds the operation's name to errors.
    async fn run<T: Payload>(self: &Arc<Self>, op: &'static str, request: Request) -> Result<T> {
        let reply = self.call(request).await.map_err(|error| error.with_op(op))?;
        T::of(reply).ok_or_else(|| Error::internal("the owner's reply does not fit the request").with_op(op))
    }

    async fn call(self: &Arc<Self>, request: Request) -> Result<Reply> {
        for _ in 0..OWNERS_MAX {
            if (self.changes(&request) || request == (Request::Flush {}))
                && self.lost_buffered.swap(false, Ordering::AcqRel)
            {
                return Err(Error::outcome_unknown(
                    "the process that owned the store died; buffered writes since the last flush may be lost, and this \
                     request was not executed",
                ));
            }
            let route = self.route.lock().clone();
            let Some(route) = route else {
                return Err(Error::unavailable("the store is closed"));
            };
            match route {
                Route::Owner(owner) => {
                    let (done, reply) = oneshot::channel();
                    owner.handle(request, Box::new(move |reply| drop(done.send(reply))));
                    return reply
                        .await
                        .unwrap_or_else(|_| Err(Error::internal("the operation panicked; see the log")));
                }
                Route::Client(connection) => match connection.run(&request).await {
                    Ok(reply) => return reply.into_result(),
                    Err(lost) => {
                        self.reconnect(connection).await?;
                        if lost == ConnectionLost::OutcomeUnknown && self.changes(&request) {
                            return Err(Error::outcome_unknown(
                                "the process that owned the store died before it answered; read the object again",
                            ));
                        }
                    }
                },
            }
        }
        let message = "the process that owns the store exited too often during the request; try again";
        Err(Error::unavailable(message).with("dir", self.dir.display()))
    }

    /// Returns true if a retry of the request could have a visible effect.
    fn changes(&self, request: &Request) -> bool {
        match request {
            Request::CreatePool { .. } | Request::RemovePool { .. } | Request::Write { .. } => true,
            Request::Exec { call, .. } => changes(&self.options.classes, call),
            _ => false,
        }
    }

    /// Replaces a connection that ended. Runs on its own thread, because it may take long.
    async fn reconnect(self: &Arc<Self>, ended: Arc<Connection>) -> Result<()> {
        let (done, outcome) = oneshot::channel();
        let shared = Arc::clone(self);
        spawn("benthic-route", move || drop(done.send(shared.reconnect_now(&ended))))?;
        outcome.await.unwrap_or_else(|_| Err(Error::internal("opening the store again panicked")))
    }

    fn reconnect_now(&self, ended: &Arc<Connection>) -> Result<()> {
        let _routing = self.routing.lock();
        // Another thread may already have found a new route or closed the store.
        match &*self.route.lock() {
            Some(Route::Client(current)) if Arc::ptr_eq(current, ended) => {}
            _ => return Ok(()),
        }
        if ended.lost_buffered() {
            self.lost_buffered.store(true, Ordering::Release);
        }
        *self.seeking_since.lock() = Some(self.options.clock.monotonic());
        let found = Route::find(&self.dir, false, &self.options);
        *self.seeking_since.lock() = None;
        *self.route.lock() = Some(found?);
        Ok(())
    }
}

fn changes(classes: &ClassRegistry, call: &ClassCall) -> bool {
    classes.method(&call.class, &call.method).is_ok_and(|method| method.flags.contains(MethodFlags::WRITE))
}

#[async_trait]
impl Store for EmbeddedStore {
    async fn create_pool(&self, name: &str) -> Result<()> {
        self.shared.run("create pool", Request::CreatePool { name: name.to_owned() }).await
    }

    async fn remove_pool(&self, name: &str) -> Result<()> {
        self.shared.run("remove pool", Request::RemovePool { name: name.to_owned() }).await
    }

    async fn list_pools(&self) -> Result<Vec<String>> {
        self.shared.run("list pools", Request::ListPools {}).await
    }

    async fn open_pool(&self, name: &str) -> Result<Arc<dyn Pool>> {
        let id = self.shared.run("open pool", Request::OpenPool { name: name.to_owned() }).await?;
        Ok(Arc::new(EmbeddedPool { shared: Arc::clone(&self.shared), name: name.to_owned(), id }))
    }

    async fn classes(&self) -> Result<Vec<ClassInfo>> {
        self.shared.run("list classes", Request::Classes {}).await
    }

    fn class_host(&self) -> ClassHost {
        ClassHost::Local
    }

    fn check_writable(&self) -> Result<()> {
        match &*self.shared.route.lock() {
            Some(Route::Owner(owner)) => owner.engine.check_writable(),
            _ => Ok(()),
        }
    }

    async fn flush(&self) -> Result<()> {
        self.shared.run("flush", Request::Flush {}).await
    }

    async fn fsck(&self) -> Result<FsckReport> {
        self.shared.run("fsck", Request::Fsck {}).await
    }

    fn longest_wait(&self) -> Option<Duration> {
        let shared = &self.shared;
        if let Some(since) = *shared.seeking_since.lock() {
            return Some(shared.options.clock.monotonic().saturating_sub(since));
        }
        match &*shared.route.lock() {
            Some(Route::Client(connection)) => connection.longest_wait(),
            _ => None,
        }
    }

    async fn describe_wait(&self) -> Option<Wait> {
        wait_for_owner(&self.shared.dir)
    }
}

struct EmbeddedPool {
    shared: Arc<Shared>,
    name: String,
    id: u32,
}

impl EmbeddedPool {
    /// Checks the limits in this process too, so that no oversized request is sent to the owner.
    fn check(&self, op: &'static str, object: &ObjectId, checked: Result<u64>) -> Result<()> {
        let address = || ObjectAddress { pool: self.name.clone(), object: object.clone() };
        checked.map(drop).map_err(|error| error.with_op(op).with("object", address()))
    }
}

#[async_trait]
impl Pool for EmbeddedPool {
    fn name(&self) -> &str {
        &self.name
    }

    async fn read(&self, object: &ObjectId, op: ReadOp) -> Result<ReadReply> {
        self.shared.run("read", Request::Read { pool: self.id, object: object.clone(), op }).await
    }

    async fn write(&self, object: &ObjectId, op: WriteOp) -> Result<WriteReply> {
        self.check("write", object, op.check())?;
        self.shared.run("write", Request::Write { pool: self.id, object: object.clone(), op }).await
    }

    async fn exec(&self, object: &ObjectId, call: ClassCall) -> Result<Bytes> {
        self.check("exec", object, call.check())?;
        self.shared.run("exec", Request::Exec { pool: self.id, object: object.clone(), call }).await
    }

    async fn list(&self, request: ListRequest) -> Result<ListPage> {
        self.shared.run("list", Request::List { pool: self.id, request }).await
    }

    fn token_after(&self, object: &ObjectId) -> Option<ListToken> {
        Some(token_of(object))
    }

    async fn scrub(&self, after: Option<ListToken>) -> Result<ScrubPage> {
        self.shared.run("scrub", Request::Scrub { pool: self.id, after }).await
    }
}

struct Owner {
    engine: Arc<Engine>,
    workers: Arc<Workers>,
    /// `None` if the store is opened read-only.
    server: Option<Server>,
}

impl Owner {
    fn start(dir: Dir, options: Options) -> Result<Arc<Owner>> {
        let serves = (!dir.is_read_only()).then(|| dir.path().to_owned());
        let workers = Arc::new(Workers::start(options.workers)?);
        let engine = Engine::open(dir, options)?;
        let Some(path) = serves else { return Ok(Arc::new(Owner { engine, workers, server: None })) };
        let (serving, working) = (Arc::clone(&engine), Arc::clone(&workers));
        let handler: Handler = Arc::new(move |request, done| {
            handle_client(&serving, &working, request, Box::new(move |outcome| done(Reply::of(outcome))));
        });
        let access = Arc::new(engine.client_access());
        match Server::start(&path, Service { handler, access }) {
            Ok(server) => Ok(Arc::new(Owner { engine, workers, server: Some(server) })),
            Err(error) => {
                workers.stop();
                engine.close()?;
                Err(error)
            }
        }
    }

    fn handle(&self, request: Request, done: Completion<Reply>) {
        if self.server.is_some() {
            return handle(&self.engine, &self.workers, request, done);
        }
        let engine = Arc::clone(&self.engine);
        let done = Box::new(move |outcome| done(engine.check_no_owner().and(outcome)));
        handle(&self.engine, &self.workers, request, done);
    }

    fn close(&self) -> Result<()> {
        if let Some(server) = &self.server {
            server.drain();
        }
        self.workers.stop();
        let outcome = self.engine.close();
        if let Some(server) = &self.server {
            server.finish(outcome.is_ok());
        }
        outcome
    }
}

fn handle(engine: &Arc<Engine>, workers: &Arc<Workers>, request: Request, done: Completion<Reply>) {
    // Waking another thread would take longer than such a read.
    if let Request::Read { pool, object, op } = &request
        && let Some(reply) = workers.run_here(|| engine.read_at_once(*pool, object, op)).flatten()
    {
        return engine.answer(*pool, object, reply, reply_to(done));
    }
    let engine = Arc::clone(engine);
    let announcement = if let Request::Write { op, .. } = &request { engine.announce(op) } else { None };
    workers.submit(Box::new(move |admitted| match admitted {
        Ok(()) => run(&engine, request, announcement, done),
        Err(error) => done(Err(error)),
    }));
}

/// Handles a client's request. The reply to a read tells where the client can repeat it.
fn handle_client(engine: &Arc<Engine>, workers: &Arc<Workers>, request: Request, done: Completion<Reply>) {
    let Request::Read { pool, object, op } = &request else {
        return handle(engine, workers, request, done);
    };
    let Some(range) = ReadRange::of(op) else { return handle(engine, workers, request, done) };
    let (locating, pool, object) = (Arc::clone(engine), *pool, object.clone());
    let located = move |reply: Reply| match reply {
        Reply::Read { reply } => match locating.locate(pool, &object, range, reply.version) {
            Some(location) => Reply::Located { reply, location },
            None => Reply::Read { reply },
        },
        other => other,
    };
    handle(engine, workers, request, Box::new(move |outcome| done(outcome.map(located))));
}

fn reply_to<T: Payload>(done: Completion<Reply>) -> Completion<T> {
    Box::new(|outcome| done(outcome.map(Payload::into_reply)))
}

fn run(engine: &Engine, request: Request, announcement: Option<Announcement>, done: Completion<Reply>) {
    match request {
        Request::CreatePool { name } => reply_to(done)(engine.create_pool(&name)),
        Request::RemovePool { name } => reply_to(done)(engine.remove_pool(&name)),
        Request::ListPools {} => reply_to(done)(Ok(engine.list_pools())),
        Request::OpenPool { name } => reply_to(done)(engine.open_pool(&name)),
        Request::Classes {} => reply_to(done)(Ok(engine.classes())),
        Request::Flush {} => engine.flush(reply_to(done)),
        Request::Fsck {} => reply_to(done)(engine.fsck()),
        Request::Read { pool, object, op } => engine.read(pool, &object, &op, reply_to(done)),
        Request::Write { pool, object, op } => engine.write(pool, &object, &op, announcement, reply_to(done)),
        Request::Exec { pool, object, call } => engine.exec(pool, &object, call, reply_to(done)),
        Request::List { pool, request } => engine.list(pool, &request, reply_to(done)),
        Request::Scrub { pool, after } => reply_to(done)(engine.scrub(pool, after.as_ref())),
    }
}
