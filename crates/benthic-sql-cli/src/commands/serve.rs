//! `benthic sql serve`: SQL for programs that speak Postgres' protocol or Arrow Flight SQL.

use super::{PUSHDOWN, one_of};
use benthic_core::pushdown::Pushdown;
use benthic_core::{Environment, Error, Result};
use benthic_program::exit::{Failure, Outcome};
use benthic_program::interrupt;
use benthic_program::serving::{TlsArgs, listen};
use benthic_program::session::Session;
use benthic_program::units;
use benthic_s3::grants::{Access, Grant};
use benthic_s3::identity::{FIRST_ACCOUNT, GATEWAY_POOL, NewKey, Started, add_first_key, first_key_text};
use benthic_sql::record::Recording;
use benthic_sql::session::Settings;
use benthic_sql_server::DATABASE;
use benthic_sql_server::flight::FlightServer;
use benthic_sql_server::postgres::PostgresServer;
use benthic_sql_server::users::{Limits, Users};
use clap::Args;
use serde_json::json;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::watch;

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
    /// Address for clients of Postgres; port 0 selects a free port [default: 127.0.0.1:5433, unless
    /// only --flight is given]
    #[arg(long, value_name = "ADDRESS")]
    postgres: Option<SocketAddr>,
    /// Address for clients of Arrow Flight SQL [default: 127.0.0.1:31337, unless only --postgres is
    /// given]
    #[arg(long, value_name = "ADDRESS")]
    flight: Option<SocketAddr>,
    /// Account whose users may query, all tables or those in some pools; can be repeated
    #[arg(long, value_name = "ACCOUNT[=POOL,…]", default_value = FIRST_ACCOUNT)]
    allow: Vec<Grant>,
    #[command(flatten)]
    tls: TlsArgs,
    /// Pool that stores the accounts and keys: the gateway's --pool
    #[arg(long, value_name = "POOL", default_value = GATEWAY_POOL)]
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
    for address in [postgres, flight].into_iter().flatten() {
        args.tls.check_address(address)?;
    }
    // Taken addresses and invalid files show before the store is opened.
    let (postgres, flight) = (listen_at(postgres).await?, listen_at(flight).await?);
    let (postgres_tls, flight_tls) = (args.tls.acceptor(&["postgresql"])?, args.tls.acceptor(&["h2"])?);
    let environment = Environment::default();
    let accounts = session.pool_or_create(&args.s3_pool, args.s3_pool == GATEWAY_POOL).await?;
    let started = Started::open(accounts, args.sealing_key.as_deref(), &environment).await?;
    let store = session.store().await?;
    let pushdown = args.pushdown.in_store(&*store);
    let recording = Recording::InBackground;
    let settings = Settings { pushdown, changes: false, recording, ..Settings::default() };
    let limits = Limits {
        memory_bytes: usize::try_from(args.user_memory_max).unwrap_or(usize::MAX),
        queries: args.user_queries_max as usize,
        query_time: Duration::from_secs(args.query_seconds_max),
    };
    let users = Arc::new(Users::new(Access::new(started.identities, args.allow), store, settings, limits)?);
    let has_tls = args.tls.is_given();
    print_start(session, postgres.as_ref(), flight.as_ref(), has_tls, started.first.as_ref())?;
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

async fn listen_at(address: Option<SocketAddr>) -> Result<Option<(TcpListener, SocketAddr)>> {
    if let Some(address) = address { listen(address).await.map(Some) } else { Ok(None) }
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
    let text = format!("serving SQL over {} as {}", session.uri(), urls.join(" and "));
    let example = |NewKey { access_key, secret }: &NewKey| match &postgres {
        Some(url) => {
            format!("\nPaste into another shell:\n\n  PGUSER={access_key} PGPASSWORD={secret} psql '{url}'\n")
        }
        None => String::new(),
    };
    let text = text + &first_key_text(first, ["user", "password"], example);
    session.out.result(text, || {
        let mut json = json!({ "postgres_url": postgres, "flight_url": flight });
        add_first_key(&mut json, first);
        json
    })?;
    session.out.flush()
}
