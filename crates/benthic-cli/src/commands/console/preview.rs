//! Previews of objects. Their kind comes from their first bytes alone, because a name or an
//! attribute that a stranger chose must not make a browser run something.

use crate::commands::console::Console;
use crate::commands::console::data;
use crate::commands::console::query::Query;
use crate::commands::console::reply::{Reply, beginning, json_reply, whole};
use crate::commands::serving;
use benthic_core::{Error, Fetch, Result};
use benthic_program::output::insert_bytes;
use hyper::StatusCode;
use serde_json::{Map, Value, json};

const TEXT_BYTES_MAX: u64 = 64 * 1024;
const IMAGE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// The kind of an object's data, by its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Empty,
    Png,
    Jpeg,
    Gif,
    Webp,
    Parquet,
    Text,
    Binary,
}

impl Kind {
    /// Number of first bytes to look at.
    pub const HEAD_BYTES: u64 = 4_096;

    pub fn of(head: &[u8], size_bytes: u64) -> Kind {
        let is_webp = head.starts_with(b"RIFF") && head.get(8..12) == Some(b"WEBP");
        // A cut may be within a character.
        let head_text =
            if size_bytes > head.len() as u64 { beginning(head, head.len().saturating_sub(1)) } else { head };
        match head {
            [] => Kind::Empty,
            _ if head.starts_with(b"\x89PNG\r\n\x1a\n") => Kind::Png,
            _ if head.starts_with(b"\xff\xd8\xff") => Kind::Jpeg,
            _ if head.starts_with(b"GIF87a") || head.starts_with(b"GIF89a") => Kind::Gif,
            _ if is_webp => Kind::Webp,
            _ if head.starts_with(b"PAR1") => Kind::Parquet,
            _ if !head.contains(&0) && std::str::from_utf8(head_text).is_ok() => Kind::Text,
            _ => Kind::Binary,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Kind::Empty => "empty",
            Kind::Png => "png",
            Kind::Jpeg => "jpeg",
            Kind::Gif => "gif",
            Kind::Webp => "webp",
            Kind::Parquet => "parquet",
            Kind::Text => "text",
            Kind::Binary => "binary",
        }
    }

    fn image_type(self) -> Option<&'static str> {
        match self {
            Kind::Png => Some("image/png"),
            Kind::Jpeg => Some("image/jpeg"),
            Kind::Gif => Some("image/gif"),
            Kind::Webp => Some("image/webp"),
            _ => None,
        }
    }
}

/// The beginning of an object: text if it is UTF-8, otherwise in hexadecimal.
pub async fn text(console: &Console<'_>, query: &Query) -> Result<Reply> {
    let pool = console.session.pool(query.required("pool")?).await?;
    let read = Fetch::stat().and(Fetch::read(0, TEXT_BYTES_MAX + 1));
    let ((stat, data), version) = pool.fetch(&query.object()?, read).await?;
    let bytes_max = usize::try_from(TEXT_BYTES_MAX).unwrap_or(usize::MAX);
    let mut fields = Map::new();
    insert_bytes(&mut fields, "text", beginning(&data, bytes_max));
    fields.insert("size_bytes".to_owned(), json!(stat.size_bytes));
    fields.insert("truncated".to_owned(), json!(stat.size_bytes > TEXT_BYTES_MAX));
    fields.insert("version".to_owned(), json!(version));
    Ok(json_reply(&Value::Object(fields)))
}

pub async fn image(console: &Console<'_>, query: &Query) -> Result<Reply> {
    let pool = console.session.pool(query.required("pool")?).await?;
    let object = query.object()?;
    let (stat, version) = pool.stat(&object).await?;
    if stat.size_bytes > IMAGE_BYTES_MAX {
        return Err(Error::limit_exceeded("the image is too large to show; download it")
            .with("size_bytes", stat.size_bytes)
            .with("size_bytes_max", IMAGE_BYTES_MAX));
    }
    let (data, _) = pool.fetch(&object, Fetch::read_exact(version, 0, stat.size_bytes)).await?;
    let kind = Kind::of(&data, stat.size_bytes)
        .image_type()
        .ok_or_else(|| Error::unsupported("the object is no PNG, JPEG, GIF or WebP image"))?;
    Ok(data::sandbox(whole(serving::answer(StatusCode::OK, kind, data))))
}

#[cfg(test)]
#[path = "preview_tests.rs"]
mod tests;
