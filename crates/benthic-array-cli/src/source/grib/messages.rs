//! The fields of a GRIB file: their headers, and where their values are.
//!
//! A message of edition 2 may have several fields, which share sections. Only headers are read.

use super::grid::Grid;
use super::octets::Section;
use super::product::Product;
use benthic_array::CHUNKS_MAX;
use benthic_array::decoders::ByteRange;
use benthic_core::{Error, ErrorKind, Result};
use benthic_program::local;
use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::rc::Rc;

pub const MAGIC: &[u8] = b"GRIB";
const END: &[u8] = b"7777";
/// Limit on a header.
const HEADER_BYTES_MAX: u64 = 1 << 20;
/// Limit on the different grids of a file, which are in memory.
const GRIDS_MAX: usize = 256;
/// Number of bytes that are searched at once for the next message.
const SEARCH_BYTES: u64 = 64 << 10;

/// A field of the file.
pub struct Field {
    pub product: Product,
    /// Why an array cannot have the grid or the values, or both of them.
    pub content: Outcome<(Rc<Grid>, Values)>,
}

/// Where the codec finds the values.
#[derive(Clone, Copy, Debug)]
pub struct Values {
    pub range: ByteRange,
    pub is_double: bool,
    /// Whether the range begins with the bitmap of an earlier field.
    pub shares_bitmap: bool,
}

/// A part of a message, or why it is not supported.
pub type Outcome<T> = std::result::Result<T, String>;

/// A local file that is read at any offset.
pub struct LocalFile {
    pub file: File,
    pub path: PathBuf,
    pub size_bytes: u64,
}

impl LocalFile {
    /// Reads a range.
    ///
    /// # Errors
    /// `Corrupt` if the file ends before; those of the file system.
    pub fn read(&self, offset_bytes: u64, len_bytes: u64) -> Result<Vec<u8>> {
        if offset_bytes.checked_add(len_bytes).is_none_or(|end| end > self.size_bytes) {
            return Err(corrupt("the file ends within a GRIB message", offset_bytes));
        }
        let mut data = vec![0; len_bytes as usize];
        let failed = local::failed("cannot read the file", &self.path);
        self.file.read_exact_at(&mut data, offset_bytes).map_err(failed)?;
        Ok(data)
    }
}

fn corrupt(message: &str, offset_bytes: u64) -> Error {
    Error::corrupt(message).with("offset_bytes", offset_bytes)
}

/// Separates unsupported features, which concern one field, from other errors.
fn outcome<T>(result: Result<T>) -> Result<Outcome<T>> {
    match result {
        Ok(value) => Ok(Ok(value)),
        Err(error) if error.kind() == ErrorKind::Unsupported => Ok(Err(error.message().to_owned())),
        Err(error) => Err(error),
    }
}

/// Reads the headers of all fields.
///
/// # Errors
/// `Corrupt` for a damaged file; `LimitExceeded`; those of the file system.
pub fn read(file: &LocalFile) -> Result<Fields> {
    let mut fields = Fields::default();
    let mut at = 0;
    while let Some(start) = next_message(file, at)? {
        at = fields.read_message(file, start).map_err(|error| error.with("message_offset_bytes", start))?;
        if fields.fields.len() as u64 > CHUNKS_MAX {
            return Err(Error::limit_exceeded("the file has too many fields; split it")
                .with("fields_max", CHUNKS_MAX));
        }
    }
    Ok(fields)
}

/// The start of the next message. Some files have other bytes between messages.
fn next_message(file: &LocalFile, mut at: u64) -> Result<Option<u64>> {
    while at + MAGIC.len() as u64 <= file.size_bytes {
        let data = file.read(at, SEARCH_BYTES.min(file.size_bytes - at))?;
        if let Some(found) = data.windows(MAGIC.len()).position(|window| window == MAGIC) {
            return Ok(Some(at + found as u64));
        }
        at += data.len() as u64 - (MAGIC.len() as u64 - 1);
    }
    Ok(None)
}

/// The fields of a file.
#[derive(Default)]
pub struct Fields {
    pub fields: Vec<Field>,
    pub skipped: Vec<SkippedFields>,
    grids: HashMap<Vec<u8>, Outcome<Rc<Grid>>>,
}

/// Fields whose product is not supported.
pub struct SkippedFields {
    pub reason: String,
    pub first_offset_bytes: u64,
    pub count: u64,
}

