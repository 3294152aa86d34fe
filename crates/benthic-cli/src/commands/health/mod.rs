//! `benthic health`: reports the verdict on a Ceph cluster's health and the findings behind it,
//! once or periodically.

mod answers;
mod calls;
mod probe;
mod text;
pub mod watcher;

use benthic_ceph::cluster_client::ClusterClient;
use benthic_ceph::health::report::{Report, Verdict};
use benthic_core::{Error, Result};
use benthic_program::exit::{AT_RISK, DEGRADED, DOWN, Failure, Outcome};
use benthic_program::interrupt;
use benthic_program::session::Session;
use clap::Args;
use serde_json::json;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use watcher::Watcher;

/// Terminal control sequence: clear the screen and move to the first line.
const CLEAR: &[u8] = b"\x1b[2J\x1b[H";

#[derive(Args)]
#[command(
    after_help = "The worst finding determines the verdict: healthy, degraded (a part is missing), at risk (the next failure may \
    stop the cluster or lose data) or down (reads or writes hang). Planned work, such as noout or data movement, is only \
    information. Findings have the names of ceph-mixin's alerts with the same meaning. They come from the monitors and \
    from Benthic's own requests to the OSDs; the report shows what each says and how old it is. The command changes \
    nothing; only --probe-pool writes one object of 4 KiB and removes it. The client needs the caps mon 'allow r', \
    mgr 'allow r' and osd 'allow rx'.\n\n\
    With --exit-status, the exit status is 0 for healthy, 20 for degraded, 21 for at risk and 22 for down. If no monitor \
    answers, it is 9, as for every command; with --watch, the verdict is then down, and the command waits for the monitors.\n\n\
    Examples:\n  benthic health --store ceph:\n  benthic health --watch --probe-pool scratch --store ceph:\n  \
    benthic health --json --exit-status --history /var/lib/benthic/health --store ceph:"
)]
pub struct HealthArgs {
    #[command(flatten)]
    poll: PollArgs,
    /// Poll repeatedly until Ctrl-C
    #[arg(long)]
    watch: bool,
    /// Seconds between two polls
    #[arg(long, value_name = "SECONDS", default_value_t = 5, requires = "watch", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    interval: u64,
    /// Stop after COUNT polls
    #[arg(long, value_name = "COUNT", requires = "watch", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Report the verdict of the last poll as the exit status
    #[arg(long)]
    exit_status: bool,
}

#[derive(Args, Clone, Debug, Default)]
pub struct PollArgs {
    /// Write, read and remove a small object in this pool, and measure the latency; without this
    /// option, nothing is written
    #[arg(long, value_name = "POOL")]
    pub probe_pool: Option<String>,
    /// Keep readings of the fullest OSD in this file, at most one per hour, to predict when it is
    /// full; a missing file is created
    #[arg(long, value_name = "FILE")]
    pub history: Option<PathBuf>,
    #[command(flatten)]
    pub libraries: LibraryArgs,
}

#[derive(Args, Clone, Debug, Default)]
pub struct LibraryArgs {
    /// Also ask the OSDs for this class library, the NAME of libcls_NAME.so; libraries that the
    /// OSDs' settings name, and those in their osd_class_dir on this machine, are found without it
    #[arg(long, value_name = "NAME")]
    pub library: Vec<String>,
}

pub async fn run(args: HealthArgs, session: &Session) -> Outcome {
    tokio::select! {
        ended = watch(args, session) => ended,
        // A poll may wait for a daemon that does not answer.
        () = interrupt::wait() => Err(Failure::Interrupted),
    }
}

async fn watch(args: HealthArgs, session: &Session) -> Outcome {
    if args.watch && args.count.is_none() {
        session.out.end_with_reader();
    }
    if !args.watch {
        // Without `--watch` a store that is not a reachable cluster is an error.
        cluster(session).await?;
    }
    let mut watcher = Watcher::new(args.poll, session);
    let polls_max = if args.watch { args.count } else { Some(1) };
    let redraws = args.watch && !session.out.is_json() && std::io::stdout().is_terminal();
    let mut polls = 0;
    loop {
        let report = watcher.poll().await?;
        if redraws {
            session.out.write_bytes(CLEAR)?;
        }
        show(&report, args.watch && !redraws, session)?;
        polls += 1;
        if polls_max.is_some_and(|polls_max| polls >= polls_max) {
            return outcome(report.verdict, args.exit_status);
        }
        tokio::time::sleep(Duration::from_secs(args.interval)).await;
    }
}

fn show(report: &Report, apart: bool, session: &Session) -> Outcome {
    let gap = if apart { "\n" } else { "" };
    session.out.result(format_args!("{}{gap}", text::page(report)), || json!(report))?;
    // A reader of a pipe wants each report immediately.
    session.out.flush()
}

fn outcome(verdict: Verdict, exit_status: bool) -> Outcome {
    match verdict {
        _ if !exit_status => Ok(()),
        Verdict::Healthy => Ok(()),
        Verdict::Degraded => Err(Failure::Verdict(DEGRADED)),
        Verdict::AtRisk => Err(Failure::Verdict(AT_RISK)),
        Verdict::Down => Err(Failure::Verdict(DOWN)),
    }
}

/// The Ceph cluster behind the session's store.
pub async fn cluster(session: &Session) -> Result<Arc<dyn ClusterClient>> {
    let Some(cluster) = session.rados().await? else {
        let message = "only a Ceph cluster has a health report; name one with --store ceph:, and check a store in a directory \
            with `benthic fsck` and `benthic scrub`";
        return Err(Error::unsupported(message).with("store", session.uri()));
    };
    Ok(cluster)
}
