//! `benthic s3 user`: creates, lists and removes the users of an account.

use super::user_policy::{self, UserPolicyCommand};
use super::{GatewayPools, account_and_user, time};
use benthic_program::exit::Outcome;
use benthic_program::session::Session;
use benthic_s3::identity::IdentityKind;
use clap::Subcommand;
use serde_json::json;

pub const EXAMPLES: &str = "Examples:\n  benthic s3 user create lab/ada\n  benthic s3 user ls lab";

/// The verbs of `benthic s3 user`.
#[derive(Subcommand)]
pub enum UserCommand {
    /// Create a user with full access to the buckets of its account
    #[command(after_help = "Example:\n  benthic s3 user create lab/ada")]
    Create {
        /// ACCOUNT/USER
        user: String,
    },
    /// List the users of an account
    #[command(after_help = "Example:\n  benthic s3 user ls lab")]
    Ls {
        /// Name of the account
        account: String,
    },
    /// Remove a user that has no keys
    #[command(after_help = "Example:\n  benthic s3 user rm lab/ada")]
    Rm {
        /// ACCOUNT/USER
        user: String,
    },
    /// Limit what a user may do
    #[command(subcommand, after_help = user_policy::HELP)]
    Policy(UserPolicyCommand),
}

pub async fn run(command: UserCommand, pools: &GatewayPools, session: &Session) -> Outcome {
    let out = &session.out;
    let sal = pools.open(session, false).await?;
    let identities = pools.identities(&sal);
    match command {
        UserCommand::Create { user } => {
            let (account, name) = account_and_user(&user)?;
            let created = identities.create_user(account, name).await?;
            out.result(
                format_args!("created user {user}"),
                || json!({ "account": account, "user": name, "created_ms": created.created_ms }),
            )
        }
        UserCommand::Ls { account } => {
            identities.account(&account).await?;
            for (user, found) in identities.users(&account).await? {
                out.result(
                    format_args!("{account}/{user}  {}", time(found.created_ms)),
                    || json!({ "account": account, "user": user, "created_ms": found.created_ms }),
                )?;
            }
            Ok(())
        }
        UserCommand::Rm { user } => {
            let (account, name) = account_and_user(&user)?;
            identities.remove_identity(IdentityKind::User, account, name).await?;
            out.result(format_args!("removed user {user}"), || json!({ "account": account, "user": name }))
        }
        UserCommand::Policy(command) => user_policy::run(command, pools, session).await,
    }
}
