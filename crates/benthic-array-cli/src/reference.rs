//! Stores a file unchanged, for arrays that refer to the chunks in it.

use crate::source::{FileChunks, SourceArray, reserved_name};
use benthic_array::decoders::{ByteRange, ChunkIndex};
use benthic_array::{
    CHUNK_INDEX_KEY, Compressor, FileParts, NewArray, PART_BYTES, Place, References, WriteStats,
};
use benthic_core::{Error, Random, Result, SystemRandom};
use benthic_program::local;
use benthic_program::store::blocking;
use bytes::Bytes;
use futures::{TryStreamExt, stream};
use std::fs::{self, File, Metadata};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Arrays with chunks of this size or less are copied: each chunk costs a request. netCDF-4 makes
/// chunks of this size for unlimited dimensions, such as times.
const SMALL_BYTES_MAX: u64 = 4 << 10;
/// Limit on a decoded chunk.
const CHUNK_BYTES_MAX: u64 = 256 << 20;
/// Number of parts that are written at once. Memory holds each as a whole.
const PARTS_AT_ONCE: usize = 3;

/// The file that arrays are made from.
pub struct SourceFile {
    path: Arc<PathBuf>,
    file: Arc<File>,
    /// Its name in the pool.
    name: String,
    state: FileState,
    token: String,
}

/// The size and the time of the file, which show whether it changes during the command.
#[derive(Clone, Copy, PartialEq, Eq)]
struct FileState {
    size_bytes: u64,
    modified_unix_ns: i64,
}

impl FileState {
    fn of(metadata: &Metadata) -> FileState {
        let modified_unix_ns = local::modified_unix_ns(metadata);
        FileState { size_bytes: metadata.len(), modified_unix_ns }
    }
}

/// An array whose chunks are in the file.
pub struct FileArray {
    path: String,
    document: Bytes,
    ranges: Vec<Option<ByteRange>>,
}

/// A file that was stored.
pub struct CreatedFile {
    pub name: String,
    pub objects: u64,
    pub size_bytes: u64,
}

impl SourceFile {
    /// Opens a file, before its metadata are read.
    ///
    /// # Errors
    /// `InvalidArgument` for a name that an object of a group cannot have; those of the file
    /// system.
    pub fn open(path: &Path) -> Result<SourceFile> {
        let file = File::open(path).map_err(local::failed("cannot read the file", path))?;
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if let Some(reason) = reserved_name(name) {
            let message = format!("the file cannot be stored with its name: {reason}; rename it");
            return Err(Error::invalid_argument(message).with("path", path.display()));
        }
        let metadata = file.metadata().map_err(local::failed("cannot read the file", path))?;
        let state = FileState::of(&metadata);
        let token = format!("{:016x}", SystemRandom.random_u64()?);
        let (path, name) = (Arc::new(path.to_owned()), name.to_owned());
        Ok(SourceFile { path, file: Arc::new(file), name, state, token })
    }

    /// Plans an array. `None` if it has small chunks or is computed, and should be copied.
    ///
    /// # Errors
    /// `Unsupported` for an array that cannot refer to the file; `Corrupt` if its chunks are not in
    /// the file; those of the document.
    pub fn array(&self, place: &Place, path: &str, source: &SourceArray) -> Result<Option<FileArray>> {
        let Some(FileChunks { chunk_shape, is_clipped, is_big_endian, codecs, ranges }) =
            source.elements.chunks()?
        else {
            return Ok(None);
        };
        let element_bytes = source.dtype.size_bytes() as u64;
        let chunk_bytes = chunk_shape.iter().fold(element_bytes, |product, len| product.saturating_mul(*len));
        let used = chunk_shape.iter().zip(&source.shape).map(|(chunk, len)| chunk.min(len));
        if used.fold(element_bytes, |product, len| product.saturating_mul(*len)) <= SMALL_BYTES_MAX {
            return Ok(None);
        }
        let is_too_large = |range: &ByteRange| range.len_bytes > PART_BYTES;
        if chunk_bytes > CHUNK_BYTES_MAX || ranges.iter().flatten().any(is_too_large) {
            return Err(Error::unsupported("its chunks are too large"));
        }
        for range in ranges.iter().flatten() {
            let checked = range.check().and_then(|()| range.check_within(self.state.size_bytes));
            checked.map_err(|error| {
                Error::corrupt("the file is shorter than its chunks")
                    .with("variable", path)
                    .with_source(error)
            })?;
        }
        let array = NewArray {
            dtype: source.dtype,
            shape: source.shape.clone(),
            chunk_shape,
            fill: source.fill.clone(),
            dimensions: source.dimensions.clone(),
            attributes: source.attributes.clone(),
            compressor: Compressor::None,
        };
        let references = References {
            file: "../".repeat(path.split('/').count()) + &self.name,
            token: self.token.clone(),
            is_clipped,
        };
        let document = array.document_in_file(is_big_endian, codecs, &references)?;
        for key in ["zarr.json", CHUNK_INDEX_KEY] {
            place.below(path).object(key)?;
        }
        Ok(Some(FileArray { path: path.to_owned(), document, ranges }))
    }

