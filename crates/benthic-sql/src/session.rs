//! SQL sessions: plan queries and return their rows as streams.
//!
//! A query starts in four steps. The session parses the statement. It opens each table that the
//! statement names, once, so that a query that names a table twice sees one snapshot of it.
//! DataFusion plans the query with our additional rules, which decide which parts run beside the
//! objects. Then DataFusion starts the plan. A statement that changes a table becomes a query
//! first, see [`changes`]. The session refuses other statements that write, with a hint to the
//! `benthic` command to use.

use crate::all_match::{AllAsAny, all_match};
use crate::bounded;
use crate::changes::{Change, TARGET, Target, TargetRows};
use crate::common_subplan::SharingPlanner;
use crate::elements::ElementsOfLists;
use crate::errors::from_datafusion;
use crate::files;
use crate::join_filter::{JOIN_KEYS_BYTES_MAX, JOIN_KEYS_MAX};
use crate::json_operators::{self, JsonOperators};
use crate::lambdas;
use crate::literals;
use crate::object::{MetadataCache, Reading};
use crate::object_calls;
use crate::objects::{FILE_URL, Objects};
use crate::plan::scanned_entries;
use crate::prepared::{self, PreparedQuery};
use crate::record::{Recorder, Recording};
use crate::relations::{paths, quoted, without_pool};
use crate::rule::{FragmentPushdown, IndexLookup, KeepNanRows};
use crate::table::TableRows;
use crate::travel;
use crate::wasm::{self, WasmFiltersLast};
use crate::work::Work;
use arrow::datatypes::SchemaRef;
use benthic_core::pushdown::Pushdown;
use benthic_core::{Environment, Error, ErrorKind, Pool, Result, Store};
use benthic_fragment::fragment::{OBJECT_URL, own_aggregates};
use benthic_fragment::wasm::{Methods, NAME, WasmFunction};
use benthic_fragment::{json, text_search};
use benthic_table::ids::TableObject;
use benthic_table::{FileEntry, Snapshot, SnapshotSelector, Table, suggest};
use benthic_wasm::Calls;
use datafusion::catalog::{MemorySchemaProvider, SchemaProvider, TableProvider};
use datafusion::common::{Column, DFSchema, DataFusionError, TableReference};
use datafusion::execution::FunctionRegistry;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::MemoryPool;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::{AggregateUDF, Expr, ScalarUDF};
use datafusion::object_store::memory::InMemory;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::prelude::{DataFrame, SessionConfig, SessionContext};
use datafusion::sql::parser::{DFParser, Statement};
use datafusion::sql::resolve::resolve_table_references;
use datafusion::sql::sqlparser::ast;
use futures::future::BoxFuture;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

/// Name of the table in a query of one object.
pub const OBJECT_TABLE: &str = "object";
/// The catalog of all tables. Its schemas are the pools.
const CATALOG: &str = "benthic";
/// The schema of tables without a pool.
const NO_POOL: &str = "public";
/// The schema of SQL's views of all tables and columns.
const INFORMATION_SCHEMA: &str = "information_schema";
/// The query that answers `SHOW TABLES`.
const SHOW_TABLES: &str = "SELECT table_schema AS pool, table_name AS \"table\" \
    FROM information_schema.tables WHERE table_type = 'BASE TABLE' ORDER BY pool, \"table\"";

/// A join builds one hash table for all partitions up to this size of its smaller side, divided by
/// the number of partitions.
const BUILD_ROWS_MAX: usize = 6_000_000;
const BUILD_BYTES_MAX: usize = 200_000_000;

/// A hint for unknown names: SQL folds unquoted names to lower case.
const CAPITALS_NEED_QUOTES: &str = "names with capital letters need double quotes";

