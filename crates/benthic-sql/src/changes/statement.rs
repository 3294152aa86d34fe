//! Statements that change tables, and the queries that find the rows that they change.

use crate::relations::quoted;
use benthic_core::{Error, Result};
use benthic_table::Operation;
use datafusion::common::TableReference;
use datafusion::sql::planner::object_name_to_table_reference;
use datafusion::sql::sqlparser::ast::{
    Assignment, AssignmentTarget, Delete, FromTable, Ident, Insert, Merge, MergeAction, MergeClause,
    MergeClauseKind, MergeInsertExpr, MergeInsertKind, ObjectName, Statement, TableFactor, TableObject,
    TableWithJoins, Update, UpdateTableFromKind,
};
use std::collections::HashMap;
use std::fmt::Display;

/// The name under which a query finds the table that is changed, with the columns [`OBJECT`] and
/// [`ROW`]. No table can have this name.
pub const TARGET: &str = "benthic:target";
/// The place of the row's data object among those of the scan.
pub const OBJECT: &str = "benthic:object";
/// The row's number within its object.
pub const ROW: &str = "benthic:row";
/// The column with the action on the row: one of the constants below.
pub const ACTION: &str = "benthic:action";
pub const DELETE: i64 = 0;
pub const UPDATE: i64 = 1;
pub const INSERT: i64 = 2;
/// Marks the rows of a merge's source.
const SOURCE: &str = "benthic:source";

/// A table by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableName {
    pub pool: String,
    pub table: String,
}

/// A statement that changes a table.
#[derive(Debug)]
pub enum Change {
    /// Creates a table with the rows of a query.
    Create { table: TableName, if_not_exists: bool, query: String },
    /// Adds the rows of a query. Without columns, these are all of the table's, in order.
    Insert { table: TableName, columns: Vec<String>, query: String },
    /// Deletes and changes rows, and adds others.
    Rows(RowChange),
}

/// A DELETE, UPDATE or MERGE.
#[derive(Debug)]
pub struct RowChange {
    pub operation: Operation,
    pub table: TableName,
    /// Whether the statement deletes all rows.
    pub is_everything: bool,
    /// The relations of the query, as SQL.
    from: String,
    /// The name of the target in the query, as SQL.
    target: String,
    branches: Vec<Branch>,
}

/// The action of a statement on some rows.
#[derive(Debug)]
struct Branch {
    condition: Option<String>,
    action: i64,
    /// The new value of each named column, as SQL. A column without value stays as it is, or is
    /// null in a new row.
    values: HashMap<String, String>,
}

impl Change {
    /// The change that a statement describes; `None` if it is another kind of statement.
    ///
    /// # Errors
    /// `Unsupported` for clauses that are not implemented; `InvalidArgument` for a table without a
    /// pool.
    pub fn of(statement: &Statement) -> Result<Option<Change>> {
        Ok(Some(match statement {
            Statement::Insert(insert) => Change::insert(insert)?,
            Statement::Delete(delete) => Change::Rows(RowChange::delete(delete)?),
            Statement::Update(update) => Change::Rows(RowChange::update(update)?),
            Statement::Merge(merge) => Change::Rows(RowChange::merge(merge)?),
            Statement::CreateTable(create) if create.query.is_some() && !create.or_replace => {
                if !create.columns.is_empty() {
                    return Err(unsupported("column definitions together with a query"));
                }
                let query = create.query.as_ref().map(ToString::to_string).unwrap_or_default();
                let if_not_exists = create.if_not_exists;
                Change::Create { table: table_name(&create.name)?, if_not_exists, query }
            }
            _ => return Ok(None),
        }))
    }

    fn insert(insert: &Insert) -> Result<Change> {
        let TableObject::TableName(name) = &insert.table else {
            return Err(unsupported("INSERT into anything but a table"));
        };
        refuse(&[
            (insert.overwrite, "INSERT OVERWRITE"),
            (insert.on.is_some(), "ON CONFLICT; use MERGE"),
            (insert.returning.is_some(), "RETURNING"),
            (insert.replace_into, "REPLACE INTO; use MERGE"),
        ])?;
        let query = insert.source.as_ref().ok_or_else(|| unsupported("INSERT without a query"))?;
        let columns = insert.columns.iter().map(column_name).collect::<Result<_>>()?;
        Ok(Change::Insert { table: table_name(name)?, columns, query: query.to_string() })
    }
}

