//! The table function `wasm('CLASS.METHOD', 'POOL/PREFIX', input)`: calls a reading method of a
//! deployed WebAssembly class beside each object whose name begins with the prefix. Each object is
//! a row.
//!
//! [`resolve`] finds the methods before the statement is planned: planning cannot wait for a pool.

use crate::errors::{external, plain};
use crate::partition::partition;
use crate::session::SqlSession;
use crate::walk::{Part, walk};
use arrow::array::{ArrayRef, BinaryArray, RecordBatch, RecordBatchOptions, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use benthic_core::{Error, ErrorKind, ListRequest, Namespaces, ObjectId, Pool, PoolAddress};
use benthic_fragment::wasm::{NAME, text};
use benthic_wasm::{Function, deployed, exec};
use bytes::Bytes;
use datafusion::catalog::{Session, TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::Result;
use datafusion::datasource::TableType;
use datafusion::logical_expr::Expr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::streaming::StreamingTableExec;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{Expr as SqlExpr, FunctionArg, FunctionArgExpr, TableFactor};
use futures::{Stream, StreamExt, TryStreamExt, stream};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

/// Number of calls in flight.
const CALLS_AT_ONCE: usize = 16;

/// First and longest pause before a call is repeated, because the quota of its signer or client is
/// used up.
const BUSY_PAUSE: Duration = Duration::from_millis(50);
const BUSY_PAUSE_MAX: Duration = Duration::from_millis(3_200);

const USAGE: &str = "the table function wasm has two or three texts in quotes: \
    FROM wasm('CLASS.METHOD', 'POOL/PREFIX', 'INPUT')";

static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| {
    let field = |name, data_type| Field::new(name, data_type, false);
    Arc::new(Schema::new(vec![
        field("object", DataType::Utf8),
        field("output", DataType::Utf8),
        field("output_bytes", DataType::Binary),
    ]))
});

/// The arguments of the calls of the table function in a statement.
pub fn named_calls(statement: &Statement) -> BTreeSet<Vec<String>> {
    let literal = |arg: &FunctionArg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(SqlExpr::Value(value))) => value.clone().into_string(),
        _ => None,
    };
    let mut calls = BTreeSet::new();
    walk(statement, &mut |part| {
        if let Part::TableFactor(TableFactor::Table { name, args: Some(args), .. }) = part
            && name.to_string() == NAME
        {
            calls.extend(args.args.iter().map(literal).collect::<Option<Vec<String>>>());
        }
    });
    calls
}

/// Finds the methods of these calls.
///
/// # Errors
/// `InvalidArgument` for a name that is not `CLASS.METHOD`, an invalid address and a method that
/// writes; `NotFound` if the pool or the class does not exist; `Unsupported` if the class has no
/// such method; errors of the pools.
pub async fn resolve(
    session: &SqlSession,
    calls: BTreeSet<Vec<String>>,
) -> benthic_core::Result<ObjectCalls> {
    let mut tables = BTreeMap::new();
    for call in calls {
        let (method, address, input) = match &call[..] {
            [method, address] => (method, address, ""),
            [method, address, input] => (method, address, &input[..]),
            _ => return Err(Error::invalid_argument(USAGE)),
        };
        let Some((class, method_name)) = method.split_once('.') else {
            return Err(Error::invalid_argument(USAGE).with("got", method));
        };
        let (pool, prefix) = address.split_once('/').unwrap_or((address, ""));
        let address: PoolAddress = pool.parse()?;
        let pool = session.pool(&address.pool).await?;
        let deployed = deployed::get(&*pool, class).await?;
        let table = Objects {
            function: deployed::function(&*pool, &deployed, method_name).await?,
            name: method.clone(),
            pool,
            namespace: address.namespace,
            prefix: prefix.to_owned(),
            input: Bytes::copy_from_slice(input.as_bytes()),
        };
        tables.insert(call, Arc::new(table));
    }
    Ok(ObjectCalls(tables))
}

/// The tables that a query makes, by the arguments of the calls.
#[derive(Debug)]
pub struct ObjectCalls(BTreeMap<Vec<String>, Arc<Objects>>);

impl TableFunctionImpl for ObjectCalls {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        let text = |expr: &Expr| match expr {
            Expr::Literal(value, _) => value.try_as_str().flatten().map(str::to_owned),
            _ => None,
        };
        let texts: Option<Vec<String>> = args.exprs().iter().map(text).collect();
        match texts.and_then(|texts| self.0.get(&texts)) {
            Some(table) => Ok(Arc::clone(table) as Arc<dyn TableProvider>),
            None => Err(external(Error::invalid_argument(USAGE))),
        }
    }
}

