//! `benthic health`: reports the verdict on a Ceph cluster's health and the findings behind it,
//! once or periodically.

mod calls;
mod probe;
mod text;
pub mod watcher;

use benthic_ceph::RadosStore;
use benthic_ceph::health::report::{Report, Verdict};
use benthic_core::{Error, ErrorKind, Result};
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

/// Arguments of `benthic health`.
#[derive(Args)]
#[command(
    after_help = "The verdict is that of the worst finding: healthy, degraded (it has less than it should), at risk (the next \
    failure may stop it or lose data) or down (reads or writes wait). What somebody planned, such as noout or data that move, \
    is information. Findings have the names of ceph-mixin's alerts where they mean the same. Nothing is changed; only \
    --probe-pool writes, one object of 4 KiB that is removed again. The client's caps need mon 'allow r' and mgr 'allow r'.\n\n\
    With --exit-status the exit status is 0 for healthy, 20 for degraded, 21 for at risk, 22 for down. If no monitor answers it \
    is 9, as always; with --watch that is down, and the monitors are waited for.\n\n\
    Examples:\n  benthic health --store ceph:\n  benthic health --watch --probe-pool scratch --store ceph:\n  \
    benthic health --json --exit-status --history /var/lib/benthic/health --store ceph:"
)]
pub struct HealthArgs {
    #[command(flatten)]
    look: LookArgs,
    /// Look again and again, until Ctrl-C
    #[arg(long)]
    watch: bool,
    /// Seconds between two looks
    #[arg(long, value_name = "SECONDS", default_value_t = 5, requires = "watch", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    interval: u64,
    /// Stop after so many looks
    #[arg(long, value_name = "COUNT", requires = "watch", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// End with a status that tells the verdict, of the last look
    #[arg(long)]
    exit_status: bool,
}

/// What is looked at besides what the monitors and the manager tell.
#[derive(Args, Clone, Debug, Default)]
pub struct LookArgs {
    /// Write, read and remove a small object in this pool, and tell how long that takes; without it nothing is written
    #[arg(long, value_name = "POOL")]
    pub probe_pool: Option<String>,
    /// Keep readings of the fullest OSD in this file, at most one an hour, to tell when it is full; made if it is not there
    #[arg(long, value_name = "FILE")]
    pub history: Option<PathBuf>,
}

pub async fn run(args: HealthArgs, session: &Session) -> Outcome {
    tokio::select! {
        ended = watch(args, session) => ended,
        // A poll may wait for a daemon that does not answer.
        () = interrupt::wait() => Err(Failure::Interrupted),
    }
}

async fn watch(args: HealthArgs, session: &Session) -> Outcome {
    if !args.watch {
        // Without `--watch` a store that is not a reachable cluster is an error.
        cluster(session).await?;
    }
    let mut watcher = Watcher::new(args.look, session);
    let looks = if args.watch { args.count } else { Some(1) };
    let redraws = args.watch && !session.out.is_json() && std::io::stdout().is_terminal();
    let mut looked = 0;
    loop {
        let report = watcher.look().await?;
        if redraws {
            session.out.write_bytes(CLEAR)?;
        }
        show(&report, args.watch && !redraws, session)?;
        looked += 1;
        if looks.is_some_and(|looks| looked >= looks) {
            return ended(report.verdict, args.exit_status);
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

fn ended(verdict: Verdict, exit_status: bool) -> Outcome {
    match verdict {
        Verdict::Healthy => Ok(()),
        _ if !exit_status => Ok(()),
        Verdict::Degraded => Err(Failure::Verdict(DEGRADED)),
        Verdict::AtRisk => Err(Failure::Verdict(AT_RISK)),
        Verdict::Down => Err(Failure::Verdict(DOWN)),
    }
}

/// The Ceph cluster behind the session's store.
pub async fn cluster(session: &Session) -> Result<Arc<RadosStore>> {
    session.rados().await?.ok_or_else(|| {
        let message = "this tells how a Ceph cluster is; name one with --store ceph:, and check a store in a directory with \
            `benthic fsck` and `benthic scrub`";
        Error::new(ErrorKind::Unsupported, message).with("store", session.uri())
    })
}
