//! Generates the tables of TPC-H.

use arrow::array::RecordBatchReader;
use benthic_core::{Environment, Error, Pool, Result};
use benthic_table::{Definition, Snapshot, Table, WriterOptions};
use std::sync::Arc;
use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator, PartSuppGenerator,
    RegionGenerator, SupplierGenerator,
};
use tpchgen_arrow::{
    CustomerArrow, LineItemArrow, NationArrow, OrderArrow, PartArrow, PartSuppArrow, RegionArrow,
    SupplierArrow,
};

/// Maximum scale. The largest table then has 600 million rows.
pub const SCALE_MAX: f64 = 100.0;

/// Rows of a table, in batches.
pub type Rows = Box<dyn RecordBatchReader + Send>;

/// All tables at a scale. A scale of 1 is about one gigabyte of text.
pub fn tables(scale: f64) -> [(&'static str, Rows); 8] {
    [
        ("region", Box::new(RegionArrow::new(RegionGenerator::new(scale, 1, 1)))),
        ("nation", Box::new(NationArrow::new(NationGenerator::new(scale, 1, 1)))),
        ("supplier", Box::new(SupplierArrow::new(SupplierGenerator::new(scale, 1, 1)))),
        ("part", Box::new(PartArrow::new(PartGenerator::new(scale, 1, 1)))),
        ("customer", Box::new(CustomerArrow::new(CustomerGenerator::new(scale, 1, 1)))),
        ("partsupp", Box::new(PartSuppArrow::new(PartSuppGenerator::new(scale, 1, 1)))),
        ("orders", Box::new(OrderArrow::new(OrderGenerator::new(scale, 1, 1)))),
        ("lineitem", Box::new(LineItemArrow::new(LineItemGenerator::new(scale, 1, 1)))),
    ]
}

/// Loads rows into a new table. Calls `written` with the rows of every batch.
///
/// # Errors
/// Errors of the pool.
pub async fn load(
    pool: &Arc<dyn Pool>,
    name: &str,
    rows: Rows,
    object_size_bytes: u64,
    mut written: impl FnMut(u64) -> Result<()>,
) -> Result<Snapshot> {
    let mut definition = Definition::new(&rows.schema())?;
    definition.layout.object_bytes = object_size_bytes;
    let table = Table::create(Arc::clone(pool), name, &definition, Environment::default()).await?;
    let mut writer = table.writer(WriterOptions::default()).await?;
    for batch in rows {
        let batch =
            batch.map_err(|error| Error::internal("the generator of TPC-H failed").with_source(error))?;
        writer.write(&batch).await?;
        written(batch.num_rows() as u64)?;
    }
    writer.finish().await
}
