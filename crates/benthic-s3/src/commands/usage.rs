//! `benthic s3 usage`: counts the objects and bytes of buckets.

use super::{GatewayPools, all_buckets};
use benthic_program::exit::Outcome;
use benthic_program::session::Session;
use benthic_program::{interrupt, units};
use benthic_s3::sal::{Buckets, Usage};
use clap::Args;
use serde_json::{Value, json};

/// Arguments of `benthic s3 usage`.
#[derive(Args)]
#[command(
    after_help = "The sums are exact while there are no writes. Data that copies share count once per copy.

Examples:
  benthic s3 usage
  benthic s3 usage photos
  benthic s3 usage --account lab --json"
)]
pub struct UsageArgs {
    /// Name of the bucket [default: all buckets]
    bucket: Option<String>,
    /// Only buckets of this account
    #[arg(long, conflicts_with = "bucket")]
    account: Option<String>,
}

pub async fn run(args: UsageArgs, pools: &GatewayPools, session: &Session) -> Outcome {
    let sal = pools.open(session, false).await?;
    let buckets = match &args.bucket {
        Some(bucket) => vec![sal.bucket(bucket).await?],
        None => all_buckets(&sal, &pools.identities(&sal), args.account.as_deref()).await?,
    };
    for bucket in buckets {
        interrupt::check()?;
        let usage = sal.usage(&bucket).await?;
        session.out.result(line(&bucket.name, &usage), || fields(&bucket.name, &bucket.owner, &usage))?;
    }
    Ok(())
}

pub fn line(name: &str, usage: &Usage) -> String {
    let mut line =
        format!("{name}  {} in {}", units::size(usage.bytes), units::count(usage.objects, "object"));
    if usage.versions != usage.objects {
        line += &format!(", {}", units::count(usage.versions, "version"));
    }
    if usage.uploads > 0 {
        line +=
            &format!(", {} with {}", units::count(usage.uploads, "upload"), units::size(usage.part_bytes));
    }
    line
}

pub fn fields(name: &str, owner: &str, usage: &Usage) -> Value {
    json!({
        "bucket": name,
        "owner": owner,
        "objects": usage.objects,
        "versions": usage.versions,
        "delete_markers": usage.markers,
        "bytes": usage.bytes,
        "uploads": usage.uploads,
        "parts": usage.parts,
        "part_bytes": usage.part_bytes,
    })
}
