//! `benthic image snap`: snapshots of an image.

use super::open::images;
use super::{image_name, snapshot_name};
use benthic_block::{Change, ImageAddress, OpenMode, SnapshotInfo};
use benthic_program::confirm::Deletion;
use benthic_program::exit::Outcome;
use benthic_program::session::Session;
use benthic_program::units;
use clap::{Args, Subcommand};
use serde_json::{Value, json};

pub const EXAMPLES: &str = "Examples:\n  benthic image snap create vms/root@monday\n  benthic image snap ls vms/root\n  \
    benthic image snap rollback vms/root@monday --yes root";

#[derive(Subcommand)]
pub enum SnapCommand {
    /// Take a snapshot; this copies no data
    #[command(after_help = "Example:\n  benthic image snap create vms/root@monday")]
    Create {
        /// POOL/IMAGE@SNAPSHOT
        snapshot: ImageAddress,
    },
    /// List the snapshots of an image
    #[command(after_help = "Example:\n  benthic image snap ls vms/root")]
    Ls {
        /// POOL/IMAGE
        image: ImageAddress,
    },
    /// Remove a snapshot
    #[command(after_help = "The image keeps its bytes.\n\nExample:\n  benthic image snap rm vms/root@monday")]
    Rm {
        /// POOL/IMAGE@SNAPSHOT
        snapshot: ImageAddress,
    },
    /// Protect a snapshot: it cannot be removed until it is unprotected
    #[command(after_help = "Example:\n  benthic image snap protect vms/template@v1")]
    Protect {
        /// POOL/IMAGE@SNAPSHOT
        snapshot: ImageAddress,
    },
    /// Let a protected snapshot be removed
    #[command(after_help = "Example:\n  benthic image snap unprotect vms/template@v1")]
    Unprotect {
        /// POOL/IMAGE@SNAPSHOT
        snapshot: ImageAddress,
    },
    /// Give an image the bytes and the size of a snapshot
    Rollback(RollbackArgs),
}

#[derive(Args)]
#[command(
    after_help = "What was written since the snapshot is lost, unless another snapshot has it. The command asks for the \
    image's name; --yes NAME answers without a terminal.\n\nExample:\n  benthic image snap rollback vms/root@monday --yes root"
)]
pub struct RollbackArgs {
    /// POOL/IMAGE@SNAPSHOT
    snapshot: ImageAddress,
    /// Confirm: the image's name again, without the pool
    #[arg(long, value_name = "NAME")]
    yes: Option<String>,
}

pub async fn run(command: SnapCommand, session: &Session) -> Outcome {
    match command {
        SnapCommand::Create { snapshot } => {
            let name = snapshot_name(&snapshot)?.to_owned();
            change(session, &snapshot, Change::CreateSnapshot { name }, "created").await
        }
        SnapCommand::Ls { image } => ls(&image, session).await,
        SnapCommand::Rm { snapshot } => {
            let name = snapshot_name(&snapshot)?.to_owned();
            change(session, &snapshot, Change::RemoveSnapshot { name }, "removed").await
        }
        SnapCommand::Protect { snapshot } => protect(session, &snapshot, true, "protected").await,
        SnapCommand::Unprotect { snapshot } => protect(session, &snapshot, false, "unprotected").await,
        SnapCommand::Rollback(args) => rollback(&args, session).await,
    }
}

async fn protect(session: &Session, snapshot: &ImageAddress, protect: bool, done: &str) -> Outcome {
    let name = snapshot_name(snapshot)?.to_owned();
    change(session, snapshot, Change::ProtectSnapshot { name, protect }, done).await
}

async fn change(session: &Session, snapshot: &ImageAddress, change: Change, done: &str) -> Outcome {
    images(session, &snapshot.pool).await?.change(&snapshot.image, change).await?;
    session
        .out
        .result(format_args!("{done} snapshot {snapshot}"), || json!({ "snapshot": snapshot.to_string() }))
}

pub fn describe(snapshot: &SnapshotInfo) -> Value {
    json!({
        "snapshot": snapshot.name,
        "size_bytes": snapshot.size_bytes,
        "created_unix_ms": snapshot.created_unix_ms,
        "is_protected": snapshot.is_protected,
    })
}

async fn ls(address: &ImageAddress, session: &Session) -> Outcome {
    let name = image_name(address)?;
    let image = images(session, &address.pool).await?.open(name, None, OpenMode::ReadOnly).await?;
    for snapshot in image.snapshots().await? {
        let taken = units::utc(snapshot.created_unix_ms.saturating_mul(1_000_000));
        let protected = if snapshot.is_protected { "  protected" } else { "" };
        let text = format!("{}  {taken}  {}{protected}", snapshot.name, units::size(snapshot.size_bytes));
        session.out.result(text, || describe(&snapshot))?;
    }
    Ok(())
}

async fn rollback(args: &RollbackArgs, session: &Session) -> Outcome {
    let (address, snapshot) = (&args.snapshot, snapshot_name(&args.snapshot)?);
    // A wrong snapshot shows before the question.
    let images = images(session, &address.pool).await?;
    images.open(&address.image, Some(snapshot), OpenMode::ReadOnly).await?;
    let deletion = Deletion {
        noun: "what was written to image",
        name: &address.image,
        yes: args.yes.as_deref(),
        missing: None,
    };
    deletion.confirm(&session.out, async || Ok(vec![format!("since snapshot {snapshot}")])).await?;
    let image = images.open(&address.image, None, OpenMode::Write).await?;
    let done = image.roll_back(snapshot).await;
    done.and(image.close().await)?;
    session.out.result(
        format_args!("{}/{} is as in snapshot {snapshot}", address.pool, address.image),
        || json!({ "snapshot": address.to_string() }),
    )
}
