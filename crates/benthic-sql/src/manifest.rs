//! The manifest's facts about a snapshot's objects, for pruning objects before any of them is read.
//!
//! The file lists are read with the columns of the filters, one row group of a list at a time, and
//! pruned with DataFusion's `PruningPredicate`.

use crate::columns::{has_floats, type_in_queries};
use crate::errors::external;
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, UInt64Array};
use arrow::compute::kernels::cmp::gt;
use arrow::compute::{filter_record_batch, nullif, sum};
use arrow::datatypes::{DataType, FieldRef, Int64Type, SchemaRef, UInt64Type};
use benthic_core::Error;
use benthic_table::ids::TableObject;
use benthic_table::{Column, Distribution, FileEntry, Partitioning, Snapshot};
use datafusion::common::pruning::PruningStatistics;
use datafusion::common::stats::Precision;
use datafusion::common::{Column as Name, ColumnStatistics, Result, ScalarValue, Statistics};
use datafusion::functions_aggregate::min_max::{MaxAccumulator, MinAccumulator};
use datafusion::logical_expr::Accumulator;
use datafusion::physical_optimizer::pruning::PruningPredicate;
use futures::TryStreamExt;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Facts about some objects: rows of a file list, one per object.
#[derive(Debug)]
pub struct Facts {
    columns: Arc<HashMap<String, Column>>,
    partitioning: Arc<Partitioning>,
    rows: RecordBatch,
}

/// The objects that remain after pruning.
pub struct RemainingObjects {
    pub entries: Vec<FileEntry>,
    /// The facts about the entries, one row each and in the same order. They may also contain
    /// objects after the last entry.
    pub facts: Vec<Arc<Facts>>,
    pub pruned_objects: usize,
}

impl RemainingObjects {
    /// Reads the file lists, with their statistics of `columns` and the distributions of
    /// `distributions`, and prunes them. `only` selects data objects.
    ///
    /// # Errors
    /// `NotFound` if the snapshot lacks an object of `only`; errors of [`Snapshot::files`].
    pub async fn load(
        snapshot: &Snapshot,
        (columns, distributions): (&[&str], &[&str]),
        predicate: Option<&PruningPredicate>,
        only: Option<&HashSet<TableObject>>,
    ) -> Result<RemainingObjects> {
        let named =
            |name: &&str| snapshot.schema().by_name(name).map(|column| ((*name).to_owned(), column.clone()));
        let known: benthic_core::Result<_> = columns.iter().chain(distributions).map(named).collect();
        let known = Arc::new(known.map_err(external)?);
        let partitioning = Arc::new(snapshot.partitioning().clone());
        let mut lists = snapshot.files_with(columns, distributions).map_err(external)?;
        let mut kept = RemainingObjects { entries: Vec::new(), facts: Vec::new(), pruned_objects: 0 };
        let mut missing = only.cloned().unwrap_or_default();
        while let Some(mut rows) = lists.try_next().await.map_err(external)? {
            if only.is_some() {
                let entries = FileEntry::from_batch(&rows).map_err(external)?;
                let wanted: Vec<bool> = entries.iter().map(|entry| missing.remove(&entry.object)).collect();
                rows = filter_record_batch(&rows, &BooleanArray::from(wanted))?;
            }
            let before = rows.num_rows();
            let mut facts =
                Facts { columns: Arc::clone(&known), partitioning: Arc::clone(&partitioning), rows };
            if let Some(predicate) = predicate {
                let keep = BooleanArray::from(predicate.prune(&facts)?);
                facts.rows = filter_record_batch(&facts.rows, &keep)?;
            }
            kept.pruned_objects += before - facts.rows.num_rows();
            kept.entries.extend(FileEntry::from_batch(&facts.rows).map_err(external)?);
            kept.facts.push(Arc::new(facts));
        }
        if let Some(object) = missing.iter().min() {
            let error = Error::not_found("the snapshot has no such data object");
            let table = snapshot.table().address();
            return Err(external(
                error.with("table", table).with("snapshot", snapshot.id()).with("object", object),
            ));
        }
        Ok(kept)
    }

    /// Keeps only as many objects as a limit of `rows` rows needs.
    pub fn limit(&mut self, rows: u64) {
        let mut found = 0;
        let enough = |entry: &FileEntry| {
            let is_enough = found >= rows;
            found = found.saturating_add(entry.live_rows());
            is_enough
        };
        let needed = self.entries.iter().position(enough).unwrap_or(self.entries.len());
        self.pruned_objects += self.entries.len() - needed;
        self.entries.truncate(needed);
    }

    /// Frees the distributions, which only planning needs.
    ///
    /// # Errors
    /// None for columns of the batch.
    pub fn forget_distributions(&mut self) -> Result<()> {
        for facts in self.facts.iter_mut().filter_map(Arc::get_mut) {
            let schema = facts.rows.schema();
            let is_kept = |place: &usize| !schema.field(*place).name().starts_with("distribution_");
            let kept: Vec<usize> = (0..schema.fields().len()).filter(is_kept).collect();
            facts.rows = facts.rows.project(&kept)?;
        }
        Ok(())
    }

    /// Statistics of all remaining objects together, for columns in the types that queries use.
    ///
    /// # Errors
    /// Errors of casts, which valid bounds do not cause.
    pub fn statistics(&self, schema: &SchemaRef) -> Result<Statistics> {
        let sum =
            |of: fn(&FileEntry) -> u64| self.entries.iter().map(of).fold(0, u64::saturating_add) as usize;
        let column = |field: &FieldRef| self.column(field.name(), field.data_type());
        Ok(Statistics {
            num_rows: Precision::Exact(sum(FileEntry::live_rows)),
            total_byte_size: Precision::Inexact(sum(FileEntry::all_bytes)),
            column_statistics: schema.fields().iter().map(column).collect::<Result<_>>()?,
        })
    }

