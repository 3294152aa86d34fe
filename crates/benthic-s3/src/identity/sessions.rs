//! Temporary keys. They are not stored: the secret derives from the key and the sealing key, and a
//! token, which the client sends with every request, holds the rights of the key, sealed. So every
//! gateway with this sealing key accepts them. They end at their time, or when the user or the role
//! is removed.

use super::{
    ACCESS_KEY_LEN, CAPITALS, Caller, FORM, Identities, IdentityKind, Lookup, SECRET_LEN, UsableKey, decode,
    in_change,
};
use benthic_core::{Error, Result};
use futures::future::try_join_all;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The beginning of temporary keys. Those of the store begin with `BN`.
const PREFIX: &str = "BT";
/// Maximum size of a token, in bytes. It contains a policy, and the ARNs of ten others.
const TOKEN_BYTES_MAX: usize = 16 * 1024;

/// Why a key is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// There is no such key, or it is suspended.
    UnknownKey,
    /// The token is not that of the key.
    InvalidToken,
    ExpiredToken,
}

/// The user or the role that a temporary key acts for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Holder {
    /// The temporary key ends with the key of the user that created it.
    User { name: String, access_key: String },
    Role {
        name: String,
        session: String,
        /// Present if the caller had a token of an identity provider.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        federated: Option<Federated>,
    },
}

/// The claims of an identity provider about the caller of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Federated {
    /// The ARN of the provider.
    pub provider_arn: String,
    /// Claims of the token, by the condition key.
    pub facts: BTreeMap<String, Vec<String>>,
}

#[cfg(feature = "policy")]
impl Federated {
    /// The values of a condition key, if the provider can have said them. A provider with the
    /// address `https://aws` cannot define `aws:username`.
    pub fn values(&self, key: &str) -> Option<Vec<String>> {
        match key {
            "aws:federatedprovider" => Some(vec![self.provider_arn.clone()]),
            key => crate::policy::claim(key).and_then(|_| self.facts.get(key).cloned()),
        }
    }
}

impl Holder {
    fn kind_and_name(&self) -> (IdentityKind, &str) {
        match self {
            Holder::User { name, .. } => (IdentityKind::User, name),
            Holder::Role { name, .. } => (IdentityKind::Role, name),
        }
    }
}

/// The claims of a token about its key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claims {
    pub form: u32,
    pub account: String,
    pub holder: Holder,
    /// When the user or the role was created. Another one with the same name has no sessions of
    /// this one.
    pub created_ms: u64,
    /// The policy of the session, as JSON.
    pub policy: Option<String>,
    /// ARNs of managed policies of the session.
    pub policy_arns: Vec<String>,
    /// When the key was created; absent in tokens of earlier builds.
    #[serde(default)]
    pub issued_ms: Option<u64>,
    pub expires_ms: u64,
}

/// A new temporary key.
pub struct TemporaryKey {
    pub access_key: String,
    pub secret: String,
    pub token: String,
    pub expires_ms: u64,
}

impl Identities {
    /// Creates a temporary key that lasts `lifetime_s` seconds. `created_ms` is the time at which
    /// its user or role was created.
    ///
    /// # Errors
    /// `LimitExceeded` if the token would be too large; `Unavailable` if there are no random
    /// numbers.
    pub fn create_session(
        &self,
        account: &str,
        holder: Holder,
        (policy, policy_arns): (Option<String>, Vec<String>),
        created_ms: u64,
        lifetime_s: u32,
    ) -> Result<TemporaryKey> {
        let now_ms = self.environment.unix_ms();
        let expires_ms = now_ms.saturating_add(u64::from(lifetime_s) * 1_000);
        let access_key = self.draw(PREFIX, ACCESS_KEY_LEN, CAPITALS)?;
        let account = account.to_owned();
        let issued_ms = Some(now_ms);
        let claims =
            Claims { form: FORM, account, holder, created_ms, policy, policy_arns, issued_ms, expires_ms };
        let text = serde_json::to_string(&claims)
            .map_err(|error| Error::internal("cannot encode a token").with_source(error))?;
        let token = self.sealer()?.seal(&token_name(&access_key), &text)?;
        if token.len() > TOKEN_BYTES_MAX {
            return Err(Error::limit_exceeded("the policies of the session are too large"));
        }
        Ok(TemporaryKey { secret: self.temporary_secret(&access_key)?, access_key, token, expires_ms })
    }

