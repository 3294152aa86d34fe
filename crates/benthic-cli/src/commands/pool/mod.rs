//! `benthic pool create|ls|rm`: creates, lists and removes pools.

mod contents;

use benthic_ceph::cluster_client::ClusterClient;
use benthic_ceph::pools::foreign_use;
use benthic_core::{Result, names};
use benthic_program::confirm::Deletion;
use benthic_program::exit::Outcome;
use benthic_program::session::Session;
use clap::{Args, Subcommand};
use serde_json::json;

pub const EXAMPLES: &str =
    "Examples:\n  benthic pool create photos\n  benthic pool ls\n  benthic pool rm photos";

#[derive(Subcommand)]
pub enum PoolCommand {
    /// Create a pool, and the store if there is none
    #[command(after_help = "Example:\n  benthic pool create photos")]
    Create {
        /// Name of the pool: no '/', ':' or control character, no leading '-' or '.'
        pool: String,
    },
    /// List the pools
    #[command(after_help = "Example:\n  benthic pool ls --json")]
    Ls,
    /// Remove a pool with all its objects
    Rm(RmArgs),
}

#[derive(Args)]
#[command(
    after_help = "Nothing brings the objects back. Unless the pool is empty, the command lists what it deletes and asks for \
    the pool's name; --yes NAME answers without a terminal.\n\n\
    Examples:\n  benthic pool rm photos\n  benthic pool rm photos --yes photos"
)]
pub struct RmArgs {
    /// Name of the pool
    pool: String,
    /// Confirm the deletion: the pool's name again
    #[arg(long, value_name = "NAME")]
    yes: Option<String>,
    /// Also remove a pool that is not Benthic's: of another application, of Ceph's manager, or with
    /// a leading '.'
    #[arg(long)]
    not_ours: bool,
}

pub async fn run(command: PoolCommand, session: &Session) -> Outcome {
    match command {
        PoolCommand::Create { pool } => {
            // Check the name before opening the store, so that an invalid name does not create a
            // store.
            names::check_pool_name(&pool)?;
            session.store_or_create().await?.create_pool(&pool).await?;
            session.out.result(format_args!("created pool {pool}"), || json!({ "pool": pool }))
        }
        PoolCommand::Ls => {
            for pool in session.store().await?.list_pools().await? {
                session.out.result(&pool, || json!({ "pool": pool }))?;
            }
            Ok(())
        }
        PoolCommand::Rm(args) => rm(args, session).await,
    }
}

/// The reason why a pool is not Benthic's; `None` if nothing indicates another user.
pub async fn find_foreign_use(session: &Session, pool: &str) -> Result<Option<String>> {
    if let Some(cluster) = session.rados().await? { foreign_use(&*cluster, pool).await } else { Ok(None) }
}

async fn rm(args: RmArgs, session: &Session) -> Outcome {
    let name = &args.pool;
    let pool = session.pool_for_removal(name).await?;
    let cluster = session.rados().await?;
    let foreign_use = find_foreign_use(session, name).await?;
    let missing = (foreign_use.is_some() && !args.not_ours).then_some("--not-ours");
    let deletion = Deletion { noun: "pool", name, yes: args.yes.as_deref(), missing };
    let contents = async || {
        let cluster = cluster.as_deref().map(|cluster| cluster as &dyn ClusterClient);
        let mut contents = contents::describe(pool, cluster).await?;
        if let Some(foreign_use) = foreign_use {
            if contents.is_empty() {
                contents.push("no objects".to_owned());
            }
            contents.push(format!("not Benthic's ({foreign_use})"));
        }
        Ok(contents)
    };
    deletion.confirm(&session.out, contents).await?;
    session.store().await?.remove_pool(name).await?;
    session.out.result(format_args!("removed pool {name}"), || json!({ "pool": name }))
}
