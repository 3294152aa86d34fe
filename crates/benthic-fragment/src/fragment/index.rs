//! The rows that an index of the table leaves of an object.

use super::{Ranges, Status, Stop};
use benthic_core::ErrorKind;
use benthic_index::{Known, LookedUp, Probe, Rows, Step};
use datafusion_datasource_parquet::ParquetRowSelection;
use parquet::arrow::arrow_reader::RowSelection;

/// Looks up a probe in the pages that the object has.
pub fn look_up(ranges: &mut dyn Ranges, probe: Option<&Probe>) -> Result<LookedUp, Stop> {
    let Some(probe) = probe else { return Ok(LookedUp::default()) };
    let mut known = Known::default();
    loop {
        let step = probe.look_up(&known).map_err(|error| match error.kind() {
            // The client finds the same, and can say of which object.
            ErrorKind::Corrupt => Stop::Answer(Status::Failed, error.to_string()),
            _ => Stop::Answer(Status::Unsupported, error.to_string()),
        })?;
        match step {
            Step::Done(found) => return Ok(found),
            Step::Read(keys) => {
                let entries = ranges.entries(&keys)?;
                known.add(keys, entries);
            }
        }
    }
}

/// What a scan of an object reads of it; put it to the extensions of its file.
pub fn selection(rows: &Rows) -> ParquetRowSelection {
    let ranges = rows.ranges().iter().map(|range| range.start as usize..range.end as usize);
    ParquetRowSelection::new(RowSelection::from_consecutive_ranges(ranges, rows.of() as usize))
}
