//! `benthic placement show|lint|plan|apply|undo|measure|simulate`: where a Ceph cluster keeps the
//! primaries and replicas of its pools, and how to change that.

mod apply;
mod lint;
mod measure;
mod plan;
mod show;
mod simulate;

use benthic_ceph::cluster_client::ClusterClient;
use benthic_core::{Error, Result};
use benthic_program::exit::Outcome;
use benthic_program::session::Session;
use clap::Subcommand;
use std::sync::Arc;

pub const EXAMPLES: &str = "A read goes to the primary of the object's placement group, a write to the primary and from there to the \
    replicas. So clients at the site of the primaries have the lowest latency. Only apply and undo change the cluster.\n\n\
    Examples:\n  benthic placement show --store ceph:\n  \
    benthic placement plan --pool photos --primary-site um --store ceph:\n  \
    benthic placement apply photos-at-um.plan.json --store ceph:\n  \
    benthic placement undo photos-at-um.plan.json --store ceph:";

#[derive(Subcommand)]
pub enum PlacementCommand {
    /// Show the sites, and the actual places of primaries and replicas of pools
    Show(show::ShowArgs),
    /// Find faulty CRUSH rules and placements, even if the cluster reports HEALTH_OK
    #[command(after_help = lint::HELP)]
    Lint,
    /// Plan a move of a pool's primaries to a site, or another number of replicas, and show which
    /// data move
    Plan(plan::PlanArgs),
    /// Apply a plan: change the pool's rule and replicas, and wait until its data have moved
    #[command(after_help = apply::APPLY_HELP)]
    Apply(apply::PlanFile),
    /// Undo a plan: give the pool its old rule and replicas back, and wait until its data are back
    #[command(after_help = apply::UNDO_HELP)]
    Undo(apply::PlanFile),
    /// Measure reads and writes of a pool from several sites
    Measure(measure::MeasureArgs),
    /// Predict how a hypothetical cluster spreads its data, what a change moves, and what failed
    /// disks lose
    Simulate(simulate::SimulateArgs),
}

pub async fn run(command: PlacementCommand, session: &Session) -> Outcome {
    match command {
        PlacementCommand::Show(args) => show::run(args, session).await,
        PlacementCommand::Lint => lint::run(session).await,
        PlacementCommand::Plan(args) => plan::run(args, session).await,
        PlacementCommand::Apply(args) => apply::apply(args, session).await,
        PlacementCommand::Undo(args) => apply::undo(args, session).await,
        PlacementCommand::Measure(args) => measure::run(args, session).await,
        PlacementCommand::Simulate(args) => simulate::run(args, session).await,
    }
}

/// The Ceph cluster behind the session's store.
pub(super) async fn cluster(session: &Session) -> Result<Arc<dyn ClusterClient>> {
    let Some(cluster) = session.rados().await? else {
        let message = "only a Ceph cluster has placement groups; name one with --store ceph:";
        return Err(Error::unsupported(message).with("store", session.uri()));
    };
    Ok(cluster)
}
