//! `benthic s3 quota`.

use super::{GatewayPools, bucket_json, limit};
use benthic_program::exit::Outcome;
use benthic_program::session::Session;
use benthic_program::units;
use benthic_s3::sal::{Buckets, Quota};
use clap::Args;

/// Arguments of `benthic s3 quota`.
#[derive(Args)]
#[command(
    after_help = "A quota is checked before a write, against what is in the bucket then: what is written at the same time may \
together exceed it.

Examples:
  benthic s3 quota photos
  benthic s3 quota photos --bytes-max 10GiB --objects-max 100000
  benthic s3 quota photos --none"
)]
pub struct QuotaArgs {
    /// The bucket
    bucket: String,
    /// Most bytes, all versions and parts of uploads together
    #[arg(long, value_parser = units::parse_size, value_name = "SIZE")]
    bytes_max: Option<u64>,
    /// Most objects, each version counted
    #[arg(long, value_name = "COUNT")]
    objects_max: Option<u64>,
    /// No limits
    #[arg(long, conflicts_with_all = ["bytes_max", "objects_max"])]
    none: bool,
}

pub async fn run(args: QuotaArgs, place: &GatewayPools, session: &Session) -> Outcome {
    let sal = place.open(session, false).await?;
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
        let mut new = bucket.clone();
        new.quota = quota;
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
