//! The nodes of the schema in a footer, with the place of their ids, for programs that add ids to a
//! footer.

use crate::format::{FILE_METADATA, SCHEMA_ELEMENT};
use crate::thrift::{self, Event, Malformed};
use std::ptr;

/// Parquet's number of the field `field_id` of a schema element.
pub const FIELD_ID: i16 = 9;
const REPETITION: i16 = 3;
const CHILDREN: i16 = 5;
const REPEATED: i64 = 2;
/// Limit of the nodes of a schema, above those of any table. A damaged footer may have one in each
/// byte.
const ELEMENTS_MAX: usize = 1 << 16;

/// A node of the schema.
#[derive(Clone, Debug, Default)]
pub struct Element {
    /// A repeated group is a part of a list or a map, and no field.
    pub is_repeated: bool,
    pub children: u64,
    pub id: Option<u32>,
    /// The number of the last field before the id.
    pub before: i16,
    /// The place after the id, or the place where it belongs, in bytes from the start of the
    /// footer.
    pub place: usize,
    /// The number of the field at this place; zero if there is none.
    pub after: i16,
}

/// The nodes of a footer's schema, parents first.
///
/// # Errors
/// Why the footer is malformed.
pub fn schema_elements(footer: &[u8]) -> Result<Vec<Element>, Malformed> {
    let mut elements: Vec<Element> = Vec::new();
    thrift::walk(footer, &FILE_METADATA, &mut |structure, event| {
        if !ptr::eq(structure, &SCHEMA_ELEMENT) {
            return Ok(());
        }
        if matches!(event, Event::Begin) {
            if elements.len() == ELEMENTS_MAX {
                return Err("a schema has too many nodes");
            }
            elements.push(Element::default());
        }
        let Some(element) = elements.last_mut() else { return Ok(()) };
        match event {
            Event::Field(number @ 1..FIELD_ID, _) => element.before = number,
            Event::Field(number, rest) if number != FIELD_ID && element.place == 0 => {
                (element.place, element.after) = (footer.len() - rest, number);
            }
            Event::Number(REPETITION, value) => element.is_repeated = value == REPEATED,
            Event::Number(CHILDREN, value) => {
                element.children = u64::try_from(value).map_err(|_| "a node has no number of children")?;
            }
            Event::Number(FIELD_ID, value) => {
                element.id = Some(u32::try_from(value).map_err(|_| "an id is negative")?);
            }
            _ => {}
        }
        Ok(())
    })?;
    Ok(elements)
}
