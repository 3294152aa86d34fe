//! Finds relation names without a pool in a statement, and the paths of local files.

use datafusion::common::TableReference;
use datafusion::execution::context::SessionContext;
use datafusion::sql::parser::Statement;
use datafusion::sql::planner::object_name_to_table_reference;
use datafusion::sql::sqlparser::ast::{ObjectName, TableFactor, Visit, Visitor};
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::ops::ControlFlow;

/// The relations of a statement that have no pool and that the query engine does not know, in the
/// order of the text. `tables` must contain all tables that the statement reads, without those that
/// it defines itself.
pub fn without_pool(
    context: &SessionContext,
    statement: &Statement,
    tables: &[TableReference],
) -> Vec<TableReference> {
    let mut relations = Relations::default();
    visit(statement, &mut relations);
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
    let mut relations = Relations::default();
    visit(statement, &mut relations);
    let mut paths: BTreeSet<String> = relations.names.iter().filter_map(path).collect();
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

/// Visits the parts of a statement that reads.
pub fn visit(statement: &Statement, visitor: &mut impl Visitor<Break = Infallible>) {
    match statement {
        Statement::Explain(explain) => visit(&explain.statement, visitor),
        Statement::Statement(statement) => {
            let (ControlFlow::Continue(()) | ControlFlow::Break(_)) =
                Visit::visit(statement.as_ref(), visitor);
        }
        // These statements do not read.
        Statement::CreateExternalTable(_) | Statement::CopyTo(_) | Statement::Reset(_) => {}
    }
}

#[derive(Default)]
struct Relations {
    names: Vec<ObjectName>,
    /// The subset of names that the statement calls as functions.
    functions: Vec<ObjectName>,
}

impl Visitor for Relations {
    type Break = Infallible;

    fn pre_visit_relation(&mut self, name: &ObjectName) -> ControlFlow<Infallible> {
        self.names.push(name.clone());
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<Infallible> {
        if let TableFactor::Table { name, args: Some(_), .. } = factor {
            self.functions.push(name.clone());
        }
        ControlFlow::Continue(())
    }
}
