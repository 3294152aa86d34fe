//! Questions and commands of the person who runs the cluster, as `ceph` sends them: JSON objects with a `prefix`.

use crate::errors::{self, c_string};
use crate::ffi::Daemons;
use crate::store::RadosStore;
use benthic_core::{Error, ErrorKind, Result};
use serde_json::Value;

/// What a command was answered with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// What the command is for.
    pub output: Vec<u8>,
    /// What `ceph` would print to stderr; often empty.
    pub status: String,
}

impl RadosStore {
    /// Asks the monitors something that changes nothing.
    ///
    /// # Errors
    /// `Unavailable` if none answers in time, `PermissionDenied` if the client may not ask, `InvalidArgument` and others for
    /// what they refuse.
    pub async fn ask_monitors(&self, question: Value) -> Result<Answer> {
        let prefix = prefix(&question);
        let answered = self.run(move |shared| {
            answer(shared.cluster.command(Daemons::Monitors, &c_string(question.to_string())?, &[]))
        });
        answered.await.map_err(|error| error.with("command", prefix))
    }

    /// Asks the active manager something that changes nothing and has an answer.
    ///
    /// # Errors
    /// As [`ask_monitors`](RadosStore::ask_monitors); `Unavailable` also if no manager is active, or it hangs, or ends meanwhile.
    pub async fn ask_manager(&self, question: Value) -> Result<Answer> {
        let prefix = prefix(&question);
        let answered = self.run(move |shared| {
            answered(answer(shared.cluster.command(Daemons::Manager, &c_string(question.to_string())?, &[]))?)
        });
        answered.await.map_err(|error| of_manager(error).with("command", prefix))
    }

    /// Lets the monitors change something; `input` is what `ceph` reads from a file with `-i`.
    ///
    /// # Errors
    /// As [`ask_monitors`](RadosStore::ask_monitors), but `OutcomeUnknown` if none answers in time.
    pub async fn tell_monitors(&self, command: Value, input: Vec<u8>) -> Result<Answer> {
        let prefix = prefix(&command);
        let answered = self.run_change(move |shared, progress| {
            let command = c_string(command.to_string())?;
            progress.begin_change()?;
            answer(shared.cluster.command(Daemons::Monitors, &command, &input))
        });
        answered.await.map_err(|error| error.with("command", prefix))
    }
}

fn prefix(command: &Value) -> String {
    format!("{:?}", command["prefix"].as_str().unwrap_or_default())
}

fn answer((result, status): (std::result::Result<Vec<u8>, i32>, String)) -> Result<Answer> {
    match result {
        Ok(output) => Ok(Answer { output, status }),
        Err(number) => Err(errors::of_command(number, &status)),
    }
}

/// A manager that ends while it is asked seems to succeed, and says nothing.
fn answered(answer: Answer) -> Result<Answer> {
    if answer.output.is_empty() {
        return Err(Error::new(ErrorKind::Unavailable, "the manager's answer is empty: it may have ended"));
    }
    Ok(answer)
}

/// The monitors answer in time where a manager does not: somebody has to look after that one.
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
mod tests {
    use super::{answer, answered, of_manager};
    use benthic_core::ErrorKind;
    use benthic_core::error::errno;

    #[test]
    fn a_manager_that_hangs_is_told_from_monitors_that_do() {
        let late = answer((Err(errno::ETIMEDOUT), String::new())).unwrap_err();
        assert!(late.message().contains("no monitor"), "{late}");
        let late = of_manager(late);
        assert_eq!(late.kind(), ErrorKind::Unavailable);
        assert!(late.message().contains("ceph mgr fail"), "{late}");
        let nothing = answered(answer((Ok(Vec::new()), String::new())).unwrap()).unwrap_err();
        assert!(of_manager(nothing).message().contains("ceph mgr fail"));
        assert!(answered(answer((Ok(vec![b'1']), String::new())).unwrap()).is_ok());
        let refused = of_manager(answer((Err(errno::EACCES), "access denied".to_owned())).unwrap_err());
        assert!(
            refused.kind() == ErrorKind::PermissionDenied && refused.message().contains("mgr caps"),
            "{refused}"
        );
    }
}
