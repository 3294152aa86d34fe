//! Fields within lists, structs and maps.
//!
//! Iceberg finds every field of a data file by an id, but a table numbers only its columns, and its
//! data objects have the ids of columns only. So the ids of the fields within a column follow from
//! the column's id and the order of the fields, which never change. The catalog writes them into
//! the footer of a data object when it shows the object: the data stay as they are. Ids in the
//! table's head would need a new format, and would not be in the objects that exist.

use arrow::datatypes::DataType;
use benthic_core::{Error, ErrorKind, Result};
use benthic_table::TableSchema;

/// Ids below are those of columns.
const FIRST: u32 = 1 << 24;
/// The number of ids within a column.
const IDS_OF_COLUMN: u32 = 1 << 10;
/// Iceberg reserves the ids above.
const LAST: u32 = i32::MAX as u32 - 1_000;

/// Parquet's number of the field `field_id` of a schema element, and those before it that this file
/// needs (`parquet.thrift`).
const REPETITION: i16 = 3;
const CHILDREN: i16 = 5;
const FIELD_ID: i16 = 9;
/// A repeated group is a part of a list or a map, and no field.
const REPEATED: i64 = 2;
/// Type codes of Thrift's compact protocol.
const INT32: u8 = 5;
const LIST: u8 = 9;
const STRUCT: u8 = 12;

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
            return Err(Error::new(ErrorKind::Unsupported, message).with("fields_max", IDS_OF_COLUMN));
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
    let mut reader = Reader { bytes: footer, at: 0 };
    // The fields before the elements of the schema: the version.
    let mut last = 0;
    loop {
        match reader.field(&mut last)? {
            Some((2, LIST)) => break,
            Some((1, kind)) => reader.skip(kind, 0)?,
            _ => return Err(damaged()),
        }
    }
    let elements = reader.list_of(STRUCT)?;
    let mut written = Vec::with_capacity(footer.len() + 1024);
    let mut copied = 0;
    // The number of elements that are missing in each open group. The first group is the whole row.
    let mut open: Vec<u64> = Vec::new();
    let mut ids = NestedIds { next: 0, end: 0 };
    for _ in 0..elements {
        let element = reader.element()?;
        match (open.len(), element.id) {
            (0, _) => {}
            (1, Some(column)) => ids = NestedIds::of(column),
            (1, None) => return Err(damaged()),
            (_, Some(_)) => return Err(damaged()),
            (_, None) if element.is_repeated => {}
            (_, None) => {
                written.extend_from_slice(&footer[copied..element.end]);
                let step = u8::try_from(FIELD_ID - element.last).map_err(|_| damaged())?;
                written.push((step << 4) | INT32);
                written.extend(zigzag(ids.draw()?));
                copied = element.end;
                // The next field's header has its distance from the field before.
                if element.next > 0 {
                    let step = u8::try_from(element.next - FIELD_ID).map_err(|_| damaged())?;
                    written.push((step << 4) | (footer[copied] & 0x0f));
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
    Error::new(ErrorKind::Corrupt, "a data object has a footer of another form")
}

/// A schema element.
struct Element {
    is_repeated: bool,
    children: u64,
    id: Option<u32>,
    /// The number of the last field before the place of the id, and the place.
    last: i16,
    end: usize,
    /// The number of the field after it; zero if there is none.
    next: i16,
}

/// Reads Thrift's compact protocol.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn byte(&mut self) -> Result<u8> {
        let byte = self.bytes.get(self.at).copied().ok_or_else(damaged)?;
        self.at += 1;
        Ok(byte)
    }

    fn varint(&mut self) -> Result<u64> {
        let mut value = 0;
        for shift in (0..63).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(damaged())
    }

    fn number(&mut self) -> Result<i64> {
        let value = self.varint()?;
        Ok((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
    }

    /// The number and type of the next field; `None` at the end of the structure.
    fn field(&mut self, last: &mut i16) -> Result<Option<(i16, u8)>> {
        let head = self.byte()?;
        if head == 0 {
            return Ok(None);
        }
        // Only a distance of more than 15 needs more than one byte, and no such field is read here.
        let step = i16::from(head >> 4);
        *last = last.checked_add(step).filter(|_| step > 0).ok_or_else(damaged)?;
        Ok(Some((*last, head & 0x0f)))
    }

    fn list_of(&mut self, kind: u8) -> Result<u64> {
        let head = self.byte()?;
        let count = if head >> 4 == 15 { self.varint()? } else { u64::from(head >> 4) };
        if head & 0x0f == kind { Ok(count) } else { Err(damaged()) }
    }

    fn element(&mut self) -> Result<Element> {
        let (mut last, mut before) = (0, self.at);
        let mut element = Element { is_repeated: false, children: 0, id: None, last: 0, end: 0, next: 0 };
        let mut has_passed = false;
        while let Some((number, kind)) = self.field(&mut last)? {
            if number > FIELD_ID && !has_passed {
                has_passed = true;
                (element.end, element.next) = (before, number);
            }
            if number < FIELD_ID {
                element.last = number;
            }
            match (number, kind) {
                (REPETITION, INT32) => element.is_repeated = self.number()? == REPEATED,
                (CHILDREN, INT32) => {
                    element.children = u64::try_from(self.number()?).map_err(|_| damaged())?
                }
                (FIELD_ID, INT32) => {
                    element.id = Some(u32::try_from(self.number()?).map_err(|_| damaged())?);
                }
                (_, kind) => self.skip(kind, 0)?,
            }
            before = self.at;
        }
        if !has_passed {
            element.end = before;
        }
        Ok(element)
    }

    fn skip(&mut self, kind: u8, depth: u8) -> Result<()> {
        match kind {
            // A boolean, whose type contains the value.
            1 | 2 => Ok(()),
            3 => self.byte().map(drop),
            4..=6 => self.varint().map(drop),
            8 => {
                let len_bytes = usize::try_from(self.varint()?).map_err(|_| damaged())?;
                self.at = self.at.checked_add(len_bytes).ok_or_else(damaged)?;
                Ok(())
            }
            STRUCT if depth < 4 => {
                let mut last = 0;
                while let Some((_, kind)) = self.field(&mut last)? {
                    self.skip(kind, depth + 1)?;
                }
                Ok(())
            }
            _ => Err(damaged()),
        }
    }
}

#[cfg(test)]
#[path = "nested_tests.rs"]
mod tests;
