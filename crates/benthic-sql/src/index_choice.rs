//! Decides whether a scan uses indexes. It compares the estimated cost of a lookup and of the rows
//! that the lookup selects with the cost of a whole scan.
//!
//! The share of the rows that a condition selects is an [estimate](crate::selectivity) from the
//! table's file lists, so a scan decides before it reads anything of an object. The lookup in an
//! object then knows the exact rows, and compares their cost again ([`Probes::look_up`]). The
//! numbers behind the constants are in `docs/design/0005-query-fragments-in-ceph-osd.md`.

use crate::expr::Expr;
use crate::probe::{Indexes, Lookup};
use crate::selectivity::{Distributions, Estimate};
use arrow::datatypes::{DataType, Schema};
use benthic_core::pushdown::FAR;
use benthic_index::{PAGES_PART, Probes, RUN_ROWS, RUNS_FREE};
use benthic_table::FileEntry;
use std::sync::Arc;
use std::time::Duration;

/// Rows of a Parquet page, as the writer of tables makes them.
const PAGE_ROWS: f64 = 8_192.0;
/// Size of an index per row, in bytes, and per page in its directory.
const INDEX_BYTES_PER_ROW: f64 = 5.0;
const INDEX_PAGE_BYTES: f64 = 16_384.0;
const DIRECTORY_BYTES_PER_PAGE: f64 = 16.0;
/// Bytes that a far store sends per second, for the time of a request in bytes.
const FAR_BYTES_PER_SECOND: f64 = 100e6;
/// Requests of a lookup: directories, then pages.
const LOOKUP_REQUESTS: f64 = 2.0;
/// A lookup whose estimate says that it pays ends only if it finds a larger share of the rows.
const SHARE_MAX: f64 = 0.5;

/// The sizes of a scan's objects, and of the part that it reads.
#[derive(Clone, Copy, Debug, Default)]
pub struct ScanSize {
    pub objects: u64,
    pub rows: u64,
    /// Size of the columns that the scan needs, as far as the types of the columns tell.
    pub bytes: u64,
}

impl ScanSize {
    /// The size of a scan of some columns of these objects.
    pub fn of(entries: &[FileEntry], schema: &Schema, columns: &[usize]) -> ScanSize {
        let sum = |of: fn(&FileEntry) -> u64| entries.iter().map(of).fold(0, u64::saturating_add);
        let width = |place: usize| schema.fields().get(place).map_or(0.0, |field| width(field.data_type()));
        let all: f64 = (0..schema.fields().len()).map(width).sum();
        let needed: f64 = columns.iter().map(|place| width(*place)).sum();
        let bytes = sum(FileEntry::all_bytes) as f64 * if all > 0.0 { needed / all } else { 1.0 };
        ScanSize { objects: entries.len() as u64, rows: sum(|entry| entry.rows), bytes: bytes as u64 }
    }
}

/// The relative size of a column.
fn width(data_type: &DataType) -> f64 {
    match data_type {
        DataType::Boolean => 0.25,
        other => other.primitive_width().map_or(16.0, |width| width as f64),
    }
}

/// The index lookup of a scan.
#[derive(Clone, Debug)]
pub struct IndexPlan {
    /// The lookup beside an object. Absent if no lookup pays.
    pub beside: Option<Arc<Probes>>,
    /// The lookup in an object that the client reads.
    pub here: Option<Arc<Probes>>,
    /// Describes the decision in EXPLAIN.
    pub text: String,
}

/// Decides how a scan uses indexes.
#[derive(Debug, Default)]
pub struct IndexChoice {
    pub indexes: Arc<Indexes>,
    pub distributions: Distributions,
    pub size: ScanSize,
    /// The time of a request.
    pub round_trip: Duration,
}

impl IndexChoice {
    /// The lookup for a filter, or `None` if the table has no index for it.
    pub fn plan(&self, filter: &Expr) -> Option<Arc<IndexPlan>> {
        let Lookup { probes, estimate } = self.indexes.lookup(filter, &self.distributions)?;
        let is_far = self.round_trip >= FAR;
        let (beside, here) = match estimate {
            Some(estimate) => {
                let near = self.pays_near(estimate);
                (near, if is_far { self.pays_far(estimate) } else { near })
            }
            // Each object's directory knows more.
            None => (true, true),
        };
        let limited = || match estimate {
            Some(_) => Arc::new(probes.clone().with_limit(SHARE_MAX)),
            None => Arc::new(probes.clone()),
        };
        let rows = |estimate: Estimate| (estimate.share * self.size.rows as f64).ceil() as u64;
        let rows = estimate.map_or_else(String::new, |estimate| {
            format!(", index_rows_estimated={} of {}", rows(estimate), self.size.rows)
        });
        let text = match beside || here {
            true => self.indexes.describe(&probes),
            false => format!("index_not_used={}", self.indexes.name(&probes)),
        };
        let text = text + &rows;
        Some(Arc::new(IndexPlan { beside: beside.then(limited), here: here.then(limited), text }))
    }

    /// Whether a lookup and a scan of the selected rows take less time than a whole scan, near the
    /// objects. There, decoding takes most of the time. Requests do not count, because a scan has
    /// about as many.
    pub fn pays_near(&self, estimate: Estimate) -> bool {
        let Estimate { share, repeat } = estimate;
        let runs = share * (1.0 - repeat);
        let runs_per_object = runs * self.size.rows as f64 / self.size.objects.max(1) as f64;
        let pages = pages_read(share) / PAGES_PART as f64;
        let scan = pages + share + runs * RUN_ROWS as f64;
        let lookup = self.lookup_bytes(share) / (self.size.bytes as f64).max(1.0);
        (runs_per_object <= RUNS_FREE as f64 && share <= SHARE_MAX) || scan + lookup <= 1.0
    }

    /// The same for a client far from the objects: bytes and requests take most of the time.
    pub fn pays_far(&self, estimate: Estimate) -> bool {
        let request_bytes = self.round_trip.as_secs_f64() * FAR_BYTES_PER_SECOND;
        let requests = LOOKUP_REQUESTS * self.size.objects as f64 * request_bytes;
        let scan = self.size.bytes as f64;
        requests + self.lookup_bytes(estimate.share) + scan * pages_read(estimate.share) <= scan
    }

    /// The bytes of index entries that a lookup reads.
    fn lookup_bytes(&self, share: f64) -> f64 {
        let index_bytes = self.size.rows as f64 * INDEX_BYTES_PER_ROW;
        let pages = index_bytes / INDEX_PAGE_BYTES + self.size.objects as f64;
        pages * DIRECTORY_BYTES_PER_PAGE + share * index_bytes
    }
}

/// The share of the pages of a column that contain a selected row, if the rows are scattered. Rows
/// that are not are in few row groups, which their bounds prune.
fn pages_read(share: f64) -> f64 {
    1.0 - (1.0 - share).powf(PAGE_ROWS)
}
