//! `benthic s3 user policy`: the policies that limit what a user may do.

use super::{GatewayPools, account_and_user};
use benthic_core::{Error, Result};
use benthic_program::exit::Outcome;
use benthic_program::session::Session;
use benthic_s3::identity::{Identity, Policies, check_policy_name};
use benthic_s3::policy::{Document, POLICY_BYTES_MAX};
use clap::Subcommand;
use serde_json::json;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

pub const HELP: &str = "A user without policies has all rights of its account. A user with policies may do only what they allow, \
    also after the last one is removed; `reset` gives all rights back. Running gateways apply changes within two seconds.\n\n\
    Examples:\n  benthic s3 user policy put lab/ada read photos-read.json\n  benthic s3 user policy ls lab/ada\n  \
    benthic s3 user policy get lab/ada read\n  benthic s3 user policy rm lab/ada read\n  benthic s3 user policy reset lab/ada";

/// The verbs of `benthic s3 user policy`.
#[derive(Subcommand)]
pub enum UserPolicyCommand {
    /// Give a user a policy, or replace the one with the same name
    #[command(after_help = "The file has a policy of AWS IAM without principals, for example:\n  \
        {\"Version\": \"2012-10-17\", \"Statement\": [{\"Effect\": \"Allow\",\n    \
        \"Action\": [\"s3:GetObject\", \"s3:ListBucket\"],\n    \
        \"Resource\": [\"arn:aws:s3:::photos\", \"arn:aws:s3:::photos/*\"]}]}\n\n\
        Examples:\n  benthic s3 user policy put lab/ada read photos-read.json\n  \
        benthic s3 user policy put lab/ada read - < photos-read.json")]
    Put {
        /// ACCOUNT/USER
        user: String,
        /// Name of the policy
        name: String,
        /// File with the policy, or - for the standard input
        file: PathBuf,
    },
    /// List the policies of a user
    #[command(after_help = "Example:\n  benthic s3 user policy ls lab/ada")]
    Ls {
        /// ACCOUNT/USER
        user: String,
    },
    /// Print a policy
    #[command(after_help = "Example:\n  benthic s3 user policy get lab/ada read")]
    Get {
        /// ACCOUNT/USER
        user: String,
        /// Name of the policy
        name: String,
    },
    /// Remove a policy; the user keeps only the rights that the others give
    #[command(after_help = "Example:\n  benthic s3 user policy rm lab/ada read")]
    Rm {
        /// ACCOUNT/USER
        user: String,
        /// Name of the policy
        name: String,
    },
    /// Remove all policies, and give the user all rights of the account
    #[command(after_help = "Example:\n  benthic s3 user policy reset lab/ada")]
    Reset {
        /// ACCOUNT/USER
        user: String,
    },
}

pub async fn run(command: UserPolicyCommand, pools: &GatewayPools, session: &Session) -> Outcome {
    let out = &session.out;
    let sal = pools.open(session, false).await?;
    let identities = pools.identities(&sal);
    match command {
        UserPolicyCommand::Put { user, name, file } => {
            check_policy_name(&name)?;
            let text = read(&file)?;
            Document::of_new_identity(&text)
                .map_err(|message| invalid(format!("invalid policy: {message}")))?;
            let (account, user_name) = account_and_user(&user)?;
            let put = |policies: Option<Policies>| {
                let mut policies = policies.unwrap_or_default();
                policies.insert(name.clone(), text.clone());
                Ok(Some(policies))
            };
            identities.change_policies(account, user_name, put).await?;
            out.result(
                format_args!("user {user} has the policy {name}"),
                || json!({ "account": account, "user": user_name, "policy": name }),
            )
        }
        UserPolicyCommand::Ls { user } => {
            let (account, user_name) = account_and_user(&user)?;
            let Some(policies) = identities.user(account, user_name).await?.policies else {
                return out.note(format_args!("{user} has no policies, and so all rights of the account"));
            };
            policies.into_keys().try_for_each(|name| {
                out.result(&name, || json!({ "account": account, "user": user_name, "policy": name }))
            })
        }
        UserPolicyCommand::Get { user, name } => {
            let (account, user_name) = account_and_user(&user)?;
            let text = policy(identities.user(account, user_name).await?, &name)?;
            out.result(text.trim_end(), || json!({ "policy": name, "document": text }))
        }
        UserPolicyCommand::Rm { user, name } => {
            let (account, user_name) = account_and_user(&user)?;
            let rm = |policies: Option<Policies>| {
                let mut policies = policies.ok_or_else(|| no_such_policy(&name))?;
                policies.remove(&name).ok_or_else(|| no_such_policy(&name))?;
                Ok(Some(policies))
            };
            identities.change_policies(account, user_name, rm).await?;
            out.result(
                format_args!("removed the policy {name} of {user}"),
                || json!({ "account": account, "user": user_name, "policy": name }),
            )
        }
        UserPolicyCommand::Reset { user } => {
            let (account, user_name) = account_and_user(&user)?;
            identities.change_policies(account, user_name, |_| Ok(None)).await?;
            out.result(
                format_args!("user {user} has all rights of the account {account}"),
                || json!({ "account": account, "user": user_name }),
            )
        }
    }
}

fn policy(user: Identity, name: &str) -> Result<String> {
    user.policies.and_then(|mut policies| policies.remove(name)).ok_or_else(|| no_such_policy(name))
}

fn no_such_policy(name: &str) -> Error {
    let message = "the user has no such policy; `benthic s3 user policy ls` lists them";
    Error::not_found(message).with("policy", name)
}

fn invalid(message: String) -> Error {
    Error::invalid_argument(message)
}

fn read(path: &Path) -> Result<String> {
    let mut text = String::new();
    let limit = POLICY_BYTES_MAX as u64 + 1;
    let read = match path.to_str() {
        Some("-") => std::io::stdin().take(limit).read_to_string(&mut text),
        _ => File::open(path).and_then(|file| file.take(limit).read_to_string(&mut text)),
    };
    read.map_err(|error| {
        Error::invalid_argument("cannot read the policy").with("file", path.display()).with_source(error)
    })?;
    Ok(text)
}
