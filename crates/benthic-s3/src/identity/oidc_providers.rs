//! Identity providers (OpenID Connect) of accounts. Callers with a token of a provider may assume
//! the roles that trust it.

use super::{FORM, Identities, PROVIDERS_MAX, busy, change, exists, full_name, retry_busy};
use crate::sal::RecordKind;
use benthic_core::{Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

const CLIENT_IDS_MAX: usize = 100;
const CLIENT_ID_BYTES_MAX: usize = 255;
const THUMBPRINTS_MAX: usize = 5;
/// Length of a SHA-1 in hexadecimal digits.
const THUMBPRINT_LEN: usize = 40;
const ARN: &str = "arn:aws:iam::";

/// An identity provider of an account. Its name is its URL without the scheme.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OidcProvider {
    form: u32,
    pub created_ms: u64,
    /// The issuer of its tokens.
    pub url: String,
    /// The audiences of tokens that the account accepts.
    pub client_ids: BTreeSet<String>,
    /// SHA-1 of certificates, in lower case. A certificate among those that the provider sends is
    /// trusted if it has one of these.
    pub thumbprints: BTreeSet<String>,
}

impl OidcProvider {
    /// Checks the limits, and brings the thumbprints into lower case.
    fn check(&mut self) -> Result<()> {
        let invalid = |message: &str| Err(Error::invalid_argument(message.to_owned()));
        let is_id =
            |id: &String| (1..=CLIENT_ID_BYTES_MAX).contains(&id.len()) && !id.contains(char::is_control);
        if !self.client_ids.iter().all(is_id) {
            return invalid("a client id must have 1 to 255 bytes and no control characters");
        }
        if self.client_ids.len() > CLIENT_IDS_MAX {
            return Err(Error::limit_exceeded("an identity provider has at most 100 client ids"));
        }
        let is_thumbprint =
            |text: &String| text.len() == THUMBPRINT_LEN && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !self.thumbprints.iter().all(is_thumbprint) {
            return invalid("a thumbprint must be the SHA-1 of a certificate, in 40 hexadecimal digits");
        }
        if self.thumbprints.len() > THUMBPRINTS_MAX {
            return invalid("an identity provider has at most 5 thumbprints");
        }
        self.thumbprints = self.thumbprints.iter().map(|text| text.to_ascii_lowercase()).collect();
        Ok(())
    }
}

/// The name of a provider: its URL without the scheme.
pub fn issuer_name(url: &str) -> &str {
    url.split_once("://").map_or(url, |(_, name)| name)
}

/// The ARN of a provider.
pub fn oidc_provider_arn(account: &str, name: &str) -> String {
    format!("{ARN}{account}:oidc-provider/{name}")
}

/// The account and the name in the ARN of a provider.
pub fn parse_oidc_provider_arn(arn: &str) -> Option<(&str, &str)> {
    let (account, rest) = arn.strip_prefix(ARN)?.split_once(':')?;
    let name = rest.strip_prefix("oidc-provider/")?;
    (!account.is_empty() && !name.is_empty()).then_some((account, name))
}

impl Identities {
    /// Creates a provider. The caller has checked the URL.
    ///
    /// # Errors
    /// `NotFound` without the account, `AlreadyExists`, `InvalidArgument`, `LimitExceeded`.
    pub async fn create_oidc_provider(
        &self,
        account: &str,
        url: &str,
        client_ids: BTreeSet<String>,
        thumbprints: BTreeSet<String>,
    ) -> Result<()> {
        let created_ms = self.environment.unix_ms();
        let mut provider =
            OidcProvider { form: FORM, created_ms, url: url.to_owned(), client_ids, thumbprints };
        provider.check()?;
        let owner = self.in_account(account).await?;
        if self.oidc_providers(account).await?.len() >= PROVIDERS_MAX {
            return Err(Error::limit_exceeded("an account has at most 100 identity providers"));
        }
        let name = full_name(account, issuer_name(url));
        let changes = [owner, change(RecordKind::OidcProvider, &name, None, Some(&provider))?];
        self.swap(&changes, |error| exists(error, "identity provider", url)).await
    }

    /// Looks up a provider by its name.
    ///
    /// # Errors
    /// `NotFound`; `Unsupported` if a newer version has written it.
    pub async fn oidc_provider(&self, account: &str, name: &str) -> Result<OidcProvider> {
        let found: OidcProvider = self
            .get(RecordKind::OidcProvider, &full_name(account, name), "no such identity provider")
            .await?;
        if found.form == FORM {
            return Ok(found);
        }
        let message = "a newer version of Benthic has written the identity provider";
        Err(Error::unsupported(message).with("name", name))
    }

    /// The providers of an account, by name.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn oidc_providers(&self, account: &str) -> Result<Vec<(String, OidcProvider)>> {
        self.of_account(RecordKind::OidcProvider, account).await
    }

    /// Changes a provider.
    ///
    /// # Errors
    /// `NotFound`, `InvalidArgument`, `LimitExceeded`; `Busy` if others change it all the time.
    pub async fn change_oidc_provider(
        &self,
        account: &str,
        name: &str,
        edit: impl Fn(&mut OidcProvider),
    ) -> Result<()> {
        let full = full_name(account, name);
        retry_busy(|| async {
            let found = self.oidc_provider(account, name).await?;
            let mut new = found.clone();
            edit(&mut new);
            new.check()?;
            self.replace(RecordKind::OidcProvider, &full, &found, Some(&new)).await.map_err(busy)
        })
        .await
    }

    /// Removes a provider. Sessions that it made possible continue.
    ///
    /// # Errors
    /// `NotFound`, `Busy` if it changes at the same time.
    pub async fn remove_oidc_provider(&self, account: &str, name: &str) -> Result<()> {
        let found = self.oidc_provider(account, name).await?;
        self.replace(RecordKind::OidcProvider, &full_name(account, name), &found, None).await.map_err(busy)
    }
}
