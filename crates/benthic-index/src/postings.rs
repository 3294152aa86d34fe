//! The words of a column of strings, each with the rows that contain it.

use crate::directory::PAGES_MAX;
use crate::key::as_strings;
use crate::page::{PAGE_BYTES_MAX, Runs, too_large};
use crate::probe::ANY_WORD;
use crate::words::{words, write_key};
use arrow::array::{Array, ArrayRef};
use benthic_core::{Error, Result};
use std::collections::HashMap;
use std::ops::Range;

/// Maximum number of distinct words of a row. A row with more is listed as one that may contain any
/// word, so that a single text cannot fill the pages of an object.
pub const ROW_WORDS_MAX: usize = 64 * 1024;
/// Maximum number of distinct words of an object.
const WORDS_MAX: usize = 1024 * 1024;
/// A word that more than one row in this many contains is listed with all rows: its exact rows
/// would take much space, and would help no query.
const ROWS_PER_LISTED_MIN: u64 = 5;

/// The rows of one word.
#[derive(Default)]
struct Posting {
    runs: Runs,
    /// The last run, which the next row may extend.
    open: Range<u32>,
    rows: u64,
}

impl Posting {
    /// Adds a row. Rows come in ascending order, and may repeat.
    fn push(&mut self, row: u32) {
        if self.rows > 0 && self.open.end > row {
            return;
        }
        self.rows += 1;
        if self.rows > 1 && self.open.end == row {
            self.open.end = row + 1;
            return;
        }
        if self.rows > 1 {
            self.runs.push(&self.open);
        }
        self.open = row..row + 1;
    }
}

/// The words of a column.
pub struct Postings {
    /// Keys in ascending order.
    words: Vec<(Box<[u8]>, Posting)>,
    rows: u32,
}

impl Postings {
    /// Memory: about 150 bytes a distinct word, plus one to two bytes for each word of each row.
    ///
    /// # Errors
    /// `LimitExceeded` if the pages would be too large; `InvalidArgument` for several columns;
    /// `Unsupported` for other types than strings.
    pub fn of(columns: &[ArrayRef]) -> Result<Postings> {
        let [column] = columns else {
            let message = "an index of words has one column";
            return Err(Error::invalid_argument(message).with("columns", columns.len()));
        };
        let texts = as_strings(column)?;
        let mut numbers: HashMap<Box<[u8]>, u32> = HashMap::new();
        let mut postings: Vec<Posting> = Vec::new();
        let mut any_word = Posting::default();
        let (mut lower_case, mut key, mut found) = (String::new(), Vec::new(), Vec::new());
        for (row, text) in (0..).zip(texts.iter()) {
            found.clear();
            let known_words = postings.len();
            let mut are_too_many = false;
            for word in words(text.unwrap_or_default()) {
                write_key(word, &mut lower_case, &mut key);
                let number = match numbers.get(key.as_slice()) {
                    Some(number) => *number,
                    None => {
                        let number = postings.len() as u32;
                        numbers.insert(key.as_slice().into(), number);
                        postings.push(Posting::default());
                        number
                    }
                };
                found.push(number);
                if found.len() > 2 * ROW_WORDS_MAX {
                    found.sort_unstable();
                    found.dedup();
                    are_too_many = found.len() > ROW_WORDS_MAX;
                    if are_too_many {
                        break;
                    }
                }
            }
            found.sort_unstable();
            found.dedup();
            if are_too_many || found.len() > ROW_WORDS_MAX {
                any_word.push(row);
                numbers.retain(|_, number| (*number as usize) < known_words);
                postings.truncate(known_words);
            } else {
                found.iter().for_each(|number| postings[*number as usize].push(row));
            }
            if postings.len() > WORDS_MAX {
                return Err(too_large(texts.len()));
            }
        }
        let listed = |(key, number): (Box<[u8]>, u32)| (key, std::mem::take(&mut postings[number as usize]));
        let mut words: Vec<(Box<[u8]>, Posting)> = numbers.into_iter().map(listed).collect();
        words.push((ANY_WORD.into(), any_word));
        words.retain(|(_, posting)| posting.rows > 0);
        words.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        let len_bytes: usize = words.iter().map(|(key, posting)| key.len() + posting.runs.len_bytes()).sum();
        if len_bytes > PAGES_MAX * PAGE_BYTES_MAX {
            return Err(too_large(texts.len()));
        }
        // The caller has checked the number of rows.
        Ok(Postings { words, rows: texts.len() as u32 })
    }

    /// The keys of the words in ascending order, each with the runs of its rows.
    pub fn groups(&self) -> impl Iterator<Item = (&[u8], impl Iterator<Item = Range<u32>>)> {
        self.words.iter().map(|(key, posting)| {
            let is_common = posting.rows.saturating_mul(ROWS_PER_LISTED_MIN) > u64::from(self.rows);
            let (listed, last) = match is_common {
                true => (None, 0..self.rows),
                false => (Some(posting.runs.iter()), posting.open.clone()),
            };
            (key.as_ref(), listed.into_iter().flatten().chain([last]))
        })
    }
}