/// Settings of queries.
#[derive(Clone, Debug)]
pub struct Settings {
    pub pushdown: Pushdown,
    /// Whether statistics exclude objects that cannot have matching rows.
    pub pruning: bool,
    /// Whether scans use the tables' indexes.
    pub index: bool,
    /// Whether queries may read local files by their path. Only a program whose user may read
    /// these files anyway may allow it.
    pub local_files: bool,
    /// Number of partitions that run concurrently, at least 1.
    pub partitions: usize,
    /// Whether statements may change tables.
    pub changes: bool,
    /// Whether and when queries are recorded, for tables that record access.
    pub recording: Recording,
    /// The memory that queries share for sorting, joining and grouping rows. Sorts and groups that
    /// need more use temporary files. No limit if absent.
    pub memory: Option<Arc<dyn MemoryPool>>,
    /// The clock that measures fragments, and the source of identifiers.
    pub environment: Environment,
}

impl Default for Settings {
    fn default() -> Settings {
        let partitions = std::thread::available_parallelism().map_or(1, usize::from);
        Settings {
            pushdown: Pushdown::Auto,
            pruning: true,
            index: true,
            local_files: false,
            changes: true,
            recording: Recording::default(),
            partitions,
            memory: None,
            environment: Environment::default(),
        }
    }
}

/// The columns and rows to read from a table.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Columns, in this order. All columns if absent.
    pub columns: Option<Vec<String>>,
    /// Conditions that rows must all satisfy.
    pub filters: Vec<Expr>,
    /// Another condition, in the syntax of SQL's WHERE.
    pub sql: Option<String>,
    /// Row limit; which rows is unspecified.
    pub limit: Option<usize>,
    /// Names of the data objects to read. All objects if absent.
    pub objects: Option<Vec<String>>,
}

/// A table and its columns.
#[derive(Clone, Debug)]
pub struct TableColumns {
    pub pool: String,
    pub name: String,
    pub schema: SchemaRef,
}

/// A query that is being planned. The future is boxed, so that the planner's code is compiled in
/// this crate and not once more in each program and test that awaits it.
pub type StartingQuery<'a> = BoxFuture<'a, Result<SendableRecordBatchStream>>;

/// Runs queries over the tables of a store.
pub struct SqlSession {
    store: Arc<dyn Store>,
    pub(crate) settings: Settings,
    footers: MetadataCache,
    recorder: Recorder,
}

impl SqlSession {
    pub fn new(store: Arc<dyn Store>, settings: Settings) -> SqlSession {
        let recorder = Recorder::default().with_recording(settings.recording);
        SqlSession { store, settings, footers: MetadataCache::default(), recorder }
    }

    /// A session with other settings that shares this session's caches.
    pub fn with_settings(&self, settings: Settings) -> SqlSession {
        let (store, footers) = (Arc::clone(&self.store), self.footers.clone());
        let recorder = self.recorder.with_recording(settings.recording);
        SqlSession { store, settings, footers, recorder }
    }

