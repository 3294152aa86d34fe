//! Copies a Zarr directory into a pool.

use crate::load::Created;
use crate::source::Skipped;
use benthic_array::{Creation, Place, WriteStats, is_metadata, is_node};
use benthic_core::{Error, Result};
use benthic_program::local;
use benthic_program::store::blocking;
use benthic_program::transfer::{Replaced, upload};
use bytes::Bytes;
use futures::{TryStreamExt, stream};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// Number of files that are copied at once. Each is in memory.
const COPIES_AT_ONCE: usize = 4;

/// The files of a directory, by their names as objects.
#[derive(Default)]
pub struct Directory {
    documents: Vec<(String, Bytes)>,
    chunks: Vec<Chunk>,
    pub skipped: Vec<Skipped>,
}

struct Chunk {
    key: String,
    path: PathBuf,
    size_bytes: u64,
}

impl Directory {
    /// Lists the files of a directory, and reads the metadata. Blocks.
    ///
    /// # Errors
    /// `InvalidArgument` if it is no Zarr directory; those of the file system.
    pub fn scan(path: &Path) -> Result<Directory> {
        let mut directory = Directory::default();
        directory.add(path, "")?;
        if !directory.documents.iter().any(|(key, _)| is_node(key) && !key.contains('/')) {
            let message = "this is no Zarr directory: it has no zarr.json, .zarray or .zgroup";
            return Err(Error::invalid_argument(message).with("path", path.display()));
        }
        Ok(directory)
    }

    fn add(&mut self, directory: &Path, prefix: &str) -> Result<()> {
        let failed = local::failed("cannot read the directory", directory);
        for entry in fs::read_dir(directory).map_err(&failed)? {
            let entry = entry.map_err(&failed)?;
            let (path, name) = (entry.path(), entry.file_name());
            let metadata = fs::metadata(&path).map_err(&failed)?;
            let is_link = entry.file_type().map_err(&failed)?.is_symlink();
            if local::is_part(&name) || (metadata.is_dir() && is_link) {
                continue;
            }
            let message = "the file's name is not UTF-8; Zarr has no such names";
            let name =
                name.to_str().ok_or_else(|| Error::invalid_argument(message).with("path", path.display()))?;
            let key = format!("{prefix}{name}");
            if metadata.is_dir() {
                self.add(&path, &format!("{key}/"))?;
            } else if !metadata.is_file() {
                self.skipped.push(Skipped { path: key, reason: "not a regular file".to_owned() });
            } else if is_metadata(&key) {
                self.documents.push((key, local::read_file(&path)?.data));
            } else if !is_chunk(&key) {
                self.skipped.push(Skipped { path: key, reason: "neither metadata nor a chunk".to_owned() });
            } else {
                local::check_size(metadata.len())?;
                File::open(&path).map_err(local::failed("cannot read the file", &path))?;
                self.chunks.push(Chunk { key, path, size_bytes: metadata.len() });
            }
        }
        Ok(())
    }

    /// The size of all chunks.
    pub fn size_bytes(&self) -> u64 {
        self.chunks.iter().fold(0, |sum, chunk| sum.saturating_add(chunk.size_bytes))
    }

    /// Copies the files. With `overwrite`, first removes all objects at the place.
    ///
    /// # Errors
    /// Those of [`Creation`], of the files and of the pool.
    pub async fn copy(self, place: &Place, overwrite: bool, stats: &WriteStats) -> Result<Created> {
        let keys =
            self.documents.iter().map(|(key, _)| key).chain(self.chunks.iter().map(|chunk| &chunk.key));
        for key in keys {
            place.object(key)?;
        }
        let creation = Creation::start(place, overwrite).await?;
        let copy = |chunk: Chunk| async move {
            let object = place.object(&chunk.key)?;
            let data = blocking(move || Ok(local::read_file(&chunk.path)?.data)).await?;
            let len_bytes = data.len() as u64;
            let copied = upload(&*place.pool, &object, Replaced::Any, data, None).await;
            copied.map_err(|error| error.with("object", &object))?;
            stats.add_stored(len_bytes, len_bytes);
            Ok::<_, Error>(())
        };
        let chunks = stream::iter(self.chunks.into_iter().map(Ok));
        chunks.try_for_each_concurrent(COPIES_AT_ONCE, copy).await?;
        let nodes = self.documents.iter().filter(|(key, _)| is_node(key)).count() as u64;
        let groups = self.documents.iter().filter(|(key, document)| is_group(key, document)).count() as u64;
        creation.finish(self.documents).await?;
        Ok(Created { arrays: nodes - groups, groups, ..Created::default() })
    }
}

/// Returns whether a file may be a chunk: its name ends with `c` and numbers, or with numbers.
fn is_chunk(key: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let last = key.rsplit('/').next().unwrap_or(key);
    last == "c" || last.strip_prefix("c.").unwrap_or(last).split('.').all(is_number)
}

fn is_group(key: &str, document: &[u8]) -> bool {
    match key.rsplit('/').next() {
        Some(".zgroup") => true,
        Some("zarr.json") => serde_json::from_slice::<serde_json::Value>(document)
            .is_ok_and(|document| document["node_type"] == "group"),
        _ => false,
    }
}