    /// Divides the file, so that no chunk is cut.
    ///
    /// # Errors
    /// `Corrupt`, `LimitExceeded`; `InvalidArgument` for a name that is too long.
    pub fn plan(&self, place: &Place, arrays: &[FileArray]) -> Result<StoredFile> {
        let ranges = arrays.iter().flat_map(|array| array.ranges.iter().flatten().copied());
        let parts = FileParts::new(self.state.size_bytes, ranges)?;
        for (name, _) in parts.objects(&self.name) {
            place.object(&name)?;
        }
        for array in arrays {
            ChunkIndex::decode(&parts.index(&array.ranges), array.ranges.len() as u64)?;
        }
        let (path, file, name) = (Arc::clone(&self.path), Arc::clone(&self.file), self.name.clone());
        let (state, size_bytes) = (self.state, self.state.size_bytes);
        Ok(StoredFile { path, file, name, object: place.prefix() + &self.name, state, parts, size_bytes })
    }
}

impl FileArray {
    /// The key and the metadata document.
    pub fn into_document(self) -> (String, Bytes) {
        (format!("{}/zarr.json", self.path), self.document)
    }
}

/// A file that is to be stored.
pub struct StoredFile {
    path: Arc<PathBuf>,
    file: Arc<File>,
    name: String,
    object: String,
    state: FileState,
    parts: FileParts,
    pub size_bytes: u64,
}

impl StoredFile {
    /// The summary that the command reports.
    pub fn summary(&self) -> CreatedFile {
        let objects = self.parts.objects(&self.name).len() as u64;
        CreatedFile { name: self.object.clone(), objects, size_bytes: self.size_bytes }
    }

    /// Stores the file, and the indexes of the arrays. Each write is atomic and durable.
    ///
    /// # Errors
    /// `Conflict` if the file changed meanwhile; those of the file and of the pool.
    pub async fn write(&self, place: &Place, arrays: &[FileArray], stats: &WriteStats) -> Result<()> {
        let put = async |object: benthic_core::ObjectId, data: Bytes| {
            let written = place.pool.write_full(&object, data).await;
            written.map_err(|error| error.with("object", &object))
        };
        let write_part = async |(name, range): (String, Range<u64>)| {
            let len_bytes = range.end - range.start;
            let (file, path) = (Arc::clone(&self.file), Arc::clone(&self.path));
            let data = blocking(move || read(&file, &path, range)).await?;
            put(place.object(&name)?, data).await?;
            stats.add_done(len_bytes);
            Ok::<_, Error>(())
        };
        let parts = stream::iter(self.parts.objects(&self.name).into_iter().map(Ok));
        parts.try_for_each_concurrent(PARTS_AT_ONCE, write_part).await?;
        for array in arrays {
            let object = place.below(&array.path).object(CHUNK_INDEX_KEY)?;
            put(object, self.parts.index(&array.ranges)).await?;
        }
        let failed = local::failed("cannot read the file", &self.path);
        // The metadata came from the file that had this path then.
        if FileState::of(&fs::metadata(&*self.path).map_err(failed)?) != self.state {
            let message = "the file changed meanwhile; repeat the command with --overwrite";
            return Err(Error::conflict(message).with("path", self.path.display()));
        }
        Ok(())
    }
}

fn read(file: &File, path: &Path, range: Range<u64>) -> Result<Bytes> {
    let mut data = vec![0; (range.end - range.start) as usize];
    file.read_exact_at(&mut data, range.start).map_err(local::failed("cannot read the file", path))?;
    Ok(data.into())
}
