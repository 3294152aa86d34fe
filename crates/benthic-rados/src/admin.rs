//! Queries and commands for the administrator of a cluster, in the form that `ceph` sends: JSON
//! objects with a `prefix`.

use crate::blocking::Progress;
use crate::connection::Shared;
use crate::errors::{self, c_string};
use crate::ffi::{Daemons, ErrnoResult};
use crate::store::RadosStore;
use benthic_core::{Error, ErrorKind, Result};
use serde_json::Value;

impl RadosStore {
    /// Sends the monitors a command that changes nothing, and returns its output.
    ///
    /// # Errors
    /// `Unavailable` if no monitor answers in time, `PermissionDenied` if the client lacks the
    /// caps, `InvalidArgument` and others if the monitors refuse the command.
    pub async fn ask_monitors(&self, question: Value) -> Result<Vec<u8>> {
        let prefix = prefix(&question);
        let job = move |shared: &Shared| {
            output(shared.cluster.command(Daemons::Monitors, &c_string(question.to_string())?, &[]))
        };
        self.run(job).await.map_err(|error| error.with("command", prefix))
    }

    /// Sends the active manager a command that changes nothing and has output.
    ///
    /// # Errors
    /// As [`ask_monitors`](RadosStore::ask_monitors); `Unavailable` also if no manager is active,
    /// or if the manager hangs or ends during the command.
    pub async fn ask_manager(&self, question: Value) -> Result<Vec<u8>> {
        let prefix = prefix(&question);
        let job = move |shared: &Shared| {
            let command = c_string(question.to_string())?;
            check_manager_output(output(shared.cluster.command(Daemons::Manager, &command, &[]))?)
        };
        self.run_at("the active manager of the cluster", job)
            .await
            .map_err(|error| of_manager(error).with("command", prefix))
    }

    /// Sends the monitors a command that changes the cluster. `input` is the data that `ceph` reads
    /// from a file with `-i`.
    ///
    /// # Errors
    /// As [`ask_monitors`](RadosStore::ask_monitors), but `OutcomeUnknown` if no monitor answers in
    /// time; `Conflict` for a CRUSH map whose `prior_version` is not the current one.
    pub async fn tell_monitors(&self, command: Value, input: Vec<u8>) -> Result<()> {
        let prefix = prefix(&command);
        let job = move |shared: &Shared, progress: &Progress| {
            let command = c_string(command.to_string())?;
            progress.begin_change()?;
            output(shared.cluster.command(Daemons::Monitors, &command, &input)).map(drop)
        };
        self.run_change(job).await.map_err(|error| error.with("command", prefix))
    }
}

fn prefix(command: &Value) -> String {
    command["prefix"].as_str().unwrap_or_default().to_owned()
}

/// The output of a command, or the error of its errno and status line.
fn output((result, status): (ErrnoResult<Vec<u8>>, String)) -> Result<Vec<u8>> {
    result.map_err(|number| errors::of_command(number, &status))
}

/// Refuses empty output: if a manager ends during a command, the command seems to succeed without
/// output.
fn check_manager_output(output: Vec<u8>) -> Result<Vec<u8>> {
    if output.is_empty() {
        return Err(Error::unavailable("the manager sent an empty answer: it may have ended"));
    }
    Ok(output)
}

/// Points the operator at the manager: the monitors still answer in time while a manager hangs.
fn of_manager(error: Error) -> Error {
    let message = match error.kind() {
        ErrorKind::Unavailable => {
            "the manager did not answer in time; `ceph mgr stat` names it, and `ceph mgr fail` lets another one take over"
        }
        ErrorKind::PermissionDenied => "the manager refused; the client's mgr caps need `allow r`",
        _ => return error,
    };
    Error::new(error.kind(), message).with_source(error)
}

#[cfg(test)]
#[path = "admin_tests.rs"]
mod tests;
