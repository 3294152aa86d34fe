//! JSON Web Tokens (RFC 7519), signed by an identity provider (RFC 7515, RFC 7518, RFC 8037), and
//! the provider's keys (RFC 7517).
//!
//! Only asymmetric algorithms are known. So a token without a signature (`none`), or one whose
//! signature is an HMAC with the public key, is of an unknown algorithm (RFC 8725). The algorithm
//! must fit the key. `ring` verifies the signatures, as for TLS. Rejected: the crate
//! `jsonwebtoken`. Its version for `ring` gets no fixes any more, and later versions need a second
//! library for cryptography.

use crate::identity::issuer_name;
use base64_simd::URL_SAFE_NO_PAD;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256,
    RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256,
    RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512, RsaParameters, RsaPublicKeyComponents,
    UnparsedPublicKey, VerificationAlgorithm,
};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Maximum size of a token, in bytes. It is that of AWS.
pub const TOKEN_BYTES_MAX: usize = 20_000;
/// Maximum number of keys of a provider.
const KEYS_MAX: usize = 100;
/// Maximum number of keys that are tried for a token: those with the same id.
const CANDIDATES_MAX: usize = 4;
/// Permitted difference between the clocks of the provider and of the gateway, in seconds.
const SKEW_S: f64 = 60.0;
/// Maximum length of a subject, in bytes. It is that of OpenID Connect.
const SUBJECT_BYTES_MAX: usize = 255;
/// Maximum length of a text that policies compare, in bytes. A longer one would cost too much.
const TEXT_BYTES_MAX: usize = 2 * 1024;

/// Why a token is refused. The texts are messages for the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The provider has no such key. It may be a new one.
    UnknownKey,
    /// The token is not a valid one of this provider for this account.
    Invalid(String),
    /// The token has a time at which it is not valid yet.
    Rejected(String),
    Expired,
}

fn invalid(message: &str) -> Refusal {
    Refusal::Invalid(message.to_owned())
}

/// A token whose signature was not checked.
pub struct Token<'t> {
    header: Header,
    signed: &'t str,
    signature: Vec<u8>,
    claims: Claims,
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    /// Extensions that a reader must understand.
    crit: Option<Value>,
}

/// The claims of a token.
#[derive(Debug)]
pub struct Claims {
    pub issuer: String,
    pub subject: String,
    pub audiences: Vec<String>,
    /// The client that the token was made for, if it is not the audience.
    pub authorized_party: Option<String>,
    expires: f64,
    not_before: Option<f64>,
    issued: Option<f64>,
    all: Map<String, Value>,
}

impl<'t> Token<'t> {
    /// Reads a token.
    ///
    /// # Errors
    /// `Invalid`.
    pub fn parse(text: &'t str) -> Result<Token<'t>, Refusal> {
        if text.len() > TOKEN_BYTES_MAX {
            return Err(invalid("the token is larger than 20,000 bytes"));
        }
        let malformed = || invalid("the token is not a signed JSON Web Token");
        let (signed, signature) = text.rsplit_once('.').ok_or_else(malformed)?;
        let (header, claims) = signed.split_once('.').ok_or_else(malformed)?;
        let decode = |part: &str| URL_SAFE_NO_PAD.decode_to_vec(part).map_err(|_| malformed());
        let header: Header = serde_json::from_slice(&decode(header)?).map_err(|_| malformed())?;
        if !ALGORITHMS.contains(&header.alg.as_str()) {
            let message =
                format!("the gateway accepts tokens that are signed with {}", ALGORITHMS.join(", "));
            return Err(Refusal::Invalid(message));
        }
        if header.crit.is_some() {
            return Err(invalid("the token needs an extension that the gateway does not know"));
        }
        let claims = serde_json::from_slice(&decode(claims)?).map_err(|_| malformed())?;
        Ok(Token { header, signed, signature: decode(signature)?, claims: Claims::parse(claims)? })
    }

    /// The issuer that the token names. Nothing proves it before the signature is verified.
    pub fn issuer(&self) -> &str {
        &self.claims.issuer
    }

    /// Whether one of the keys may have signed the token.
    pub fn names_one_of(&self, keys: &[Key]) -> bool {
        self.candidates(keys).next().is_some()
    }

    fn candidates<'k>(&'k self, keys: &'k [Key]) -> impl Iterator<Item = &'k Key> {
        let Header { alg, kid, .. } = &self.header;
        keys.iter().filter(move |key| {
            let fits = key.algorithm.as_ref().is_none_or(|only| only == alg) && key.material.fits(alg);
            fits && kid.as_ref().is_none_or(|kid| key.id.as_ref() == Some(kid))
        })
    }

    /// Verifies the signature, and returns the claims of the token.
    ///
    /// # Errors
    /// `Invalid`; `UnknownKey` if no key fits the token.
    pub fn verify(self, keys: &[Key]) -> Result<Claims, Refusal> {
        if self.header.kid.is_none() && self.candidates(keys).nth(1).is_some() {
            return Err(invalid("the token does not name its key, and the identity provider has several"));
        }
        if !self.names_one_of(keys) {
            return Err(Refusal::UnknownKey);
        }
        let (alg, signed, signature) = (&self.header.alg, self.signed.as_bytes(), &self.signature);
        let signs = |key: &Key| key.material.verify(alg, signed, signature);
        if self.candidates(keys).take(CANDIDATES_MAX).any(signs) {
            return Ok(self.claims);
        }
        Err(invalid("the signature of the token is wrong"))
    }
}

impl Claims {
    fn parse(all: Map<String, Value>) -> Result<Claims, Refusal> {
        let text = |name: &str| all.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
        let time = |name: &str| match all.get(name) {
            None => Ok(None),
            Some(value) => {
                value.as_f64().map(Some).ok_or_else(|| invalid("a time of the token is not a number"))
            }
        };
        let missing = |name: &str| Refusal::Invalid(format!("the token lacks the claim {name}"));
        let audiences = match all.get("aud") {
            Some(value) => {
                texts(value).ok_or_else(|| invalid("the claim aud is not a text or a list of texts"))?
            }
            None => Vec::new(),
        };
        let claims = Claims {
            issuer: text("iss").ok_or_else(|| missing("iss"))?.to_owned(),
            subject: text("sub").ok_or_else(|| missing("sub"))?.to_owned(),
            audiences,
            authorized_party: text("azp").map(str::to_owned),
            expires: time("exp")?.ok_or_else(|| missing("exp"))?,
            not_before: time("nbf")?,
            issued: time("iat")?,
            all,
        };
        if claims.subject.len() > SUBJECT_BYTES_MAX {
            return Err(invalid("the claim sub has more than 255 bytes"));
        }
        Ok(claims)
    }

