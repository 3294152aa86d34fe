//! Finds the sources and the targets of `cp`: distinguishes paths from addresses, walks directories
//! and derives names.

use crate::jobs;
use benthic_core::{Error, ErrorKind, Namespaces, ObjectId, Pool, PoolAddress, Result};
use benthic_program::exit::{Failure, Outcome};
use benthic_program::output::Output;
use benthic_program::{local, units};
use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};
use std::collections::HashSet;
use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, Metadata};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const LINK: &str = "a symbolic link to a directory";
const PART: &str = "a file of an unfinished copy";
const SPECIAL: &str = "an entry that is neither file nor directory";

/// A pool, a namespace in it, and a name or prefix of names. Its text form is POOL/PREFIX or
/// POOL:NAMESPACE/PREFIX.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub pool: String,
    /// The namespace; empty for the default namespace.
    pub namespace: String,
    pub prefix: String,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.namespace.as_str() {
            "" => write!(f, "{}/{}", self.pool, self.prefix),
            namespace => write!(f, "{}:{namespace}/{}", self.pool, self.prefix),
        }
    }
}

impl Target {
    /// Parses `POOL`, `POOL:NAMESPACE`, or one of them with `/PREFIX`.
    pub fn parse(text: &str) -> Result<Target> {
        let (pool, prefix) = text.split_once('/').unwrap_or((text, ""));
        let PoolAddress { pool, namespace } = pool.parse()?;
        Ok(Target { pool, namespace, prefix: prefix.to_owned() })
    }

    /// Returns true if several objects fit under this target.
    pub fn is_directory(&self) -> bool {
        self.prefix.is_empty() || self.prefix.ends_with('/')
    }

    /// The prefix of the names below this target.
    pub fn below(&self) -> String {
        if self.is_directory() { self.prefix.clone() } else { format!("{}/", self.prefix) }
    }

    /// Returns true if names below one target may also be below the other.
    pub fn overlaps(&self, other: &Target) -> bool {
        let (ours, theirs) = (self.below(), other.below());
        (&self.pool, &self.namespace) == (&other.pool, &other.namespace)
            && (ours.starts_with(&theirs) || theirs.starts_with(&ours))
    }
}

/// The sources, which are all of the same kind.
#[derive(Debug, PartialEq, Eq)]
pub enum Sources {
    Paths(Vec<PathBuf>),
    /// Objects or prefixes of object names.
    Objects(Vec<Target>),
}

/// Returns true if the text can only be a path.
fn is_path(text: &str) -> bool {
    matches!(text, "." | "..") || ["/", "./", "../"].iter().any(|start| text.starts_with(start))
}

/// Returns true if the text can only be an address, in which a pool ends at the first `:`.
fn is_address(text: &str) -> bool {
    !is_path(text) && text.split('/').next().is_some_and(|pool| pool.contains(':'))
}

/// Determines whether the sources are paths or objects. A mixture is a usage error.
pub fn classify(sources: &[String]) -> Result<Sources, Failure> {
    let (addresses, paths): (Vec<&String>, Vec<&String>) = sources
        .iter()
        .partition(|text| is_address(text) || !(is_path(text) || Path::new(text).symlink_metadata().is_ok()));
    match (paths.first(), addresses.first()) {
        (Some(path), Some(address)) => Err(Failure::Usage(format!(
            "the sources must be all files or all objects; {path:?} is a file here and {address:?} is not; ./X is \
             always a file, POOL:/X always an object"
        ))),
        (_, None) => Ok(Sources::Paths(paths.iter().map(PathBuf::from).collect())),
        (None, _) => {
            let parsed: Result<Vec<Target>> = addresses.iter().map(|text| Target::parse(text)).collect();
            Ok(Sources::Objects(parsed.map_err(|error| {
                error.with("hint", "this is neither an existing file nor an address of the form POOL/OBJECT")
            })?))
        }
    }
}

/// Parses the destination of files. A text that can only be a path is a usage error.
pub fn target(source: &str, text: &str) -> Result<Target, Failure> {
    if is_path(text) {
        return Err(Failure::Usage(format!(
            "source and destination are both files: {source:?} is a file here, {text:?} is a path; {}",
            disambiguate(source)
        )));
    }
    address(text)
}

/// Parses a text that can only be an address. A text that can only be a path is a usage error.
pub fn address(text: &str) -> Result<Target, Failure> {
    if is_path(text) {
        return Err(Failure::Usage(format!("this is a path, but an object is POOL/OBJECT got={text:?}")));
    }
    Ok(Target::parse(text)?)
}

/// The destination of objects.
#[derive(Debug, PartialEq, Eq)]
pub enum Destination {
    Path(PathBuf),
    Objects(Target),
}

