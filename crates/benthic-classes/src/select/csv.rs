//! Reads records of CSV.
//!
//! The crate `csv-core` has no record delimiters of two characters, and cannot start in the middle
//! of an object. Here the end of a record is searched first, so a scan without quoted record
//! delimiters costs one `memmem`, and only records that start in a range are split into fields.

use super::failure::{Fault, fault};
use super::json::record_too_long;
use super::{RECORD_BYTES_MAX, Work};
use std::borrow::Cow;
use std::io::Read;
use std::ops::Range;

/// Bytes of one read.
const READ_BYTES: usize = 128 * 1024;
/// The mark of UTF-8 at the start of data.
const MARK: &[u8] = b"\xef\xbb\xbf";

/// The form of CSV. A quote, an escape or a comment character is one byte of ASCII.
#[derive(Clone, Debug)]
pub(super) struct Dialect {
    pub record_delimiter: Vec<u8>,
    pub field_delimiter: String,
    pub quote: Option<u8>,
    pub escape: Option<u8>,
    pub comment: Option<u8>,
    /// Quoted fields may contain record delimiters.
    pub quoted_delimiters: bool,
}

/// Records of a stream of bytes, and where each begins.
pub(super) struct Records<'a> {
    read: &'a mut dyn Read,
    dialect: &'a Dialect,
    buffer: Vec<u8>,
    /// The bytes that were read and are not a part of a returned record. The space behind them is
    /// free.
    rest: Range<usize>,
    /// The place in the data of the buffer's first byte.
    base: u64,
    /// Whether the mark of UTF-8 was searched, and whether the data begin with it.
    mark: Option<bool>,
    is_at_end: bool,
    /// The fault behind an error of the reader.
    fault_of: &'a dyn Fn(&std::io::Error) -> Fault,
}

impl<'a> Records<'a> {
    /// Records of `read`, whose first byte has the place `base` in the data.
    pub fn new(
        read: &'a mut dyn Read,
        base: u64,
        dialect: &'a Dialect,
        fault_of: &'a dyn Fn(&std::io::Error) -> Fault,
    ) -> Records<'a> {
        // Only the start of the data has a mark.
        let mark = (base > 0).then_some(false);
        Records { read, dialect, buffer: Vec::new(), rest: 0..0, base, mark, is_at_end: false, fault_of }
    }

    /// The next record that is neither empty nor a comment, and the place of its first byte.
    pub fn next(&mut self, work: &Work<'_>) -> Result<Option<(u64, &[u8])>, Fault> {
        loop {
            let Some(record) = self.next_range(work)? else { return Ok(None) };
            let place = match self.base + record.start as u64 {
                // The mark belongs to the first record.
                place if place == MARK.len() as u64 && self.mark == Some(true) => 0,
                place => place,
            };
            let is_skipped = match self.buffer[record.clone()].first() {
                None => true,
                first => first.copied() == self.dialect.comment,
            };
            if !is_skipped {
                return Ok(Some((place, &self.buffer[record])));
            }
            work.tick(record.len())?;
        }
    }

    /// Skips the rest of a record in whose middle the data begin.
    pub fn skip_part(&mut self, work: &Work<'_>) -> Result<(), Fault> {
        self.next_range(work).map(drop)
    }

    /// The next record without its delimiter, as a range of the buffer.
    fn next_range(&mut self, work: &Work<'_>) -> Result<Option<Range<usize>>, Fault> {
        while self.mark.is_none() {
            let data = &self.buffer[self.rest.clone()];
            if data.len() < MARK.len() && !self.is_at_end {
                self.fill().map_err(|error| (self.fault_of)(&error))?;
                continue;
            }
            let has_mark = data.starts_with(MARK);
            self.rest.start += if has_mark { MARK.len() } else { 0 };
            self.mark = Some(has_mark);
        }
        let delimiter_len = self.dialect.record_delimiter.len();
        // The part that was searched already, from the start of the record.
        let mut scan = Scan::default();
        loop {
            let data = &self.buffer[self.rest.clone()];
            if let Some(len) = scan.find(data, self.dialect, self.is_at_end) {
                if len > RECORD_BYTES_MAX {
                    return Err(record_too_long());
                }
                let start = self.rest.start;
                self.rest.start += len + delimiter_len;
                return Ok(Some(start..self.without_return(start, start + len)));
            }
            if data.len() > RECORD_BYTES_MAX + delimiter_len {
                return Err(record_too_long());
            }
            if self.is_at_end {
                let record = self.rest.clone();
                self.rest.start = self.rest.end;
                let end = self.without_return(record.start, record.end);
                return Ok((!record.is_empty()).then_some(record.start..end));
            }
            self.fill().map_err(|error| (self.fault_of)(&error))?;
            work.tick(READ_BYTES)?;
        }
    }

    /// Lines of Windows end with `\r\n`: the `\r` is no part of the last field.
    fn without_return(&self, start: usize, end: usize) -> usize {
        let is_return =
            self.dialect.record_delimiter == b"\n" && self.buffer[start..end].last() == Some(&b'\r');
        end - usize::from(is_return)
    }

    fn fill(&mut self) -> std::io::Result<()> {
        if self.buffer.len() - self.rest.end < READ_BYTES / 2 {
            self.buffer.copy_within(self.rest.clone(), 0);
            self.base += self.rest.start as u64;
            self.rest = 0..self.rest.len();
            let wanted = self.rest.end + READ_BYTES;
            if self.buffer.len() < wanted {
                self.buffer.resize(wanted, 0);
            }
        }
        let read_bytes = loop {
            match self.read.read(&mut self.buffer[self.rest.end..]) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                read => break read?,
            }
        };
        self.rest.end += read_bytes;
        self.is_at_end = read_bytes == 0;
        Ok(())
    }
}

