//! Pictures: one atomic operation beside the data stores an image and creates its thumbnails and
//! labels.
//!
//! The object's data are the image, unchanged. Its omap holds the derived values: thumbnails under
//! `thumbnail/EDGE`, with EDGE in four digits, and labels under `label/NAME`. The class derives
//! some labels from the picture (format, width, height, shape, colour); the caller gives others.
//! The attribute [`SUMMARY_XATTR`] holds a one-line summary.
//!
//! A client that changes an object's data by other means must call `index` again.
//!
//! The input is untrusted, and image decoders are a common target of attacks. So the class first
//! splits a file into its parts, and passes only those parts to the decoder that the pixels need
//! ([`container`]). Their cost is limited, and charged before decoding ([`decode`]). Formats whose
//! decoders allocate memory as they go are not supported.

pub mod client;
mod container;
mod decode;
#[cfg(test)]
mod hostile_tests;
mod render;
#[cfg(test)]
mod tests;
pub mod wire;

use benthic_core::{
    Class, Error, Method, MethodContext, MethodFlags, MethodResult, OptionalExtension, Result, limits,
};
use bytes::Bytes;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use wire::{DEFAULT_SIZES, IMAGE_BYTES_MAX, Options};

/// The attribute that holds the picture's summary.
pub const SUMMARY_XATTR: &str = "picture.summary";
/// Prefix of the omap keys of labels; the label's name follows.
pub const LABEL_PREFIX: &str = "label/";
/// Prefix of the omap keys of thumbnails; the longest edge in four digits follows.
pub const THUMBNAIL_PREFIX: &str = "thumbnail/";

/// Limit of a picture's keys per prefix. The class itself creates a few hundred.
const KEYS_MAX: usize = 4_096;

/// The `picture` class.
pub struct Picture;

impl Class for Picture {
    fn name(&self) -> &'static str {
        "picture"
    }

    fn version(&self) -> u32 {
        1
    }

    fn summary(&self) -> &'static str {
        "images with thumbnails and labels, created beside the data"
    }

    fn methods(&self) -> &'static [Method] {
        &METHODS
    }
}

