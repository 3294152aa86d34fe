//! `benthic cluster status|logs|env`: shows the state, logs and environment variables of a local
//! cluster.

use super::{ClusterDir, NewClusterDir};
use benthic_ceph::local::{Cluster, Daemon, DaemonStatus, SiteStatus, Status};
use benthic_core::Result;
use benthic_program::exit::Outcome;
use benthic_program::session::Session;
use benthic_program::store::blocking;
use benthic_program::units;
use benthic_program::uri::StoreUri;
use serde_json::json;
use std::path::Path;

pub async fn status(place: ClusterDir, session: &Session) -> Outcome {
    let status = blocking(move || Cluster::open(&place.dir)?.status()).await?;
    session.out.result(describe(&status), || json!(status))
}

fn describe(status: &Status) -> String {
    let mut lines = vec![format!("cluster  {}", status.dir.display()), format!("health   {}", status.health)];
    lines.extend(status.checks.iter().map(|check| format!("         {}", units::one_line(check))));
    if let Some(rtt_ms) = status.rtt_ms {
        let cut = |site: &SiteStatus| if site.cut { " (cut off)" } else { "" };
        let sites: Vec<String> =
            status.sites.iter().map(|site| format!("{}{}", site.name, cut(site))).collect();
        let rate = status.mbit_per_s.map(|rate| format!(", {rate} Mbit/s")).unwrap_or_default();
        lines.push(format!("sites    {}; {rtt_ms} ms for a round trip{rate}", sites.join(", ")));
    }
    lines.extend(status.daemons.iter().map(|DaemonStatus { name, site, pid, uptime_s, hangs }| {
        let at = site.as_ref().map(|site| format!(" at {site}")).unwrap_or_default();
        match (pid, uptime_s, hangs) {
            (Some(pid), _, Some(hangs)) => format!("{name:8} hangs, pid {pid}{at}: {hangs}"),
            (Some(pid), Some(uptime_s), None) => format!("{name:8} up {uptime_s} s, pid {pid}{at}"),
            _ => format!("{name:8} down{at}"),
        }
    }));
    lines.extend(status.pools.iter().flatten().map(|pool| {
        format!("pool     {}: {} objects, {}", pool.name, pool.objects, units::size(pool.stored_bytes))
    }));
    lines.push(match (status.used_bytes, status.total_bytes) {
        (Some(used), Some(total)) => format!("usage    {} of {}", units::size(used), units::size(total)),
        _ => "usage    unknown".to_owned(),
    });
    lines.join("\n")
}

pub async fn logs(daemon: Option<Daemon>, lines: usize, place: ClusterDir, session: &Session) -> Outcome {
    let tails = blocking(move || {
        let cluster = Cluster::open(&place.dir)?;
        let daemons = daemon.map_or_else(|| cluster.daemons(), |daemon| vec![daemon]);
        daemons
            .into_iter()
            .map(|daemon| Ok((daemon, cluster.log_tail(daemon, lines)?)))
            .collect::<Result<Vec<_>>>()
    })
    .await?;
    for (daemon, text) in tails {
        let text = text.trim_end();
        session.out.result(
            format_args!("==> {daemon}\n{text}"),
            || json!({ "daemon": daemon.to_string(), "lines": text.lines().collect::<Vec<_>>() }),
        )?;
    }
    Ok(())
}

pub async fn env(place: NewClusterDir, session: &Session) -> Outcome {
    let conf = blocking(move || Ok(Cluster::open(&place.dir)?.conf())).await?;
    let store = store_uri(&conf);
    // The path contains no quote, because a cluster refuses such a directory.
    session.out.result(
        format_args!("export CEPH_CONF='{}'\nexport BENTHIC_STORE='{store}'", conf.display()),
        || json!({ "CEPH_CONF": conf, "BENTHIC_STORE": store }),
    )
}

/// The store URI for clients with this configuration.
pub fn store_uri(conf: &Path) -> String {
    StoreUri::Ceph { conf: Some(conf.to_owned()), id: None, read_near: false }.to_string()
}
