//! A table's schema. Ids, not names, identify its columns.

use crate::error::no_such_column;
use crate::types::{self, canonical};
use crate::wire;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use benthic_core::{Error, ErrorKind, Result};
use prost::Message;
use std::collections::HashMap;
use std::sync::Arc;

/// Limit of columns per table.
pub const COLUMNS_MAX: usize = 10_000;
/// Limit of a column's name, in bytes of UTF-8.
pub const COLUMN_NAME_BYTES_MAX: usize = 256;
/// Limit of fields in one schema, nested ones included.
pub(crate) const NODES_MAX: usize = 20_000;
/// The metadata key under which Arrow and Parquet keep the id of a field.
pub const FIELD_ID_KEY: &str = parquet::arrow::PARQUET_FIELD_ID_META_KEY;

/// A column.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// From 1; never reused for another column of the table.
    pub id: u32,
    pub name: String,
    pub data_type: DataType,
    pub nullable: bool,
}

/// A schema from a table's history.
#[derive(Clone, Debug, PartialEq)]
pub struct TableSchema {
    /// Position in the history, from 0.
    pub id: u32,
    columns: Vec<Column>,
    places_by_id: HashMap<u32, usize>,
    places_by_name: HashMap<String, usize>,
    arrow: SchemaRef,
}

impl TableSchema {
    /// A schema of these columns.
    ///
    /// # Errors
    /// `InvalidArgument` for names that are empty, duplicate or contain a NUL, and for duplicate
    /// ids; `LimitExceeded` for too many columns or too long names; `Unsupported` for a type that a
    /// table cannot store.
    pub fn new(id: u32, columns: Vec<Column>) -> Result<TableSchema> {
        if columns.is_empty() {
            return Err(Error::invalid_argument("a table must have at least one column"));
        }
        let over = |what: &str, got: usize, max: usize| {
            Err(Error::limit_exceeded(format!("{what}; use fewer columns or shorter names"))
                .with("got", got)
                .with("max", max))
        };
        if columns.len() > COLUMNS_MAX {
            return over("too many columns", columns.len(), COLUMNS_MAX);
        }
        let (mut places_by_id, mut places_by_name) = (HashMap::new(), HashMap::new());
        for (place, column) in columns.iter().enumerate() {
            let name = column.name.as_str();
            if name.len() > COLUMN_NAME_BYTES_MAX {
                return over("a column's name is too long", name.len(), COLUMN_NAME_BYTES_MAX);
            }
            let invalid = |message: &str| Err(Error::invalid_argument(message).with("column", name));
            if name.is_empty() || name.contains('\0') {
                return invalid("the column's name is empty or contains a NUL");
            }
            if canonical(&column.data_type)? != column.data_type {
                let message = "a table cannot have a column of this type; use the type of Column::from_arrow";
                return Err(Error::unsupported(message).with("column", name).with("type", &column.data_type));
            }
            if places_by_name.insert(name.to_owned(), place).is_some() {
                return invalid("two columns have the same name");
            }
            if column.id == 0 || places_by_id.insert(column.id, place).is_some() {
                return invalid("the column's id is 0, or two columns have the same id");
            }
        }
        let fields: Vec<Field> = columns.iter().map(arrow_field).collect();
        let arrow = Arc::new(Schema::new(fields));
        Ok(TableSchema { id, columns, places_by_id, places_by_name, arrow })
    }

    /// The schema of a table for data of schema `given`, with column ids from 1.
    ///
    /// # Errors
    /// As [`TableSchema::new`]; `Unsupported` for a type that a table cannot store.
    pub fn from_arrow(given: &Schema) -> Result<TableSchema> {
        let mut columns = Vec::with_capacity(given.fields().len());
        for (id, field) in (1..).zip(given.fields()) {
            columns.push(Column::from_arrow(id, field)?);
        }
        TableSchema::new(0, columns)
    }

    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The Arrow schema; each field has its id under [`FIELD_ID_KEY`].
    pub fn arrow(&self) -> &SchemaRef {
        &self.arrow
    }

    pub fn by_id(&self, id: u32) -> Option<&Column> {
        self.places_by_id.get(&id).map(|place| &self.columns[*place])
    }

    /// The column with this name.
    ///
    /// # Errors
    /// `InvalidArgument`, with a suggestion of a similar name.
    pub fn by_name(&self, name: &str) -> Result<&Column> {
        let found = self.places_by_name.get(name).map(|place| &self.columns[*place]);
        found.ok_or_else(|| no_such_column(name, self.columns.iter().map(|column| column.name.as_str())))
    }

    pub fn has_name(&self, name: &str) -> bool {
        self.places_by_name.contains_key(name)
    }

    /// The schema with only these columns, in this order.
    pub fn project(&self, names: &[&str]) -> Result<TableSchema> {
        let columns: Result<_> = names.iter().map(|name| self.by_name(name).cloned()).collect();
        TableSchema::new(self.id, columns?)
    }

    pub(crate) fn encode(&self) -> Result<Vec<u8>> {
        let mut nodes = Vec::new();
        for (column, field) in self.columns.iter().zip(self.arrow.fields()) {
            types::encode(column.id, field, &mut nodes)?;
        }
        if nodes.len() > NODES_MAX {
            return Err(Error::limit_exceeded("the schema has too many nested fields")
                .with("parts", nodes.len())
                .with("parts_max", NODES_MAX));
        }
        Ok(wire::Schema { nodes }.encode_to_vec())
    }

    pub(crate) fn decode(id: u32, bytes: &[u8]) -> Result<TableSchema> {
        wire::check_fields(bytes, NODES_MAX)?;
        let mut nodes = wire::Schema::decode(bytes).map_err(wire::corrupt)?.nodes.into_iter();
        let mut columns = Vec::new();
        while nodes.len() > 0 {
            let (id, field) = types::decode(&mut nodes, 0)?;
            let (data_type, nullable) = (field.data_type().clone(), field.is_nullable());
            columns.push(Column { id, name: field.name().clone(), data_type, nullable });
        }
        TableSchema::new(id, columns).map_err(|error| error.with_kind(ErrorKind::Corrupt))
    }
}

impl Column {
    /// The table column for a field: its type without views, dictionaries, 64-bit offsets and
    /// seconds.
    pub fn from_arrow(id: u32, field: &Field) -> Result<Column> {
        let name = field.name().clone();
        let data_type = canonical(field.data_type()).map_err(|error| error.with("column", &name))?;
        Ok(Column { id, name, data_type, nullable: field.is_nullable() })
    }
}

fn arrow_field(column: &Column) -> Field {
    let metadata = [(FIELD_ID_KEY.to_owned(), column.id.to_string())].into();
    Field::new(&column.name, column.data_type.clone(), column.nullable).with_metadata(metadata)
}

#[cfg(test)]
#[path = "schema_tests.rs"]
pub(crate) mod tests;
