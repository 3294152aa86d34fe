//! `benthic image trash`: images that are set aside before they are removed.

use super::open::images;
use super::{image_name, new_name};
use benthic_block::{ImageAddress, Images, TrashedImage};
use benthic_core::{Environment, Error, Result};
use benthic_program::confirm::Deletion;
use benthic_program::exit::Outcome;
use benthic_program::session::Session;
use benthic_program::units;
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use std::time::Duration;

pub const EXAMPLES: &str = "An image in the trash keeps its bytes and snapshots, but no program can open it, and its name is free.\n\n\
    Examples:\n  benthic image trash mv vms/root --keep 30d\n  benthic image trash ls vms\n  \
    benthic image trash restore vms/root\n  benthic image trash purge vms --yes vms";

#[derive(Subcommand)]
pub enum TrashCommand {
    /// Move an image to the trash
    Mv(MvArgs),
    /// List the images in the trash of a pool
    #[command(after_help = "Example:\n  benthic image trash ls vms")]
    Ls {
        /// The pool
        pool: String,
    },
    /// Take an image out of the trash
    Restore(RestoreArgs),
    /// Remove the images whose time in the trash is over
    Purge(PurgeArgs),
}

#[derive(Args)]
#[command(after_help = "Example:\n  benthic image trash mv vms/root --keep 30d")]
pub struct MvArgs {
    /// POOL/IMAGE
    image: ImageAddress,
    /// Time for which a purge leaves the image there, such as 12h or 30d
    #[arg(long, value_name = "TIME", value_parser = units::parse_age, default_value = "0s")]
    keep: Duration,
}

#[derive(Args)]
#[command(after_help = "Examples:\n  benthic image trash restore vms/root\n  \
    benthic image trash restore vms/5f1b9c5d2a7e4c03 --name old-root")]
pub struct RestoreArgs {
    /// POOL/IMAGE with the name that the image had, or POOL/ID as `trash ls` shows it
    image: ImageAddress,
    /// A new name, without the pool [default: the name that it had]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
}

#[derive(Args)]
#[command(
    after_help = "Nothing brings the bytes back, so the command asks for the pool's name; --yes POOL answers without a terminal. \
    Images with snapshots stay: restore them and remove their snapshots first.\n\n\
    Examples:\n  benthic image trash purge vms --yes vms\n  benthic image trash purge vms --all --yes vms"
)]
pub struct PurgeArgs {
    /// The pool
    pool: String,
    /// Also remove images whose time is not over
    #[arg(long)]
    all: bool,
    /// Confirm the deletion: the pool's name again
    #[arg(long, value_name = "POOL")]
    yes: Option<String>,
}

pub async fn run(command: TrashCommand, session: &Session) -> Outcome {
    match command {
        TrashCommand::Mv(args) => mv(&args, session).await,
        TrashCommand::Ls { pool } => ls(&pool, session).await,
        TrashCommand::Restore(args) => restore(args, session).await,
        TrashCommand::Purge(args) => purge(&args, session).await,
    }
}

async fn mv(args: &MvArgs, session: &Session) -> Outcome {
    let images = images(session, &args.image.pool).await?;
    images.move_to_trash(image_name(&args.image)?, args.keep).await?;
    session.out.result(
        format_args!("moved {} to the trash", args.image),
        || json!({ "image": args.image.to_string(), "keep_s": args.keep.as_secs() }),
    )
}

fn describe(pool: &str, image: &TrashedImage) -> Value {
    json!({
        "image": format!("{pool}/{}", image.name),
        "image_id": image.id,
        "trashed_unix_ms": image.trashed_unix_ms,
        "keep_until_unix_ms": image.keep_until_unix_ms,
    })
}

async fn ls(pool: &str, session: &Session) -> Outcome {
    for image in images(session, pool).await?.trash().await? {
        let utc = |unix_ms: u64| units::utc(unix_ms.saturating_mul(1_000_000));
        let mut text = format!("{}  {}  moved {}", image.id, image.name, utc(image.trashed_unix_ms));
        if image.keep_until_unix_ms > image.trashed_unix_ms {
            text += &format!("  kept until {}", utc(image.keep_until_unix_ms));
        }
        session.out.result(text, || describe(pool, &image))?;
    }
    Ok(())
}

async fn restore(args: RestoreArgs, session: &Session) -> Outcome {
    let images = images(session, &args.image.pool).await?;
    let found = find(&*images, &args.image).await?;
    let target = ImageAddress { image: args.name.unwrap_or(found.name), ..args.image };
    images.restore(&found.id, new_name(&target)?).await?;
    session.out.result(
        format_args!("restored {target}"),
        || json!({ "image": target.to_string(), "image_id": found.id }),
    )
}

/// The image in the trash with this name or id.
async fn find(images: &dyn Images, address: &ImageAddress) -> Result<TrashedImage> {
    let wanted = image_name(address)?;
    let mut found: Vec<TrashedImage> = images.trash().await?;
    if let Some(at) = found.iter().position(|image| image.id == wanted) {
        return Ok(found.swap_remove(at));
    }
    found.retain(|image| image.name == wanted);
    if found.len() > 1 {
        let ids: Vec<&str> = found.iter().map(|image| image.id.as_str()).collect();
        let message = "several images in the trash had this name; name one by its id";
        return Err(Error::invalid_argument(message).with("image", address).with("ids", ids.join(", ")));
    }
    found.pop().ok_or_else(|| {
        let message = "the trash has no such image; `benthic image trash ls` lists them";
        Error::not_found(message).with("image", address)
    })
}

async fn purge(args: &PurgeArgs, session: &Session) -> Outcome {
    let images = images(session, &args.pool).await?;
    let now_unix_ms = Environment::default().unix_ms();
    let mut doomed = images.trash().await?;
    doomed.retain(|image| args.all || image.keep_until_unix_ms <= now_unix_ms);
    if !doomed.is_empty() {
        let deletion = Deletion {
            noun: "images in the trash of pool",
            name: &args.pool,
            yes: args.yes.as_deref(),
            missing: None,
        };
        let names = doomed.iter().map(|image| format!("{}  {}", image.id, image.name)).collect();
        deletion.confirm(&session.out, async || Ok(names)).await?;
    }
    let mut failed = Ok(());
    for image in doomed {
        match images.purge(&image.id).await {
            Ok(()) => session.out.result(format_args!("removed {}  {}", image.id, image.name), || {
                describe(&args.pool, &image)
            })?,
            Err(error) => {
                let error = error.with("image", format_args!("{}/{}", args.pool, image.name));
                failed = failed.and(Err(error.into()));
            }
        }
    }
    failed
}
