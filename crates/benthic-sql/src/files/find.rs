//! Finds the files that a path in a query names.

use super::local_file::{LocalFile, missing, unreadable};
use crate::input::Format;
use benthic_core::{Error, Result};
use glob::{MatchOptions, Pattern};
use std::fs::{self, DirEntry};
use std::io;
use std::path::{Component, Path, PathBuf};

/// A wildcard matches neither `/` nor a leading dot.
const MATCH_OPTIONS: MatchOptions =
    MatchOptions { case_sensitive: true, require_literal_separator: true, require_literal_leading_dot: true };

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
                return Err(Error::not_found(message).with("path", path.display()));
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

/// Adds the files that match a pattern. Below `**` it does not follow links to directories, which
/// may form a circle.
fn add_matches(pattern: &Path, paths: &mut Vec<PathBuf>) -> Result<()> {
    let parse = |text: &str| {
        Pattern::new(text).map_err(|error| {
            let error = Error::invalid_argument("the pattern is invalid").with_source(error);
            error.with("path", pattern.display())
        })
    };
    let text = |part: Component<'_>| part.as_os_str().to_string_lossy().into_owned();
    let has_wildcard = |part: &Component<'_>| text(*part).contains(['*', '?', '[']);
    let root: PathBuf = pattern.components().take_while(|part| !has_wildcard(part)).collect();
    let parts: Vec<String> = pattern.components().skip_while(|part| !has_wildcard(part)).map(text).collect();
    let whole = parse(&parts.join("/"))?;
    let levels: Vec<Pattern> =
        parts.iter().take_while(|part| *part != "**").map(|part| parse(part)).collect::<Result<_>>()?;
    let is_recursive = levels.len() < parts.len();
    Matches { root: &root, whole, levels, is_recursive, paths }.add_below(Path::new(""), 0)
}

/// Finds the files below a directory that match a pattern.
struct Matches<'a> {
    root: &'a Path,
    /// The pattern of a path relative to the root.
    whole: Pattern,
    /// The patterns of the path's first parts: all parts, unless a `**` follows.
    levels: Vec<Pattern>,
    is_recursive: bool,
    paths: &'a mut Vec<PathBuf>,
}

impl Matches<'_> {
    fn add_below(&mut self, relative: &Path, level: usize) -> Result<()> {
        let directory = self.root.join(relative);
        let failed = |error| unreadable(error, &directory);
        let listed =
            if directory.as_os_str().is_empty() { fs::read_dir(".") } else { fs::read_dir(&directory) };
        let entries = match listed {
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Ok(());
            }
            listed => listed.map_err(failed)?,
        };
        let mut entries: Vec<DirEntry> = entries.collect::<io::Result<_>>().map_err(failed)?;
        entries.sort_by_key(DirEntry::file_name);
        for entry in entries {
            // No pattern matches a name that is not UTF-8.
            let Some(name) = entry.file_name().to_str().map(str::to_owned) else { continue };
            let part = self.levels.get(level);
            if part.is_some_and(|part| !part.matches_with(&name, MATCH_OPTIONS)) {
                continue;
            }
            let (path, is_below_stars) = (relative.join(&name), part.is_none());
            let kind = entry.file_type().map_err(failed)?;
            let is_directory = kind.is_dir() || kind.is_symlink() && entry.path().is_dir();
            if !is_directory {
                if self.whole.matches_path_with(&path, MATCH_OPTIONS) {
                    add(self.root.join(path), self.paths)?;
                }
            } else if self.is_recursive && !(is_below_stars && (kind.is_symlink() || name.starts_with('.')))
                || level + 1 < self.levels.len()
            {
                self.add_below(&path, level + 1)?;
            }
        }
        Ok(())
    }
}

fn add(path: PathBuf, paths: &mut Vec<PathBuf>) -> Result<()> {
    if paths.len() == FILES_MAX {
        let message = "the path names too many files; name fewer, or load them into a table";
        return Err(Error::limit_exceeded(message).with("files_max", FILES_MAX));
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
            return Err(Error::invalid_argument(message)
                .with("path", first_path.display())
                .with("other_path", path.display()));
        }
    }
    known.map(|(format, _)| format).ok_or_else(|| Error::internal("a path names no file"))
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
            Err(Error::invalid_argument(message)
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
    Error::invalid_argument(message).with("path", path.display())
}
