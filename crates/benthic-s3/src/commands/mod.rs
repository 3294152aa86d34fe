//! The verbs of `benthic s3`: one file per noun.

mod account;
mod bucket;
mod code;
pub mod config;
mod event_targets;
mod events;
mod gc;
mod key;
mod keys;
mod kms;
mod lifecycle;
mod on_put;
mod quota;
mod serve;
mod storage_class;
mod upstream;
mod usage;
mod user;
mod user_policy;
mod vault;

use benthic_core::{Environment, Error, Result};
use benthic_program::exit::Outcome;
use benthic_program::session::Session;
use benthic_program::units;
use benthic_s3::identity::{GATEWAY_POOL, Identities};
use benthic_s3::sal::{Bucket, Buckets, Sal};
use benthic_s3::seal::Sealer;
use benthic_s3::view::View;
use benthic_s3::{Options, PoolSal};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;

pub const EXAMPLES: &str =
    "Examples:\n  benthic s3 serve\n  benthic s3 account create lab\n  benthic s3 usage";

/// Buckets per page that is read from the store.
const PAGE: usize = 1_000;

/// Arguments of `benthic s3`.
#[derive(Args)]
pub struct S3Args {
    #[command(flatten)]
    pools: GatewayPools,
    #[command(subcommand)]
    command: S3Command,
}

/// The pools and the sealing key of a gateway.
#[derive(Args, Clone)]
pub struct GatewayPools {
    /// Pool of the index, and of the data unless --data-pool is given
    #[arg(long, global = true, value_name = "POOL", default_value = GATEWAY_POOL)]
    pool: String,
    /// Pool of the data, which may be erasure-coded; pass the same one to every gateway and command
    #[arg(long, global = true, value_name = "POOL")]
    data_pool: Option<String>,
    /// File with the key that encrypts secrets and data keys; keep it outside the store [default:
    /// ~/.config/benthic/s3-sealing.key]
    #[arg(long, global = true, value_name = "FILE", env = "BENTHIC_S3_SEALING_KEY")]
    sealing_key: Option<PathBuf>,
}

/// The verbs.
#[derive(Subcommand)]
pub enum S3Command {
    /// Serve S3 over HTTP
    Serve(Box<serve::ServeArgs>),
    /// Administer accounts, which own buckets
    #[command(subcommand, after_help = account::EXAMPLES)]
    Account(account::AccountCommand),
    /// Administer users, which act for an account
    #[command(subcommand, after_help = user::EXAMPLES)]
    User(user::UserCommand),
    /// Administer the access keys of users
    #[command(subcommand, after_help = key::EXAMPLES)]
    Key(key::KeyCommand),
    /// Administer keys that encrypt objects (SSE-KMS)
    #[command(subcommand, after_help = kms::HELP)]
    Kms(kms::KmsCommand),
    /// Show and set the quota of a bucket
    Quota(quota::QuotaArgs),
    /// Show the usage of buckets
    Usage(usage::UsageArgs),
    /// List and check buckets, and create views of pools
    #[command(subcommand, after_help = bucket::EXAMPLES)]
    Bucket(bucket::BucketCommand),
    /// Map storage classes to pools
    #[command(subcommand, after_help = storage_class::HELP)]
    StorageClass(storage_class::StorageClassCommand),
    /// Show and apply the lifecycle rules of buckets
    #[command(subcommand, after_help = lifecycle::EXAMPLES)]
    Lifecycle(lifecycle::LifecycleCommand),
    /// Manage targets of events (webhooks, AMQP, Kafka) and undelivered events
    #[command(subcommand, after_help = events::EXAMPLES)]
    Events(events::EventsCommand),
    /// Run methods of classes on new objects
    OnPut(on_put::OnPutArgs),
    /// Show and collect garbage: replaced, deleted and abandoned data
    #[command(subcommand, after_help = gc::EXAMPLES)]
    Gc(gc::GcCommand),
    /// Show the changes that wait for an upstream
    #[command(subcommand, after_help = upstream::EXAMPLES)]
    Upstream(upstream::UpstreamCommand),
}