    /// Starts to read a part of a snapshot. The stream produces rows on demand, and dropping it
    /// cancels the work.
    ///
    /// # Errors
    /// `InvalidArgument` for unknown columns, with a hint, and for invalid filters; `NotFound` if
    /// the snapshot lacks a selected object.
    pub fn select(&self, snapshot: Snapshot, selection: Selection) -> StartingQuery<'_> {
        Box::pin(async {
            let rows = prepared::start(self.plan_select(snapshot, selection).await?).await;
            rows.map_err(|error| from_datafusion(&error))
        })
    }

    /// The data objects that a selection reads: those that statistics do not exclude.
    ///
    /// # Errors
    /// Errors of [`select`](SqlSession::select).
    pub fn objects(&self, snapshot: Snapshot, selection: Selection) -> BoxFuture<'_, Result<Vec<FileEntry>>> {
        // A fragment would hide the scan, and several partitions would change the order of the
        // objects.
        let settings = Settings { pushdown: Pushdown::Never, partitions: 1, ..self.settings.clone() };
        let session = self.with_settings(settings);
        // One column, because the statistics of columns without a condition are not needed.
        let columns = snapshot.schema().columns().first().map(|column| vec![column.name.clone()]);
        let selection = Selection { columns, ..selection };
        Box::pin(async move {
            let plan = session.plan_select(snapshot, selection).await?.create_physical_plan().await;
            Ok(scanned_entries(&plan.map_err(|error| from_datafusion(&error))?))
        })
    }

    async fn plan_select(&self, snapshot: Snapshot, selection: Selection) -> Result<DataFrame> {
        for name in selection.columns.iter().flatten() {
            snapshot
                .schema()
                .by_name(name)
                .map_err(|error| error.with("table", snapshot.table().address()))?;
        }
        let reading = self.reading(&Arc::default());
        reading.work.note_round_trip(&snapshot);
        let context = context(&self.settings, &reading.work)?;
        // The real condition is parsed below, with the columns. An error there is the better one.
        let condition = selection.sql.iter().map(|sql| format!("SELECT 1 WHERE {sql}"));
        for statement in condition.filter_map(|sql| parse(&context.state(), &sql).ok()) {
            let pool = Arc::clone(snapshot.table().pool());
            find_methods(&context, &statement, &[pool]).await?;
        }
        let name = snapshot.table().name().to_owned();
        let only = table_objects(selection.objects)
            .map_err(|error| error.with("table", snapshot.table().address()))?;
        let rows = self.table_rows(snapshot, reading).with_objects(only);
        let rows = || {
            let mut rows = context.read_table(Arc::new(rows))?.alias(&quoted(&name))?;
            if let Some(sql) = &selection.sql {
                let filter = parse_condition(&context.state(), sql, rows.schema())?;
                rows = rows.filter(filter)?;
            }
            for filter in selection.filters {
                rows = rows.filter(filter)?;
            }
            if let Some(columns) = selection.columns {
                rows = rows.select(columns.into_iter().map(|name| Expr::from(Column::from_name(name))))?;
            }
            if let Some(limit) = selection.limit {
                rows = rows.limit(0, Some(limit))?;
            }
            Ok(rows)
        };
        rows().map_err(|error: DataFusionError| from_datafusion(&error))
    }

    /// Starts a query. The SQL text names tables as POOL.TABLE, and local files by their path in
    /// quotes. The query reads the current snapshot of each table. The stream produces rows on
    /// demand, and dropping it cancels the work.
    ///
    /// # Errors
    /// `InvalidArgument` for invalid SQL; `NotFound` for an unknown table, pool or file;
    /// `Unsupported` for SQL that does more than read, and for local files that the settings do not
    /// allow.
    pub fn query<'a>(&'a self, sql: &'a str) -> StartingQuery<'a> {
        Box::pin(async { self.query_with_work(sql, &Arc::default()).await })
    }

    /// Like [`query`](SqlSession::query), and counts the query's progress in `work`.
    ///
    /// # Errors
    /// Errors of `query`.
    pub fn query_with_work<'a>(&'a self, sql: &'a str, work: &'a Arc<Work>) -> StartingQuery<'a> {
        Box::pin(self.start_query(sql, work))
    }

    async fn start_query(&self, sql: &str, work: &Arc<Work>) -> Result<SendableRecordBatchStream> {
        let context = context(&self.settings, work)?;
        let statement = parse(&context.state(), &travel::rewrite(sql)?)?;
        if let Statement::Statement(inner) = &statement
            && self.settings.changes
            && let Some(change) = Change::of(inner)?
        {
            return self.change(&change, work).await?.into_rows();
        }
        self.plan_statement(context, statement, work).await?.start().await
    }

    /// Plans a query, which may have parameters such as `$1`, without starting it. The query reads
    /// the snapshots that are current now.
    ///
    /// # Errors
    /// Errors of [`query`](SqlSession::query).
    pub fn prepare<'a>(&'a self, sql: &'a str, work: &'a Arc<Work>) -> BoxFuture<'a, Result<PreparedQuery>> {
        Box::pin(self.plan_query(sql, work))
    }

    async fn plan_query(&self, sql: &str, work: &Arc<Work>) -> Result<PreparedQuery> {
        let context = context(&self.settings, work)?;
        let statement = parse(&context.state(), &travel::rewrite(sql)?)?;
        self.plan_statement(context, statement, work).await
    }

    async fn plan_statement(
        &self,
        context: SessionContext,
        statement: Statement,
        work: &Arc<Work>,
    ) -> Result<PreparedQuery> {
        check_read_only(&statement, suggest_table_command)?;
        if matches!(&statement, Statement::Statement(statement) if matches!(**statement, ast::Statement::ShowTables { .. }))
        {
            // DataFusion's own answer would include the tables of the information schema.
            return self.prepare(SHOW_TABLES, work).await;
        }
        self.plan(context, statement, work, None).await
    }

    /// Starts a query that is a part of a statement, see [`plan`](SqlSession::plan).
    pub(crate) async fn start_part(
        &self,
        sql: &str,
        work: &Arc<Work>,
        target: Option<&Target>,
    ) -> Result<SendableRecordBatchStream> {
        let context = context(&self.settings, work)?;
        let statement = parse(&context.state(), sql)?;
        self.plan(context, statement, work, target).await?.start().await
    }

    /// Plans a statement that only reads. With a target, the statement reads also the places of
    /// the target's rows, and reads the target in this snapshot.
    async fn plan(
        &self,
        context: SessionContext,
        statement: Statement,
        work: &Arc<Work>,
        target: Option<&Target>,
    ) -> Result<PreparedQuery> {
        let reading = self.reading(work);
        let state = context.state();
        let names = state.resolve_table_references(&statement).map_err(|error| from_datafusion(&error))?;
        let mut pools = BTreeMap::new();
        for name in &names {
            match (name.catalog(), name.schema()) {
                (_, Some(INFORMATION_SCHEMA)) => self.register_all_tables(&context, &reading).await?,
                (None | Some(CATALOG), Some(pool)) => {
                    let is_target = |target: &&Target| target.name.pool == pool;
                    let snapshot = match target.filter(is_target) {
                        Some(target) if name.table() == TARGET => {
                            let rows = self.table_rows(target.snapshot.clone(), reading.clone());
                            let rows = TargetRows::new(rows, Arc::clone(&target.objects));
                            register(&context, pool, TARGET, Arc::new(rows))?;
                            target.snapshot.clone()
                        }
                        Some(target) if name.table() == target.name.table => target.snapshot.clone(),
                        _ => self.snapshot(pool, name.table()).await?,
                    };
                    work.note_round_trip(&snapshot);
                    pools.insert(pool.to_owned(), Arc::clone(snapshot.table().pool()));
                    if name.table() != TARGET {
                        self.register_snapshot(&context, (pool, name.table()), snapshot, &reading)?;
                    }
                }
                _ => {}
            }
        }
        for path in paths(&statement, &names) {
            self.register_files(&context, &path, work).await?;
        }
        let pools: Vec<_> = pools.into_values().collect();
        find_methods(&context, &statement, &pools).await?;
        let calls = object_calls::resolve(self, object_calls::named_calls(&statement)).await?;
        context.register_udtf(NAME, Arc::new(calls));
        let unknown = without_pool(&context, &statement, &names);
        match context.state().statement_to_plan(statement).await {
            Ok(plan) => PreparedQuery::new(context, plan),
            Err(error) => Err(self.explain(&error, unknown.first()).await),
        }
    }

    pub(crate) async fn pool(&self, name: &str) -> Result<Arc<dyn Pool>> {
        match self.store.open_pool(name).await {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let pools = self.store.list_pools().await?;
                let message = match suggest(name, pools.iter().map(String::as_str)) {
                    Some(pool) if has_capitals(pool) => {
                        format!("no such pool; did you mean {pool:?}; {CAPITALS_NEED_QUOTES}")
                    }
                    Some(pool) => format!("no such pool; did you mean {pool:?}"),
                    None => format!("no such pool; a table is POOL.TABLE; {CAPITALS_NEED_QUOTES}"),
                };
                Err(Error::not_found(message).with("pool", name))
            }
            opened => opened,
        }
    }

    /// Opens a table, whose name may select a snapshot as [`travel`] writes it.
    pub(crate) async fn snapshot(&self, pool: &str, table: &str) -> Result<Snapshot> {
        let pool = self.pool(pool).await?;
        let (table, at) = travel::selector(table);
        let environment = self.settings.environment.clone();
        let error = match Table::open_snapshot(Arc::clone(&pool), table, at, environment).await {
            Err(error) if error.kind() == ErrorKind::NotFound => error,
            opened => return opened,
        };
        match Table::suggest(&pool, table).await {
            Ok(Some(hint)) if has_capitals(&hint) => {
                let message = format!("{}; {CAPITALS_NEED_QUOTES}", error.message());
                let longer = Error::new(error.kind(), message);
                Err(error.context().fold(longer, |longer, (key, value)| longer.with(key, value)))
            }
            _ => Err(error),
        }
    }

    fn reading(&self, work: &Arc<Work>) -> Reading {
        let (footers, recorder) = (self.footers.clone(), self.recorder.clone());
        Reading { footers, recorder, work: Arc::clone(work) }
    }

    fn table_rows(&self, snapshot: Snapshot, reading: Reading) -> TableRows {
        TableRows::new(snapshot, reading).with_pruning(self.settings.pruning).with_index(self.settings.index)
    }

    fn register_snapshot(
        &self,
        context: &SessionContext,
        (pool, name): (&str, &str),
        snapshot: Snapshot,
        reading: &Reading,
    ) -> Result<()> {
        let rows = self.table_rows(snapshot, reading.clone());
        register(context, pool, name, Arc::new(rows))
    }

    async fn register_files(&self, context: &SessionContext, path: &str, work: &Arc<Work>) -> Result<()> {
        if !self.settings.local_files {
            let message = "this session reads no local files; `benthic sql` does, and `benthic table create` \
                 loads them into a table";
            return Err(Error::unsupported(message).with("path", path));
        }
        let table = files::table(path, self.settings.partitions.max(1), work).await?;
        register(context, NO_POOL, path, table)
    }

    /// Registers every table of the store, so that the information schema lists it.
    async fn register_all_tables(&self, context: &SessionContext, reading: &Reading) -> Result<()> {
        for (pool, snapshot) in self.all_snapshots().await? {
            let name = snapshot.table().name().to_owned();
            self.register_snapshot(context, (&pool, &name), snapshot, reading)?;
        }
        Ok(())
    }

    /// The columns of every table of the store, without tables that cannot be read.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn tables(&self) -> Result<Vec<TableColumns>> {
        let columns = |(pool, snapshot): (String, Snapshot)| {
            let name = snapshot.table().name().to_owned();
            let rows = self.table_rows(snapshot, self.reading(&Arc::default()));
            TableColumns { pool, name, schema: rows.schema() }
        };
        Ok(self.all_snapshots().await?.into_iter().map(columns).collect())
    }

    async fn all_snapshots(&self) -> Result<Vec<(String, Snapshot)>> {
        let mut all = Vec::new();
        for name in self.store.list_pools().await? {
            let pool = self.store.open_pool(&name).await?;
            for entry in Table::list(Arc::clone(&pool)).await? {
                // Queries do not see a table that cannot be read. `benthic table ls` shows the
                // reason.
                let pool = Arc::clone(&pool);
                let environment = self.settings.environment.clone();
                let snapshot =
                    Table::open_snapshot(pool, &entry.name, SnapshotSelector::Current, environment);
                if let Ok(snapshot) = snapshot.await {
                    all.push((name.clone(), snapshot));
                }
            }
        }
        Ok(all)
    }

    /// Explains why DataFusion cannot plan a statement. If the statement has a table name without a
    /// pool, `unknown`, the error suggests the pools that have such a table. Otherwise it is
    /// DataFusion's error.
    async fn explain(&self, error: &DataFusionError, unknown: Option<&TableReference>) -> Error {
        let (DataFusionError::Plan(_), Some(name)) = (error.find_root(), unknown) else {
            return from_datafusion(error);
        };
        let mut found = Vec::new();
        for pool in self.store.list_pools().await.unwrap_or_default() {
            if let Ok(opened) = self.store.open_pool(&pool).await
                && Table::open(opened, name.table(), self.settings.environment.clone()).await.is_ok()
            {
                found.push(format!("{pool}.{}", name.table()));
            }
        }
        let message = match found.as_slice() {
            [] => "no such table; a table is POOL.TABLE, and `benthic table ls` lists them".to_owned(),
            found => format!("a table is POOL.TABLE; did you mean {}", found.join(" or ")),
        };
        Error::not_found(message).with("table", name.table())
    }
}

