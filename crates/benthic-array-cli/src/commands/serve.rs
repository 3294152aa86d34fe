//! `benthic array serve`: Reductionist's API over the objects of pools.

use super::PushdownArg;
use crate::serve::{Limits, Server, Service};
use benthic_core::Environment;
use benthic_program::exit::{Failure, Outcome};
use benthic_program::interrupt;
use benthic_program::serving::{TlsArgs, listen};
use benthic_program::session::Session;
use benthic_s3::grants::{Access, Grant};
use benthic_s3::identity::{FIRST_ACCOUNT, GATEWAY_POOL, NewKey, Started, add_first_key, first_key_text};
use clap::Args;
use serde_json::json;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

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
    #[command(flatten)]
    tls: TlsArgs,
    /// Pool that stores the accounts and keys: the gateway's --pool. Its objects are not served
    #[arg(long, value_name = "POOL", default_value = GATEWAY_POOL)]
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
    args.tls.check_address(args.listen)?;
    let tls = args.tls.acceptor(&["http/1.1"])?;
    let (listener, address) = listen(args.listen).await?;
    let url = format!("{}://{address}", if tls.is_some() { "https" } else { "http" });
    let environment = Environment::default();
    let accounts = session.pool_or_create(&args.s3_pool, args.s3_pool == GATEWAY_POOL).await?;
    let started = Started::open(accounts, args.sealing_key.as_deref(), &environment).await?;
    let timeout = Duration::from_secs(args.timeout);
    let store = session.store().await?;
    let pushdown = args.pushdown.in_store(&*store);
    let access = Access::new(started.identities, args.allow);
    let service = Service::new(store, access, args.s3_pool, pushdown, environment, timeout);
    let limits = Limits { connections_max: args.connections_max as usize, idle_timeout: timeout };
    print_start(session, &url, started.first.as_ref())?;
    Arc::new(Server { service, limits, tls }).serve(listener, interrupt::wait()).await;
    Err(Failure::Interrupted)
}

fn print_start(session: &Session, url: &str, first: Option<&NewKey>) -> Outcome {
    let text = format!("serving Reductionist's API over the objects of {} at {url}", session.uri());
    let text = text + &first_key_text(first, ["access key", "secret key"], |_| String::new());
    session.out.result(text, || {
        let mut json = json!({ "url": url });
        add_first_key(&mut json, first);
        json
    })?;
    session.out.flush()
}
