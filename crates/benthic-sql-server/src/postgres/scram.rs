//! The login with SCRAM-SHA-256: the client proves that it knows the secret key, and never sends
//! it. Source: RFC 5802 and RFC 7677.

use super::messages::garbage;
use base64_simd::STANDARD as BASE64;
use benthic_core::{Environment, Result};
use ring::{digest, hmac, pbkdf2};
use std::num::NonZeroU32;

/// The mechanism's name in the protocol.
pub const MECHANISM: &str = "SCRAM-SHA-256";
const ITERATIONS: NonZeroU32 = NonZeroU32::new(4_096).expect("not zero");

/// A login after the client's first message.
pub struct Exchange {
    /// The server's first message.
    pub challenge: String,
    client_first: String,
    client_header: String,
    nonce: String,
    salted: [u8; digest::SHA256_OUTPUT_LEN],
}

impl Exchange {
    /// Starts a login of the user with this secret.
    ///
    /// # Errors
    /// `InvalidArgument` for an invalid message; `Unavailable` without random numbers.
    pub fn start(first: &str, secret: &str, environment: &Environment) -> Result<Exchange> {
        let invalid = || garbage("the first message of SCRAM is invalid");
        let mut parts = first.splitn(3, ',');
        let (Some(binding), Some(name), Some(bare)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(invalid());
        };
        if !matches!(binding, "n" | "y") || !name.is_empty() {
            return Err(garbage("the server supports no channel binding; use channel_binding=prefer"));
        }
        let nonce = bare.split(',').find_map(|field| field.strip_prefix("r="));
        let nonce = nonce.filter(|nonce| !nonce.is_empty()).ok_or_else(invalid)?;
        let mut random = [0; 34];
        environment.random.fill(&mut random)?;
        let (salt, own) = random.split_at(16);
        let nonce = format!("{nonce}{}", BASE64.encode_to_string(own));
        let mut salted = [0; digest::SHA256_OUTPUT_LEN];
        pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, ITERATIONS, salt, secret.as_bytes(), &mut salted);
        Ok(Exchange {
            challenge: format!("r={nonce},s={},i={ITERATIONS}", BASE64.encode_to_string(salt)),
            client_first: bare.to_owned(),
            client_header: format!("{binding},,"),
            nonce,
            salted,
        })
    }

    /// Checks the client's proof. Returns the server's last message, or `None` if the proof is
    /// wrong.
    ///
    /// # Errors
    /// `InvalidArgument` for an invalid message.
    pub fn finish(&self, last: &str) -> Result<Option<String>> {
        let invalid = || garbage("the last message of SCRAM is invalid");
        let (unproved, proof) = last.rsplit_once(",p=").ok_or_else(invalid)?;
        let proof = BASE64.decode_to_vec(proof).map_err(|_| invalid())?;
        let header = BASE64.encode_to_string(&self.client_header);
        if unproved != format!("c={header},r={}", self.nonce) || proof.len() != self.salted.len() {
            return Err(invalid());
        }
        let text = format!("{},{},{unproved}", self.client_first, self.challenge);
        let client_key = sign(&self.salted, b"Client Key");
        let stored_key = digest::digest(&digest::SHA256, client_key.as_ref());
        let signature = sign(stored_key.as_ref(), text.as_bytes());
        let found: Vec<u8> = proof.iter().zip(signature.as_ref()).map(|(proof, sign)| proof ^ sign).collect();
        if digest::digest(&digest::SHA256, &found).as_ref() != stored_key.as_ref() {
            return Ok(None);
        }
        let server_key = sign(&self.salted, b"Server Key");
        let answer = sign(server_key.as_ref(), text.as_bytes());
        Ok(Some(format!("v={}", BASE64.encode_to_string(answer.as_ref()))))
    }
}

fn sign(key: &[u8], text: &[u8]) -> hmac::Tag {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text)
}
