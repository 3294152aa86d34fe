//! Random tables: rows in a few objects, written under one schema or several.

use super::noise::Noise;
use super::values::{Column, Kind, valid};
use crate::fixtures::{append, build_indexes, create};
use arrow::array::{Array, ArrayRef, RecordBatch, new_null_array};
use arrow::compute::{cast, concat};
use arrow::datatypes::{DataType, Field, Schema};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use benthic_core::Pool;
use benthic_table::{Alter, Codec, Definition, INDEXES_MAX, Partitioning, Ranges};
use std::sync::Arc;

const OBJECTS_MAX: usize = 12;

/// A table: the steps that create it, and its expected rows.
pub struct RandomTable {
    pub name: String,
    pub columns: Vec<Column>,
    /// All rows, in no particular order.
    pub rows: RecordBatch,
    /// For messages of failed tests.
    pub description: String,
    definition: Definition,
    steps: Vec<Step>,
}

enum Step {
    Append(RecordBatch),
    Alter(Vec<Alter>),
    /// Adds an index on these columns.
    AddIndex(Vec<String>),
    /// Builds the index pages that objects lack.
    BuildIndexes,
}

/// The state of a table under construction: its columns, and their values so far.
struct Making<'a> {
    n: &'a mut Noise,
    columns: Vec<Column>,
    parts: Vec<Vec<ArrayRef>>,
    /// Names of columns that sort, partition or index the table. They must stay.
    fixed: Vec<String>,
    names: usize,
    steps: Vec<Step>,
    description: String,
}

impl RandomTable {
    /// A random table of at most `rows_max` rows. The first column is a key.
    pub fn random(n: &mut Noise, name: &str, rows_max: usize) -> RandomTable {
        let objects = 1 + n.below(OBJECTS_MAX);
        let object_rows = match n.below(20) {
            0 => 0,
            1..5 => 1 + n.below(8),
            _ => 8 + n.below(rows_max / objects - 8),
        };
        let key = Column::key(n, "k".to_owned());
        let mut making = Making {
            n,
            columns: vec![key],
            parts: vec![Vec::new()],
            fixed: Vec::new(),
            names: 0,
            steps: Vec::new(),
            description: String::new(),
        };
        for _ in 0..1 + making.n.below(6) {
            let column = making.column();
            making.columns.push(column);
            making.parts.push(Vec::new());
        }
        let definition = making.definition();
        let evolves = making.n.percent(40);
        let indexed_percent = making.n.pick(&[0, 20, 60]).to_owned();
        for object in 0..objects {
            if making.n.percent(indexed_percent) {
                making.index();
            }
            if evolves && making.n.percent(30) {
                making.alter();
            }
            let rows = making.n.below(object_rows + 1);
            making.append(rows, object);
        }
        let Making { columns, parts, steps, description, .. } = making;
        let columns_and_values = columns.iter().zip(&parts).map(|(column, parts)| {
            let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
            (column.name.as_str(), concat(&parts).unwrap(), true)
        });
        let rows = RecordBatch::try_from_iter_with_nullable(columns_and_values).unwrap();
        RandomTable { name: name.to_owned(), columns, rows, description, definition, steps }
    }

    /// Creates the table in a pool.
    pub async fn make(&self, pool: &Arc<dyn Pool>) {
        let table = create(pool, &self.name, &self.definition).await;
        for step in &self.steps {
            match step {
                Step::Append(rows) => append(&table, std::slice::from_ref(rows)).await,
                Step::Alter(changes) => drop(table.alter(changes).await.unwrap()),
                Step::AddIndex(columns) => {
                    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
                    drop(table.add_index(&columns).await.unwrap());
                }
                Step::BuildIndexes => build_indexes(&table).await,
            }
        }
    }

    /// A value of a column as text; None if no value other than null was found.
    pub fn value(&self, n: &mut Noise, column: &Column) -> Option<String> {
        let values = self.rows.column_by_name(&column.name)?;
        (0..8).find_map(|_| {
            let row = n.below(values.len().max(1));
            let is_there = row < values.len() && valid(values, row);
            is_there.then(|| text(values, row))
        })
    }
}

/// Formats a value as text for a literal.
fn text(values: &ArrayRef, row: usize) -> String {
    let shown = match values.data_type() {
        // Show times in UTC, independent of their zone.
        DataType::Timestamp(unit, Some(_)) => {
            let numbers = cast(values, &DataType::Int64).unwrap();
            cast(&numbers, &DataType::Timestamp(*unit, None)).unwrap()
        }
        _ => Arc::clone(values),
    };
    ArrayFormatter::try_new(&shown, &FormatOptions::default()).unwrap().value(row).to_string()
}

