//! `benthic cluster up`.

use super::{Place, watch};
use crate::exit::{Failure, Outcome};
use crate::store::{Session, blocking};
use crate::units;
use benthic_ceph::local::{Cluster, Daemon, OSDS_MAX, Plan, RTT_MS_MAX, Started};
use clap::Args;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::Instant;

pub const EXAMPLES: &str = "The cluster is for development and tests: nothing protects it from the loss of this \
    machine.\n\nExamples:\n  \
    benthic cluster up\n  \
    benthic cluster up --osds 1 --dir /tmp/c\n  \
    benthic cluster up --sites um,msu,wsu --rtt-ms 10 --osds 6\n  \
    benthic cluster up --sites far --rtt-ms 10";

/// The library with the classes of this build.
const LIBRARY: &str = "libcls_benthic_1.so";

#[derive(Args)]
pub struct UpArgs {
    /// Number of OSDs of a new cluster; 3 if not given, or 2 for each site if that is more
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(OSDS_MAX)))]
    osds: Option<u32>,
    /// Sites of a new cluster, each in a network namespace; needs root
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    sites: Vec<String>,
    /// Milliseconds that a round trip takes between two sites, or from here to one; 10 if not given
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u32).range(0..=i64::from(RTT_MS_MAX)))]
    rtt_ms: Option<u32>,
    /// Library of classes to install; libcls_benthic_1.so beside this program if not given
    #[arg(long, value_name = "FILE")]
    classes: Option<PathBuf>,
    #[command(flatten)]
    place: Place,
}

pub async fn run(args: UpArgs, session: &Session) -> Outcome {
    let began = Instant::now();
    let classes = args.classes.or_else(beside_this_program);
    let plan = Plan { osds: args.osds, sites: args.sites, rtt_ms: args.rtt_ms, classes: classes.clone() };
    let (status, started, older) = blocking(move || {
        let (cluster, started) = Cluster::up_as(&args.place.dir, &plan, &mut watch())?;
        let older = match &plan.classes {
            Some(library) => cluster.running_older(library)?,
            None => Vec::new(),
        };
        Ok((cluster.status()?, started, older))
    })
    .await?;
    let seconds = began.elapsed().as_secs_f64();
    let (word, what) = match started {
        Started::Created => ("created", "a new cluster is up"),
        Started::Resumed => ("resumed", "the cluster is up again"),
        Started::Already => ("already", "the cluster was up already"),
    };
    let older: Vec<String> = older.iter().map(Daemon::to_string).collect();
    session.out.result(
        format_args!("{what}: {} with {} daemons, {seconds:.1} s", status.health, status.daemons.len()),
        || {
            json!({
                "up": word, "health": status.health, "dir": status.dir, "seconds": seconds,
                "classes": classes, "older_classes": older,
            })
        },
    )?;
    for check in &status.checks {
        session.out.note(units::one_line(&format!("  {check}")))?;
    }
    say_classes(classes.as_deref(), &older, session)?;
    session.out.note("for development and tests: nothing protects it from the loss of this machine")?;
    session.out.note("`eval \"$(benthic cluster env)\"` points benthic, ceph and rados to it (--dir as here)")
}

fn say_classes(library: Option<&Path>, older: &[String], session: &Session) -> Outcome {
    let Some(library) = library else {
        let message = format!(
            "no classes installed: there is no {LIBRARY} beside this program; `make ceph` builds it, --classes names another"
        );
        return session.out.note(message);
    };
    session.out.note(format_args!("classes installed: {}", library.display()))?;
    if let Some(first) = older.first() {
        session.out.warning(format_args!(
            "{} run an older build of these classes until they are started again: `benthic cluster kill {first}`, \
             `benthic cluster start {first}`",
            older.join(", ")
        ));
    }
    Ok::<(), Failure>(())
}

/// The library where cargo puts it, or where it was put beside the program.
fn beside_this_program() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    let dir = program.parent()?;
    [dir.join(LIBRARY), dir.join("deps").join(LIBRARY)].into_iter().find(|library| library.is_file())
}