impl RowChange {
    fn delete(delete: &Delete) -> Result<RowChange> {
        refuse(&[
            (delete.returning.is_some() || delete.output.is_some(), "RETURNING"),
            (!delete.order_by.is_empty() || delete.limit.is_some(), "LIMIT in DELETE"),
            (!delete.tables.is_empty(), "DELETE from several tables"),
        ])?;
        let (FromTable::WithFromKeyword(tables) | FromTable::WithoutKeyword(tables)) = &delete.from;
        let [table] = tables.as_slice() else { return Err(unsupported("DELETE from several tables")) };
        let condition = delete.selection.as_ref().map(ToString::to_string);
        let is_everything = condition.is_none() && delete.using.is_none();
        let branch = Branch { condition, action: DELETE, values: HashMap::new() };
        let others = delete.using.iter().flatten();
        RowChange::of_table(Operation::Delete, table, others, branch, is_everything)
    }

    fn update(update: &Update) -> Result<RowChange> {
        refuse(&[
            (update.returning.is_some() || update.output.is_some(), "RETURNING"),
            (!update.order_by.is_empty() || update.limit.is_some(), "LIMIT in UPDATE"),
            (update.or.is_some(), "UPDATE OR"),
        ])?;
        let others = match &update.from {
            Some(UpdateTableFromKind::AfterSet(tables) | UpdateTableFromKind::BeforeSet(tables)) => {
                tables.as_slice()
            }
            None => &[],
        };
        let branch = Branch {
            condition: update.selection.as_ref().map(ToString::to_string),
            action: UPDATE,
            values: update_values(&update.assignments)?,
        };
        RowChange::of_table(Operation::Update, &update.table, others.iter(), branch, false)
    }

    fn of_table<'t>(
        operation: Operation,
        table: &TableWithJoins,
        others: impl Iterator<Item = &'t TableWithJoins>,
        branch: Branch,
        is_everything: bool,
    ) -> Result<RowChange> {
        if !table.joins.is_empty() {
            return Err(unsupported("a join in place of the table; use UPDATE … FROM or DELETE … USING"));
        }
        let (table, target) = target(&table.relation)?;
        let mut from = format!("{} AS {target}", target_table(&table));
        others.for_each(|other| from.push_str(&format!(", {other}")));
        Ok(RowChange { operation, table, is_everything, from, target, branches: vec![branch] })
    }

    fn merge(merge: &Merge) -> Result<RowChange> {
        refuse(&[(merge.output.is_some(), "OUTPUT and RETURNING")])?;
        let (table, target) = target(&merge.table)?;
        let source = source_name(&merge.source)?;
        let branches: Vec<Branch> =
            merge.clauses.iter().map(|clause| branch(clause, &target, &source)).collect::<Result<_>>()?;
        let kinds = || merge.clauses.iter().map(|clause| clause.clause_kind);
        let join = if kinds().any(|kind| kind == MergeClauseKind::NotMatchedBySource) {
            "FULL JOIN"
        } else if kinds().any(|kind| kind != MergeClauseKind::Matched) {
            "LEFT JOIN"
        } else {
            "JOIN"
        };
        let from = format!(
            "(SELECT *, true AS {} FROM {}) AS {source} {join} {} AS {target} ON {}",
            quoted(SOURCE),
            merge.source,
            target_table(&table),
            merge.on
        );
        Ok(RowChange { operation: Operation::Merge, table, is_everything: false, from, target, branches })
    }

    /// The query that finds the rows to change. Its columns are [`OBJECT`], [`ROW`], [`ACTION`],
    /// and, unless the statement only deletes, the new values of the table's columns.
    ///
    /// # Errors
    /// `InvalidArgument` for a column that the table does not have.
    pub fn query(&self, columns: &[&str]) -> Result<String> {
        let assigned = self.branches.iter().flat_map(|branch| branch.values.keys());
        if let Some(unknown) = assigned.into_iter().find(|name| !columns.contains(&name.as_str())) {
            return Err(no_such_column(unknown, columns));
        }
        let cases = |of: &dyn Fn(&Branch) -> String| match self.branches.as_slice() {
            // The condition of a single branch becomes the condition of the query.
            [only] => of(only),
            branches => {
                let case = |branch: &Branch| {
                    format!("WHEN {} THEN {}", branch.condition.as_deref().unwrap_or("true"), of(branch))
                };
                format!("CASE {} END", branches.iter().map(case).collect::<Vec<_>>().join(" "))
            }
        };
        let target = &self.target;
        let mut selected = vec![
            format!("{target}.{}", quoted(OBJECT)),
            format!("{target}.{}", quoted(ROW)),
            format!("{} AS {}", cases(&|branch| branch.action.to_string()), quoted(ACTION)),
        ];
        if self.operation != Operation::Delete {
            for column in columns {
                let value = |branch: &Branch| match (branch.values.get(*column), branch.action) {
                    (Some(value), _) => format!("({value})"),
                    (None, UPDATE) => format!("{target}.{}", quoted(column)),
                    (None, _) => "NULL".to_owned(),
                };
                selected.push(format!("{} AS {}", cases(&value), quoted(column)));
            }
        }
        let selected = selected.join(", ");
        let only_condition = match self.branches.as_slice() {
            [only] => only.condition.as_ref(),
            _ => None,
        };
        let condition = only_condition.map(|condition| format!(" WHERE {condition}")).unwrap_or_default();
        let query = format!("SELECT {selected} FROM {}{condition}", self.from);
        Ok(match self.branches.len() {
            1 => query,
            _ => format!("SELECT * FROM ({query}) WHERE {} IS NOT NULL", quoted(ACTION)),
        })
    }
}

