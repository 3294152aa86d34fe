//! The verbs of the program: `sql`, and `table` with its own verbs.

mod prompt;
mod rows;
mod serve;
pub mod sql;
pub mod table;

use benthic_core::pushdown::Pushdown;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

/// The words of `--pushdown`.
const PUSHDOWN: [(&str, &str, Pushdown); 3] = [
    (
        "auto",
        "The faster place: measured during the query on a cluster, always the client for a store on this machine",
        Pushdown::Auto,
    ),
    ("always", "Beside each object that accepts the fragment", Pushdown::Always),
    ("never", "In the client", Pushdown::Never),
];

/// A parser for an option that takes one of several words. Each word has a help text and a value.
fn one_of<T: Copy + Send + Sync>(
    words: &'static [(&'static str, &'static str, T)],
) -> impl TypedValueParser<Value = T> {
    let values = words.iter().map(|(word, help, _)| PossibleValue::new(*word).help(*help));
    PossibleValuesParser::new(values).try_map(|given| {
        let word = words.iter().find(|(word, ..)| *word == given);
        word.map(|(.., value)| *value).ok_or("this word is unknown")
    })
}
