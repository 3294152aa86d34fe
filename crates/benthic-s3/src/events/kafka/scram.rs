//! Logins with SCRAM: the password is not sent, and the broker proves that it knows it, too.
//!
//! Source: RFC 5802 and RFC 7677. Kafka takes users and passwords without SASLprep.

use base64_simd::STANDARD;
use ring::{digest, hmac, pbkdf2};
use std::num::NonZeroU32;

/// Limits on the work that the broker asks for, which are Kafka's own. With fewer iterations, a
/// false broker could guess passwords; with more, it could keep a thread busy.
const ITERATIONS_MIN: u32 = 4096;
const ITERATIONS_MAX: u32 = 16_384;

/// The first step of a login.
pub(super) struct Scram {
    hash: &'static digest::Algorithm,
    hmac: hmac::Algorithm,
    pbkdf2: pbkdf2::Algorithm,
    nonce: String,
    first: String,
}

/// Checks that the broker knows the password.
pub(super) struct Verifier {
    key: hmac::Key,
    signed: String,
}

impl Scram {
    pub fn sha_256(user: &str, nonce: &[u8]) -> Scram {
        Scram::new((&digest::SHA256, hmac::HMAC_SHA256, pbkdf2::PBKDF2_HMAC_SHA256), user, nonce)
    }

    pub fn sha_512(user: &str, nonce: &[u8]) -> Scram {
        Scram::new((&digest::SHA512, hmac::HMAC_SHA512, pbkdf2::PBKDF2_HMAC_SHA512), user, nonce)
    }

    fn new(
        (hash, hmac, pbkdf2): (&'static digest::Algorithm, hmac::Algorithm, pbkdf2::Algorithm),
        user: &str,
        nonce: &[u8],
    ) -> Scram {
        let user = user.replace('=', "=3D").replace(',', "=2C");
        let nonce = STANDARD.encode_to_string(nonce);
        let first = format!("n={user},r={nonce}");
        Scram { hash, hmac, pbkdf2, nonce, first }
    }

    pub fn first_message(&self) -> String {
        format!("n,,{}", self.first)
    }

    /// The answer to the broker's challenge.
    ///
    /// # Errors
    /// A message that says why the challenge is invalid.
    pub fn last_message(self, challenge: &str, password: &str) -> Result<(String, Verifier), String> {
        let invalid = || "the broker sent an invalid challenge for the login".to_owned();
        let mut parts = challenge.split(',');
        let mut part = |name| parts.next().and_then(|part| part.strip_prefix(name)).ok_or_else(invalid);
        let nonce = part("r=")?;
        let salt = STANDARD.decode_to_vec(part("s=")?).map_err(|_| invalid())?;
        let iterations: u32 = part("i=")?.parse().map_err(|_| invalid())?;
        if !nonce.starts_with(&self.nonce) || nonce.len() == self.nonce.len() {
            return Err(invalid());
        }
        let iterations = NonZeroU32::new(iterations)
            .filter(|count| (ITERATIONS_MIN..=ITERATIONS_MAX).contains(&count.get()))
            .ok_or_else(|| {
                format!("the broker asks for {iterations} iterations, but {ITERATIONS_MIN} to {ITERATIONS_MAX} are permitted")
            })?;
        let mut salted = vec![0; self.hash.output_len()];
        pbkdf2::derive(self.pbkdf2, iterations, &salt, password.as_bytes(), &mut salted);
        let salted = hmac::Key::new(self.hmac, &salted);
        let client_key = hmac::sign(&salted, b"Client Key");
        let server_key = hmac::sign(&salted, b"Server Key");
        let stored_key = digest::digest(self.hash, client_key.as_ref());
        // `biws` is the base64 form of `n,,`.
        let last = format!("c=biws,r={nonce}");
        let signed = format!("{},{challenge},{last}", self.first);
        let signature = hmac::sign(&hmac::Key::new(self.hmac, stored_key.as_ref()), signed.as_bytes());
        let proof: Vec<u8> = client_key.as_ref().iter().zip(signature.as_ref()).map(|(a, b)| a ^ b).collect();
        let message = format!("{last},p={}", STANDARD.encode_to_string(proof));
        Ok((message, Verifier { key: hmac::Key::new(self.hmac, server_key.as_ref()), signed }))
    }
}

impl Verifier {
    /// # Errors
    /// A message if the broker does not know the password.
    pub fn check(&self, answer: &str) -> Result<(), String> {
        let signature = answer.split(',').next().and_then(|part| part.strip_prefix("v="));
        let signature = signature.and_then(|text| STANDARD.decode_to_vec(text).ok()).unwrap_or_default();
        hmac::verify(&self.key, self.signed.as_bytes(), &signature)
            .map_err(|_| "the broker did not prove that it knows the password".to_owned())
    }
}

#[cfg(test)]
#[path = "scram_tests.rs"]
mod tests;
