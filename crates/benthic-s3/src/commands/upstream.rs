//! The options of `benthic s3 serve` for a gateway to another S3 service, and `benthic s3
//! upstream`.

use benthic_core::{Environment, Error, Result};
use benthic_program::exit::Outcome;
use benthic_program::session::Session;
use benthic_program::units::{self, count};
use benthic_s3::PoolSal;
use benthic_s3::identity::FIRST_ACCOUNT;
use benthic_s3::sal::Sal;
use benthic_s3::upstream::{Credentials, Endpoint, Options, UpstreamSal, Validate, pending_status};
use clap::{Args, Subcommand};
use serde_json::json;
use std::path::PathBuf;
use std::sync::Arc;

const BLOCK_BYTES_MIN: u64 = 64 * 1024;
const BLOCK_BYTES_MAX: u64 = 16 << 20;

/// Another S3 service whose buckets the gateway serves.
#[derive(Args)]
pub struct UpstreamArgs {
    /// Serve the buckets of the S3 service at this URL instead of those of the pool; needs --cache
    #[arg(long, value_name = "URL", requires = "cache")]
    upstream: Option<String>,
    /// Directory of the cache; one gateway per directory
    #[arg(long, value_name = "DIR", requires = "upstream")]
    cache: Option<PathBuf>,
    /// Limit on the size of the cache, at least 16MiB
    #[arg(long, value_name = "SIZE", default_value = "10GiB", value_parser = units::parse_size, requires = "upstream")]
    cache_bytes: u64,
    /// When to ask the upstream whether a cached object is current: always, after SECONDS, or never
    /// (objects never change)
    #[arg(long, value_name = "always|SECONDS|never", default_value = "always", value_parser = parse_validate, requires = "upstream")]
    validate: Validate,
    /// Acknowledge writes when they are durable in the directory of --cache, and send them to the
    /// upstream later
    #[arg(long, requires = "upstream")]
    write_back: bool,
    /// Size of the ranges that are fetched and stored; for measurements
    #[arg(long, value_name = "SIZE", hide = true, default_value = "1MiB", value_parser = parse_block)]
    block_bytes: u64,
    /// Account that owns the buckets that this gateway has not created
    #[arg(long, value_name = "ACCOUNT", default_value = FIRST_ACCOUNT, requires = "upstream")]
    upstream_account: String,
    /// File with the key for the upstream, in the format of ~/.aws/credentials; AWS_PROFILE selects
    /// the profile
    #[arg(long, value_name = "FILE", requires = "upstream")]
    upstream_credentials: Option<PathBuf>,
    /// PEM file with the authorities that sign the certificate of the upstream, instead of those of
    /// this machine
    #[arg(long, value_name = "FILE", requires = "upstream")]
    upstream_ca: Option<PathBuf>,
}

pub const EXAMPLES: &str = "Example:\n  benthic s3 upstream status --cache /var/cache/benthic-s3";

/// The verbs of `benthic s3 upstream`.
#[derive(Subcommand)]
pub enum UpstreamCommand {
    /// Show the changes that wait for the upstream (serve --write-back)
    #[command(after_help = "Reads the directory of the cache; the gateway may run or not.\n\n\
        Example:\n  benthic s3 upstream status --cache /var/cache/benthic-s3")]
    Status {
        /// Directory of the cache
        #[arg(long, value_name = "DIR")]
        cache: PathBuf,
    },
}

pub fn run(command: &UpstreamCommand, session: &Session) -> Outcome {
    let UpstreamCommand::Status { cache } = command;
    let status = pending_status(cache)?;
    let mut text = format!(
        "{} for the upstream, {}",
        count(status.changes, "pending change"),
        units::size(status.bytes)
    );
    if let Some(oldest_ms) = status.oldest_ms {
        text += &format!("; the oldest is from {}", super::time(oldest_ms));
    }
    if status.damaged > 0 {
        text += &format!(
            "\n{} set aside in {}",
            count(status.damaged, "damaged change"),
            cache.join("pending/damaged").display()
        );
    }
    if let Some(last) = &status.last_error {
        text += &format!(
            "\nlast error, at {}, for {}/{}: {}",
            super::time(last.at_ms),
            last.bucket,
            last.key,
            last.error
        );
    }
    session.out.result(text, || json!(status))
}

fn parse_validate(text: &str) -> std::result::Result<Validate, String> {
    text.parse()
}

fn parse_block(text: &str) -> std::result::Result<u64, String> {
    let bytes = units::parse_size(text)?;
    let range = BLOCK_BYTES_MIN..=BLOCK_BYTES_MAX;
    if range.contains(&bytes) { Ok(bytes) } else { Err("a block has 64KiB to 16MiB".to_owned()) }
}

impl UpstreamArgs {
    pub fn url(&self) -> Option<&str> {
        self.upstream.as_deref()
    }

    /// Opens the driver over that of the gateway's own store; `None` without an upstream.
    pub fn open(&self, sal: &PoolSal, region: &str) -> Result<Option<Arc<UpstreamSal>>> {
        let (Some(url), Some(cache)) = (&self.upstream, &self.cache) else { return Ok(None) };
        let variable = |name: &str| std::env::var(name).ok();
        let credentials = Credentials::find(self.upstream_credentials.as_deref(), variable)?;
        let mut endpoint = Endpoint::new(url, region.to_owned(), credentials)?;
        if let Some(path) = &self.upstream_ca {
            let pem = std::fs::read_to_string(path).map_err(|error| {
                Error::invalid_argument("cannot read the file of --upstream-ca")
                    .with("path", path.display())
                    .with_source(error)
            })?;
            endpoint.ca = Some(pem);
        }
        let options = Options {
            validate: self.validate,
            write_back: self.write_back,
            block_bytes: self.block_bytes,
            owner: self.upstream_account.clone(),
            ..Options::new(endpoint, cache.clone(), self.cache_bytes)
        };
        let sal = Arc::new(sal.clone()) as Arc<dyn Sal>;
        UpstreamSal::open(sal, options, Environment::default()).map(|sal| Some(Arc::new(sal)))
    }
}
