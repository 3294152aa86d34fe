//! Thrift's compact protocol, in which Parquet writes its own structures, read without building anything: whoever decodes
//! them afterwards reserves memory for as many elements as a list says it has.
//!
//! Source: `doc/specs/thrift-compact-protocol.md` of Apache Thrift.

/// Why bytes are not what they should be.
pub type Malformed = &'static str;

/// Elements of one list of structures (row groups, columns, pages) and of any other.
const STRUCTURES_MAX: u64 = 64 * 1024;
const ELEMENTS_MAX: u64 = 1024 * 1024;
/// Parquet nests less than half as deep.
const DEPTH_MAX: u32 = 16;

const TRUE: u8 = 1;
const FALSE: u8 = 2;
const BYTE: u8 = 3;
const I16: u8 = 4;
const I32: u8 = 5;
const I64: u8 = 6;
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const SET: u8 = 10;
const MAP: u8 = 11;
const STRUCTURE: u8 = 12;

/// A field of a structure (`parent` 0), or of a structure in its field `parent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    pub parent: i16,
    pub id: i16,
}

/// Steps over one structure and gives what follows it. `number` gets its integers and those of the structures in it, not
/// those in lists.
pub fn skip<'a>(bytes: &'a [u8], number: &mut dyn FnMut(Field, i64)) -> Result<&'a [u8], Malformed> {
    let mut cursor = Cursor { rest: bytes };
    cursor.structure(0, 0, number)?;
    Ok(cursor.rest)
}

struct Cursor<'a> {
    rest: &'a [u8],
}

impl Cursor<'_> {
    fn structure(
        &mut self,
        parent: i16,
        depth: u32,
        number: &mut dyn FnMut(Field, i64),
    ) -> Result<(), Malformed> {
        if depth > DEPTH_MAX {
            return Err("a structure is nested too deep");
        }
        let mut id = 0_i16;
        loop {
            let head = self.byte()?;
            let (delta, kind) = (head >> 4, head & 0x0f);
            if kind == 0 {
                return Ok(());
            }
            id = if delta == 0 {
                i16::try_from(self.zigzag()?).map_err(|_| "a field has no number")?
            } else {
                id.checked_add(i16::from(delta)).ok_or("a field has no number")?
            };
            match kind {
                TRUE | FALSE => {}
                I16 | I32 | I64 => number(Field { parent, id }, self.zigzag()?),
                STRUCTURE if depth == 0 => self.structure(id, depth + 1, number)?,
                kind => self.value(kind, depth)?,
            }
        }
    }

    fn value(&mut self, kind: u8, depth: u32) -> Result<(), Malformed> {
        match kind {
            // In a list each takes a byte.
            TRUE | FALSE | BYTE => self.advance(1),
            I16 | I32 | I64 => self.zigzag().map(drop),
            DOUBLE => self.advance(8),
            BINARY => {
                let len_bytes = self.varint()?;
                self.advance(len_bytes)
            }
            LIST | SET => {
                let head = self.byte()?;
                let kind = head & 0x0f;
                let count = match head >> 4 {
                    15 => self.varint()?,
                    count => u64::from(count),
                };
                let max = if kind == STRUCTURE { STRUCTURES_MAX } else { ELEMENTS_MAX };
                if count > max || count > self.rest.len() as u64 {
                    return Err("a list promises more than it has");
                }
                self.values(count, kind, depth)
            }
            // Parquet has none.
            MAP => Err("a map"),
            STRUCTURE => self.structure(0, depth + 1, &mut |_, _| {}),
            _ => Err("a field has no type"),
        }
    }

    fn values(&mut self, count: u64, kind: u8, depth: u32) -> Result<(), Malformed> {
        if depth >= DEPTH_MAX {
            return Err("a list is nested too deep");
        }
        (0..count).try_for_each(|_| self.value(kind, depth + 1))
    }

    fn byte(&mut self) -> Result<u8, Malformed> {
        let (byte, rest) = self.rest.split_first().ok_or("a structure is cut")?;
        self.rest = rest;
        Ok(*byte)
    }

    fn advance(&mut self, len_bytes: u64) -> Result<(), Malformed> {
        let len_bytes = usize::try_from(len_bytes).map_err(|_| "a structure is cut")?;
        self.rest = self.rest.get(len_bytes..).ok_or("a structure is cut")?;
        Ok(())
    }

    fn varint(&mut self) -> Result<u64, Malformed> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err("a number is too long")
    }

    fn zigzag(&mut self) -> Result<i64, Malformed> {
        let value = self.varint()?;
        Ok((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
    }
}
