//! Matches texts with the patterns of LIKE, in bounded time.

use super::Work;
use super::failure::{Fault, fault};

/// Whether a text matches a pattern: `%` stands for any text, `_` for one character.
///
/// After a mismatch, the last `%` takes one more character. So the work is at most the product of
/// the lengths, and `work` ends it at the deadline.
pub(super) fn like(text: &str, pattern: &str, escape: Option<char>, work: &Work<'_>) -> Result<bool, Fault> {
    let (mut text_rest, mut pattern_rest) = (text, pattern);
    // Where to continue after a mismatch: after the last `%`, with its text one character longer.
    let mut retry: Option<(&str, &str)> = None;
    loop {
        work.tick(1)?;
        let (part, pattern_after) = next_part(pattern_rest, escape)?;
        if part == Some(Part::Any) {
            if pattern_after.is_empty() {
                return Ok(true);
            }
            retry = Some((text_rest, pattern_after));
            pattern_rest = pattern_after;
            continue;
        }
        let mut characters = text_rest.chars();
        let character = characters.next();
        match (part, character) {
            (None, None) => return check_rest(pattern_rest, escape, work).map(|()| true),
            (Some(Part::One), Some(_)) => {}
            (Some(Part::Exactly(wanted)), Some(found)) if wanted == found => {}
            _ => {
                let Some((start, after)) = retry else {
                    return check_rest(pattern_rest, escape, work).map(|()| false);
                };
                let mut characters = start.chars();
                if characters.next().is_none() {
                    return check_rest(pattern_rest, escape, work).map(|()| false);
                }
                retry = Some((characters.as_str(), after));
                (text_rest, pattern_rest) = (characters.as_str(), after);
                continue;
            }
        }
        (text_rest, pattern_rest) = (characters.as_str(), pattern_after);
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Part {
    Any,
    One,
    Exactly(char),
}

fn next_part(pattern: &str, escape: Option<char>) -> Result<(Option<Part>, &str), Fault> {
    let mut characters = pattern.chars();
    let part = match characters.next() {
        None => None,
        Some(character) if Some(character) == escape => match characters.next() {
            Some(escaped) => Some(Part::Exactly(escaped)),
            None => {
                let message = "the pattern of LIKE ends with its escape character";
                return Err(fault("EvaluatorLikePatternInvalidEscapeSequence", message));
            }
        },
        Some('%') => Some(Part::Any),
        Some('_') => Some(Part::One),
        Some(character) => Some(Part::Exactly(character)),
    };
    Ok((part, characters.as_str()))
}

/// A wrong pattern is an error for every text.
fn check_rest(mut pattern: &str, escape: Option<char>, work: &Work<'_>) -> Result<(), Fault> {
    work.tick(pattern.len())?;
    while !pattern.is_empty() {
        pattern = next_part(pattern, escape)?.1;
    }
    Ok(())
}