/// Splits a text into SQL statements.
///
/// # Errors
/// `InvalidArgument` for invalid SQL.
pub fn statements(text: &str) -> Result<Vec<String>> {
    let statements = DFParser::parse_sql(&travel::rewrite(text)?).map_err(|error| from_datafusion(&error))?;
    Ok(statements.iter().map(ToString::to_string).collect())
}

/// Whether a query reads from the store, and not only local files. False for invalid SQL.
pub fn reads_store(sql: &str) -> bool {
    let Ok(sql) = travel::rewrite(sql) else { return true };
    let statements = DFParser::parse_sql(&sql).unwrap_or_default();
    statements.iter().any(|statement| {
        if let Statement::Statement(inner) = statement
            && !matches!(Change::of(inner), Ok(None))
        {
            return true;
        }
        let Ok((names, _)) = resolve_table_references(statement, true) else { return false };
        let paths = paths(statement, &names);
        names.iter().any(|name| name.schema().is_some() || !paths.contains(name.table()))
    })
}

fn table_objects(names: Option<Vec<String>>) -> Result<Option<HashSet<TableObject>>> {
    let parse = |name: String| {
        let message = "a table has no data object of this name";
        TableObject::parse(&name).ok_or_else(|| Error::invalid_argument(message).with("object", name))
    };
    names.map(|names| names.into_iter().map(parse).collect()).transpose()
}

