//! `benthic placement apply|undo`: applies or reverts a plan, and waits until the data have moved.

use super::{cluster, plan};
use benthic_ceph::RadosStore;
use benthic_ceph::placement::apply::movement;
use benthic_ceph::placement::plan::Plan;
use benthic_core::{Error, ErrorKind, Stopwatch, SystemClock};
use benthic_program::exit::{Failure, Outcome};
use benthic_program::interrupt;
use benthic_program::local;
use benthic_program::progress::Progress;
use benthic_program::session::Session;
use benthic_program::store::blocking;
use benthic_program::units;
use clap::Args;
use serde_json::json;
use std::path::PathBuf;
use std::time::Duration;

/// Interval between polls of the data movement.
const TICK: Duration = Duration::from_secs(2);
/// Time that placement groups may refuse reads and writes while they peer.
const INACTIVE_LIMIT: Duration = Duration::from_secs(60);

/// Arguments of `benthic placement apply`.
#[derive(Args)]
#[command(
    after_help = "Fails, and changes nothing, if the cluster is another than when the plan was made. Interrupted, the data go \
    on moving: the same command waits again, and `benthic placement undo PLAN` goes back.\n\n\
    Example:\n  benthic placement apply photos-at-um.plan.json --store ceph:"
)]
pub struct ApplyArgs {
    #[command(flatten)]
    planned: Planned,
}

/// Arguments of `benthic placement undo`.
#[derive(Args)]
#[command(
    after_help = "Removes from the CRUSH map what apply added, unless another pool uses it by now.\n\n\
    Example:\n  benthic placement undo photos-at-um.plan.json --store ceph:"
)]
pub struct UndoArgs {
    #[command(flatten)]
    planned: Planned,
}

/// A plan, and how fast it is to go.
#[derive(Args)]
struct Planned {
    /// The file that `benthic placement plan` wrote
    plan: PathBuf,
    /// Placement groups that each OSD copies at once meanwhile (osd_max_backfills of all OSDs)
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=64))]
    backfills: u32,
}

impl Planned {
    async fn read(&self) -> Outcome<Plan> {
        let path = self.plan.clone();
        let read = blocking(move || local::read_file(&path)).await?;
        Ok(Plan::parse(&read.data).map_err(|error| error.with("file", self.plan.display()))?)
    }
}

pub async fn run(args: ApplyArgs, session: &Session) -> Outcome {
    let planned = args.planned;
    let plan = planned.read().await?;
    let store = cluster(session).await?;
    session.out.note(plan::describe(&plan))?;
    plan.begin(&*store, planned.backfills).await?;
    let seconds = arrive(&store, &plan, session).await?;
    plan.finish(&*store).await?;
    tell("applied", &plan, seconds, session)
}

pub async fn undo(args: UndoArgs, session: &Session) -> Outcome {
    let planned = args.planned;
    let plan = planned.read().await?;
    let store = cluster(session).await?;
    plan.begin_undo(&*store, planned.backfills).await?;
    let seconds = arrive(&store, &plan, session).await?;
    plan.finish_undo(&*store).await?;
    tell("undone", &plan, seconds, session)
}

fn tell(what: &str, plan: &Plan, seconds: f64, session: &Session) -> Outcome {
    session.out.result(
        format_args!(
            "{what}: {} of {} are where their rule has them, after {seconds:.0} s",
            units::count(plan.pgs.into(), "placement group"),
            units::one_line(&plan.pool)
        ),
        || json!({ "outcome": what, "pool": plan.pool, "pgs": plan.pgs, "seconds": seconds }),
    )
}

/// Waits until all placement groups have reached their new OSDs, and returns the seconds. This may
/// take days, so it has no time limit. It ends early only after Ctrl-C, or when placement groups
/// refuse reads and writes for too long.
async fn arrive(store: &RadosStore, plan: &Plan, session: &Session) -> Outcome<f64> {
    let began = Stopwatch::start(&SystemClock);
    let bar = Progress::steps("placement groups", plan.pgs.into());
    let (mut served, mut shown) = (Stopwatch::start(&SystemClock), 0);
    loop {
        let movement = movement(store, plan.pool_id).await?;
        bar.advance(movement.arrived.saturating_sub(shown) as u64);
        shown = shown.max(movement.arrived);
        if movement.is_over() {
            return Ok(began.elapsed().as_secs_f64());
        }
        if movement.inactive == 0 {
            served = Stopwatch::start(&SystemClock);
        }
        if served.elapsed() > INACTIVE_LIMIT {
            let message = "placement groups take no reads and writes; `ceph health detail` tells why, and `benthic placement \
                undo PLAN` goes back";
            return Err(Error::new(ErrorKind::Unavailable, message)
                .with("pool", &plan.pool)
                .with("inactive", movement.inactive)
                .into());
        }
        tokio::select! {
            () = tokio::time::sleep(TICK) => {}
            () = interrupt::wait() => {
                session.out.warning("the data go on moving; the same command waits again");
                return Err(Failure::Interrupted);
            }
        }
    }
}