/// The search for the end of a record, which continues when more data have arrived.
#[derive(Default)]
struct Scan {
    at: usize,
    in_quotes: bool,
}

impl Scan {
    /// The length of the record at the start of `data`; `None` if its delimiter is not there yet.
    fn find(&mut self, data: &[u8], dialect: &Dialect, is_at_end: bool) -> Option<usize> {
        let delimiter = dialect.record_delimiter.as_slice();
        let (Some(quote), true) = (dialect.quote, dialect.quoted_delimiters) else {
            let found = memchr::memmem::find(&data[self.at.min(data.len())..], delimiter);
            let at = self.at.min(data.len());
            // The start of a delimiter may be at the end of the data.
            self.at = data.len().saturating_sub(delimiter.len() - 1).max(at);
            return found.map(|found| at + found);
        };
        let escape = dialect.escape.unwrap_or(quote);
        while self.at < data.len() {
            let rest = &data[self.at..];
            if !self.in_quotes {
                let found = memchr::memchr2(quote, delimiter[0], rest)?;
                let at = self.at + found;
                if data[at..].starts_with(delimiter) {
                    return Some(at);
                }
                if data.len() - at < delimiter.len() && !is_at_end {
                    self.at = at;
                    return None;
                }
                let opens = at == 0 || data[..at].ends_with(dialect.field_delimiter.as_bytes());
                self.in_quotes = data[at] == quote && opens;
                self.at = at + 1;
                continue;
            }
            let Some(found) = memchr::memchr2(quote, escape, rest) else {
                self.at = data.len();
                return None;
            };
            let at = self.at + found;
            match data.get(at + 1) {
                // The next byte decides.
                None if !is_at_end => {
                    self.at = at;
                    return None;
                }
                Some(next) if data[at] == escape && (*next == quote || *next == escape) => self.at = at + 2,
                _ => {
                    self.in_quotes = data[at] != quote;
                    self.at = at + 1;
                }
            }
        }
        None
    }
}

/// The fields of a record.
#[derive(Debug)]
pub(super) struct Record<'a> {
    fields: Vec<Cow<'a, str>>,
}

impl<'a> Record<'a> {
    /// Splits a record into at most `fields_max` fields.
    pub fn new(bytes: &'a [u8], dialect: &Dialect, fields_max: usize) -> Result<Record<'a>, Fault> {
        let text = std::str::from_utf8(bytes)
            .map_err(|_| fault("InvalidTextEncoding", "the data are not UTF-8, which a query needs"))?;
        let delimiter = dialect.field_delimiter.as_str();
        let quote = dialect.quote.map(char::from);
        let mut fields = Vec::new();
        let mut rest = Some(text);
        while let Some(text) = rest
            && fields.len() < fields_max
        {
            let quoted = quote.and_then(|quote| text.strip_prefix(quote).map(|inner| (quote, inner)));
            let (field, after) = match quoted {
                Some((quote, inner)) => {
                    let (field, after) = unquote(inner, quote, dialect.escape.map_or(quote, char::from))?;
                    match after.strip_prefix(delimiter) {
                        Some(after) => (field, Some(after)),
                        None if after.is_empty() => (field, None),
                        None => {
                            let message = "text follows the closing quote of a field";
                            return Err(fault("CSVUnescapedQuote", message));
                        }
                    }
                }
                None => match text.split_once(delimiter) {
                    Some((field, after)) => (Cow::Borrowed(field), Some(after)),
                    None => (Cow::Borrowed(text), None),
                },
            };
            fields.push(field);
            rest = after;
        }
        Ok(Record { fields })
    }

    pub fn field(&self, index: usize) -> Option<&str> {
        self.fields.get(index).map(AsRef::as_ref)
    }

    pub fn fields(&self) -> &[Cow<'a, str>] {
        &self.fields
    }
}

/// The text up to the closing quote, and the rest.
fn unquote(text: &str, quote: char, escape: char) -> Result<(Cow<'_, str>, &str), Fault> {
    let mut unescaped: Option<String> = None;
    let mut start = 0;
    let mut at = 0;
    loop {
        let Some(found) = text[at..].find([quote, escape]) else {
            let message = "a quoted field has no closing quote in its record; if quoted fields contain record \
                           delimiters, set AllowQuotedRecordDelimiter";
            return Err(fault("CSVUnescapedQuote", message));
        };
        // Quote and escape are one byte each.
        at += found;
        let is_escape = text[at..].starts_with(escape);
        let escaped =
            text[at + 1..].chars().next().filter(|next| is_escape && (*next == quote || *next == escape));
        if escaped.is_some() {
            let so_far = unescaped.get_or_insert_default();
            so_far.push_str(&text[start..at]);
            start = at + 1;
            at += 2;
        } else if text[at..].starts_with(quote) {
            let last = &text[start..at];
            let field = match unescaped {
                None => Cow::Borrowed(last),
                Some(so_far) => Cow::Owned(so_far + last),
            };
            return Ok((field, &text[at + 1..]));
        } else {
            at += 1;
        }
    }
}
