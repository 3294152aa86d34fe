//! `benthic sql`.

use super::rows::{self, Format};
use benthic_cli::exit::Outcome;
use benthic_cli::store::Session;
use benthic_core::ObjectAddress;
use benthic_sql::choice::Pushdown;
use benthic_sql::object::DataObject;
use benthic_sql::objects::Objects;
use benthic_sql::session;
use clap::Args;
use std::sync::Arc;

const EXAMPLES: &str = "The object is the table `object`.\n\nExamples:\n  \
    benthic sql --object lake/trips.parquet 'DESCRIBE object'\n  \
    benthic sql --object lake/trips.parquet 'SELECT count(*) FROM object WHERE distance > 30'\n  \
    benthic sql --object lake/trips.parquet 'EXPLAIN ANALYZE SELECT max(fare) FROM object WHERE distance > 30'";

/// Arguments of `benthic sql`.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct SqlArgs {
    /// The object: POOL/OBJECT or POOL:NAMESPACE/OBJECT
    #[arg(long)]
    object: ObjectAddress,
    /// Where what can run beside the object runs
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
    let default = if session.out.is_json() { Format::Json } else { Format::Table };
    let pool = session.pool(&args.object.pool).await?;
    let object = Arc::new(DataObject::open(pool, args.object.clone()).await?);
    let objects = Objects::of_one(object).await?;
    let rows = session::query(objects, pushdown, &args.sql).await?;
    // The query may name no object; here there is only one.
    let name = |error: benthic_core::Error| error.with("object", &args.object);
    rows::print(&session.out, rows, args.output.unwrap_or(default), name).await
}
