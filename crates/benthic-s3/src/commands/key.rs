//! `benthic s3 key`: creates, lists, checks, suspends and removes access keys.

use super::{GatewayPools, time};
use benthic_core::{Action, Error, Result};
use benthic_program::exit::Outcome;
use benthic_program::session::Session;
use benthic_s3::identity::{Caller, Key, ROOT_USER, user_name};
use clap::Subcommand;
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};
use std::io::{Read, stdin};

/// Limit on a secret that `check` reads.
const SECRET_BYTES_MAX: u64 = 256;

pub const EXAMPLES: &str = "Examples:\n  benthic s3 key create lab/ada\n  benthic s3 key ls";

/// The verbs of `benthic s3 key`.
#[derive(Subcommand)]
pub enum KeyCommand {
    /// Create a key and show its secret, which cannot be shown again
    #[command(
        after_help = "A key of the account itself has all rights of the account, and no policy limits it.\n\n\
        Examples:\n  benthic s3 key create lab/ada\n  benthic s3 key create lab"
    )]
    Create {
        /// ACCOUNT/USER, or ACCOUNT for a key of the account itself
        user: String,
    },
    /// List keys, without their secrets
    #[command(after_help = "Examples:\n  benthic s3 key ls\n  benthic s3 key ls lab")]
    Ls {
        /// Only keys of this account
        account: Option<String>,
    },
    /// Show a key, without its secret
    #[command(after_help = "Example:\n  benthic s3 key show BNABCDEFGHIJKLMNOPQR")]
    Show {
        /// The access key
        key: String,
    },
    /// Check a secret: does a request with this key and secret get in? Reads the secret from stdin
    #[command(
        after_help = "Fails with permission_denied if the secret is wrong, or the key or its account is unknown \
        or suspended.\n\n\
        Example:\n  benthic s3 key check BNABCDEFGHIJKLMNOPQR < secret"
    )]
    Check {
        /// The access key
        key: String,
    },
    /// Suspend a key: gateways refuse it
    #[command(after_help = "A running gateway applies this within two seconds.\n\n\
        Examples:\n  benthic s3 key suspend BNABCDEFGHIJKLMNOPQR\n  \
        benthic s3 key suspend BNABCDEFGHIJKLMNOPQR --end")]
    Suspend {
        /// The access key
        key: String,
        /// End the suspension
        #[arg(long)]
        end: bool,
    },
    /// Remove a key
    #[command(after_help = "A running gateway applies this within two seconds.\n\n\
        Example:\n  benthic s3 key rm BNABCDEFGHIJKLMNOPQR")]
    Rm {
        /// The access key
        key: String,
    },
}

pub async fn run(command: KeyCommand, pools: &GatewayPools, session: &Session) -> Outcome {
    let out = &session.out;
    let sal = pools.open(session, false).await?;
    let identities = match command {
        KeyCommand::Create { .. } | KeyCommand::Check { .. } => pools.identities_with_secrets(&sal, false)?,
        _ => pools.identities(&sal),
    };
    match command {
        KeyCommand::Create { user } => {
            let (account, name) = match user.split_once('/') {
                None => (user.as_str(), ROOT_USER),
                Some((_, "")) => {
                    let message =
                        "the name of the user is missing; for a key of the account itself, omit the slash";
                    return Err(Error::invalid_argument(message).with("got", &user).into());
                }
                Some(parts) => parts,
            };
            let created = identities.create_key(account, name).await?;
            let text = format!(
                "access key  {}\nsecret key  {}\nThe secret cannot be shown again.",
                created.access_key, created.secret
            );
            out.result(text, || {
                json!({
                    "account": account, "user": name, "access_key": created.access_key, "secret_key": created.secret,
                })
            })
        }
        KeyCommand::Ls { account } => {
            if let Some(account) = &account {
                identities.account(account).await?;
            }
            for (access_key, key) in identities.keys().await? {
                if account.as_ref().is_none_or(|account| *account == key.account) {
                    out.result(line(&access_key, &key), || fields(&access_key, &key))?;
                }
            }
            Ok(())
        }
        KeyCommand::Show { key } => {
            let found = identities.key(&key).await?;
            out.result(line(&key, &found), || fields(&key, &found))
        }
        KeyCommand::Check { key } => {
            let secret = read_secret()?;
            let denied = || {
                let message = "this is not an access key in use with its secret key";
                Error::permission_denied(message).with("access_key", &key)
            };
            let known = identities.look_up_key(&key, None).await?.map_err(|_| denied())?;
            // Comparing digests takes the same time for every wrong secret.
            let digest_of = |secret: &str| digest(&SHA256, secret.as_bytes());
            if digest_of(&known.secret).as_ref() != digest_of(&secret).as_ref() {
                return Err(denied().into());
            }
            let Caller::User { account, user } = known.caller else { return Err(denied().into()) };
            let is_limited = known.policies.is_limited();
            let rights = if is_limited { ", whose rights policies limit" } else { "" };
            out.result(
                format_args!("key {key} belongs to {}{rights}", user_name(&account, &user)),
                || json!({ "access_key": key, "account": account, "user": user, "limited": is_limited }),
            )
        }
        KeyCommand::Suspend { key, end } => {
            identities.suspend_key(&key, !end).await?;
            let state = if end { "active" } else { "suspended" };
            out.result(
                format_args!("key {key} is {state}"),
                || json!({ "access_key": key, "suspended": !end }),
            )
        }
        KeyCommand::Rm { key } => {
            identities.remove_key(&key).await?;
            out.result(format_args!("removed key {key}"), || json!({ "access_key": key }))
        }
    }
}

fn read_secret() -> Result<String> {
    let mut secret = String::new();
    stdin()
        .take(SECRET_BYTES_MAX)
        .read_to_string(&mut secret)
        .map_err(|error| Error::io(Action::Read, "cannot read the secret from stdin", error))?;
    Ok(secret.trim().to_owned())
}

fn line(access_key: &str, key: &Key) -> String {
    let suspended = if key.suspended { "  suspended" } else { "" };
    format!("{access_key}  {}  {}{suspended}", user_name(&key.account, &key.user), time(key.created_ms))
}

fn fields(access_key: &str, key: &Key) -> Value {
    json!({
        "access_key": access_key,
        "account": key.account,
        "user": key.user,
        "created_ms": key.created_ms,
        "suspended": key.suspended,
    })
}