fn has_capitals(name: &str) -> bool {
    name.chars().any(char::is_uppercase)
}

/// Starts a query of objects, which form the table [`OBJECT_TABLE`]. The stream produces rows on
/// demand, and dropping it cancels the work.
///
/// # Errors
/// `InvalidArgument` for invalid SQL; `Unsupported` for SQL that does more than read.
pub fn query<'a>(objects: Objects, settings: &'a Settings, sql: &'a str) -> StartingQuery<'a> {
    Box::pin(start_query(objects, settings, sql))
}

async fn start_query(objects: Objects, settings: &Settings, sql: &str) -> Result<SendableRecordBatchStream> {
    let context = context(settings, &Arc::default())?;
    let pools: Vec<_> = objects.pool().cloned().into_iter().collect();
    register(&context, NO_POOL, OBJECT_TABLE, Arc::new(objects))?;
    let statement = parse(&context.state(), sql)?;
    check_read_only(&statement, |_| "`benthic put POOL/OBJECT FILE` writes an object")?;
    find_methods(&context, &statement, &pools).await?;
    let plan = context.state().statement_to_plan(statement).await;
    PreparedQuery::new(context, plan.map_err(|error| from_datafusion(&error))?)?.start().await
}

fn register(context: &SessionContext, pool: &str, name: &str, table: Arc<dyn TableProvider>) -> Result<()> {
    let catalog = context.catalog(CATALOG);
    let catalog = catalog.ok_or_else(|| Error::internal("the query engine has no catalog"))?;
    let schema = match catalog.schema(pool) {
        Some(schema) => schema,
        None => {
            let schema: Arc<dyn SchemaProvider> = Arc::new(MemorySchemaProvider::new());
            catalog.register_schema(pool, Arc::clone(&schema)).map_err(|error| from_datafusion(&error))?;
            schema
        }
    };
    if !schema.table_exist(name) {
        schema.register_table(name.to_owned(), table).map_err(|error| from_datafusion(&error))?;
    }
    Ok(())
}

