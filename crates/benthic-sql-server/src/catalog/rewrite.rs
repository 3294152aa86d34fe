//! Changes a query of Postgres' catalog into one that the query engine plans.
//!
//! Clients use much that only Postgres has: its own operators and types, arrays, and correlated
//! subqueries. Nearly all of it concerns tables that are empty here, such as those of indexes and
//! of constraints. So the rewriting replaces a SELECT whose rows come from an empty table, with all
//! that it contains, by one without rows. The remaining queries need few rules.

use super::ast::{
    CONTINUE, call, call_with_two, call_without_arguments, empty_query, is_empty, literal, null, parts,
    table_alias, with_first,
};
use super::columns::{at_most_one_row, column_name, has_aggregate, name_columns};
use super::functions::is_catalog_function;
use super::tables::{INFORMATION_TABLES, PG_TABLES};
use super::{INFORMATION_SCHEMA, PG_CATALOG};
use benthic_sql::walk::{Part, walk_statement};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, DataType, Expr, FunctionArguments, GroupByExpr, Ident, JoinOperator, ObjectName,
    ObjectNamePart, Query, Select, SelectItem, SetExpr, Statement, TableFactor, TableWithJoins,
    UnaryOperator, Value, VisitMut, VisitorMut,
};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;
use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::mem;
use std::ops::ControlFlow;

/// Parses a query and rewrites it if it is one of the catalog: if it reads tables of the catalog
/// only, or none but calls one of the catalog's functions.
pub fn catalog_query(sql: &str) -> Option<Statement> {
    let mut statements = Parser::parse_sql(&PostgreSqlDialect {}, sql).ok()?;
    let mut statement = statements.pop().filter(|_| statements.is_empty())?;
    let found = Names::of(&statement);
    let is_catalog = match found.relations.iter().filter(|name| !found.is_cte(name)).map(schema_of).collect()
    {
        None => false,
        Some(schemas) => {
            let schemas: Vec<&str> = schemas;
            !schemas.is_empty() || found.calls
        }
    };
    if !is_catalog || !matches!(statement, Statement::Query(_)) {
        return None;
    }
    // The first pass finds the common table expressions without rows.
    let mut rewriting = Rewriting { columns: found.columns, ..Rewriting::default() };
    for _ in 0..2 {
        let _ = VisitMut::visit(&mut statement, &mut rewriting);
    }
    if let Statement::Query(query) = &mut statement {
        name_columns(&mut query.body);
    }
    Some(statement)
}

/// The schema of the catalog that has a relation; `None` for other relations.
fn schema_of(name: &ObjectName) -> Option<&'static str> {
    match parts(name) {
        (Some(schema), _) if schema == PG_CATALOG => Some(PG_CATALOG),
        (Some(schema), _) if schema == INFORMATION_SCHEMA => Some(INFORMATION_SCHEMA),
        (None, name) if name.starts_with("pg_") => Some(PG_CATALOG),
        (None, name) if is_table_function(&name) => Some(PG_CATALOG),
        _ => None,
    }
}

fn is_table_function(name: &str) -> bool {
    ["unnest", "generate_series", "generate_subscripts", "aclexplode"].contains(&name)
}

/// The names in a statement.
#[derive(Default)]
struct Names {
    relations: Vec<ObjectName>,
    ctes: BTreeSet<String>,
    /// Whether it calls a function of the catalog.
    calls: bool,
    /// The columns that it names with a table before them.
    columns: BTreeMap<String, BTreeSet<String>>,
}

impl Names {
    fn of(statement: &Statement) -> Names {
        let mut names = Names::default();
        walk_statement(statement, &mut |part| match part {
            Part::Query(query) => {
                let ctes = query.with.iter().flat_map(|with| &with.cte_tables);
                names.ctes.extend(ctes.map(|cte| cte.alias.name.value.to_lowercase()));
            }
            Part::Relation(name) => names.relations.push(name.clone()),
            Part::Expr(Expr::Function(function)) => {
                names.calls |= is_catalog_function(&parts(&function.name).1);
            }
            Part::Expr(Expr::CompoundIdentifier(idents)) => {
                if let [.., table, column] = idents.as_slice() {
                    let columns = names.columns.entry(table.value.to_lowercase()).or_default();
                    columns.insert(column.value.to_lowercase());
                }
            }
            _ => {}
        });
        names
    }

