//! `benthic fsck`.

use crate::exit::Outcome;
use crate::store::Session;
use crate::units;
use benthic_core::{Error, ErrorKind, Finding};
use clap::Args;
use serde_json::{Value, json};

/// Arguments of `benthic fsck`.
#[derive(Args)]
#[command(
    after_help = "Changes nothing. What it finds it explains, and the exit status is 12. `benthic scrub` \
    checks the data as well.\n\nExample:\n  benthic fsck"
)]
pub struct FsckArgs {}

pub async fn run(_args: &FsckArgs, session: &Session) -> Outcome {
    let report = session.store().await?.fsck().await?;
    if session.out.is_json() {
        session.out.json_line(&json!({
            "pools": report.pools,
            "objects": report.objects,
            "data_bytes": report.data_bytes,
            "disk_bytes": report.disk_bytes,
            "findings": report.findings.iter().map(finding).collect::<Vec<_>>(),
        }))?;
    }
    for finding in &report.findings {
        let object = finding.object.as_deref().unwrap_or("store");
        session.out.note(units::no_control(&format!("{object}: {}", finding.message)))?;
    }
    session.out.note(format_args!(
        "{}, {}, {} of data, {} on the disk, {}",
        units::count(report.pools, "pool"),
        units::count(report.objects, "object"),
        units::size(report.data_bytes),
        units::size(report.disk_bytes),
        units::count(report.findings.len() as u64, "finding")
    ))?;
    if report.findings.is_empty() {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Corrupt, "the store is damaged; restore what is named above from a copy")
        .with("findings", report.findings.len())
        .into())
}

fn finding(finding: &Finding) -> Value {
    json!({ "object": finding.object, "message": finding.message })
}
