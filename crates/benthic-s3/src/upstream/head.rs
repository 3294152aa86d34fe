//! Converts the upstream's headers to an object, and attributes to headers.

use super::client::{Answer, Call};
use super::objects_error;
use crate::gateway::checksums::{ALGORITHMS, Kind, StoredChecksum};
use crate::gateway::{names, tags};
use crate::sal::{Attributes, Id, VersionId};
use benthic_core::{Error, ErrorKind, Result};
use bytes::Bytes;
use s3s::dto::{Timestamp, TimestampFormat};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;
use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

/// The attributes that are headers of the same meaning.
const HEADERS: [(&str, &str); 7] = [
    (names::CONTENT_TYPE, "content-type"),
    (names::CACHE_CONTROL, "cache-control"),
    (names::CONTENT_DISPOSITION, "content-disposition"),
    (names::CONTENT_ENCODING, "content-encoding"),
    (names::CONTENT_LANGUAGE, "content-language"),
    (names::EXPIRES, "expires"),
    (names::WEBSITE_REDIRECT, "x-amz-website-redirect-location"),
];
/// The prefix of the headers with user metadata.
const METADATA: &str = "x-amz-meta-";

/// An object of the upstream, without its data.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Head {
    pub etag: String,
    /// As the upstream names it; absent in buckets without versions.
    pub version: Option<String>,
    pub marker: bool,
    pub size_bytes: u64,
    pub modified_ms: u64,
    /// The values of headers are text.
    pub attributes: BTreeMap<String, String>,
}

impl Head {
    /// Reads the headers of an answer to HEAD, or to GET with a range.
    ///
    /// # Errors
    /// `Unavailable`: the upstream has sent something that is not valid.
    pub fn of(answer: &Answer) -> Result<Head> {
        let invalid = |what| {
            objects_error(ErrorKind::Unavailable, "the upstream's answer is not valid").with("cause", what)
        };
        let marker = answer.header("x-amz-delete-marker") == Some("true");
        let version = answer.header("x-amz-version-id").map(str::to_owned);
        let modified_ms = match answer.header("last-modified") {
            Some(text) => http_ms(text).ok_or_else(|| invalid("a date that is not valid"))?,
            None => 0,
        };
        if marker {
            return Ok(Head { version, marker, modified_ms, ..Head::default() });
        }
        let size_bytes = match answer.header("content-range") {
            Some(range) => range.rsplit_once('/').and_then(|(_, size)| size.parse().ok()),
            None => answer.header("content-length").and_then(|size| size.parse().ok()),
        };
        // The size of an object on the wire is a signed number.
        let size_bytes = size_bytes.filter(|size: &u64| i64::try_from(*size).is_ok());
        let etag = answer.header("etag").map(|etag| etag.trim_matches('"').to_owned());
        let etag = etag.filter(|etag| (1..=crate::sal::limits::ETAG_BYTES_MAX).contains(&etag.len()));
        let mut attributes = BTreeMap::new();
        for (attribute, header) in HEADERS {
            if let Some(value) = answer.header(header) {
                attributes.insert(attribute.to_owned(), value.to_owned());
            }
        }
        for (name, value) in &answer.headers {
            if let Some(name) = name.as_str().strip_prefix(METADATA) {
                let value = String::from_utf8_lossy(value.as_bytes());
                let value = s3s_rfc2047::decode(&value).map_or_else(|_| value.to_string(), Cow::into_owned);
                attributes.insert(format!("{}{name}", names::METADATA), value);
            }
        }
        // The checksum of a range is not that of the object.
        if answer.header("content-range").is_none()
            && let Some((name, value)) = checksum(answer)
        {
            attributes.insert(name, value);
        }
        Ok(Head {
            etag: etag.ok_or_else(|| invalid("no ETag"))?,
            version,
            marker,
            size_bytes: size_bytes.ok_or_else(|| invalid("no size"))?,
            modified_ms,
            attributes,
        })
    }

    pub fn attributes(&self) -> Attributes {
        let attribute = |(name, value): (&String, &String)| (name.clone(), Bytes::from(value.clone()));
        self.attributes.iter().map(attribute).collect()
    }

