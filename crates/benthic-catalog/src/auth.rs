//! Access to tables: users of the S3 gateway whose account has a grant get tokens that expire, and
//! temporary keys for the files of one table.
//!
//! Tokens and temporary keys are not stored. They hold the rights that they give, and a key that
//! derives from the sealing key authenticates them. So every server with this sealing key accepts
//! them. A token also ends when the user's key is removed or suspended. A temporary key lasts until
//! it expires.

use crate::iceberg::keys::{Folder, escape};
use async_trait::async_trait;
use benthic_core::{Environment, Error, ErrorKind, Result};
use benthic_s3::gateway::{KeyUse, Keys};
use benthic_s3::grants::{Access, Grant};
use benthic_s3::identity::{Caller, Lookup, NewKey, Refusal, UsableKey, user_name};
use benthic_s3::seal::Sealer;
use benthic_table::ids::Id;
use std::sync::Arc;

/// The owner of the bucket with all tables. An account cannot have this name.
pub const OWNER: &str = "benthic/catalog";
/// The message for a client that may only read.
pub const NO_WRITES: &str =
    "the account may not change tables of the pool; the server's option --allow-writes permits it";
/// Operations on files that are not committed yet.
const UPLOADS: [&str; 7] = [
    "PutObject",
    "CreateMultipartUpload",
    "UploadPart",
    "CompleteMultipartUpload",
    "AbortMultipartUpload",
    "ListParts",
    "DeleteObject",
];
/// The beginning of temporary keys. Those of the store begin with `BN`.
const TEMPORARY: &str = "BT";
/// The letter in a temporary key that permits only reads.
const READS: &str = "R";
/// The letter in a temporary key that permits reads and writes.
const WRITES: &str = "W";
const SECRET_LEN: usize = 40;
const TAG_LEN: usize = 32;

/// Checks secrets, tokens and temporary keys.
pub struct Auth {
    access: Access,
    writers: Vec<Grant>,
    key: [u8; 32],
    environment: Environment,
    lifetime_s: u64,
}

impl Auth {
    /// Accepts users with a grant in `access`. They may change the tables of `writers`. Tokens and
    /// temporary keys last `lifetime_s` seconds.
    pub fn new(
        access: Access,
        writers: Vec<Grant>,
        sealer: &Sealer,
        environment: Environment,
        lifetime_s: u64,
    ) -> Auth {
        let key = sealer.derive_key("benthic catalog 2026-11 tokens and temporary keys");
        Auth { access, writers, key, environment, lifetime_s }
    }

    /// Whether an account may change the tables of a pool.
    pub fn may_write(&self, account: &str, pool: &str) -> bool {
        self.writers.iter().any(|grant| grant.account == account && grant.covers(pool))
    }

    pub fn lifetime_s(&self) -> u64 {
        self.lifetime_s
    }

    /// A token of a user. `None` if there is no such key, or its secret is another one.
    ///
    /// # Errors
    /// `PermissionDenied` if the account has no grant; errors of the store.
    pub async fn log_in(&self, access_key: &str, secret: &str) -> Result<Option<String>> {
        let Some(login) = self.access.key(access_key).await? else { return Ok(None) };
        // Hashes are compared in constant time.
        if self.hash(&login.secret) != self.hash(secret) {
            return Ok(None);
        }
        self.access.grant(&login)?;
        let text = format!("{access_key}.{}", self.expires_s());
        Ok(Some(format!("{text}.{}", self.hash(&format!("token {text}")).to_hex())))
    }

    /// The grant of a token. `None` if the token is invalid or has expired.
    ///
    /// # Errors
    /// As [`Auth::log_in`].
    pub async fn grant(&self, token: &str) -> Result<Option<Grant>> {
        let Some((text, tag)) = token.rsplit_once('.') else { return Ok(None) };
        let Ok(tag) = blake3::Hash::from_hex(tag) else { return Ok(None) };
        let Some((access_key, expires_s)) = text.split_once('.') else { return Ok(None) };
        let is_valid = tag == self.hash(&format!("token {text}"));
        if !is_valid || !expires_s.parse().is_ok_and(|expires_s: u64| self.now_s() < expires_s) {
            return Ok(None);
        }
        self.grant_of(access_key).await
    }

    async fn grant_of(&self, access_key: &str) -> Result<Option<Grant>> {
        let Some(login) = self.access.key(access_key).await? else { return Ok(None) };
        self.access.grant(&login).map(Some)
    }

    /// A temporary key that reads the files of one table. With `writes`, it uploads files for it,
    /// too.
    pub fn temporary_key(&self, folder: &Folder, writes: bool) -> NewKey {
        let right = if writes { WRITES } else { READS };
        let access_key =
            format!("{TEMPORARY}{:010X}{right}{}", self.expires_s(), tag_of(&folder.to_string()));
        let secret = self.temporary_secret(&access_key);
        NewKey { access_key, secret }
    }

    /// The id of a table that a client may create: half of it is random, and half is a tag.
    ///
    /// # Errors
    /// The system's error if it has no random numbers.
    pub fn draw_table_id(&self, pool: &str, table: &str) -> Result<Id> {
        let random = self.environment.random.random_u64()?;
        Ok(self.tagged_id(random >> 32, pool, table))
    }

