//! Schema changes. They do not rewrite data.

use crate::error::no_such_column;
use crate::head::{Head, Operation, drop_command};
use crate::ids::Id;
use crate::schema::{Column, TableSchema};
use crate::snapshot::Snapshot;
use crate::table::Table;
use crate::types::widens;
use arrow::datatypes::{DataType, Field};
use benthic_core::{Error, Result};
use std::sync::Arc;

/// A schema change. It does not rewrite data.
#[derive(Clone, Debug, PartialEq)]
pub enum Alter {
    /// Adds a column. It is null in existing rows.
    Add { name: String, data_type: DataType },
    /// Removes a column. Older snapshots still have it.
    Drop { name: String },
    /// Renames a column.
    Rename { from: String, to: String },
    /// Changes a column's type to one that has all values of the old type, see [`widens`].
    Widen { name: String, data_type: DataType },
}

impl Table {
    /// Applies all schema changes or none. Rewrites no data.
    ///
    /// # Errors
    /// `InvalidArgument` for an impossible change, with a hint; `LimitExceeded`; `NotFound`;
    /// `Busy`.
    pub async fn alter(&self, changes: &[Alter]) -> Result<Snapshot> {
        let writer = Id::draw(&self.environment)?;
        let now_ms = self.environment.unix_ms();
        let ((), head) = self
            .commit(writer, |head| {
                if head.snapshots.iter().any(|snapshot| snapshot.writer == writer) {
                    return Ok(());
                }
                let (schema, next_field_id) = apply(head, changes)?;
                let (id, lists) = (schema.id, head.current()?.0.lists.clone());
                head.layout.forget_columns(&schema);
                head.schemas.push(schema);
                head.next_field_id = next_field_id;
                head.push_snapshot(Operation::Alter, writer, now_ms, id, lists);
                Ok(())
            })
            .await?;
        let head = Arc::new(head);
        let made = head.snapshots.iter().find(|snapshot| snapshot.writer == writer);
        Snapshot::new(self, &head, made.unwrap_or(head.current()?.0))
    }
}

/// Applies the changes in order. Returns the new schema and the id that the next column gets.
fn apply(head: &Head, changes: &[Alter]) -> Result<(TableSchema, u32)> {
    let (_, schema) = head.current()?;
    let mut columns = schema.columns().to_vec();
    let mut next_field_id = head.next_field_id;
    for change in changes {
        let place = |columns: &[Column], name: &str| {
            let found = columns.iter().position(|column| column.name == *name);
            found.ok_or_else(|| no_such_column(name, columns.iter().map(|column| column.name.as_str())))
        };
        match change {
            Alter::Add { name, data_type } => {
                columns.push(Column::from_arrow(next_field_id, &Field::new(name, data_type.clone(), true))?);
                next_field_id = next_field_id.checked_add(1).ok_or_else(|| {
                    Error::limit_exceeded("the table has had too many columns; create a new table")
                })?;
            }
            Alter::Drop { name } => {
                let place = place(&columns, name)?;
                let column = columns.remove(place);
                if let Some(index) = head.indexes.iter().find(|index| index.columns.contains(&column.id)) {
                    let message =
                        format!("an index has this column; drop the index first: {}", drop_command(index));
                    return Err(Error::invalid_argument(message).with("column", name));
                }
                if head.layout.sort.contains(&column.id) {
                    let message = "the table is sorted by this column; sort it by others or none first: benthic table \
                        rewrite POOL/TABLE --unsorted";
                    return Err(Error::invalid_argument(message).with("column", name));
                }
                if head.partitioning.field() == Some(column.id) {
                    let message = "the table is partitioned by this column, so it cannot be dropped";
                    return Err(Error::invalid_argument(message).with("column", name));
                }
            }
            Alter::Rename { from, to } => {
                let place = place(&columns, from)?;
                columns[place].name.clone_from(to);
            }
            Alter::Widen { name, data_type } => {
                let place = place(&columns, name)?;
                let column = &mut columns[place];
                if !widens(&column.data_type, data_type) {
                    let message = "a column's type can change only to a larger integer or float, or to a decimal of the same \
                        scale";
                    return Err(Error::invalid_argument(message)
                        .with("column", name)
                        .with("type", &column.data_type)
                        .with("wanted", data_type));
                }
                column.data_type = data_type.clone();
            }
        }
    }
    let id = u32::try_from(head.schemas.len()).unwrap_or(u32::MAX);
    Ok((TableSchema::new(id, columns)?, next_field_id))
}