fn branch(clause: &MergeClause, target: &str, source: &str) -> Result<Branch> {
    let in_target = format!("{target}.{} IS NOT NULL", quoted(ROW));
    let in_source = format!("{source}.{} IS NOT NULL", quoted(SOURCE));
    let matched = match clause.clause_kind {
        MergeClauseKind::Matched => format!("{in_target} AND {in_source}"),
        MergeClauseKind::NotMatched | MergeClauseKind::NotMatchedByTarget => format!("NOT ({in_target})"),
        MergeClauseKind::NotMatchedBySource => format!("NOT ({in_source})"),
    };
    let condition = match &clause.predicate {
        Some(predicate) => format!("{matched} AND ({predicate})"),
        None => matched,
    };
    let is_insert =
        matches!(clause.clause_kind, MergeClauseKind::NotMatched | MergeClauseKind::NotMatchedByTarget);
    let (action, values) = match &clause.action {
        MergeAction::Insert(insert) if is_insert => (INSERT, insert_values(insert)?),
        MergeAction::Update(update) if !is_insert => {
            let only_where = update.update_predicate.is_some() || update.delete_predicate.is_some();
            refuse(&[(only_where, "WHERE in a clause of MERGE; use WHEN … AND condition")])?;
            (UPDATE, update_values(&update.assignments)?)
        }
        MergeAction::Delete { .. } if !is_insert => (DELETE, HashMap::new()),
        _ => {
            let message = "a clause of MERGE for rows that are not matched can only INSERT, and the others can only \
                UPDATE or DELETE";
            return Err(Error::invalid_argument(message));
        }
    };
    Ok(Branch { condition: Some(condition), action, values })
}

fn insert_values(insert: &MergeInsertExpr) -> Result<HashMap<String, String>> {
    refuse(&[(insert.insert_predicate.is_some(), "WHERE in a clause of MERGE; use WHEN … AND condition")])?;
    let MergeInsertKind::Values(values) = &insert.kind else { return Err(unsupported("INSERT ROW")) };
    let [row] = values.rows.as_slice() else { return Err(unsupported("INSERT of several rows in MERGE")) };
    if insert.columns.is_empty() {
        return Err(unsupported("INSERT without column names in MERGE; write INSERT (a, b) VALUES (…)"));
    }
    if insert.columns.len() != row.len() {
        return Err(wrong_number(insert.columns.len(), row.len()));
    }
    let pair = |(name, value): (&ObjectName, _)| Ok((column_name(name)?, ToString::to_string(value)));
    insert.columns.iter().zip(row.iter()).map(pair).collect()
}