/// The sections of edition 2 that later fields of a message may share.
#[derive(Default)]
struct Sections {
    identification: Vec<u8>,
    grid: Option<Outcome<Rc<Grid>>>,
    product: Vec<u8>,
    representation: Vec<u8>,
    representation_offset: u64,
    /// The section with a bitmap of its own.
    bitmap_offset: Option<u64>,
    /// The bitmap indicator of section 6.
    bitmap: u8,
}

impl Fields {
    /// Reads a message, and returns its end.
    fn read_message(&mut self, file: &LocalFile, start: u64) -> Result<u64> {
        let indicator = file.read(start, 8)?;
        match indicator[7] {
            1 => self.read_edition_1(file, start, Section(&indicator).u24(5)?.into()),
            2 => self.read_edition_2(file, start, indicator[6]),
            // Its length is unknown, too.
            edition => {
                self.skip(format!("its edition of GRIB, {edition}, is not supported"), start);
                Ok(start + 8)
            }
        }
    }

    fn read_edition_2(&mut self, file: &LocalFile, start: u64, discipline: u8) -> Result<u64> {
        let len_bytes = Section(&file.read(start, 16)?).u64(9)?;
        let end = start.checked_add(len_bytes).filter(|end| *end <= file.size_bytes);
        let end = end.ok_or_else(|| corrupt("the file ends within a GRIB message", start))?;
        let mut sections = Sections::default();
        let mut at = start + 16;
        if end < at {
            return Err(corrupt("the length of a GRIB message is wrong", start));
        }
        loop {
            let header = file.read(at, 4)?;
            if header == END {
                if at + 4 != end {
                    return Err(corrupt("the length of a GRIB message is wrong", start));
                }
                return Ok(end);
            }
            let len_bytes = u64::from(Section(&header).u32(1)?);
            let number = file.read(at + 4, 1)?[0];
            if len_bytes < 5 || len_bytes > end - at {
                return Err(corrupt("a section of a GRIB message is damaged", at));
            }
            match number {
                1 => sections.identification = header_section(file, at, len_bytes)?,
                3 => {
                    let section = header_section(file, at, len_bytes)?;
                    sections.grid = Some(self.grid(section, Grid::edition_2)?);
                }
                4 => sections.product = header_section(file, at, len_bytes)?,
                5 => {
                    sections.representation = header_section(file, at, len_bytes)?;
                    sections.representation_offset = at;
                }
                6 => {
                    sections.bitmap = file.read(at + 5, 1)?[0];
                    match sections.bitmap {
                        0 => sections.bitmap_offset = Some(at),
                        255 => sections.bitmap_offset = None,
                        _ => {}
                    }
                }
                7 => self.add_edition_2(&sections, discipline, at + len_bytes)?,
                _ => {}
            }
            at += len_bytes;
        }
    }

    fn add_edition_2(&mut self, sections: &Sections, discipline: u8, end: u64) -> Result<()> {
        let (identification, product) = (Section(&sections.identification), Section(&sections.product));
        let Some(grid) = &sections.grid else {
            return Err(corrupt("a GRIB message has no grid", end));
        };
        let product = match outcome(Product::edition_2(discipline, &identification, &product))? {
            Ok(product) => product,
            Err(reason) => {
                self.skip(reason, sections.representation_offset);
                return Ok(());
            }
        };
        // A bitmap of an earlier field is read, too.
        let start = match (sections.bitmap, sections.bitmap_offset) {
            (254, Some(offset)) => offset.min(sections.representation_offset),
            _ => sections.representation_offset,
        };
        let range = ByteRange { offset_bytes: start, len_bytes: end - start };
        let shares_bitmap = start < sections.representation_offset;
        let packing = packing_2(&Section(&sections.representation), sections.bitmap)?;
        let content = match (grid.clone(), packing) {
            (Ok(grid), Ok(is_double)) => Ok((grid, Values { range, is_double, shares_bitmap })),
            (Err(reason), _) | (_, Err(reason)) => Err(reason),
        };
        self.fields.push(Field { product, content });
        Ok(())
    }

