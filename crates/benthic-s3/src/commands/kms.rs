//! `benthic s3 kms`: creates, rotates, disables and removes the keys of SSE-KMS.

use super::{GatewayPools, time};
use benthic_core::Error;
use benthic_program::exit::Outcome;
use benthic_program::session::Session;
use benthic_s3::identity::KmsKey;
use benthic_s3::vault;
use clap::Subcommand;
use serde_json::{Value, json};

pub const HELP: &str = "SSE-KMS encrypts each object with a data key, and a KMS key encrypts the data key:
  aws s3 cp FILE s3://BUCKET/ --sse aws:kms --sse-kms-key-id ID
The store contains KMS keys only encrypted with the sealing key, or the names of keys in Vault.

Examples:
  benthic s3 kms key create lab
  benthic s3 kms key create lab --vault-key patients
  benthic s3 kms key ls";

/// The nouns of `benthic s3 kms`.
#[derive(Subcommand)]
pub enum KmsCommand {
    /// Administer the keys of accounts
    #[command(subcommand, after_help = HELP)]
    Key(KmsKeyCommand),
}

/// The verbs of `benthic s3 kms key`.
#[derive(Subcommand)]
pub enum KmsKeyCommand {
    /// Create a key of an account, and show its id
    #[command(
        after_help = "All users of the account may use the key. A user with policies also needs an Allow of \
        kms:GenerateDataKey to write and of kms:Decrypt to read. Uploads in parts and copies need both.\n\n\
        Examples:\n  benthic s3 kms key create lab\n  benthic s3 kms key create lab --description 'patient records'\n  \
        benthic s3 kms key create lab --vault-key patients"
    )]
    Create {
        /// Name of the account
        account: String,
        /// One line about its use
        #[arg(long, value_name = "TEXT", default_value = "")]
        description: String,
        /// Name of a key of Vault's transit engine to use (see `benthic s3 serve --vault`)
        #[arg(long, value_name = "NAME")]
        vault_key: Option<String>,
    },
    /// List keys
    #[command(after_help = "Examples:\n  benthic s3 kms key ls\n  benthic s3 kms key ls lab --json")]
    Ls {
        /// Only keys of this account
        account: Option<String>,
    },
    /// Rotate a key: new objects use a new version
    #[command(after_help = "Older versions remain, so older objects stay readable.\n\n\
        Example:\n  benthic s3 kms key rotate 0b9f4c56-6f6a-4bde-9c1e-0b8c7a1d2e3f")]
    Rotate {
        /// The id of the key
        key: String,
    },
    /// Remove a disabled key: objects that it encrypts can never be read again
    #[command(after_help = "Example:\n  benthic s3 kms key rm 0b9f4c56-6f6a-4bde-9c1e-0b8c7a1d2e3f")]
    Rm {
        /// The id of the key
        key: String,
    },
    /// Disable a key: reads and writes that need it fail
    #[command(after_help = "Running gateways apply this to the next request.\n\n\
        Examples:\n  benthic s3 kms key disable 0b9f4c56-6f6a-4bde-9c1e-0b8c7a1d2e3f\n  \
        benthic s3 kms key disable 0b9f4c56-6f6a-4bde-9c1e-0b8c7a1d2e3f --end")]
    Disable {
        /// The id of the key
        key: String,
        /// Enable the key again
        #[arg(long)]
        end: bool,
    },
}

pub async fn run(KmsCommand::Key(command): KmsCommand, pools: &GatewayPools, session: &Session) -> Outcome {
    let out = &session.out;
    let sal = pools.open(session, false).await?;
    let identities = match command {
        KmsKeyCommand::Create { .. } | KmsKeyCommand::Rotate { .. } => {
            pools.identities_with_secrets(&sal, false)?
        }
        KmsKeyCommand::Ls { .. } | KmsKeyCommand::Disable { .. } | KmsKeyCommand::Rm { .. } => {
            pools.identities(&sal)
        }
    };
    let (id, key) = match command {
        KmsKeyCommand::Create { account, description, vault_key } => {
            if let Some(name) = vault_key.as_ref().filter(|name| !vault::is_name(name)) {
                let message = "a key of Vault has a name of 1 to 128 letters, digits and `-_.`";
                return Err(Error::invalid_argument(message).with("name", name).into());
            }
            identities.create_kms_key(&account, &description, vault_key.as_deref()).await?
        }
        KmsKeyCommand::Ls { account } => {
            if let Some(account) = &account {
                identities.account(account).await?;
            }
            for (id, key) in identities.kms_keys().await? {
                if account.as_ref().is_none_or(|account| *account == key.account) {
                    out.result(line(&id, &key), || fields(&id, &key))?;
                }
            }
            return Ok(());
        }
        KmsKeyCommand::Rm { key } => {
            identities.remove_kms_key(&key).await?;
            return out.result(format_args!("removed key {key}"), || json!({ "id": key }));
        }
        KmsKeyCommand::Rotate { key } => {
            let rotated = identities.rotate_kms_key(&key).await?;
            (key, rotated)
        }
        KmsKeyCommand::Disable { key, end } => {
            let changed = identities.disable_kms_key(&key, !end).await?;
            (key, changed)
        }
    };
    out.result(line(&id, &key), || fields(&id, &key))
}

fn line(id: &str, key: &KmsKey) -> String {
    let disabled = if key.disabled { "  disabled" } else { "" };
    let kept = match &key.vault {
        Some(name) => format!("vault {name}"),
        None => format!("version {}", key.versions.len()),
    };
    let rotated = key.versions.last().map_or(key.created_ms, |version| version.created_ms);
    let since = time(rotated);
    let text = format!("{id}  {}  {kept} since {since}{disabled}  {}", key.account, key.description);
    text.trim_end().to_owned()
}

fn fields(id: &str, key: &KmsKey) -> Value {
    json!({
        "id": id,
        "account": key.account,
        "description": key.description,
        "disabled": key.disabled,
        "vault": key.vault,
        "versions": key.versions.iter().map(|version| json!({ "created_ms": version.created_ms })).collect::<Vec<_>>(),
    })
}
