//! The options of `benthic s3 serve` for KMS keys in Vault.

use benthic_core::{Environment, Error, Result};
use benthic_s3::vault::{Auth, Vault, read_secret};
use clap::Args;
use std::path::PathBuf;
use std::sync::Arc;

/// The Vault or OpenBao that has KMS keys.
#[derive(Args)]
pub struct VaultArgs {
    /// Address of Vault or OpenBao, whose transit engine has KMS keys; needs a token or a role
    #[arg(long, value_name = "URL")]
    vault: Option<String>,
    /// Path at which the transit engine is mounted
    #[arg(long, value_name = "PATH", default_value = "transit", requires = "vault")]
    vault_mount: String,
    /// File with a token for Vault; read for each request, so that another program can renew it
    #[arg(long, value_name = "FILE", requires = "vault", conflicts_with = "vault_role_id")]
    vault_token_file: Option<PathBuf>,
    /// Role with which the gateway logs in (AppRole)
    #[arg(long, value_name = "ID", requires_all = ["vault", "vault_secret_id_file"])]
    vault_role_id: Option<String>,
    /// File with the secret id of the role
    #[arg(long, value_name = "FILE", requires = "vault_role_id")]
    vault_secret_id_file: Option<PathBuf>,
    /// PEM file with the authorities that sign the certificate of Vault, instead of those of this
    /// machine
    #[arg(long, value_name = "FILE", requires = "vault")]
    vault_ca: Option<PathBuf>,
}

impl VaultArgs {
    /// The Vault; `None` without one.
    pub fn open(self) -> Result<Option<Arc<Vault>>> {
        let Some(address) = self.vault else { return Ok(None) };
        let invalid = |message: &'static str| Error::invalid_argument(message);
        let auth = match (self.vault_token_file, self.vault_role_id, self.vault_secret_id_file) {
            (Some(path), ..) => Auth::TokenFile(path),
            (None, Some(role_id), Some(secret_id_file)) => Auth::AppRole { role_id, secret_id_file },
            _ => return Err(invalid("--vault needs --vault-token-file, or --vault-role-id and its secret")),
        };
        // A wrong path is better found now than by the first request.
        let (Auth::TokenFile(path) | Auth::AppRole { secret_id_file: path, .. }) = &auth;
        read_secret(path)?;
        let pem = match &self.vault_ca {
            None => None,
            Some(path) => Some(std::fs::read_to_string(path).map_err(|error| {
                invalid("cannot read the file of --vault-ca").with("path", path.display()).with_source(error)
            })?),
        };
        Vault::new(&address, &self.vault_mount, auth, pem.as_deref(), Environment::default())
            .map(|vault| Some(Arc::new(vault)))
    }
}