static METHODS: [Method; 7] = [
    Method {
        name: "put",
        flags: MethodFlags::READ_WRITE,
        run: put,
        result: MethodResult::Xattr(SUMMARY_XATTR),
        summary: "stores an image with its thumbnails and labels; a broken image stores nothing",
        input: "a JPEG or PNG file; to choose sizes and labels: \"BPIC\", 1 and the length of the options as \
                little-endian 32 bits, options as for index, the file",
        output: "a summary: format, size, shape, colour",
        examples: &["@cat.jpg"],
    },
    Method {
        name: "index",
        flags: MethodFlags::READ_WRITE,
        run: index,
        result: MethodResult::Xattr(SUMMARY_XATTR),
        summary: "creates or replaces the thumbnails and labels of an object that holds an image",
        input: "empty, or JSON: sizes (longest edges of the thumbnails; default: the existing sizes), labels to add",
        output: "a summary: format, size, shape, colour",
        examples: &["", r#"{"sizes":[64,256],"labels":{"album":"reef"}}"#],
    },
    Method {
        name: "thumbnail",
        flags: MethodFlags::READ,
        run: thumbnail,
        result: MethodResult::Output,
        summary: "returns a thumbnail",
        input: "the size, one of those given to put or index (default: 256)",
        output: "a JPEG file, or PNG for a picture with transparent parts",
        examples: &["64"],
    },
    Method {
        name: "scale",
        flags: MethodFlags::READ,
        run: scale,
        result: MethodResult::Output,
        summary: "returns a thumbnail of any size and stores nothing",
        input: "the size, 1 to 500 (default: 256)",
        output: "a JPEG file, or PNG for a picture with transparent parts",
        examples: &["64"],
    },
    Method {
        name: "labels",
        flags: MethodFlags::READ,
        run: labels,
        result: MethodResult::Output,
        summary: "lists the labels",
        input: "nothing",
        output: "JSON: the values by name",
        examples: &[""],
    },
    Method {
        name: "match",
        flags: MethodFlags::READ,
        run: matches,
        result: MethodResult::Output,
        summary: "tests whether the picture has a label",
        input: "LABEL or LABEL=VALUE",
        output: "LABEL=VALUE as the picture has it; nothing if it does not match",
        examples: &["album", "colour=blue"],
    },
    Method {
        name: "get_if",
        flags: MethodFlags::READ,
        run: get_if,
        result: MethodResult::Output,
        summary: "returns the original if the picture has a label",
        input: "LABEL or LABEL=VALUE",
        output: "the image file; nothing if it does not match",
        examples: &["album=reef"],
    },
];

fn put(context: &mut MethodContext<'_>, input: &[u8]) -> Result<Vec<u8>> {
    let (options, image) = wire::parse_put(input)?;
    let mut old = keys(context, THUMBNAIL_PREFIX)?;
    old.extend(keys(context, LABEL_PREFIX)?);
    let sizes = options.sizes.unwrap_or_else(|| BTreeSet::from(DEFAULT_SIZES));
    describe(context, image, sizes, options.labels, old)?;
    context.write_full(Bytes::copy_from_slice(image))?;
    Ok(Vec::new())
}

fn index(context: &mut MethodContext<'_>, input: &[u8]) -> Result<Vec<u8>> {
    let options = Options::parse(input)?;
    let image = data(context)?;
    let old = keys(context, THUMBNAIL_PREFIX)?;
    let sizes = options.sizes.map_or_else(|| kept_sizes(&old), Ok)?;
    describe(context, &image, sizes, options.labels, old)?;
    Ok(Vec::new())
}

fn kept_sizes(thumbnails: &[Bytes]) -> Result<BTreeSet<u32>> {
    let size = |key: &Bytes| str::from_utf8(&key[THUMBNAIL_PREFIX.len()..]).ok()?.parse().ok();
    let sizes: BTreeSet<u32> = thumbnails.iter().filter_map(size).collect();
    if sizes.is_empty() {
        return Ok(BTreeSet::from(DEFAULT_SIZES));
    }
    // Other clients can write to the omap too.
    wire::check_sizes(&sizes)?;
    Ok(sizes)
}

/// Stores an image's thumbnails, labels and summary. Removes those of the `old` keys that are not
/// set again.
fn describe(
    context: &mut MethodContext<'_>,
    image: &[u8],
    sizes: BTreeSet<u32>,
    labels: BTreeMap<String, String>,
    mut old: Vec<Bytes>,
) -> Result<()> {
    let picture = decode::decode(context, image)?;
    let mut entries = BTreeMap::new();
    for edge in sizes {
        context.check_deadline()?;
        let thumbnail = render::thumbnail(&picture, edge)?;
        entries.insert(thumbnail_key(edge), Bytes::from(thumbnail));
    }
    let derived = render::labels(&picture);
    let [colour, format, height, shape, width] = derived.each_ref().map(|(_, value)| value);
    let summary = format!("{format} {width}x{height} {shape} {colour}");
    let derived = derived.map(|(name, value)| (label_key(name), Bytes::from(value)));
    entries.extend(labels.into_iter().map(|(name, value)| (label_key(&name), Bytes::from(value))));
    entries.extend(derived);
    old.retain(|key| !entries.contains_key(key));
    if !old.is_empty() {
        context.omap_remove(&old)?;
    }
    context.omap_set(entries)?;
    context.set_xattr(SUMMARY_XATTR, summary)
}

fn thumbnail(context: &mut MethodContext<'_>, input: &[u8]) -> Result<Vec<u8>> {
    let edge = wire::parse_size(input)?;
    match context.omap_get(&[thumbnail_key(edge)])?.pop() {
        Some((_, thumbnail)) => Ok(thumbnail.to_vec()),
        None => {
            let message = "the picture has no thumbnail of this size; the method index creates it";
            Err(Error::not_found(message).with("edge", edge))
        }
    }
}

fn scale(context: &mut MethodContext<'_>, input: &[u8]) -> Result<Vec<u8>> {
    let edge = wire::parse_size(input)?;
    wire::check_edge(edge)?;
    let image = data(context)?;
    let picture = decode::decode(context, &image)?;
    context.check_deadline()?;
    render::thumbnail(&picture, edge)
}

fn labels(context: &mut MethodContext<'_>, _input: &[u8]) -> Result<Vec<u8>> {
    let page = context.omap_range(None, LABEL_PREFIX.as_bytes(), limits::OMAP_PAGE_ENTRIES_MAX)?;
    if page.more {
        return Err(Error::limit_exceeded("too many labels for one answer; list the omap")
            .with("labels_max", limits::OMAP_PAGE_ENTRIES_MAX));
    }
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let labels: BTreeMap<String, String> =
        page.entries.iter().map(|(key, value)| (text(&key[LABEL_PREFIX.len()..]), text(value))).collect();
    Ok(json!(labels).to_string().into_bytes())
}

fn matches(context: &mut MethodContext<'_>, input: &[u8]) -> Result<Vec<u8>> {
    let (name, wanted) = wire::parse_condition(input)?;
    Ok(match label(context, name, wanted)? {
        Some(value) => [name.as_bytes(), b"=", &value].concat(),
        None => Vec::new(),
    })
}

fn get_if(context: &mut MethodContext<'_>, input: &[u8]) -> Result<Vec<u8>> {
    let (name, wanted) = wire::parse_condition(input)?;
    if label(context, name, wanted)?.is_none() {
        return Ok(Vec::new());
    }
    let image = data(context)?;
    context.charge_memory(image.len() as u64)?;
    Ok(image.to_vec())
}

/// The value of a label, if it exists and equals the wanted value.
fn label(context: &mut MethodContext<'_>, name: &str, wanted: Option<&str>) -> Result<Option<Bytes>> {
    let found = context.omap_get(&[label_key(name)])?.pop();
    Ok(found.map(|(_, value)| value).filter(|value| wanted.is_none_or(|wanted| wanted.as_bytes() == value)))
}

fn data(context: &mut MethodContext<'_>) -> Result<Bytes> {
    let size_bytes = context.stat()?.size_bytes;
    if size_bytes > IMAGE_BYTES_MAX as u64 {
        return Err(Error::limit_exceeded("the object is too large for a picture")
            .with("size_bytes", size_bytes)
            .with("size_bytes_max", IMAGE_BYTES_MAX));
    }
    context.read(0, size_bytes)
}

fn keys(context: &mut MethodContext<'_>, prefix: &str) -> Result<Vec<Bytes>> {
    let mut keys: Vec<Bytes> = Vec::new();
    loop {
        let after = keys.last().cloned();
        // The object does not exist yet.
        let Some(page) = context.omap_range(after.as_deref(), prefix.as_bytes(), usize::MAX).optional()?
        else {
            return Ok(keys);
        };
        keys.extend(page.entries.into_iter().map(|(key, _)| key));
        if keys.len() > KEYS_MAX {
            let message = "the object has too many labels or thumbnails; remove some from its omap";
            let error = Error::limit_exceeded(message);
            return Err(error.with("prefix", prefix).with("keys_max", KEYS_MAX));
        }
        if !page.more {
            return Ok(keys);
        }
    }
}

fn thumbnail_key(edge: u32) -> Bytes {
    format!("{THUMBNAIL_PREFIX}{edge:04}").into()
}

fn label_key(name: &str) -> Bytes {
    format!("{LABEL_PREFIX}{name}").into()
}