pub(crate) fn context(settings: &Settings, work: &Arc<Work>) -> Result<SessionContext> {
    let mut rules = PhysicalOptimizer::new().rules;
    rules.push(Arc::new(WasmFiltersLast));
    rules.push(Arc::new(IndexLookup));
    rules.push(Arc::new(KeepNanRows));
    if settings.pushdown != Pushdown::Never {
        // This rule merges a partial and a final aggregate into one node. Keep them separate,
        // because only the partial aggregate can run beside the objects.
        rules.retain(|rule| rule.name() != "CombinePartialFinalAggregate");
        let pushdown = settings.pushdown;
        let work = Arc::clone(work);
        let clock = Arc::clone(&settings.environment.clock);
        let rule = FragmentPushdown { pushdown, work, clock };
        rules.push(Arc::new(rule) as Arc<dyn PhysicalOptimizerRule + Send + Sync>);
    }
    let mut config = SessionConfig::new()
        .with_default_catalog_and_schema(CATALOG, NO_POOL)
        .with_target_partitions(settings.partitions.max(1))
        .with_information_schema(true);
    let options = config.options_mut();
    // Without a session time zone, a literal with a zone would lose its zone.
    options.execution.time_zone = Some("+00:00".to_owned());
    // With this option, `min` and `max` push their current bounds as a filter into the scan below.
    // DataFusion leaves an aggregate without a bound out of the filter, so the scan skips rows that
    // this aggregate needs.
    options.optimizer.enable_aggregate_dynamic_filter_pushdown = false;
    if settings.pushdown != Pushdown::Never {
        // Fragments carry the keys of joins to the objects. They cannot carry the joins' hash
        // tables.
        options.optimizer.hash_join_inlist_pushdown_max_distinct_values = JOIN_KEYS_MAX;
        options.optimizer.hash_join_inlist_pushdown_max_size = JOIN_KEYS_BYTES_MAX;
    }
    if settings.pushdown == Pushdown::Never {
        // One hash table for all partitions needs no repartition of the larger side, but one thread
        // builds it while the others wait.
        let (rows, bytes) =
            (BUILD_ROWS_MAX / settings.partitions.max(1), BUILD_BYTES_MAX / settings.partitions.max(1));
        let optimizer = &mut options.optimizer;
        optimizer.hash_join_single_partition_threshold_rows =
            optimizer.hash_join_single_partition_threshold_rows.max(rows);
        optimizer.hash_join_single_partition_threshold =
            optimizer.hash_join_single_partition_threshold.max(bytes);
    }
    let mut runtime = RuntimeEnvBuilder::new();
    if let Some(memory) = &settings.memory {
        runtime = runtime.with_memory_pool(Arc::clone(memory));
    }
    let runtime = runtime.build().map_err(|error| from_datafusion(&error))?;
    let state = SessionStateBuilder::new_with_default_features()
        .with_config(config)
        .with_runtime_env(Arc::new(runtime))
        .with_query_planner(Arc::new(SharingPlanner::default()))
        .with_physical_optimizer_rules(rules);
    let state = literals::with_rules(state)
        .with_analyzer_rule(Arc::new(ElementsOfLists))
        .with_analyzer_rule(Arc::new(AllAsAny));
    let mut context = SessionContext::new_with_state(state.build());
    context.register_higher_order_function(all_match());
    context.register_expr_planner(Arc::new(JsonOperators)).map_err(|error| from_datafusion(&error))?;
    // Replace `min` and `max` by versions that are correct for NaN and infinities, and quantiles by
    // one that needs no sort.
    for aggregate in own_aggregates() {
        context.register_udaf(AggregateUDF::clone(&aggregate));
    }
    for function in text_search::functions().into_iter().chain(json::functions()) {
        context.register_udf(ScalarUDF::clone(&function));
    }
    bounded::register(&context).map_err(|error| from_datafusion(&error))?;
    // A query that calls methods replaces it by one that has them.
    register_methods(&context, Methods::new());
    // DataFusion requires an object store for the scan's address. This one stays empty, because the
    // scan reads through its own reader.
    for url in [OBJECT_URL, FILE_URL] {
        let address = ObjectStoreUrl::parse(url).map_err(|error| from_datafusion(&error))?;
        context.register_object_store(address.as_ref(), Arc::new(InMemory::new()));
    }
    Ok(context)
}

