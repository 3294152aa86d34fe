//! `benthic sql`: runs queries over tables, or over one Parquet object.

use super::rows::{self, Format};
use super::{one_of, prompt};
use benthic_core::{Error, ObjectAddress, Store};
use benthic_program::exit::{Failure, Outcome};
use benthic_program::session::Session;
use benthic_sql::choice::Pushdown;
use benthic_sql::object::DataObject;
use benthic_sql::objects::Objects;
use benthic_sql::session::{self, Settings, SqlSession};
use benthic_sql::work::Work;
use clap::Args;
use std::io::{self, IsTerminal};
use std::sync::Arc;

const EXAMPLES: &str = "A table is POOL.TABLE. With --object, the object is the table `object`.\n\nExamples:\n  \
    benthic sql 'SELECT day, sum(fare) FROM lake.trips WHERE distance > 30 GROUP BY day'\n  \
    benthic sql 'EXPLAIN ANALYZE SELECT max(fare) FROM lake.trips WHERE distance > 30'\n  \
    benthic sql --object lake/trips.parquet 'SELECT count(*) FROM object WHERE distance > 30'";

const PUSHDOWN: [(&str, &str, Pushdown); 3] = [
    (
        "auto",
        "The faster place: measured during the query on a cluster, always the client for a store on this machine",
        Pushdown::Auto,
    ),
    ("always", "Beside each object that accepts the fragment", Pushdown::Always),
    ("never", "In the client", Pushdown::Never),
];

/// Arguments of `benthic sql`.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct SqlArgs {
    /// Query this Parquet object instead of tables: POOL/OBJECT or POOL:NAMESPACE/OBJECT
    #[arg(long)]
    object: Option<ObjectAddress>,
    /// Where to run the parts of the query that can run beside the objects
    #[arg(long, value_parser = one_of(&PUSHDOWN), default_value = "auto")]
    pushdown: Pushdown,
    /// Do not use indexes
    #[arg(long, hide = true)]
    no_index: bool,
    /// Output format; by default a table, or JSON with --json
    #[arg(long, value_enum)]
    output: Option<Format>,
    /// The query; without it, queries come from a prompt, or from stdin if that is not a terminal
    sql: Option<String>,
}

pub async fn run(args: SqlArgs, session: &Session) -> Outcome {
    session.out.end_with_reader();
    let default = if session.out.is_json() { Format::Json } else { Format::Table };
    let format = args.output.unwrap_or(default);
    if matches!(format, Format::Arrow | Format::Parquet) && io::stdout().is_terminal() {
        return Err(Failure::Usage(
            "this format is binary; redirect it to a file: … > rows.parquet".to_owned(),
        ));
    }
    let Some(address) = &args.object else {
        let store = session.store().await?;
        let settings = settings(&args, &*store);
        let queries = SqlSession::new(store, settings);
        return match &args.sql {
            Some(sql) => answer(session, &queries, format, sql).await.map(drop),
            None => prompt::run(session, &queries, format).await,
        };
    };
    let Some(sql) = &args.sql else {
        let message = "--object needs a query as an argument; leave out --object for a prompt";
        return Err(Failure::Usage(message.to_owned()));
    };
    let settings = settings(&args, &*session.store().await?);
    let pool = session.pool(&address.pool).await?;
    let object = Arc::new(DataObject::open(pool, address.clone()).await?);
    let rows = session::query(Objects::of_one(object).await?, &settings, sql).await?;
    // An error of the query may lack the object. There is only one here, so add it.
    let named = |error: Error| error.with("object", address);
    rows::print(&session.out, rows, &Work::default(), format, named).await.map(drop)
}

fn settings(args: &SqlArgs, store: &dyn Store) -> Settings {
    let pushdown = args.pushdown.in_store(store);
    Settings { pushdown, index: !args.no_index, ..Settings::default() }
}

/// Answers one query of tables, and returns its number of rows.
pub async fn answer(session: &Session, queries: &SqlSession, format: Format, sql: &str) -> Outcome<usize> {
    let work = Arc::default();
    let rows = queries.query_with_work(sql, &work).await?;
    rows::print(&session.out, rows, &work, format, |error| error).await
}
