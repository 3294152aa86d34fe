//! `benthic class install --hosts`: installs a class library on all hosts with OSDs of a cluster,
//! over ssh.
//!
//! The command inspects all hosts before it changes one, shows a plan and asks. It then goes from
//! host to host, and goes on only if the OSDs of a host run the library. No state is kept on this
//! machine: a repeated command finds the finished steps on the hosts. Two commands at once cannot
//! mix their libraries: both begin at the same host, and a host refuses to change a library that
//! the plan did not see.

mod plan;
mod text;

use super::ls::no_cluster;
use benthic_ceph::cluster_client::ClusterClient;
use benthic_ceph::hosts::directory::{Directory, Library};
use benthic_ceph::hosts::ssh::{Ssh, check_destination};
use benthic_ceph::hosts::verify::{self, OsdState};
use benthic_core::Error;
use benthic_program::confirm::Change;
use benthic_program::exit::{Failure, Outcome};
use benthic_program::progress::Progress;
use benthic_program::session::Session;
use benthic_program::store::blocking;
use benthic_program::{interrupt, units};
use clap::Args;
use plan::{Action, Plan, Step};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;

/// Options for the hosts of a cluster.
#[derive(Args)]
pub struct HostOptions {
    /// Install it over ssh on all hosts with OSDs of the cluster in --store, or on these only
    #[arg(
        long,
        value_name = "HOST",
        num_args = 0..,
        require_equals = true,
        value_delimiter = ',',
        conflicts_with_all = ["cluster", "class_dir", "rules"]
    )]
    hosts: Option<Vec<String>>,
    /// Connect to the host that Ceph calls HOST with `ssh DESTINATION`, such as root@10.0.0.7; by
    /// default, `ssh HOST`
    #[arg(long, value_name = "HOST=DESTINATION", requires = "hosts", value_parser = parse_destination)]
    ssh: Vec<(String, String)>,
    /// Configuration of ssh instead of ~/.ssh/config, with users, keys and jump hosts
    #[arg(long, value_name = "FILE", requires = "hosts")]
    ssh_config: Option<PathBuf>,
    /// Undo the last installation: return to the library before it, or remove the library
    #[arg(long, requires = "hosts")]
    pub undo: bool,
    /// Confirm the plan: NAME of libcls_NAME.so
    #[arg(long, value_name = "NAME", requires = "hosts", conflicts_with = "print")]
    yes: Option<String>,
}

impl HostOptions {
    /// Whether the command is for the hosts of a cluster.
    pub fn is_given(&self) -> bool {
        self.hosts.is_some()
    }
}

fn parse_destination(text: &str) -> Result<(String, String), String> {
    // A host of the cluster may have any name, and no destination contains this sign.
    let (host, destination) = text.rsplit_once('=').ok_or("give HOST=DESTINATION")?;
    check_destination(destination).map_err(|error| error.message().to_owned())?;
    Ok((host.to_owned(), destination.to_owned()))
}

/// Installs a library, or undoes that. `only_plan` ends after the plan. `force` accepts unknown
/// releases of Ceph.
pub async fn run(
    options: HostOptions,
    library: Library,
    only_plan: bool,
    force: bool,
    session: &Session,
) -> Outcome {
    let Some(rados) = session.rados().await? else { return Err(no_cluster(session).into()) };
    let ssh = Ssh { config: options.ssh_config, destinations: options.ssh.into_iter().collect() };
    let (ssh, library) = (Arc::new(ssh), Arc::new(library));
    let only = options.hosts.unwrap_or_default();
    let plan = Plan::make(&*rados, &only, options.undo, &ssh, &library, session).await?;
    session.out.result(text::plan(&plan), || plan.json())?;
    if only_plan {
        return Ok(());
    }
    if !force {
        plan.check_releases()?;
    }
    let changed = plan.changed_hosts();
    if changed > 0 {
        let done = if plan.undo { "undo the installation of" } else { "install" };
        let hosts = units::count(changed, "host");
        let effect = format!("{done} library {} on {hosts} of cluster {}", library.name, plan.fsid);
        let change =
            Change { effect: &effect, noun: "library", name: &library.name, yes: options.yes.as_deref() };
        change.confirm(&session.out).await?;
    }
    Run { client: &*rados, ssh, library, plan: &plan, session }.all().await
}

/// The work of a confirmed plan.
struct Run<'a> {
    client: &'a dyn ClusterClient,
    ssh: Arc<Ssh>,
    library: Arc<Library>,
    plan: &'a Plan,
    session: &'a Session,
}

/// The OSDs of a directory after its step.
type States = Vec<(i32, OsdState)>;

