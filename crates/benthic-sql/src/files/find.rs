//! Finds the files that a path in a query names.

use super::local_file::{LocalFile, missing, unreadable};
use crate::input::Format;
use benthic_core::{Error, ErrorKind, Result};
use glob::{MatchOptions, glob_with};
use std::fs::{self, DirEntry};
use std::io;
use std::path::{Path, PathBuf};

const FILES_MAX: usize = 100_000;

/// The files at a path, sorted, and their format.
pub(super) fn find(text: &str) -> Result<(Format, Vec<LocalFile>)> {
    let path = with_home(text);
    let mut paths = Vec::new();
    match fs::metadata(&path) {
        Ok(metadata) if metadata.is_dir() => {
            add_directory(&path, &mut paths)?;
            if paths.is_empty() {
                let message = "the directory has no files; those whose names begin with . or _ do not count";
                return Err(Error::new(ErrorKind::NotFound, message).with("path", path.display()));
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound && text.contains(['*', '?', '[']) => {
            add_matches(&path, &mut paths)?;
            if paths.is_empty() {
                return Err(missing("no file matches this pattern", &path));
            }
        }
        _ => paths.push(path),
    }
    let files: Vec<LocalFile> = paths.into_iter().map(LocalFile::find).collect::<Result<_>>()?;
    let format = format_of_all(&files)?;
    files.iter().try_for_each(|file| check_start(format, file))?;
    Ok((format, files))
}

/// Replaces `~`, which the shell leaves alone inside quotes.
fn with_home(text: &str) -> PathBuf {
    match (text.strip_prefix("~/"), std::env::home_dir()) {
        (Some(path), Some(home)) => home.join(path),
        _ => PathBuf::from(text),
    }
}

/// Adds the files of a directory and of those below it. Skips the names by which other programs
/// mark files that are not data. Does not follow links to directories, which may form a circle.
fn add_directory(directory: &Path, paths: &mut Vec<PathBuf>) -> Result<()> {
    let failed = |error| unreadable(error, directory);
    let entries = fs::read_dir(directory).map_err(failed)?;
    let mut entries: Vec<DirEntry> = entries.collect::<io::Result<_>>().map_err(failed)?;
    entries.sort_by_key(DirEntry::file_name);
    for entry in entries {
        if entry.file_name().as_encoded_bytes().starts_with(b".")
            || entry.file_name().as_encoded_bytes().starts_with(b"_")
        {
            continue;
        }
        if entry.file_type().map_err(failed)?.is_dir() {
            add_directory(&entry.path(), paths)?;
        } else {
            add(entry.path(), paths)?;
        }
    }
    Ok(())
}

fn add_matches(pattern: &Path, paths: &mut Vec<PathBuf>) -> Result<()> {
    let options = MatchOptions { require_literal_leading_dot: true, ..MatchOptions::new() };
    let invalid = |error| {
        let error = Error::new(ErrorKind::InvalidArgument, "the pattern is invalid").with_source(error);
        error.with("path", pattern.display())
    };
    for found in glob_with(&pattern.to_string_lossy(), options).map_err(invalid)? {
        let path = found.map_err(|error| {
            let path = error.path().to_owned();
            unreadable(error.into(), &path)
        })?;
        if !path.is_dir() {
            add(path, paths)?;
        }
    }
    Ok(())
}

fn add(path: PathBuf, paths: &mut Vec<PathBuf>) -> Result<()> {
    if paths.len() == FILES_MAX {
        let message = "the path names too many files; name fewer, or load them into a table";
        return Err(Error::new(ErrorKind::LimitExceeded, message).with("files_max", FILES_MAX));
    }
    paths.push(path);
    Ok(())
}

/// The format of all files. Unknown files are not skipped, because they may hold some of the rows.
fn format_of_all(files: &[LocalFile]) -> Result<Format> {
    let mut known: Option<(Format, &Path)> = None;
    for path in files.iter().map(LocalFile::path) {
        let format = Format::of(path).ok_or_else(|| unknown_format(path))?;
        let (first, first_path) = *known.get_or_insert((format, path));
        if format != first {
            let message = "the files have different formats; select those of one format, such as 'DIR/*.csv'";
            return Err(Error::new(ErrorKind::InvalidArgument, message)
                .with("path", first_path.display())
                .with("other_path", path.display()));
        }
    }
    known.map(|(format, _)| format).ok_or_else(|| Error::new(ErrorKind::Internal, "a path names no file"))
}

/// Refuses a file whose first bytes mark another format than its name.
fn check_start(format: Format, file: &LocalFile) -> Result<()> {
    const MARKS: [(&[u8], Format, &str); 2] =
        [(b"PAR1", Format::Parquet, ".parquet"), (b"ARROW1", Format::Arrow, ".arrow")];
    let start = file.read(std::slice::from_ref(&(0..file.size_bytes().min(6))))?.pop().unwrap_or_default();
    match MARKS.iter().find(|(mark, other, _)| *other != format && start.starts_with(mark)) {
        None => Ok(()),
        Some((.., extension)) => {
            let message =
                "the file's content has another format than its name; rename it to end in this extension";
            Err(Error::new(ErrorKind::InvalidArgument, message)
                .with("path", file.path().display())
                .with("extension", extension))
        }
    }
}

fn unknown_format(path: &Path) -> Error {
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    let message = match extension.to_ascii_lowercase().as_str() {
        "gz" | "bz2" | "xz" | "zst" | "zip" => "the file is compressed; decompress it first",
        _ => {
            "the file name does not tell the format; it must end in .parquet, .csv, .tsv, .json or .arrow, \
             or select other files, such as 'DIR/*.csv'"
        }
    };
    Error::new(ErrorKind::InvalidArgument, message).with("path", path.display())
}
