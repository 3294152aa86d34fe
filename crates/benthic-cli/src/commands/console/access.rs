//! Sign-in: which requests may use the console.
//!
//! The token that the program prints signs a browser in, and so does an access key of the account
//! that the administrator has named. The browser then has a cookie with a random session
//! identifier. Scripts send the token itself. A page of another site must not be
//! able to use the cookie: `SameSite=Strict` keeps browsers from sending it with requests of other
//! sites, but the port is no part of a site, so other servers on this host are the same site.
//! Therefore a request with a cookie must also come from this origin, by `Sec-Fetch-Site` where the
//! browser sends it, and by `Origin` if the request may change something.

use crate::commands::console::reply::{Reply, whole};
use crate::commands::serving;
use benthic_core::{Environment, Error, Random, Result};
use benthic_program::units;
use hyper::header::{AUTHORIZATION, COOKIE, HOST, HeaderMap, HeaderValue, ORIGIN, SET_COOKIE};
use hyper::{Method, Request, StatusCode};
use sha2::{Digest, Sha256};
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Limit on browsers that are signed in; one more signs out the oldest.
const SESSIONS_MAX: usize = 64;
const SESSION_MS: u64 = 12 * 60 * 60 * 1_000;
/// A key that was removed or suspended works for this time after its user signed in.
const KEY_SESSION_MS: u64 = 60 * 60 * 1_000;

/// A new token: 256 random bits in hexadecimal.
///
/// # Errors
/// As [`Random::fill`].
pub fn random_token(random: &dyn Random) -> Result<String> {
    let mut bytes = [0; 32];
    random.fill(&mut bytes)?;
    Ok(units::hex(&bytes))
}

/// Comparing digests takes the same time for every wrong secret.
type SecretDigest = [u8; 32];

fn digest(secret: &str) -> SecretDigest {
    Sha256::digest(secret.as_bytes()).into()
}

pub struct Access {
    token: SecretDigest,
    /// The oldest first, each with its end.
    sessions: Mutex<VecDeque<(SecretDigest, u64)>>,
    cookie: String,
    scheme: &'static str,
    environment: Environment,
}

/// The decision about a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allowed {
    Yes,
    /// It has neither the token nor a valid cookie.
    NotSignedIn,
    /// It has a valid cookie, but it comes from another origin.
    OtherOrigin,
}

impl Access {
    pub fn new(token: &str, port: u16, scheme: &'static str, environment: Environment) -> Access {
        // Cookies belong to a host, not to a port.
        let prefix = if scheme == "https" { "__Host-" } else { "" };
        let cookie = format!("{prefix}benthic-console-{port}");
        Access { token: digest(token), sessions: Mutex::default(), cookie, scheme, environment }
    }

    fn sessions(&self) -> MutexGuard<'_, VecDeque<(SecretDigest, u64)>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn check<T>(&self, request: &Request<T>) -> Allowed {
        let headers = request.headers();
        if let Some(bearer) = text(headers.get(AUTHORIZATION)).and_then(|sent| sent.strip_prefix("Bearer ")) {
            // A page cannot set this header, so the origin does not matter.
            let is_token = digest(bearer.trim()) == self.token;
            return if is_token { Allowed::Yes } else { Allowed::NotSignedIn };
        }
        let now_ms = self.environment.unix_ms();
        let is_session = |id: &str| {
            let id = digest(id);
            self.sessions().iter().any(|(known, end_ms)| *known == id && now_ms < *end_ms)
        };
        match self.session_id(headers) {
            Some(id) if is_session(id) && self.is_same_origin(request) => Allowed::Yes,
            Some(id) if is_session(id) => Allowed::OtherOrigin,
            _ => Allowed::NotSignedIn,
        }
    }

    /// Whether a browser sends the request for a page of this server, or for an address that a user
    /// has typed.
    pub fn is_same_origin<T>(&self, request: &Request<T>) -> bool {
        let headers = request.headers();
        let is_read = [Method::GET, Method::HEAD].contains(request.method());
        if let Some(site) = headers.get("sec-fetch-site") {
            // A link on another site may lead to a page, but may not load data.
            let is_navigation = is_read && text(headers.get("sec-fetch-mode")) == Some("navigate");
            if site != "same-origin" && !(is_navigation || is_read && site == "none") {
                return false;
            }
        }
        match (text(headers.get(ORIGIN)), text(headers.get(HOST))) {
            // A proxy may serve HTTPS in front of a console that does not.
            (Some(origin), Some(host)) => {
                let schemes = [Some("https"), (self.scheme == "http").then_some("http")];
                schemes.into_iter().flatten().any(|scheme| origin == format!("{scheme}://{host}"))
            }
            _ => is_read,
        }
    }

    fn session_id<'a>(&self, headers: &'a HeaderMap) -> Option<&'a str> {
        let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        let pairs =
            cookies.flat_map(|cookies| cookies.split(';')).filter_map(|pair| pair.trim().split_once('='));
        pairs.into_iter().find(|(name, _)| *name == self.cookie).map(|(_, id)| id)
    }

    /// Signs a browser in if it sent the token.
    ///
    /// # Errors
    /// As [`Random::fill`].
    pub fn sign_in(&self, token: &str) -> Result<Reply> {
        if digest(token.trim()) != self.token {
            let message = "this is not the token; the program printed it when it started";
            return Err(Error::permission_denied(message));
        }
        self.start_session(SESSION_MS)
    }

    /// Signs a browser in whose access key and secret were checked.
    ///
    /// # Errors
    /// As [`Random::fill`].
    pub fn sign_in_with_key(&self) -> Result<Reply> {
        self.start_session(KEY_SESSION_MS)
    }

    fn start_session(&self, len_ms: u64) -> Result<Reply> {
        let id = random_token(&*self.environment.random)?;
        let mut sessions = self.sessions();
        let now_ms = self.environment.unix_ms();
        sessions.retain(|(_, end_ms)| now_ms < *end_ms);
        if sessions.len() >= SESSIONS_MAX {
            sessions.pop_front();
        }
        sessions.push_back((digest(&id), now_ms + len_ms));
        Ok(self.with_cookie(&id, len_ms / 1_000))
    }

    pub fn sign_out(&self, headers: &HeaderMap) -> Reply {
        if let Some(id) = self.session_id(headers) {
            let id = digest(id);
            self.sessions().retain(|(known, _)| *known != id);
        }
        self.with_cookie("", 0)
    }

    fn with_cookie(&self, id: &str, age_s: u64) -> Reply {
        let secure = if self.scheme == "https" { "; Secure" } else { "" };
        let cookie =
            format!("{}={id}; Path=/; Max-Age={age_s}; HttpOnly; SameSite=Strict{secure}", self.cookie);
        let mut reply = whole(serving::answer(StatusCode::OK, "application/json", "{}"));
        if let Ok(cookie) = HeaderValue::from_str(&cookie) {
            reply.headers_mut().insert(SET_COOKIE, cookie);
        }
        reply
    }
}

fn text(value: Option<&HeaderValue>) -> Option<&str> {
    value?.to_str().ok()
}

#[cfg(test)]
#[path = "access_tests.rs"]
mod tests;
