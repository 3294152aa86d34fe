//! KMS keys in Vault or OpenBao: the transit engine encrypts and decrypts data keys, and its keys
//! never leave it.
//!
//! The gateway draws a data key and lets Vault encrypt it, with the name of the object and the
//! encryption context as associated data. So Vault refuses to decrypt the data key of one object
//! for another. Vault's own versions of keys make rotation work. Rejected: `datakey/plaintext`,
//! because a copy encrypts an existing data key, so `encrypt` is needed anyway.
//!
//! Decrypted data keys stay in memory for a minute, so that a client that reads many ranges of one
//! object needs Vault once. Every request has a time limit, and only some run at once, so a Vault
//! that hangs delays only the objects whose keys it has.
//!
//! Source: Vault's API reference, "Transit secrets engine" and "AppRole auth method".

use crate::events::webhook::authorities;
use crate::http_client::{HttpClient, check_url};
use benthic_core::{Environment, Error, Result};
use bytes::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{Method, StatusCode};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::sync::Semaphore;
use url::Url;

/// Limit on the time of a request to Vault, with a login and a retry, and on the time that it waits
/// for other requests.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// Limit on the size of an answer, in bytes.
const ANSWER_BYTES_MAX: usize = 64 * 1024;
/// Maximum number of requests at once.
const REQUESTS_MAX: usize = 32;
/// How long a decrypted data key stays in memory.
const CACHE_MS: u64 = 60_000;
const CACHE_MAX: usize = 10_000;
/// Maximum size of the file of a token or a secret id, in bytes.
const FILE_BYTES_MAX: u64 = 4 * 1024;
/// Maximum size of an encrypted data key, in bytes.
const CIPHERTEXT_BYTES_MAX: usize = 4 * 1024;
/// Lifetime that a token of AppRole has if Vault names none, in seconds.
const LEASE_S: u64 = 60;
/// Shortest time between two logins because Vault refuses a token that has not expired.
const RELOGIN_MS: u64 = 10_000;

/// How the gateway authenticates itself.
pub enum Auth {
    /// A file with a token, which another program may renew.
    TokenFile(PathBuf),
    AppRole {
        role_id: String,
        secret_id_file: PathBuf,
    },
}

/// Why Vault has not encrypted or decrypted a data key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Vault cannot be reached, is sealed, or does not answer in time.
    Unavailable(String),
    /// Vault denies the gateway access.
    Denied(String),
    /// Vault cannot do it: for example, the key does not exist, or has not encrypted the data key.
    Refused(String),
}

/// The transit engine of a Vault.
pub struct Vault {
    client: HttpClient,
    /// The address, without a slash at its end.
    address: String,
    mount: String,
    auth: Auth,
    environment: Environment,
    requests: Semaphore,
    login: tokio::sync::Mutex<Login>,
    cache: Mutex<HashMap<[u8; 32], Cached>>,
}

/// The state of AppRole.
#[derive(Default)]
struct Login {
    /// The token, and the time until which it is used.
    token: Option<(String, u64)>,
    /// The last login because Vault refused a token that had not expired.
    relogin_ms: Option<u64>,
}

/// A decrypted data key, and the time since which it is in the cache.
struct Cached {
    data_key: [u8; 32],
    since_ms: u64,
}

impl Vault {
    /// The transit engine at this address and mount. Nothing is sent yet. `ca` is a PEM text with
    /// the authorities to trust, instead of those of this machine.
    ///
    /// # Errors
    /// `InvalidArgument`.
    pub fn new(
        address: &str,
        mount: &str,
        auth: Auth,
        ca: Option<&str>,
        environment: Environment,
    ) -> Result<Vault> {
        let invalid = |message: String| Error::invalid_argument(message);
        let authorities =
            ca.map(authorities).transpose().map_err(|message| invalid(format!("--vault-ca: {message}")))?;
        let url = check_url(address, true).map_err(|message| invalid(format!("--vault: {message}")))?;
        if url.query().is_some() {
            return Err(invalid("--vault: the URL must not have a query".to_owned()));
        }
        if mount.split('/').any(|part| !is_name(part)) {
            return Err(invalid("--vault-mount: write the path of the engine, such as transit".to_owned()));
        }
        Ok(Vault {
            client: HttpClient::new(authorities, REQUEST_TIMEOUT, ANSWER_BYTES_MAX),
            address: address.trim_end_matches('/').to_owned(),
            mount: mount.to_owned(),
            auth,
            environment,
            requests: Semaphore::new(REQUESTS_MAX),
            login: tokio::sync::Mutex::default(),
            cache: Mutex::default(),
        })
    }

