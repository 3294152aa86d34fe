//! `benthic image`: block images, which are virtual disks.

mod attach;
mod bench;
mod check;
mod diff;
mod group;
mod limit;
mod open;
mod page;
mod serve;
mod snap;
mod transfer;
mod trash;
mod watch;

use benthic_block::{Change, CreateOptions, ExtentKind, Geometry, Image, ImageAddress, OpenMode};
use benthic_core::{Error, ErrorKind, Result};
use benthic_program::confirm::Deletion;
use benthic_program::exit::Outcome;
use benthic_program::session::Session;
use benthic_program::units;
use clap::{Args, Subcommand};
use open::images;
use serde_json::{Value, json};
use transfer::IMPORT_SUFFIX;

const KIB: u64 = 1024;

pub const EXAMPLES: &str = "An image is a virtual disk in a pool. Programs such as QEMU reach it through `benthic image serve`.\n\n\
    Examples:\n  benthic image create vms/root --size 10GiB\n  benthic image import debian.raw vms/template\n  \
    benthic image serve --listen unix:/tmp/nbd.sock vms/root\n  benthic image snap create vms/root@monday";

#[derive(Subcommand)]
pub enum ImageCommand {
    /// Create an image whose bytes are all zero
    Create(CreateArgs),
    /// List the images of a pool
    #[command(after_help = "Example:\n  benthic image ls vms --json")]
    Ls {
        /// The pool
        pool: String,
    },
    /// Describe an image: size, geometry, parent, limits, snapshots, and who writes to it
    #[command(after_help = "Example:\n  benthic image info vms/root")]
    Info {
        /// POOL/IMAGE or POOL/IMAGE@SNAPSHOT
        image: ImageAddress,
    },
    /// Show how much space of an image is in use
    #[command(
        after_help = "The result counts whole objects. An object that a snapshot or a parent shares counts too.\n\n\
        Example:\n  benthic image du vms/root"
    )]
    Du {
        /// POOL/IMAGE or POOL/IMAGE@SNAPSHOT
        image: ImageAddress,
    },
    /// Change the size of an image
    Resize(ResizeArgs),
    /// Rename an image within its pool
    #[command(after_help = "Example:\n  benthic image rename vms/root vms/old-root")]
    Rename {
        /// POOL/IMAGE
        from: ImageAddress,
        /// POOL/IMAGE with the new name
        to: ImageAddress,
    },
    /// Remove an image
    Rm(RmArgs),
    /// Set images aside before they are removed
    #[command(subcommand, after_help = trash::EXAMPLES)]
    Trash(trash::TrashCommand),
    /// Create, list, protect, remove and return to snapshots
    #[command(subcommand, after_help = snap::EXAMPLES)]
    Snap(snap::SnapCommand),
    /// Create an image that shows a snapshot and copies only what is written
    #[command(
        after_help = "The snapshot cannot be removed while it has clones.\n\nExample:\n  benthic image clone vms/template@v1 vms/root"
    )]
    Clone {
        /// POOL/IMAGE@SNAPSHOT
        snapshot: ImageAddress,
        /// POOL/IMAGE of the new image; on a Ceph cluster, also in another pool
        image: ImageAddress,
    },
    /// Copy what a clone still shows of its parent, so that it no longer needs it
    #[command(after_help = "The clone must have no snapshots.\n\nExample:\n  benthic image flatten vms/root")]
    Flatten {
        /// POOL/IMAGE
        image: ImageAddress,
    },
    /// Take snapshots of several images at one moment
    #[command(subcommand, after_help = group::EXAMPLES)]
    Group(group::GroupCommand),
    /// Copy a file or a disk into a new image
    Import(transfer::ImportArgs),
    /// Copy an image or a snapshot into a file
    Export(transfer::ExportArgs),
    /// Write the changes between two snapshots to a file
    ExportDiff(diff::ExportDiffArgs),
    /// Apply changes between two snapshots to another image
    ImportDiff(diff::ImportDiffArgs),
    /// Join two files of changes, of which the second continues the first
    MergeDiff(diff::MergeDiffArgs),
    /// Check an image for damage and for leftovers of interrupted operations
    Check(check::CheckArgs),
    /// List the programs that have an image open for writing
    Watch(watch::WatchArgs),
    /// Show or change the limits of an image: requests and bytes per second
    Limit(limit::LimitArgs),
    /// Serve images with the NBD protocol
    Serve(serve::ServeArgs),
    /// Attach an image as a block device of this machine
    Attach(attach::AttachArgs),
    /// Measure the reads and writes of an image
    Bench(bench::BenchArgs),
}

