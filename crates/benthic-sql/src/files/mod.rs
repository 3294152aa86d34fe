//! Local files as tables of a query, which names their path in quotes, as in DuckDB.
//!
//! [`find`] turns a path into files of one format. Parquet files are read like objects, by byte
//! ranges: only the columns that the query needs, without the row groups and pages that its
//! conditions exclude. [`streams`] reads files of the other formats from their beginning, with the
//! readers that load tables ([`crate::input`]).
//!
//! DataFusion has its own tables of files. We do not use them, because they would read CSV and JSON
//! with other types than `benthic table create`, and because our Parquet scan is correct for NaN
//! and reports damaged files as errors.

mod find;
mod local_file;
mod streams;

pub use local_file::LocalFile;

use crate::input::Format;
use crate::object::DataObject;
use crate::objects::Objects;
use crate::work::Work;
use benthic_core::{Error, Result};
use datafusion::catalog::TableProvider;
use std::sync::Arc;

/// The files at a path as a table: a file, a pattern with wildcards, or a directory with all files
/// in it. `partitions` is the number of streams that are read concurrently.
///
/// # Errors
/// `NotFound` if there is no such file; `InvalidArgument` for an unknown format, several formats,
/// content of another format, and column types that do not fit together; errors of the file system.
pub async fn table(path: &str, partitions: usize, work: &Arc<Work>) -> Result<Arc<dyn TableProvider>> {
    let path = path.to_owned();
    let (format, files) = blocking(move || find::find(&path)).await?;
    if format != Format::Parquet {
        let table = blocking(move || streams::table(format, files, partitions)).await?;
        return Ok(Arc::new(table));
    }
    work.add_objects(files.len() as u64);
    let objects = files.into_iter().map(|file| Arc::new(DataObject::of_file(file, work))).collect();
    Ok(Arc::new(Objects::of(objects).await?))
}

/// Runs file access on a thread of its own.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let outcome = tokio::task::spawn_blocking(work).await;
    outcome.unwrap_or_else(|panic| Err(Error::internal("reading local files failed").with_source(panic)))
}
