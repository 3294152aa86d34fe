//! Signatures of requests to the upstream: AWS Signature Version 4, with the payload's SHA-256.
//!
//! `s3s` verifies signatures but makes none, and its own crate for them is private to it. The
//! format is that of
//! <https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html>.

use super::credentials::Credentials;
use crate::seal::hex;
use ring::{digest, hmac};
use std::fmt::Write;

/// The parts of a request that its signature covers.
pub(super) struct ToSign<'a> {
    pub method: &'a str,
    /// Encoded.
    pub path: &'a str,
    /// Encoded and sorted.
    pub query: &'a str,
    /// Names in lower case, sorted, without `authorization`.
    pub headers: &'a [(String, String)],
    pub payload_sha256: &'a str,
    /// `YYYYMMDDTHHMMSSZ`.
    pub time: &'a str,
    pub region: &'a str,
}

/// The value of the header `authorization`.
pub(super) fn authorization(request: &ToSign<'_>, credentials: &Credentials) -> String {
    let names: Vec<&str> = request.headers.iter().map(|(name, _)| name.as_str()).collect();
    let names = names.join(";");
    let mut canonical = format!("{}\n{}\n{}\n", request.method, request.path, request.query);
    for (name, value) in request.headers {
        // Writing to a string cannot fail.
        let _ =
            writeln!(canonical, "{name}:{}", value.split_ascii_whitespace().collect::<Vec<_>>().join(" "));
    }
    let _ = write!(canonical, "\n{names}\n{}", request.payload_sha256);
    let date = request.time.get(..8).unwrap_or_default();
    let scope = format!("{date}/{}/s3/aws4_request", request.region);
    let canonical = hex(digest::digest(&digest::SHA256, canonical.as_bytes()).as_ref());
    let text = format!("AWS4-HMAC-SHA256\n{}\n{scope}\n{canonical}", request.time);
    let mut key = mac(format!("AWS4{}", credentials.secret_key).as_bytes(), date);
    for part in [request.region, "s3", "aws4_request"] {
        key = mac(key.as_ref(), part);
    }
    let signature = hex(mac(key.as_ref(), &text).as_ref());
    format!(
        "AWS4-HMAC-SHA256 Credential={}/{scope}, SignedHeaders={names}, Signature={signature}",
        credentials.access_key
    )
}

fn mac(key: &[u8], text: &str) -> hmac::Tag {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text.as_bytes())
}

/// Percent-encodes text as signatures need it. The separator `/` of a path stays.
pub(crate) fn encode(text: &str, is_path: bool) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => encoded.push(byte as char),
            b'/' if is_path => encoded.push('/'),
            _ => {
                let _ = write!(encoded, "%{byte:02X}");
            }
        }
    }
    encoded
}

#[cfg(test)]
#[path = "sign_tests.rs"]
mod tests;
