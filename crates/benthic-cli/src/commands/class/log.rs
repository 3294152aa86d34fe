//! `benthic class log`: the recent failures of methods, and their log messages, that each OSD
//! recorded.

use super::ls::{ask_each, installed_here, no_cluster};
use benthic_ceph::CLASS_LIBRARY;
use benthic_ceph::cluster_client::ClusterClient;
use benthic_ceph::osds::{OsdTarget, failures_on, osds};
use benthic_core::{CallFailure, LogMessage, Result};
use benthic_program::exit::Outcome;
use benthic_program::session::Session;
use benthic_program::units;
use clap::Args;
use serde_json::{Value, json};

#[derive(Args)]
#[command(
    after_help = "Each line has the time, the OSD, the method, the client, and either the error kind and message of a failure, \
    or a message that the method wrote to the log, with its level. Equal failures share one line with their \
    number and the latest time. Each OSD keeps its last 128 failures and 256 messages for each library until it restarts. \
    The command asks for Benthic's own libraries, and for those in the OSDs' osd_class_dir if that directory is on this \
    machine; --library names others.\n\n\
    Examples:\n  benthic class log\n  benthic class log wordcount\n  benthic class log --library mydigest_2"
)]
pub struct LogArgs {
    /// Only this class
    class: Option<String>,
    #[command(flatten)]
    libraries: LibraryArg,
}

/// The libraries that a command asks the OSDs for.
#[derive(Args)]
pub struct LibraryArg {
    /// Only this library, the NAME of libcls_NAME.so
    #[arg(long, value_name = "NAME")]
    library: Vec<String>,
}

impl LibraryArg {
    /// Asks every OSD a question about each library. Warns about OSDs that do not answer, and about
    /// those that lack a library which the user named.
    pub async fn ask<T>(
        self,
        client: &dyn ClusterClient,
        session: &Session,
        question: impl AsyncFn(&OsdTarget, &str) -> Result<Option<T>>,
    ) -> Result<Vec<(i64, T)>> {
        let is_named = !self.library.is_empty();
        let libraries = if is_named { self.library } else { installed_here(session.uri()).await };
        let osds = osds(client).await?;
        let mut answers = Vec::new();
        for library in libraries {
            for (osd, answer) in ask_each(&osds, async |osd| question(osd, &library).await).await {
                match answer {
                    Ok(Some(answer)) => answers.push((osd, answer)),
                    // A cluster need not have the other libraries, and some in the directory are
                    // Ceph's own.
                    Ok(None) if !is_named && library != CLASS_LIBRARY => {}
                    Ok(None) => session.out.warning(format_args!(
                        "osd.{osd} does not have the library {library}, or a build that cannot answer; \
                         `benthic class ls` shows the builds"
                    )),
                    Err(error) => session.out.warning(format_args!("osd.{osd}: {}", error.message())),
                }
            }
        }
        Ok(answers)
    }
}

/// A line of the log.
enum Entry {
    Failure(CallFailure),
    Message(LogMessage),
}

impl Entry {
    fn unix_ms(&self) -> u64 {
        match self {
            Entry::Failure(failure) => failure.unix_ms,
            Entry::Message(message) => message.unix_ms,
        }
    }

    fn class(&self) -> &str {
        match self {
            Entry::Failure(failure) => &failure.class,
            Entry::Message(message) => &message.class,
        }
    }

    fn line(&self) -> String {
        let (entry, text, times) = match self {
            Entry::Failure(CallFailure { class, method, client, kind, message, times, .. }) => {
                ((class, method, client, kind), message, *times)
            }
            Entry::Message(LogMessage { class, method, client, level, text, .. }) => {
                ((class, method, client, level), text, 1)
            }
        };
        let (class, method, client, kind) = entry;
        let times = if times > 1 { format!(" ({times} times)") } else { String::new() };
        format!("{class}.{method} {client} {kind}: {}{times}", units::one_line(text))
    }

    fn value(&self) -> Value {
        match self {
            Entry::Failure(failure) => json!(failure),
            Entry::Message(message) => json!(message),
        }
    }
}

pub async fn run(args: LogArgs, session: &Session) -> Outcome {
    let Some(rados) = session.rados().await? else { return Err(no_cluster(session).into()) };
    let answers =
        args.libraries.ask(&*rados, session, async |osd, library| failures_on(&*rados, osd, library).await);
    let mut entries: Vec<(i64, String, Entry)> = Vec::new();
    for (osd, answer) in answers.await? {
        let failures = answer.failures.into_iter().map(Entry::Failure);
        let recorded = failures.chain(answer.messages.into_iter().map(Entry::Message));
        entries.extend(recorded.map(|entry| (osd, answer.library.clone(), entry)));
    }
    entries.retain(|(_, _, entry)| args.class.as_ref().is_none_or(|class| entry.class() == class));
    entries.sort_by_key(|(_, _, entry)| entry.unix_ms());
    entries.iter().try_for_each(|(osd, library, entry)| {
        let time = units::utc(entry.unix_ms().saturating_mul(1_000_000));
        session.out.result(format_args!("{time} osd.{osd} {}", entry.line()), || {
            let mut value = entry.value();
            value["osd"] = json!(osd);
            value["library"] = json!(library);
            value
        })
    })
}
