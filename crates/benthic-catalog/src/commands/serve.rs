//! `benthic catalog serve`: serves tables to readers of Iceberg.

use benthic_catalog::auth::Auth;
use benthic_catalog::bucket::TablesSal;
use benthic_catalog::iceberg::keys::{BUCKET, FormatVersion};
use benthic_catalog::iceberg::view::Views;
use benthic_catalog::rest::{COMMITS_AT_ONCE, Catalog, PREFIX};
use benthic_catalog::staging::Staging;
use benthic_core::{Environment, Error, Result};
use benthic_program::exit::{Failure, Outcome};
use benthic_program::interrupt;
use benthic_program::serving::{TlsArgs, listen};
use benthic_program::session::Session;
use benthic_s3::gateway::{Handler, Keys, Limits, Server, Services};
use benthic_s3::grants::{Access, Grant};
use benthic_s3::identity::{FIRST_ACCOUNT, GATEWAY_POOL, NewKey, Started, add_first_key, first_key_text};
use benthic_s3::sal::Sal;
use clap::Args;
use serde_json::json;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
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
  benthic catalog serve --format-version 3
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
    /// Account whose users may also create, change and drop tables, in all pools or some; can be
    /// repeated
    #[arg(long, value_name = "ACCOUNT[=POOL,…]")]
    allow_writes: Vec<Grant>,
    /// Version of Iceberg's table format that clients see. In version 3, deleted rows are deletion
    /// vectors, and clients only read
    #[arg(long, value_name = "2|3", default_value_t = 2, value_parser = clap::value_parser!(u8).range(2..=3))]
    format_version: u8,
    #[command(flatten)]
    tls: TlsArgs,
    /// Name of the region that clients get
    #[arg(long, default_value = "us-east-1")]
    region: String,
    /// Pool that stores the accounts and keys: the gateway's --pool
    #[arg(long, value_name = "POOL", default_value = GATEWAY_POOL)]
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
    args.tls.check_address(args.listen)?;
    let format = if args.format_version == 3 { FormatVersion::V3 } else { FormatVersion::V2 };
    if format == FormatVersion::V3 && !args.allow_writes.is_empty() {
        let message = "clients can change tables of format version 2 only; leave out --allow-writes or --format-version";
        return Err(Error::invalid_argument(message).into());
    }
    check_writers(&args.allow, &args.allow_writes)?;
    let tls = args.tls.acceptor(&["http/1.1"])?;
    let (listener, address) = listen(args.listen).await?;
    let own = format!("{}://{address}", if tls.is_some() { "https" } else { "http" });
    let url = args.url.unwrap_or(own).trim_end_matches('/').to_owned();

    let environment = Environment::default();
    let accounts = session.pool_or_create(&args.s3_pool, args.s3_pool == GATEWAY_POOL).await?;
    let started = Started::open(accounts, args.sealing_key.as_deref(), &environment).await?;
    let access = Access::new(started.identities, args.allow);
    let lifetime_s = args.credential_seconds;
    let auth =
        Arc::new(Auth::new(access, args.allow_writes, &started.sealer, environment.clone(), lifetime_s));

    let views = Arc::new(Views::new(session.store().await?));
    let staging = Arc::new(Staging::new(started.sal, environment.clone()));
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
    let region = args.region.clone();
    let catalog = Catalog { views, staging, auth, url: url.clone(), region, format, commits };
    let server = Server::new(sal, keys, environment, args.region, Vec::new(), limits, Services::default())?
        .with_handler(PREFIX, Arc::new(catalog) as Arc<dyn Handler>);
    print_start(session, &url, started.first.as_ref())?;
    let served = Arc::new(server).serve(listener, tls, interrupt::wait()).await;
    cleaner.abort();
    // Wait until the cleaning has stopped before the session releases the store.
    let _ = cleaner.await;
    served?;
    Err(Failure::Interrupted)
}

/// Refuses accounts that may change tables, but not read them.
fn check_writers(readers: &[Grant], writers: &[Grant]) -> Result<()> {
    for Grant { account, pools } in writers {
        let mut readers = readers.iter().filter(|reader| reader.account == *account);
        let (can_read, grant) = match pools {
            None => (readers.next().is_some(), account.clone()),
            Some(pools) => {
                let pools: Vec<&str> = pools.iter().map(String::as_str).collect();
                let can_read = pools.iter().all(|pool| readers.clone().any(|reader| reader.covers(pool)));
                (can_read, format!("{account}={}", pools.join(",")))
            }
        };
        if !can_read {
            let message =
                format!("an account of --allow-writes may not read its tables; add `--allow {grant}`");
            return Err(Error::invalid_argument(message));
        }
    }
    Ok(())
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
    let text = format!("serving the tables of {} to programs that read Iceberg at {url}", session.uri());
    let example = |NewKey { access_key, secret }: &NewKey| {
        format!(
            "\nPaste into Python:\n\n  \
             from pyiceberg.catalog import load_catalog\n  \
             catalog = load_catalog('benthic', uri='{url}', credential='{access_key}:{secret}')\n  \
             catalog.load_table('POOL.TABLE').scan().to_arrow()\n"
        )
    };
    let text = text + &first_key_text(first, ["access key", "secret key"], example);
    session.out.result(text, || {
        let mut json = json!({ "url": url, "bucket": BUCKET });
        add_first_key(&mut json, first);
        json
    })?;
    session.out.flush()
}