    fn is_cte(&self, name: &ObjectName) -> bool {
        matches!(parts(name), (None, name) if self.ctes.contains(&name))
    }
}

#[derive(Default)]
struct Rewriting {
    columns: BTreeMap<String, BTreeSet<String>>,
    /// The common table expressions without rows.
    empty_ctes: BTreeSet<String>,
}

impl Rewriting {
    fn is_empty_factor(&self, factor: &TableFactor) -> bool {
        match factor {
            TableFactor::Table { name, .. } => {
                matches!(parts(name), (None, name) if self.empty_ctes.contains(&name))
            }
            TableFactor::Derived { subquery, .. } => is_empty(subquery),
            TableFactor::NestedJoin { table_with_joins, .. } => self.is_empty_from(table_with_joins),
            _ => false,
        }
    }

    /// Whether a join has no rows.
    fn is_empty_from(&self, from: &TableWithJoins) -> bool {
        let requires = |operator: &JoinOperator| {
            matches!(operator, JoinOperator::Join(_) | JoinOperator::Inner(_) | JoinOperator::CrossJoin(_))
        };
        let outer = |operator: &JoinOperator| {
            matches!(
                operator,
                JoinOperator::Right(_) | JoinOperator::RightOuter(_) | JoinOperator::FullOuter(_)
            )
        };
        let mut empty = self.is_empty_factor(&from.relation);
        for join in &from.joins {
            let right = self.is_empty_factor(&join.relation);
            if outer(&join.join_operator) {
                empty &= right;
            } else {
                empty |= right && requires(&join.join_operator);
            }
        }
        empty
    }

    /// A relation without rows that has the columns that the statement names.
    fn empty_factor(&self, name: &str, factor: &mut TableFactor) {
        let alias = match factor {
            TableFactor::Table { alias, .. }
            | TableFactor::TableFunction { alias, .. }
            | TableFactor::Function { alias, .. }
            | TableFactor::UNNEST { alias, .. } => alias.take(),
            _ => None,
        };
        let table = alias.as_ref().map_or(name.to_owned(), |alias| alias.name.value.to_lowercase());
        let mut columns: BTreeSet<String> = self.columns.get(&table).cloned().unwrap_or_default();
        if let Some(alias) = &alias {
            columns.extend(alias.columns.iter().map(|column| column.name.value.to_lowercase()));
        }
        // A table function without columns is itself one.
        columns.insert(table.clone());
        let columns: Vec<String> = columns.into_iter().collect();
        let subquery = Box::new(empty_query(&columns));
        let mut alias = alias.unwrap_or_else(|| table_alias(&table));
        alias.columns.clear();
        *factor = TableFactor::Derived { lateral: false, subquery, alias: Some(alias), sample: None };
    }
}

