//! `benthic image import` and `export`: raw bytes, with holes where the bytes are zero.

use super::open::images;
use super::{GeometryArgs, KIB, new_name};
use benthic_block::{CreateOptions, ExtentKind, Geometry, Image, ImageAddress, OpenMode};
use benthic_core::{Action, Durability, Error, ErrorKind, Result};
use benthic_program::exit::{Failure, Outcome};
use benthic_program::local::{self, NewFile};
use benthic_program::progress::Progress;
use benthic_program::session::Session;
use benthic_program::store::blocking;
use benthic_program::{interrupt, units};
use bytes::{Bytes, BytesMut};
use clap::Args;
use futures::stream::{FuturesUnordered, StreamExt};
use serde_json::json;
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Unit of transfer.
pub const CHUNK_BYTES: u64 = 4096 * KIB;
const CHUNKS_IN_FLIGHT: usize = 8;
/// An import writes to an image with this suffix, and renames it at the end.
pub const IMPORT_SUFFIX: &str = ".importing";
/// An import of a file lets the image grow by this much at a time. All bytes before the last step
/// are durable, so an interrupted import continues there. An export has such steps too.
const STEP_BYTES: u64 = 256 * CHUNK_BYTES;
/// First size of an image that is imported from a pipe.
const PIPE_BYTES: u64 = CHUNK_BYTES;

#[derive(Args)]
#[command(
    after_help = "The file's bytes become the image's bytes; ranges of zeros take no space. Convert other formats first: \
    qemu-img convert -O raw disk.qcow2 disk.raw. Until the import is complete, the image has the suffix .importing. An \
    interrupted import of a file continues when it is repeated; that of a pipe starts anew.\n\n\
    Examples:\n  benthic image import debian.raw vms/template\n  zcat disk.gz | benthic image import - vms/disk"
)]
pub struct ImportArgs {
    /// The file or disk; - for stdin
    file: PathBuf,
    /// POOL/IMAGE of the new image
    image: ImageAddress,
    #[command(flatten)]
    geometry: GeometryArgs,
}

#[derive(Args)]
#[command(
    after_help = "The file is sparse: ranges without data take no space. An image that is being written to changes during the \
    export; export a snapshot to get one state. An interrupted export of a snapshot continues when it is repeated: until it \
    is complete, its bytes are in a hidden file beside FILE, .FILE.NUMBER.benthic-part. JSON has the bytes that were there \
    as continued_bytes, and data_bytes counts the others.\n\n\
    Examples:\n  benthic image export vms/root@monday root.raw\n  benthic image export vms/root@monday - | gzip > root.gz"
)]
pub struct ExportArgs {
    /// POOL/IMAGE or POOL/IMAGE@SNAPSHOT
    image: ImageAddress,
    /// The file, which is replaced when the export is complete; - for stdout
    file: PathBuf,
}

/// The bytes to import.
pub enum Source {
    File(File),
    Stdin,
}

impl Source {
    pub fn open(path: &Path) -> Result<(Source, Option<u64>)> {
        if path == Path::new("-") {
            return Ok((Source::Stdin, None));
        }
        let failed = local::failed("cannot read the file", path);
        let mut file = File::open(path).map_err(&failed)?;
        if file.metadata().map_err(&failed)?.is_dir() {
            let message = "this is a directory; name a file or a disk";
            return Err(Error::invalid_argument(message).with("path", path.display()));
        }
        // A disk has its size at its end. A pipe has no size.
        match file.seek(SeekFrom::End(0)).and_then(|size_bytes| file.rewind().map(|()| size_bytes)) {
            Ok(size_bytes) => Ok((Source::File(file), Some(size_bytes))),
            Err(_) => Ok((Source::File(file), None)),
        }
    }