fn register_methods(context: &SessionContext, methods: Methods) {
    let function = WasmFunction::new(methods, Calls::HERE, wasm::OUTPUT_BYTES_MAX);
    context.register_udf(ScalarUDF::from(function));
}

/// Finds the methods of deployed classes that a statement calls.
async fn find_methods(
    context: &SessionContext,
    statement: &Statement,
    pools: &[Arc<dyn Pool>],
) -> Result<()> {
    let names = wasm::named_methods(statement);
    if !names.is_empty() {
        register_methods(context, wasm::resolve(names, pools).await?);
    }
    Ok(())
}

fn parse(state: &SessionState, sql: &str) -> Result<Statement> {
    let dialect = state.config_options().sql_parser.dialect;
    let mut statement = state.sql_to_statement(sql, &dialect).map_err(|error| from_datafusion(&error))?;
    lambdas::rewrite(&mut statement, state.higher_order_functions());
    json_operators::rewrite(&mut statement);
    Ok(statement)
}

/// Parses a condition on rows with this schema.
fn parse_condition(state: &SessionState, sql: &str, schema: &DFSchema) -> datafusion::common::Result<Expr> {
    let dialect = state.config_options().sql_parser.dialect;
    let mut condition = state.sql_to_expr_with_alias(sql, &dialect)?;
    lambdas::rewrite_in(&mut condition.expr, state.higher_order_functions());
    json_operators::rewrite_in(&mut condition.expr);
    state.create_logical_expr_from_sql_expr(condition, schema)
}

