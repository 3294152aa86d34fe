//! `benthic s3 serve`: the gateway, with its background work: garbage collection, lifecycle rules,
//! events and access logs.

use super::code::StoreCode;
use super::upstream::UpstreamArgs;
use super::vault::VaultArgs;
use super::{GatewayPools, all_buckets, lifecycle};
use benthic_core::{Environment, Error};
use benthic_program::exit::{Failure, Outcome};
use benthic_program::interrupt;
use benthic_program::serving::{TlsArgs, listen};
use benthic_program::session::Session;
use benthic_s3::PoolSal;
use benthic_s3::events::EventRules;
use benthic_s3::events::deliver::{Deliverer, Settings};
use benthic_s3::events::schedule::{self, Wakeups};
use benthic_s3::events::topic::Endpoints;
use benthic_s3::gateway::metrics::Metrics;
use benthic_s3::gateway::{Code, Keys, Limits, Server, Services};
use benthic_s3::identity::{FIRST_ACCOUNT, FIRST_USER, Identities, NewKey, add_first_key};
use benthic_s3::lease;
use benthic_s3::lifecycle::Calendar;
use benthic_s3::sal::{Garbage, RecordKind, Sal};
use benthic_s3::view::ViewSal;
use clap::Args;
use serde_json::json;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Methods of on-put rules that run at the same time: fewer than those of requests, which share
/// their limits.
const METHODS_OF_RULES_IN_DIRECTORY: usize = 2;
const METHODS_OF_RULES_IN_CLUSTER: usize = 16;
/// Searches for events between two cleanups of the records of removed buckets.
const SEARCHES_PER_CLEANUP: u64 = 300;
/// How long a stopping gateway waits for deliveries.
const DELIVERY_STOP_LIMIT: Duration = Duration::from_secs(12);

/// How long a stopping gateway writes access logs.
const LOG_STOP_LIMIT: Duration = Duration::from_secs(8);

/// Arguments of `benthic s3 serve`.
#[derive(Args)]
#[command(
    after_help = "The first start creates the store, the pool, and an account with a key. It prints commands to paste into a shell. The store \
contains secrets only in encrypted form. The file of --sealing-key has the key that decrypts them; without it the gateway cannot \
check any request.

Several gateways may serve one pool of a cluster, with the same sealing key. Everybody who can reach the port can read /-/health \
and /-/metrics.

With --upstream, the gateway serves the buckets of another S3 service, with a cache in a directory. Its key comes from the \
environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY), the file ~/.aws/credentials or --upstream-credentials. Clients use keys \
of this gateway.

With --vault, KMS keys can be in the transit engine of Vault or OpenBao; `benthic s3 kms key create --vault-key` names them.

Examples:
  benthic s3 serve
  benthic s3 serve --listen 0.0.0.0:9000 --domain s3.example.org --tls-cert cert.pem --tls-key key.pem
  benthic s3 serve --domain s3.example.org --website-domain web.example.org
  benthic s3 serve --config s3.toml
  benthic s3 serve --upstream https://far.example --cache /var/cache/benthic-s3 --cache-bytes 100GiB
  benthic s3 serve --sns-endpoint https://hooks.example/s3
  benthic s3 serve --vault https://vault.example:8200 --vault-token-file /run/benthic/vault-token
  benthic s3 serve --upstream https://far.example --cache /var/lib/benthic-s3 --write-back
  benthic --store ceph: s3 serve --pool s3.index --data-pool s3.data"
)]
pub struct ServeArgs {
    /// TOML file with options, named without the dashes; the command line takes precedence
    #[arg(long, value_name = "FILE")]
    #[allow(dead_code, reason = "`config::parse` reads the file before clap parses the options")]
    config: Option<PathBuf>,
    /// Address and port to listen on; port 0 selects a free port
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9000")]
    listen: SocketAddr,
    /// Domain of this gateway: BUCKET.DOMAIN addresses a bucket; can be repeated
    #[arg(long, value_name = "DOMAIN")]
    domain: Vec<String>,
    /// Domain of websites: BUCKET.DOMAIN shows the website of a bucket; can be repeated
    #[arg(long, value_name = "DOMAIN")]
    website_domain: Vec<String>,
    /// Name of the region, which GetBucketLocation returns and with which requests to the upstream
    /// are signed
    #[arg(long, default_value = "us-east-1")]
    region: String,
    #[command(flatten)]
    tls: TlsArgs,
    #[command(flatten)]
    upstream: UpstreamArgs,
    #[command(flatten)]
    vault: VaultArgs,
    /// Permit identity providers (OIDC) in private networks, and with http on this machine
    #[arg(long)]
    oidc_private: bool,
    /// Endpoint of topics that clients may create with SNS, and all below its path: a URL with
    /// http, https, amqp, amqps or kafka; can be repeated; without it, clients cannot create topics
    #[arg(long, value_name = "URL")]
    sns_endpoint: Vec<String>,
    /// Limit on concurrent connections; further ones wait
    #[arg(long, value_name = "COUNT", default_value_t = 1_024, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    connections_max: u32,
    /// Seconds after which the gateway disconnects a client that sends or accepts no data
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    timeout: u64,
    /// Seconds between two garbage collections; 0 disables them
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    collect_every: u64,
    /// Seconds between two runs of the lifecycle rules of a bucket; 0 disables them
    #[arg(long, value_name = "SECONDS", default_value_t = 3_600)]
    lifecycle_every: u64,
    /// Seconds of a day when the gateway applies lifecycle rules; tests make days short
    #[arg(long, value_name = "SECONDS", default_value_t = 86_400, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    lifecycle_day: u64,
    /// Seconds after which lines of access logs become an object of the target bucket
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    access_log_every: u64,
    /// Seconds between two searches for waiting events; the gateway delivers its own at once; 0
    /// disables deliveries
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    events_every: u64,
    /// Hours that an event waits for a target that does not answer
    #[arg(long, value_name = "HOURS", default_value_t = 24, value_parser = clap::value_parser!(u64).range(0..=8_760))]
    events_keep: u64,
}

