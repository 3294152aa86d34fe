//! `benthic cluster cut|heal|at`, and the process that `cluster up` starts to connect the sites.

use super::{ClusterDir, SiteArgs, show, with_cluster};
use benthic_ceph::local::{Cluster, wan};
use benthic_core::{Action, Error, Result};
use benthic_program::exit::{Failure, Outcome};
use benthic_program::session::Session;
use benthic_program::store::blocking;
use benthic_program::{interrupt, local};
use serde_json::json;
use std::ffi::OsString;
use std::fs;
use std::os::unix::process::CommandExt;
use std::process::Command;

pub const EXAMPLES: &str = "The command gets the variables CEPH_CONF and BENTHIC_STORE. This configuration names the \
    site, so a store with read=near reads from the OSDs of the site.\n\nExamples:\n  \
    benthic cluster at um -- benthic get photos/cat.jpg -\n  \
    benthic cluster at msu -- sh -c 'benthic --store \"$BENTHIC_STORE&read=near\" get photos/cat.jpg -'\n  \
    benthic cluster at wsu -- bash";

/// Cuts a site off, or reconnects it.
pub async fn set_cut(args: SiteArgs, cut: bool, session: &Session) -> Outcome {
    let SiteArgs { site, place } = args;
    let name = site.clone();
    let changed = with_cluster(place, move |cluster, _| match cut {
        true => cluster.cut(&name),
        false => cluster.heal(&name),
    })
    .await?;
    let text = match (cut, changed) {
        (true, true) => "is cut off",
        (true, false) => "was cut off already",
        (false, true) => "is connected again",
        (false, false) => "was not cut off",
    };
    let value = || json!({ "site": site, "cut": cut, "changed": changed });
    session.out.result(format_args!("{site} {text}"), value)
}

/// Replaces this process with the command, which so inherits its input, output, signals and exit
/// status.
pub async fn at(site: SiteArgs, command: Vec<OsString>) -> Outcome {
    blocking(move || Err(become_command(&site, &command)?)).await?
}

/// Returns only if the command cannot be run.
fn become_command(site: &SiteArgs, command: &[OsString]) -> Result<Error> {
    let conf = Cluster::open(&site.place.dir)?.enter(&site.site)?;
    let (program, args) = command.split_first().map_or((None, command), |(first, rest)| (Some(first), rest));
    let program = program.cloned().unwrap_or_default();
    let store = show::store_uri(&conf);
    let error = Command::new(&program)
        .args(args)
        .env("CEPH_CONF", &conf)
        .env("BENTHIC_STORE", store)
        .env_remove("CEPH_ARGS")
        .exec();
    Ok(Error::io(Action::Admin, "cannot run the command", error).with("command", program.display()))
}

/// Connects the sites until a failure or a signal.
pub async fn wan(place: ClusterDir) -> Outcome {
    let dir = fs::canonicalize(&place.dir).map_err(local::failed("cannot find the directory", &place.dir))?;
    tokio::select! {
        ended = blocking(move || wan::run(&dir)) => Ok(ended?),
        () = interrupt::wait() => Err(Failure::Interrupted),
    }
}