    /// A number that is the same only for the same file with the same bytes, as far as its metadata
    /// tell. `None` for pipes and for disks, whose metadata do not change with their bytes.
    fn identity(&self, geometry: Geometry) -> Result<Option<u64>> {
        let Source::File(file) = self else { return Ok(None) };
        let found = file
            .metadata()
            .map_err(|error| Error::io(Action::Read, "cannot read what is to be imported", error))?;
        if !found.is_file() {
            return Ok(None);
        }
        let mut hasher = DefaultHasher::new();
        (found.dev(), found.ino(), found.len(), found.mtime(), found.mtime_nsec()).hash(&mut hasher);
        geometry.hash(&mut hasher);
        Ok(Some(hasher.finish()))
    }

    /// Reads a chunk, which is shorter only at the end.
    fn read_chunk(&mut self) -> io::Result<Bytes> {
        let mut chunk = BytesMut::zeroed(CHUNK_BYTES as usize);
        let mut len = 0;
        while len < chunk.len() {
            match self.read(&mut chunk[len..]) {
                Ok(0) => break,
                Ok(count) => len += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        chunk.truncate(len);
        Ok(chunk.freeze())
    }
}

impl Read for Source {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        match self {
            Source::File(file) => file.read(out),
            Source::Stdin => io::stdin().lock().read(out),
        }
    }
}

pub async fn import(args: ImportArgs, session: &Session) -> Outcome {
    let name = new_name(&args.image)?;
    let geometry = args.geometry.geometry();
    let path = args.file.clone();
    let (source, size_bytes) = blocking(move || Source::open(&path)).await?;
    let images = images(session, &args.image.pool).await?;
    let listed = images.list().await?;
    if listed.iter().any(|listed| listed == name) {
        let message = "the image already exists; import under another name, or remove it first";
        return Err(Error::already_exists(message).with("image", &args.image).into());
    }
    let identity = source.identity(geometry)?;
    let temporary = match identity {
        Some(identity) => format!("{name}.{identity:016x}{IMPORT_SUFFIX}"),
        None => format!("{name}{IMPORT_SUFFIX}"),
    };
    let is_resumed = identity.is_some() && listed.contains(&temporary);
    for left in listed.iter().filter(|listed| is_import_of(listed, name)) {
        if !is_resumed || *left != temporary {
            images.remove(left).await?;
        }
    }
    if !is_resumed {
        images.create(&temporary, CreateOptions::new(0, geometry)).await?;
    }
    let image = images.open(&temporary, None, OpenMode::Write).await?;
    let progress = Progress::bytes(&format!("importing {}", args.image), size_bytes.unwrap_or(0));
    let copied = copy_in(source, size_bytes, &image, &progress).await;
    drop(progress);
    let closed = image.close().await;
    let completed = async {
        let copied_bytes = copied?;
        closed?;
        // The same signal may have ended the program that writes to the pipe.
        interrupt::check()?;
        images.rename(&temporary, name).await?;
        Ok(copied_bytes)
    };
    let copied_bytes = match completed.await {
        Ok(copied_bytes) => copied_bytes,
        Err(Failure::Interrupted) if identity.is_some() => {
            session.out.warning("the import continues when you repeat the command");
            return Err(Failure::Interrupted);
        }
        Err(failure) => {
            // If this fails too, the next import removes it.
            let _ = images.remove(&temporary).await;
            return Err(failure);
        }
    };
    let text = format!("imported {} into {}", units::size(copied_bytes), args.image);
    session.out.result(text, || json!({ "image": args.image.to_string(), "size_bytes": copied_bytes }))
}

/// True for the names of images that imports into the image `name` write to.
fn is_import_of(listed: &str, name: &str) -> bool {
    let Some(rest) = listed.strip_prefix(name).and_then(|rest| rest.strip_suffix(IMPORT_SUFFIX)) else {
        return false;
    };
    let is_identity = |text: &str| text.len() == 16 && u64::from_str_radix(text, 16).is_ok();
    rest.is_empty() || rest.strip_prefix('.').is_some_and(is_identity)
}

/// Copies the source into the image, and gives the image the source's size. The image may have the
/// first bytes of a file already.
async fn copy_in(
    mut source: Source,
    total_bytes: Option<u64>,
    image: &Arc<dyn Image>,
    progress: &Progress,
) -> Outcome<u64> {
    let mut in_flight = FuturesUnordered::new();
    let mut at = image.info().size_bytes.saturating_sub(1) / STEP_BYTES * STEP_BYTES;
    if let Source::File(file) = &mut source
        && at > 0
    {
        file.seek(SeekFrom::Start(at))
            .map_err(|error| Error::io(Action::Read, "cannot read what is to be imported", error))?;
        progress.advance(at);
    }
    loop {
        interrupt::check()?;
        let (returned, chunk) = blocking(move || {
            let chunk = source
                .read_chunk()
                .map_err(|error| Error::io(Action::Read, "cannot read what is to be imported", error))?;
            Ok((source, chunk))
        })
        .await?;
        source = returned;
        if chunk.is_empty() {
            break;
        }
        let (offset_bytes, len_bytes) = (at, chunk.len() as u64);
        at += len_bytes;
        let size_bytes = image.info().size_bytes;
        if at > size_bytes {
            // The image is at rest while its size changes, so nothing else may be in progress.
            while let Some(written) = in_flight.next().await {
                written?;
            }
            match total_bytes {
                Some(total_bytes) if at > total_bytes => {
                    let message = "the file has grown during the import; import it again";
                    return Err(Error::conflict(message).into());
                }
                Some(total_bytes) => {
                    image.flush().await?;
                    image.resize((size_bytes + STEP_BYTES).min(total_bytes)).await?;
                }
                None => image.resize((size_bytes * 2).max(PIPE_BYTES).max(at)).await?,
            }
        }
        progress.advance(len_bytes);
        if chunk.iter().all(|byte| *byte == 0) {
            continue;
        }
        if in_flight.len() >= CHUNKS_IN_FLIGHT {
            in_flight.next().await.unwrap_or(Ok(()))?;
        }
        in_flight.push(async move { image.write(offset_bytes, chunk, Durability::Buffered).await });
    }
    while let Some(written) = in_flight.next().await {
        written?;
    }
    if at < image.info().size_bytes {
        image.resize(at).await?;
    }
    image.flush().await?;
    Ok(at)
}

pub async fn export(args: ExportArgs, session: &Session) -> Outcome {
    let address = &args.image;
    let images = images(session, &address.pool).await?;
    let image = images.open(&address.image, address.snapshot.as_deref(), OpenMode::ReadOnly).await?;
    let size_bytes = image.info().size_bytes;
    let progress = Progress::bytes(&format!("exporting {address}"), size_bytes);
    if args.file == Path::new("-") {
        copy_out(&image, 0, &mut Target::Stdout(session), &progress).await?;
        drop(progress);
        return session.out.flush();
    }
    let (file, continued_bytes) = open_part(&args, &image).await?;
    progress.advance(continued_bytes);
    let mut target = Target::File(Some(file));
    let copied = copy_out(&image, continued_bytes, &mut target, &progress).await;
    drop(progress);
    let Target::File(Some(file)) = target else { return copied.map(|_| ()) };
    let data_bytes = match copied {
        Ok(data_bytes) => data_bytes,
        Err(failure) => {
            let continues = address.snapshot.is_some() && file.is_regular() && may_continue(&failure);
            if continues {
                session.out.warning("the export continues when you repeat the command");
            } else {
                file.discard();
            }
            return Err(failure);
        }
    };
    blocking(move || file.finish_durably()).await?;
    let mut text = format!(
        "exported {} of {address}, {} of them data",
        units::size(size_bytes),
        units::size(data_bytes)
    );
    if continued_bytes > 0 {
        text = format!(
            "exported {} of {address}; {} were there from an interrupted export",
            units::size(size_bytes),
            units::size(continued_bytes)
        );
    }
    session.out.result(text, || {
        json!({
            "image": address.to_string(),
            "size_bytes": size_bytes,
            "data_bytes": data_bytes,
            "continued_bytes": continued_bytes,
        })
    })
}

/// Whether the same export may succeed later.
fn may_continue(failure: &Failure) -> bool {
    match failure {
        Failure::Interrupted => true,
        Failure::Error(error) => {
            matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Busy)
        }
        _ => false,
    }
}

