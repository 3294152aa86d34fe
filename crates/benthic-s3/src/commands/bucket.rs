//! `benthic s3 bucket`.

use super::{GatewayPools, all_buckets, bucket_json, limit, time, usage};
use benthic_program::exit::{Failure, Outcome};
use benthic_program::session::Session;
use benthic_program::units;
use benthic_s3::sal::Buckets;
use clap::Subcommand;
use serde_json::json;

pub const EXAMPLES: &str = "Examples:\n  benthic s3 bucket ls\n  benthic s3 bucket check photos";

/// The verbs of `benthic s3 bucket`.
#[derive(Subcommand)]
pub enum BucketCommand {
    /// List buckets
    #[command(after_help = "Examples:\n  benthic s3 bucket ls\n  benthic s3 bucket ls --account lab")]
    Ls {
        /// Only buckets of this account
        #[arg(long)]
        account: Option<String>,
    },
    /// Show a bucket, its usage and its quota
    #[command(after_help = "Example:\n  benthic s3 bucket stat photos")]
    Stat {
        /// Name of the bucket
        bucket: String,
    },
    /// Check that the index of a bucket is consistent with itself and with the data
    #[command(after_help = "Changes nothing. It may report writes that run at the same time.\n\n\
        Example:\n  benthic s3 bucket check photos")]
    Check {
        /// Name of the bucket
        bucket: String,
    },
}

pub async fn run(command: BucketCommand, pools: &GatewayPools, session: &Session) -> Outcome {
    let out = &session.out;
    let sal = pools.open(session, false).await?;
    match command {
        BucketCommand::Ls { account } => {
            let identities = pools.identities(&sal);
            for bucket in all_buckets(&sal, &identities, account.as_deref()).await? {
                let line = format!("{}  {}  {}", bucket.name, bucket.owner, time(bucket.created_ms));
                out.result(line, || bucket_json(&bucket))?;
            }
            Ok(())
        }
        BucketCommand::Stat { bucket } => {
            let bucket = sal.bucket(&bucket).await?;
            let used = sal.usage(&bucket).await?;
            let text = format!(
                "{}\nowner {}, created {}, versioning {:?}, {}\nquota: bytes {}, objects {}",
                usage::line(&bucket.name, &used),
                bucket.owner,
                time(bucket.created_ms),
                bucket.versioning,
                units::count(u64::from(bucket.shards), "shard"),
                limit(bucket.quota.bytes_max, units::size),
                limit(bucket.quota.objects_max, |count| count.to_string()),
            );
            out.result(text, || {
                let mut fields = bucket_json(&bucket);
                fields["usage"] = usage::fields(&bucket.name, &bucket.owner, &used);
                fields
            })
        }
        BucketCommand::Check { bucket } => {
            let bucket = sal.bucket(&bucket).await?;
            let check = sal.check_bucket(&bucket).await?;
            for finding in &check.findings {
                out.note(finding)?;
            }
            let found = check.findings.len() as u64;
            let verdict = if found == 0 { "sound".to_owned() } else { units::count(found, "finding") };
            let text = format!(
                "{}: {verdict}, {} checked",
                usage::line(&bucket.name, &check.usage),
                units::count(check.data_objects, "data object")
            );
            out.result(text, || {
                json!({
                    "bucket": bucket.name,
                    "findings": check.findings,
                    "data_objects": check.data_objects,
                    "usage": usage::fields(&bucket.name, &bucket.owner, &check.usage),
                })
            })?;
            if found == 0 { Ok(()) } else { Err(Failure::Found(format!("{verdict} in the bucket"))) }
        }
    }
}
