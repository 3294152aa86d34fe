//! `benthic s3 quota`: sets and shows the limits on a bucket's bytes and objects.

use super::{GatewayPools, bucket_json, limit};
use benthic_program::exit::Outcome;
use benthic_program::session::Session;
use benthic_program::units;
use benthic_s3::sal::{Bucket, Buckets, Quota};
use clap::Args;

/// Arguments of `benthic s3 quota`.
#[derive(Args)]
#[command(
    after_help = "The gateway checks a quota before each write. Writes that run at the same time may together exceed it.

Examples:
  benthic s3 quota photos
  benthic s3 quota photos --bytes-max 10GiB --objects-max 100000
  benthic s3 quota photos --none"
)]
pub struct QuotaArgs {
    /// Name of the bucket
    bucket: String,
    /// Limit on the bytes of all versions and of the parts of uploads
    #[arg(long, value_parser = units::parse_size, value_name = "SIZE")]
    bytes_max: Option<u64>,
    /// Limit on the number of objects, counting each version
    #[arg(long, value_name = "COUNT")]
    objects_max: Option<u64>,
    /// Remove all limits
    #[arg(long, conflicts_with_all = ["bytes_max", "objects_max"])]
    none: bool,
}

pub async fn run(args: QuotaArgs, pools: &GatewayPools, session: &Session) -> Outcome {
    let sal = pools.open(session, false).await?;
    let mut bucket = sal.bucket(&args.bucket).await?;
    let quota = if args.none {
        Quota::default()
    } else {
        Quota {
            bytes_max: args.bytes_max.or(bucket.quota.bytes_max),
            objects_max: args.objects_max.or(bucket.quota.objects_max),
        }
    };
    if quota != bucket.quota {
        let new = Bucket { quota, ..bucket.clone() };
        bucket = sal.update_bucket(&bucket, &new).await?;
    }
    let text = format!(
        "{}  bytes: {}  objects: {}",
        bucket.name,
        limit(bucket.quota.bytes_max, units::size),
        limit(bucket.quota.objects_max, |count| count.to_string())
    );
    session.out.result(text, || bucket_json(&bucket))
}
