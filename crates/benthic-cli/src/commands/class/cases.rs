//! The file with the cases of `benthic class test`: its form and its limits.

use benthic_core::error::ERROR_TABLE;
use benthic_core::{Error, ErrorKind, Result};
use benthic_program::local::{failed, read_file};
use bytes::Bytes;
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The file's name, beside `class.json`.
pub const FILE_NAME: &str = "cases.json";

const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Limit of an object, an input and an output.
pub const CONTENT_BYTES_MAX: u64 = 32 * 1024 * 1024;
/// Limit of the attributes, and of the omap's entries.
const ENTRIES_MAX: usize = 1_000;

/// A call, the object before it, and the conditions that must hold after it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    pub name: String,
    /// The data; `None` if the object is missing.
    #[serde(default)]
    pub object: Option<Content>,
    #[serde(default)]
    pub xattrs: BTreeMap<String, Content>,
    #[serde(default)]
    pub omap: BTreeMap<String, Content>,
    pub method: String,
    #[serde(default)]
    pub input: Content,
    /// The other objects, by the names that the method declares.
    #[serde(default)]
    pub objects: BTreeMap<String, Content>,
    pub expect: Expect,
}

/// The expected result of a call. Fields that are missing are not compared.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expect {
    /// The output, or the attribute with the result of a method that writes.
    pub output: Option<Content>,
    /// The kind of the error. Without `error` and `error_contains`, the call must succeed.
    #[serde(default, deserialize_with = "kind")]
    pub error: Option<ErrorKind>,
    pub error_contains: Option<String>,
    /// The data; `Some(None)` for an object that must be missing.
    #[serde(default, deserialize_with = "present")]
    pub object: Option<Option<Content>>,
    /// `None` for an attribute that must be missing.
    #[serde(default)]
    pub xattrs: BTreeMap<String, Option<Content>>,
    /// `None` for a key that must be missing.
    #[serde(default)]
    pub omap: BTreeMap<String, Option<Content>>,
}

/// Bytes in a case.
#[derive(Clone, Deserialize)]
#[serde(
    untagged,
    expecting = "text is a string, other bytes are {\"base64\": \"...\"} or {\"file\": \"PATH\"}"
)]
pub enum Content {
    Text(String),
    Base64(Base64),
    File(File),
}

/// Bytes in Base64.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Base64 {
    base64: String,
}

/// The content of a file. A relative path begins at the file with the cases.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    file: PathBuf,
}

impl Default for Content {
    fn default() -> Content {
        Content::Text(String::new())
    }
}

impl Content {
    /// The bytes.
    ///
    /// # Errors
    /// `InvalidArgument`, `LimitExceeded` and those of the file system.
    pub fn bytes(&self, dir: &Path) -> Result<Bytes> {
        let bytes = match self {
            Content::Text(text) => Bytes::copy_from_slice(text.as_bytes()),
            Content::Base64(Base64 { base64 }) => base64_simd::STANDARD
                .decode_to_vec(base64)
                .map_err(|_| Error::invalid_argument("this is not Base64"))?
                .into(),
            Content::File(File { file }) => {
                let path = dir.join(file);
                check_len(&path, CONTENT_BYTES_MAX)?;
                read_file(&path)?.data
            }
        };
        if bytes.len() as u64 > CONTENT_BYTES_MAX {
            return Err(too_large(CONTENT_BYTES_MAX));
        }
        Ok(bytes)
    }
}

/// Reads a file with cases.
///
/// # Errors
/// `NotFound`; `InvalidArgument` if it is malformed; `LimitExceeded`.
pub fn read(file: &Path) -> Result<Vec<Case>> {
    if !file.exists() {
        let message = "there is no file with cases; create cases.json (docs/guide/classes.md, \"Test and profile\"), or name one with --cases";
        return Err(Error::not_found(message).with("file", file.display()));
    }
    check_len(file, FILE_BYTES_MAX)?;
    let json = read_file(file)?.data;
    let cases: Vec<Case> = serde_json::from_slice(&json).map_err(|error| {
        Error::invalid_argument(format!("the cases are not valid: {error}")).with("file", file.display())
    })?;
    for case in &cases {
        let refused = |message: &str| {
            Err(Error::invalid_argument(message).with("case", &case.name).with("file", file.display()))
        };
        if case.object.is_none() && !(case.xattrs.is_empty() && case.omap.is_empty()) {
            return refused("an object that is missing has no attributes and no omap; give it an \"object\"");
        }
        if case.xattrs.len() + case.omap.len() > ENTRIES_MAX {
            return refused("the object has too many attributes or entries");
        }
        if case.expect.output.is_some() && case.expect.fails() {
            return refused("a call has an output or an error, not both");
        }
    }
    Ok(cases)
}

impl Expect {
    /// Whether the call must fail.
    pub fn fails(&self) -> bool {
        self.error.is_some() || self.error_contains.is_some()
    }
}

fn check_len(file: &Path, len_bytes_max: u64) -> Result<()> {
    let metadata = fs::metadata(file).map_err(failed("cannot read the file", file))?;
    if !metadata.is_file() {
        return Err(Error::invalid_argument("this is not a regular file").with("file", file.display()));
    }
    if metadata.len() > len_bytes_max {
        return Err(too_large(len_bytes_max).with("file", file.display()));
    }
    Ok(())
}

fn too_large(len_bytes_max: u64) -> Error {
    Error::limit_exceeded("this is too large for a test").with("len_bytes_max", len_bytes_max)
}

/// A field that is there, even if it is null.
fn present<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Option<Content>>, D::Error> {
    Option::<Content>::deserialize(value).map(Some)
}

/// The kind with a name such as `not_found`.
fn kind<'de, D: Deserializer<'de>>(value: D) -> Result<Option<ErrorKind>, D::Error> {
    let name = String::deserialize(value)?;
    let kind = ErrorKind::from_name(&name).ok_or_else(|| {
        let names: Vec<&str> = ERROR_TABLE.iter().map(|row| row.name).collect();
        serde::de::Error::custom(format!(
            "no error has the kind {name:?}; the kinds are {}",
            names.join(", ")
        ))
    })?;
    Ok(Some(kind))
}
