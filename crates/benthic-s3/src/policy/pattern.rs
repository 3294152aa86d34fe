//! Patterns: text with `*` for any characters, `?` for one character, and policy variables such as
//! `${aws:username}`.

use super::facts::{CLAIMS_OF_SESSION, FactCache, check_key, claim};
use std::borrow::Cow;

/// A parsed pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    tokens: Vec<Token>,
    has_variables: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Char(char),
    /// `?`.
    One,
    /// `*`.
    Any,
    /// The value of a key of the request, or a default.
    Variable {
        key: String,
        default: Option<String>,
    },
}

impl Pattern {
    /// Parses a pattern. Without `variables`, `${…}` stands for itself.
    ///
    /// # Errors
    /// A message for a variable that is malformed or unknown.
    pub fn parse(text: &str, variables: bool) -> Result<Pattern, String> {
        let (mut tokens, mut rest) = (Vec::new(), text);
        while let Some(next) = rest.chars().next() {
            if variables && let Some(inner) = rest.strip_prefix("${") {
                let (variable, after) = inner.split_once('}').ok_or_else(|| {
                    format!(
                        "the variable in '{text}' has no end; write ${{$}}{{ for the characters themselves"
                    )
                })?;
                tokens.push(variable_token(variable)?);
                rest = after;
                continue;
            }
            rest = &rest[next.len_utf8()..];
            match next {
                // Equal to one, and faster.
                '*' if tokens.last() == Some(&Token::Any) => {}
                '*' => tokens.push(Token::Any),
                '?' => tokens.push(Token::One),
                next => tokens.push(Token::Char(next)),
            }
        }
        let has_variables = tokens.iter().any(|token| matches!(token, Token::Variable { .. }));
        Ok(Pattern { tokens, has_variables })
    }

    /// Whether the pattern fits more than one text, or another text for each request.
    pub fn is_open(&self) -> bool {
        self.has_variables || self.tokens.iter().any(|token| matches!(token, Token::One | Token::Any))
    }

    /// Whether the pattern has a variable whose key begins with `prefix`.
    pub fn reads(&self, prefix: &str) -> bool {
        self.tokens
            .iter()
            .any(|token| matches!(token, Token::Variable { key, .. } if key.starts_with(prefix)))
    }

    /// The same pattern, in which `*` and `?` stand for themselves.
    pub fn literal(mut self) -> Pattern {
        for token in &mut self.tokens {
            match token {
                Token::Any => *token = Token::Char('*'),
                Token::One => *token = Token::Char('?'),
                Token::Char(_) | Token::Variable { .. } => {}
            }
        }
        self
    }

    /// Whether the whole text matches. A pattern with a variable that has no value matches nothing.
    pub fn matches(&self, text: &str, ignores_case: bool, facts: &FactCache<'_>) -> bool {
        if self.has_variables && !self.may_begin(text, ignores_case) {
            return false;
        }
        let tokens = match self.resolve(facts, text.len()) {
            Some(tokens) => tokens,
            None => return false,
        };
        matches(&tokens, text, ignores_case)
    }

    /// Whether the text fits the characters before the first `*` or variable, as far as it goes. In
    /// a long policy, most patterns differ from the text there, and need no values of variables.
    fn may_begin(&self, text: &str, ignores_case: bool) -> bool {
        let first = self.tokens.iter().take_while(|token| matches!(token, Token::Char(_) | Token::One));
        first.zip(text.chars()).all(|(token, c)| fits(token, c, ignores_case))
    }

    /// The pattern with the values of its variables. `None` if a variable has no value, or if the
    /// pattern needs more than `chars_max` characters.
    fn resolve(&self, facts: &FactCache<'_>, chars_max: usize) -> Option<Cow<'_, [Token]>> {
        if !self.has_variables {
            return Some(Cow::Borrowed(&self.tokens));
        }
        let mut tokens = Vec::with_capacity(self.tokens.len());
        for token in &self.tokens {
            match token {
                Token::Variable { key, default } => {
                    // A value of the request never acts as a wildcard.
                    let values = facts.values(key);
                    let value = match values.as_deref() {
                        Some([only]) => Some(only),
                        _ => default.as_ref(),
                    };
                    tokens.extend(value?.chars().take(chars_max + 1).map(Token::Char));
                }
                token => tokens.push(token.clone()),
            }
            // Long values in many variables could fill the memory.
            if tokens.len() > self.tokens.len() + chars_max {
                return None;
            }
        }
        Some(Cow::Owned(tokens))
    }
}

fn variable_token(text: &str) -> Result<Token, String> {
    match text {
        "*" | "?" | "$" => return Ok(Token::Char(text.chars().next().unwrap_or('$'))),
        _ => {}
    }
    let (key, default) = match text.split_once(',') {
        None => (text, None),
        Some((key, default)) => {
            let default = default.trim();
            let quoted = default.strip_prefix('\'').and_then(|default| default.strip_suffix('\''));
            let quoted =
                quoted.ok_or_else(|| format!("the default of the variable '{text}' needs quotes: 'x'"))?;
            (key.trim(), Some(quoted.to_owned()))
        }
    };
    let key = check_key(key)?;
    if claim(&key).is_some_and(|claim| !CLAIMS_OF_SESSION.contains(&claim)) {
        return Err(format!("a variable of an identity provider is its {}", CLAIMS_OF_SESSION.join(", ")));
    }
    Ok(Token::Variable { key, default })
}

fn fits(token: &Token, c: char, ignores_case: bool) -> bool {
    match token {
        Token::One => true,
        Token::Char(wanted) => *wanted == c || (ignores_case && wanted.eq_ignore_ascii_case(&c)),
        Token::Any | Token::Variable { .. } => false,
    }
}

/// Matches greedily: after a mismatch, the last `*` takes one more character. So the time is at
/// most the product of the two lengths.
fn matches(tokens: &[Token], text: &str, ignores_case: bool) -> bool {
    let (mut token, mut rest) = (0, text.chars());
    // Where to continue after a mismatch: behind the last `*`, with the text that it does not take.
    let mut retry = None;
    loop {
        if tokens.get(token) == Some(&Token::Any) {
            token += 1;
            retry = Some((token, rest.clone()));
            continue;
        }
        match rest.next() {
            None => return token == tokens.len(),
            Some(c) if tokens.get(token).is_some_and(|wanted| fits(wanted, c, ignores_case)) => token += 1,
            Some(_) => {
                let Some((after, mut taken)) = retry else { return false };
                if taken.next().is_none() {
                    return false;
                }
                (token, rest) = (after, taken.clone());
                retry = Some((after, taken));
            }
        }
    }
}
