//! Presigned URLs of AWS Signature Version 4, as AWS' documentation "Authenticating Requests: Using
//! Query Parameters" describes them.
//!
//! A presigned URL has the signature in its query and does not cover the body. So the load
//! generator hashes no bodies, and its cost per request stays small.

use bench_harness::Outcome;
use bench_harness::process::output;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use std::process::Command;

const REGION: &str = "us-east-1";
const SECONDS_VALID: u32 = 86_400;

#[derive(Clone)]
pub struct Signer {
    host: String,
    access_key: String,
    /// The signing time of all URLs, as `20260131T235959Z`.
    time: String,
    /// The day, region and service for which the signing key is valid.
    scope: String,
    signing_key: Vec<u8>,
}

impl Signer {
    pub fn new(host: &str, access_key: &str, secret_key: &str) -> Outcome<Signer> {
        // The standard library cannot format a date, so run `date`.
        let time = String::from_utf8(output(Command::new("date").args(["-u", "+%Y%m%dT%H%M%SZ"]))?)?
            .trim()
            .to_owned();
        let day = time.get(..8).ok_or("date prints no date")?;
        let mut signing_key = format!("AWS4{secret_key}").into_bytes();
        for part in [day, REGION, "s3", "aws4_request"] {
            signing_key = hmac(&signing_key, part);
        }
        let scope = format!("{day}/{REGION}/s3/aws4_request");
        Ok(Signer { host: host.to_owned(), access_key: access_key.to_owned(), time, scope, signing_key })
    }

    /// The same for another address of the server.
    pub fn at(&self, host: &str) -> Signer {
        Signer { host: host.to_owned(), ..self.clone() }
    }

    /// Returns the path and query of a signed request. The signature covers the query in its
    /// canonical form, and this function neither escapes nor sorts. So the path and the arguments
    /// must need no escapes, and the arguments must be sorted by name and sort after "X-Amz-".
    pub fn target(&self, method: &str, path: &str, arguments: &str) -> String {
        let credential = format!("{}/{}", self.access_key, self.scope).replace('/', "%2F");
        let query = format!(
            "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential={credential}&X-Amz-Date={}&X-Amz-Expires={SECONDS_VALID}\
             &X-Amz-SignedHeaders=host{}{arguments}",
            self.time,
            if arguments.is_empty() { "" } else { "&" },
        );
        let canonical_request =
            format!("{method}\n{path}\n{query}\nhost:{}\n\nhost\nUNSIGNED-PAYLOAD", self.host);
        let digest = hex::encode(Sha256::digest(canonical_request));
        let to_sign = format!("AWS4-HMAC-SHA256\n{}\n{}\n{digest}", self.time, self.scope);
        let signature = hex::encode(hmac(&self.signing_key, &to_sign));
        format!("{path}?{query}&X-Amz-Signature={signature}")
    }
}

fn hmac(key: &[u8], message: &str) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC accepts keys of any length");
    mac.update(message.as_bytes());
    mac.finalize().into_bytes().to_vec()
}
