//! `benthic array serve`: Reductionist's API over the objects of pools.

use super::PushdownArg;
use crate::serve::{Limits, Server, Service};
use benthic_core::{Action, Environment, Error};
use benthic_program::exit::{Failure, Outcome};
use benthic_program::session::Session;
use benthic_program::{interrupt, tls};
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

/// Arguments of `benthic array serve`.
#[derive(Args)]
#[command(
    after_help = "Clients of Reductionist, such as PyActiveStorage, reduce the chunks of netCDF and HDF5 files through this server. \
The files are objects of pools: the bucket in a request is a pool, and the server's name in its URL is ignored. \
The server only reads.

Users are those of the S3 gateway: the user name is an access key, and the password its secret key. A key gives access to pools only \
if --allow names its account. The first start on a store without accounts creates the account main and prints its key. Addresses other \
than loopback need --tls-cert and --tls-key.

Examples:
  benthic array serve
  benthic s3 key create main/admin
  benthic --store ceph: array serve --listen 0.0.0.0:8080 --tls-cert cert.pem --tls-key key.pem --allow main --allow lab=climate"
)]
pub struct ServeArgs {
    /// Address and port to listen on; port 0 selects a free port
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// Account whose users may read, all pools or some; can be repeated
    #[arg(long, value_name = "ACCOUNT[=POOL,…]", default_value = FIRST_ACCOUNT)]
    allow: Vec<Grant>,
    /// PEM file with the certificates for HTTPS, the server's own first
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// PEM file with the key of the certificate
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Pool that stores the accounts and keys: the gateway's --pool. Its objects are not served
    #[arg(long, value_name = "POOL", default_value = "s3")]
    s3_pool: String,
    /// File with the key that decrypts secrets [default: ~/.config/benthic/s3-sealing.key]
    #[arg(long, value_name = "FILE", env = "BENTHIC_S3_SEALING_KEY")]
    sealing_key: Option<PathBuf>,
    /// Where chunks are decoded and reduced
    #[arg(long, value_enum, default_value_t = PushdownArg::Auto, value_name = "WHERE")]
    pushdown: PushdownArg,
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
    let url = format!("{}://{address}", if tls.is_some() { "https" } else { "http" });

    let index = session.pool_or_create(&args.s3_pool, true).await?;
    let sal = PoolSal::open(Arc::clone(&index), index, Options::default()).await?;
    let environment = Environment::default();
    let path = match &args.sealing_key {
        Some(path) => path.clone(),
        None => Sealer::default_path()?,
    };
    let sealer = Sealer::open(&path, true, environment.clone())?;
    let identities = Identities::new(Arc::new(sal) as Arc<dyn Sal>, Some(sealer), environment.clone());
    identities.check_sealing_key().await?;
    let first = identities.create_first_key().await?;
    let timeout = Duration::from_secs(args.timeout);
    let store = session.store().await?;
    let pushdown = args.pushdown.in_store(&*store);
    let access = Access::new(identities, args.allow);
    let service = Service::new(store, access, args.s3_pool, pushdown, environment, timeout);
    let limits = Limits { connections_max: args.connections_max as usize, idle_timeout: timeout };
    print_start(session, &url, first.as_ref())?;
    Arc::new(Server { service, limits, tls }).serve(listener, interrupt::wait()).await;
    Err(Failure::Interrupted)
}

fn print_start(session: &Session, url: &str, first: Option<&NewKey>) -> Outcome {
    let mut text = format!("serving Reductionist's API over the objects of {} at {url}", session.uri());
    match first {
        None => text += "\n`benthic s3 key create ACCOUNT/USER` creates a key; Ctrl-C stops the server",
        Some(NewKey { access_key, secret }) => {
            text += &format!(
                "\n\nThis is the first start. It created the account {FIRST_ACCOUNT} with the user {FIRST_USER} and this key, \
                 which cannot be shown again:\n\n  access key  {access_key}\n  secret key  {secret}\n\nCtrl-C stops the server"
            );
        }
    }
    session.out.result(text, || {
        json!({
            "url": url,
            "account": first.map(|_| FIRST_ACCOUNT),
            "user": first.map(|_| FIRST_USER),
            "access_key": first.map(|key| key.access_key.as_str()),
            "secret_key": first.map(|key| key.secret.as_str()),
        })
    })?;
    session.out.flush()
}
