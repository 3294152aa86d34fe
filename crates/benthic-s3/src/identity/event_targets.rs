//! Targets of events: web servers that the gateway tells of changes. Operators create them, so
//! clients cannot make the gateway send requests to any address.

use super::{FORM, Identities, change, check_name, exists, full_name};
use crate::sal::RecordKind;
use benthic_core::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

/// A target of an account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventTarget {
    form: u32,
    pub created_ms: u64,
    /// The address of the web server.
    pub url: String,
    /// The bearer token, sealed.
    token: Option<String>,
    /// The certificates of the authorities to trust, in PEM.
    pub ca: Option<String>,
}

impl EventTarget {
    pub fn has_token(&self) -> bool {
        self.token.is_some()
    }
}

impl Identities {
    /// Creates a target. The caller has checked the URL and the certificates.
    ///
    /// # Errors
    /// `NotFound` without the account, `AlreadyExists`, `InvalidArgument`.
    pub async fn create_event_target(
        &self,
        account: &str,
        name: &str,
        url: &str,
        token: Option<&str>,
        ca: Option<&str>,
    ) -> Result<EventTarget> {
        check_name(name)?;
        let owner = self.account(account).await?;
        let full = full_name(account, name);
        let token = token.map(|token| self.sealer()?.seal(&seal_name(&full), token)).transpose()?;
        let target = EventTarget {
            form: FORM,
            created_ms: self.environment.unix_ms(),
            url: url.to_owned(),
            token,
            ca: ca.map(str::to_owned),
        };
        let changes = [
            // Compare the account in the same swap, so that it exists.
            change(RecordKind::Account, account, Some(&owner), Some(&owner))?,
            change(RecordKind::EventTarget, &full, None, Some(&target))?,
        ];
        self.swap(&changes, |error| exists(error, "target", &full)).await?;
        Ok(target)
    }

    /// Looks up a target.
    ///
    /// # Errors
    /// `NotFound`; `Unsupported` if a newer version has written it.
    pub async fn event_target(&self, account: &str, name: &str) -> Result<EventTarget> {
        let missing = "there is no such target; `benthic s3 events target ls` lists the targets";
        let full = full_name(account, name);
        let found: EventTarget = self.get(RecordKind::EventTarget, &full, missing).await?;
        if found.form == FORM {
            return Ok(found);
        }
        let message = "a newer version of Benthic has written the target";
        Err(Error::new(ErrorKind::Unsupported, message).with("name", full))
    }

    /// All targets: the account and the name, and the target.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn event_targets(&self) -> Result<Vec<(String, EventTarget)>> {
        self.all(RecordKind::EventTarget, "").await
    }

    /// Removes a target. Events for it wait until there is a target with its name, or until they
    /// are too old.
    ///
    /// # Errors
    /// `NotFound`, `Conflict` if it changes at the same time.
    pub async fn remove_event_target(&self, account: &str, name: &str) -> Result<()> {
        let found = self.event_target(account, name).await?;
        self.replace(RecordKind::EventTarget, &full_name(account, name), &found, None).await
    }

    /// The bearer token of a target.
    ///
    /// # Errors
    /// `PermissionDenied` if it was sealed with another key.
    pub fn token_of_target(&self, account: &str, name: &str, target: &EventTarget) -> Result<Option<String>> {
        let Some(sealed) = &target.token else { return Ok(None) };
        self.sealer()?.open_secret(&seal_name(&full_name(account, name)), sealed).map(Some)
    }
}

/// The name under which a token is sealed.
fn seal_name(full_name: &str) -> String {
    format!("event-target/{full_name}")
}
