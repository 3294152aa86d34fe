//! The start of a server whose users are those of the gateway: it opens the accounts, and prints
//! the key that the first start created.

use super::{FIRST_ACCOUNT, FIRST_USER, Identities, NewKey};
use crate::pool::{Options, PoolSal};
use crate::sal::Sal;
use crate::seal::Sealer;
use benthic_core::{Environment, Pool, Result};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;

/// The accounts of a store, opened for a server.
pub struct Started {
    /// The driver on the pool with the accounts.
    pub sal: Arc<dyn Sal>,
    pub identities: Identities,
    pub sealer: Sealer,
    /// The key that the first start created.
    pub first: Option<NewKey>,
}

impl Started {
    /// Opens the accounts in this pool. The first start creates the file with the sealing key, an
    /// account, a user and a key.
    ///
    /// # Errors
    /// Those of the store and of [`Sealer::open`]; `PermissionDenied` if the secrets were sealed
    /// with another key.
    pub async fn open(
        pool: Arc<dyn Pool>,
        sealing_key: Option<&Path>,
        environment: &Environment,
    ) -> Result<Started> {
        let sal = PoolSal::open(Arc::clone(&pool), pool, Options::default()).await?;
        let sal = Arc::new(sal) as Arc<dyn Sal>;
        let sealer = match sealing_key {
            Some(path) => Sealer::open(path, true, environment.clone()),
            None => Sealer::open(&Sealer::default_path()?, true, environment.clone()),
        }?;
        let identities = Identities::new(Arc::clone(&sal), Some(sealer.clone()), environment.clone());
        identities.check_sealing_key().await?;
        let first = identities.create_first_key().await?;
        Ok(Started { sal, identities, sealer, first })
    }
}

/// The end of the text that a server prints when it starts. `labels` are the words of its clients
/// for an access key and a secret key. `example` shows how to use the two.
pub fn first_key_text(
    first: Option<&NewKey>,
    labels: [&str; 2],
    example: impl FnOnce(&NewKey) -> String,
) -> String {
    let Some(key) = first else {
        return "\n`benthic s3 key create ACCOUNT/USER` creates a key; Ctrl-C stops the server".to_owned();
    };
    let [access, secret] = labels;
    let width = access.len().max(secret.len());
    format!(
        "\n\nThis is the first start. It created the account {FIRST_ACCOUNT} with the user {FIRST_USER} and this key, \
         which cannot be shown again:\n\n  {access:width$}  {}\n  {secret:width$}  {}\n{}\nCtrl-C stops the server",
        key.access_key,
        key.secret,
        example(key)
    )
}

/// Adds the first key to the JSON that a server prints when it starts; null after the first start.
pub fn add_first_key(json: &mut Value, first: Option<&NewKey>) {
    json["account"] = json!(first.map(|_| FIRST_ACCOUNT));
    json["user"] = json!(first.map(|_| FIRST_USER));
    json["access_key"] = json!(first.map(|key| &key.access_key));
    json["secret_key"] = json!(first.map(|key| &key.secret));
}
