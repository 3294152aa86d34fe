//! Tokens for access keys (RFC 6749, "Client Credentials Grant"; RFC 8693 to renew them).

use super::{Catalog, Failure, body};
use base64_simd::STANDARD;
use hyper::Request;
use hyper::body::Incoming;
use hyper::header::AUTHORIZATION;
use serde_json::{Value, json};

/// The type of all tokens.
const ACCESS_TOKEN: &str = "urn:ietf:params:oauth:token-type:access_token";

impl Catalog {
    /// Answers `POST /v1/oauth/tokens`.
    pub(super) async fn token(&self, request: Request<Incoming>) -> Result<Value, Failure> {
        let basic =
            request.headers().get(AUTHORIZATION).and_then(|header| header.to_str().ok()).and_then(basic);
        let form = body(request).await?;
        let field = |name: &str| {
            let pairs = url::form_urlencoded::parse(&form);
            pairs.into_iter().find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
        };
        let token = match field("grant_type").as_deref() {
            Some("client_credentials") => {
                let (access_key, secret) =
                    field("client_id").zip(field("client_secret")).or(basic).ok_or_else(|| {
                        Failure::bad_request(
                            "send an access key as `client_id` and its secret key as `client_secret`",
                        )
                    })?;
                self.auth.log_in(&access_key, &secret).await?
            }
            _ => return Err(Failure::bad_request("`grant_type` must be `client_credentials`")),
        };
        let token = token.ok_or_else(|| Failure::unauthorized("unknown access key or wrong secret key"))?;
        Ok(json!({
            "access_token": token,
            "token_type": "bearer",
            "expires_in": self.auth.lifetime_s(),
            "issued_token_type": ACCESS_TOKEN,
        }))
    }
}

/// The user and the password of a header.
fn basic(header: &str) -> Option<(String, String)> {
    let (scheme, encoded) = header.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let text = String::from_utf8(STANDARD.decode_to_vec(encoded.trim()).ok()?).ok()?;
    text.split_once(':').map(|(user, password)| (user.to_owned(), password.to_owned()))
}