/// Determines whether objects go to files or to other objects. A text that begins with the name of
/// a pool is an address. If it also begins with the name of a file or directory, that is a usage
/// error.
pub fn destination(text: &str, pools: &[String]) -> Result<Destination, Failure> {
    if text.is_empty() {
        return Err(Failure::Usage("the destination is empty; . is this directory".to_owned()));
    }
    let first = text.split('/').next().unwrap_or(text);
    if is_path(text) || !(is_address(text) || pools.iter().any(|name| name == first)) {
        return Ok(Destination::Path(PathBuf::from(text)));
    }
    if !is_address(text) && Path::new(first).symlink_metadata().is_ok() {
        return Err(Failure::Usage(format!(
            "the destination may be a file or an object, because {first:?} is both a pool and a file or directory here; {}",
            disambiguate(text)
        )));
    }
    Ok(Destination::Objects(Target::parse(text)?))
}

/// Streams the objects of a source, each with its name below a destination. With `recursive`, these
/// are all objects below the prefix.
pub fn objects(
    pool: Arc<dyn Pool>,
    source: &Target,
    recursive: bool,
) -> Outcome<BoxStream<'static, Result<(ObjectId, String)>>> {
    if recursive {
        let prefix = source.below();
        let listed = jobs::objects(pool, Namespaces::One(source.namespace.clone()), prefix.clone());
        let named = listed.map_ok(move |object| {
            let below = object.name().strip_prefix(&prefix).unwrap_or_default().to_owned();
            (object, below)
        });
        return Ok(named.boxed());
    }
    if source.is_directory() {
        return Err(Failure::Usage(format!(
            "name an object, or use -r for all objects below the prefix got={:?}",
            source.to_string()
        )));
    }
    let object = ObjectId::in_namespace(source.namespace.clone(), source.prefix.clone())?;
    let name = object.name().rsplit('/').next().unwrap_or_default().to_owned();
    Ok(stream::iter([Ok((object, name))]).boxed())
}

/// A hint on how to write the intended path or address.
pub fn disambiguate(text: &str) -> String {
    match text.split_once('/') {
        _ if is_path(text) || is_address(text) => {
            "POOL:/OBJECT is always an object, ./PATH always a file".to_owned()
        }
        Some((pool, name)) => format!("{pool}:/{name} is always an object, ./{text} always a file"),
        None => format!("POOL:/OBJECT is always an object, ./{text} always a file"),
    }
}

/// If the pool is missing, adds a hint that a source was treated as a file although the user may
/// have meant an object.
pub fn explain_missing_pool(error: Error, sources: &[String]) -> Error {
    let guessed = sources.iter().find(|text| !is_path(text) && text.contains('/'));
    match guessed {
        Some(text) if error.kind() == ErrorKind::NotFound => {
            let message =
                format!("{}; SOURCE is a file here, and POOL:/OBJECT means an object", error.message());
            let explained = Error::new(error.kind(), message).with_op(error.op()).with("source", text);
            error.context().fold(explained, |explained, (key, value)| explained.with(key, value))
        }
        _ => error,
    }
}

#[derive(Clone, Debug)]
pub struct Upload {
    pub path: PathBuf,
    pub object: ObjectId,
    pub size_bytes: u64,
    pub modified_unix_ns: i64,
}

#[derive(Clone, Debug)]
pub struct Skipped {
    /// The kind of file, which is the reason to skip it.
    pub kind: &'static str,
    pub path: PathBuf,
}

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "skipped {} path={}", self.kind, units::one_line_path(&self.path))
    }
}

/// Warns about skipped paths: prints the first of each kind, and the number of the others.
pub fn warn_of_skipped(skipped: &[Skipped], out: &Output) {
    for kind in [LINK, PART, SPECIAL] {
        let mut of_kind = skipped.iter().filter(|skipped| skipped.kind == kind);
        let Some(first) = of_kind.next() else { continue };
        let mut others = 0;
        for other in of_kind {
            tracing::info!("{other}");
            others += 1;
        }
        match others {
            0 => out.warning(first),
            _ => out.warning(format_args!("{first}, and {others} more; -v lists them")),
        }
    }
}

/// The files to copy, and those that are refused or skipped, with the reason.
#[derive(Default)]
pub struct Plan {
    pub uploads: Vec<Upload>,
    /// Paths that cannot be copied, with the error of each.
    pub refused: Vec<(String, Error)>,
    pub skipped: Vec<Skipped>,
    names: HashSet<ObjectId>,
    excluded: HashSet<PathBuf>,
    /// Also lists files that are too large for an object.
    any_size: bool,
}

impl Plan {
    pub fn total_bytes(&self) -> u64 {
        self.uploads.iter().map(|upload| upload.size_bytes).sum()
    }

    /// Excludes these files and directories without a report.
    pub fn exclude(&mut self, paths: impl IntoIterator<Item = PathBuf>) {
        self.excluded.extend(paths);
    }

    /// Adds all files below a directory. Blocks.
    pub fn add_directory(&mut self, directory: &Path, target: &Target) {
        self.walk(directory, Path::new(""), target);
    }

