//! `benthic image export-diff`, `import-diff` and `merge-diff`: the changes between two snapshots,
//! in the format of `rbd export-diff`.

use super::open::images;
use super::transfer::{CHUNK_BYTES, Source};
use super::{image_name, snapshot_name};
use benthic_block::diff::{Change, DiffHeader, DiffReader, END, encode_change, encode_header, merge};
use benthic_block::{ExtentKind, Image, ImageAddress, OpenMode, Zeroes};
use benthic_core::{Durability, Error, Result};
use benthic_program::exit::Outcome;
use benthic_program::local::NewFile;
use benthic_program::progress::Progress;
use benthic_program::session::Session;
use benthic_program::store::blocking;
use benthic_program::{interrupt, units};
use clap::Args;
use serde_json::json;
use std::io::BufReader;
use std::path::{Path, PathBuf};

#[derive(Args)]
#[command(
    after_help = "Without --from, the changes are all bytes of the snapshot. `rbd import-diff` reads the same format.\n\n\
    Examples:\n  benthic image export-diff --from monday vms/root@tuesday tuesday.diff\n  \
    benthic image export-diff --from monday vms/root@tuesday - | ssh backup benthic image import-diff - vms/root"
)]
pub struct ExportDiffArgs {
    /// The snapshot at which the changes begin
    #[arg(long, value_name = "SNAPSHOT")]
    from: Option<String>,
    /// POOL/IMAGE@SNAPSHOT at which they end
    snapshot: ImageAddress,
    /// The file; - for stdout
    file: PathBuf,
}

#[derive(Args)]
#[command(
    after_help = "The image must have the snapshot at which the changes begin, and must not have changed since; for the changes of a \
    whole image it must be empty. Afterwards it has the snapshot at which they end. If the import fails, the image is as in the first snapshot again.\n\n\
    Example:\n  benthic image import-diff tuesday.diff vms/root"
)]
pub struct ImportDiffArgs {
    /// The file; - for stdin
    file: PathBuf,
    /// POOL/IMAGE
    image: ImageAddress,
}

#[derive(Args)]
#[command(
    after_help = "The second file must begin at the snapshot at which the first one ends. The new file leads from the start of the \
    first to the end of the second. The order of the changes in the files must be that of their offsets, which holds for all \
    files of `benthic image export-diff`.\n\n\
    Example:\n  benthic image merge-diff monday.diff tuesday.diff both.diff"
)]
pub struct MergeDiffArgs {
    /// The earlier changes; - for stdin
    first: PathBuf,
    /// The later changes; - for stdin
    second: PathBuf,
    /// The new file; - for stdout
    file: PathBuf,
}

/// Where an export goes.
enum Target<'a> {
    File(Option<NewFile>),
    Stdout(&'a Session),
}

impl Target<'_> {
    async fn write(&mut self, data: impl AsRef<[u8]> + Send + 'static) -> Outcome {
        match self {
            Target::Stdout(session) => session.out.write_bytes(data.as_ref()),
            Target::File(file) => {
                let taken = file.take();
                let written = blocking(move || {
                    let Some(mut file) = taken else { return Ok(None) };
                    file.write(data.as_ref())?;
                    Ok(Some(file))
                });
                *file = written.await?;
                Ok(())
            }
        }
    }
}

pub async fn export(args: ExportDiffArgs, session: &Session) -> Outcome {
    let to = snapshot_name(&args.snapshot)?;
    let address = &args.snapshot;
    let image =
        images(session, &address.pool).await?.open(&address.image, Some(to), OpenMode::ReadOnly).await?;
    let size_bytes = image.info().size_bytes;
    let extents = image.extents(0, size_bytes, args.from.as_deref()).await?;
    let path = args.file.clone();
    let mut target = match path == Path::new("-") {
        true => Target::Stdout(session),
        false => Target::File(Some(blocking(move || NewFile::create(&path)).await?)),
    };
    let header = DiffHeader { from: args.from.clone(), to: Some(to.to_owned()), size_bytes };
    target.write(encode_header(&header)).await?;
    let changed = extents.iter().filter(|extent| extent.kind != ExtentKind::Unchanged);
    let changed_bytes = changed.map(|extent| extent.len_bytes).sum::<u64>();
    let progress = Progress::bytes(&format!("exporting {address}"), changed_bytes);
    let mut data_bytes = 0;
    let mut at = 0;
    for extent in extents {
        let end = at + extent.len_bytes;
        // Bytes of a new image are zero anyway.
        if extent.kind == ExtentKind::Hole && args.from.is_some() {
            target
                .write(encode_change(Change::Zero { offset_bytes: at, len_bytes: extent.len_bytes }))
                .await?;
            progress.advance(extent.len_bytes);
        }
        while extent.kind == ExtentKind::Data && at < end {
            interrupt::check()?;
            let len_bytes = CHUNK_BYTES.min(end - at);
            let data = image.read(at, len_bytes).await?;
            if data.iter().any(|byte| *byte != 0) {
                target.write(encode_change(Change::Write { offset_bytes: at, len_bytes })).await?;
                target.write(data).await?;
                data_bytes += len_bytes;
            } else if args.from.is_some() {
                target.write(encode_change(Change::Zero { offset_bytes: at, len_bytes })).await?;
            }
            progress.advance(len_bytes);
            at += len_bytes;
        }
        at = end;
    }
    target.write([END]).await?;
    drop(progress);
    let Target::File(Some(file)) = target else { return session.out.flush() };
    blocking(move || file.finish(None)).await?;
    let since = args.from.as_ref().map_or(String::new(), |from| format!(" since {from}"));
    let text = format!("exported {} of changes of {address}{since}", units::size(data_bytes));
    session.out.result(text, || {
        json!({ "snapshot": address.to_string(), "from": args.from, "data_bytes": data_bytes, "size_bytes": size_bytes })
    })
}