impl Making<'_> {
    fn column(&mut self) -> Column {
        self.names += 1;
        let name = format!("{}{}", self.n.pick(&["c", "c", "C", "größe ", "select"]), self.names);
        Column::random(self.n, name)
    }

    fn schema(&self) -> Schema {
        let dictionary = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
        let given = |column: &Column| {
            if column.from_dictionary { dictionary.clone() } else { column.data_type.clone() }
        };
        let field = |column: &Column| Field::new(&column.name, given(column), true);
        Schema::new(self.columns.iter().map(field).collect::<Vec<_>>())
    }

    fn definition(&mut self) -> Definition {
        let mut definition = Definition::new(&self.schema()).unwrap();
        let id =
            |definition: &Definition, column: &Column| definition.schema.by_name(&column.name).unwrap().id;
        let (n, columns) = (&mut *self.n, &self.columns);
        let is_day = |column: &Column| matches!(column.kind, Kind::Date | Kind::Time);
        let partitioned = match n.below(6) {
            0 | 1 => n.find(columns, Column::has_order).map(|column| {
                let buckets = 1 + n.below(5) as u32;
                (column, Partitioning::Hash { field: id(&definition, column), buckets })
            }),
            2 => n.find(columns, is_day).map(|column| {
                // Few bounds, so that there are few partitions.
                let ranges = Ranges::Bounds(vec![-40_000, 0, 20_000]);
                (column, Partitioning::Range { field: id(&definition, column), ranges })
            }),
            3 => n.find(columns, |column| column.kind == Kind::Integer).map(|column| {
                let ranges = Ranges::Bounds(vec![-100, 0, 3, 400]);
                (column, Partitioning::Range { field: id(&definition, column), ranges })
            }),
            _ => None,
        };
        if let Some((column, partitioning)) = partitioned {
            self.description += &format!("partitioned by {:?} ({partitioning:?}), ", column.name);
            self.fixed.push(column.name.clone());
            definition.partitioning = partitioning;
        }
        for _ in 0..n.below(3) {
            if let Some(column) = n.find(columns, Column::has_order)
                && !definition.layout.sort.contains(&id(&definition, column))
            {
                self.description += &format!("sorted by {:?}, ", column.name);
                self.fixed.push(column.name.clone());
                definition.layout.sort.push(id(&definition, column));
            }
        }
        // Both sides read every codec.
        definition.layout.codec = match n.below(6) {
            0 => Codec::None,
            1 => Codec::Lz4,
            2 => Codec::Zstd { level: 1 },
            _ => Codec::Snappy,
        };
        self.description += &format!("codec {}, ", definition.layout.codec);
        if n.percent(40) {
            let mut groups: [Vec<u32>; 2] = Default::default();
            for column in columns.iter().skip(1) {
                if n.percent(60) {
                    groups[n.below(2)].push(id(&definition, column));
                }
            }
            definition.layout.groups = groups.into_iter().filter(|group| !group.is_empty()).collect();
            self.description += &format!("column groups {:?}, ", definition.layout.groups);
        }
        for column in columns {
            self.description += &describe(column);
        }
        definition
    }

    fn append(&mut self, rows: usize, object: usize) {
        let values: Vec<ArrayRef> =
            self.columns.iter().map(|column| column.values(self.n, rows, object)).collect();
        for (column, (parts, values)) in self.columns.iter().zip(self.parts.iter_mut().zip(&values)) {
            parts.push(cast(values, &column.data_type).unwrap());
        }
        self.description += &format!("{rows} rows, ");
        let batch = RecordBatch::try_new(Arc::new(self.schema()), values).unwrap();
        self.steps.push(Step::Append(batch));
    }

    /// Adds an index on a few columns, or builds missing pages. Some objects stay without pages.
    fn index(&mut self) {
        let indexes = self.steps.iter().filter(|step| matches!(step, Step::AddIndex(_))).count();
        if indexes >= INDEXES_MAX || self.n.percent(30) {
            return self.steps.push(Step::BuildIndexes);
        }
        let mut names: Vec<String> = Vec::new();
        for _ in 0..1 + self.n.below(3) {
            match self.n.find(&self.columns, |column| column.kind != Kind::Nested) {
                Some(column) if !names.contains(&column.name) => names.push(column.name.clone()),
                _ => {}
            }
        }
        self.fixed.extend(names.iter().cloned());
        self.description += &format!("index {names:?}, ");
        self.steps.push(Step::AddIndex(names));
        if self.n.percent(50) {
            self.steps.push(Step::BuildIndexes);
        }
    }

    /// Changes the schema once, and updates the existing rows accordingly. The key column stays.
    fn alter(&mut self) {
        let place = self.n.below(self.columns.len());
        let name = self.columns[place].name.clone();
        let is_fixed = place == 0 || self.fixed.contains(&name);
        let change = match self.n.below(4) {
            0 if !is_fixed && self.columns.len() > 2 => {
                self.columns.remove(place);
                self.parts.remove(place);
                Alter::Drop { name }
            }
            1 if place > 0 => {
                self.names += 1;
                let to = format!("renamed{}", self.names);
                for fixed in self.fixed.iter_mut().filter(|fixed| **fixed == name) {
                    fixed.clone_from(&to);
                }
                self.columns[place].name.clone_from(&to);
                Alter::Rename { from: name, to }
            }
            2 if self.columns[place].wider().is_some() => {
                let data_type = self.columns[place].wider().unwrap();
                for part in &mut self.parts[place] {
                    *part = cast(part, &data_type).unwrap();
                }
                self.columns[place].data_type = data_type.clone();
                Alter::Widen { name, data_type }
            }
            _ => {
                let column = self.column();
                let rows: Vec<usize> = self.parts[0].iter().map(Array::len).collect();
                let nulls = rows.iter().map(|rows| new_null_array(&column.data_type, *rows)).collect();
                self.parts.push(nulls);
                self.description += &describe(&column);
                self.columns.push(column.clone());
                Alter::Add { name: column.name, data_type: column.data_type }
            }
        };
        self.description += &format!("{change:?}, ");
        self.steps.push(Step::Alter(vec![change]));
    }
}

fn describe(column: &Column) -> String {
    format!("{:?} {}{}, ", column.name, column.data_type, if column.is_tame { "" } else { " (wild)" })
}