    fn read_edition_1(&mut self, file: &LocalFile, start: u64, len_bytes: u64) -> Result<u64> {
        let product_bytes = u64::from(Section(&file.read(start + 8, 3)?).u24(1)?);
        let product = header_section(file, start + 8, product_bytes)?;
        let flags = Section(&product).u8(8)?;
        let mut at = start + 8 + product_bytes;
        let mut next = |is_present: bool| -> Result<Option<(u64, u64)>> {
            let section = (at, u64::from(Section(&file.read(at, 3)?).u24(1)?));
            at += if is_present { section.1 } else { 0 };
            Ok(is_present.then_some(section))
        };
        let grid = next(flags & 0x80 != 0)?;
        let bitmap = next(flags & 0x40 != 0)?;
        let mut data_bytes = u64::from(Section(&file.read(at, 3)?).u24(1)?);
        let mut len_bytes = len_bytes;
        if len_bytes & LARGE != 0 && data_bytes < LARGE_UNIT {
            // The last section then has the number of unused bytes, with itself but without `7777`.
            len_bytes = ((len_bytes & !LARGE) * LARGE_UNIT + 4).saturating_sub(data_bytes);
            data_bytes = (start + len_bytes).saturating_sub(at + 4);
        }
        let end = start + len_bytes;
        if at + data_bytes + 4 > end || end > file.size_bytes || file.read(end - 4, 4)? != END {
            return Err(corrupt("the length of a GRIB message is wrong", start));
        }
        let product = match outcome(Product::edition_1(&Section(&product)))? {
            Ok(product) => product,
            Err(reason) => {
                self.skip(reason, start);
                return Ok(end);
            }
        };
        let grid = match grid {
            Some((at, len_bytes)) => self.grid(header_section(file, at, len_bytes)?, Grid::edition_1)?,
            None => Err("its grid is a number of its producer, and not described".to_owned()),
        };
        let packing = file.read(at, 11)?[3];
        let has_own_bitmap = match bitmap {
            Some((at, _)) => file.read(at, 6)?[4..] == [0, 0],
            None => true,
        };
        let range = ByteRange { offset_bytes: start, len_bytes };
        let content = match grid {
            _ if packing & 0xd0 != 0 => Err("its packing is not simple packing; ".to_owned() + REPACK),
            _ if !has_own_bitmap => {
                Err("its bitmap is a number of its producer, and not in the file".to_owned())
            }
            Ok(grid) => Ok((grid, Values { range, is_double: false, shares_bitmap: false })),
            Err(reason) => Err(reason),
        };
        self.fields.push(Field { product, content });
        Ok(end)
    }

    fn skip(&mut self, reason: String, offset_bytes: u64) {
        match self.skipped.iter_mut().find(|skipped| skipped.reason == reason) {
            Some(skipped) => skipped.count += 1,
            None => self.skipped.push(SkippedFields { reason, first_offset_bytes: offset_bytes, count: 1 }),
        }
    }

    /// Parses a grid, or returns the one with the same header.
    fn grid(
        &mut self,
        section: Vec<u8>,
        parse: impl Fn(&Section<'_>) -> Result<Grid>,
    ) -> Result<Outcome<Rc<Grid>>> {
        if let Some(grid) = self.grids.get(&section) {
            return Ok(grid.clone());
        }
        if self.grids.len() == GRIDS_MAX {
            return Err(Error::limit_exceeded("the file has too many different grids; split it")
                .with("grids_max", GRIDS_MAX));
        }
        let grid = outcome(parse(&Section(&section)))?.map(Rc::new);
        self.grids.insert(section, grid.clone());
        Ok(grid)
    }
}

/// The length of a message of edition 1 has 24 bits. In a larger one, it counts units and has this
/// bit.
const LARGE: u64 = 0x0080_0000;
const LARGE_UNIT: u64 = 120;

fn header_section(file: &LocalFile, at: u64, len_bytes: u64) -> Result<Vec<u8>> {
    if len_bytes > HEADER_BYTES_MAX {
        return Err(corrupt("a section of a GRIB message is damaged", at));
    }
    file.read(at, len_bytes)
}

/// The next step for a packing that the codec lacks.
const REPACK: &str = "convert the file with: grib_set -r -s packingType=grid_simple IN OUT";

/// Whether the values are float64, for a packing that the codec can decode.
fn packing_2(section: &Section<'_>, bitmap: u8) -> Result<Outcome<bool>> {
    if !matches!(bitmap, 0 | 254 | 255) {
        return Ok(Err("its bitmap is a number of its producer, and not in the file".to_owned()));
    }
    let name = match section.u16(10)? {
        0 | 2 | 3 | 42 => return Ok(Ok(false)),
        4 if section.u8(12)? <= 2 => return Ok(Ok(section.u8(12)? == 2)),
        40 => "JPEG 2000 (grid_jpeg)".to_owned(),
        41 => "PNG (grid_png)".to_owned(),
        50..=53 => return Ok(Err("it has spectral coefficients, not values of points".to_owned())),
        template => format!("template 5.{template}"),
    };
    Ok(Err(format!("its packing is not supported: {name}; {REPACK}")))
}
