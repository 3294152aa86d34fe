//! Translates pyarrow filters to filters of the query engine.
//!
//! pyarrow serializes an expression as Substrait, a standard format. The parts that can be
//! translated run beside the rows; pyarrow applies the whole expression again to the returned rows
//! if any part could not. A part is translated only if the query engine gives it, for every value,
//! the same result as pyarrow ([`meaning`]), so results never differ.

mod meaning;
mod wire;

use crate::errors::{invalid, to_exception};
use crate::ipc::read_stream;
use datafusion::logical_expr::Expr;
use meaning::Reader;
use prost::Message;
use pyo3::prelude::PyResult;
use pyo3::{pyclass, pyfunction, pymethods};
use std::collections::BTreeSet;
use wire::{Expression, ExtendedExpression};

/// A filter: the conditions that run beside the rows, and whether they are all of it.
#[pyclass(frozen)]
pub struct Filter {
    pushed: Vec<Expr>,
    is_exact: bool,
    columns: Option<BTreeSet<String>>,
}

impl Filter {
    /// The conditions that run beside the rows. All of them must be true.
    pub fn pushed(&self) -> Vec<Expr> {
        self.pushed.clone()
    }
}

#[pymethods]
impl Filter {
    /// Whether every part of the filter was translated, so that pyarrow has nothing left to apply.
    #[getter]
    fn is_exact(&self) -> bool {
        self.is_exact
    }

    /// The columns that the filter reads, or None if they are unknown.
    #[getter]
    fn columns(&self) -> Option<Vec<String>> {
        self.columns.as_ref().map(|columns| columns.iter().cloned().collect())
    }

    fn __repr__(&self) -> String {
        let pushed: Vec<String> = self.pushed.iter().map(ToString::to_string).collect();
        format!("{}{}", pushed.join(" AND "), if self.is_exact { "" } else { " …" })
    }
}

/// Parses a filter that pyarrow serialized for rows of `schema`, an Arrow IPC stream.
#[pyfunction]
pub fn read_filter(substrait: &[u8], schema: &[u8]) -> PyResult<Filter> {
    let (schema, _) = read_stream(schema.to_vec()).map_err(|error| to_exception(&error))?;
    let message = ExtendedExpression::decode(substrait);
    let message =
        message.map_err(|error| invalid(format!("the bytes are not a Substrait expression: {error}")))?;
    let [named] = message.expressions.as_slice() else {
        return Err(invalid("a filter must be one expression"));
    };
    let expression = named.expression.as_ref().ok_or_else(|| invalid("the filter has no expression"))?;
    let reader = Reader::new(&message.extensions, &schema);
    let mut parts = Vec::new();
    reader.conjuncts(expression, &mut parts);
    let meanings: Vec<Option<Expr>> = parts.iter().map(|part| reader.condition(part)).collect();
    let mut columns = BTreeSet::new();
    let columns = add_columns_of(expression, &reader, &mut columns).map(|()| columns);
    let is_exact = meanings.iter().all(Option::is_some);
    Ok(Filter { pushed: meanings.into_iter().flatten().collect(), is_exact, columns })
}

/// Returns None for an unknown kind of expression, which may read any column.
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
