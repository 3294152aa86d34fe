//! `benthic s3 account`: creates, lists, suspends and removes accounts.

use super::{GatewayPools, time};
use benthic_program::exit::Outcome;
use benthic_program::session::Session;
use benthic_s3::identity::Account;
use clap::Subcommand;
use serde_json::{Value, json};

pub const EXAMPLES: &str = "Examples:\n  benthic s3 account create lab\n  benthic s3 account ls";

/// The verbs of `benthic s3 account`.
#[derive(Subcommand)]
pub enum AccountCommand {
    /// Create an account
    #[command(after_help = "Example:\n  benthic s3 account create lab")]
    Create {
        /// Name: letters, digits and -_.@+
        account: String,
    },
    /// List the accounts
    #[command(after_help = "Example:\n  benthic s3 account ls --json")]
    Ls,
    /// Show an account and its users
    #[command(after_help = "Example:\n  benthic s3 account show lab")]
    Show {
        /// Name of the account
        account: String,
    },
    /// Suspend an account: gateways refuse all its keys
    #[command(after_help = "A running gateway applies this within two seconds.\n\n\
        Examples:\n  benthic s3 account suspend lab\n  benthic s3 account suspend lab --end")]
    Suspend {
        /// Name of the account
        account: String,
        /// End the suspension
        #[arg(long)]
        end: bool,
    },
    /// Remove an account that has nothing any more
    #[command(
        after_help = "The account must have no users, groups, roles, policies, keys, buckets, KMS keys, targets of \
        events and identity providers. Repeat a removal that was interrupted: until then, nothing can be created in \
        the account.\n\n\
        Example:\n  benthic s3 account rm lab"
    )]
    Rm {
        /// Name of the account
        account: String,
    },
}

pub async fn run(command: AccountCommand, pools: &GatewayPools, session: &Session) -> Outcome {
    let out = &session.out;
    let creates = matches!(command, AccountCommand::Create { .. });
    let sal = pools.open(session, creates).await?;
    let identities = pools.identities(&sal);
    match command {
        AccountCommand::Create { account } => {
            let created = identities.create_account(&account).await?;
            out.result(format_args!("created account {account}"), || fields(&account, &created))
        }
        AccountCommand::Ls => {
            for (name, account) in identities.accounts().await? {
                out.result(line(&name, &account), || fields(&name, &account))?;
            }
            Ok(())
        }
        AccountCommand::Show { account } => {
            let found = identities.account(&account).await?;
            out.result(line(&account, &found), || fields(&account, &found))?;
            for (user, _) in identities.users(&account).await? {
                out.note(format_args!("  {account}/{user}"))?;
            }
            Ok(())
        }
        AccountCommand::Suspend { account, end } => {
            identities.suspend_account(&account, !end).await?;
            let state = if end { "active" } else { "suspended" };
            out.result(
                format_args!("account {account} is {state}"),
                || json!({ "account": account, "suspended": !end }),
            )
        }
        AccountCommand::Rm { account } => {
            identities.remove_account(&account).await?;
            out.result(format_args!("removed account {account}"), || json!({ "account": account }))
        }
    }
}

fn line(name: &str, account: &Account) -> String {
    let suspended = if account.suspended { "  suspended" } else { "" };
    let removal = if account.removal.is_some() { "  removal has begun" } else { "" };
    format!("{name}  {}{suspended}{removal}", time(account.created_ms))
}

fn fields(name: &str, account: &Account) -> Value {
    json!({
        "account": name,
        "created_ms": account.created_ms,
        "suspended": account.suspended,
        "removal_has_begun": account.removal.is_some(),
    })
}
