//! The keys of the bucket. A table has a folder, `POOL/TABLE-ID/`, which it keeps for its life.
//!
//! | key in the folder | content |
//! | --- | --- |
//! | `metadata/version-hint.text` | the number of the current snapshot |
//! | `metadata/v{SNAPSHOT}.metadata.json` | the table's metadata, with the snapshots up to this one |
//! | `metadata/v{SNAPSHOT}-format3.metadata.json` | the same in Iceberg's format version 3 |
//! | `metadata/snapshot-{SNAPSHOT}.avro` | the manifest list of a snapshot |
//! | `metadata/snapshot-{SNAPSHOT}-format3.avro` | the same in Iceberg's format version 3 |
//! | `metadata/{LIST}-schema{SCHEMA}-data.avro` | a file list as a manifest, with statistics of a schema's columns |
//! | `metadata/{LIST}-schema{SCHEMA}-deletes.avro` | the manifest of the delete files that belong to a file list |
//! | `metadata/{LIST}-schema{SCHEMA}-vectors.avro` | the manifest of the deletion vectors of a file list |
//! | `deletes/{LIST}/{OBJECT}.parquet` | the deleted rows of a data object, as a position delete file |
//! | `deletes/{LIST}/{OBJECT}.puffin` | the deleted rows of a data object, as a deletion vector |
//! | `data/{OBJECT}.parquet` | a data object |
//! | `nested/{OBJECT}.parquet` | a data object with nested columns, whose footer has the ids of nested fields, too |

use benthic_table::ids::{Id, Role, TableObject};
use std::fmt;

/// The bucket with all tables.
pub const BUCKET: &str = "tables";

/// A table's folder.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Folder {
    pub pool: String,
    pub table: String,
    pub id: Id,
}

impl Folder {
    /// Parses `POOL/TABLE-ID`.
    pub fn parse(text: &str) -> Option<Folder> {
        let (pool, table) = text.split_once('/')?;
        let (table, id) = table.rsplit_once('-')?;
        let id = Id(u64::from_str_radix(id, 16).ok()?);
        let folder = Folder { pool: unescape(pool)?, table: unescape(table)?, id };
        // Each table has exactly one folder: refuse capitals, missing zeros and signs.
        (folder.to_string() == text).then_some(folder)
    }

    /// The URI of the folder, without a slash at the end.
    pub fn location(&self) -> String {
        format!("s3://{BUCKET}/{self}")
    }
}

/// `POOL/TABLE-ID`.
impl fmt::Display for Folder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}-{}", escape(&self.pool), escape(&self.table), self.id)
    }
}

/// A version of Iceberg's table format. The data objects and their manifests are the same in both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FormatVersion {
    V2,
    V3,
}

impl FormatVersion {
    pub fn number(self) -> u32 {
        match self {
            FormatVersion::V2 => 2,
            FormatVersion::V3 => 3,
        }
    }

    /// The kind of delete files.
    pub fn deletes(self) -> Content {
        match self {
            FormatVersion::V2 => Content::Deletes,
            FormatVersion::V3 => Content::Vectors,
        }
    }

    /// The end of the names of files that depend on the version.
    fn suffix(self) -> &'static str {
        match self {
            FormatVersion::V2 => "",
            FormatVersion::V3 => "-format3",
        }
    }
}

/// The kind of files that a manifest lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Content {
    Data,
    /// Position delete files.
    Deletes,
    /// Deletion vectors.
    Vectors,
}

/// A file in a table's folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum File {
    VersionHint,
    Metadata { snapshot: u64, format: FormatVersion },
    ManifestList { snapshot: u64, format: FormatVersion },
    Manifest { list: TableObject, schema: u32, content: Content },
    Deletes { list: TableObject, object: TableObject },
    Vector { list: TableObject, object: TableObject },
    Data(TableObject),
    Nested(TableObject),
}

impl fmt::Display for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            File::VersionHint => f.write_str("metadata/version-hint.text"),
            File::Metadata { snapshot, format } => {
                write!(f, "metadata/v{snapshot}{}.metadata.json", format.suffix())
            }
            File::ManifestList { snapshot, format } => {
                write!(f, "metadata/snapshot-{snapshot}{}.avro", format.suffix())
            }
            File::Manifest { list, schema, content } => {
                let content = match content {
                    Content::Data => "data",
                    Content::Deletes => "deletes",
                    Content::Vectors => "vectors",
                };
                write!(f, "metadata/{}-schema{schema}-{content}.avro", stem(list))
            }
            File::Deletes { list, object } => write!(f, "deletes/{}/{}.parquet", stem(list), stem(object)),
            File::Vector { list, object } => write!(f, "deletes/{}/{}.puffin", stem(list), stem(object)),
            File::Data(object) => write!(f, "data/{}.parquet", stem(object)),
            File::Nested(object) => write!(f, "nested/{}.parquet", stem(object)),
        }
    }
}