/// Where the bytes of an export go.
enum Target<'a> {
    Stdout(&'a Session),
    /// `None` only while a write runs, and after one has panicked.
    File(Option<NewFile>),
}

impl Target<'_> {
    /// Appends bytes, or zeros without data. With `sync`, earlier writes become durable first.
    async fn write(&mut self, len_bytes: u64, data: Option<Bytes>, sync: bool) -> Outcome {
        let file = match self {
            Target::Stdout(session) => {
                return session.out.write_bytes(&data.unwrap_or_else(|| vec![0; len_bytes as usize].into()));
            }
            Target::File(file) => file,
        };
        let Some(mut taken) = file.take() else { return Ok(()) };
        let (returned, written) = blocking(move || {
            let synced = if sync { taken.sync() } else { Ok(()) };
            let written = synced.and_then(|()| match data {
                Some(data) => taken.write(&data),
                None => taken.write_hole(len_bytes),
            });
            Ok((taken, written))
        })
        .await?;
        *file = Some(returned);
        Ok(written?)
    }
}

/// Opens the file of an export, and returns how many bytes it has already. Only a snapshot stays
/// the same, so that its export can continue.
async fn open_part(args: &ExportArgs, image: &Arc<dyn Image>) -> Result<(NewFile, u64)> {
    let path = args.file.clone();
    let Some(snapshot) = &args.image.snapshot else {
        return Ok((blocking(move || NewFile::create(&path)).await?, 0));
    };
    let created_unix_ms = image
        .snapshots()
        .await?
        .iter()
        .find(|found| found.name == *snapshot)
        .map(|found| found.created_unix_ms);
    let mut hasher = DefaultHasher::new();
    (args.image.to_string(), created_unix_ms, image.info().size_bytes).hash(&mut hasher);
    blocking(move || {
        let (mut file, part_bytes) = NewFile::resume(&path, hasher.finish())?;
        let at = (part_bytes.saturating_sub(1) / STEP_BYTES * STEP_BYTES).saturating_sub(CHUNK_BYTES);
        if part_bytes > 0 {
            file.truncate(at)?;
        }
        Ok((file, at))
    })
    .await
}

