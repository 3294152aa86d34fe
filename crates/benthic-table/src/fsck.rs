//! Checks a table for consistency: lists against objects, statistics against rows, indexes against
//! columns.

use crate::error::arrow;
use crate::head::ListRef;
use crate::indexes::arrays;
use crate::list::{DISTRIBUTION, FileEntry, Totals, read_list_with};
use crate::object::replace_entries;
use crate::partition::Partitioning;
use crate::schema::Column;
use crate::snapshot::Snapshot;
use crate::statistics::{Statistics, has_bounds};
use ::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Datum, RecordBatch, Scalar};
use ::arrow::compute::concat_batches;
use ::arrow::compute::kernels::cmp::{eq, gt_eq, lt_eq};
use ::arrow::datatypes::UInt64Type;
use ::arrow::error::ArrowError;
use benthic_core::{Error, ErrorKind, Result};
use benthic_index::{Distribution, check, directory_key, entry_keys, pack};
use futures::future::ready;
use futures::stream::{BoxStream, StreamExt, TryStreamExt};
use std::sync::Arc;

/// The result for one data object or list.
#[derive(Debug, Default)]
pub struct FsckResult {
    /// Bytes of a data object; 0 for a list.
    pub bytes: u64,
    /// Indexes without pages in this data object. That is no fault: queries read the object whole.
    pub unindexed: usize,
    /// The faults found; each error names the object.
    pub findings: Vec<Error>,
    pub repaired: usize,
}

/// The statistics in a list of one column of one object, and the values counted in the rows so far.
struct ColumnCheck<'f> {
    column: &'f Column,
    row: RecordBatch,
    nulls: u64,
    nans: u64,
    has_min: bool,
    has_max: bool,
}

