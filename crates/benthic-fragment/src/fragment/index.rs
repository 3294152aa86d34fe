//! Looks up the rows to scan in the object's part of an index.

use super::envelope::Status;
use super::ranges::Ranges;
use super::stop::Stop;
use benthic_core::ErrorKind;
use benthic_index::{LookupResult, LookupStep, Probe, ReadEntries, Rows};
use datafusion_datasource_parquet::ParquetRowSelection;
use parquet::arrow::arrow_reader::RowSelection;

/// Looks up a probe in the index pages of the object.
pub fn look_up(ranges: &mut dyn Ranges, probe: Option<&Probe>) -> Result<LookupResult, Stop> {
    let Some(probe) = probe else { return Ok(LookupResult::default()) };
    let mut known = ReadEntries::default();
    loop {
        let step = probe.look_up(&known).map_err(|error| match error.kind() {
            // The client finds the same damage, and its error can name the object.
            ErrorKind::Corrupt => Stop::Answer(Status::Failed, error.to_string()),
            _ => Stop::Answer(Status::Unsupported, error.to_string()),
        })?;
        match step {
            LookupStep::Done(found) => return Ok(found),
            LookupStep::Read(keys) => {
                let entries = ranges.entries(&keys)?;
                known.add(keys, entries);
            }
        }
    }
}

/// The row selection for a scan of the object. Add it to the extensions of the scan's file.
pub fn selection(rows: &Rows) -> ParquetRowSelection {
    let ranges = rows.ranges().iter().map(|range| range.start as usize..range.end as usize);
    ParquetRowSelection::new(RowSelection::from_consecutive_ranges(ranges, rows.of() as usize))
}