#[derive(Args)]
#[command(after_help = "Examples:\n  benthic image create vms/root --size 10GiB\n  \
    benthic image create vms/log --size 1GiB --object-size 4MiB --stripe-unit 64KiB --stripe-count 16")]
pub struct CreateArgs {
    /// POOL/IMAGE
    image: ImageAddress,
    /// Size of the image, such as 10GiB
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size)]
    size: u64,
    #[command(flatten)]
    geometry: GeometryArgs,
    /// Another pool of the cluster for the data, such as an erasure-coded one
    #[arg(long, value_name = "POOL")]
    data_pool: Option<String>,
}

#[derive(Args)]
pub struct GeometryArgs {
    /// Size of the image's objects: a power of two from 4KiB to 32MiB
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size, default_value = "4MiB")]
    object_size: u64,
    /// Consecutive bytes that one object receives [default: the object size]
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size)]
    stripe_unit: Option<u64>,
    /// Objects that receive units in turn
    #[arg(long, value_name = "N", default_value_t = 1)]
    stripe_count: u64,
}

impl GeometryArgs {
    fn geometry(&self) -> Geometry {
        Geometry {
            object_bytes: self.object_size,
            stripe_unit_bytes: self.stripe_unit.unwrap_or(self.object_size),
            stripe_count: self.stripe_count,
        }
    }
}

#[derive(Args)]
#[command(
    after_help = "Examples:\n  benthic image resize vms/root --size 20GiB\n  benthic image resize vms/root --size 5GiB --shrink"
)]
pub struct ResizeArgs {
    /// POOL/IMAGE
    image: ImageAddress,
    /// The new size
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size)]
    size: u64,
    /// Allow a smaller size, which loses the bytes behind the new end
    #[arg(long)]
    shrink: bool,
}

#[derive(Args)]
#[command(
    after_help = "Nothing brings the bytes back. Unless the image is empty, the command asks for its name; --yes NAME \
    answers without a terminal.\n\nExample:\n  benthic image rm vms/root --yes root"
)]
pub struct RmArgs {
    /// POOL/IMAGE
    image: ImageAddress,
    /// Confirm the deletion: the image's name again, without the pool
    #[arg(long, value_name = "NAME")]
    yes: Option<String>,
}

pub async fn run(command: ImageCommand, session: &Session) -> Outcome {
    match command {
        ImageCommand::Create(args) => create(args, session).await,
        ImageCommand::Ls { pool } => ls(&pool, session).await,
        ImageCommand::Info { image } => info(&image, session).await,
        ImageCommand::Du { image } => du(&image, session).await,
        ImageCommand::Resize(args) => resize(args, session).await,
        ImageCommand::Rename { from, to } => rename(&from, &to, session).await,
        ImageCommand::Rm(args) => rm(&args, session).await,
        ImageCommand::Trash(command) => trash::run(command, session).await,
        ImageCommand::Snap(command) => snap::run(command, session).await,
        ImageCommand::Clone { snapshot, image } => clone(&snapshot, &image, session).await,
        ImageCommand::Flatten { image } => {
            images(session, &image.pool).await?.change(image_name(&image)?, Change::Flatten {}).await?;
            session.out.result(format_args!("flattened {image}"), || json!({ "image": image.to_string() }))
        }
        ImageCommand::Group(command) => group::run(command, session).await,
        ImageCommand::Import(args) => transfer::import(args, session).await,
        ImageCommand::Export(args) => transfer::export(args, session).await,
        ImageCommand::ExportDiff(args) => diff::export(args, session).await,
        ImageCommand::ImportDiff(args) => diff::import(args, session).await,
        ImageCommand::MergeDiff(args) => diff::merge_diff(args, session).await,
        ImageCommand::Check(args) => check::run(args, session).await,
        ImageCommand::Watch(args) => watch::run(args, session).await,
        ImageCommand::Limit(args) => limit::run(args, session).await,
        ImageCommand::Serve(args) => serve::run(args, session).await,
        ImageCommand::Attach(args) => attach::run(args, session).await,
        ImageCommand::Bench(args) => bench::run(args, session).await,
    }
}

/// The name of an image where a snapshot makes no sense.
fn image_name(address: &ImageAddress) -> Result<&str> {
    match &address.snapshot {
        None => Ok(&address.image),
        Some(_) => Err(Error::invalid_argument("name an image, not a snapshot").with("address", address)),
    }
}

