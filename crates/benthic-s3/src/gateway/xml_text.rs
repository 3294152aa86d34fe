//! Keys with control characters in documents.
//!
//! XML cannot have these characters, and a parser takes a carriage return for a line feed. S3
//! answers with references such as `&#x1;`, but `s3s` writes no references and refuses control
//! characters. So the gateway gives it [`escape`]d texts, in which two characters of Unicode's
//! private use area stand for such a character, and writes the reference into the finished
//! document. The first of the two is escaped itself, so a key that has it stays as it is.

use http_body_util::BodyExt;
use hyper::Response;
use hyper::header::CONTENT_LENGTH;
use s3s::{Body, S3Response};
use std::fmt::Write;

/// The first character of every escape. The second is this one again, or one of a control.
const ESCAPE: char = '\u{E000}';
/// The second character for the control character 0; those of the others follow.
const FIRST: u32 = 0xE100;
/// The second character for the last control character, 0x1F.
const LAST: u32 = FIRST + 0x1F;

/// Says that the texts of a document are escaped.
#[derive(Clone, Copy)]
struct HasEscapes;

/// Escapes a text of a document.
pub(super) fn escape(text: String) -> String {
    let is_plain = |c: char| c != ESCAPE && (c >= ' ' || c == '\t' || c == '\n');
    if text.chars().all(is_plain) {
        return text;
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_plain(c) {
            escaped.push(c);
            continue;
        }
        escaped.push(ESCAPE);
        let second = if c == ESCAPE { None } else { char::from_u32(FIRST + u32::from(c)) };
        escaped.push(second.unwrap_or(ESCAPE));
    }
    escaped
}

/// Marks an answer whose texts are escaped.
pub(super) fn mark<T>(mut answer: S3Response<T>) -> S3Response<T> {
    answer.extensions.insert(HasEscapes);
    answer
}

/// An answer whose texts are escaped.
pub(super) fn with_escapes<T>(output: T) -> S3Response<T> {
    mark(S3Response::new(output))
}

/// Writes the references into the document of an answer that is marked.
pub(super) async fn write_references(answer: Response<Body>) -> Response<Body> {
    if answer.extensions().get::<HasEscapes>().is_none() {
        return answer;
    }
    let (mut parts, body) = answer.into_parts();
    // `s3s` created this document, so it is complete and small.
    let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let restored = std::str::from_utf8(&body).ok().filter(|text| text.contains(ESCAPE)).map(restore);
    let Some(document) = restored else { return Response::from_parts(parts, Body::from(body)) };
    parts.headers.remove(CONTENT_LENGTH);
    Response::from_parts(parts, Body::from(document.into_bytes()))
}

fn restore(escaped: &str) -> String {
    let mut text = String::with_capacity(escaped.len());
    let mut rest = escaped;
    while let Some((before, after)) = rest.split_once(ESCAPE) {
        text.push_str(before);
        let mut chars = after.chars();
        match chars.next() {
            Some(second) if (FIRST..=LAST).contains(&u32::from(second)) => {
                let _ = write!(text, "&#x{:x};", u32::from(second) - FIRST);
            }
            second => text.extend(second),
        }
        rest = chars.as_str();
    }
    text.push_str(rest);
    text
}

#[cfg(test)]
#[path = "xml_text_tests.rs"]
mod tests;
