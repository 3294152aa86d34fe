//! Fields within lists, structs and maps.
//!
//! Iceberg finds every field of a data file by an id, but a table numbers only its columns, and its
//! data objects have the ids of columns only. So the ids of the fields within a column follow from
//! the column's id and the order of the fields, which never change. The catalog writes them into
//! the footer of a data object when it shows the object: the data stay as they are. Ids in the
//! table's head would need a new format, and would not be in the objects that exist.

use arrow::datatypes::DataType;
use benthic_core::{Error, Result};
use benthic_parquet::elements::{FIELD_ID, schema_elements};
use benthic_table::TableSchema;

/// Ids below are those of columns.
const FIRST: u32 = 1 << 24;
/// The number of ids within a column.
const IDS_OF_COLUMN: u32 = 1 << 10;
/// Iceberg reserves the ids above.
const LAST: u32 = i32::MAX as u32 - 1_000;

/// The type code of Thrift's compact protocol.
const INT32: u8 = 5;

/// The ids of the fields within one column, in preorder.
pub struct NestedIds {
    next: u32,
    end: u32,
}

impl NestedIds {
    /// No ids for a column whose number is too large.
    pub fn of(column: u32) -> NestedIds {
        let end = column.checked_add(1).and_then(|next| next.checked_mul(IDS_OF_COLUMN)?.checked_add(FIRST));
        match end.filter(|end| column > 0 && *end <= LAST) {
            Some(end) => NestedIds { next: end - IDS_OF_COLUMN, end },
            None => NestedIds { next: 0, end: 0 },
        }
    }

    /// The next id.
    ///
    /// # Errors
    /// `Unsupported` if the column has too many fields.
    pub fn draw(&mut self) -> Result<u32> {
        if self.next == self.end {
            let message = "Iceberg cannot read the table: a column has too many nested fields";
            return Err(Error::unsupported(message).with("fields_max", IDS_OF_COLUMN));
        }
        self.next += 1;
        Ok(self.next - 1)
    }
}

/// The number of fields within a type.
pub fn nested_fields(data_type: &DataType) -> u32 {
    match data_type {
        DataType::List(item) | DataType::FixedSizeList(item, _) => 1 + nested_fields(item.data_type()),
        DataType::Struct(fields) => fields.iter().map(|field| 1 + nested_fields(field.data_type())).sum(),
        DataType::Map(entries, _) => nested_fields(entries.data_type()),
        _ => 0,
    }
}

/// The greatest id of a schema's fields within columns; zero if there are none.
pub fn last_nested_id(schema: &TableSchema) -> u32 {
    let last = |column: &benthic_table::Column| match nested_fields(&column.data_type) {
        0 => 0,
        fields => NestedIds::of(column.id).next + fields.min(IDS_OF_COLUMN) - 1,
    };
    schema.columns().iter().map(last).max().unwrap_or(0)
}

/// The bytes that [`with_nested_ids`] adds to the footer of a data object with this schema.
///
/// # Errors
/// As [`NestedIds::draw`].
pub fn added_bytes(schema: &TableSchema) -> Result<u64> {
    let mut bytes = 0;
    for column in schema.columns() {
        let mut ids = NestedIds::of(column.id);
        for _ in 0..nested_fields(&column.data_type) {
            bytes += 1 + zigzag(ids.draw()?).len() as u64;
        }
    }
    Ok(bytes)
}

/// A Parquet footer, without its length, with the ids of the fields within columns. `None` if there
/// are no such fields.
///
/// # Errors
/// `Corrupt` for a footer that no writer of Benthic writes.
pub fn with_nested_ids(footer: &[u8]) -> Result<Option<Vec<u8>>> {
    let elements = schema_elements(footer).map_err(|reason| damaged().with("reason", reason))?;
    let mut written = Vec::with_capacity(footer.len() + 1024);
    let mut copied = 0;
    // The number of elements that are missing in each open group. The first group is the whole row.
    let mut open: Vec<u64> = Vec::new();
    let mut ids = NestedIds { next: 0, end: 0 };
    for element in elements {
        match (open.len(), element.id) {
            (0, _) => {}
            (1, Some(column)) => ids = NestedIds::of(column),
            (1, None) => return Err(damaged()),
            (_, Some(_)) => return Err(damaged()),
            (_, None) if element.is_repeated => {}
            (_, None) => {
                written.extend_from_slice(&footer[copied..element.place]);
                let step = u8::try_from(FIELD_ID - element.before).map_err(|_| damaged())?;
                written.push((step << 4) | INT32);
                written.extend(zigzag(ids.draw()?));
                copied = element.place;
                // The next field's header has its distance from the field before.
                if element.after > 0 {
                    let (step, head) = (u8::try_from(element.after - FIELD_ID), footer[copied]);
                    let step = step.ok().filter(|_| head >> 4 > 0).ok_or_else(damaged)?;
                    written.push((step << 4) | (head & 0x0f));
                    copied += 1;
                }
            }
        }
        if let Some(missing) = open.last_mut() {
            *missing = missing.checked_sub(1).ok_or_else(damaged)?;
        }
        if element.children > 0 {
            open.push(element.children);
        }
        while open.last() == Some(&0) {
            open.pop();
        }
    }
    if copied == 0 {
        return Ok(None);
    }
    written.extend_from_slice(&footer[copied..]);
    Ok(Some(written))
}

/// A number in Thrift's compact protocol.
fn zigzag(number: u32) -> Vec<u8> {
    let (mut rest, mut bytes) = (u64::from(number) << 1, Vec::with_capacity(5));
    while rest >= 0x80 {
        bytes.push((rest & 0x7f) as u8 | 0x80);
        rest >>= 7;
    }
    bytes.push(rest as u8);
    bytes
}

fn damaged() -> Error {
    Error::corrupt("a data object has a footer of another form")
}

#[cfg(test)]
#[path = "nested_tests.rs"]
mod tests;
