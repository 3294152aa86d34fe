//! The native half of the Python package `benthic`: stores, pools and tables for Python, as thin as can be.
//!
//! What people import is `python/benthic/`, in Python; it alone uses this module, which is private. Here is what must be
//! native: futures are waited for with the interpreter released ([`runtime`]), errors become exceptions ([`errors`]), handles
//! know whether their store is still open ([`slot`]), operations are read from Python's values ([`ops`]), filters from Substrait
//! ([`filter`]).
//!
//! Rows cross the boundary as messages of Arrow IPC ([`ipc`]), not by Arrow's C interface: it costs a copy of each batch,
//! which is little beside decoding Parquet, what comes from Python is validated, errors stay the exceptions that they are, and no
//! line here is `unsafe`. pyarrow makes of them what everybody takes.

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

    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");
}
