//! `benthic fsck`: checks the store's own structures. With `--repair`, copies the intact objects of
//! a damaged store into a new one.

use benthic_core::{Error, ErrorKind, Finding};
use benthic_program::exit::Outcome;
use benthic_program::session::Session;
use benthic_program::store::salvage;
use benthic_program::units;
use clap::Args;
use serde_json::{Value, json};

#[derive(Args)]
#[command(
    after_help = "The check changes nothing. It explains each finding and then exits with status 12. `benthic \
    scrub` also checks the data.\n\nWith --repair, the command copies every intact object into a new store and \
    lists the lost ones. It does not change the damaged store, and it works even if that store no longer opens. \
    First stop all programs that use the damaged store. Afterwards inspect the new store and put it in the place \
    of the damaged one.\n\nExamples:\n  benthic fsck\n  \
    benthic fsck --repair --into file:./saved"
)]
pub struct FsckArgs {
    /// Copy the intact objects into a new store
    #[arg(long, requires = "into")]
    repair: bool,
    /// With --repair: the new store, as file:DIR
    #[arg(long, value_name = "URI", requires = "repair")]
    into: Option<String>,
}

pub async fn run(args: &FsckArgs, session: &Session) -> Outcome {
    if let Some(into) = &args.into {
        return repair(into, session).await;
    }
    let store = session.store().await.map_err(|error| match error.kind() {
        ErrorKind::Corrupt => {
            error.with("next", "benthic fsck --repair --into file:DIR saves the intact objects")
        }
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
    print_findings(&report.findings, session)?;
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
    Err(Error::corrupt("the store is damaged; restore the objects above from a backup")
        .with("findings", report.findings.len())
        .into())
}

async fn repair(into: &str, session: &Session) -> Outcome {
    let saved = salvage(session.uri(), into).await?;
    print_findings(&saved.lost, session)?;
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
    let message = "some objects are lost; restore the objects above from a backup";
    Err(Error::corrupt(message).with("lost", saved.lost.len()).into())
}

fn print_findings(findings: &[Finding], session: &Session) -> Outcome {
    for finding in findings {
        let object = finding.object.as_deref().unwrap_or("store");
        session.out.note(units::no_control(&format!("{object}: {}", finding.message)))?;
    }
    Ok(())
}

fn finding(finding: &Finding) -> Value {
    json!({ "object": finding.object, "message": finding.message })
}
