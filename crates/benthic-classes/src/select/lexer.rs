//! Splits an expression into tokens.

use super::failure::Failure;

/// A token of an expression.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    /// A keyword or a name.
    Word(String),
    /// A name in double quotes, which is never a keyword.
    Quoted(String),
    Text(String),
    /// A timestamp in backquotes.
    Timestamp(String),
    Number(String),
    Symbol(&'static str),
}

/// Longer symbols precede their prefixes.
const SYMBOLS: [&str; 20] =
    ["<>", "<=", ">=", "!=", "||", "=", "<", ">", "+", "-", "*", "/", "%", "(", ")", ",", ".", "[", "]", ";"];

/// Splits an expression into tokens. The caller has checked its length.
pub(super) fn tokens(expression: &str) -> Result<Vec<Token>, Failure> {
    let mut tokens = Vec::new();
    let mut rest = expression;
    while let Some(first) = rest.chars().next() {
        if first.is_whitespace() {
            rest = rest.trim_start();
        } else if let Some(comment) = rest.strip_prefix("--") {
            rest = comment.find('\n').map_or("", |end| &comment[end..]);
        } else if let Some(comment) = rest.strip_prefix("/*") {
            let end = comment.find("*/");
            let end = end.ok_or_else(|| Failure::new("LexerInvalidLiteral", "a comment has no end"))?;
            rest = &comment[end + 2..];
        } else if matches!(first, '\'' | '"' | '`') {
            let (text, after) = read_quoted(&rest[1..], first)?;
            tokens.push(match first {
                '"' => Token::Quoted(text),
                '`' => Token::Timestamp(text),
                _ => Token::Text(text),
            });
            rest = after;
        } else if first.is_ascii_digit()
            || (first == '.' && rest[1..].starts_with(|c: char| c.is_ascii_digit()))
        {
            let end = number_end(rest);
            if rest[end..].starts_with(|c: char| c.is_alphanumeric() || c == '_' || c == '.') {
                let shown: String = rest.chars().take(end + 1).collect();
                return Err(Failure::new("LexerInvalidLiteral", format!("'{shown}' is not a number")));
            }
            tokens.push(Token::Number(rest[..end].to_owned()));
            rest = &rest[end..];
        } else if first.is_alphabetic() || first == '_' {
            let end =
                rest.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '$')).unwrap_or(rest.len());
            tokens.push(Token::Word(rest[..end].to_owned()));
            rest = &rest[end..];
        } else if let Some(symbol) = SYMBOLS.into_iter().find(|symbol| rest.starts_with(symbol)) {
            tokens.push(Token::Symbol(symbol));
            rest = &rest[symbol.len()..];
        } else if first == '!' || first == '|' {
            return Err(Failure::new("LexerInvalidOperator", format!("'{first}' is not an operator")));
        } else {
            let message = format!("the character '{}' cannot be here", first.escape_default());
            return Err(Failure::new("LexerInvalidChar", message));
        }
    }
    Ok(tokens)
}

/// Text up to a quote, in which two quotes stand for one, and the rest.
fn read_quoted(from: &str, quote: char) -> Result<(String, &str), Failure> {
    let (mut text, mut rest) = (String::new(), from);
    loop {
        let Some(end) = rest.find(quote) else {
            return Err(Failure::new("LexerInvalidLiteral", format!("a text has no closing {quote}")));
        };
        text.push_str(&rest[..end]);
        rest = &rest[end + 1..];
        match rest.strip_prefix(quote) {
            Some(after) => {
                text.push(quote);
                rest = after;
            }
            None => return Ok((text, rest)),
        }
    }
}

/// The length of the number at the beginning of `text`.
fn number_end(text: &str) -> usize {
    let bytes = text.as_bytes();
    let digits = |from: usize| from + bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let mut end = digits(0);
    if bytes.get(end) == Some(&b'.') {
        end = digits(end + 1);
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        let after = digits(end + 1 + sign);
        if after > end + 1 + sign {
            end = after;
        }
    }
    end
}
