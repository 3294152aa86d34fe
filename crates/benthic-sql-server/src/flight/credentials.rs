//! The logins of Flight SQL: an access key with its secret key, or a token for them. A client gets
//! a token in exchange for the key, and sends it with each request.
//!
//! A token names the access key and the time when it expires, and is signed with a key that this
//! process draws at its start. So the server stores no tokens, and a restart ends them all.

use super::{IsLoggedIn, status};
use crate::users::{User, Users};
use base64_simd::STANDARD_NO_PAD as BASE64;
use benthic_core::{Environment, Result};
use benthic_s3::grants::wrong_credentials;
use ring::hmac;
use std::sync::Arc;
use tonic::metadata::MetadataMap;
use tonic::{Extensions, Status};

/// Lifetime of a token.
const TOKEN_MS: u64 = 24 * 60 * 60 * 1_000;

/// Checks logins.
pub struct Credentials {
    users: Arc<Users>,
    environment: Environment,
    key: hmac::Key,
}

impl Credentials {
    /// Draws the key of the tokens.
    ///
    /// # Errors
    /// `Unavailable` if there are no random numbers.
    pub fn new(users: Arc<Users>, environment: Environment) -> Result<Credentials> {
        let mut key = [0; 32];
        environment.random.fill(&mut key)?;
        Ok(Credentials { users, environment, key: hmac::Key::new(hmac::HMAC_SHA256, &key) })
    }

    /// The user of a request.
    ///
    /// # Errors
    /// `Unauthenticated`, `PermissionDenied` if the user's account may not query.
    pub async fn user(
        &self,
        metadata: &MetadataMap,
        extensions: &Extensions,
    ) -> std::result::Result<Arc<User>, Status> {
        self.check(metadata, extensions).await.map(|(user, _)| user)
    }

    /// A token for the login of a request.
    ///
    /// # Errors
    /// Errors of [`user`](Credentials::user).
    pub async fn token(
        &self,
        metadata: &MetadataMap,
        extensions: &Extensions,
    ) -> std::result::Result<String, Status> {
        let (_, access_key) = self.check(metadata, extensions).await?;
        let expires_ms = self.environment.clock.monotonic_ms() + TOKEN_MS;
        let text = format!("{access_key}.{expires_ms}");
        let signature = BASE64.encode_to_string(hmac::sign(&self.key, text.as_bytes()).as_ref());
        Ok(format!("{text}.{signature}"))
    }

    async fn check(
        &self,
        metadata: &MetadataMap,
        extensions: &Extensions,
    ) -> std::result::Result<(Arc<User>, String), Status> {
        let wrong = || Status::unauthenticated(wrong_credentials().to_string());
        let missing = || Status::unauthenticated("log in with an access key and its secret key");
        let header = metadata.get("authorization").and_then(|header| header.to_str().ok());
        let (scheme, value) = header.and_then(|header| header.split_once(' ')).ok_or_else(missing)?;
        let login = match scheme {
            "Basic" | "basic" => {
                // Some clients leave out the padding.
                let unpadded = value.trim_end_matches('=');
                let decoded =
                    BASE64.decode_to_vec(unpadded).ok().and_then(|text| String::from_utf8(text).ok());
                let decoded = decoded.ok_or_else(wrong)?;
                let (access_key, secret) = decoded.split_once(':').ok_or_else(wrong)?;
                let login = self.users.key(access_key).await.map_err(|error| status(&error))?;
                let login = login.ok_or_else(wrong)?;
                let expected = hmac::sign(&self.key, login.secret.as_bytes());
                hmac::verify(&self.key, secret.as_bytes(), expected.as_ref()).map_err(|_| wrong())?;
                (login, access_key.to_owned())
            }
            "Bearer" | "bearer" => {
                let expired = || Status::unauthenticated("the token is invalid or has expired; log in again");
                let access_key = self.token_key(value).ok_or_else(expired)?;
                let login = self.users.key(&access_key).await.map_err(|error| status(&error))?;
                (login.ok_or_else(expired)?, access_key)
            }
            _ => return Err(missing()),
        };
        let user = self.users.enter(&login.0).map_err(|error| status(&error))?;
        if let Some(connection) = extensions.get::<IsLoggedIn>() {
            connection.set();
        }
        Ok((user, login.1))
    }

    /// The access key of a valid token.
    fn token_key(&self, token: &str) -> Option<String> {
        let (text, signature) = token.rsplit_once('.')?;
        let signature = BASE64.decode_to_vec(signature).ok()?;
        hmac::verify(&self.key, text.as_bytes(), &signature).ok()?;
        let (access_key, expires_ms) = text.split_once('.')?;
        let now_ms = self.environment.clock.monotonic_ms();
        (now_ms < expires_ms.parse().ok()?).then(|| access_key.to_owned())
    }
}
