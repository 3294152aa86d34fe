//! `benthic s3 storage-class`: storage classes, which are names for pools.

use super::GatewayPools;
use benthic_program::exit::Outcome;
use benthic_program::session::Session;
use benthic_s3::{STANDARD, StorageClass};
use clap::Subcommand;
use serde_json::{Value, json};

pub const HELP: &str = "A storage class is a name for a pool: clients choose it with the header x-amz-storage-class, and \
lifecycle rules move objects to it. The pool may be erasure-coded. Names of AWS, such as STANDARD_IA and GLACIER_IR, work \
with every client. STANDARD is the pool of --data-pool, or else of --pool.

Examples:
  benthic s3 storage-class set STANDARD_IA --to s3.cold
  benthic s3 storage-class ls";

/// The verbs of `benthic s3 storage-class`.
#[derive(Subcommand)]
pub enum StorageClassCommand {
    /// Offer a storage class, whose data are in a pool
    #[command(
        after_help = "The pool must exist. A class keeps its pool for ever, because it may have data there. All gateways \
        follow at once.\n\nExample:\n  benthic s3 storage-class set STANDARD_IA --to s3.cold"
    )]
    Set {
        /// Name of the class: capital letters, digits, `_` and `-`
        class: String,
        /// Pool of its data
        #[arg(long, value_name = "POOL")]
        to: String,
    },
    /// List storage classes and their pools
    #[command(after_help = "Example:\n  benthic s3 storage-class ls")]
    Ls,
    /// Offer a storage class no longer: new data in it are refused, existing data stay readable
    #[command(
        after_help = "Lifecycle rules that name the class fail to move objects; `benthic s3 lifecycle status` shows \
        this. `set` offers the class again.\n\nExample:\n  benthic s3 storage-class rm STANDARD_IA"
    )]
    Rm {
        /// Name of the class
        class: String,
    },
}

pub async fn run(command: StorageClassCommand, pools: &GatewayPools, session: &Session) -> Outcome {
    let sal = pools.open(session, false).await?;
    let out = &session.out;
    match command {
        StorageClassCommand::Set { class, to } => {
            sal.set_storage_class(&class, &to).await?;
            out.result(format!("{class} is the pool {to}"), || fields(&class, &to, true))
        }
        StorageClassCommand::Ls => {
            let standard = pools.data_pool.as_ref().unwrap_or(&pools.pool);
            out.result(format!("{STANDARD}  {standard}"), || fields(STANDARD, standard, true))?;
            for (name, StorageClass { pool, offered, .. }) in sal.storage_classes().await? {
                let note = if offered { "" } else { "  accepts no new data" };
                out.result(format!("{name}  {pool}{note}"), || fields(&name, &pool, offered))?;
            }
            Ok(())
        }
        StorageClassCommand::Rm { class } => {
            sal.withdraw_storage_class(&class).await?;
            out.result(format!("{class} accepts no new data"), || json!({ "class": class, "offered": false }))
        }
    }
}

fn fields(class: &str, pool: &str, offered: bool) -> Value {
    json!({ "class": class, "pool": pool, "offered": offered })
}