/// The outputs of a method for all objects with a prefix, as a table.
#[derive(Clone)]
struct Objects {
    function: Function,
    /// `CLASS.METHOD`.
    name: String,
    pool: Arc<dyn Pool>,
    namespace: String,
    prefix: String,
    input: Bytes,
}

impl fmt::Debug for Objects {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} of {}/{}", self.name, self.pool.name(), self.prefix)
    }
}

#[async_trait]
impl TableProvider for Objects {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&SCHEMA)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        _: &dyn Session,
        projection: Option<&Vec<usize>>,
        _: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let columns = projection.cloned().unwrap_or_else(|| (0..SCHEMA.fields().len()).collect());
        let schema = Arc::new(SCHEMA.project(&columns)?);
        let (calls, of) = (Arc::new(self.clone()), Arc::clone(&schema));
        let rows = partition(&schema, move || Arc::clone(&calls).rows(columns.clone(), Arc::clone(&of)));
        Ok(Arc::new(StreamingTableExec::try_new(schema, vec![rows], None, [], false, limit)?))
    }
}

impl Objects {
    /// The rows of the table, with some of its columns.
    fn rows(
        self: Arc<Self>,
        columns: Vec<usize>,
        schema: SchemaRef,
    ) -> impl Stream<Item = Result<RecordBatch>> + Send {
        Arc::clone(&self).outputs().ready_chunks(CALLS_AT_ONCE).flat_map(move |outputs| {
            // A query with a limit may need only the rows before an error.
            let mut rows = Vec::new();
            let mut error = None;
            for output in outputs {
                match output {
                    Ok(row) => rows.push(row),
                    Err(failed) => {
                        error = Some(Err(external(failed)));
                        break;
                    }
                }
            }
            let batch = (!rows.is_empty()).then(|| self.batch(&rows, &columns, &schema));
            stream::iter(batch.into_iter().chain(error))
        })
    }

    /// The objects in the order of the listing, with the outputs of their calls.
    fn outputs(self: Arc<Self>) -> impl Stream<Item = benthic_core::Result<(ObjectId, Bytes)>> + Send {
        let pages = stream::try_unfold((Arc::clone(&self), Some(None)), async |(calls, after)| {
            let Some(after) = after else { return Ok(None) };
            let namespaces = Namespaces::One(calls.namespace.clone());
            let request =
                ListRequest { namespaces, prefix: calls.prefix.clone(), after, ..Default::default() };
            let page = calls.pool.list(request).await?;
            Ok(Some((stream::iter(page.objects).map(Ok), (calls, page.next.map(Some)))))
        });
        pages
            .try_flatten()
            .map_ok(move |object| Arc::clone(&self).output(object))
            .try_buffered(CALLS_AT_ONCE)
            .try_filter_map(async |row| Ok(row))
    }

    /// Calls the method beside an object. `None` if the object was removed meanwhile.
    async fn output(self: Arc<Self>, object: ObjectId) -> benthic_core::Result<Option<(ObjectId, Bytes)>> {
        let mut pause = BUSY_PAUSE;
        loop {
            let call = self.function.to_call(self.input.clone());
            let fetch = async || Ok(self.function.wasm.clone());
            match exec(&*self.pool, &object, call, false, fetch).await {
                Ok(output) => return Ok(Some((object, output))),
                Err(error) if error.kind() == ErrorKind::Busy && pause <= BUSY_PAUSE_MAX => {
                    tokio::time::sleep(pause).await;
                    pause *= 2;
                }
                Err(error) if error.kind() == ErrorKind::NotFound && self.is_missing(&object).await => {
                    return Ok(None);
                }
                Err(error) => return Err(plain(&error)),
            }
        }
    }

    async fn is_missing(&self, object: &ObjectId) -> bool {
        self.pool.stat(object).await.is_err_and(|error| error.kind() == ErrorKind::NotFound)
    }

    fn batch(
        &self,
        rows: &[(ObjectId, Bytes)],
        columns: &[usize],
        schema: &SchemaRef,
    ) -> Result<RecordBatch> {
        let column = |column: &usize| -> Result<ArrayRef> {
            Ok(match column {
                0 => Arc::new(StringArray::from_iter_values(rows.iter().map(|(object, _)| object.name()))),
                1 => {
                    let instead = "select output_bytes";
                    let texts = rows.iter().map(|(_, output)| text(output, &self.name, instead));
                    Arc::new(StringArray::from(texts.collect::<Result<Vec<_>>>()?))
                }
                _ => Arc::new(BinaryArray::from_iter_values(rows.iter().map(|(_, output)| output))),
            })
        };
        let columns = columns.iter().map(column).collect::<Result<Vec<_>>>()?;
        let rows = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &rows)?)
    }
}
