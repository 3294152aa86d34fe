//! Commands to monitors: a store answers those about pools. The others are about monitors, OSDs,
//! placement and their maps, which a directory does not have.
//!
//! A command is a JSON object. Arguments that would promise something, such as the number of
//! copies, are refused, because a program that gets success relies on them.

use crate::rados::applications;
use crate::rados::cluster::Cluster;
use crate::runtime::wait;
use benthic_core::error::errno;
use benthic_core::{Error, ErrorKind, Result};
use serde_json::{Map, Value};

/// Maximum length of a command.
pub const COMMAND_BYTES_MAX: usize = 64 * 1024;

/// The answer to a command.
#[derive(Default)]
pub struct Answer {
    /// 0 or a negative errno.
    pub code: i32,
    pub output: String,
    /// A message for people.
    pub status: String,
}

impl Answer {
    fn of(code: i32, status: String) -> Answer {
        Answer { code, status, ..Answer::default() }
    }
}

type Arguments = Map<String, Value>;

/// Runs a command.
///
/// # Errors
/// `InvalidArgument` for a text that is no command; `Unsupported` for the commands and arguments
/// that mean nothing to a store; those of the store.
pub fn run(cluster: &Cluster, command: &str) -> Result<Answer> {
    let arguments: Arguments = serde_json::from_str(command)
        .map_err(|error| Error::invalid_argument("a command is a JSON object").with_source(error))?;
    match text(&arguments, "prefix")? {
        "osd pool create" => create_pool(cluster, &arguments),
        "osd pool ls" => list_pools(cluster, &arguments),
        "osd pool application enable" => enable_application(cluster, &arguments),
        prefix => {
            let message = "a Benthic store has no monitors and OSDs; it answers osd pool create, osd pool ls, and osd \
                           pool application enable";
            Err(Error::unsupported(message).with("prefix", prefix))
        }
    }
}

fn text<'a>(arguments: &'a Arguments, name: &'static str) -> Result<&'a str> {
    arguments
        .get(name)
        .and_then(Value::as_str)
        .ok_or_else(|| Error::invalid_argument("the command lacks a text").with("argument", name))
}

/// Refuses all arguments but these.
fn allow(arguments: &Arguments, names: &[&str]) -> Result<()> {
    let is_allowed = |name: &str| ["prefix", "format"].contains(&name) || names.contains(&name);
    match arguments.keys().find(|name| !is_allowed(name)) {
        Some(name) => {
            let error = Error::unsupported("a directory cannot do this; leave the argument out");
            Err(error.with("argument", name))
        }
        None => Ok(()),
    }
}

fn create_pool(cluster: &Cluster, arguments: &Arguments) -> Result<Answer> {
    // There are no placement groups, and their number promises nothing.
    allow(arguments, &["pool", "pool_type", "pg_num", "pgp_num", "pg_num_min", "autoscale_mode"])?;
    let pool = text(arguments, "pool")?;
    if arguments.get("pool_type").is_some_and(|pool_type| pool_type != "replicated") {
        return Err(Error::unsupported("a directory has no erasure-coded pools"));
    }
    match cluster.create_pool(pool) {
        Ok(()) => Ok(Answer::of(0, format!("pool '{pool}' created"))),
        // As with monitors.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            Ok(Answer::of(0, format!("pool '{pool}' already exists")))
        }
        Err(error) => Err(error),
    }
}

fn list_pools(cluster: &Cluster, arguments: &Arguments) -> Result<Answer> {
    allow(arguments, &[])?;
    let pools = cluster.pools()?;
    let output = match arguments.get("format").and_then(Value::as_str) {
        Some("json" | "json-pretty") => Value::from(pools).to_string(),
        _ => pools.iter().flat_map(|pool| [pool.as_str(), "\n"]).collect(),
    };
    Ok(Answer { output, ..Answer::default() })
}

fn enable_application(cluster: &Cluster, arguments: &Arguments) -> Result<Answer> {
    allow(arguments, &["pool", "app", "yes_i_really_mean_it"])?;
    let (pool, application) = (text(arguments, "pool")?, text(arguments, "app")?);
    let force = arguments.get("yes_i_really_mean_it") == Some(&Value::Bool(true));
    let store = cluster.store()?;
    let code = wait(async {
        let pool = store.store.open_pool(pool).await?;
        applications::enable(&*pool, application, force).await
    })?;
    let status = match -code {
        0 => format!("enabled application '{application}' on pool '{pool}'"),
        errno::EPERM => {
            format!("pool '{pool}' has another application; yes_i_really_mean_it adds '{application}'")
        }
        _ => format!("pool '{pool}' has as many applications as a pool may have"),
    };
    Ok(Answer::of(code, status))
}