impl Run<'_> {
    /// Works on one directory after the other and stops at the first failure.
    async fn all(&self) -> Outcome {
        let progress = Progress::steps("directories", self.plan.steps.len() as u64);
        let (mut older, mut refusing) = (Vec::new(), Vec::new());
        for (index, step) in self.plan.steps.iter().enumerate() {
            progress.set_message(&units::one_line(&step.host));
            let states = match self.one(step).await {
                Ok(states) => states,
                Err(failure) => return progress.suspend(|| self.report_stop(index, failure)),
            };
            for (osd, state) in &states {
                match state {
                    OsdState::RunsOlder { .. } => older.push(*osd),
                    OsdState::Refuses => refusing.push(*osd),
                    OsdState::Runs { .. } | OsdState::Unreachable => {}
                }
            }
            progress.suspend(|| self.report(step, step.action.done(), &states))?;
            progress.advance(1);
        }
        drop(progress);
        older.sort_unstable();
        refusing.sort_unstable();
        let out = &self.session.out;
        if !older.is_empty() {
            out.warning(format_args!(
                "these OSDs run the file from before until they restart: {}",
                text::osds(&older)
            ));
        }
        if !refusing.is_empty() {
            out.warning(format_args!(
                "these OSDs refuse to load the library: {}; change the settings in the plan and restart them, or give this \
                 client `x` in its caps",
                text::osds(&refusing)
            ));
        }
        if self.plan.changed_hosts() > 0 && !self.plan.undo {
            out.note("the same command with --undo returns to the libraries from before")?;
        }
        Ok(())
    }

    /// Changes a directory and verifies the result.
    async fn one(&self, step: &Step) -> Outcome<States> {
        interrupt::check()?;
        let directory = match step.action {
            Action::Install => self.on_host(step, Directory::install).await?,
            Action::Restore | Action::Remove => self.on_host(step, Directory::undo).await?,
            Action::Keep | Action::Nothing => step.found.clone(),
        };
        if self.plan.undo {
            let expected = step.found.record.as_ref().map_or(&step.found.sha256, |record| &record.old);
            if directory.sha256 != *expected {
                return Err(self.unexpected(step).into());
            }
            let state = |osd: i32| {
                let loaded = directory.loaded.iter().filter(|loaded| loaded.osd == Some(osd));
                let is_older = loaded.map(|loaded| loaded.is_older).max()?;
                let build = None;
                let runs = if is_older { OsdState::RunsOlder { build } } else { OsdState::Runs { build } };
                Some((osd, runs))
            };
            let osds = step.osds.iter().filter_map(|osd| state(*osd)).collect();
            return Ok(osds);
        }
        if directory.sha256.as_ref() != Some(&self.library.sha256) {
            return Err(self.unexpected(step).into());
        }
        let asked: Vec<i32> =
            step.osds.iter().copied().filter(|osd| self.plan.reachable.contains(osd)).collect();
        let answers = tokio::select! {
            answers = verify::ask(self.client, &asked, &self.library.name) => answers?,
            () = interrupt::wait() => return Err(Failure::Interrupted),
        };
        // The calls have loaded the library.
        let directory = self.on_host(step, inspect).await?;
        let mut osds = Vec::new();
        for osd in &step.osds {
            let state = verify::judge(*osd, answers.get(osd), &directory);
            osds.push((*osd, state.map_err(|error| error.with("host", &step.host))?));
        }
        Ok(osds)
    }

    fn unexpected(&self, step: &Step) -> Error {
        Error::conflict("another command has changed the library on the host meanwhile")
            .with("host", &step.host)
            .with("dir", &step.found.path)
    }

    /// Runs a function of [`Directory`] that takes a connection.
    async fn on_host(&self, step: &Step, work: OnHost) -> Outcome<Directory> {
        let (ssh, library) = (Arc::clone(&self.ssh), Arc::clone(&self.library));
        let (host, found) = (step.host.clone(), step.found.clone());
        let worked = blocking(move || work(&found, &ssh, &host, &library, &interrupt::is_set)).await;
        if interrupt::is_set() { Err(Failure::Interrupted) } else { Ok(worked?) }
    }

    fn report(&self, step: &Step, outcome: &str, osds: &[(i32, OsdState)]) -> Outcome {
        self.session.out.result(text::done(step, outcome, osds), || {
            let osds: Vec<Value> = osds.iter().map(|(osd, state)| text::state_json(*osd, state)).collect();
            json!({ "host": step.host, "dir": step.found.path, "outcome": outcome, "osds": osds })
        })
    }

    /// Reports where the command stopped.
    fn report_stop(&self, index: usize, failure: Failure) -> Outcome {
        let mut steps = self.plan.steps[index..].iter();
        if let Some(step) = steps.next() {
            let outcome = match &failure {
                Failure::Interrupted => "interrupted",
                _ => "failed",
            };
            self.report(step, outcome, &[])?;
        }
        for step in steps {
            self.report(step, "not_tried", &[])?;
        }
        self.session.out.warning(
            "stopped; repeat the command to continue, which skips what is done, or add --undo to return to the libraries \
             from before",
        );
        Err(failure)
    }
}

type OnHost = fn(&Directory, &Ssh, &str, &Library, &dyn Fn() -> bool) -> benthic_core::Result<Directory>;

fn inspect(
    found: &Directory,
    ssh: &Ssh,
    host: &str,
    library: &Library,
    is_stopped: &dyn Fn() -> bool,
) -> benthic_core::Result<Directory> {
    Directory::inspect(ssh, host, &found.path, library, is_stopped)
}