pub async fn run(args: ServeArgs, pools: &GatewayPools, session: &Session) -> Outcome {
    let tls = args.tls.acceptor(&["http/1.1"])?;
    let vault = args.vault.open()?;
    let topic_endpoints = Endpoints::new(&args.sns_endpoint)
        .map_err(|message| Error::invalid_argument(message).with("option", "--sns-endpoint"))?;
    let (listener, address) = listen(args.listen).await?;
    let sal = pools.open(session, true).await?;
    let identities = Arc::new(pools.identities_with_secrets(&sal, true)?);
    identities.check_sealing_key().await?;
    let url = format!("{}://{address}", if tls.is_some() { "https" } else { "http" });
    let timeout = Duration::from_secs(args.timeout);
    let limits = Limits {
        connections_max: args.connections_max as usize,
        idle_timeout: timeout,
        body_timeout: timeout,
    };
    let is_cluster = session.rados().await?.is_some();
    let code = StoreCode::new(session.pool(&pools.pool).await?, is_cluster).await?;
    let code = Arc::new(code) as Arc<dyn Code>;
    let upstream = args.upstream.open(&sal, &args.region)?;
    let driver: Arc<dyn Sal> = match &upstream {
        Some(upstream) => Arc::clone(upstream) as Arc<dyn Sal>,
        None => Arc::new(ViewSal::new(
            Arc::new(sal.clone()) as Arc<dyn Sal>,
            session.store().await?,
            Environment::default(),
        )),
    };
    let server = Server::new(
        driver,
        Arc::clone(&identities) as Arc<dyn Keys>,
        Environment::default(),
        args.region.clone(),
        args.domain,
        limits,
        Services {
            code: Some(Arc::clone(&code)),
            permits_private_issuers: args.oidc_private,
            vault,
            topic_endpoints: topic_endpoints.clone(),
        },
    )?
    .with_websites(&args.website_domain)?;
    let server = match &upstream {
        Some(upstream) => server.with_driver_metrics(upstream.metrics()),
        None => server,
    };
    let first = identities.create_first_key().await?;
    let source = match args.upstream.url() {
        Some(url) => format!("{url}; the accounts are in the pool {} of {}", pools.pool, session.uri()),
        None => format!("the pool {} of {}", pools.pool, session.uri()),
    };
    print_start(session, pools, (&url, &source), &args.region, first.as_ref())?;
    let collector = tokio::spawn(collect(sal.clone(), server.metrics(), args.collect_every));
    let calendar = Calendar { day_ms: args.lifecycle_day * 1_000 };
    let wakeups = server.wakeups();
    let deliverer = Deliverer::new(
        Arc::new(sal.clone()) as Arc<dyn Sal>,
        Arc::clone(&identities),
        code,
        server.metrics(),
        Environment::default(),
        Settings {
            region: args.region.clone(),
            topic_endpoints,
            keep_ms: args.events_keep * 60 * 60 * 1_000,
            methods_max: if is_cluster { METHODS_OF_RULES_IN_CLUSTER } else { METHODS_OF_RULES_IN_DIRECTORY },
        },
    );
    // The upstream has the data and the events of its buckets.
    let events = (args.events_every > 0 && upstream.is_none()).then(|| {
        let search =
            search_events(sal.clone(), Arc::clone(&identities), Arc::clone(&wakeups), args.events_every);
        (tokio::spawn(schedule::run(Arc::new(deliverer), Arc::clone(&wakeups))), tokio::spawn(search))
    });
    let lifecycle_every = if upstream.is_none() { args.lifecycle_every } else { 0 };
    let lifecycle = tokio::spawn(apply_lifecycle(sal, identities, calendar, lifecycle_every));
    let server = Arc::new(server);
    let logs = {
        let (server, every) = (Arc::clone(&server), Duration::from_secs(args.access_log_every));
        tokio::spawn(async move { server.deliver_access_logs(every).await })
    };
    let served = Arc::clone(&server).serve(listener, tls, interrupt::wait()).await;
    if tokio::time::timeout(LOG_STOP_LIMIT, server.flush_access_logs()).await.is_err() {
        tracing::warn!("the gateway stops although access logs are not written yet");
    }
    // Wait until all have stopped before the session releases the store.
    let mut tasks = vec![collector, lifecycle, logs];
    if let Some((mut delivery, search)) = events {
        // Lets the deliveries end that are running, so that no event is delivered again.
        wakeups.stop();
        let _ = tokio::time::timeout(DELIVERY_STOP_LIMIT, &mut delivery).await;
        tasks.extend([delivery, search]);
    }
    for task in tasks.into_iter().filter(|task| !task.is_finished()) {
        task.abort();
        let _ = task.await;
    }
    if let Some(upstream) = &upstream {
        upstream.stop().await;
    }
    served?;
    if interrupt::is_set() { Err(Failure::Interrupted) } else { Ok(()) }
}