pub async fn import(args: ImportDiffArgs, session: &Session) -> Outcome {
    let name = image_name(&args.image)?;
    let path = args.file.clone();
    let reader = blocking(move || DiffReader::open(BufReader::new(Source::open(&path)?.0))).await?;
    let header = reader.header().clone();
    let image = images(session, &args.image.pool).await?.open(name, None, OpenMode::Write).await?;
    let imported = match check_start(&*image, &header).await {
        Err(error) => Err(error.into()),
        Ok(()) => match apply(reader, &header, &*image).await {
            Err(failure) => match &header.from {
                // Undo the changes that were applied so far.
                Some(from) => image.roll_back(from).await.map_err(Into::into).and(Err(failure)),
                None => Err(failure),
            },
            done => done,
        },
    };
    let closed = image.close().await;
    let data_bytes = imported?;
    closed?;
    let to = header.to.as_ref().map_or(String::new(), |to| format!(", which now has snapshot {to}"));
    let text = format!("imported {} of changes into {}{to}", units::size(data_bytes), args.image);
    session.out.result(text, || {
        json!({ "image": args.image.to_string(), "from": header.from, "to": header.to, "data_bytes": data_bytes })
    })
}

pub async fn merge_diff(args: MergeDiffArgs, session: &Session) -> Outcome {
    let stdio = Path::new("-");
    if args.first == stdio && args.second == stdio {
        return Err(Error::invalid_argument("only one of the files can be stdin").into());
    }
    let open = |path: &Path| DiffReader::open(BufReader::new(Source::open(path)?.0));
    let (first, second) = (open(&args.first)?, open(&args.second)?);
    let mut file = if args.file == stdio { None } else { Some(NewFile::create(&args.file)?) };
    let progress = Progress::bytes("merging changes", 0);
    let mut written_bytes = 0;
    let header = merge(first, second, &mut |data| {
        interrupt::check()?;
        progress.advance(data.len() as u64);
        written_bytes += data.len() as u64;
        if let Some(file) = &mut file { Ok(file.write(data)?) } else { session.out.write_bytes(data) }
    })?;
    drop(progress);
    let Some(file) = file else { return session.out.flush() };
    file.finish(None)?;
    let (from, to) =
        (header.from.as_deref().unwrap_or("nothing"), header.to.as_deref().unwrap_or("the image"));
    session.out.result(format_args!("merged the changes from {from} to {to}, {}", units::size(written_bytes)), || {
        json!({ "from": header.from, "to": header.to, "size_bytes": header.size_bytes, "file_bytes": written_bytes })
    })
}

/// Checks that the changes fit the image: it is empty, or unchanged since the snapshot at which
/// they begin.
async fn check_start(image: &dyn Image, header: &DiffHeader) -> Result<()> {
    let snapshots = image.snapshots().await?;
    let has = |name: &String| snapshots.iter().any(|snapshot| snapshot.name == *name);
    if let Some(to) = header.to.as_ref().filter(|to| has(to)) {
        let message = "the image already has the snapshot at which the changes end";
        return Err(Error::already_exists(message).with("snapshot", to));
    }
    let Some(from) = &header.from else {
        let extents = image.extents(0, image.info().size_bytes, None).await?;
        if extents.iter().all(|extent| extent.kind == ExtentKind::Hole) {
            return Ok(());
        }
        let message =
            "the changes are those of a whole image, without its zeros, so they need an empty image";
        return Err(Error::conflict(message));
    };
    if !has(from) {
        let message = "the image does not have the snapshot at which the changes begin; import the earlier changes first";
        return Err(Error::not_found(message).with("snapshot", from));
    }
    let extents = image.extents(0, image.info().size_bytes, Some(from)).await?;
    if extents.iter().any(|extent| extent.kind != ExtentKind::Unchanged) {
        let message =
            "the image has changed since the snapshot at which the changes begin; roll it back first";
        return Err(Error::conflict(message).with("snapshot", from));
    }
    Ok(())
}

async fn apply(
    mut reader: DiffReader<BufReader<Source>>,
    header: &DiffHeader,
    image: &dyn Image,
) -> Outcome<u64> {
    if header.size_bytes != image.info().size_bytes {
        image.resize(header.size_bytes).await?;
    }
    let progress = Progress::bytes("importing changes", 0);
    let mut data_bytes = 0;
    loop {
        interrupt::check()?;
        let (returned, change) = blocking(move || {
            let change = reader.next_change()?;
            Ok((reader, change))
        })
        .await?;
        reader = returned;
        match change {
            None => break,
            Some(Change::Zero { offset_bytes, len_bytes }) => {
                image.write_zeroes(offset_bytes, len_bytes, Zeroes::Punch, Durability::Buffered).await?;
            }
            Some(Change::Write { mut offset_bytes, .. }) => loop {
                interrupt::check()?;
                let (returned, data) = blocking(move || {
                    let data = reader.read_data(CHUNK_BYTES)?;
                    Ok((reader, data))
                })
                .await?;
                reader = returned;
                if data.is_empty() {
                    break;
                }
                let len_bytes = data.len() as u64;
                image.write(offset_bytes, data.into(), Durability::Buffered).await?;
                progress.advance(len_bytes);
                offset_bytes += len_bytes;
                data_bytes += len_bytes;
            },
        }
    }
    match &header.to {
        Some(to) => image.create_snapshot(to).await?,
        None => image.flush().await?,
    }
    Ok(data_bytes)
}
