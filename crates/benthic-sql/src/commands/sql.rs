//! `benthic sql`.

use super::rows::{self, Format};
use benthic_cli::exit::Outcome;
use benthic_cli::store::Session;
use benthic_core::{Error, ObjectAddress};
use benthic_sql::choice::Pushdown;
use benthic_sql::object::DataObject;
use benthic_sql::objects::Objects;
use benthic_sql::session::{self, Settings, SqlSession};
use clap::Args;
use std::sync::Arc;

const EXAMPLES: &str = "A table is POOL.TABLE. With --object, the object is the table `object`.\n\nExamples:\n  \
    benthic sql 'SELECT day, sum(fare) FROM lake.trips WHERE distance > 30 GROUP BY day'\n  \
    benthic sql 'EXPLAIN ANALYZE SELECT max(fare) FROM lake.trips WHERE distance > 30'\n  \
    benthic sql --object lake/trips.parquet 'SELECT count(*) FROM object WHERE distance > 30'";

/// Arguments of `benthic sql`.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct SqlArgs {
    /// Query this Parquet object instead of tables: POOL/OBJECT or POOL:NAMESPACE/OBJECT
    #[arg(long)]
    object: Option<ObjectAddress>,
    /// Where what can run beside the objects runs
    #[arg(long, value_enum, default_value_t)]
    pushdown: Pushdown,
    /// How rows are printed; a table if it is not said, or JSON after --json
    #[arg(long, value_enum)]
    output: Option<Format>,
    /// The query
    sql: String,
}

pub async fn run(args: SqlArgs, session: &Session) -> Outcome {
    let pushdown = match args.pushdown {
        Pushdown::Auto if !session.is_ceph() => Pushdown::Never,
        pushdown => pushdown,
    };
    let settings = Settings { pushdown, ..Settings::default() };
    let default = if session.out.is_json() { Format::Json } else { Format::Table };
    let rows = match &args.object {
        Some(address) => {
            let pool = session.pool(&address.pool).await?;
            let object = Arc::new(DataObject::open(pool, address.clone()).await?);
            session::query(Objects::of_one(object).await?, &settings, &args.sql).await?
        }
        None => SqlSession::new(session.store().await?, settings).query(&args.sql).await?,
    };
    // The query may name no object; here there is only one.
    let named = |error: Error| match &args.object {
        Some(address) => error.with("object", address),
        None => error,
    };
    rows::print(&session.out, rows, args.output.unwrap_or(default), named).await
}
