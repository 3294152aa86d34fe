//! Identifiers that the store assigns: ids of buckets, writes and uploads; versions of objects.

use benthic_core::{Environment, Error, Result};
use std::fmt;
use std::str::FromStr;

/// A unique id: six bytes of time (big-endian milliseconds, so that ids sort by age) and ten random
/// bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id(pub [u8; 16]);

impl Id {
    /// Draws a new id.
    ///
    /// # Errors
    /// `Unavailable` if there are no random numbers.
    pub fn draw(environment: &Environment) -> Result<Id> {
        let mut id = [0; 16];
        id[..8].copy_from_slice(&(environment.unix_ms() << 16).to_be_bytes());
        environment.random.fill(&mut id[6..])?;
        Ok(Id(id))
    }
}

/// 32 hexadecimal digits.
impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl FromStr for Id {
    type Err = Error;

    fn from_str(text: &str) -> Result<Id> {
        parse(text, u128::from_str_radix(text, 16).ok().map(|number| Id(number.to_be_bytes())))
    }
}

/// A version of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum VersionId {
    /// The key's only null version.
    Null,
    /// The version with this sequence number, if it is not the null version.
    Seq(u64),
}

/// `null`, or 16 hexadecimal digits.
impl fmt::Display for VersionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            VersionId::Null => f.write_str("null"),
            VersionId::Seq(seq) => write!(f, "{seq:016x}"),
        }
    }
}

impl FromStr for VersionId {
    type Err = Error;

    fn from_str(text: &str) -> Result<VersionId> {
        let seq = || u64::from_str_radix(text, 16).ok().map(VersionId::Seq);
        parse(text, if text == "null" { Some(VersionId::Null) } else { seq() })
    }
}

/// Accepts only the spelling that `Display` writes: no sign, no capitals, no missing digits.
fn parse<T: fmt::Display>(text: &str, parsed: Option<T>) -> Result<T> {
    parsed
        .filter(|id| id.to_string() == text)
        .ok_or_else(|| Error::invalid_argument("the id is malformed").with("id", text))
}