    /// Encrypts a data key under the name of its object.
    ///
    /// # Errors
    /// See [`Failure`].
    pub async fn encrypt(
        &self,
        key: &str,
        name: &str,
        data_key: &[u8; 32],
    ) -> std::result::Result<String, Failure> {
        let input = json!({ "plaintext": base64(data_key), "associated_data": base64(name.as_bytes()) });
        let answer = self.call("encrypt", key, &input).await?;
        let ciphertext = answer["data"]["ciphertext"].as_str().filter(|text| is_ciphertext(text));
        let ciphertext = ciphertext.ok_or_else(|| unexpected("there is no ciphertext"))?.to_owned();
        self.cache_data_key(entry(key, name, &ciphertext), *data_key);
        Ok(ciphertext)
    }

    /// Decrypts the data key of an object.
    ///
    /// # Errors
    /// See [`Failure`].
    pub async fn decrypt(
        &self,
        key: &str,
        name: &str,
        ciphertext: &str,
    ) -> std::result::Result<[u8; 32], Failure> {
        let entry = entry(key, name, ciphertext);
        let now_ms = self.environment.clock.monotonic_ms();
        if let Some(Cached { data_key, since_ms }) = self.cache.lock().get(&entry)
            && now_ms.saturating_sub(*since_ms) < CACHE_MS
        {
            return Ok(*data_key);
        }
        let input = json!({ "ciphertext": ciphertext, "associated_data": base64(name.as_bytes()) });
        let answer = self.call("decrypt", key, &input).await?;
        let plaintext = answer["data"]["plaintext"].as_str().and_then(unbase64);
        let plaintext = plaintext.and_then(|plaintext| plaintext.try_into().ok());
        let data_key = plaintext.ok_or_else(|| unexpected("the plaintext is not a data key"))?;
        self.cache_data_key(entry, data_key);
        Ok(data_key)
    }

    fn cache_data_key(&self, entry: [u8; 32], data_key: [u8; 32]) {
        let now_ms = self.environment.clock.monotonic_ms();
        let mut cache = self.cache.lock();
        cache.retain(|_, cached| now_ms.saturating_sub(cached.since_ms) < CACHE_MS);
        if cache.len() >= CACHE_MAX {
            cache.clear();
        }
        cache.insert(entry, Cached { data_key, since_ms: now_ms });
    }

    async fn call(&self, operation: &str, key: &str, input: &Value) -> std::result::Result<Value, Failure> {
        let slot = tokio::time::timeout(REQUEST_TIMEOUT, self.requests.acquire()).await;
        let busy = || Failure::Unavailable("too many requests wait for Vault".to_owned());
        let slot = slot.map_err(|_| busy())?.map_err(|_| busy())?;
        let path = format!("{}/{operation}/{key}", self.mount);
        let answer = tokio::time::timeout(REQUEST_TIMEOUT, self.post_with_token(&path, input)).await;
        drop(slot);
        let late = || format!("no answer within {} seconds", REQUEST_TIMEOUT.as_secs());
        answer.unwrap_or_else(|_| Err(Failure::Unavailable(late())))
    }

    async fn post_with_token(&self, path: &str, input: &Value) -> std::result::Result<Value, Failure> {
        let sent = self.token(None).await?;
        let mut answer = self.post(path, Some(&sent), input).await;
        // Vault may have revoked the token before its expiry.
        if let (Err(Failure::Denied(_)), Auth::AppRole { .. }) = (&answer, &self.auth) {
            let token = self.token(Some(&sent)).await?;
            if token != sent {
                answer = self.post(path, Some(&token), input).await;
            }
        }
        answer
    }

