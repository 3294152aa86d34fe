//! `benthic placement apply|undo`: applies or reverts a plan, and waits until the data have moved.

use super::{cluster, plan};
use benthic_ceph::cluster_client::ClusterClient;
use benthic_ceph::placement::apply::movement;
use benthic_ceph::placement::plan::Plan;
use benthic_core::{Error, Stopwatch, SystemClock};
use benthic_program::exit::{Failure, Outcome};
use benthic_program::progress::Progress;
use benthic_program::session::Session;
use benthic_program::store::blocking;
use benthic_program::{interrupt, local, units};
use clap::Args;
use serde_json::json;
use std::path::PathBuf;
use std::time::Duration;

/// Interval between polls of the data movement.
const TICK: Duration = Duration::from_secs(2);
/// Time that placement groups may refuse reads and writes while they peer.
const INACTIVE_LIMIT: Duration = Duration::from_secs(60);

pub const APPLY_HELP: &str = "The command fails and changes nothing if the cluster has changed since the plan was made. If it \
    is interrupted, the data continue to move: repeat the command to wait again, or revert the plan with `benthic \
    placement undo PLAN`.\n\nExample:\n  benthic placement apply photos-at-um.plan.json --store ceph:";

pub const UNDO_HELP: &str = "The command also removes the additions of apply from the CRUSH map, unless another pool uses \
    them now.\n\nExample:\n  benthic placement undo photos-at-um.plan.json --store ceph:";

/// Arguments of `apply` and `undo`.
#[derive(Args)]
pub struct PlanFile {
    /// The file that `benthic placement plan` wrote
    plan: PathBuf,
    /// Placement groups that each OSD copies at once during the move (osd_max_backfills of all
    /// OSDs)
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=64))]
    backfills: u32,
}

impl PlanFile {
    async fn read(&self) -> Outcome<Plan> {
        let path = self.plan.clone();
        let read = blocking(move || local::read_file(&path)).await?;
        Ok(Plan::parse(&read.data).map_err(|error| error.with("file", self.plan.display()))?)
    }
}

pub async fn apply(args: PlanFile, session: &Session) -> Outcome {
    let plan = args.read().await?;
    let store = cluster(session).await?;
    session.out.note(plan::describe(&plan))?;
    plan.begin(&*store, args.backfills).await?;
    let seconds = wait_for_move(&*store, &plan, session).await?;
    plan.finish(&*store).await?;
    print_outcome("applied", &plan, seconds, session)
}

pub async fn undo(args: PlanFile, session: &Session) -> Outcome {
    let plan = args.read().await?;
    let store = cluster(session).await?;
    plan.begin_undo(&*store, args.backfills).await?;
    let seconds = wait_for_move(&*store, &plan, session).await?;
    plan.finish_undo(&*store).await?;
    print_outcome("undone", &plan, seconds, session)
}

fn print_outcome(outcome: &str, plan: &Plan, seconds: f64, session: &Session) -> Outcome {
    session.out.result(
        format_args!(
            "{outcome}: {} of {} have reached the OSDs of their rule, after {seconds:.0} s",
            units::count(plan.pgs.into(), "placement group"),
            units::one_line(&plan.pool)
        ),
        || json!({ "outcome": outcome, "pool": plan.pool, "pgs": plan.pgs, "seconds": seconds }),
    )
}

/// Waits until all placement groups have reached their new OSDs, and returns the seconds. This may
/// take days, so it has no time limit. It ends early only after Ctrl-C, or when placement groups
/// refuse reads and writes for too long.
async fn wait_for_move(store: &dyn ClusterClient, plan: &Plan, session: &Session) -> Outcome<f64> {
    let began = Stopwatch::start(&SystemClock);
    let bar = Progress::steps("placement groups", plan.pgs.into());
    let (mut last_active, mut shown) = (Stopwatch::start(&SystemClock), 0);
    loop {
        let movement = movement(store, plan.pool_id).await?;
        bar.advance(movement.arrived.saturating_sub(shown) as u64);
        shown = shown.max(movement.arrived);
        if movement.is_over() {
            return Ok(began.elapsed().as_secs_f64());
        }
        if movement.inactive == 0 {
            last_active = Stopwatch::start(&SystemClock);
        }
        if last_active.elapsed() > INACTIVE_LIMIT {
            let message = "placement groups take no reads and writes; `ceph health detail` shows the reason, and `benthic \
                placement undo PLAN` reverts the plan";
            return Err(Error::unavailable(message)
                .with("pool", &plan.pool)
                .with("inactive", movement.inactive)
                .into());
        }
        tokio::select! {
            () = tokio::time::sleep(TICK) => {}
            () = interrupt::wait() => {
                session.out.warning("the data continue to move; repeat the command to wait again");
                return Err(Failure::Interrupted);
            }
        }
    }
}
