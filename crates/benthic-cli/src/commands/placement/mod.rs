//! `benthic placement show|lint|plan|apply|undo|measure|simulate`: where a Ceph cluster keeps the
//! primaries and replicas of its pools, and how to change that.

mod apply;
mod lint;
mod measure;
mod plan;
mod show;
mod simulate;

use benthic_ceph::RadosStore;
use benthic_core::{Error, ErrorKind, Result};
use benthic_program::exit::Outcome;
use benthic_program::session::Session;
use clap::Subcommand;
use std::sync::Arc;

pub const EXAMPLES: &str = "A read goes to the primary of its object's placement group, a write to the primary and from there to the \
    replicas. Which site the primaries are at decides what is near. Nothing but apply and undo changes the cluster.\n\n\
    Examples:\n  benthic placement show --store ceph:\n  \
    benthic placement plan --pool photos --primary-site um --store ceph:\n  \
    benthic placement apply photos-at-um.plan.json --store ceph:\n  \
    benthic placement undo photos-at-um.plan.json --store ceph:";

/// The commands on the placement of pools.
#[derive(Subcommand)]
pub enum PlacementCommand {
    /// Show the sites, and where primaries and replicas of pools really are
    Show(show::ShowArgs),
    /// Look for rules and placements that are wrong though the cluster calls itself healthy
    Lint(lint::LintArgs),
    /// Plan to bring the primaries of a pool to a site, or to have more or fewer replicas: what moves, and what it costs
    Plan(plan::PlanArgs),
    /// Apply a plan: change the pool's rule and replicas, and wait until its data have moved
    Apply(apply::ApplyArgs),
    /// Undo a plan: give the pool its old rule and replicas back, and wait until its data are back
    Undo(apply::UndoArgs),
    /// Measure reads and writes of a pool from several sites
    Measure(measure::MeasureArgs),
    /// Tell how a cluster that does not exist would spread its data, what moves and what failing disks take
    Simulate(simulate::SimulateArgs),
}

pub async fn run(command: PlacementCommand, session: &Session) -> Outcome {
    match command {
        PlacementCommand::Show(args) => show::run(args, session).await,
        PlacementCommand::Lint(args) => lint::run(args, session).await,
        PlacementCommand::Plan(args) => plan::run(args, session).await,
        PlacementCommand::Apply(args) => apply::run(args, session).await,
        PlacementCommand::Undo(args) => apply::undo(args, session).await,
        PlacementCommand::Measure(args) => measure::run(args, session).await,
        PlacementCommand::Simulate(args) => simulate::run(args, session).await,
    }
}

/// The Ceph cluster behind the session's store.
pub(super) async fn cluster(session: &Session) -> Result<Arc<RadosStore>> {
    session.rados().await?.ok_or_else(|| {
        let message = "only a Ceph cluster has placement groups; name one with --store ceph:";
        Error::new(ErrorKind::Unsupported, message).with("store", session.uri())
    })
}
