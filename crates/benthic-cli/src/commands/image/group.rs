//! `benthic image group`: snapshots of several images at one moment.

use super::open::images;
use super::{check_same_pool, image_name, snapshot_name};
use benthic_block::ImageAddress;
use benthic_program::confirm::Deletion;
use benthic_program::exit::Outcome;
use benthic_program::session::Session;
use clap::{Args, Subcommand};
use serde_json::json;

pub const EXAMPLES: &str = "Use a group for a machine with several disks, whose snapshots must fit together.\n\n\
    Examples:\n  benthic image group create vms/db\n  benthic image group add vms/db vms/db-data vms/db-log\n  \
    benthic image group snap vms/db@monday\n  benthic image group rollback vms/db@monday --yes db";

#[derive(Subcommand)]
pub enum GroupCommand {
    /// Create a group without images
    #[command(after_help = "Example:\n  benthic image group create vms/db")]
    Create {
        /// POOL/GROUP
        group: ImageAddress,
    },
    /// Add images of the same pool
    #[command(after_help = "Example:\n  benthic image group add vms/db vms/db-data vms/db-log")]
    Add {
        /// POOL/GROUP
        group: ImageAddress,
        /// POOL/IMAGE
        #[arg(required = true)]
        images: Vec<ImageAddress>,
    },
    /// Take images out of a group
    #[command(after_help = "Example:\n  benthic image group remove vms/db vms/db-log")]
    Remove {
        /// POOL/GROUP
        group: ImageAddress,
        /// POOL/IMAGE
        #[arg(required = true)]
        images: Vec<ImageAddress>,
    },
    /// List the groups of a pool
    #[command(after_help = "Example:\n  benthic image group ls vms")]
    Ls {
        /// The pool
        pool: String,
    },
    /// Show a group's images and snapshots
    #[command(after_help = "Example:\n  benthic image group info vms/db")]
    Info {
        /// POOL/GROUP
        group: ImageAddress,
    },
    /// Take a snapshot of all images of a group at one moment
    #[command(
        after_help = "Writes wait until all images have their snapshot. On Ceph, all requests of served images wait.\n\n\
        Example:\n  benthic image group snap vms/db@monday"
    )]
    Snap {
        /// POOL/GROUP@SNAPSHOT
        snapshot: ImageAddress,
    },
    /// Remove a snapshot of a group
    #[command(after_help = "Example:\n  benthic image group snap-rm vms/db@monday")]
    SnapRm {
        /// POOL/GROUP@SNAPSHOT
        snapshot: ImageAddress,
    },
    /// Give all images the bytes of a snapshot of their group
    Rollback(RollbackArgs),
    /// Remove a group; its images stay
    #[command(after_help = "Example:\n  benthic image group rm vms/db")]
    Rm {
        /// POOL/GROUP
        group: ImageAddress,
    },
}

#[derive(Args)]
#[command(
    after_help = "What was written since the snapshot is lost, unless another snapshot has it. The command asks for the \
    group's name; --yes NAME answers without a terminal. If it is interrupted, repeat it.\n\n\
    Example:\n  benthic image group rollback vms/db@monday --yes db"
)]
pub struct RollbackArgs {
    /// POOL/GROUP@SNAPSHOT
    snapshot: ImageAddress,
    /// Confirm: the group's name again, without the pool
    #[arg(long, value_name = "NAME")]
    yes: Option<String>,
}

pub async fn run(command: GroupCommand, session: &Session) -> Outcome {
    match command {
        GroupCommand::Create { group } => {
            images(session, &group.pool).await?.groups().create(image_name(&group)?).await?;
            done(session, &group, "created group")
        }
        GroupCommand::Add { group, images } => change_members(&group, &images, true, session).await,
        GroupCommand::Remove { group, images } => change_members(&group, &images, false, session).await,
        GroupCommand::Ls { pool } => {
            for name in images(session, &pool).await?.groups().list().await? {
                session.out.result(&name, || json!({ "group": format!("{pool}/{name}") }))?;
            }
            Ok(())
        }
        GroupCommand::Info { group } => info(&group, session).await,
        GroupCommand::Snap { snapshot } => {
            let images = images(session, &snapshot.pool).await?;
            images.groups().create_snapshot(&snapshot.image, snapshot_name(&snapshot)?).await?;
            done(session, &snapshot, "created snapshot")
        }
        GroupCommand::SnapRm { snapshot } => {
            let images = images(session, &snapshot.pool).await?;
            images.groups().remove_snapshot(&snapshot.image, snapshot_name(&snapshot)?).await?;
            done(session, &snapshot, "removed snapshot")
        }
        GroupCommand::Rollback(args) => rollback(&args, session).await,
        GroupCommand::Rm { group } => {
            images(session, &group.pool).await?.groups().remove(image_name(&group)?).await?;
            done(session, &group, "removed group")
        }
    }
}

fn done(session: &Session, group: &ImageAddress, done: &str) -> Outcome {
    session.out.result(format_args!("{done} {group}"), || json!({ "group": group.to_string() }))
}

/// Adds images to a group, or takes them out.
async fn change_members(
    group: &ImageAddress,
    changed: &[ImageAddress],
    adds: bool,
    session: &Session,
) -> Outcome {
    let images = images(session, &group.pool).await?;
    let name = image_name(group)?;
    for image in changed {
        check_same_pool(group, image)?;
        let text = if adds {
            images.groups().add_image(name, image_name(image)?).await?;
            format!("added {image} to group {group}")
        } else {
            images.groups().remove_image(name, image_name(image)?).await?;
            format!("took {image} out of group {group}")
        };
        session.out.result(text, || json!({ "group": group.to_string(), "image": image.to_string() }))?;
    }
    Ok(())
}

async fn info(group: &ImageAddress, session: &Session) -> Outcome {
    let images = images(session, &group.pool).await?;
    let name = image_name(group)?;
    let (members, snapshots) = (images.groups().images(name).await?, images.groups().snapshots(name).await?);
    let mut text = format!("group {group}");
    for member in &members {
        text += &format!("\nimage {}/{member}", group.pool);
    }
    for snapshot in &snapshots {
        text += &format!("\nsnapshot {snapshot}");
    }
    session.out.result(text, || {
        let members: Vec<String> = members.iter().map(|member| format!("{}/{member}", group.pool)).collect();
        json!({ "group": group.to_string(), "images": members, "snapshots": snapshots })
    })
}

async fn rollback(args: &RollbackArgs, session: &Session) -> Outcome {
    let (group, snapshot) = (&args.snapshot, snapshot_name(&args.snapshot)?);
    let images = images(session, &group.pool).await?;
    let members = images.groups().images(&group.image).await?;
    let deletion = Deletion {
        noun: "what was written to the images of group",
        name: &group.image,
        yes: args.yes.as_deref(),
        missing: None,
    };
    let contents = members.into_iter().map(|member| format!("{}/{member}", group.pool)).collect();
    deletion.confirm(&session.out, async || Ok(contents)).await?;
    images.groups().roll_back(&group.image, snapshot).await?;
    session.out.result(
        format_args!("the images of group {}/{} are as in snapshot {snapshot}", group.pool, group.image),
        || json!({ "group": group.to_string() }),
    )
}
