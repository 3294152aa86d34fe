//! Keys that encrypt the data keys of objects (SSE-KMS), in the store, sealed by the sealing key. A
//! rotation adds a version; data keys that older versions encrypt stay readable. Or the store has
//! only the name of a key in Vault.

use super::{FORM, Identities, busy, change, retry_busy};
use crate::sal::RecordKind;
use crate::seal::{Sealer, hex, unhex};
use benthic_core::{Error, Result};
use serde::{Deserialize, Serialize};

/// Maximum number of versions of a key.
const VERSIONS_MAX: usize = 1_000;
/// The length of an id as text.
const UUID_LEN: usize = 36;
/// Maximum length of a key's description, in bytes.
const DESCRIPTION_BYTES_MAX: usize = 256;

/// A key of an account. It encrypts data keys.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KmsKey {
    form: u32,
    pub created_ms: u64,
    pub account: String,
    pub description: String,
    /// A disabled key neither encrypts nor decrypts.
    pub disabled: bool,
    /// The oldest first; the last one encrypts. Empty for a key in Vault, which has its own.
    pub versions: Vec<KmsKeyVersion>,
    /// The name of the key in Vault, if it is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vault: Option<String>,
}

/// A version of a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KmsKeyVersion {
    pub created_ms: u64,
    /// The key, sealed.
    sealed: String,
}

impl Identities {
    /// Creates a key of an account, and returns its id. With `vault`, the key is the one with this
    /// name in Vault, and the caller has checked the name.
    ///
    /// # Errors
    /// `NotFound`, `InvalidArgument`, `Unavailable` if there are no random numbers.
    pub async fn create_kms_key(
        &self,
        account: &str,
        description: &str,
        vault: Option<&str>,
    ) -> Result<(String, KmsKey)> {
        if description.len() > DESCRIPTION_BYTES_MAX || description.contains(char::is_control) {
            return Err(Error::invalid_argument("a description is one line of at most 256 bytes"));
        }
        let owner = self.in_account(account).await?;
        let id = self.draw_uuid()?;
        let key = KmsKey {
            form: FORM,
            created_ms: self.environment.unix_ms(),
            account: account.to_owned(),
            description: description.to_owned(),
            disabled: false,
            versions: match vault {
                Some(_) => Vec::new(),
                None => vec![self.new_version(&id, 0)?],
            },
            vault: vault.map(str::to_owned),
        };
        let changes = [owner, change(RecordKind::KmsKey, &id, None, Some(&key))?];
        self.swap(&changes, busy).await?;
        Ok((id, key))
    }

    /// Looks up a key.
    ///
    /// # Errors
    /// `NotFound`.
    pub async fn kms_key(&self, id: &str) -> Result<KmsKey> {
        let missing = "there is no such KMS key; `benthic s3 kms key ls` lists the keys";
        if id.len() != UUID_LEN || !id.bytes().all(|byte| byte == b'-' || byte.is_ascii_hexdigit()) {
            return Err(Error::not_found(missing));
        }
        self.get(RecordKind::KmsKey, id, missing).await
    }

    /// All keys, in the order of their ids.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn kms_keys(&self) -> Result<Vec<(String, KmsKey)>> {
        self.all(RecordKind::KmsKey, "").await
    }

    /// Adds a version to a key. It encrypts from now on.
    ///
    /// # Errors
    /// `NotFound`, `LimitExceeded`; `Unsupported` for a key in Vault.
    pub async fn rotate_kms_key(&self, id: &str) -> Result<KmsKey> {
        self.change_kms_key(id, |key| {
            if let Some(name) = &key.vault {
                let message = "the key is in Vault; run `vault write -f transit/keys/NAME/rotate` there";
                return Err(Error::unsupported(message).with("name", name));
            }
            if key.versions.len() >= VERSIONS_MAX {
                let message = "the key has 1,000 versions; create another key";
                return Err(Error::limit_exceeded(message).with("key", id));
            }
            key.versions.push(self.new_version(id, key.versions.len())?);
            Ok(())
        })
        .await
    }

    /// Disables a key, or ends that.
    ///
    /// # Errors
    /// `NotFound`.
    pub async fn disable_kms_key(&self, id: &str, disabled: bool) -> Result<KmsKey> {
        self.change_kms_key(id, |key| {
            key.disabled = disabled;
            Ok(())
        })
        .await
    }

    async fn change_kms_key(&self, id: &str, edit: impl Fn(&mut KmsKey) -> Result<()>) -> Result<KmsKey> {
        retry_busy(|| async {
            let found = self.kms_key(id).await?;
            let mut new = found.clone();
            edit(&mut new)?;
            self.replace(RecordKind::KmsKey, id, &found, Some(&new)).await.map_err(busy)?;
            Ok(new)
        })
        .await
    }

    /// Removes a key that is disabled. Objects that it encrypts can never be read again.
    ///
    /// # Errors
    /// `NotFound`; `Conflict` if it is not disabled, or changes at the same time.
    pub async fn remove_kms_key(&self, id: &str) -> Result<()> {
        let found = self.kms_key(id).await?;
        if !found.disabled {
            let message = "the key is not disabled; disable it first, and check that nobody needs it";
            return Err(Error::conflict(message).with("key", id));
        }
        self.replace(RecordKind::KmsKey, id, &found, None).await
    }

    /// The sealer for data keys with a version of a key.
    ///
    /// # Errors
    /// `Corrupt` if there is no such version; `PermissionDenied` if it was sealed with another key.
    pub fn kms_sealer(&self, id: &str, key: &KmsKey, version: usize) -> Result<Sealer> {
        let stored = key.versions.get(version).ok_or_else(|| {
            Error::corrupt("the key lacks a version").with("key", id).with("version", version)
        })?;
        let secret = self.sealer()?.open_secret(&version_name(id, version), &stored.sealed)?;
        let secret = unhex(&secret).and_then(|secret| secret.try_into().ok());
        let secret = secret.ok_or_else(|| Error::corrupt("cannot decode a key").with("key", id))?;
        Ok(Sealer::with_key(secret, self.environment.clone()))
    }

    /// The sealer for data keys of SSE-S3.
    ///
    /// # Errors
    /// `Internal` without a sealer.
    pub fn sse_s3_sealer(&self) -> Result<Sealer> {
        let key = self.sealer()?.derive_key("benthic s3 2026-11 data keys of SSE-S3");
        Ok(Sealer::with_key(key, self.environment.clone()))
    }

    fn new_version(&self, id: &str, number: usize) -> Result<KmsKeyVersion> {
        let mut key = [0; 32];
        self.environment.random.fill(&mut key)?;
        let sealed = self.sealer()?.seal(&version_name(id, number), &hex(&key))?;
        Ok(KmsKeyVersion { created_ms: self.environment.unix_ms(), sealed })
    }

    /// A random UUID (RFC 9562, version 4), as KMS names keys.
    fn draw_uuid(&self) -> Result<String> {
        let mut bytes = [0; 16];
        self.environment.random.fill(&mut bytes)?;
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        let text = hex(&bytes);
        Ok([&text[..8], &text[8..12], &text[12..16], &text[16..20], &text[20..]].join("-"))
    }
}

/// The name under which a version of a key is sealed.
fn version_name(id: &str, number: usize) -> String {
    format!("kms-key/{id}/{number}")
}
