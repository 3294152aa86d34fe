//! `benthic pool create|ls|rm`: creates, lists and removes pools.

use benthic_core::names;
use benthic_program::exit::Outcome;
use benthic_program::session::Session;
use clap::Subcommand;
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
    #[command(after_help = "Example:\n  benthic pool rm photos")]
    Rm {
        /// Name of the pool
        pool: String,
    },
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
        PoolCommand::Rm { pool } => {
            names::check_pool_name(&pool)?;
            // Open the pool first: its error suggests a similar name.
            session.pool(&pool).await?;
            session.store().await?.remove_pool(&pool).await?;
            session.out.result(format_args!("removed pool {pool}"), || json!({ "pool": pool }))
        }
    }
}
