//! Validates Thrift's compact protocol, which encodes Parquet's own structures, without building
//! anything.
//!
//! Parquet's decoder identifies a field by its number without checking its type, has its own way to
//! skip unknown fields, and reserves memory for as many elements as a list announces. This walk
//! therefore accepts only unambiguous input: known fields of the expected types, each once and in
//! order, and lists no longer than the remaining bytes.
//!
//! Source: `doc/specs/thrift-compact-protocol.md` of Apache Thrift.

/// Why the bytes are malformed.
pub type Malformed = &'static str;

/// The structure is longer than the bytes.
pub const TRUNCATED: Malformed = "a structure is truncated";

/// The type of a field.
pub enum Kind {
    Bool,
    I8,
    I16,
    I32,
    I64,
    Binary,
    List(&'static Kind),
    Structure(&'static Structure),
}

/// A structure type: its fields, by number.
pub struct Structure {
    pub fields: &'static [(i16, Kind)],
}

/// An event of the walk.
pub enum Event {
    Begin,
    /// A field begins: its number, and the number of bytes from there on. Zero is the end of the
    /// structure.
    Field(i16, usize),
    /// The number and the value of an integer field.
    Number(i16, i64),
}

/// Callback for the events. Its first argument is the structure that contains the event.
pub type Visit<'v> = dyn FnMut(&'static Structure, Event) -> Result<(), Malformed> + 'v;

/// Walks over one structure and returns the bytes after it.
pub fn walk<'a>(
    bytes: &'a [u8],
    structure: &'static Structure,
    visit: &mut Visit<'_>,
) -> Result<&'a [u8], Malformed> {
    let mut cursor = Cursor { rest: bytes };
    cursor.structure(structure, visit)?;
    Ok(cursor.rest)
}

struct Cursor<'a> {
    rest: &'a [u8],
}

impl Cursor<'_> {
    fn structure(&mut self, structure: &'static Structure, visit: &mut Visit<'_>) -> Result<(), Malformed> {
        visit(structure, Event::Begin)?;
        let mut last = 0_i16;
        loop {
            let rest = self.rest.len();
            let head = self.byte()?;
            if head == 0 {
                return visit(structure, Event::Field(0, rest));
            }
            let delta = i16::from(head >> 4);
            let id = match delta {
                0 => i16::try_from(self.zigzag()?).map_err(|_| "a field has no number")?,
                delta => last.checked_add(delta).ok_or("a field has no number")?,
            };
            if id <= last {
                return Err("fields are not in order");
            }
            last = id;
            visit(structure, Event::Field(id, rest))?;
            let field = structure.fields.iter().find(|field| field.0 == id);
            let (_, kind) = field.ok_or("a field is unknown")?;
            match (kind, head & 0x0f) {
                // The type code contains the value.
                (Kind::Bool, 1 | 2) => {}
                (Kind::I8 | Kind::I16 | Kind::I32 | Kind::I64, found) if found == kind.code() => {
                    let value = self.number(kind)?;
                    visit(structure, Event::Number(id, value))?;
                }
                (kind, found) if found == kind.code() => self.value(kind, visit)?,
                _ => return Err("a field has another type"),
            }
        }
    }

    fn value(&mut self, kind: &'static Kind, visit: &mut Visit<'_>) -> Result<(), Malformed> {
        match kind {
            Kind::Bool => self.advance(1),
            Kind::I8 | Kind::I16 | Kind::I32 | Kind::I64 => self.number(kind).map(drop),
            Kind::Binary => {
                let len_bytes = self.varint()?;
                self.advance(len_bytes)
            }
            Kind::Structure(structure) => self.structure(structure, visit),
            Kind::List(kind) => {
                let head = self.byte()?;
                let count = match head >> 4 {
                    15 => self.varint()?,
                    count => u64::from(count),
                };
                // Some writers encode an empty list without an element type.
                let fits = head & 0x0f == kind.code() || (matches!(kind, Kind::Bool) && head & 0x0f == 2);
                if !fits && head != 0 {
                    return Err("a list has another type");
                }
                if count > self.rest.len() as u64 {
                    return Err("a list is longer than its data");
                }
                (0..count).try_for_each(|_| self.value(kind, visit))
            }
        }
    }

    fn number(&mut self, kind: &Kind) -> Result<i64, Malformed> {
        let value = match kind {
            Kind::I8 => i64::from(self.byte()?.cast_signed()),
            _ => self.zigzag()?,
        };
        let fits = match kind {
            Kind::I16 => i16::try_from(value).is_ok(),
            Kind::I32 => i32::try_from(value).is_ok(),
            _ => true,
        };
        if fits { Ok(value) } else { Err("a number is too large") }
    }

    fn byte(&mut self) -> Result<u8, Malformed> {
        let (byte, rest) = self.rest.split_first().ok_or(TRUNCATED)?;
        self.rest = rest;
        Ok(*byte)
    }

    fn advance(&mut self, len_bytes: u64) -> Result<(), Malformed> {
        let len_bytes = usize::try_from(len_bytes).map_err(|_| TRUNCATED)?;
        self.rest = self.rest.get(len_bytes..).ok_or(TRUNCATED)?;
        Ok(())
    }

    fn varint(&mut self) -> Result<u64, Malformed> {
        let mut value = 0_u64;
        for shift in (0..63).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        // The tenth byte may hold only one bit.
        match self.byte()? {
            byte @ 0..=1 => Ok(value | u64::from(byte) << 63),
            _ => Err("a number is too long"),
        }
    }

    fn zigzag(&mut self) -> Result<i64, Malformed> {
        let value = self.varint()?;
        Ok((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
    }
}

impl Kind {
    fn code(&self) -> u8 {
        match self {
            Kind::Bool => 1,
            Kind::I8 => 3,
            Kind::I16 => 4,
            Kind::I32 => 5,
            Kind::I64 => 6,
            Kind::Binary => 8,
            Kind::List(_) => 9,
            Kind::Structure(_) => 12,
        }
    }
}
