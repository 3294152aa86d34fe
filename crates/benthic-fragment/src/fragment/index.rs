//! Looks up the rows to scan in the object's part of an index.

use super::envelope::Status;
use super::ranges::Ranges;
use super::stop::Stop;
use benthic_core::{Error, ErrorKind, Result};
use benthic_index::{LookupResult, LookupStep, Probes, ReadEntries, Rows};
use datafusion_datasource_parquet::ParquetRowSelection;
use parquet::arrow::arrow_reader::RowSelection;

/// Looks up probes in the index pages of the object.
pub fn look_up(ranges: &mut dyn Ranges, probes: Option<&Probes>) -> std::result::Result<LookupResult, Stop> {
    let Some(probes) = probes else { return Ok(LookupResult::default()) };
    let mut known = ReadEntries::default();
    loop {
        let step = probes.look_up(&known).map_err(|error| match error.kind() {
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

/// The rows to scan: those that an index selected, or else all rows, without the deleted ones.
/// `None` is all rows of the object.
///
/// # Errors
/// `Corrupt` if the sets are of objects with different numbers of rows.
pub fn live(selected: Option<Rows>, deleted: Option<&Rows>) -> Result<Option<Rows>> {
    let Some(deleted) = deleted else { return Ok(selected) };
    let selected = selected.unwrap_or_else(|| Rows::all(deleted.of()));
    if selected.of() != deleted.of() {
        let message = "an index or a deletion vector does not match the object's rows";
        return Err(Error::corrupt(message).with("rows_of_index", selected.of()).with("rows", deleted.of()));
    }
    Ok(Some(selected.without(deleted)))
}

/// The row selection for a scan of the object. Add it to the extensions of the scan's file.
pub fn selection(rows: &Rows) -> ParquetRowSelection {
    let ranges = rows.ranges().iter().map(|range| range.start as usize..range.end as usize);
    ParquetRowSelection::new(RowSelection::from_consecutive_ranges(ranges, rows.of() as usize))
}
