//! Tokens of identity providers (OpenID Connect), with which callers assume roles.
//!
//! A provider publishes its keys at an address that its discovery document names. The gateway
//! fetches the keys of a provider only if an account has registered it, and caches them for an
//! hour. A token with an unknown key makes the gateway fetch the keys again, but at most every ten
//! seconds, so invented tokens cannot flood a provider. Requests that arrive during a fetch wait
//! for its result.
//!
//! Every client that may create providers chooses addresses that the gateway visits. So only
//! `https` and addresses of the public internet are permitted, unless the operator permits others.
//! The cause of a failed fetch goes to the gateway's log, and not to the caller.
//!
//! Source: OpenID Connect Discovery 1.0 and OpenID Connect Core 1.0.

mod jwt;

pub use jwt::{Claims, Refusal, TOKEN_BYTES_MAX, Token};

use crate::http_client::{HttpClient, check_url};
use crate::identity::OidcProvider;
use benthic_core::Environment;
use bytes::Bytes;
use hyper::{Method, StatusCode};
use jwt::Key;
use parking_lot::Mutex;
use serde::Deserialize;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;
use url::Url;

/// How long the cache uses fetched keys.
const KEYS_MS: u64 = 60 * 60 * 1_000;
/// Time between two requests for the keys of a provider.
const RETRY_MS: u64 = 10_000;
/// Limit on the time of each of the two requests for keys.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// Limit on the size of a document of a provider.
const DOCUMENT_BYTES_MAX: usize = 256 * 1024;
/// Maximum number of providers of an account in the cache.
const PROVIDERS_MAX: usize = 128;
/// Maximum length of the URL of a provider, in bytes.
const URL_BYTES_MAX: usize = 255;

/// The keys of identity providers, with a cache.
pub struct Issuers {
    /// Whether addresses of private networks, and `http` on this machine, are permitted.
    permits_private: bool,
    environment: Environment,
    /// By account, so that the providers of one account do not push those of others out.
    cache: Mutex<HashMap<String, HashMap<Source, CacheEntry>>>,
}

/// Where keys come from: the URL of a provider, and the certificates to trust.
type Source = (String, BTreeSet<String>);

/// The keys of a provider, which one request at a time renews.
type CacheEntry = Arc<tokio::sync::Mutex<ProviderKeys>>;

/// The keys of a provider.
#[derive(Default)]
struct ProviderKeys {
    keys: Arc<[Key]>,
    fetched_ms: Option<u64>,
    tried_ms: Option<u64>,
}

/// Why a token is not accepted.
#[derive(Debug, PartialEq, Eq)]
pub enum Failure {
    Refused(Refusal),
    /// The keys of the provider cannot be fetched. The log has the cause.
    NoKeys,
}

/// The part of a discovery document that the gateway needs.
#[derive(Deserialize)]
struct Discovery {
    issuer: String,
    jwks_uri: String,
}

impl Issuers {
    pub fn new(permits_private: bool, environment: Environment) -> Issuers {
        Issuers { permits_private, environment, cache: Mutex::default() }
    }

    /// Checks the URL of a new provider.
    ///
    /// # Errors
    /// A message that says what is invalid.
    pub fn check_url(&self, text: &str) -> Result<(), String> {
        let url = check_url(text, self.permits_private)?;
        let fits = |c: char| c.is_ascii_graphic() && !"*$?{}\"'<>\\^`|".contains(c);
        if text.len() > URL_BYTES_MAX || !text.chars().all(fits) || url.query().is_some() {
            return Err("the URL must have at most 255 bytes of ASCII, and no query".to_owned());
        }
        // The issuer of a token must equal the text, and a URL may be written in several ways.
        if url.as_str().trim_end_matches('/') != text.trim_end_matches('/') {
            return Err(format!("write the URL as {url}"));
        }
        Ok(())
    }

    /// Verifies that a token is one of this provider of the account, for one of its client ids, and
    /// valid now.
    ///
    /// # Errors
    /// See [`Failure`].
    pub async fn verify(
        &self,
        account: &str,
        provider: &OidcProvider,
        token: Token<'_>,
    ) -> Result<Claims, Failure> {
        let keys = self.keys(account, provider, &token).await?;
        let claims = token.verify(&keys).map_err(Failure::Refused)?;
        let refused = |message: &str| Failure::Refused(Refusal::Invalid(message.to_owned()));
        if claims.issuer != provider.url {
            return Err(refused("the issuer of the token is not the URL of the identity provider"));
        }
        if !claims.checked_audiences().iter().any(|audience| provider.client_ids.contains(audience)) {
            return Err(refused("the audience of the token is not a client id of the identity provider"));
        }
        claims.check_times(self.environment.unix_ms()).map_err(Failure::Refused)?;
        Ok(claims)
    }

