//! `benthic class log`: the recent failures of methods that each OSD recorded.

use super::ls::{ask_each, installed_here, no_cluster};
use benthic_ceph::CLASS_LIBRARY;
use benthic_ceph::osds::{failures_on, osds};
use benthic_core::CallFailure;
use benthic_program::exit::Outcome;
use benthic_program::session::Session;
use benthic_program::units;
use clap::Args;
use serde_json::json;

#[derive(Args)]
#[command(
    after_help = "Each line has the time of the latest failure, the OSD, the method, the client, the error kind and the \
    message. Equal failures share a line, which counts them. Each OSD keeps its last 128 entries for each library until \
    it restarts. The command asks for Benthic's own library, and for those in the OSDs' osd_class_dir if that directory \
    is on this machine; --library names others.\n\n\
    Examples:\n  benthic class log\n  benthic class log mydigest\n  benthic class log --library mydigest_2"
)]
pub struct LogArgs {
    /// Only failures of this class
    class: Option<String>,
    /// Only this library, the NAME of libcls_NAME.so
    #[arg(long, value_name = "NAME")]
    library: Vec<String>,
}

/// A failure, with the OSD and the library that recorded it.
type Recorded = (i64, String, CallFailure);

pub async fn run(args: LogArgs, session: &Session) -> Outcome {
    let Some(rados) = session.rados().await? else { return Err(no_cluster(session).into()) };
    let named = !args.library.is_empty();
    let libraries = if named { args.library } else { installed_here(session.uri()).await };
    let osds = osds(&*rados).await?;
    let mut recorded: Vec<Recorded> = Vec::new();
    for library in libraries {
        for (osd, answer) in ask_each(&osds, async |osd| failures_on(&*rados, osd, &library).await).await {
            match answer {
                Ok(Some(answer)) => {
                    let entries = answer.failures.into_iter();
                    recorded.extend(entries.map(|entry| (osd, library.clone(), entry)));
                }
                // The directory also contains Ceph's own classes.
                Ok(None) if !named && library != CLASS_LIBRARY => {}
                Ok(None) => session.out.warning(format_args!(
                    "osd.{osd} does not have the library {library}, or a build that records no failures; \
                     `benthic class ls` shows the builds"
                )),
                Err(error) => session.out.warning(format_args!("osd.{osd}: {}", error.message())),
            }
        }
    }
    recorded.retain(|(_, _, entry)| args.class.as_ref().is_none_or(|class| entry.class == *class));
    recorded.sort_by_key(|(_, _, entry)| entry.unix_ms);
    recorded.iter().try_for_each(|entry| print(entry, session))
}

fn print((osd, library, failure): &Recorded, session: &Session) -> Outcome {
    let times = if failure.times > 1 { format!(" ({} times)", failure.times) } else { String::new() };
    let line = format!(
        "{} osd.{osd} {}.{} {} {}: {}{times}",
        units::utc(failure.unix_ms.saturating_mul(1_000_000)),
        failure.class,
        failure.method,
        failure.client,
        failure.kind,
        units::one_line(&failure.message)
    );
    session.out.result(line, || {
        let mut value = json!(failure);
        value["osd"] = json!(osd);
        value["library"] = json!(library);
        value
    })
}
