//! Names of tables and of the objects of a table.

use benthic_core::names::TABLES_NAMESPACE;
use benthic_core::{Environment, Error, ObjectId, Result};
use std::fmt;

/// Prefix of the namespace of a table's other objects; the table's id follows.
pub const TABLE_NAMESPACE_PREFIX: &str = "benthic.table.";
/// Limit of a table's name, in bytes of UTF-8.
pub const TABLE_NAME_BYTES_MAX: usize = 200;

/// A random number that identifies one table or one writer. Displayed as 16 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id(pub u64);

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl Id {
    /// Draws a new id; never 0, which stands for no writer.
    pub(crate) fn draw(environment: &Environment) -> Result<Id> {
        loop {
            let number = environment.random.random_u64()?;
            if number != 0 {
                return Ok(Id(number));
            }
        }
    }

    pub fn namespace(self) -> String {
        format!("{TABLE_NAMESPACE_PREFIX}{self}")
    }
}

/// Checks a table's name: 1 to 200 bytes, no `/`, `:` or control character, and no leading `.`.
pub fn check_table_name(name: &str) -> Result<()> {
    if name.len() > TABLE_NAME_BYTES_MAX {
        return Err(Error::limit_exceeded("the table's name is too long")
            .with("len_bytes", name.len())
            .with("len_bytes_max", TABLE_NAME_BYTES_MAX));
    }
    let barred = |c: char| c == '/' || c == ':' || c.is_control();
    if name.is_empty() || name.starts_with('.') || name.contains(barred) {
        let message =
            "the table's name is empty, starts with '.', or contains '/', ':' or a control character";
        return Err(Error::invalid_argument(message).with("table", name));
    }
    Ok(())
}

/// The object that holds the head of the table with this name.
pub fn head_object(table: &str) -> Result<ObjectId> {
    check_table_name(table)?;
    ObjectId::in_namespace(TABLES_NAMESPACE, table)
}

/// The name of the object with a table's [records of access](crate::Access).
pub(crate) const ACCESS: &str = "access";

pub(crate) fn access_object(table: Id) -> Result<ObjectId> {
    ObjectId::in_namespace(table.namespace(), ACCESS)
}

/// The content of a table's object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    Data,
    List,
}

/// An object of a table: its role, its writer, and its number among the writer's objects. The
/// object's name encodes all three.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TableObject {
    pub role: Role,
    pub writer: Id,
    /// Counts up within the writer.
    pub number: u32,
}

impl fmt::Display for TableObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let folder = match self.role {
            Role::Data => 'd',
            Role::List => 'l',
        };
        write!(f, "{folder}/{}-{}.parquet", self.writer, self.number)
    }
}

impl TableObject {
    /// Parses an object's name; `None` if no writer would choose this name.
    pub fn parse(name: &str) -> Option<TableObject> {
        let (folder, rest) = name.split_once('/')?;
        let (writer, number) = rest.strip_suffix(".parquet")?.split_once('-')?;
        let role = match folder {
            "d" => Role::Data,
            "l" => Role::List,
            _ => return None,
        };
        let writer = Id(u64::from_str_radix(writer, 16).ok()?);
        let object = TableObject { role, writer, number: number.parse().ok()? };
        // Each object has exactly one name: refuse capitals, leading zeros and signs.
        (object.to_string() == name).then_some(object)
    }

    pub fn object_id(&self, table: Id) -> Result<ObjectId> {
        ObjectId::in_namespace(table.namespace(), self.to_string())
    }
}

#[cfg(test)]
#[path = "ids_tests.rs"]
mod tests;
