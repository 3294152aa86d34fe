//! The model test: random compound operations, compared with an oracle in memory.
//!
//! The conformance suite defines the contract case by case; the model test finds failures in
//! combinations that no case covers. The oracle is a second, deliberately simple implementation of
//! the contract on whole objects in memory. After every operation the engine's reply must equal the
//! oracle's, including the error kind. At the end of a case, the whole state must be equal. The
//! test shrinks a failing case to a small one.
//!
//! ```text
//! model::run(|| MySubject::new(), 200, 40);
//! ```
//!
//! A failure prints the seed of its case. [`seed`](crate::seed) reruns that case alone.

pub(crate) mod answer;
mod case;
mod classes;
mod generate;
pub(crate) mod oracle;

use crate::seed;
use benthic_core::{Pool, Result, WriteStep};
use generate::Action;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use std::fmt;
use std::sync::Arc;

/// Limits for shrinking a failing case.
const SHRINK_STEPS_MAX: u32 = 3_000;
const SHRINK_MS_MAX: u32 = 120_000;
/// Maximum length of one value in a message.
const TEXT_CHARS_MAX: usize = 400;

/// An engine under test. Every case gets a new, empty one.
pub trait Subject {
    /// The pool under test, with the classes `hello` and `digest`. A case calls this again after
    /// every [`Subject::reopen`].
    fn pool(&self) -> Arc<dyn Pool>;

    /// Makes buffered writes durable.
    ///
    /// # Errors
    /// The engine's errors. An error fails the case.
    fn flush(&self) -> Result<()>;

    /// Closes and reopens the store. Engines that cannot reopen do nothing.
    ///
    /// # Errors
    /// The engine's errors. An error fails the case.
    fn reopen(&mut self) -> Result<()> {
        Ok(())
    }

    /// Two empty namespaces that nothing else uses. A subject with a shared pool returns unique
    /// names.
    fn namespaces(&self) -> [String; 2] {
        [String::new(), "second".to_owned()]
    }
}

/// A case in which an engine and the oracle differ.
#[derive(Debug)]
pub struct Difference {
    pub seed: u64,
    pub message: String,
    /// The operations of the case, after shrinking.
    pub operations: Vec<String>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "engine and oracle differ: {}", self.message)?;
        for (index, operation) in self.operations.iter().enumerate() {
            writeln!(f, "  operation {index}: {operation}")?;
        }
        write!(f, "replay with {}={}", seed::VARIABLE, self.seed)
    }
}

/// Runs `cases` cases of up to `ops_per_case` operations, each on a new subject, with the seeds of
/// [`seed::many`].
///
/// # Panics
/// If the engine differs from the oracle.
pub fn run<S: Subject>(subject: impl Fn() -> S, cases: u32, ops_per_case: usize) {
    if let Some(difference) = find_difference(subject, seed::many(cases.into()), ops_per_case) {
        panic!("{difference}");
    }
}

/// Runs one case per seed and returns the first difference.
pub fn find_difference<S: Subject>(
    subject: impl Fn() -> S,
    seeds: impl IntoIterator<Item = u64>,
    ops_per_case: usize,
) -> Option<Difference> {
    seeds.into_iter().find_map(|seed| run_case(&subject, seed, ops_per_case))
}

fn run_case<S: Subject>(subject: impl Fn() -> S, seed: u64, ops_per_case: usize) -> Option<Difference> {
    let mut rng_seed = [0; 32];
    rng_seed[..8].copy_from_slice(&seed.to_le_bytes());
    let config = Config {
        cases: 1,
        failure_persistence: None,
        max_shrink_iters: SHRINK_STEPS_MAX,
        max_shrink_time: SHRINK_MS_MAX,
        ..Config::default()
    };
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &rng_seed));
    let outcome = runner.run(&generate::actions(ops_per_case), |actions| {
        case::run(&mut subject(), &actions).map_err(TestCaseError::fail)
    });
    match outcome {
        Ok(()) => None,
        Err(TestError::Fail(reason, actions)) => {
            let operations = actions.iter().map(describe).collect();
            Some(Difference { seed, message: reason.message().to_owned(), operations })
        }
        Err(TestError::Abort(reason)) => {
            Some(Difference { seed, message: reason.message().to_owned(), operations: Vec::new() })
        }
    }
}

fn describe(action: &Action) -> String {
    let Action::Write { object, guards, steps, durability } = action else {
        return brief(action);
    };
    let step = |step: &WriteStep| match step {
        WriteStep::Write { offset_bytes, data } => {
            format!("Write {{ offset_bytes: {offset_bytes}, {} }}", summary(data))
        }
        WriteStep::WriteFull { data } => format!("WriteFull {{ {} }}", summary(data)),
        WriteStep::Append { data } => format!("Append {{ {} }}", summary(data)),
        other => brief(other),
    };
    let steps: Vec<String> = steps.iter().map(step).collect();
    format!("{durability:?} write of object {object}, guards {guards:?}, steps [{}]", steps.join(", "))
}

/// Formats a value for a message and shortens it if it is long.
fn brief(value: &impl fmt::Debug) -> String {
    let text = format!("{value:?}");
    match text.char_indices().nth(TEXT_CHARS_MAX) {
        Some((end, _)) => format!("{}… (shortened)", &text[..end]),
        None => text,
    }
}

fn summary(data: &[u8]) -> String {
    format!("len_bytes: {}, starts: {:?}", data.len(), &data[..data.len().min(4)])
}
