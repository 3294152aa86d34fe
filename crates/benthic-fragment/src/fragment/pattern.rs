//! Regular expressions in bounded time and memory: the operators `~`, `~*`, `!~` and `!~*`.
//!
//! DataFusion compiles a pattern again for each batch, with limits of megabytes, and may simulate
//! all its states for each byte of a text. Here a pattern is compiled once, within small limits, to
//! an automaton whose states are built on demand. Each byte of a text then takes one step. The
//! memory of the built states is limited; if it was full a few times, the fragment stops, and the
//! client runs it. The rejected alternative is to limit the product of the sizes of pattern and
//! text, which refuses common searches of long texts.
//!
//! The syntax and the meaning are those of DataFusion, because it uses the same parser.

use super::stop::{Stop, unsupported};
use crate::text_search::strings;
use arrow::array::{Array, BooleanArray, RecordBatch};
use arrow::datatypes::{DataType, Schema};
use datafusion_common::{Result, not_impl_err, resources_err};
use datafusion_expr::ColumnarValue;
use datafusion_physical_expr::PhysicalExpr;
use parking_lot::Mutex;
use regex_automata::Input;
use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::nfa::thompson;
use regex_automata::util::syntax;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// Maximum number of regular expressions in a plan. Each may take the memory below.
pub const REGEXES_MAX: usize = 4;
/// Maximum nesting of a pattern. Its parser builds a tree.
const NESTING_MAX: u32 = 32;
const COMPILED_BYTES_MAX: usize = 256 * 1024;
const STATES_BYTES_MAX: usize = 1024 * 1024;
/// Number of times that the memory of the states may be full.
const FULL_MAX: usize = 3;

/// How an operator compares a text with a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Comparison {
    is_negated: bool,
    ignores_case: bool,
}

impl Comparison {
    /// The comparison of an operator of a plan, if it is one of regular expressions.
    pub fn of(operator: &str) -> Option<Comparison> {
        let (is_negated, ignores_case) = match operator {
            "RegexMatch" => (false, false),
            "RegexIMatch" => (false, true),
            "RegexNotMatch" => (true, false),
            "RegexNotIMatch" => (true, true),
            _ => return None,
        };
        Some(Comparison { is_negated, ignores_case })
    }
}

/// Compares a text with a pattern.
#[derive(Debug)]
pub struct PatternMatch {
    text: Arc<dyn PhysicalExpr>,
    pattern: String,
    comparison: Comparison,
    automaton: Arc<(DFA, Mutex<Cache>)>,
}

impl PatternMatch {
    /// Compiles the pattern.
    ///
    /// # Errors
    /// `NotImplemented` for an invalid pattern, one that is too large, and for values that are no
    /// text.
    pub fn new(
        text: Arc<dyn PhysicalExpr>,
        pattern: &str,
        comparison: Comparison,
        schema: &Schema,
    ) -> Result<PatternMatch> {
        match text.data_type(schema)? {
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {}
            other => return not_impl_err!("a regular expression on {other}"),
        }
        let syntax = syntax::Config::new().case_insensitive(comparison.ignores_case).nest_limit(NESTING_MAX);
        let automaton = DFA::builder()
            .configure(
                DFA::config()
                    .cache_capacity(STATES_BYTES_MAX)
                    .minimum_cache_clear_count(Some(FULL_MAX))
                    // Stops at the first byte that is not ASCII, if the pattern has a word
                    // boundary.
                    .unicode_word_boundary(true),
            )
            .syntax(syntax)
            .thompson(thompson::Config::new().nfa_size_limit(Some(COMPILED_BYTES_MAX)))
            .build(pattern);
        let automaton = match automaton {
            Ok(automaton) => automaton,
            Err(error) => return not_impl_err!("a regular expression does not run beside objects: {error}"),
        };
        let states = Mutex::new(automaton.create_cache());
        Ok(PatternMatch {
            text,
            pattern: pattern.to_owned(),
            comparison,
            automaton: Arc::new((automaton, states)),
        })
    }
}

/// The operands of a comparison in a message: a text, and a pattern.
pub fn operands<T>(
    left: Option<T>,
    right: Option<T>,
    operands: impl IntoIterator<Item = T>,
) -> Result<(T, T), Stop> {
    let mut all = left.into_iter().chain(right).chain(operands);
    match (all.next(), all.next(), all.next()) {
        (Some(text), Some(pattern), None) => Ok((text, pattern)),
        _ => Err(unsupported("a regular expression has two operands")),
    }
}

impl PartialEq for PatternMatch {
    fn eq(&self, other: &PatternMatch) -> bool {
        self.text.eq(&other.text) && self.pattern == other.pattern && self.comparison == other.comparison
    }
}

impl Eq for PatternMatch {}

impl Hash for PatternMatch {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.text, &self.pattern, self.comparison).hash(state);
    }
}

impl fmt::Display for PatternMatch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {:?} {}", self.text, self.comparison, self.pattern)
    }
}

impl PhysicalExpr for PatternMatch {
    fn data_type(&self, _: &Schema) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn nullable(&self, schema: &Schema) -> Result<bool> {
        self.text.nullable(schema)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let texts = strings(&self.text.evaluate(batch)?.into_array(batch.num_rows())?)?;
        let (automaton, states) = &*self.automaton;
        let mut states = states.lock();
        let mut found = Vec::with_capacity(texts.len());
        for text in &texts {
            let Some(text) = text else {
                found.push(None);
                continue;
            };
            match automaton.try_search_fwd(&mut states, &Input::new(text).earliest(true)) {
                Ok(end) => found.push(Some(end.is_some() != self.comparison.is_negated)),
                Err(error) => {
                    return resources_err!("a regular expression does not run beside objects: {error}");
                }
            }
        }
        Ok(ColumnarValue::Array(Arc::new(BooleanArray::from(found))))
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.text]
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        Ok(Arc::new(PatternMatch {
            text: children.swap_remove(0),
            pattern: self.pattern.clone(),
            comparison: self.comparison,
            automaton: Arc::clone(&self.automaton),
        }))
    }

    fn fmt_sql(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}
