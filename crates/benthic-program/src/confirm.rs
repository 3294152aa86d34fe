//! Confirmation of commands that delete data for good.
//!
//! A mistyped name or a wrong store deletes data that nothing brings back. So the user types the
//! name twice: on a terminal, the command shows the things that it will delete and asks for the
//! name; without a terminal, the second name is the value of `--yes`. A question that `y` answers,
//! and an option such as `--force`, become habits and stop no mistake. Ceph's own `osd pool rm`
//! also takes the name twice.

use crate::exit::{Failure, Outcome};
use crate::output::Output;
use crate::{local, units};
use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};

/// Names that [`named`] shows.
const NAMES_SHOWN: usize = 5;

/// A deletion that needs a confirmation.
pub struct Deletion<'a> {
    /// The kind of thing to delete, such as `pool`.
    pub noun: &'a str,
    pub name: &'a str,
    /// The value of `--yes`.
    pub yes: Option<&'a str>,
    /// Another option that this deletion needs and the user did not pass. No answer replaces it.
    pub missing: Option<&'a str>,
}

impl Deletion<'_> {
    /// Returns when the user has confirmed the deletion. `contents` describes what will be deleted,
    /// one item per entry; if it has no items, the deletion needs no confirmation. A correct
    /// `--yes` skips `contents`.
    ///
    /// # Errors
    /// [`Failure::Usage`] for a wrong name or a missing option; [`Failure::Interrupted`] after a
    /// signal; those of `contents`.
    pub async fn confirm(
        &self,
        out: &Output,
        contents: impl AsyncFnOnce() -> Outcome<Vec<String>>,
    ) -> Outcome {
        if let Some(typed) = self.yes {
            self.check(typed)?;
            if self.missing.is_none() {
                return Ok(());
            }
        }
        let contents = contents().await?;
        if contents.is_empty() {
            return Ok(());
        }
        if self.missing.is_some() || out.is_json() || !has_terminal() {
            return Err(Failure::Usage(self.refusal(&contents)));
        }
        // If stderr is closed, nobody saw the question, and the read ends without a name.
        let _ = io::stderr().write_all(self.question(&contents).as_bytes());
        self.check(&local::read_line().await?)
    }

    fn check(&self, typed: &str) -> Outcome {
        check(self.noun, self.name, typed, "deleted")
    }

    fn question(&self, contents: &[String]) -> String {
        let Deletion { noun, name, .. } = self;
        let mut text = format!("This deletes {noun} {} for good:\n", units::one_line(name));
        for item in contents {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "  {item}");
        }
        text + "Type the name again to confirm: "
    }

    fn refusal(&self, contents: &[String]) -> String {
        let Deletion { noun, name, missing, .. } = self;
        let contents = contents.join(", ");
        let missing = missing.map(|option| format!("{option} ")).unwrap_or_default();
        format!(
            "this would delete {noun} {} for good: {contents}; add {missing}{} to confirm",
            units::one_line(name),
            option(name)
        )
    }
}

/// A change that deletes nothing for good, but reaches far. The caller has shown the plan.
pub struct Change<'a> {
    /// The effect of the change, such as `install library x_1 on 2 hosts`.
    pub effect: &'a str,
    /// The kind of thing whose name confirms, such as `library`.
    pub noun: &'a str,
    pub name: &'a str,
    /// The value of `--yes`.
    pub yes: Option<&'a str>,
}

impl Change<'_> {
    /// Returns when the user has confirmed the change.
    ///
    /// # Errors
    /// [`Failure::Usage`] for a wrong name, and without a name if there is no terminal;
    /// [`Failure::Interrupted`] after a signal.
    pub async fn confirm(&self, out: &Output) -> Outcome {
        let Change { effect, noun, name, yes } = self;
        if let Some(typed) = yes {
            return check(noun, name, typed, "changed");
        }
        if out.is_json() || !has_terminal() {
            let message = format!("this would {effect}; add {} to confirm", option(name));
            return Err(Failure::Usage(message));
        }
        // The plan comes first.
        out.flush()?;
        let question = format!("This would {effect}.\nType the name of the {noun} to confirm: ");
        // As for a deletion.
        let _ = io::stderr().write_all(question.as_bytes());
        check(noun, name, &local::read_line().await?, "changed")
    }
}

fn check(noun: &str, name: &str, typed: &str, done: &str) -> Outcome {
    if typed == name {
        return Ok(());
    }
    Err(Failure::Usage(format!("the name of the {noun} is {name:?}, not {typed:?}; nothing was {done}")))
}

fn has_terminal() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// The option that confirms, as a shell takes it.
fn option(name: &str) -> String {
    // A value that starts with '-' would be an option of its own.
    let space = if name.starts_with('-') { '=' } else { ' ' };
    format!("--yes{space}{}", units::shell_word(name))
}

/// Counts things and shows the first names: `2 tables (trips, zones)`. `None` if there are none.
/// With `more`, there are more than these.
pub fn named(noun: &str, names: &[String], more: bool) -> Option<String> {
    if names.is_empty() {
        return None;
    }
    let mut shown: Vec<String> = names.iter().take(NAMES_SHOWN).map(|name| units::one_line(name)).collect();
    if names.len() > NAMES_SHOWN {
        shown.push("…".to_owned());
    }
    let at_least = if more { "at least " } else { "" };
    Some(format!("{at_least}{} ({})", units::count(names.len() as u64, noun), shown.join(", ")))
}

/// Describes contents that cannot be read, for this reason.
pub fn unknown(reason: &str) -> String {
    format!("unknown contents ({reason})")
}

#[cfg(test)]
#[path = "confirm_tests.rs"]
mod tests;