/// The name of a new image. A suffix belongs to imports.
fn new_name(address: &ImageAddress) -> Result<&str> {
    let name = image_name(address)?;
    if !name.ends_with(IMPORT_SUFFIX) {
        return Ok(name);
    }
    let message =
        "names that end with .importing belong to images that are being imported; choose another name";
    Err(Error::invalid_argument(message).with("image", address))
}

/// The image and the name of a snapshot.
fn snapshot_name(address: &ImageAddress) -> Result<&str> {
    address.snapshot.as_deref().ok_or_else(|| {
        Error::invalid_argument("name a snapshot: POOL/IMAGE@SNAPSHOT").with("address", address)
    })
}

async fn create(args: CreateArgs, session: &Session) -> Outcome {
    let name = new_name(&args.image)?;
    let options = CreateOptions {
        size_bytes: args.size,
        geometry: args.geometry.geometry(),
        data_pool: args.data_pool,
    };
    images(session, &args.image.pool).await?.create(name, options).await?;
    let size_bytes = args.size;
    session.out.result(
        format_args!("created image {}, {}", args.image, units::size(size_bytes)),
        || json!({ "image": args.image.to_string(), "size_bytes": size_bytes }),
    )
}

async fn ls(pool: &str, session: &Session) -> Outcome {
    let images = images(session, pool).await?;
    for name in images.list().await? {
        if !session.out.is_json() {
            session.out.result(&name, || Value::Null)?;
            continue;
        }
        match images.open(&name, None, OpenMode::ReadOnly).await {
            // A removal was interrupted.
            Err(error) if error.kind() == ErrorKind::Conflict => {
                session.out.json_line(&json!({ "image": format!("{pool}/{name}"), "is_removing": true }))?;
            }
            image => session.out.json_line(&describe(&*image?))?,
        }
    }
    let namespaces = images.namespaces().await?;
    if !namespaces.is_empty() {
        session.out.warning(format_args!(
            "the images in the pool's RADOS namespaces are not listed; `rbd ls {pool}/NAMESPACE` lists them \
             namespaces={}",
            units::no_control(&namespaces.join(","))
        ));
    }
    Ok(())
}

fn describe(image: &dyn Image) -> Value {
    let info = image.info();
    json!({
        "image": info.address,
        "size_bytes": info.size_bytes,
        "object_bytes": info.geometry.object_bytes,
        "stripe_unit_bytes": info.geometry.stripe_unit_bytes,
        "stripe_count": info.geometry.stripe_count,
        "parent": info.parent,
        "features": info.features,
    })
}

async fn info(address: &ImageAddress, session: &Session) -> Outcome {
    let images = images(session, &address.pool).await?;
    let image = images.open(&address.image, address.snapshot.as_deref(), OpenMode::ReadOnly).await?;
    let (info, snapshots) = (image.info(), image.snapshots().await?);
    let writers = images.writers(&address.image).await?;
    let limits = image.limits().await?;
    let encryption = encryption(&*image).await?;
    let mut text = format!("image {}\nsize {}\n", info.address, units::size(info.size_bytes));
    text += &format!("objects of {}", units::size(info.geometry.object_bytes));
    if info.geometry.stripe_count > 1 {
        let unit = units::size(info.geometry.stripe_unit_bytes);
        text += &format!(", units of {unit} over {} objects", info.geometry.stripe_count);
    }
    if !info.features.is_empty() {
        text += &format!("\nfeatures {}", info.features.join(", "));
    }
    if let Some(format) = encryption {
        text += &format!(
            "\nencrypted in the format {format}: clients decrypt it, Benthic sees only the encrypted bytes"
        );
    }
    if let Some(parent) = &info.parent {
        text += &format!("\nclone of {parent}");
    }
    for writer in &writers {
        text += &format!("\nopen for writing by {writer}");
    }
    if let Some(limits) = limit::text(&limits) {
        text += &format!("\n{limits}");
    }
    for snapshot in &snapshots {
        let taken = units::utc(snapshot.created_unix_ms.saturating_mul(1_000_000));
        let protected = if snapshot.is_protected { ", protected" } else { "" };
        let size = units::size(snapshot.size_bytes);
        text += &format!("\nsnapshot {} of {taken}, {size}{protected}", snapshot.name);
    }
    session.out.result(text, || {
        let mut value = describe(&*image);
        value["writer"] = json!(writers.first());
        value["limits"] = limit::describe(&limits);
        value["encryption"] = json!(encryption);
        value["snapshots"] = snapshots.iter().map(snap::describe).collect();
        value
    })
}