    pub fn version(&self) -> VersionId {
        version_of(self.version.as_deref())
    }

    /// An id that differs for any two states of a key.
    pub fn write(&self) -> Id {
        write_of(&self.etag, self.version.as_deref())
    }
}

/// The id of the write that made a state of a key. Times are not part of it, because headers have
/// seconds and listings have milliseconds.
pub(super) fn write_of(etag: &str, version: Option<&str>) -> Id {
    let text = format!("{etag}\0{}", version.unwrap_or("null"));
    Id(xxh3_128(text.as_bytes()).to_be_bytes())
}

/// The version with this name at the upstream. 16 hexadecimal digits are the number itself; other
/// names are hashed.
pub(super) fn version_of(name: Option<&str>) -> VersionId {
    match name {
        None | Some("null") => VersionId::Null,
        Some(name) => VersionId::Seq(seq_of(name)),
    }
}

/// The sequence number of the version with this name.
pub(super) fn seq_of(name: &str) -> u64 {
    if let Ok(VersionId::Seq(seq)) = name.parse() { seq } else { xxh3_64(name.as_bytes()) }
}

/// The time of an HTTP date, in milliseconds since 1970.
fn http_ms(text: &str) -> Option<u64> {
    let time = Timestamp::parse(TimestampFormat::HttpDate, text).ok()?;
    crate::gateway::unix_ms(&time)
}

/// The time of a date in a document; 0 if it is not valid.
pub(super) fn date_ms(text: &str) -> u64 {
    let time = Timestamp::parse(TimestampFormat::DateTime, text).ok();
    time.and_then(|time| crate::gateway::unix_ms(&time)).unwrap_or(0)
}

fn checksum(answer: &Answer) -> Option<(String, String)> {
    let (algorithm, value) =
        ALGORITHMS.into_iter().find_map(|algorithm| Some((algorithm, answer.header(algorithm.header())?)))?;
    let kind = match answer.header("x-amz-checksum-type").and_then(|kind| Kind::parse(kind).ok()) {
        Some(kind) => kind,
        None if value.contains('-') => Kind::Composite,
        None => Kind::FullObject,
    };
    let mut attributes = Attributes::new();
    StoredChecksum { algorithm, kind, value: value.to_owned() }.store(&mut attributes);
    let (name, value) = attributes.pop_first()?;
    Some((name, String::from_utf8(value.to_vec()).ok()?))
}

/// Adds attributes to a request that creates an object.
///
/// # Errors
/// `Unsupported` for an attribute that S3 does not have, or that the gateway and not the upstream
/// would have to interpret.
pub(super) fn with_attributes(mut call: Call, attributes: &Attributes, sends_checksum: bool) -> Result<Call> {
    for (name, value) in attributes {
        let text = String::from_utf8(value.to_vec()).map_err(|_| refusal(name))?;
        if let Some((_, header)) = HEADERS.iter().find(|(attribute, _)| attribute == name) {
            call = call.header(header, text);
        } else if let Some(name) = name.strip_prefix(names::METADATA) {
            let text = s3s_rfc2047::encode(&text).map_err(|_| refusal(name))?;
            call = call.header(&format!("{METADATA}{}", name.to_ascii_lowercase()), text);
        } else if name == names::TAGS {
            let pairs = tags::get(attributes).map_err(|_| refusal(name))?;
            let pairs: Vec<String> = pairs
                .iter()
                .map(|(key, value)| {
                    let encode = |text| super::sign::encode(text, false);
                    format!("{}={}", encode(key), encode(value))
                })
                .collect();
            call = call.header("x-amz-tagging", pairs.join("&"));
        } else if name == names::CHECKSUM {
            // The upstream computes the checksum of an upload itself.
            if let Some(stored) = StoredChecksum::of(attributes).filter(|_| sends_checksum) {
                call = call.header(stored.algorithm.header(), stored.value);
            }
        } else if name != names::PART_CHECKSUMS {
            return Err(refusal(name));
        }
    }
    Ok(call)
}

fn refusal(attribute: &str) -> Error {
    objects_error(ErrorKind::Unsupported, "a gateway to an upstream cannot store this setting of an object")
        .with("setting", attribute)
}
