//! The client of a cluster that the tools for operators use: commands to monitors and managers, and questions to OSDs. This is the
//! only file that names the Ceph engine.

use crate::cluster_state::parse;
use async_trait::async_trait;
use benthic_core::{Clock, ErrorKind, LibraryInfo, Result};
use benthic_rados::RadosStore;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// A client of a cluster. Commands are JSON objects with a `prefix`, as `ceph` sends them.
#[async_trait]
pub trait ClusterClient: Send + Sync {
    /// The clock of the connection.
    fn clock(&self) -> &dyn Clock;

    /// Asks the monitors something that changes nothing.
    ///
    /// # Errors
    /// As [`RadosStore::ask_monitors`].
    async fn ask_monitors(&self, question: Value) -> Result<Vec<u8>>;

    /// Asks the active manager something that changes nothing and has an answer.
    ///
    /// # Errors
    /// As [`RadosStore::ask_manager`].
    async fn ask_manager(&self, question: Value) -> Result<Vec<u8>>;

    /// Lets the monitors change something; `input` is what `ceph` reads from a file with `-i`.
    ///
    /// # Errors
    /// As [`RadosStore::tell_monitors`].
    async fn tell_monitors(&self, command: Value, input: Vec<u8>) -> Result<()>;

    /// The description of a library of classes by the OSD that leads the placement group of an object; `None` if the OSD does not
    /// have it.
    ///
    /// # Errors
    /// As [`RadosStore::library_at`].
    async fn library_at(&self, pool: &str, object: &str, library: &str) -> Result<Option<LibraryInfo>>;
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

    async fn library_at(&self, pool: &str, object: &str, library: &str) -> Result<Option<LibraryInfo>> {
        RadosStore::library_at(self, pool, object, library).await
    }
}

impl dyn ClusterClient + '_ {
    /// Asks the monitors something that they answer in JSON.
    ///
    /// # Errors
    /// As [`ClusterClient::ask_monitors`]; `Unsupported` for an answer of another form.
    pub(crate) async fn monitor_state<T: DeserializeOwned>(&self, question: Value) -> Result<T> {
        parse(&self.ask_monitors(in_json(question)).await?)
    }

    /// Asks the manager something that it answers in JSON.
    ///
    /// # Errors
    /// As [`ClusterClient::ask_manager`]; `Unsupported` for an answer of another form.
    pub(crate) async fn manager_state<T: DeserializeOwned>(&self, question: Value) -> Result<T> {
        parse(&self.ask_manager(in_json(question)).await?)
    }

    /// A number in the monitors' configuration; `default` if the client may not read it.
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

/// Asks for the answer in JSON.
pub(crate) fn in_json(mut question: Value) -> Value {
    question["format"] = json!("json");
    question
}
