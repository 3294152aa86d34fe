//! Splits texts into words, for text indexes and for the SQL functions that search for words.
//!
//! A word is one in the sense of Unicode (UAX #29) with at least one letter or digit. Words are
//! compared in lower case, character by character. An index must be read with the rules that it was
//! built with, or a lookup would miss rows. So a text index records [`tokenizer`], and a build with
//! other rules ignores the index.

use crate::key;
use crate::probe::KeyRange;
use std::sync::LazyLock;
use unicode_segmentation::UnicodeSegmentation;

/// Increase this number when the rules of this file change.
const RULES: u32 = 1;

static TOKENIZER: LazyLock<String> = LazyLock::new(|| {
    let (major, minor, update) = unicode_segmentation::UNICODE_VERSION;
    let (case_major, case_minor, case_update) = char::UNICODE_VERSION;
    format!("{RULES} {major}.{minor}.{update} {case_major}.{case_minor}.{case_update}")
});

/// Identifies the rules of this build: our own version, and the versions of Unicode that define
/// words and lower case.
pub fn tokenizer() -> &'static str {
    &TOKENIZER
}

/// The words of a text, as they are written in it.
pub fn words(text: &str) -> impl Iterator<Item = &str> {
    text.unicode_words()
}

/// The characters of a word in lower case. Both forms of the Greek small sigma are one character.
fn lower(word: &str) -> impl Iterator<Item = char> {
    let one_sigma = |char| if char == 'ς' { 'σ' } else { char };
    word.chars().flat_map(char::to_lowercase).map(one_sigma)
}

/// Writes the index key of a word. Words that agree in their first 64 bytes share a key.
pub(crate) fn write_key(word: &str, lower_case: &mut String, word_key: &mut Vec<u8>) {
    lower_case.clear();
    for char in lower(word) {
        if lower_case.len() >= key::VALUE_BYTES_MAX {
            break;
        }
        lower_case.push(char);
    }
    word_key.clear();
    key::push_text(lower_case.as_bytes(), word_key);
}

/// The condition of a query on a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Search {
    /// The text contains every word of the query.
    Words,
    /// The text contains the words of the query in this order, one directly after the other.
    Phrase,
    /// For every word of the query, the text contains a word that begins with it.
    Prefixes,
}

/// A search for words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextQuery {
    search: Search,
    /// In lower case.
    words: Vec<String>,
    /// For a phrase, the length of the longest proper prefix of the first words that is also their
    /// suffix (Knuth, Morris, Pratt).
    fallback: Vec<usize>,
}

impl TextQuery {
    /// A query with the words of a text. A query without words matches no text.
    pub fn new(search: Search, text: &str) -> TextQuery {
        let mut words: Vec<String> = words(text).map(|word| lower(word).collect()).collect();
        if search != Search::Phrase {
            words.sort();
            words.dedup();
        }
        let mut fallback = vec![0; words.len()];
        let mut len = 0;
        for end in 1..words.len() {
            while len > 0 && words[end] != words[len] {
                len = fallback[len - 1];
            }
            len += usize::from(words[end] == words[len]);
            fallback[end] = len;
        }
        TextQuery { search, words, fallback }
    }

    /// Whether a text matches. Takes no memory beyond one bit per word of the query, and time in
    /// proportion to the length of the text times the number of words of the query.
    pub fn matches(&self, text: &str) -> bool {
        match self.search {
            _ if self.words.is_empty() => false,
            Search::Words => self.has_each(text, is_word),
            Search::Prefixes => self.has_each(text, begins_with),
            Search::Phrase => self.has_phrase(text),
        }
    }

    fn has_each(&self, text: &str, is_found: fn(&str, &str) -> bool) -> bool {
        let mut missing: Vec<&str> = self.words.iter().map(String::as_str).collect();
        words(text).any(|word| {
            missing.retain(|wanted| !is_found(word, wanted));
            missing.is_empty()
        })
    }

    fn has_phrase(&self, text: &str) -> bool {
        let mut len = 0;
        words(text).any(|word| {
            while len > 0 && !is_word(word, &self.words[len]) {
                len = self.fallback[len - 1];
            }
            len += usize::from(is_word(word, &self.words[len]));
            len == self.words.len()
        })
    }

    /// The index keys to look up: the rows of a matching text are in every one of these ranges.
    pub fn keys(&self) -> Vec<KeyRange> {
        let range = |word: &String| {
            let low = match self.search {
                Search::Prefixes => key::of_prefix(word.as_bytes()),
                _ => {
                    let mut key = Vec::new();
                    key::push_text(word.as_bytes(), &mut key);
                    key
                }
            };
            KeyRange { high: low.clone().into(), low: low.into() }
        };
        let mut words = self.words.clone();
        words.sort();
        words.dedup();
        words.iter().map(range).collect()
    }
}

/// Whether a word, in lower case, is `wanted`.
fn is_word(word: &str, wanted: &str) -> bool {
    // An ASCII word has as many bytes in lower case. Of the others, the Kelvin sign is a `k`.
    if word.is_ascii() { word.eq_ignore_ascii_case(wanted) } else { lower(word).eq(wanted.chars()) }
}

fn begins_with(word: &str, wanted: &str) -> bool {
    if word.is_ascii() {
        let start = word.as_bytes().get(..wanted.len());
        return start.is_some_and(|start| start.eq_ignore_ascii_case(wanted.as_bytes()));
    }
    let mut chars = lower(word);
    wanted.chars().all(|char| chars.next() == Some(char))
}

#[cfg(test)]
#[path = "words_tests.rs"]
mod tests;