impl Snapshot {
    /// Reads all lists and data objects of the snapshot in full, and checks objects against lists
    /// and indexes against columns. With `repair`, rebuilds damaged index pages; nothing else can
    /// be repaired, as there is no second copy.
    ///
    /// Memory: the indexed columns of an object, and a batch of its rows.
    ///
    /// # Errors
    /// In the stream, errors that stop the check: those of the pool, except `NotFound` and
    /// `Corrupt`, which are findings.
    pub fn fsck(&self, repair: bool) -> BoxStream<'static, Result<FsckResult>> {
        let (snapshot, lists) = (self.clone(), self.lists().to_vec());
        let check = move |list| {
            let snapshot = snapshot.clone();
            async move { snapshot.fsck_list(list, repair).await }
        };
        futures::stream::iter(lists).then(check).flatten().boxed()
    }

    async fn fsck_list(&self, list: ListRef, repair: bool) -> BoxStream<'static, Result<FsckResult>> {
        let opened = match self.check_sums(list).await {
            Ok(()) => self.list_batches(list, self.schema().columns()).await,
            Err(error) => Err(error),
        };
        let batches = match opened {
            Ok(batches) => batches,
            Err(error) => futures::stream::iter([Err(error)]).boxed(),
        };
        // After damage, the rest of a list cannot be trusted.
        let until_damage = batches.scan(false, |is_over, batch| {
            let was_over = std::mem::replace(is_over, batch.is_err());
            ready((!was_over).then_some(batch))
        });
        let snapshot = self.clone();
        let objects = until_damage.then(move |batch| {
            let snapshot = snapshot.clone();
            async move {
                match batch {
                    Ok(batch) => snapshot.fsck_batch(&batch, repair).await,
                    Err(error) => {
                        let finding = finding(snapshot.explain(error, list.object).await)?;
                        let checked = FsckResult { findings: vec![finding], ..FsckResult::default() };
                        Ok(futures::stream::iter([Ok(checked)]).boxed())
                    }
                }
            }
        });
        objects.try_flatten().boxed()
    }

    async fn check_sums(&self, list: ListRef) -> Result<()> {
        let mut found = Totals::default();
        let mut batches = self.list_batches(list, &[]).await?;
        while let Some(batch) = batches.try_next().await? {
            found.add(&batch)?;
        }
        let ListRef { objects, rows, data_bytes, grouped, .. } = list;
        match found == (Totals { objects, rows, data_bytes, grouped }) {
            true => Ok(()),
            false => Err(Error::corrupt("the totals of a list differ from those in the head")),
        }
    }

    async fn list_batches(
        &self,
        list: ListRef,
        columns: &[Column],
    ) -> Result<BoxStream<'static, Result<RecordBatch>>> {
        let table = (self.table().id(), self.table().address());
        read_list_with(Arc::clone(self.table().pool()), table, list, columns, columns).await
    }

    async fn fsck_batch(
        &self,
        batch: &RecordBatch,
        repair: bool,
    ) -> Result<BoxStream<'static, Result<FsckResult>>> {
        let entries = FileEntry::from_batch(batch)?;
        let (snapshot, batch) = (self.clone(), batch.clone());
        let check = move |(row, entry): (usize, FileEntry)| {
            let (snapshot, facts) = (snapshot.clone(), batch.slice(row, 1));
            async move {
                let mut checked = FsckResult { bytes: entry.all_bytes(), ..FsckResult::default() };
                if let Err(error) = snapshot.fsck_object(&entry, &facts, repair, &mut checked).await {
                    checked.findings.push(finding(snapshot.explain(error, entry.object).await)?);
                }
                Ok(checked)
            }
        };
        Ok(futures::stream::iter(entries.into_iter().enumerate()).then(check).boxed())
    }

    async fn fsck_object(
        &self,
        entry: &FileEntry,
        facts: &RecordBatch,
        repair: bool,
        checked: &mut FsckResult,
    ) -> Result<()> {
        let corrupt = |message: &str| Error::corrupt(message);
        for part in entry.parts() {
            let (stat, _) = self.table().pool().stat(&part.object.object_id(self.table().id())?).await?;
            if stat.size_bytes != part.bytes {
                return Err(corrupt("the object's size differs from the size in its list")
                    .with("part", part.object)
                    .with("size_bytes", stat.size_bytes)
                    .with("size_bytes_listed", part.bytes));
            }
        }
        let columns = self.schema().columns().iter();
        let mut facts: Vec<ColumnCheck<'_>> = columns.map(|column| ColumnCheck::new(column, facts)).collect();
        let indexed = self.indexed_columns();
        let (mut kept, mut rows) = (Vec::new(), 0);
        let mut batches = self.read_stored(entry, self.schema()).await?;
        while let Some(batch) = batches.try_next().await? {
            rows += batch.num_rows() as u64;
            for (facts, column) in facts.iter_mut().zip(batch.columns()) {
                facts.add(column)?;
            }
            self.check_partition(&batch, entry.partition)?;
            kept.push(batch.project(&indexed).map_err(|source| arrow("columns cannot be selected", source))?);
        }
        if rows != entry.rows {
            return Err(corrupt("the object's number of rows differs from its list").with("rows", rows));
        }
        facts.iter().try_for_each(ColumnCheck::finish)?;
        let schema = kept.first().map(RecordBatch::schema);
        if let Some(schema) = schema.filter(|_| !indexed.is_empty()) {
            let kept = concat_batches(&schema, &kept);
            let kept = kept.map_err(|source| arrow("rows cannot be concatenated", source))?;
            self.fsck_indexes(entry, &kept, repair, checked).await?;
        }
        Ok(())
    }

    async fn fsck_indexes(
        &self,
        entry: &FileEntry,
        rows: &RecordBatch,
        repair: bool,
        checked: &mut FsckResult,
    ) -> Result<()> {
        for index in self.indexes() {
            let keys = entry_keys(index.number);
            let outcome = match self.index_entries(entry, keys.clone()).await {
                Ok(entries) => {
                    // Pages by other rules of words are not damaged, but no query of this build
                    // uses them.
                    let directory = entries.get(&directory_key(index.number));
                    if directory.is_none() || index.matches_entry(directory).is_ok_and(|matches| !matches) {
                        checked.unindexed += 1;
                        continue;
                    }
                    check(index, &arrays(index, rows, self.schema())?, &entries)
                }
                Err(error) => Err(error),
            };
            let error = match outcome {
                Ok(_) => continue,
                // No build writes pages of this size.
                Err(error) if error.kind() == ErrorKind::LimitExceeded => {
                    let message =
                        "the pages of an index are too large; `benthic table fsck --repair` rebuilds them";
                    Error::corrupt(message).with("index", index.number).with_source(error)
                }
                Err(error) => error,
            };
            checked.findings.push(finding(self.explain(error, entry.object).await)?);
            if repair {
                let object = entry.object.object_id(self.table().id())?;
                let pages = match pack(index, &arrays(index, rows, self.schema())?) {
                    // Without pages, queries read the object whole.
                    Err(error) if error.kind() == ErrorKind::LimitExceeded => Vec::new(),
                    pages => pages?,
                };
                replace_entries(self.table().pool(), &object, keys, pages).await?;
                checked.repaired += 1;
            }
        }
        Ok(())
    }

    fn indexed_columns(&self) -> Vec<usize> {
        let is_indexed = |id: u32| self.indexes().any(|index| index.columns.contains(&id));
        let columns = self.schema().columns().iter().enumerate();
        columns.filter(|(_, column)| is_indexed(column.id)).map(|(place, _)| place).collect()
    }

    fn check_partition(&self, batch: &RecordBatch, partition: Option<i64>) -> Result<()> {
        let partitioning: &Partitioning = self.partitioning();
        let place = partitioning
            .field()
            .and_then(|id| self.schema().columns().iter().position(|column| column.id == id));
        let Some(place) = place else { return Ok(()) };
        match partitioning.of(batch.column(place))?.iter().all(|found| found == partition) {
            true => Ok(()),
            false => Err(Error::corrupt("the object contains rows of another partition")),
        }
    }
}

