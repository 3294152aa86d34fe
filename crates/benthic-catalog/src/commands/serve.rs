//! `benthic catalog serve`.

use benthic_catalog::auth::Auth;
use benthic_catalog::bucket::TablesSal;
use benthic_catalog::iceberg::keys::BUCKET;
use benthic_catalog::iceberg::view::Views;
use benthic_catalog::rest::{COMMITS_AT_ONCE, Catalog, PREFIX};
use benthic_catalog::staging::Staging;
use benthic_core::{Action, Environment, Error};
use benthic_program::exit::{Failure, Outcome};
use benthic_program::interrupt;
use benthic_program::session::Session;
use benthic_program::tls;
use benthic_s3::gateway::{Handler, Keys, Limits, Server};
use benthic_s3::grants::{Access, Grant};
use benthic_s3::identity::{FIRST_ACCOUNT, FIRST_USER, Identities, NewKey};
use benthic_s3::sal::Sal;
use benthic_s3::seal::Sealer;
use benthic_s3::{Options, PoolSal};
use clap::Args;
use serde_json::json;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

/// Time between two removals of old uploads.
const CLEAN_EVERY: Duration = Duration::from_secs(10 * 60);

/// Arguments of `benthic catalog serve`.
#[derive(Args)]
#[command(
    after_help = "Programs that read Iceberg find the tables through the REST catalog at this address, and read their files over S3 \
at the same address. The namespaces are the pools. With --allow-writes, programs change tables, too.

Users are those of the S3 gateway: the client's id is an access key, and its secret the secret key. A key gives access to tables only \
if --allow names its account. Clients get temporary keys for the files of one table at a time. The first start on a store without \
accounts creates the account main and prints its key. Addresses other than loopback need --tls-cert and --tls-key.

Examples:
  benthic catalog serve
  benthic s3 key create main/admin
  benthic catalog serve --listen 0.0.0.0:8181 --url https://catalog.example.org:8181 --tls-cert cert.pem --tls-key key.pem
  benthic --store ceph: catalog serve --allow main --allow lab=lake,sales"
)]
pub struct ServeArgs {
    /// Address and port to listen on; port 0 selects a free port
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8181")]
    listen: SocketAddr,
    /// URL under which clients reach this server [default: that of --listen]
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// Account whose users may read, all tables or those in some pools; can be repeated
    #[arg(long, value_name = "ACCOUNT[=POOL,…]", default_value = FIRST_ACCOUNT)]
    allow: Vec<Grant>,
    /// Account whose users may also create, change and drop tables, in all pools or some; can be repeated
    #[arg(long, value_name = "ACCOUNT[=POOL,…]")]
    allow_writes: Vec<Grant>,
    /// PEM file with the certificates for HTTPS, the server's own first
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// PEM file with the key of the certificate
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Name of the region that clients get
    #[arg(long, default_value = "us-east-1")]
    region: String,
    /// Pool that stores the accounts and keys: the gateway's --pool
    #[arg(long, value_name = "POOL", default_value = "s3")]
    s3_pool: String,
    /// File with the key that decrypts secrets [default: ~/.config/benthic/s3-sealing.key]
    #[arg(long, value_name = "FILE", env = "BENTHIC_S3_SEALING_KEY")]
    sealing_key: Option<PathBuf>,
    /// Seconds after which tokens and temporary keys expire
    #[arg(long, value_name = "SECONDS", default_value_t = 3_600, value_parser = clap::value_parser!(u64).range(60..=43_200))]
    credential_seconds: u64,
    /// Limit on concurrent connections; further ones wait
    #[arg(long, value_name = "COUNT", default_value_t = 1_024, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    connections_max: u32,
    /// Seconds after which the server disconnects a client that sends or accepts no data
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    timeout: u64,
}