impl VisitorMut for Rewriting {
    type Break = Infallible;

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<Infallible> {
        for cte in query.with.iter().flat_map(|with| &with.cte_tables) {
            if is_empty(&cte.query) {
                self.empty_ctes.insert(cte.alias.name.value.to_lowercase());
            }
        }
        if is_empty(query) {
            // These may name columns that are gone.
            query.order_by = None;
            query.limit_clause = None;
        }
        CONTINUE
    }

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<Infallible> {
        let groups = !matches!(&select.group_by, GroupByExpr::Expressions(by, _) if by.is_empty());
        let is_void = select.from.iter().any(|from| self.is_empty_from(from));
        let is_star = select
            .projection
            .iter()
            .any(|item| matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..)));
        if is_void && !is_star && (groups || !select.projection.iter().any(has_aggregate)) {
            let names: Vec<String> = select.projection.iter().map(column_name).collect();
            if let SetExpr::Select(empty) = *empty_query(&names).body {
                *select = *empty;
            }
        }
        CONTINUE
    }

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Infallible> {
        match factor {
            TableFactor::Table { name, args, alias, .. } => {
                let (schema, last) = parts(name);
                let is_pg = schema.is_none() || schema.as_deref() == Some(PG_CATALOG);
                if schema.is_none() && self.is_cte_name(&last) {
                    return CONTINUE;
                }
                let is_known = args.is_none()
                    && if is_pg {
                        PG_TABLES.contains(&last.as_str())
                    } else {
                        INFORMATION_TABLES.contains(&last.as_str())
                    };
                let is_ours = schema_of(name).is_some() || args.is_some();
                if is_ours && !is_known {
                    self.empty_factor(&last, factor);
                } else if is_known && is_pg && name.0.len() > 1 {
                    // The catalog is the default schema, and names of columns may lack it.
                    name.0 = name.0.split_off(name.0.len() - 1);
                } else if is_known && !is_pg && alias.is_none() {
                    *alias = Some(table_alias(&last));
                }
            }
            TableFactor::TableFunction { .. } | TableFactor::Function { .. } | TableFactor::UNNEST { .. } => {
                self.empty_factor("unnest", factor)
            }
            TableFactor::Derived { lateral, subquery, .. } if is_empty(subquery) => *lateral = false,
            _ => {}
        }
        CONTINUE
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Infallible> {
        let replaced = match expr {
            Expr::AnyOp { left, compare_op: BinaryOperator::Eq, right, .. } => in_list(left, right, false),
            Expr::AnyOp { .. } => literal(false),
            Expr::AllOp { left, compare_op: BinaryOperator::NotEq, right, .. } => in_list(left, right, true),
            Expr::AllOp { .. } => literal(true),
            Expr::Collate { expr, .. } => mem::replace(&mut **expr, null()),
            // Nothing here has arrays with items.
            Expr::CompoundFieldAccess { .. } | Expr::Array(_) => null(),
            Expr::Function(function) if function.name.to_string().eq_ignore_ascii_case("array") => null(),
            _ => return CONTINUE,
        };
        *expr = replaced;
        // The replacement may be such an expression, too.
        self.pre_visit_expr(expr)
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Infallible> {
        match expr {
            Expr::Function(function) => {
                let (schema, name) = parts(&function.name);
                if schema.as_deref() == Some(PG_CATALOG) || is_catalog_function(&name) {
                    function.name = ObjectName(vec![ObjectNamePart::Identifier(Ident::new(name))]);
                }
                if matches!(function.args, FunctionArguments::None) {
                    function.args = call_without_arguments();
                }
            }
            Expr::BinaryOp { op, .. } => {
                if let BinaryOperator::PGCustomBinaryOperator(parts) = op
                    && let Some(known) = parts.last().and_then(|name| operator(name))
                {
                    *op = known;
                }
            }
            Expr::Cast { expr: inner, data_type, .. } => {
                let value = mem::replace(&mut **inner, null());
                let is_text =
                    matches!(&value, Expr::Value(value) if !matches!(value.value, Value::Number(..)));
                match type_name(data_type).as_str() {
                    "regclass" if is_text => *expr = call("regclass_number", value),
                    "regclass" => *expr = call("regclass_name", value),
                    "regtype" if is_text => *expr = call("regtype_number", value),
                    "regtype" => *expr = call("format_type", value),
                    "oid" | "xid" | "cid" => {
                        **inner = value;
                        *data_type = DataType::BigInt(None);
                    }
                    name => {
                        **inner = value;
                        if let Some(known) = known_type(data_type, name) {
                            *data_type = known;
                        }
                    }
                }
            }
            Expr::Like { pattern, escape_char, .. } | Expr::ILike { pattern, escape_char, .. } => {
                // The query engine escapes only with a backslash.
                if let Some(escape) = escape_char.take().and_then(|escape| escape.into_string())
                    && escape != "\\"
                {
                    let escaped = mem::replace(&mut **pattern, null());
                    let template = format!("replace(NULL, '{}', '\\')", escape.replace('\'', "''"));
                    **pattern = with_first(&template, escaped);
                }
            }
            Expr::Subquery(query) if is_empty(query) => *expr = null(),
            Expr::Subquery(query) => at_most_one_row(query),
            Expr::Exists { subquery, negated } if is_empty(subquery) => *expr = literal(*negated),
            Expr::InSubquery { subquery, negated, .. } if is_empty(subquery) => *expr = literal(*negated),
            Expr::CompoundIdentifier(idents) if idents.len() > 2 => {
                // The table's name is enough, as for tables without their schema.
                *idents = idents.split_off(idents.len() - 2);
            }
            _ => {}
        }
        CONTINUE
    }
}

impl Rewriting {
    fn is_cte_name(&self, name: &str) -> bool {
        self.empty_ctes.contains(name)
    }
}

/// `left = ANY (right)`, or `left <> ALL (right)` if negated, as a list.
fn in_list(left: &Expr, right: &Expr, negated: bool) -> Expr {
    let right = match right {
        Expr::Nested(inner) => inner,
        right => right,
    };
    let right = match right {
        Expr::Cast { expr, .. } => expr,
        right => right,
    };
    let list = match right {
        Expr::Array(array) => array.elem.clone(),
        // The client sends the array.
        Expr::Value(value) if matches!(value.value, Value::Placeholder(_)) => {
            let found = call_with_two("array_has", [right.clone(), left.clone()]);
            return match negated {
                true => Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(found) },
                false => found,
            };
        }
        Expr::Value(value) => {
            let text = value.value.clone().into_string().unwrap_or_default();
            let items = text.trim_matches(['{', '}']).split(',').filter(|item| !item.is_empty());
            items.map(|item| Expr::Value(Value::SingleQuotedString(item.to_owned()).into())).collect()
        }
        // The arrays that tables have are empty. The schemas that a user sees are all.
        Expr::Function(function) => return literal(function.name.to_string().contains("current_schemas")),
        _ => return literal(negated),
    };
    if list.is_empty() {
        return literal(negated);
    }
    Expr::InList { expr: Box::new(left.clone()), list, negated }
}

