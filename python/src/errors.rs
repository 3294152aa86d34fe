//! Converts errors to Python exceptions, according to the one error table of `benthic-core`.

use benthic_core::Error;
use benthic_core::error::ERROR_TABLE;
use pyo3::exceptions::PyException;
use pyo3::prelude::{Bound, PyAnyMethods, PyErr, PyResult, Python};
use pyo3::pyfunction;
use pyo3::types::{PyDict, PyDictMethods};

const MODULE: &str = "benthic.errors";

pub fn to_exception(error: &Error) -> PyErr {
    Python::attach(|py| exception(py, error).unwrap_or_else(|failure| failure))
}

fn exception(py: Python<'_>, error: &Error) -> PyResult<PyErr> {
    let class = py.import(MODULE)?.getattr(error.kind().row().python_exception)?;
    let context = PyDict::new(py);
    for (key, value) in error.context() {
        context.set_item(key, value)?;
    }
    let exception: Bound<'_, PyException> =
        class.call1((error.to_string(), error.op(), error.message(), context))?.cast_into()?;
    Ok(PyErr::from_value(exception.into_any()))
}

pub fn invalid(message: impl Into<String>) -> PyErr {
    to_exception(&Error::invalid_argument(message))
}

/// Lists each error kind with the name of its exception.
#[pyfunction]
pub fn error_table() -> Vec<(&'static str, &'static str)> {
    ERROR_TABLE.iter().map(|row| (row.name, row.python_exception)).collect()
}
