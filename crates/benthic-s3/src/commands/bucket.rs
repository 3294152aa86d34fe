//! `benthic s3 bucket`: lists and checks buckets, and creates those that S3 clients cannot create.

use super::{GatewayPools, all_buckets, bucket_json, keys, limit, time, usage};
use benthic_core::Error;
use benthic_program::exit::{Failure, Outcome};
use benthic_program::session::Session;
use benthic_program::units;
use benthic_s3::identity::FIRST_ACCOUNT;
use benthic_s3::sal::{Attributes, Buckets, NewBucket};
use benthic_s3::view::{VIEW, View, is_view};
use clap::Subcommand;
use serde_json::json;

pub const EXAMPLES: &str = "Examples:\n  benthic s3 bucket ls\n  benthic s3 bucket check photos\n  benthic s3 bucket create climate --view climate";

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
    /// Create a read-only bucket that shows the objects of a pool, or a bucket for many keys
    #[command(after_help = "S3 clients create other buckets, with 16 index shards.\n\n\
        With a PREFIX, the bucket shows the objects whose names begin with PREFIX/; their keys are the rest of the names. Objects \
        in namespaces are shown only with POOL:NS.\n\n\
        Examples:\n  benthic s3 bucket create climate --view climate\n  \
        benthic s3 bucket create era5 --view climate/era5 --account lab\n  \
        benthic s3 bucket create sensors --shards 256")]
    Create {
        /// Name of the bucket
        bucket: String,
        /// Objects to show: POOL[:NS][/PREFIX]
        #[arg(
            long,
            value_name = "POOL[/PREFIX]",
            required_unless_present = "shards",
            conflicts_with = "shards"
        )]
        view: Option<View>,
        /// Number of index shards, which never changes; plan one per 100,000 expected keys
        #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=256))]
        shards: Option<u32>,
        /// Account that owns the bucket
        #[arg(long, default_value = FIRST_ACCOUNT)]
        account: String,
    },
    /// Remove a view; the objects of the pool stay
    #[command(after_help = "Example:\n  benthic s3 bucket rm climate")]
    Rm {
        /// Name of the bucket
        bucket: String,
    },
    /// Show a bucket, its usage and its quota
    #[command(after_help = "Example:\n  benthic s3 bucket stat photos")]
    Stat {
        /// Name of the bucket
        bucket: String,
    },
    /// List the keys of a bucket
    Keys(keys::KeysArgs),
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
        BucketCommand::Keys(args) => keys::run(args, sal, session).await,
        BucketCommand::Ls { account } => {
            let identities = pools.identities(&sal);
            for bucket in all_buckets(&sal, &identities, account.as_deref()).await? {
                let mut line = format!("{}  {}  {}", bucket.name, bucket.owner, time(bucket.created_ms));
                if let Some(view) = View::of(&bucket)? {
                    line += &format!("  shows {view}");
                }
                out.result(line, || bucket_json(&bucket))?;
            }
            Ok(())
        }
        BucketCommand::Create { bucket, view, shards, account } => {
            if !s3s::path::check_bucket_name(&bucket) {
                let message = "the name of a bucket has 3 to 63 small letters, digits, dots and dashes";
                return Err(Error::invalid_argument(message).with("bucket", bucket).into());
            }
            let record = Some(pools.identities(&sal).in_account(&account).await?);
            let mut attributes = Attributes::new();
            if let Some(view) = &view {
                session.pool(&view.pool).await?;
                attributes.insert(VIEW.to_owned(), view.to_string().into());
            }
            let new = NewBucket {
                name: bucket,
                owner: account,
                // The shards of a view stay empty.
                shards: shards.or(Some(1)),
                attributes,
                record,
                ..NewBucket::default()
            };
            let bucket = sal.create_bucket(new).await?;
            let text = match view {
                Some(view) => format!("{} shows {view}", bucket.name),
                None => {
                    format!("{} has {}", bucket.name, units::count(u64::from(bucket.shards), "index shard"))
                }
            };
            out.result(text, || bucket_json(&bucket))
        }
        BucketCommand::Rm { bucket } => {
            let bucket = sal.bucket(&bucket).await?;
            if !is_view(&bucket) {
                let message = "the bucket is not a view; remove it with an S3 client";
                return Err(Error::invalid_argument(message).with("bucket", &bucket.name).into());
            }
            sal.delete_bucket(&bucket.name).await?;
            out.result(format!("removed the view {}", bucket.name), || json!({ "bucket": bucket.name }))
        }
        BucketCommand::Stat { bucket } => {
            let bucket = sal.bucket(&bucket).await?;
            if let Some(view) = View::of(&bucket)? {
                let created = time(bucket.created_ms);
                let text = format!("{} shows {view}\nowner {}, created {created}", bucket.name, bucket.owner);
                return out.result(text, || bucket_json(&bucket));
            }
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
