//! `benthic placement show`: shows how the primaries and replicas of pools are spread over sites.

use super::cluster;
use benthic_ceph::placement::snapshot::Snapshot;
use benthic_ceph::placement::spread::{SiteShare, Spread, spread};
use benthic_program::exit::Outcome;
use benthic_program::session::Session;
use benthic_program::units;
use clap::Args;
use serde_json::json;
use std::fmt::Write;

#[derive(Args)]
#[command(
    after_help = "A site is a bucket of the CRUSH tree. Its type is --domain, or the highest type of which the pool's root has \
    several buckets.\n\nExamples:\n  benthic placement show --store ceph:\n  \
    benthic placement show --pool photos --domain rack --store ceph:"
)]
pub struct ShowArgs {
    /// Only this pool
    #[arg(long)]
    pool: Option<String>,
    /// The bucket type of sites, such as datacenter, rack or host
    #[arg(long, value_name = "TYPE")]
    domain: Option<String>,
}

pub async fn run(args: ShowArgs, session: &Session) -> Outcome {
    let store = cluster(session).await?;
    let snapshot = Snapshot::read(&*store).await?;
    let pools = match &args.pool {
        Some(name) => vec![snapshot.pool(name)?],
        None => snapshot.map.pools.iter().collect(),
    };
    for pool in pools {
        let spread = spread(&snapshot, pool, args.domain.as_deref())?;
        session.out.result(describe(&spread), || json!(spread))?;
    }
    Ok(())
}

fn describe(spread: &Spread) -> String {
    let mut text = format!(
        "{}: {} with {} each, rule {}\n{}",
        units::one_line(&spread.pool),
        units::count(spread.pgs as u64, "placement group"),
        units::count(spread.replicas as u64, "replica"),
        spread.rule,
        table(&spread.domain, &spread.sites)
    );
    let pgs = |count: usize| units::count(count as u64, "placement group");
    let doubled = format!("have several replicas in one {}", spread.domain);
    for (count, problem) in [
        (spread.repeating, "contain an OSD twice; `benthic placement lint` shows the reason"),
        (spread.undersized, "have fewer OSDs than replicas"),
        (spread.doubled_at_a_site, &doubled),
        (spread.unclean, "are not active and clean; `ceph -s` shows more"),
    ] {
        if count > 0 {
            let _ = write!(text, "\n  {} {problem}", pgs(count));
        }
    }
    text
}

/// Formats a table with each site's share of the primaries and the replicas.
pub fn table(domain: &str, sites: &[SiteShare]) -> String {
    let sum = |of: fn(&SiteShare) -> usize| sites.iter().map(of).sum::<usize>();
    let (primaries, replicas) = (sum(|site| site.primaries), sum(|site| site.replicas));
    let share = |part: usize, of: usize| format!("{part} ({}%)", (100 * part + of / 2) / of.max(1));
    let mut text =
        format!("  {domain:<18} {:>9} {:>9} {:>14} {:>14}", "OSDs", "weight", "primaries", "replicas");
    for site in sites {
        let osds = if site.osds_serving == site.osds {
            site.osds.to_string()
        } else {
            format!("{} of {}", site.osds_serving, site.osds)
        };
        let _ = write!(
            text,
            "\n  {:<18} {osds:>9} {:>9.2} {:>14} {:>14}",
            site.site,
            site.weight,
            share(site.primaries, primaries),
            share(site.replicas, replicas)
        );
    }
    text
}
