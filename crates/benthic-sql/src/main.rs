//! `benthic-sql`: SQL over a Parquet object from the command line.

mod output;
mod store;

use benthic_core::{Action, Error, ObjectAddress, Result};
use benthic_sql::choice::Pushdown;
use benthic_sql::errors::told;
use benthic_sql::object::DataObject;
use benthic_sql::objects::Objects;
use benthic_sql::session;
use clap::Parser;
use output::Format;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use store::Opened;

const EXAMPLES: &str = "The object is the table `object`.\n\nExamples:\n  \
    benthic-sql --object lake/trips.parquet 'DESCRIBE object'\n  \
    benthic-sql --object lake/trips.parquet 'SELECT count(*) FROM object WHERE distance > 30'\n  \
    benthic-sql --object lake/trips.parquet 'EXPLAIN ANALYZE SELECT max(fare) FROM object WHERE distance > 30'";

/// The exit status after Ctrl-C, as shells have it.
const INTERRUPTED: u8 = 130;

/// Queries a Parquet object with SQL; on a cluster, what can run beside the object runs there.
#[derive(Parser)]
#[command(name = "benthic-sql", version, after_help = EXAMPLES)]
struct Args {
    /// The store: file:DIR, ceph: (a cluster; ceph:?conf=FILE&id=client.x&read=near), or mem: (gone with the process)
    #[arg(long, value_name = "URI", env = "BENTHIC_STORE", default_value = store::DEFAULT_URI)]
    store: String,
    /// The object: POOL/OBJECT or POOL:NAMESPACE/OBJECT
    #[arg(long)]
    object: ObjectAddress,
    /// Where what can run beside the object runs
    #[arg(long, value_enum, default_value_t)]
    pushdown: Pushdown,
    /// How rows are printed
    #[arg(long, value_enum, default_value_t)]
    output: Format,
    /// Log to stderr; twice for more
    #[arg(short, long, action = clap::ArgAction::Count)]
    verbose: u8,
    /// The query
    sql: String,
}

fn main() -> ExitCode {
    let args = Args::parse();
    start_logging(args.verbose);
    let is_ceph = args.store.starts_with("ceph:");
    let status = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => {
            let status = runtime.block_on(run(args));
            runtime.shutdown_timeout(Duration::from_secs(1));
            status
        }
        Err(error) => failed(&Error::io(Action::Admin, "cannot start threads", error)),
    };
    if is_ceph {
        benthic_rados::end_process(status);
    }
    ExitCode::from(status)
}

async fn run(args: Args) -> u8 {
    let opened = match store::open(&args.store).await {
        Ok(opened) => opened,
        Err(error) => return failed(&error),
    };
    let status = tokio::select! {
        outcome = answer(&opened, &args) => outcome.map_or_else(|error| failed(&error), |()| 0),
        _ = tokio::signal::ctrl_c() => INTERRUPTED,
    };
    match opened.close().await {
        Err(error) if status == 0 => failed(&error),
        _ => status,
    }
}

async fn answer(opened: &Opened, args: &Args) -> Result<()> {
    let pushdown = match args.pushdown {
        Pushdown::Auto if !opened.is_remote => Pushdown::Never,
        pushdown => pushdown,
    };
    let pool = opened.store.open_pool(&args.object.pool).await?;
    let object = Arc::new(DataObject::open(pool, args.object.clone()).await?);
    let objects = Objects::of_one(object).await?;
    let rows = session::query(objects, pushdown, &args.sql).await?;
    // The query may name no object; here there is only one.
    output::print(rows, args.output).await.map_err(|error| told(&error).with("object", &args.object))
}

fn failed(error: &Error) -> u8 {
    output::error_line(error);
    error.kind().row().exit_status
}

fn start_logging(verbose: u8) {
    let level = match verbose {
        0 => tracing::Level::WARN,
        1 => tracing::Level::INFO,
        2 => tracing::Level::DEBUG,
        _ => tracing::Level::TRACE,
    };
    tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
}
