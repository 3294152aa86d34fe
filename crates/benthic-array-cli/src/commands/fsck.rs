//! `benthic array fsck`: decodes all chunks of an array.

use super::{ReadingArgs, open, watch};
use crate::output::stats_json;
use benthic_array::{ArrayAddress, ReadStats};
use benthic_core::Error;
use benthic_program::exit::Outcome;
use benthic_program::session::Session;
use benthic_program::units;
use clap::Args;
use serde_json::{Value, json};
use std::sync::Arc;

/// Arguments of `benthic array fsck`.
#[derive(Args)]
#[command(after_help = "\
Decodes every stored chunk, and finds objects under the array's name that are not its chunks, for example after the array \
was shrunk. Prints all findings, and exits with status 12 if there are any. Changes nothing.

Examples:
  benthic array fsck climate/era5/t2m
  benthic array fsck climate/era5/t2m --json")]
pub struct FsckArgs {
    /// The array: POOL[:NS]/PATH
    array: ArrayAddress,
    #[command(flatten)]
    reading: ReadingArgs,
}

pub async fn run(args: FsckArgs, session: &Session) -> Outcome {
    let array = open(&args.array, session).await?;
    let pushdown = args.reading.pushdown(session).await?;
    let stats = Arc::new(ReadStats::default());
    let check = watch("checking", &stats, array.check(pushdown, &stats)).await?;
    for finding in &check.findings {
        session.out.note(units::no_control(&finding.error.to_string()))?;
    }
    args.reading.print_stats(&stats, session);
    let text = format!(
        "{}: {}, {}",
        units::one_line(&args.array.to_string()),
        units::count(check.chunks, "stored chunk"),
        units::count(check.findings.len() as u64, "finding")
    );
    session.out.result(text, || {
        let finding = |finding: &benthic_array::ArrayFinding| {
            json!({
                "object": finding.object.to_string(), "kind": finding.error.kind().row().name,
                "message": finding.error.to_string(),
            })
        };
        json!({
            "array": args.array.to_string(), "chunks": check.chunks,
            "findings": check.findings.iter().map(finding).collect::<Vec<Value>>(), "stats": stats_json(&stats),
        })
    })?;
    if check.findings.is_empty() {
        return Ok(());
    }
    let message = "the array has damaged or stray objects; write the damaged chunks again, remove the others";
    Err(Error::corrupt(message).with("array", args.array).with("findings", check.findings.len()).into())
}
