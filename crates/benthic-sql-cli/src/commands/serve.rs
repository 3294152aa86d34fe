//! `benthic sql serve`.

use super::one_of;
use super::sql::PUSHDOWN;
use benthic_core::pushdown::Pushdown;
use benthic_core::{Action, Environment, Error, Result};
use benthic_program::exit::{Failure, Outcome};
use benthic_program::interrupt;
use benthic_program::session::Session;
use benthic_program::tls;
use benthic_program::units;
use benthic_s3::grants::{Access, Grant};
use benthic_s3::identity::{FIRST_ACCOUNT, FIRST_USER, Identities, NewKey};
use benthic_s3::sal::Sal;
use benthic_s3::seal::Sealer;
use benthic_s3::{Options, PoolSal};
use benthic_sql::session::Settings;
use benthic_sql_server::DATABASE;
use benthic_sql_server::flight::FlightServer;
use benthic_sql_server::postgres::PostgresServer;
use benthic_sql_server::users::{Limits, Users};
use clap::Args;
use serde_json::json;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

const POSTGRES: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 5_433);
const FLIGHT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 31_337);

/// Arguments of `benthic sql serve`.
#[derive(Args)]
#[command(
    after_help = "Users are those of the S3 gateway: the user name is an access key, and the password its secret key. \
A key gives access to tables only if --allow names its account. The first start on a store without accounts creates the account \
main and prints its key.

The database is benthic, its schemas are the pools: SELECT * FROM POOL.TABLE. The server only reads, and reads no local files. \
Addresses other than loopback need --tls-cert and --tls-key.

Examples:
  benthic sql serve
  benthic s3 key create main/admin
  psql 'host=127.0.0.1 port=5433 dbname=benthic user=ACCESS_KEY'
  benthic sql serve --postgres 0.0.0.0:5432 --tls-cert cert.pem --tls-key key.pem --allow main --allow lab=lake,sales
  benthic --store ceph: sql serve --user-memory-max 4GiB --user-queries-max 4 --query-seconds-max 600"
)]
pub struct ServeArgs {
    /// Address for clients of Postgres; port 0 selects a free port [default: 127.0.0.1:5433, unless only --flight is given]
    #[arg(long, value_name = "ADDRESS")]
    postgres: Option<SocketAddr>,
    /// Address for clients of Arrow Flight SQL [default: 127.0.0.1:31337, unless only --postgres is given]
    #[arg(long, value_name = "ADDRESS")]
    flight: Option<SocketAddr>,
    /// Account whose users may query, all tables or those in some pools; can be repeated
    #[arg(long, value_name = "ACCOUNT[=POOL,…]", default_value = FIRST_ACCOUNT)]
    allow: Vec<Grant>,
    /// PEM file with the certificates for TLS, the server's own first; then clients must use TLS
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// PEM file with the key of the certificate
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Pool that stores the accounts and keys: the gateway's --pool
    #[arg(long, value_name = "POOL", default_value = "s3")]
    s3_pool: String,
    /// File with the key that decrypts secrets [default: ~/.config/benthic/s3-sealing.key]
    #[arg(long, value_name = "FILE", env = "BENTHIC_S3_SEALING_KEY")]
    sealing_key: Option<PathBuf>,
    /// Memory that the queries of a user share for sorting, joining and grouping
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = units::parse_size)]
    user_memory_max: u64,
    /// Queries of a user that run at once; further ones wait up to ten seconds
    #[arg(long, value_name = "COUNT", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1_024))]
    user_queries_max: u32,
    /// Seconds after which a query is stopped, also if the client has not fetched all rows
    #[arg(long, value_name = "SECONDS", default_value_t = 3_600, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    query_seconds_max: u64,
    /// Limit on concurrent connections of each protocol; further ones wait
    #[arg(long, value_name = "COUNT", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    connections_max: u32,
    /// Where to run the parts of queries that can run beside the objects
    #[arg(long, value_parser = one_of(&PUSHDOWN), default_value = "auto")]
    pushdown: Pushdown,
}