    /// The token to send. `refused` is a token that Vault has just refused. The gateway then logs
    /// in again, but at most every ten seconds, because the role may lack the permission.
    async fn token(&self, refused: Option<&str>) -> std::result::Result<String, Failure> {
        let unreadable = |error: Error| Failure::Denied(error.to_string());
        let (role_id, file) = match &self.auth {
            Auth::TokenFile(path) => return read_secret(path).map_err(unreadable),
            Auth::AppRole { role_id, secret_id_file } => (role_id, secret_id_file),
        };
        let mut login = self.login.lock().await;
        let now_ms = self.environment.clock.monotonic_ms();
        let must_wait =
            login.relogin_ms.is_some_and(|relogin_ms| now_ms.saturating_sub(relogin_ms) < RELOGIN_MS);
        if let Some((token, until_ms)) = &login.token
            && now_ms < *until_ms
            && (must_wait || refused != Some(token.as_str()))
        {
            return Ok(token.clone());
        }
        let input = json!({ "role_id": role_id, "secret_id": read_secret(file).map_err(unreadable)? });
        let answer = self.post("auth/approle/login", None, &input).await;
        // A login that a client cancels does not count.
        if refused.is_some() {
            login.relogin_ms = Some(now_ms);
        }
        let answer = answer?;
        let token = answer["auth"]["client_token"].as_str().filter(|token| is_header(token));
        let token = token.ok_or_else(|| unexpected("there is no token"))?.to_owned();
        let lease_s = answer["auth"]["lease_duration"].as_u64().filter(|seconds| *seconds > 0);
        // Log in again after 80 % of the lifetime.
        let until_ms = now_ms.saturating_add(lease_s.unwrap_or(LEASE_S).saturating_mul(800));
        login.token = Some((token.clone(), until_ms));
        Ok(token)
    }

    async fn post(
        &self,
        path: &str,
        token: Option<&str>,
        input: &Value,
    ) -> std::result::Result<Value, Failure> {
        let url = Url::parse(&format!("{}/v1/{path}", self.address))
            .map_err(|error| unexpected(&error.to_string()))?;
        let mut headers = vec![
            (CONTENT_TYPE, HeaderValue::from_static("application/json")),
            (HeaderName::from_static("x-vault-request"), HeaderValue::from_static("true")),
        ];
        if let Some(token) = token {
            let mut value = HeaderValue::from_str(token).map_err(|_| unexpected("the token is malformed"))?;
            value.set_sensitive(true);
            headers.push((HeaderName::from_static("x-vault-token"), value));
        }
        let body = Bytes::from(input.to_string());
        let sent = self.client.send(Method::POST, &url, &headers, body).await;
        let (status, body) = sent.map_err(Failure::Unavailable)?;
        let answer: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
        if status == StatusCode::OK {
            return Ok(answer);
        }
        let errors = answer["errors"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let message = format!("{status} {}", errors.collect::<Vec<_>>().join("; "));
        let message = message.chars().take(300).collect::<String>();
        Err(match status {
            StatusCode::FORBIDDEN => Failure::Denied(message),
            StatusCode::BAD_REQUEST | StatusCode::NOT_FOUND => Failure::Refused(message),
            _ => Failure::Unavailable(message),
        })
    }
}

/// Whether a text can be the name of a key, or a part of the path of a mount.
pub fn is_name(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    (1..=128).contains(&text.len()) && text.chars().all(fits) && !text.starts_with('.')
}

fn is_ciphertext(text: &str) -> bool {
    text.starts_with("vault:v")
        && text.len() <= CIPHERTEXT_BYTES_MAX
        && text.chars().all(|c| c.is_ascii_graphic())
}

fn is_header(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_graphic())
}

/// The name of a data key in the cache.
fn entry(key: &str, name: &str, ciphertext: &str) -> [u8; 32] {
    let mut hash = blake3::Hasher::new();
    for text in [key, name, ciphertext] {
        hash.update(&(text.len() as u64).to_le_bytes()).update(text.as_bytes());
    }
    hash.finalize().into()
}

fn unexpected(cause: &str) -> Failure {
    Failure::Unavailable(format!("Vault's answer is not as expected: {cause}"))
}

fn base64(data: &[u8]) -> String {
    base64_simd::STANDARD.encode_to_string(data)
}

fn unbase64(text: &str) -> Option<Vec<u8>> {
    base64_simd::STANDARD.decode_to_vec(text).ok()
}

/// Reads a file with a token or another secret of one line.
///
/// # Errors
/// `InvalidArgument`.
pub fn read_secret(path: &Path) -> Result<String> {
    let mut text = String::new();
    let read = std::fs::File::open(path).and_then(|file| file.take(FILE_BYTES_MAX).read_to_string(&mut text));
    let failed = |message: &'static str| Error::invalid_argument(message).with("path", path.display());
    read.map_err(|error| failed("cannot read the file with the secret for Vault").with_source(error))?;
    let text = text.trim();
    if is_header(text) {
        Ok(text.to_owned())
    } else {
        Err(failed("the file must contain one secret for Vault"))
    }
}