/// The format of an encrypted image, by the first bytes: that of a disk (cryptsetup, `rbd
/// encryption format`), or of RBD's clones of one.
async fn encryption(image: &dyn Image) -> Result<Option<&'static str>> {
    let start = image.read(0, image.info().size_bytes.min(6)).await?;
    Ok(match &start[..] {
        b"LUKS\xba\xbe" => Some("LUKS"),
        b"RBDL\xba\xbe" => Some("LUKS of RBD"),
        _ => None,
    })
}

async fn du(address: &ImageAddress, session: &Session) -> Outcome {
    let images = images(session, &address.pool).await?;
    let image = images.open(&address.image, address.snapshot.as_deref(), OpenMode::ReadOnly).await?;
    let used_bytes = used_bytes(&*image).await?;
    let size_bytes = image.info().size_bytes;
    let text = format!("{} of {} in use", units::size(used_bytes), units::size(size_bytes));
    session.out.result(
        text,
        || json!({ "image": address.to_string(), "used_bytes": used_bytes, "size_bytes": size_bytes }),
    )
}

async fn used_bytes(image: &dyn Image) -> Result<u64> {
    let extents = image.extents(0, image.info().size_bytes, None).await?;
    Ok(extents.iter().filter(|extent| extent.kind == ExtentKind::Data).map(|extent| extent.len_bytes).sum())
}

async fn resize(args: ResizeArgs, session: &Session) -> Outcome {
    let name = image_name(&args.image)?;
    let images = images(session, &args.image.pool).await?;
    let old_bytes = images.open(name, None, OpenMode::ReadOnly).await?.info().size_bytes;
    if args.size < old_bytes && !args.shrink {
        let message = "the new size is smaller, so the bytes behind it would be lost; --shrink allows that";
        return Err(Error::invalid_argument(message)
            .with("size_bytes", args.size)
            .with("old_size_bytes", old_bytes)
            .into());
    }
    images.change(name, Change::Resize { size_bytes: args.size }).await?;
    session.out.result(
        format_args!("resized {} to {}", args.image, units::size(args.size)),
        || json!({ "image": args.image.to_string(), "size_bytes": args.size, "old_size_bytes": old_bytes }),
    )
}

async fn rename(from: &ImageAddress, to: &ImageAddress, session: &Session) -> Outcome {
    check_same_pool(from, to)?;
    images(session, &from.pool).await?.rename(image_name(from)?, new_name(to)?).await?;
    session.out.result(
        format_args!("renamed {from} to {to}"),
        || json!({ "from": from.to_string(), "image": to.to_string() }),
    )
}

fn check_same_pool(from: &ImageAddress, to: &ImageAddress) -> Result<()> {
    if from.pool == to.pool {
        return Ok(());
    }
    let message = "both images must be in the same pool; export and import copy an image to another pool";
    Err(Error::invalid_argument(message).with("from", from).with("to", to))
}

async fn rm(args: &RmArgs, session: &Session) -> Outcome {
    let name = image_name(&args.image)?;
    let images = images(session, &args.image.pool).await?;
    let deletion = Deletion { noun: "image", name, yes: args.yes.as_deref(), missing: None };
    let contents = async || {
        let image = match images.open(name, None, OpenMode::ReadOnly).await {
            // An image that an interrupted removal has left needs no second confirmation.
            Err(error) if matches!(error.kind(), ErrorKind::Conflict | ErrorKind::NotFound) => {
                return Ok(Vec::new());
            }
            image => image?,
        };
        let used_bytes = used_bytes(&*image).await?;
        let size_bytes = image.info().size_bytes;
        let line = format!("{} of {} in use", units::size(used_bytes), units::size(size_bytes));
        Ok(if used_bytes == 0 { Vec::new() } else { vec![line] })
    };
    deletion.confirm(&session.out, contents).await?;
    images.remove(name).await?;
    session
        .out
        .result(format_args!("removed image {}", args.image), || json!({ "image": args.image.to_string() }))
}

async fn clone(snapshot: &ImageAddress, image: &ImageAddress, session: &Session) -> Outcome {
    let images = images(session, &snapshot.pool).await?;
    let (of, clone) = (snapshot_name(snapshot)?, new_name(image)?);
    images.clone_to_pool(&snapshot.image, of, &image.pool, clone).await?;
    session.out.result(
        format_args!("created image {image}, a clone of {snapshot}"),
        || json!({ "image": image.to_string(), "parent": snapshot.to_string() }),
    )
}
