//! `benthic sql`: runs queries over tables and local files, or over one Parquet object.

use super::rows::{self, Format, View};
use super::{PUSHDOWN, one_of, prompt, serve};
use benthic_core::pushdown::Pushdown;
use benthic_core::{Error, ObjectAddress, Result, Stopwatch, Store, SystemClock};
use benthic_program::exit::{Failure, Outcome};
use benthic_program::interrupt;
use benthic_program::session::Session;
use benthic_sql::object::DataObject;
use benthic_sql::objects::Objects;
use benthic_sql::record::Recording;
use benthic_sql::session::{self, Settings, SqlSession};
use benthic_sql::work::Work;
use clap::{Args, Subcommand};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::OnceCell;

const EXAMPLES: &str = "\
A table is POOL.TABLE. A local file is its path in quotes: Parquet, CSV, TSV, JSON lines or Arrow, a pattern with \
wildcards, or a directory. With --object, the object is the table `object`.

Examples:
  benthic sql 'SELECT day, sum(fare) FROM lake.trips WHERE distance > 30 GROUP BY day'
  benthic sql \"SELECT city, count(*) FROM 'trips/*.parquet' GROUP BY city\"
  benthic sql 'EXPLAIN ANALYZE SELECT max(fare) FROM lake.trips WHERE distance > 30'
  benthic sql --object lake/trips.parquet 'SELECT count(*) FROM object WHERE distance > 30'
  benthic sql serve";

/// Arguments of `benthic sql`.
#[derive(Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub struct SqlArgs {
    #[command(subcommand)]
    command: Option<SqlCommand>,
    /// Query this Parquet object instead of tables: POOL/OBJECT or POOL:NAMESPACE/OBJECT
    #[arg(long)]
    object: Option<ObjectAddress>,
    /// Where to run the parts of the query that can run beside the objects
    #[arg(long, value_parser = one_of(&PUSHDOWN), default_value = "auto")]
    pushdown: Pushdown,
    /// Refuse statements that change tables
    #[arg(long)]
    read_only: bool,
    /// Refuse queries of local files
    #[arg(long)]
    no_local_files: bool,
    /// Do not use indexes
    #[arg(long, hide = true)]
    no_index: bool,
    /// Output format; by default a table, or JSON with --json
    #[arg(long, value_enum)]
    output: Option<Format>,
    /// Show all rows on a terminal, instead of the first 40
    #[arg(long)]
    all: bool,
    /// The query; without it, queries come from a prompt, or from stdin if that is not a terminal
    sql: Option<String>,
}

/// The verbs of `benthic sql`.
#[derive(Subcommand)]
enum SqlCommand {
    /// Serve SQL to clients of Postgres and of Arrow Flight SQL, such as psql and BI tools
    Serve(serve::ServeArgs),
}

pub async fn run(mut args: SqlArgs, session: &Session) -> Outcome {
    if let Some(SqlCommand::Serve(args)) = args.command.take() {
        return serve::run(args, session).await;
    }
    let view = View::of_options(&session.out, args.output, args.all)?;
    let Some(address) = &args.object else {
        let (of_store, of_files) = (OnceCell::new(), OnceCell::new());
        let queries = Queries { session, args: &args, view, of_store, of_files, running: Mutex::default() };
        return match &args.sql {
            Some(sql) => queries.answer(sql, "--all").await,
            None => prompt::run(queries).await,
        };
    };
    let Some(sql) = &args.sql else {
        let message = "--object needs a query as an argument; leave out --object for a prompt";
        return Err(Failure::Usage(message.to_owned()));
    };
    let settings = settings(&args, &*session.store().await?);
    let pool = session.pool(&address.pool).await?;
    let start = Stopwatch::start(&SystemClock);
    let object = Arc::new(DataObject::open(pool, address.clone()).await?);
    let rows = session::query(Objects::of_one(object).await?, &settings, sql).await?;
    // An error of the query may lack the object. There is only one here, so add it.
    let named = |error: Error| error.with("object", address);
    let printed = rows::print(&session.out, rows, &Work::default(), &view, named).await?;
    view.summarize(&session.out, &printed, start.elapsed(), "--all")
}

fn settings(args: &SqlArgs, store: &dyn Store) -> Settings {
    let pushdown = args.pushdown.in_store(store);
    Settings {
        pushdown,
        index: !args.no_index,
        local_files: !args.no_local_files,
        changes: !args.read_only,
        recording: if args.read_only { Recording::Off } else { Recording::BeforeEnd },
        ..Settings::default()
    }
}

/// Answers queries of tables and local files. It opens the store for the first query that reads
/// from it, so that queries of files need none.
pub struct Queries<'a> {
    pub session: &'a Session,
    args: &'a SqlArgs,
    pub view: View,
    of_store: OnceCell<SqlSession>,
    of_files: OnceCell<SqlSession>,
    running: Mutex<Arc<Work>>,
}

impl Queries<'_> {
    /// Answers one query. `all` is what a user types to see all rows.
    pub async fn answer(&self, sql: &str, all: &str) -> Outcome {
        let queries = self.session_for(sql).await?;
        let work = Arc::new(Work::default());
        *self.running() = Arc::clone(&work);
        let start = Stopwatch::start(&SystemClock);
        let mut query = queries.query_with_work(sql, &work);
        let rows = tokio::select! {
            rows = &mut query => rows?,
            () = interrupt::wait() => match work.stop() {
                true => query.await?,
                false => return Err(Failure::Interrupted),
            },
        };
        let printed = rows::print(&self.session.out, rows, &work, &self.view, |error| error).await?;
        self.view.summarize(&self.session.out, &printed, start.elapsed(), all)
    }

    /// Requests that the running statement ends. Returns whether it needs time to undo a change.
    pub fn stop(&self) -> bool {
        self.running().stop()
    }

    fn running(&self) -> MutexGuard<'_, Arc<Work>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn session_for(&self, sql: &str) -> Result<&SqlSession> {
        let open = async |store: Arc<dyn Store>| -> Result<SqlSession> {
            let settings = settings(self.args, &*store);
            Ok(SqlSession::new(store, settings))
        };
        if session::reads_store(sql) {
            return self.of_store.get_or_try_init(async || open(self.session.store().await?).await).await;
        }
        let empty = self.session.for_store("mem:".to_owned());
        self.of_files.get_or_try_init(async || open(empty.store().await?).await).await
    }
}