    /// The secret of a key; `None` for a key that is not usable. A temporary key also needs its
    /// token, which this does not check.
    ///
    /// # Errors
    /// As [`look_up_key`](Identities::look_up_key).
    pub async fn secret(&self, access_key: &str) -> Result<Option<String>> {
        if is_temporary(access_key) {
            return self.temporary_secret(access_key).map(Some);
        }
        Ok(self.look_up_key(access_key, None).await?.ok().map(|key| key.secret))
    }

    fn temporary_secret(&self, access_key: &str) -> Result<String> {
        let key = self.sealer()?.derive_key("benthic s3 2026-11 secrets of temporary keys");
        Ok(blake3::keyed_hash(&key, access_key.as_bytes()).to_hex()[..SECRET_LEN].to_owned())
    }

    /// The claims in the token of a key; `None` for a key of the store, which has no token.
    pub(super) fn claims(
        &self,
        access_key: &str,
        token: Option<&str>,
    ) -> Result<std::result::Result<Option<Claims>, Refusal>> {
        let token = match (is_temporary(access_key), token) {
            (false, None) => return Ok(Ok(None)),
            (false, Some(_)) => return Ok(Err(Refusal::InvalidToken)),
            (true, None) => return Ok(Err(Refusal::UnknownKey)),
            (true, Some(token)) => token,
        };
        if token.len() > TOKEN_BYTES_MAX {
            return Ok(Err(Refusal::InvalidToken));
        }
        let Ok(text) = self.sealer()?.open_secret(&token_name(access_key), token) else {
            return Ok(Err(Refusal::InvalidToken));
        };
        let claims: Claims = decode(text.as_bytes(), access_key)?;
        if claims.expires_ms <= self.environment.unix_ms() {
            return Ok(Err(Refusal::ExpiredToken));
        }
        Ok(Ok(Some(claims)))
    }

    pub(super) async fn read_session(&self, access_key: &str, claims: &Claims) -> Result<Lookup> {
        let (kind, name) = claims.holder.kind_and_name();
        let (account, found) =
            futures::try_join!(self.account(&claims.account), self.actor(kind, &claims.account, name))?;
        if let Holder::User { name, access_key } = &claims.holder {
            let key = self.key(access_key).await?;
            // The user may have another name now, and another user its old name.
            if key.suspended || key.account != claims.account || key.user != *name {
                return Ok(Err(Refusal::UnknownKey));
            }
        }
        if account.suspended || found.created_ms != claims.created_ms {
            return Ok(Err(Refusal::UnknownKey));
        }
        let (path, id) = (found.path().to_owned(), found.id(&claims.account, name));
        let of_session = claims.policy_arns.iter().map(|arn| self.policy_text(&claims.account, arn));
        // A session ends when one of its managed policies is removed: the policy may deny
        // something.
        let mut session = try_join_all(of_session).await?;
        let mut texts = self.policy_texts(&claims.account, found).await.map_err(in_change)?;
        session.extend(claims.policy.clone());
        texts.session = Some(session).filter(|texts| !texts.is_empty());
        let account = claims.account.clone();
        let (caller, federated) = match claims.holder.clone() {
            Holder::User { name, .. } => (Caller::User { account, user: name }, None),
            Holder::Role { name, session, federated } => {
                (Caller::Session { account, role: name, session }, federated.map(Arc::new))
            }
        };
        let secret = self.temporary_secret(access_key)?;
        let issued_ms = Some(claims.issued_ms.unwrap_or_default());
        Ok(Ok(UsableKey { caller, secret, policies: Arc::new(texts), path, id, federated, issued_ms }))
    }
}

/// Whether a key is a temporary one.
pub fn is_temporary(access_key: &str) -> bool {
    access_key.len() == ACCESS_KEY_LEN && access_key.starts_with(PREFIX)
}

/// The name under which a token is sealed. The secret of a key of the store is sealed under the
/// name of the key, so it cannot serve as a token.
fn token_name(access_key: &str) -> String {
    format!("token of {access_key}")
}

#[cfg(all(test, feature = "policy"))]
mod tests {
    use super::Federated;
    use std::collections::BTreeMap;

    #[test]
    fn a_provider_says_nothing_about_the_request() {
        let keys = ["aws:username", "s3:prefix", "sts:externalid", "idp.example:sub", "localhost:8080:sub"];
        let facts: BTreeMap<String, Vec<String>> =
            keys.iter().map(|key| ((*key).to_owned(), vec!["eve".to_owned()])).collect();
        let federated = Federated { provider_arn: "arn".to_owned(), facts };
        let said: Vec<&str> = keys.into_iter().filter(|key| federated.values(key).is_some()).collect();
        assert_eq!(said, ["idp.example:sub", "localhost:8080:sub"]);
        assert_eq!(federated.values("aws:federatedprovider").unwrap(), ["arn"]);
    }
}