/// A key of the bucket.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    pub folder: Folder,
    pub file: File,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.folder, self.file)
    }
}

impl Key {
    /// The file's URI.
    pub fn uri(&self) -> String {
        format!("s3://{BUCKET}/{self}")
    }

    /// Parses a URI. `None` if no file has it.
    pub fn of_uri(uri: &str) -> Option<Key> {
        Key::parse(uri.strip_prefix("s3://")?.strip_prefix(BUCKET)?.strip_prefix('/')?)
    }

    /// Parses a key. `None` if no file has this key.
    pub fn parse(text: &str) -> Option<Key> {
        let (end, _) = text.match_indices('/').nth(1)?;
        let key = Key { folder: Folder::parse(&text[..end])?, file: parse_file(&text[end + 1..])? };
        // Each file has exactly one key.
        (key.to_string() == text).then_some(key)
    }
}

fn parse_file(text: &str) -> Option<File> {
    let (folder, name) = text.split_once('/')?;
    Some(match folder {
        "data" => File::Data(object(Role::Data, name.strip_suffix(".parquet")?)?),
        "nested" => File::Nested(object(Role::Data, name.strip_suffix(".parquet")?)?),
        "deletes" => {
            let (list, data) = name.split_once('/')?;
            let list = object(Role::List, list)?;
            match data.strip_suffix(".puffin") {
                Some(data) => File::Vector { list, object: object(Role::Data, data)? },
                None => File::Deletes { list, object: object(Role::Data, data.strip_suffix(".parquet")?)? },
            }
        }
        "metadata" if name == "version-hint.text" => File::VersionHint,
        "metadata" => {
            if let Some(snapshot) =
                name.strip_prefix('v').and_then(|name| name.strip_suffix(".metadata.json"))
            {
                let (snapshot, format) = of_snapshot(snapshot)?;
                return Some(File::Metadata { snapshot, format });
            }
            let name = name.strip_suffix(".avro")?;
            if let Some(snapshot) = name.strip_prefix("snapshot-") {
                let (snapshot, format) = of_snapshot(snapshot)?;
                return Some(File::ManifestList { snapshot, format });
            }
            let (rest, content) = name.rsplit_once('-')?;
            let (list, schema) = rest.rsplit_once("-schema")?;
            let content = match content {
                "data" => Content::Data,
                "deletes" => Content::Deletes,
                "vectors" => Content::Vectors,
                _ => return None,
            };
            File::Manifest { list: object(Role::List, list)?, schema: schema.parse().ok()?, content }
        }
        _ => return None,
    })
}

/// A snapshot and a format version, which are a part of a file's name.
fn of_snapshot(text: &str) -> Option<(u64, FormatVersion)> {
    Some(match text.strip_suffix(FormatVersion::V3.suffix()) {
        Some(snapshot) => (snapshot.parse().ok()?, FormatVersion::V3),
        None => (text.parse().ok()?, FormatVersion::V2),
    })
}

/// The name of a table's object, without its folder and suffix.
fn stem(object: &TableObject) -> String {
    format!("{}-{}", object.writer, object.number)
}

fn object(role: Role, stem: &str) -> Option<TableObject> {
    let (writer, number) = stem.split_once('-')?;
    Some(TableObject {
        role,
        writer: Id(u64::from_str_radix(writer, 16).ok()?),
        number: number.parse().ok()?,
    })
}

/// Replaces characters that a URI would have to escape, and `~` itself, by `~` and two hexadecimal
/// digits.
pub fn escape(text: &str) -> String {
    let mut escaped = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'_' | b'-' => escaped.push(char::from(byte)),
            other => escaped.push_str(&format!("~{other:02x}")),
        }
    }
    escaped
}

fn unescape(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        if *first != b'~' {
            bytes.push(*first);
            rest = after;
            continue;
        }
        let digits = std::str::from_utf8(after.get(..2)?).ok()?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = &after[2..];
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
#[path = "keys_tests.rs"]
mod tests;