    /// Checks the times of the token.
    ///
    /// # Errors
    /// `Expired`, `Rejected`.
    pub fn check_times(&self, now_ms: u64) -> Result<(), Refusal> {
        let now = now_ms as f64 / 1_000.0;
        // A time that is not a number cannot appear in JSON.
        if self.expires + SKEW_S <= now {
            return Err(Refusal::Expired);
        }
        let is_later = |time: Option<f64>| time.is_some_and(|time| time - SKEW_S > now);
        if is_later(self.not_before) || is_later(self.issued) {
            let message =
                "the token is not valid yet; compare the clocks of the identity provider and the gateway";
            return Err(Refusal::Rejected(message.to_owned()));
        }
        Ok(())
    }

    /// The audiences that the account must accept: the authorized party, if the token names one.
    pub fn checked_audiences(&self) -> &[String] {
        if let Some(party) = &self.authorized_party { std::slice::from_ref(party) } else { &self.audiences }
    }

    /// The values of the condition keys of the provider, by key. As on AWS, `aud` is the authorized
    /// party if there is one, and `oaud` is then the audience. As in radosgw, `app_id` is always
    /// the audience. A claim whose name no policy can contain has no key: with a colon, it could
    /// have that of another provider.
    ///
    /// # Errors
    /// `Invalid` if two claims differ only in case, since then one of them could hide the other, or
    /// if a text is too long.
    pub fn facts(&self) -> Result<BTreeMap<String, Vec<String>>, Refusal> {
        let issuer = issuer_name(&self.issuer).to_ascii_lowercase();
        let key = |claim: &str| format!("{issuer}:{claim}");
        let mut facts = BTreeMap::new();
        for (claim, value) in &self.all {
            if !is_name(claim) {
                continue;
            }
            let Some(values) = texts(value) else { continue };
            if values.iter().any(|text| text.len() > TEXT_BYTES_MAX) {
                return Err(Refusal::Invalid(format!("the claim {claim:.100} has more than 2,048 bytes")));
            }
            if facts.insert(key(&claim.to_ascii_lowercase()), values).is_some() {
                return Err(invalid("the token has two claims whose names differ only in case"));
            }
        }
        facts.insert(key("aud"), self.checked_audiences().to_vec());
        facts.insert(key("app_id"), self.audiences.clone());
        match &self.authorized_party {
            Some(_) => facts.insert(key("oaud"), self.audiences.clone()),
            None => facts.remove(&key("oaud")),
        };
        Ok(facts)
    }
}

/// Whether the key of a condition can contain the name of a claim.
fn is_name(claim: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    !claim.is_empty() && claim.chars().all(fits)
}

/// A text, a number or a boolean, or a list of these, as texts.
fn texts(value: &Value) -> Option<Vec<String>> {
    let one = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    };
    match value {
        Value::Array(values) => values.iter().map(one).collect(),
        value => one(value).map(|text| vec![text]),
    }
}