/// Copies the bytes of an image from an offset on. Returns how many of them are data. Data that are
/// written before a chunk that reaches another [`STEP_BYTES`] are durable before that chunk is
/// written, so that an export can continue a chunk before the last step.
async fn copy_out(
    image: &Arc<dyn Image>,
    from: u64,
    target: &mut Target<'_>,
    progress: &Progress,
) -> Outcome<u64> {
    let (mut at, mut data_bytes) = (from, 0);
    for extent in image.extents(from, image.info().size_bytes - from, None).await? {
        let is_data = extent.kind == ExtentKind::Data;
        let chunks = (at..at + extent.len_bytes).step_by(CHUNK_BYTES as usize);
        let end = at + extent.len_bytes;
        let mut read = futures::stream::iter(chunks)
            .map(|start| {
                let len_bytes = CHUNK_BYTES.min(end - start);
                async move {
                    let data = if is_data { Some(image.read(start, len_bytes).await?) } else { None };
                    Ok::<_, Error>((start, len_bytes, data))
                }
            })
            .buffered(CHUNKS_IN_FLIGHT);
        while let Some(chunk) = read.next().await {
            interrupt::check()?;
            let (start, len_bytes, data) = chunk?;
            let data = data.filter(|data| data.iter().any(|byte| *byte != 0));
            data_bytes += data.as_ref().map_or(0, |data| data.len() as u64);
            progress.advance(len_bytes);
            let is_new_step = start.saturating_sub(1) / STEP_BYTES < (start + len_bytes - 1) / STEP_BYTES;
            target.write(len_bytes, data, is_new_step).await?;
        }
        at = end;
    }
    Ok(data_bytes)
}