/// Names the `benthic` command that does the work of the refused statement.
fn suggest_table_command(verb: &str) -> &str {
    match verb {
        "INSERT" | "UPDATE" | "DELETE" | "MERGE" => "`benthic sql` changes rows",
        "EXPLAIN INSERT" | "EXPLAIN UPDATE" | "EXPLAIN DELETE" | "EXPLAIN MERGE" => {
            "`benthic sql` changes rows, but does not explain how"
        }
        "CREATE" | "CREATE EXTERNAL TABLE" => "`benthic table create POOL/TABLE FILE` creates a table",
        "DROP" => "`benthic table drop POOL/TABLE` removes a table",
        "ALTER" => "`benthic table alter POOL/TABLE` changes columns",
        "COPY" => "`benthic sql --output csv 'SELECT …' > FILE` writes rows to a file",
        _ => "`benthic table` has commands that change tables",
    }
}

/// Refuses a statement that does more than read. `suggest_command` maps its verb to a hint.
fn check_read_only(statement: &Statement, suggest_command: fn(&str) -> &str) -> Result<()> {
    let Some(verb) = writing_verb(statement) else { return Ok(()) };
    Err(Error::unsupported(format!("{verb} is not allowed: queries only read; {}", suggest_command(&verb))))
}

/// The verb of a statement that does more than read, after EXPLAIN if the statement has it.
fn writing_verb(statement: &Statement) -> Option<String> {
    Some(match statement {
        Statement::Explain(explain) => format!("EXPLAIN {}", writing_verb(&explain.statement)?),
        Statement::CreateExternalTable(_) => "CREATE EXTERNAL TABLE".to_owned(),
        Statement::CopyTo(_) => "COPY".to_owned(),
        Statement::Reset(_) => "RESET".to_owned(),
        Statement::Statement(statement) => match &**statement {
            ast::Statement::Query(_)
            | ast::Statement::Explain { .. }
            | ast::Statement::ExplainTable { .. }
            | ast::Statement::ShowTables { .. }
            | ast::Statement::ShowColumns { .. } => return None,
            other => other.to_string().split_whitespace().next().unwrap_or("this").to_uppercase(),
        },
    })
}
