//! `benthic placement lint`: finds faulty CRUSH rules and placements, also in clusters that report
//! themselves healthy.

use super::cluster;
use benthic_ceph::placement::lint::{Finding, lint};
use benthic_ceph::placement::preview::Preview;
use benthic_ceph::placement::snapshot::Snapshot;
use benthic_program::exit::{Failure, Outcome};
use benthic_program::session::Session;
use benthic_program::store::blocking;
use benthic_program::units;
use serde_json::json;
use std::collections::BTreeSet;

pub const HELP: &str = "Ceph's crushtool tests each rule with 1,024 inputs. The command lists its findings and then exits with \
    status 1.\n\nExample:\n  benthic placement lint --store ceph:";

pub async fn run(session: &Session) -> Outcome {
    let store = cluster(session).await?;
    let snapshot = Snapshot::read(&*store).await?;
    let preview = Preview::read(&*store).await?;
    let rules = snapshot.crush.rules.len();
    let findings = blocking(move || lint(&snapshot, &preview)).await?;
    for finding in &findings {
        session.out.result(line(finding), || json!(finding))?;
    }
    let wrong = findings.iter().map(|finding| &finding.rule).collect::<BTreeSet<_>>().len();
    if wrong == 0 {
        session.out.note(format_args!("{rules} rules, no findings"))?;
        return Ok(());
    }
    Err(Failure::Found(format!(
        "{} in {wrong} of {rules} rules",
        units::count(findings.len() as u64, "finding")
    )))
}

fn line(finding: &Finding) -> String {
    let pools = if finding.pools.is_empty() { "no pool".to_owned() } else { finding.pools.join(", ") };
    let check = json!(finding.check);
    let check = check.as_str().unwrap_or_default();
    format!("{check}: rule {} ({pools}): {}", finding.rule, finding.message)
}
