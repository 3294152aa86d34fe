//! Filters of pyarrow as filters of the query engine.
//!
//! pyarrow writes an expression as Substrait, a standard. What is understood of it becomes a filter that runs where the rows are;
//! what is not, pyarrow applies to the rows that come. Nothing is left out, and nothing is guessed: an expression is understood
//! only if it means to the query engine, for every value, what it means to pyarrow ([`meaning`]).

mod meaning;
#[allow(missing_docs, reason = "the names are Substrait's")]
mod wire;

use crate::errors::{invalid, raised};
use crate::ipc::read_stream;
use datafusion::logical_expr::Expr;
use meaning::Reader;
use prost::Message;
use pyo3::prelude::PyResult;
use pyo3::{pyclass, pyfunction, pymethods};
use std::collections::BTreeSet;
use wire::{Expression, ExtendedExpression};

/// A filter: what of it runs where the rows are, and what is left to do.
#[pyclass(frozen)]
pub struct Filter {
    pushed: Vec<Expr>,
    is_exact: bool,
    columns: Option<BTreeSet<String>>,
}

impl Filter {
    /// What runs where the rows are; all of it must be true.
    pub fn pushed(&self) -> Vec<Expr> {
        self.pushed.clone()
    }
}

#[pymethods]
impl Filter {
    /// Whether nothing is left to do.
    #[getter]
    fn is_exact(&self) -> bool {
        self.is_exact
    }

    /// The columns that the filter takes; None if that is not known.
    #[getter]
    fn columns(&self) -> Option<Vec<String>> {
        self.columns.as_ref().map(|columns| columns.iter().cloned().collect())
    }

    /// What runs where the rows are.
    fn __repr__(&self) -> String {
        let pushed: Vec<String> = self.pushed.iter().map(ToString::to_string).collect();
        format!("{}{}", pushed.join(" AND "), if self.is_exact { "" } else { " …" })
    }
}

/// Reads a filter that pyarrow wrote for rows of this schema, which is a stream of Arrow IPC.
#[pyfunction]
pub fn read_filter(substrait: &[u8], schema: &[u8]) -> PyResult<Filter> {
    let (schema, _) = read_stream(schema.to_vec()).map_err(|error| raised(&error))?;
    let message = ExtendedExpression::decode(substrait);
    let message = message.map_err(|error| invalid(format!("this is no expression of Substrait: {error}")))?;
    let [named] = message.expressions.as_slice() else {
        return Err(invalid("a filter is one expression"));
    };
    let expression = named.expression.as_ref().ok_or_else(|| invalid("a filter has no expression"))?;
    let reader = Reader::new(&message.extensions, &schema);
    let mut parts = Vec::new();
    reader.conjuncts(expression, &mut parts);
    let meanings: Vec<Option<Expr>> = parts.iter().map(|part| reader.condition(part)).collect();
    let mut columns = BTreeSet::new();
    let columns = add_columns_of(expression, &reader, &mut columns).map(|()| columns);
    let is_exact = meanings.iter().all(Option::is_some);
    Ok(Filter { pushed: meanings.into_iter().flatten().collect(), is_exact, columns })
}

/// None for what is of no kind that is known, and may take any column.
fn add_columns_of(
    expression: &Expression,
    reader: &Reader<'_>,
    columns: &mut BTreeSet<String>,
) -> Option<()> {
    let mut inner: Vec<&Expression> = Vec::new();
    if let Some(field) = &expression.field {
        match &field.root {
            Some(root) => inner.push(root),
            None => {
                columns.insert(reader.column_of(field)?.name().clone());
            }
        }
    } else if let Some(function) = &expression.function {
        inner.extend(function.arguments.iter().filter_map(|argument| argument.value.as_ref()));
    } else if let Some(choice) = &expression.if_then {
        inner.extend(choice.ifs.iter().flat_map(|one| [&one.condition, &one.then]).flatten());
        inner.extend(choice.otherwise.as_deref());
    } else if let Some(list) = &expression.is_one_of {
        inner.extend(list.value.as_deref());
        inner.extend(&list.options);
    } else if let Some(cast) = &expression.cast {
        inner.extend(cast.input.as_deref());
    } else if expression.literal.is_none() {
        return None;
    }
    inner.into_iter().try_for_each(|inner| add_columns_of(inner, reader, columns))
}
