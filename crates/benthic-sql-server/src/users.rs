//! The state that the connections of one user share, on both protocols: the session, the memory of
//! queries, and the limits on them.

use crate::queries::{Admission, Workers};
use crate::visible_store::VisibleStore;
use benthic_core::{Error, Result, Store};
use benthic_s3::grants::{Access, Login};
use benthic_sql::session::{Settings, SqlSession, TableColumns};
use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryPool, TrackConsumersPool};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

/// Number of users above which the server forgets those without a connection or a query.
const USERS_KEPT: usize = 64;
/// How long the list of tables is kept. Clients ask for it in many small queries.
const TABLES_KEPT: Duration = Duration::from_secs(3);

/// How long a query waits for the end of another query of its user.
const ADMISSION_WAIT: Duration = Duration::from_secs(10);

/// Limits on each user.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Memory that the user's queries share for sorting, joining and grouping rows.
    pub memory_bytes: usize,
    /// Queries that run at once, also on different connections.
    pub queries: usize,
    /// Time of one query, from its start to its last row.
    pub query_time: Duration,
}

/// The users of a store.
pub struct Users {
    access: Access,
    store: Arc<dyn Store>,
    settings: Settings,
    limits: Limits,
    workers: Workers,
    connected: Mutex<HashMap<String, Arc<User>>>,
}

impl Users {
    /// The users of this store. Their queries have these settings.
    ///
    /// # Errors
    /// The system's error if it cannot start threads.
    pub fn new(access: Access, store: Arc<dyn Store>, settings: Settings, limits: Limits) -> Result<Users> {
        let settings = Settings { local_files: false, ..settings };
        let workers = Workers::start()?;
        Ok(Users { access, store, settings, limits, workers, connected: Mutex::default() })
    }

    /// Looks up a key. Returns `None` for a key that is unknown or suspended.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn key(&self, access_key: &str) -> Result<Option<Login>> {
        self.access.key(access_key).await
    }

    /// The user of a key whose secret was checked.
    ///
    /// # Errors
    /// `PermissionDenied` if the user's account may not query.
    pub fn enter(&self, login: &Login) -> Result<Arc<User>> {
        let grant = self.access.grant(login)?;
        let mut connected = self.connected.lock();
        if let Some(user) = connected.get(&login.user) {
            return Ok(Arc::clone(user));
        }
        if connected.len() >= USERS_KEPT {
            connected.retain(|_, user| Arc::strong_count(user) > 1);
        }
        let store: Arc<dyn Store> = match grant.pools {
            None => Arc::clone(&self.store),
            Some(pools) => Arc::new(VisibleStore { store: Arc::clone(&self.store), pools }),
        };
        // The wrapper names the parts of a query that use the memory, in the error of a full pool.
        let memory = GreedyMemoryPool::new(self.limits.memory_bytes);
        let memory: Arc<dyn MemoryPool> = Arc::new(TrackConsumersPool::new(memory, NonZeroUsize::MIN));
        let settings = Settings { memory: Some(Arc::clone(&memory)), ..self.settings.clone() };
        let user = Arc::new(User {
            name: login.user.clone(),
            session: SqlSession::new(store, settings),
            workers: self.workers.clone(),
            memory,
            limits: self.limits,
            slots: Arc::new(Semaphore::new(self.limits.queries)),
            tables: tokio::sync::Mutex::default(),
        });
        connected.insert(login.user.clone(), Arc::clone(&user));
        Ok(user)
    }
}

/// A user.
pub struct User {
    /// `ACCOUNT/USER`, or `ACCOUNT` for the account itself.
    pub name: String,
    pub session: SqlSession,
    workers: Workers,
    /// The memory that the user's queries share.
    pub memory: Arc<dyn MemoryPool>,
    limits: Limits,
    slots: Arc<Semaphore>,
    tables: tokio::sync::Mutex<Option<(Instant, Arc<Vec<TableColumns>>)>>,
}

impl User {
    /// Admits a query of the user, for at most `time` and the time limit of the server. Waits for a
    /// while if too many of the user's queries run.
    ///
    /// # Errors
    /// `LimitExceeded` if none of them has ended meanwhile.
    pub async fn admit(&self, time: Option<Duration>) -> Result<Admission> {
        let time = time.map_or(self.limits.query_time, |time| time.min(self.limits.query_time));
        let wait = timeout(ADMISSION_WAIT.min(time), Arc::clone(&self.slots).acquire_owned());
        let Ok(Ok(slot)) = wait.await else {
            let message = "the user has too many running queries; wait for one to end, or cancel one";
            let error = Error::limit_exceeded(message).with("user", &self.name);
            return Err(error.with("queries_max", self.limits.queries));
        };
        Ok(Admission::new(slot, time, self.workers.clone()))
    }

    /// The tables that the user may read. They may be a few seconds old.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn tables(&self) -> Result<Arc<Vec<TableColumns>>> {
        let mut kept = self.tables.lock().await;
        if let Some((since, tables)) = &*kept
            && since.elapsed() < TABLES_KEPT
        {
            return Ok(Arc::clone(tables));
        }
        let tables = Arc::new(self.session.tables().await?);
        *kept = Some((Instant::now(), Arc::clone(&tables)));
        Ok(tables)
    }
}