fn operator(name: &str) -> Option<BinaryOperator> {
    Some(match name {
        "~" => BinaryOperator::PGRegexMatch,
        "~*" => BinaryOperator::PGRegexIMatch,
        "!~" => BinaryOperator::PGRegexNotMatch,
        "!~*" => BinaryOperator::PGRegexNotIMatch,
        "~~" => BinaryOperator::PGLikeMatch,
        "!~~" => BinaryOperator::PGNotLikeMatch,
        "=" => BinaryOperator::Eq,
        "<>" => BinaryOperator::NotEq,
        "+" => BinaryOperator::Plus,
        _ => return None,
    })
}

/// The name of a type without its schema.
fn type_name(data_type: &DataType) -> String {
    let name = match data_type {
        DataType::Custom(name, _) => parts(name).1,
        other => other.to_string(),
    };
    name.to_lowercase()
}

/// A type of the query engine for a type that only Postgres has, which most often is text.
fn known_type(data_type: &DataType, name: &str) -> Option<DataType> {
    match data_type {
        DataType::Custom(..) => Some(match name {
            "bool" => DataType::Boolean,
            "int2" => DataType::SmallInt(None),
            "int4" => DataType::Int(None),
            "int8" => DataType::BigInt(None),
            "float4" => DataType::Real,
            "float8" => DataType::DoublePrecision,
            _ => DataType::Text,
        }),
        DataType::Array(_) | DataType::JSON | DataType::JSONB | DataType::Regclass => Some(DataType::Text),
        _ if name.starts_with("char") || name.starts_with("varchar") => Some(DataType::Text),
        _ => None,
    }
}