    /// Whether a server has drawn the id of this folder.
    pub fn drew(&self, folder: &Folder) -> bool {
        folder.id == self.tagged_id(folder.id.0 >> 32, &folder.pool, &folder.table)
    }

    fn tagged_id(&self, random: u64, pool: &str, table: &str) -> Id {
        let hash = self.hash(&format!("table {random:08x} {}/{}", escape(pool), escape(table)));
        let [a, b, c, d, ..] = *hash.as_bytes();
        Id((random << 32) | u64::from(u32::from_le_bytes([a, b, c, d])))
    }

    fn temporary_secret(&self, access_key: &str) -> String {
        self.hash(&format!("secret {access_key}")).to_hex()[..SECRET_LEN].to_owned()
    }

    /// The tag of a temporary key's folder, and whether the key writes. `None` for other keys and
    /// expired ones.
    fn temporary_tag<'k>(&self, access_key: &'k str) -> Option<(&'k str, bool)> {
        let (expires_s, rest) = access_key.strip_prefix(TEMPORARY)?.split_at_checked(10)?;
        let (right, tag) = rest.split_at_checked(1)?;
        let expires_s = u64::from_str_radix(expires_s, 16).ok()?;
        (tag.len() == TAG_LEN && self.now_s() < expires_s).then_some((tag, right == WRITES))
    }

    fn expires_s(&self) -> u64 {
        self.now_s().saturating_add(self.lifetime_s)
    }

    fn now_s(&self) -> u64 {
        self.environment.unix_ms() / 1_000
    }

    fn hash(&self, text: &str) -> blake3::Hash {
        blake3::keyed_hash(&self.key, text.as_bytes())
    }
}

/// The tag of a folder in a temporary key.
fn tag_of(folder: &str) -> String {
    blake3::hash(folder.as_bytes()).to_hex()[..TAG_LEN].to_uppercase()
}

#[async_trait]
impl Keys for Auth {
    async fn secret(&self, access_key: &str) -> Result<Option<String>> {
        Ok(self.find(access_key, None).await?.ok().map(|key| key.secret))
    }

    async fn find(&self, access_key: &str, token: Option<&str>) -> Result<Lookup> {
        let is_temporary = self.temporary_tag(access_key).is_some();
        // The session token of a temporary key is the key itself: a temporary key holds its rights.
        if token.is_some_and(|token| !is_temporary || token != access_key) {
            return Ok(Err(Refusal::InvalidToken));
        }
        let (user, secret) = if is_temporary {
            ("temporary".to_owned(), self.temporary_secret(access_key))
        } else {
            let Some(login) = self.access.key(access_key).await? else { return Ok(Err(Refusal::UnknownKey)) };
            (login.user, login.secret)
        };
        let id = user_name(OWNER, &user);
        let caller = Caller::User { account: OWNER.to_owned(), user };
        let (policies, path) = (Arc::default(), "/".to_owned());
        Ok(Ok(UsableKey { caller, secret, policies, path, id, federated: None, issued_ms: None }))
    }

    /// A temporary key reads its table's folder. Another key reads all pools of its grant.
    async fn admits(&self, access_key: &str, request: &KeyUse<'_>) -> Result<bool> {
        // Of several prefixes, nobody knows which one counts.
        let prefix = || {
            let pairs = url::form_urlencoded::parse(request.query.as_bytes());
            let mut found = pairs.into_iter().filter(|(name, _)| name == "prefix");
            let first = found.next().map(|(_, prefix)| prefix.into_owned());
            first.filter(|_| found.next().is_none())
        };
        let temporary = self.temporary_tag(access_key);
        // All keys that the request can see or change start with this text.
        let start = match request.operation {
            "GetObject" | "HeadObject" => request.object.map(str::to_owned),
            operation if UPLOADS.contains(&operation) => match temporary {
                Some((_, true)) => request.object.map(str::to_owned),
                Some((_, false)) => return Err(Error::permission_denied(NO_WRITES)),
                None => None,
            },
            "ListObjects" | "ListObjectsV2" => Some(prefix().unwrap_or_default()),
            "HeadBucket" | "GetBucketLocation" | "ListBuckets" => return Ok(true),
            _ => None,
        };
        let Some(start) = start else { return Ok(false) };
        let mut parts = start.splitn(3, '/');
        let (pool, table, rest) = (parts.next().unwrap_or_default(), parts.next(), parts.next());
        if let Some((tag, _)) = temporary {
            return Ok(match (table, rest) {
                (Some(table), Some(_)) => tag_of(&format!("{pool}/{table}")) == tag,
                _ => false,
            });
        }
        let grant = match self.grant_of(access_key).await {
            Err(error) if error.kind() == ErrorKind::PermissionDenied => None,
            grant => grant?,
        };
        let Some(grant) = grant else { return Ok(false) };
        Ok(match &grant.pools {
            None => true,
            Some(pools) => table.is_some() && pools.iter().any(|granted| escape(granted) == pool),
        })
    }
}