/// Separates findings, which describe the table, from errors that end the check.
fn finding(error: Error) -> Result<Error> {
    match error.kind() {
        ErrorKind::Corrupt | ErrorKind::NotFound | ErrorKind::Unsupported => Ok(error),
        _ => Err(error),
    }
}

type Compare = fn(&dyn Datum, &dyn Datum) -> std::result::Result<BooleanArray, ArrowError>;

fn holds(compare: Compare, one: &ArrayRef, other: &ArrayRef) -> Result<bool> {
    let outcome = compare(&Scalar::new(Arc::clone(one)), &Scalar::new(Arc::clone(other)));
    let outcome = outcome.map_err(|source| arrow("bounds cannot be compared", source))?;
    Ok(outcome.is_valid(0) && outcome.value(0))
}

impl<'f> ColumnCheck<'f> {
    fn new(column: &'f Column, row: &RecordBatch) -> ColumnCheck<'f> {
        ColumnCheck { column, row: row.clone(), nulls: 0, nans: 0, has_min: false, has_max: false }
    }

    fn recorded_value(&self, kind: &str) -> Option<&ArrayRef> {
        self.row.column_by_name(&format!("{kind}_{}", self.column.id))
    }

    /// A distribution is an estimate, so this only checks that it can be decoded.
    fn check_distribution(&self) -> Result<()> {
        let recorded = self.recorded_value(DISTRIBUTION).map(|encoded| encoded.as_binary::<i32>());
        match recorded
            .filter(|encoded| encoded.is_valid(0))
            .map(|encoded| Distribution::decode(encoded.value(0)))
        {
            Some(Err(error)) => Err(error.with("column", &self.column.name)),
            _ => Ok(()),
        }
    }

    fn is_exact(&self) -> bool {
        self.recorded_value("exact").is_some_and(|exact| exact.as_boolean().value(0))
    }

    fn mismatch(&self, what: &str) -> Error {
        let message = format!("the statistics in the list do not match the object's rows: {what}");
        Error::corrupt(message).with("column", &self.column.name)
    }

    /// Compares some rows with the recorded bounds, which have the meaning of [`Statistics`].
    fn add(&mut self, rows: &ArrayRef) -> Result<()> {
        let found = Statistics::of(rows);
        self.nulls += found.nulls;
        self.nans += found.nans;
        if !has_bounds(&self.column.data_type) {
            return Ok(());
        }
        let (Some(min), Some(max)) =
            (self.recorded_value("min").cloned(), self.recorded_value("max").cloned())
        else {
            return Err(self.mismatch("bounds are missing"));
        };
        // An unknown bound excludes nothing.
        if found.min.is_valid(0) && min.is_valid(0) {
            if !holds(lt_eq, &min, &found.min)? {
                return Err(self.mismatch("a value is below the minimum"));
            }
            self.has_min |= holds(eq, &min, &found.min)?;
        }
        if found.max.is_valid(0) && max.is_valid(0) {
            if !holds(gt_eq, &max, &found.max)? {
                return Err(self.mismatch("a value is above the maximum"));
            }
            self.has_max |= holds(eq, &max, &found.max)?;
        }
        let lacks_bound = found.min.is_valid(0) && min.is_null(0) || found.max.is_valid(0) && max.is_null(0);
        if self.is_exact() && lacks_bound {
            return Err(self.mismatch("the column should have no values"));
        }
        Ok(())
    }

    /// Compares the statistics that only all rows together determine.
    fn finish(&self) -> Result<()> {
        self.check_distribution()?;
        let count = |kind| self.recorded_value(kind).map(|count| count.as_primitive::<UInt64Type>().value(0));
        if count("nulls") != Some(self.nulls) {
            return Err(self.mismatch("the number of nulls"));
        }
        if count("nans").is_some_and(|nans| nans != self.nans) {
            return Err(self.mismatch("the number of NaN"));
        }
        let is_known = |kind| self.recorded_value(kind).is_some_and(|bound| bound.is_valid(0));
        if self.is_exact() && (is_known("min") && !self.has_min || is_known("max") && !self.has_max) {
            return Err(self.mismatch("an exact bound is not a value of the column"));
        }
        Ok(())
    }
}
