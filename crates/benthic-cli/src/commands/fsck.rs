//! `benthic fsck`: checks the store's own structures. With `--repair`, copies the intact objects of
//! a damaged store into a new one.

use benthic_core::{Error, ErrorKind, Finding};
use benthic_program::exit::Outcome;
use benthic_program::session::Session;
use benthic_program::store::salvage;
use benthic_program::units;
use clap::Args;
use serde_json::{Value, json};

/// Arguments of `benthic fsck`.
#[derive(Args)]
#[command(
    after_help = "Changes nothing. What it finds it explains, and the exit status is 12. `benthic scrub` \
    checks the data as well.\n\nWith --repair, every object that is whole is copied into a new store, and what is \
    lost is listed. The damaged store stays as it is, also if it does not open any more; look at the new one, then \
    put it in its place. Stop whatever uses the damaged store first.\n\nExamples:\n  benthic fsck\n  \
    benthic fsck --repair --into file:./saved"
)]
pub struct FsckArgs {
    /// Save what is whole
    #[arg(long, requires = "into")]
    repair: bool,
    /// The new store for what is whole, as file:DIR
    #[arg(long, value_name = "URI", requires = "repair")]
    into: Option<String>,
}

pub async fn run(args: &FsckArgs, session: &Session) -> Outcome {
    if let Some(into) = &args.into {
        return repair(into, session).await;
    }
    let store = session.store().await.map_err(|error| match error.kind() {
        ErrorKind::Corrupt => error.with("next", "benthic fsck --repair --into file:DIR saves what is whole"),
        _ => error,
    })?;
    let report = store.fsck().await?;
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

async fn repair(into: &str, session: &Session) -> Outcome {
    let saved = salvage(session.uri(), into).await?;
    for loss in &saved.lost {
        let object = loss.object.as_deref().unwrap_or("store");
        session.out.note(units::no_control(&format!("{object}: {}", loss.message)))?;
    }
    let text = format!(
        "{into}: {}, {}, {} of data saved; {} lost",
        units::count(saved.pools, "pool"),
        units::count(saved.objects, "object"),
        units::size(saved.data_bytes),
        units::count(saved.objects_lost, "known object"),
    );
    session.out.result(text, || {
        json!({
            "into": into,
            "pools": saved.pools,
            "objects": saved.objects,
            "data_bytes": saved.data_bytes,
            "objects_lost": saved.objects_lost,
            "lost": saved.lost.iter().map(finding).collect::<Vec<_>>(),
        })
    })?;
    if saved.lost.is_empty() {
        return Ok(());
    }
    let message = "not everything could be saved; restore what is named above from a copy";
    Err(Error::new(ErrorKind::Corrupt, message).with("lost", saved.lost.len()).into())
}

fn finding(finding: &Finding) -> Value {
    json!({ "object": finding.object, "message": finding.message })
}