pub async fn run(args: S3Args, session: &Session) -> Outcome {
    let pools = args.pools;
    match args.command {
        S3Command::Serve(args) => serve::run(*args, &pools, session).await,
        S3Command::Account(command) => account::run(command, &pools, session).await,
        S3Command::User(command) => user::run(command, &pools, session).await,
        S3Command::Key(command) => key::run(command, &pools, session).await,
        S3Command::Kms(command) => kms::run(command, &pools, session).await,
        S3Command::Quota(args) => quota::run(args, &pools, session).await,
        S3Command::Usage(args) => usage::run(args, &pools, session).await,
        S3Command::Bucket(command) => bucket::run(command, &pools, session).await,
        S3Command::StorageClass(command) => storage_class::run(command, &pools, session).await,
        S3Command::Lifecycle(command) => lifecycle::run(command, &pools, session).await,
        S3Command::Events(command) => events::run(command, &pools, session).await,
        S3Command::OnPut(args) => on_put::run(args, &pools, session).await,
        S3Command::Gc(command) => gc::run(command, &pools, session).await,
        S3Command::Upstream(command) => upstream::run(&command, session),
    }
}

impl GatewayPools {
    /// Opens the driver. With `create`, creates missing pools.
    async fn open(&self, session: &Session, create: bool) -> Result<PoolSal> {
        self.open_with(session, create, Options::default()).await
    }

    async fn open_with(&self, session: &Session, create: bool, options: Options) -> Result<PoolSal> {
        let index = session.pool_or_create(&self.pool, create).await?;
        let data = match &self.data_pool {
            Some(pool) => session.pool_or_create(pool, create).await?,
            None => Arc::clone(&index),
        };
        let store = Some(session.store().await?);
        PoolSal::open(index, data, Options { store, ..options }).await
    }

    /// The accounts, users and keys, without access to secrets.
    fn identities(&self, sal: &PoolSal) -> Identities {
        Identities::new(Arc::new(sal.clone()) as Arc<dyn Sal>, None, Environment::default())
    }

    /// The same with access to secrets. With `create`, creates a missing sealing key.
    fn identities_with_secrets(&self, sal: &PoolSal, create: bool) -> Result<Identities> {
        let path = if let Some(path) = &self.sealing_key { path.clone() } else { Sealer::default_path()? };
        let sealer = Sealer::open(&path, create, Environment::default())?;
        Ok(Identities::new(Arc::new(sal.clone()) as Arc<dyn Sal>, Some(sealer), Environment::default()))
    }
}

fn account_and_user(text: &str) -> Result<(&str, &str)> {
    account_and_name(text, "a user must have the form ACCOUNT/USER")
}

fn account_and_name<'t>(text: &'t str, message: &'static str) -> Result<(&'t str, &'t str)> {
    text.split_once('/').ok_or_else(|| Error::invalid_argument(message).with("got", text))
}

/// All buckets of one account, or of all accounts.
async fn all_buckets(sal: &PoolSal, identities: &Identities, account: Option<&str>) -> Result<Vec<Bucket>> {
    let owners = match account {
        Some(account) => {
            identities.account(account).await?;
            vec![account.to_owned()]
        }
        None => identities.accounts().await?.into_iter().map(|(name, _)| name).collect(),
    };
    let mut all: Vec<Bucket> = Vec::new();
    for owner in owners {
        let mut after: Option<String> = None;
        loop {
            let (page, more) = sal.list_buckets(&owner, after.as_deref(), PAGE).await?;
            after = page.last().map(|bucket| bucket.name.clone());
            all.extend(page);
            if !more || after.is_none() {
                break;
            }
        }
    }
    Ok(all)
}

fn time(unix_ms: u64) -> String {
    units::utc(unix_ms.saturating_mul(1_000_000))
}

fn limit(value: Option<u64>, shown: impl Fn(u64) -> String) -> String {
    value.map_or("no limit".to_owned(), shown)
}

fn bucket_json(bucket: &Bucket) -> Value {
    json!({
        "bucket": bucket.name,
        "owner": bucket.owner,
        "created_ms": bucket.created_ms,
        "versioning": format!("{:?}", bucket.versioning).to_lowercase(),
        "shards": bucket.shards,
        "objects_max": bucket.quota.objects_max,
        "bytes_max": bucket.quota.bytes_max,
        "view": View::of(bucket).ok().flatten().map(|view| view.to_string()),
    })
}
