//! Names: of tables, and of the objects that a table is made of.

use benthic_core::{Environment, Error, ErrorKind, ObjectId, Result};
use std::fmt;

/// The namespace that holds the heads of a pool's tables.
pub const HEADS_NAMESPACE: &str = "benthic.tables";
/// What the namespace of one table's other objects begins with; its id follows.
pub const TABLE_NAMESPACE_PREFIX: &str = "benthic.table.";
/// Longest name of a table, in bytes of UTF-8.
pub const TABLE_NAME_BYTES_MAX: usize = 200;

/// A number drawn at random that tells one table, or one writer, from all others. Shown as 16 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id(pub u64);

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl Id {
    /// A new id; never 0, which stands for no writer.
    ///
    /// # Errors
    /// `Unavailable` if there are no random numbers.
    pub(crate) fn draw(environment: &Environment) -> Result<Id> {
        loop {
            let number = environment.random.random_u64()?;
            if number != 0 {
                return Ok(Id(number));
            }
        }
    }

    /// The namespace of the table with this id.
    pub fn namespace(self) -> String {
        format!("{TABLE_NAMESPACE_PREFIX}{self}")
    }
}

/// Checks a table's name: 1 to 200 bytes, no `/`, `:` or control character, and no leading `.`.
///
/// # Errors
/// `InvalidArgument`, `LimitExceeded`.
pub fn check_table_name(name: &str) -> Result<()> {
    if name.len() > TABLE_NAME_BYTES_MAX {
        return Err(Error::new(ErrorKind::LimitExceeded, "the table's name is too long")
            .with("len_bytes", name.len())
            .with("len_bytes_max", TABLE_NAME_BYTES_MAX));
    }
    let barred = |c: char| c == '/' || c == ':' || c.is_control();
    if name.is_empty() || name.starts_with('.') || name.contains(barred) {
        return Err(Error::new(
            ErrorKind::InvalidArgument,
            "a table's name is not empty, has no '/', ':' or control character and does not start with '.'",
        )
        .with("table", name));
    }
    Ok(())
}

/// The object that is the head of the table with this name.
///
/// # Errors
/// As [`check_table_name`].
pub fn head_object(table: &str) -> Result<ObjectId> {
    check_table_name(table)?;
    ObjectId::in_namespace(HEADS_NAMESPACE, table)
}

/// What an object of a table holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    /// Rows.
    Data,
    /// A list of data objects.
    List,
}

/// An object of a table: what it holds, who wrote it, and its number among that writer's. Its name says all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TableObject {
    /// What it holds.
    pub role: Role,
    /// Who wrote it.
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
    /// The object with this name; none if no writer names one so.
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
        // One object has one name: no capitals, no leading zeros or signs.
        (object.to_string() == name).then_some(object)
    }

    /// Where the object is, in the table with this id.
    ///
    /// # Errors
    /// None that a name of this form can cause.
    pub fn object_id(&self, table: Id) -> Result<ObjectId> {
        ObjectId::in_namespace(table.namespace(), self.to_string())
    }
}

#[cfg(test)]
#[path = "ids_tests.rs"]
mod tests;