/// A public key of a provider.
#[derive(Clone, Debug)]
pub struct Key {
    id: Option<String>,
    /// The only algorithm of the key.
    algorithm: Option<String>,
    material: Material,
}

#[derive(Clone, Debug)]
enum Material {
    Rsa { modulus: Vec<u8>, exponent: Vec<u8> },
    P256(Vec<u8>),
    P384(Vec<u8>),
    Ed25519(Vec<u8>),
}

#[derive(Deserialize)]
struct RawKeys {
    keys: Vec<Value>,
}

#[derive(Deserialize)]
struct RawKey {
    kty: String,
    kid: Option<String>,
    #[serde(rename = "use")]
    usage: Option<String>,
    alg: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

impl Key {
    /// Reads the keys of a provider. Those that the gateway cannot use are left out, as the
    /// standard says.
    ///
    /// # Errors
    /// A message that says what is wrong with the document.
    pub fn parse_all(document: &[u8]) -> Result<Vec<Key>, String> {
        let RawKeys { keys } =
            serde_json::from_slice(document).map_err(|error| format!("the keys are not valid: {error}"))?;
        if keys.len() > KEYS_MAX {
            return Err(format!("the provider has more than {KEYS_MAX} keys"));
        }
        Ok(keys.into_iter().filter_map(|raw| Key::of(serde_json::from_value(raw).ok()?)).collect())
    }

    fn of(raw: RawKey) -> Option<Key> {
        if raw.usage.as_ref().is_some_and(|usage| usage != "sig") {
            return None;
        }
        let number = |text: &Option<String>| URL_SAFE_NO_PAD.decode_to_vec(text.as_ref()?.as_bytes()).ok();
        let point = |len: usize| {
            let (x, y) = (number(&raw.x)?, number(&raw.y)?);
            ([x.len(), y.len()] == [len; 2]).then(|| [&[4][..], &x[..], &y[..]].concat())
        };
        let material = match (raw.kty.as_str(), raw.crv.as_deref()) {
            ("RSA", None) => {
                Material::Rsa { modulus: positive(number(&raw.n)?), exponent: positive(number(&raw.e)?) }
            }
            ("EC", Some("P-256")) => Material::P256(point(32)?),
            ("EC", Some("P-384")) => Material::P384(point(48)?),
            ("OKP", Some("Ed25519")) => Material::Ed25519(number(&raw.x)?),
            _ => return None,
        };
        Some(Key { id: raw.kid, algorithm: raw.alg, material })
    }
}

/// A number without leading zeros, which some providers send.
fn positive(number: Vec<u8>) -> Vec<u8> {
    number.into_iter().skip_while(|byte| *byte == 0).collect()
}

const ALGORITHMS: [&str; 10] =
    ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA", "Ed25519"];

fn rsa(algorithm: &str) -> Option<&'static RsaParameters> {
    Some(match algorithm {
        "RS256" => &RSA_PKCS1_2048_8192_SHA256,
        "RS384" => &RSA_PKCS1_2048_8192_SHA384,
        "RS512" => &RSA_PKCS1_2048_8192_SHA512,
        "PS256" => &RSA_PSS_2048_8192_SHA256,
        "PS384" => &RSA_PSS_2048_8192_SHA384,
        "PS512" => &RSA_PSS_2048_8192_SHA512,
        _ => return None,
    })
}

impl Material {
    fn fits(&self, algorithm: &str) -> bool {
        match self {
            Material::Rsa { .. } => rsa(algorithm).is_some(),
            Material::P256(_) => algorithm == "ES256",
            Material::P384(_) => algorithm == "ES384",
            Material::Ed25519(_) => ["EdDSA", "Ed25519"].contains(&algorithm),
        }
    }

    /// Verifies a signature of an algorithm that fits.
    fn verify(&self, algorithm: &str, signed: &[u8], signature: &[u8]) -> bool {
        let verify = |algorithm: &'static dyn VerificationAlgorithm, key: &[u8]| {
            UnparsedPublicKey::new(algorithm, key).verify(signed, signature).is_ok()
        };
        match self {
            Material::Rsa { modulus, exponent } => rsa(algorithm).is_some_and(|parameters| {
                RsaPublicKeyComponents { n: modulus, e: exponent }
                    .verify(parameters, signed, signature)
                    .is_ok()
            }),
            Material::P256(key) => verify(&ECDSA_P256_SHA256_FIXED, key),
            Material::P384(key) => verify(&ECDSA_P384_SHA384_FIXED, key),
            Material::Ed25519(key) => verify(&ED25519, key),
        }
    }
}

#[cfg(test)]
#[path = "jwt_tests.rs"]
mod tests;