    fn add(&mut self, path: &Path, target: &Target, name: Result<String>, metadata: &Metadata) {
        let size = if self.any_size { Ok(()) } else { local::check_size(metadata.len()) };
        let object = size.and(name).and_then(|name| ObjectId::in_namespace(target.namespace.clone(), name));
        match object {
            Ok(object) if !self.names.insert(object.clone()) => {
                let error = invalid("another source has the same object name");
                self.refuse(path, error.with("object", object.name()));
            }
            Ok(object) => self.uploads.push(Upload {
                path: path.to_owned(),
                object,
                size_bytes: metadata.len(),
                modified_unix_ns: local::modified_unix_ns(metadata),
            }),
            Err(error) => self.refuse(path, error),
        }
    }

    fn refuse(&mut self, path: &Path, error: Error) {
        self.refused.push((path.to_string_lossy().into_owned(), error));
    }

    fn skip(&mut self, path: PathBuf, kind: &'static str) {
        self.skipped.push(Skipped { kind, path });
    }

    /// Adds all files below a directory. `relative` is the directory's path relative to the source.
    fn walk(&mut self, directory: &Path, relative: &Path, target: &Target) {
        let listed = fs::read_dir(directory).and_then(|entries| entries.collect::<Result<Vec<_>, _>>());
        let mut entries = match listed {
            Ok(entries) => entries,
            Err(error) => return self.refuse(directory, unreadable(directory, error)),
        };
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let (path, relative) = (entry.path(), relative.join(entry.file_name()));
            if self.excluded.contains(&path) {
                continue;
            }
            let is_link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
            match fs::metadata(&path) {
                Err(error) => self.refuse(&path, unreadable(&path, error)),
                Ok(metadata) if metadata.is_dir() && is_link => self.skip(path, LINK),
                Ok(metadata) if metadata.is_dir() => self.walk(&path, &relative, target),
                Ok(_) if local::is_part(&entry.file_name()) => self.skip(path, PART),
                Ok(metadata) if metadata.is_file() => {
                    let name = utf8_name(&relative).map(|name| target.below() + &name);
                    self.add(&path, target, name, &metadata);
                }
                Ok(_) => self.skip(path, SPECIAL),
            }
        }
    }
}

fn invalid(message: &str) -> Error {
    Error::invalid_argument(message)
}

fn unreadable(path: &Path, error: std::io::Error) -> Error {
    local::failed("cannot read this file or directory", path)(error)
}

/// The path of the directory `inner` below `root`, if it is there. It is empty if they are the
/// same.
pub fn below(inner: &Path, root: &Path) -> Option<PathBuf> {
    let (inner, real_root) = (fs::canonicalize(inner).ok()?, fs::canonicalize(root).ok()?);
    inner.strip_prefix(real_root).ok().map(Path::to_owned)
}

/// Plans the copy of files and, if `recursive`, of directories, but not of `store`, the directory
/// of the store itself. Blocks.
pub fn plan_files(paths: &[PathBuf], target: &Target, recursive: bool, store: Option<&Path>) -> Plan {
    let mut plan = Plan::default();
    for path in paths {
        match fs::metadata(path) {
            Err(error) => plan.refuse(path, unreadable(path, error)),
            Ok(_) if store.is_some_and(|store| local::is_inside(path, store)) => {
                plan.refuse(path, invalid("this is a part of the store"));
            }
            Ok(metadata) if metadata.is_dir() && recursive => {
                plan.exclude(store.and_then(|store| below(store, path)).map(|inner| path.join(inner)));
                plan.add_directory(path, target);
            }
            Ok(metadata) if metadata.is_dir() => {
                plan.refuse(path, invalid("this is a directory; -r copies its files"));
            }
            Ok(metadata) if metadata.is_file() => {
                let name = if target.is_directory() {
                    utf8_name(Path::new(path.file_name().unwrap_or(OsStr::new(""))))
                        .map(|name| target.prefix.clone() + &name)
                } else {
                    Ok(target.prefix.clone())
                };
                plan.add(path, target, name, &metadata);
            }
            Ok(_) => {
                plan.refuse(path, invalid("this is neither file nor directory; `benthic put` reads pipes"));
            }
        }
    }
    plan
}

/// Lists the files below a directory that may be removed because no object of the target has their
/// name. Blocks.
pub fn plan_removal(directory: &Path, target: &Target, store: Option<&Path>) -> Plan {
    let mut plan = Plan { any_size: true, ..Plan::default() };
    plan.exclude(store.and_then(|store| below(store, directory)).map(|inner| directory.join(inner)));
    if directory.is_dir() && !store.is_some_and(|store| local::is_inside(directory, store)) {
        plan.add_directory(directory, target);
    }
    plan
}

/// Joins the components of a relative path with `/`.
fn utf8_name(relative: &Path) -> Result<String> {
    let parts: Option<Vec<&str>> = relative.iter().map(OsStr::to_str).collect();
    let message = "the file's name is not UTF-8; rename it, or store it with `benthic put`";
    parts.map(|parts| parts.join("/")).ok_or_else(|| invalid(message))
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
