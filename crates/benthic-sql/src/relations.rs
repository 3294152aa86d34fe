//! Finds relation names without a pool in a statement, and the paths of local files.

use crate::walk::{Part, walk};
use datafusion::common::TableReference;
use datafusion::execution::context::SessionContext;
use datafusion::sql::parser::Statement;
use datafusion::sql::planner::object_name_to_table_reference;
use datafusion::sql::sqlparser::ast::{ObjectName, TableFactor};
use std::collections::BTreeSet;

/// The relations of a statement that have no pool and that the query engine does not know, in the
/// order of the text. `tables` must contain all tables that the statement reads, without those that
/// it defines itself.
pub fn without_pool(
    context: &SessionContext,
    statement: &Statement,
    tables: &[TableReference],
) -> Vec<TableReference> {
    let relations = Relations::of(statement);
    let normalize = context.copied_config().options().sql_parser.enable_ident_normalization;
    let references = |names: Vec<ObjectName>| {
        names
            .into_iter()
            .filter_map(|name| object_name_to_table_reference(name, normalize).ok())
            .collect::<Vec<_>>()
    };
    let functions = references(relations.functions);
    let mut unknown = references(relations.names);
    unknown.retain(|name| {
        name.schema().is_none()
            && tables.contains(name)
            && !functions.contains(name)
            && !context.table_exist(name.clone()).unwrap_or(false)
    });
    unknown
}

/// The paths that a statement reads as tables. `tables` is as in [`without_pool`].
pub fn paths(statement: &Statement, tables: &[TableReference]) -> BTreeSet<String> {
    let mut paths: BTreeSet<String> = Relations::of(statement).names.iter().filter_map(path).collect();
    paths.retain(|path| tables.contains(&TableReference::bare(path.as_str())));
    paths
}

/// The name as a path, if it is a single name in quotes. In double quotes, which a shell's single
/// quotes may contain, only names that look like a path count.
fn path(name: &ObjectName) -> Option<String> {
    let [part] = name.0.as_slice() else { return None };
    let name = part.as_ident()?;
    let is_path = match name.quote_style {
        Some('\'') => true,
        Some('"') => name.value.contains(['/', '.', '*']),
        _ => false,
    };
    is_path.then(|| name.value.clone())
}

/// A name as SQL writes it: in double quotes.
pub fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

#[derive(Default)]
struct Relations {
    names: Vec<ObjectName>,
    /// The subset of names that the statement calls as functions.
    functions: Vec<ObjectName>,
}

impl Relations {
    fn of(statement: &Statement) -> Relations {
        let mut relations = Relations::default();
        walk(statement, &mut |part| match part {
            Part::Relation(name) => relations.names.push(name.clone()),
            Part::TableFactor(TableFactor::Table { name, args: Some(_), .. }) => {
                relations.functions.push(name.clone());
            }
            _ => {}
        });
        relations
    }
}
