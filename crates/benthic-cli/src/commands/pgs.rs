//! `benthic pgs check|suggest`: checks and suggests the number of placement groups of pools.

use crate::commands::placement::cluster;
use benthic_ceph::pgs::{Basis, Group, PoolShare, REPLICAS_PER_OSD, Report, SizingInput, judge};
use benthic_program::exit::{Failure, Outcome};
use benthic_program::session::Session;
use benthic_program::units;
use clap::{Args, Subcommand};
use serde_json::json;
use std::collections::BTreeMap;
use std::fmt::Write;

pub const EXAMPLES: &str = "Each replica of a placement group costs its OSD memory, and time for peering after a failure. Too few \
    replicas spread the data unevenly. 50 to 100 per OSD are right. These commands change nothing.\n\n\
    Examples:\n  benthic pgs check --store ceph:\n  \
    benthic pgs suggest --share photos=80 --store ceph:";

#[derive(Subcommand)]
pub enum PgsCommand {
    /// Check the number of placement groups of each pool, and show what the autoscaler would change
    #[command(after_help = "The command lists its findings and then exits with status 1.\n\nExample:\n  \
        benthic pgs check --store ceph:")]
    Check,
    /// Suggest how many placement groups pools should have
    #[command(
        after_help = "A pool gets a share of its OSDs' replicas that equals its share of their data. --share gives the expected \
        share of a pool. Each line states what it assumes. An empty pool without --share gets no advice. If the OSDs have 50 to 100 replicas each and the number of a pool is within a factor of two, the \
        number stays.\n\nExample:\n  \
        benthic pgs suggest --share photos=80 --store ceph:"
    )]
    Suggest(SuggestArgs),
}

#[derive(Args)]
pub struct SuggestArgs {
    /// The expected share of a pool in the data, in per cent
    #[arg(long, value_name = "POOL=PERCENT", value_parser = share)]
    share: Vec<(String, f64)>,
}

pub async fn run(command: PgsCommand, session: &Session) -> Outcome {
    match command {
        PgsCommand::Check => check(session).await,
        PgsCommand::Suggest(args) => suggest(args, session).await,
    }
}

fn share(text: &str) -> Result<(String, f64), String> {
    let (pool, percent) = text.rsplit_once('=').ok_or("a share is POOL=PERCENT, such as photos=80")?;
    let percent =
        percent.trim_end_matches('%').parse::<f64>().ok().filter(|percent| (0.0..=100.0).contains(percent));
    Ok((pool.to_owned(), percent.ok_or("a share is between 0 and 100 per cent")? / 100.0))
}

async fn check(session: &Session) -> Outcome {
    let store = cluster(session).await?;
    let state = SizingInput::read(&*store).await?;
    let report = judge(&state, &BTreeMap::new())?;
    if let Err(error) = &state.autoscaler {
        session.out.warning(format_args!("cannot query the autoscaler: {error}"));
    }
    session.out.result(describe(&report), || json!(report))?;
    if report.findings.is_empty() {
        return Ok(());
    }
    let findings = units::count(report.findings.len() as u64, "finding");
    let groups = match report.groups.len() {
        1 => "1 group of pools".to_owned(),
        groups => format!("{groups} groups of pools"),
    };
    Err(Failure::Found(format!("{findings} in {groups}")))
}

fn describe(report: &Report) -> String {
    let mut text = String::new();
    for group in &report.groups {
        let _ = writeln!(text, "{}", summary(group));
        let _ = writeln!(
            text,
            "  {:<28} {:>7} {:>9} {:>8} {:>9}  {:<9} autoscaler",
            "pool", "pg_num", "replicas", "of data", "of PGs", "share is"
        );
        for pool in &group.pools {
            let scaled = match &pool.autoscaler {
                Some(scaled) => format!("{}, to {}", scaled.mode, scaled.pg_num),
                None => "unknown".to_owned(),
            };
            let _ = writeln!(
                text,
                "  {:<28} {:>7} {:>9} {:>8} {:>8.1}%  {:<9} {scaled}",
                units::one_line(&pool.pool),
                pool.pg_num,
                pool.replicas,
                data_share(pool),
                pool.replica_share * 100.0,
                json!(pool.basis).as_str().unwrap_or_default()
            );
        }
    }
    for finding in &report.findings {
        let check = json!(finding.check);
        let pools = finding.pools.iter().map(|pool| units::one_line(pool)).collect::<Vec<_>>().join(", ");
        let _ = writeln!(text, "{}: {pools}: {}", check.as_str().unwrap_or_default(), finding.message);
    }
    if report.findings.is_empty() {
        text.push_str("nothing found");
    }
    text.trim_end().to_owned()
}

fn data_share(pool: &PoolShare) -> String {
    match pool.basis {
        Basis::Unknown => "?".to_owned(),
        _ => format!("{:.1}%", pool.data_share * 100.0),
    }
}

fn summary(group: &Group) -> String {
    format!(
        "{}: {:.0} replicas each ({} to {}; {:.0} to {:.0} are right); the logs of PGs take up to {} per OSD",
        units::count(group.osds as u64, "OSD"),
        group.replicas_per_osd,
        group.least,
        group.most,
        REPLICAS_PER_OSD.0,
        REPLICAS_PER_OSD.1,
        units::size(group.recovery_bytes)
    )
}

async fn suggest(args: SuggestArgs, session: &Session) -> Outcome {
    let store = cluster(session).await?;
    let report = judge(&SizingInput::read(&*store).await?, &args.share.into_iter().collect())?;
    for group in &report.groups {
        session.out.note(summary(group))?;
        for pool in &group.pools {
            session.out.result(suggestion(pool), || {
                json!({
                    "pool": pool.pool,
                    "pg_num": pool.pg_num,
                    "suggested": pool.suggested,
                    "no_advice": pool.no_advice,
                    "data_bytes": pool.data_bytes,
                    "data_share": pool.data_share,
                    "basis": pool.basis,
                    "assumption": pool.basis.assumption(),
                })
            })?;
        }
    }
    Ok(())
}

/// Formats a suggestion as a line that a shell can run.
fn suggestion(pool: &PoolShare) -> String {
    let name = units::one_line(&pool.pool);
    let Some(suggested) = pool.suggested else {
        let why = pool.no_advice.unwrap_or_default();
        let next = match pool.basis {
            Basis::Unknown => "; --share POOL=PERCENT gives the share that you expect",
            _ => "",
        };
        return format!("# {name}: no advice, because {why}{next}");
    };
    let assumption = pool.basis.assumption().unwrap_or_default();
    let share = format!("{:.1}% of the data, if {assumption}", pool.data_share * 100.0);
    if suggested == pool.pg_num {
        return format!("# {name}: {} placement groups are right for {share}", pool.pg_num);
    }
    // Comment the line out if the name contains control characters, because the shell would get the
    // escaped name.
    let comment = if name == pool.pool { "" } else { "# " };
    format!(
        "{comment}ceph osd pool set {} pg_num {}   # {} now, {share}",
        units::shell_word(&name),
        suggested,
        pool.pg_num
    )
}

#[cfg(test)]
#[path = "pgs_tests.rs"]
mod tests;