    async fn keys(
        &self,
        account: &str,
        provider: &OidcProvider,
        token: &Token<'_>,
    ) -> Result<Arc<[Key]>, Failure> {
        let mut cached = self.entry(account, provider)?.lock_owned().await;
        let now_ms = self.environment.clock.monotonic_ms();
        let is_within = |since: Option<u64>, ms| since.is_some_and(|since| now_ms.saturating_sub(since) < ms);
        let is_fresh = is_within(cached.fetched_ms, KEYS_MS);
        if is_fresh && (token.names_one_of(&cached.keys) || is_within(cached.tried_ms, RETRY_MS)) {
            return Ok(Arc::clone(&cached.keys));
        }
        if is_within(cached.tried_ms, RETRY_MS) {
            return Err(Failure::NoKeys);
        }
        let (provider, permits_private) = (provider.clone(), self.permits_private);
        let environment = self.environment.clone();
        // The fetch is a task, because it must not end when the client disconnects: otherwise
        // clients that send invented tokens and disconnect could prevent every fetch.
        let task = tokio::spawn(async move {
            let fetched = fetch(&provider, permits_private).await;
            cached.tried_ms = Some(environment.clock.monotonic_ms());
            match fetched {
                Ok(keys) => {
                    cached.keys = keys.into();
                    cached.fetched_ms = cached.tried_ms;
                }
                // Fresh keys stay in use.
                Err(cause) => {
                    tracing::warn!(
                        provider = provider.url,
                        cause,
                        "cannot get the keys of an identity provider"
                    );
                    if !is_fresh {
                        return Err(Failure::NoKeys);
                    }
                }
            }
            Ok(Arc::clone(&cached.keys))
        });
        task.await.unwrap_or(Err(Failure::NoKeys))
    }

    /// The cache entry of a provider. Creates it if it is missing.
    fn entry(&self, account: &str, provider: &OidcProvider) -> Result<CacheEntry, Failure> {
        let mut accounts = self.cache.lock();
        let all = accounts.entry(account.to_owned()).or_default();
        let source = (provider.url.clone(), provider.thumbprints.clone());
        if let Some(entry) = all.get(&source) {
            return Ok(Arc::clone(entry));
        }
        if all.len() >= PROVIDERS_MAX {
            let now_ms = self.environment.clock.monotonic_ms();
            // Entries with a recent fetch stay, because they limit how often a provider is asked.
            all.retain(|_, entry| {
                entry.try_lock().map_or(true, |cached| {
                    cached.tried_ms.is_some_and(|tried_ms| now_ms.saturating_sub(tried_ms) < RETRY_MS)
                })
            });
            if all.len() >= PROVIDERS_MAX {
                tracing::warn!(
                    account,
                    "more than {PROVIDERS_MAX} identity providers of the account are in use"
                );
                return Err(Failure::NoKeys);
            }
        }
        Ok(Arc::clone(all.entry(source).or_default()))
    }
}

/// Asks a provider for its keys.
async fn fetch(provider: &OidcProvider, permits_private: bool) -> Result<Vec<Key>, String> {
    let client = HttpClient::new(None, REQUEST_TIMEOUT, DOCUMENT_BYTES_MAX)
        .with_thumbprints(&provider.thumbprints)
        .with_only_public(!permits_private);
    let url = format!("{}/.well-known/openid-configuration", provider.url.trim_end_matches('/'));
    let document = get(&client, &check_url(&url, permits_private)?).await?;
    let Discovery { issuer, jwks_uri } = serde_json::from_slice(&document)
        .map_err(|error| format!("the discovery document is not valid: {error}"))?;
    if issuer != provider.url {
        return Err(format!("the discovery document is that of {issuer:.300}"));
    }
    let url = check_url(&jwks_uri, permits_private).map_err(|error| format!("jwks_uri: {error}"))?;
    Key::parse_all(&get(&client, &url).await?)
}

async fn get(client: &HttpClient, url: &Url) -> Result<Bytes, String> {
    match client.send(Method::GET, url, &[], Bytes::new()).await {
        Ok((StatusCode::OK, document)) => Ok(document),
        Ok((status, _)) => Err(format!("the answer is {status} url={url}")),
        Err(message) => Err(format!("{message} url={url}")),
    }
}
