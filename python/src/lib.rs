//! The native half of the Python package `benthic`: a thin layer over stores, pools and tables.
//!
//! This module is private; only the Python package `python/benthic/` uses it. It holds the parts
//! that must be native:
//!
//! - [`runtime`] waits for futures with the interpreter lock released;
//! - [`errors`] turns errors into exceptions;
//! - [`slot`] makes handles fail after their store is closed;
//! - [`ops`] builds operations from Python values;
//! - [`filter`] translates filters from Substrait.
//!
//! Rows cross the boundary as Arrow IPC messages ([`ipc`]) instead of Arrow's C data interface. IPC
//! costs one copy of each batch, which is little beside decoding Parquet. In return, data from
//! Python is validated, errors keep their exception types, and this crate needs no `unsafe`.
//! pyarrow exports the rows to other libraries.

mod array;
mod errors;
mod filter;
mod ipc;
mod meter;
mod ops;
mod pool;
mod rows;
mod runtime;
mod slot;
mod store;
mod table;
mod writer;

#[pyo3::pymodule]
mod _native {
    #[pymodule_export]
    use crate::array::Array;
    #[pymodule_export]
    use crate::errors::error_table;
    #[pymodule_export]
    use crate::filter::{Filter, read_filter};
    #[pymodule_export]
    use crate::pool::Pool;
    #[pymodule_export]
    use crate::rows::Rows;
    #[pymodule_export]
    use crate::store::{Store, connect};
    #[pymodule_export]
    use crate::table::Table;
    #[pymodule_export]
    use crate::writer::Writer;

    #[pymodule_init]
    fn init(module: &pyo3::Bound<'_, pyo3::types::PyModule>) -> pyo3::PyResult<()> {
        use pyo3::types::PyModuleMethods;
        module.add("VERSION", benthic_core::build())
    }
}
