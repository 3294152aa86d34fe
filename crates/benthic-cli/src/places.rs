//! Runs this program at several places: at sites of a local cluster, or on hosts reached by a
//! command such as ssh.

use benthic_ceph::local::Cluster;
use benthic_core::{Action, Error, Result};
use benthic_program::session::Session;
use benthic_program::store::blocking;
use benthic_program::units::shell_word;
use benthic_program::uri::StoreUri;
use clap::Args;
use futures::future::try_join_all;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Limit on places, each of which runs in a child process of its own.
const PLACES_MAX: usize = 64;

#[derive(Args)]
pub struct Places {
    /// Run at these places, separated by commas: sites of the local cluster, or places that --via
    /// reaches
    #[arg(long, value_name = "SITE,…", value_delimiter = ',')]
    pub from: Vec<String>,
    /// Words before a command that run it at a place, such as 'ssh {}'; {} stands for the place
    #[arg(long, value_name = "COMMAND", requires = "from")]
    pub via: Option<String>,
}

impl Places {
    pub fn check(&self) -> Result<()> {
        let mut sorted: Vec<&str> = self.from.iter().map(String::as_str).collect();
        sorted.sort_unstable();
        let wrong = |message: &str| Err(Error::invalid_argument(message.to_owned()));
        if sorted.len() > PLACES_MAX {
            return wrong("too many places; name at most 64");
        }
        if sorted.windows(2).any(|pair| pair[0] == pair[1])
            || sorted.first().is_some_and(|place| place.is_empty())
        {
            return wrong("--from lists each place once, separated by commas");
        }
        if self.via.as_ref().is_some_and(|via| !via.contains("{}")) {
            return wrong("--via needs {} where the place goes, such as 'ssh {}'");
        }
        Ok(())
    }

    /// Runs this program at all places concurrently and returns the last output line of each. Fails
    /// with the program's error if one run fails. The other runs continue to their end.
    pub async fn run_all(&self, session: &Session, args: impl Fn(&str) -> Vec<String>) -> Result<Vec<Value>> {
        try_join_all(self.from.iter().map(|place| self.run(place, session, args(place)))).await
    }

    /// Runs this program at one place and returns its last output line.
    pub async fn run(&self, place: &str, session: &Session, args: Vec<String>) -> Result<Value> {
        let (mut words, program, store) = match &self.via {
            Some(via) => {
                let words: Vec<_> = via.split_whitespace().map(|word| word.replace("{}", place)).collect();
                (words, "benthic".to_owned(), session.uri().to_owned())
            }
            None => {
                let (words, store) = at_site(place, session)?;
                (words, this_program()?, store)
            }
        };
        let own = [program, "--json".to_owned(), "--store".to_owned(), store];
        let is_shell = words.first().is_some_and(|word| word == "ssh" || word.ends_with("/ssh"));
        // The remote shell splits the command line again, so quote every word.
        words.extend(own.into_iter().chain(args).map(|word| if is_shell { shell_word(&word) } else { word }));
        let place = place.to_owned();
        blocking(move || run(&words).map_err(|error| error.with("place", place))).await
    }
}

/// Returns the words that run a command at a site of the store's local cluster, and the store's URI
/// as clients at that site use it.
fn at_site(site: &str, session: &Session) -> Result<(Vec<String>, String)> {
    let unsupported = |message: &str| Error::unsupported(message).with("store", session.uri());
    let StoreUri::Ceph { conf, id, read_near } = session.uri().parse()? else {
        return Err(unsupported("only a Ceph cluster has sites; name one with --store ceph:"));
    };
    let conf = conf.or_else(|| std::env::var_os("CEPH_CONF").map(PathBuf::from));
    let dir = conf.as_deref().and_then(Path::parent);
    let dir = dir.ok_or_else(|| {
        unsupported("the store does not name its configuration; use --store ceph:?conf=FILE, or reach places with --via")
    })?;
    let conf = Some(Cluster::open(dir)?.conf_at(site)?);
    let program = this_program()?;
    let words = [&program, "cluster", "at", site, "--dir", &dir.to_string_lossy(), "--"];
    Ok((words.map(ToOwned::to_owned).into(), StoreUri::Ceph { conf, id, read_near }.to_string()))
}

fn this_program() -> Result<String> {
    let program = std::env::current_exe()
        .map_err(|error| Error::io(Action::Admin, "cannot find the path of this program", error))?;
    Ok(program.to_string_lossy().into_owned())
}

fn run(words: &[String]) -> Result<Value> {
    let (program, args) = words.split_first().map_or(("", &[][..]), |(first, rest)| (first.as_str(), rest));
    let unavailable = |message: String| Error::unavailable(message);
    let output = Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| unavailable(format!("cannot run {program}")).with_source(error))?;
    let last =
        |text: &[u8]| String::from_utf8_lossy(text).trim().lines().last().unwrap_or_default().to_owned();
    if !output.status.success() {
        let line = last(&output.stderr);
        let error = serde_json::from_str(&line).map_or(Value::Null, |value: Value| value["error"].clone());
        let message = error["message"].as_str().unwrap_or(&line);
        let failed = unavailable(format!("the command failed at this place: {message}"));
        return Err(if error["context"].is_null() {
            failed
        } else {
            failed.with("context", &error["context"])
        });
    }
    serde_json::from_str(&last(&output.stdout)).map_err(|error| {
        unavailable("the command printed no result at this place".to_owned()).with_source(error)
    })
}

#[cfg(test)]
#[path = "places_tests.rs"]
mod tests;