pub async fn run(args: ServeArgs, session: &Session) -> Outcome {
    let tls = match (&args.tls_cert, &args.tls_key) {
        (Some(certificates), Some(key)) => Some(tls::acceptor(certificates, key, None, &["http/1.1"])?),
        _ => None,
    };
    if !args.listen.ip().is_loopback() && tls.is_none() {
        let message = format!("{} is not a loopback address; it needs --tls-cert and --tls-key", args.listen);
        return Err(Failure::Usage(message));
    }
    let failed = |error| {
        Error::io(Action::Admin, "cannot listen on this address; choose another one with --listen", error)
            .with("address", args.listen)
    };
    let listener = TcpListener::bind(args.listen).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    let own = format!("{}://{address}", if tls.is_some() { "https" } else { "http" });
    let url = args.url.unwrap_or(own).trim_end_matches('/').to_owned();

    let index = session.pool_or_create(&args.s3_pool, true).await?;
    let records =
        Arc::new(PoolSal::open(Arc::clone(&index), index, Options::default()).await?) as Arc<dyn Sal>;
    let environment = Environment::default();
    let path = match &args.sealing_key {
        Some(path) => path.clone(),
        None => Sealer::default_path()?,
    };
    let open_sealer = || Sealer::open(&path, true, environment.clone());
    let identities = Identities::new(Arc::clone(&records), Some(open_sealer()?), environment.clone());
    identities.check_sealing_key().await?;
    let first = identities.create_first_key().await?;
    let access = Access::new(identities, args.allow);
    let lifetime_s = args.credential_seconds;
    let auth =
        Arc::new(Auth::new(access, args.allow_writes, &open_sealer()?, environment.clone(), lifetime_s));

    let views = Arc::new(Views::new(session.store().await?));
    let staging = Arc::new(Staging::new(records, environment.clone()));
    let sal =
        Arc::new(TablesSal { views: Arc::clone(&views), staging: Arc::clone(&staging) }) as Arc<dyn Sal>;
    let timeout = Duration::from_secs(args.timeout);
    let limits = Limits {
        connections_max: args.connections_max as usize,
        idle_timeout: timeout,
        body_timeout: timeout,
    };
    let keys = Arc::clone(&auth) as Arc<dyn Keys>;
    let cleaner = tokio::spawn(clean(Arc::clone(&staging)));
    let commits = Semaphore::new(COMMITS_AT_ONCE);
    let catalog = Catalog { views, staging, auth, url: url.clone(), region: args.region.clone(), commits };
    let server = Server::new(sal, keys, environment, args.region, Vec::new(), limits, None)?
        .with_handler(PREFIX, Arc::new(catalog) as Arc<dyn Handler>);
    print_start(session, &url, first.as_ref())?;
    let served = Arc::new(server).serve(listener, tls, interrupt::wait()).await;
    cleaner.abort();
    // Wait until the cleaning has stopped before the session releases the store.
    let _ = cleaner.await;
    served?;
    Err(Failure::Interrupted)
}

/// Removes old uploads periodically.
async fn clean(staging: Arc<Staging>) {
    loop {
        match staging.clean().await {
            Ok(0) => {}
            Ok(removed) => tracing::info!(removed, "removed uploads that nobody committed"),
            Err(error) => tracing::warn!(%error, "old uploads cannot be removed; the next try continues"),
        }
        tokio::time::sleep(CLEAN_EVERY).await;
    }
}

fn print_start(session: &Session, url: &str, first: Option<&NewKey>) -> Outcome {
    let mut text = format!("serving the tables of {} to programs that read Iceberg at {url}", session.uri());
    match first {
        None => text += "\n`benthic s3 key create ACCOUNT/USER` creates a key; Ctrl-C stops the server",
        Some(NewKey { access_key, secret }) => {
            text += &format!(
                "\n\nThis is the first start. It created the account {FIRST_ACCOUNT} with the user {FIRST_USER} and this key, \
                 which cannot be shown again:\n\n  access key  {access_key}\n  secret key  {secret}\n\n\
                 Paste into Python:\n\n  \
                 from pyiceberg.catalog import load_catalog\n  \
                 catalog = load_catalog('benthic', uri='{url}', credential='{access_key}:{secret}')\n  \
                 catalog.load_table('POOL.TABLE').scan().to_arrow()\n\nCtrl-C stops the server"
            );
        }
    }
    session.out.result(text, || {
        json!({
            "url": url,
            "bucket": BUCKET,
            "account": first.map(|_| FIRST_ACCOUNT),
            "user": first.map(|_| FIRST_USER),
            "access_key": first.map(|key| key.access_key.as_str()),
            "secret_key": first.map(|key| key.secret.as_str()),
        })
    })?;
    session.out.flush()
}