    fn column(&self, name: &str, data_type: &DataType) -> Result<ColumnStatistics> {
        let mut statistics = ColumnStatistics::new_unknown();
        let Some(column) = self.facts.first().and_then(|facts| facts.columns.get(name)) else {
            return Ok(statistics);
        };
        let nulls =
            self.facts.iter().filter_map(|facts| facts.numbers("nulls", column)).map(|nulls| sum(&nulls));
        statistics.null_count = Precision::Exact(nulls.flatten().sum::<u64>() as usize);
        // The list's statistics include deleted rows.
        let has_deleted = self.entries.iter().any(|entry| entry.deleted.is_some());
        if has_deleted {
            statistics.null_count = statistics.null_count.to_inexact();
        }
        if has_floats(data_type) {
            return Ok(statistics);
        }
        let (mut min, mut max) =
            (MinAccumulator::try_new(&column.data_type)?, MaxAccumulator::try_new(&column.data_type)?);
        let mut exact = !has_deleted;
        for facts in &self.facts {
            let (Some(least), Some(greatest), Some(are_exact)) =
                (facts.of("min", column), facts.of("max", column), facts.of("exact", column))
            else {
                return Ok(statistics);
            };
            exact &= are_exact.as_boolean().iter().all(|exact| exact == Some(true));
            // An object has values, but its bounds are unknown.
            if least.null_count() != greatest.null_count() {
                return Ok(statistics);
            }
            min.update_batch(&[least])?;
            max.update_batch(&[greatest])?;
        }
        let known = |value: ScalarValue| -> Result<Precision<ScalarValue>> {
            let value = value.cast_to(&type_in_queries(data_type))?;
            Ok(match exact {
                _ if value.is_null() => Precision::Absent,
                true => Precision::Exact(value),
                false => Precision::Inexact(value),
            })
        };
        (statistics.min_value, statistics.max_value) = (known(min.evaluate()?)?, known(max.evaluate()?)?);
        Ok(statistics)
    }
}

impl Facts {
    pub fn objects(&self) -> usize {
        self.rows.num_rows()
    }

    pub fn row(&self, row: usize) -> Facts {
        Facts {
            columns: Arc::clone(&self.columns),
            partitioning: Arc::clone(&self.partitioning),
            rows: self.rows.slice(row, 1),
        }
    }

    /// The distribution of a column's values in an object, if it is known.
    pub fn distribution(&self, name: &str, row: usize) -> Option<Distribution> {
        let all = self.of("distribution", self.columns.get(name)?)?;
        let encoded = all.as_binary_opt::<i32>().filter(|encoded| encoded.is_valid(row))?;
        // An estimate may be missing, so damage is no error here. `benthic table fsck` finds it.
        Distribution::decode(encoded.value(row)).ok()
    }

    fn of(&self, kind: &str, column: &Column) -> Option<ArrayRef> {
        self.rows.column_by_name(&format!("{kind}_{}", column.id)).cloned()
    }

    fn numbers(&self, kind: &str, column: &Column) -> Option<UInt64Array> {
        self.of(kind, column)?.as_primitive_opt::<UInt64Type>().cloned()
    }

    /// Minimum or maximum values. Null for an object that contains a NaN, because bounds do not
    /// cover NaN.
    fn bounds(&self, kind: &str, name: &Name) -> Option<ArrayRef> {
        let column = self.columns.get(name.name())?;
        let bounds = self.of(kind, column)?;
        let Some(nans) = self.numbers("nans", column) else { return Some(bounds) };
        let has_nan = gt(&nans, &UInt64Array::new_scalar(0)).ok()?;
        nullif(&bounds, &has_nan).ok()
    }
}

impl PruningStatistics for Facts {
    fn min_values(&self, name: &Name) -> Option<ArrayRef> {
        self.bounds("min", name)
    }

    fn max_values(&self, name: &Name) -> Option<ArrayRef> {
        self.bounds("max", name)
    }

    fn num_containers(&self) -> usize {
        self.rows.num_rows()
    }

    fn null_counts(&self, name: &Name) -> Option<ArrayRef> {
        self.of("nulls", self.columns.get(name.name())?)
    }

    fn row_counts(&self) -> Option<ArrayRef> {
        self.rows.column_by_name("rows").cloned()
    }

    /// A hash partition contains none of the values that hash to other partitions.
    fn contained(&self, name: &Name, values: &HashSet<ScalarValue>) -> Option<BooleanArray> {
        let column = self.columns.get(name.name())?;
        // The hash of a decimal depends on its width, which a schema change may have increased.
        if !matches!(*self.partitioning, Partitioning::Hash { field, .. } if field == column.id)
            || column.data_type.is_decimal()
        {
            return None;
        }
        let values: Result<Vec<ScalarValue>> =
            values.iter().map(|value| value.cast_to(&column.data_type)).collect();
        let values = ScalarValue::iter_to_array(values.ok()?).ok()?;
        let wanted: HashSet<i64> = self.partitioning.of(&values).ok()?.iter().flatten().collect();
        let partitions = self.rows.column_by_name("partition")?.as_primitive_opt::<Int64Type>()?;
        let is_other =
            |partition: Option<i64>| partition.is_some_and(|partition| !wanted.contains(&partition));
        Some(partitions.iter().map(|partition| is_other(partition).then_some(false)).collect())
    }
}