fn print_start(
    session: &Session,
    pools: &GatewayPools,
    (url, source): (&str, &str),
    region: &str,
    first: Option<&NewKey>,
) -> Outcome {
    let pool = &pools.pool;
    let mut text = format!("{url} serves S3 from {source}");
    match first {
        None => text += "\n`benthic s3 key create ACCOUNT/USER` creates a key; Ctrl-C stops the gateway",
        Some(key) => {
            text += &format!(
                "\n\nThis is the first start. It created the account {FIRST_ACCOUNT} with the user {FIRST_USER} and this key, \
                 which cannot be shown again.\nPaste into another shell:\n\n  \
                 export AWS_ENDPOINT_URL={url} AWS_DEFAULT_REGION={region}\n  \
                 export AWS_ACCESS_KEY_ID={}\n  \
                 export AWS_SECRET_ACCESS_KEY={}\n  \
                 aws s3 mb s3://photos\n  \
                 echo 'a picture, more or less' | aws s3 cp - s3://photos/2026/reef.txt\n  \
                 aws s3 ls s3://photos --recursive\n  \
                 aws s3 cp s3://photos/2026/reef.txt -\n\nCtrl-C stops the gateway",
                key.access_key, key.secret
            );
        }
    }
    session.out.result(text, || {
        let mut json = json!({ "url": url, "pool": pool, "region": region });
        add_first_key(&mut json, first);
        json
    })?;
    session.out.flush()
}

/// Collects garbage periodically, as every gateway does.
async fn collect(sal: PoolSal, metrics: Arc<Metrics>, every_seconds: u64) {
    if every_seconds == 0 {
        return;
    }
    loop {
        tokio::time::sleep(Duration::from_secs(every_seconds)).await;
        match sal.collect().await {
            Ok(done) => {
                metrics.collected.fetch_add(done.data_objects, Relaxed);
                tracing::debug!(?done, "collected garbage");
            }
            Err(error) => {
                metrics.failed_collections.fetch_add(1, Relaxed);
                tracing::warn!(%error, "garbage collection failed; the next one continues");
            }
        }
    }
}

/// Applies the lifecycle rules of all buckets periodically. Of several gateways, each bucket needs
/// only one.
async fn apply_lifecycle(sal: PoolSal, identities: Arc<Identities>, calendar: Calendar, every_seconds: u64) {
    if every_seconds == 0 {
        return;
    }
    let every = Duration::from_secs(every_seconds);
    loop {
        if let Err(error) = lifecycle::run_due(&sal, &identities, calendar, every).await {
            tracing::warn!(%error, "the lifecycle rules were not applied; the next run continues");
        }
        tokio::time::sleep(every).await;
    }
}

/// Searches for buckets whose events wait: those of gateways that have died, and those that an
/// operator wants to be delivered again.
async fn search_events(sal: PoolSal, identities: Arc<Identities>, wakeups: Arc<Wakeups>, every_seconds: u64) {
    for number in 0_u64.. {
        let searched = async {
            if number.is_multiple_of(SEARCHES_PER_CLEANUP) {
                lease::forget_removed(&sal, RecordKind::Delivery).await?;
            }
            buckets_with_rules(&sal, &identities).await
        };
        match searched.await {
            Ok(names) => names.iter().for_each(|name| wakeups.wake(name)),
            Err(error) => tracing::warn!(%error, "cannot search for events; the next search continues"),
        }
        tokio::time::sleep(Duration::from_secs(every_seconds)).await;
    }
}

async fn buckets_with_rules(sal: &PoolSal, identities: &Identities) -> benthic_core::Result<Vec<String>> {
    let buckets = all_buckets(sal, identities, None).await?.into_iter();
    let with_rules = buckets.filter(|bucket| EventRules::exist(&bucket.attributes));
    Ok(with_rules.map(|bucket| bucket.name).collect())
}