pub async fn run(args: ServeArgs, session: &Session) -> Outcome {
    let (postgres, flight) = match (args.postgres, args.flight) {
        (None, None) => (Some(POSTGRES), Some(FLIGHT)),
        given => given,
    };
    let tls_files = args.tls_cert.as_deref().zip(args.tls_key.as_deref());
    for address in [postgres, flight].into_iter().flatten() {
        if !address.ip().is_loopback() && tls_files.is_none() {
            let message = format!("{address} is not a loopback address; it needs --tls-cert and --tls-key");
            return Err(Failure::Usage(message));
        }
    }
    // Taken addresses and invalid files show before the store is opened.
    let (postgres, flight) = (listen(postgres).await?, listen(flight).await?);
    let (postgres_tls, flight_tls) = (acceptor(tls_files, "postgresql")?, acceptor(tls_files, "h2")?);
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
    let store = session.store().await?;
    let pushdown = args.pushdown.in_store(&*store);
    let settings = Settings { pushdown, changes: false, ..Settings::default() };
    let limits = Limits {
        memory_bytes: usize::try_from(args.user_memory_max).unwrap_or(usize::MAX),
        queries: args.user_queries_max as usize,
        query_time: Duration::from_secs(args.query_seconds_max),
    };
    let users = Arc::new(Users::new(Access::new(identities, args.allow), store, settings, limits)?);
    print_start(session, postgres.as_ref(), flight.as_ref(), tls_files.is_some(), first.as_ref())?;
    let stop = watch::Sender::new(false);
    let stopped = async {
        interrupt::wait().await;
        stop.send_replace(true);
    };
    let serve_postgres = async {
        if let Some((listener, _)) = postgres {
            let server = PostgresServer::new(Arc::clone(&users), postgres_tls, environment.clone());
            Arc::new(server).serve(listener, args.connections_max, stop.subscribe()).await;
        }
    };
    let serve_flight = async {
        if let Some((listener, _)) = flight {
            let server = FlightServer::new(Arc::clone(&users), flight_tls, environment.clone());
            server.serve(listener, args.connections_max, stop.subscribe()).await?;
        }
        Ok::<_, Error>(())
    };
    let ((), (), served) = tokio::join!(stopped, serve_postgres, serve_flight);
    served?;
    Err(Failure::Interrupted)
}

async fn listen(address: Option<SocketAddr>) -> Result<Option<(TcpListener, SocketAddr)>> {
    let Some(address) = address else { return Ok(None) };
    let failed = |error| {
        Error::io(Action::Admin, "cannot listen on this address; choose another one", error)
            .with("address", address)
    };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    Ok(Some((listener, address)))
}

fn acceptor(files: Option<(&Path, &Path)>, protocol: &str) -> Result<Option<TlsAcceptor>> {
    files.map(|(certificates, key)| tls::acceptor(certificates, key, None, &[protocol])).transpose()
}

fn print_start(
    session: &Session,
    postgres: Option<&(TcpListener, SocketAddr)>,
    flight: Option<&(TcpListener, SocketAddr)>,
    has_tls: bool,
    first: Option<&NewKey>,
) -> Outcome {
    let postgres = postgres.map(|(_, address)| {
        let mode = if has_tls { "?sslmode=require" } else { "" };
        format!("postgresql://{address}/{DATABASE}{mode}")
    });
    let scheme = if has_tls { "grpc+tls" } else { "grpc" };
    let flight = flight.map(|(_, address)| format!("{scheme}://{address}"));
    let urls: Vec<&str> = [&postgres, &flight].into_iter().flatten().map(String::as_str).collect();
    let mut text = format!("serving SQL over {} as {}", session.uri(), urls.join(" and "));
    match first {
        None => text += "\n`benthic s3 key create ACCOUNT/USER` creates a key; Ctrl-C stops the server",
        Some(NewKey { access_key, secret }) => {
            text += &format!(
                "\n\nThis is the first start. It created the account {FIRST_ACCOUNT} with the user {FIRST_USER} and this key, \
                 which cannot be shown again:\n\n  user      {access_key}\n  password  {secret}\n"
            );
            if let Some(url) = &postgres {
                text += &format!(
                    "\nPaste into another shell:\n\n  PGUSER={access_key} PGPASSWORD={secret} psql '{url}'\n"
                );
            }
            text += "\nCtrl-C stops the server";
        }
    }
    session.out.result(text, || {
        json!({
            "postgres_url": postgres,
            "flight_url": flight,
            "account": first.map(|_| FIRST_ACCOUNT),
            "user": first.map(|_| FIRST_USER),
            "access_key": first.map(|key| key.access_key.as_str()),
            "secret_key": first.map(|key| key.secret.as_str()),
        })
    })?;
    session.out.flush()
}
