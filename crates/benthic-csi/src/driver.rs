//! The driver, of which a process has one, and a call of the orchestrator with the pools that it
//! has opened.

use crate::errors::{Failure, Outcome};
use benthic_block::{ImageAddress, Images};
use benthic_core::Result;
use benthic_program::output::Output;
use benthic_program::session::Session;
use benthic_program::uri::StoreUri;
use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use tonic::Code;

/// The configuration of a driver.
#[derive(Clone, Debug)]
pub struct Config {
    pub store: String,
    /// The pools that may have volumes. The first one is for storage classes that name none.
    pub pools: Vec<String>,
    /// The orchestrator's name for this machine.
    pub node_id: String,
    /// The program `benthic`.
    pub program: PathBuf,
    /// The directory in which the driver keeps its records of attached volumes. A reboot must empty
    /// it.
    pub state: PathBuf,
}

/// A driver. Any number of calls may run at once.
pub struct Driver {
    pub config: Config,
    /// The session of all calls on a cluster. On a directory, each call has its own: then the
    /// driver does not own the directory for long, and can be killed without harm to attached
    /// volumes.
    shared: Option<Arc<Session>>,
    busy: Mutex<HashSet<String>>,
}

impl Driver {
    /// Creates a driver. Opens no store.
    ///
    /// # Errors
    /// `InvalidArgument` for a bad URI of the store.
    pub fn new(config: Config) -> Result<Arc<Driver>> {
        let is_cluster = config.store.parse::<StoreUri>()?.is_cluster();
        let shared = is_cluster.then(|| Arc::new(session(&config)));
        Ok(Arc::new(Driver { config, shared, busy: Mutex::default() }))
    }

    /// Starts a call.
    pub fn call(self: &Arc<Driver>) -> Call {
        let session = self.shared.clone().unwrap_or_else(|| Arc::new(session(&self.config)));
        Call { driver: Arc::clone(self), session, pools: tokio::sync::Mutex::default() }
    }

    /// Closes the store.
    ///
    /// # Errors
    /// Those of closing it.
    pub async fn close(&self) -> Result<()> {
        if let Some(session) = &self.shared { session.close().await } else { Ok(()) }
    }
}

fn session(config: &Config) -> Session {
    Session::new(config.store.clone(), Output::new(true), benthic_classes::registry())
}

/// One call of the orchestrator. The services are its methods, each in the file of its service.
pub struct Call {
    pub(crate) driver: Arc<Driver>,
    pub(crate) session: Arc<Session>,
    /// The pools that the call has opened.
    pools: tokio::sync::Mutex<HashMap<String, Arc<dyn Images>>>,
}

impl Call {
    /// Ends the call, after its method has returned.
    pub async fn end(self) {
        if self.driver.shared.is_none()
            && let Err(error) = self.session.close().await
        {
            tracing::warn!(%error, "the store could not be closed cleanly");
        }
    }

    /// The images of a pool.
    pub(crate) async fn images(&self, pool: &str) -> Outcome<Arc<dyn Images>> {
        let mut pools = self.pools.lock().await;
        if let Some(images) = pools.get(pool) {
            return Ok(Arc::clone(images));
        }
        let session = &self.session;
        let found = session.pool(pool).await?;
        let images = benthic_rbd::open_images(session.store().await?, session.rados().await?, found).await?;
        pools.insert(pool.to_owned(), Arc::clone(&images));
        Ok(images)
    }

    /// The address of a volume in one of the driver's pools.
    pub(crate) fn volume(&self, id: &str) -> Outcome<ImageAddress> {
        require(id, "volume_id")?;
        crate::names::volume(id)
            .filter(|address| self.driver.config.pools.contains(&address.pool))
            .ok_or_else(|| Failure::new(Code::NotFound, format!("no such volume volume_id={id:?}")))
    }

    /// Keeps other calls away from a volume until the value is dropped.
    pub(crate) fn lock(&self, id: &str) -> Outcome<Lock> {
        let mut busy = self.driver.busy.lock().unwrap_or_else(PoisonError::into_inner);
        if !busy.insert(id.to_owned()) {
            let message =
                format!("another call for this volume is running; try again later volume_id={id:?}");
            return Err(Failure::new(Code::Aborted, message));
        }
        Ok(Lock { driver: Arc::clone(&self.driver), id: id.to_owned() })
    }
}

/// A volume that one call works on.
pub(crate) struct Lock {
    driver: Arc<Driver>,
    id: String,
}

impl Drop for Lock {
    fn drop(&mut self) {
        self.driver.busy.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.id);
    }
}

/// Refuses an empty field.
pub(crate) fn require(value: &str, field: &str) -> Outcome<()> {
    if value.is_empty() { Err(Failure::invalid(format!("the field {field} is missing"))) } else { Ok(()) }
}