fn update_values(assignments: &[Assignment]) -> Result<HashMap<String, String>> {
    let mut values = HashMap::new();
    for assignment in assignments {
        let AssignmentTarget::ColumnName(name) = &assignment.target else {
            return Err(unsupported("SET (a, b) = …; write SET a = …, b = …"));
        };
        let name = column_name(name)?;
        if values.insert(name.clone(), assignment.value.to_string()).is_some() {
            return Err(Error::invalid_argument("a column is set twice").with("column", name));
        }
    }
    Ok(values)
}

/// The table of a statement, and its name in the query, as SQL.
fn target(factor: &TableFactor) -> Result<(TableName, String)> {
    let TableFactor::Table { name, alias, args: None, version: None, .. } = factor else {
        return Err(unsupported("a change of anything but a table"));
    };
    let table = table_name(name)?;
    let alias = alias.as_ref().map(|alias| alias.name.to_string());
    let in_query = alias.unwrap_or_else(|| quoted(&table.table));
    Ok((table, in_query))
}

fn source_name(factor: &TableFactor) -> Result<String> {
    let alias = match factor {
        TableFactor::Table { alias, .. } | TableFactor::Derived { alias, .. } => alias.as_ref(),
        _ => return Err(unsupported("a source of MERGE that is neither a table nor a query")),
    };
    match (alias, factor) {
        (Some(alias), _) => Ok(alias.name.to_string()),
        (None, TableFactor::Table { name, .. }) => Ok(quoted(reference(name)?.table())),
        (None, _) => {
            Err(Error::invalid_argument("the source of MERGE needs a name: USING (SELECT …) AS name"))
        }
    }
}

fn target_table(table: &TableName) -> String {
    format!("{}.{}", quoted(&table.pool), quoted(TARGET))
}

fn reference(name: &ObjectName) -> Result<TableReference> {
    object_name_to_table_reference(name.clone(), true).map_err(|error| crate::errors::from_datafusion(&error))
}

fn table_name(name: &ObjectName) -> Result<TableName> {
    let reference = reference(name)?;
    match reference.schema() {
        Some(_) if reference.table().contains(':') => {
            let message = "an old snapshot cannot be changed; `benthic table rollback` returns a table to it";
            Err(Error::invalid_argument(message).with("table", reference.table()))
        }
        Some(pool) => Ok(TableName { pool: pool.to_owned(), table: reference.table().to_owned() }),
        None => {
            let message = "a table is POOL.TABLE; `benthic table ls` lists the tables";
            Err(Error::invalid_argument(message).with("table", reference.table()))
        }
    }
}

/// The last part of a column's name, which may be qualified.
fn column_name(name: &ObjectName) -> Result<String> {
    let last = name.0.last().and_then(|part| part.as_ident());
    let last: &Ident = last.ok_or_else(|| unsupported("this column name"))?;
    Ok(match last.quote_style {
        Some(_) => last.value.clone(),
        None => last.value.to_lowercase(),
    })
}

fn refuse(clauses: &[(bool, &str)]) -> Result<()> {
    match clauses.iter().find(|(is_there, _)| *is_there) {
        Some((_, what)) => Err(unsupported(what)),
        None => Ok(()),
    }
}

fn unsupported(what: &str) -> Error {
    Error::unsupported(format!("not supported: {what}"))
}

pub(super) fn no_such_column(name: &str, columns: &[&str]) -> Error {
    let message = match benthic_table::suggest(name, columns.iter().copied()) {
        Some(hint) => format!("the table has no such column; did you mean {hint:?}"),
        None => "the table has no such column".to_owned(),
    };
    Error::invalid_argument(message).with("column", name)
}

pub(super) fn wrong_number(columns: impl Display, values: impl Display) -> Error {
    let message = "the number of values differs from the number of columns";
    Error::invalid_argument(message).with("columns", columns).with("values", values)
}
