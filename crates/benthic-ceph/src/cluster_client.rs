//! The connection of the operators' tools to a cluster: commands to monitors and managers, and
//! queries to OSDs. Only this file uses the Ceph engine; the rest of the crate uses
//! [`ClusterClient`], which tests replace.

use crate::cluster_state::parse;
use async_trait::async_trait;
use benthic_core::{Clock, ErrorKind, LibraryCalls, LibraryFailures, LibraryInfo, Result};
use benthic_rados::{Options, RadosStore};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::ffi::CStr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// A connection to a cluster. Commands are JSON objects with a `prefix`, in the form that `ceph`
/// sends.
#[async_trait]
pub trait ClusterClient: Send + Sync {
    fn clock(&self) -> &dyn Clock;

    /// Sends the monitors a query, which changes nothing.
    ///
    /// # Errors
    /// As [`RadosStore::ask_monitors`].
    async fn ask_monitors(&self, question: Value) -> Result<Vec<u8>>;

    /// Sends the active manager a query, which changes nothing and returns an answer.
    ///
    /// # Errors
    /// As [`RadosStore::ask_manager`].
    async fn ask_manager(&self, question: Value) -> Result<Vec<u8>>;

    /// Sends the monitors a command that changes the cluster. `input` is the content of the file
    /// that `ceph` takes with `-i`.
    ///
    /// # Errors
    /// As [`RadosStore::tell_monitors`].
    async fn tell_monitors(&self, command: Value, input: Vec<u8>) -> Result<()>;

    /// Sends a small query to the OSD that leads the placement group of an object, which need not
    /// exist. Every answer counts, also a refusal.
    ///
    /// # Errors
    /// As [`RadosStore::reach`].
    async fn reach(&self, pool: &str, object: &str) -> Result<()>;

    /// Reads the description of a class library from such an OSD; `None` if the OSD does not have
    /// the library.
    ///
    /// # Errors
    /// As [`RadosStore::library_at`].
    async fn library_at(&self, pool: &str, object: &str, library: &str) -> Result<Option<LibraryInfo>>;

    /// Reads the recent failures and log messages of a class library's methods from such an OSD.
    ///
    /// # Errors
    /// As [`RadosStore::failures_at`].
    async fn failures_at(&self, pool: &str, object: &str, library: &str) -> Result<Option<LibraryFailures>>;

    /// Reads the call counters of a class library from such an OSD.
    ///
    /// # Errors
    /// As [`RadosStore::calls_at`].
    async fn calls_at(&self, pool: &str, object: &str, library: &str) -> Result<Option<LibraryCalls>>;
}

/// Connects as `client.admin`. `limit` applies to the connection and to each query to the monitors.
/// `settings` win over the configuration and over `CEPH_ARGS`.
///
/// # Errors
/// As [`RadosStore::connect`].
pub(crate) fn connect(
    conf: &Path,
    settings: Vec<(&'static CStr, String)>,
    limit: Duration,
) -> Result<Arc<dyn ClusterClient>> {
    let mon_timeout_ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
    let options = Options { mon_timeout_ms, settings, ..Options::default() };
    Ok(RadosStore::connect(Some(conf), None, options)?)
}

#[async_trait]
impl ClusterClient for RadosStore {
    fn clock(&self) -> &dyn Clock {
        RadosStore::clock(self)
    }

    async fn ask_monitors(&self, question: Value) -> Result<Vec<u8>> {
        RadosStore::ask_monitors(self, question).await
    }

    async fn ask_manager(&self, question: Value) -> Result<Vec<u8>> {
        RadosStore::ask_manager(self, question).await
    }

    async fn tell_monitors(&self, command: Value, input: Vec<u8>) -> Result<()> {
        RadosStore::tell_monitors(self, command, input).await
    }

    async fn reach(&self, pool: &str, object: &str) -> Result<()> {
        RadosStore::reach(self, pool, object).await
    }

    async fn library_at(&self, pool: &str, object: &str, library: &str) -> Result<Option<LibraryInfo>> {
        RadosStore::library_at(self, pool, object, library).await
    }

    async fn failures_at(&self, pool: &str, object: &str, library: &str) -> Result<Option<LibraryFailures>> {
        RadosStore::failures_at(self, pool, object, library).await
    }

    async fn calls_at(&self, pool: &str, object: &str, library: &str) -> Result<Option<LibraryCalls>> {
        RadosStore::calls_at(self, pool, object, library).await
    }
}

impl dyn ClusterClient + '_ {
    /// Sends the monitors a query and parses the JSON answer.
    ///
    /// # Errors
    /// As [`ClusterClient::ask_monitors`]; `Unsupported` for an answer of another form.
    pub(crate) async fn monitor_state<T: DeserializeOwned>(&self, question: Value) -> Result<T> {
        parse(&self.ask_monitors(in_json(question)).await?)
    }

    /// Sends the manager a query and parses the JSON answer.
    ///
    /// # Errors
    /// As [`ClusterClient::ask_manager`]; `Unsupported` for an answer of another form.
    pub(crate) async fn manager_state<T: DeserializeOwned>(&self, question: Value) -> Result<T> {
        parse(&self.ask_manager(in_json(question)).await?)
    }

    /// Reads a number from the monitors' configuration. Returns `default` if the client may not
    /// read it or the value is not a number.
    ///
    /// # Errors
    /// `Unavailable` if no monitor answers.
    pub(crate) async fn setting(&self, who: &str, key: &str, default: u64) -> Result<u64> {
        match self.ask_monitors(json!({ "prefix": "config get", "who": who, "key": key })).await {
            Ok(answer) => Ok(String::from_utf8_lossy(&answer).trim().parse().unwrap_or(default)),
            Err(error) if error.kind() == ErrorKind::Unavailable => Err(error),
            Err(_) => Ok(default),
        }
    }
}

/// Adds the request for a JSON answer to a query.
pub(crate) fn in_json(mut question: Value) -> Value {
    question["format"] = json!("json");
    question
}
