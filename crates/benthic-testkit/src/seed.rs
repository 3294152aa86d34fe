//! Seeds of random tests.
//!
//! `make test` must be reproducible, so its seeds are fixed. `make test-long` looks for new
//! failures, so its seeds are random. Every failure prints the seed of its case. Set [`VARIABLE`]
//! to that seed to run the case alone.

use std::hash::{BuildHasher, RandomState};

/// The environment variable that selects one seed.
pub const VARIABLE: &str = "BENTHIC_TEST_SEED";
const LONG_VARIABLE: &str = "BENTHIC_TEST_LONG";

/// Whether this is a `make test-long` run, with more cases and random seeds.
pub fn is_long() -> bool {
    std::env::var_os(LONG_VARIABLE).is_some()
}

/// The seed of a test with one case.
///
/// # Panics
/// If [`VARIABLE`] is not a number.
pub fn one() -> u64 {
    selected().unwrap_or_else(first)
}

/// The seeds of a test with `cases` cases: consecutive numbers, or only the one that [`VARIABLE`]
/// selects.
///
/// # Panics
/// If [`VARIABLE`] is not a number.
pub fn many(cases: u64) -> impl Iterator<Item = u64> {
    let (first, cases) = match selected() {
        Some(seed) => (seed, 1),
        None => (first(), cases),
    };
    (0..cases).map(move |index| first.wrapping_add(index))
}

fn selected() -> Option<u64> {
    let text = std::env::var(VARIABLE).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{VARIABLE} must be a decimal number got={text:?}")))
}

/// The first seed. A random seed is at most 48 bits, so that a test can add to it without overflow.
fn first() -> u64 {
    if is_long() { RandomState::new().hash_one(VARIABLE) >> 16 } else { 0 }
}
