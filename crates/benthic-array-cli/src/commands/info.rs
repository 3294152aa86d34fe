//! `benthic array info`: shows an array.

use super::{ls::shape, open};
use benthic_array::{ArrayAddress, element_json};
use benthic_program::exit::Outcome;
use benthic_program::session::Session;
use benthic_program::units;
use clap::Args;
use serde_json::json;

/// Arguments of `benthic array info`.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  benthic array info climate/era5/t2m\n  benthic array info climate/era5/t2m --json"
)]
pub struct InfoArgs {
    /// The array: POOL[:NS]/PATH
    array: ArrayAddress,
}

pub async fn run(args: InfoArgs, session: &Session) -> Outcome {
    let array = open(&args.array, session).await?;
    let metadata = array.metadata();
    let format = &metadata.format;
    let fill = element_json(format.dtype, &format.fill);
    let elements = metadata.shape.iter().fold(1u64, |product, len| product.saturating_mul(*len));
    let size_bytes = elements.saturating_mul(format.dtype.size_bytes() as u64);
    let rows = [
        ("format", format!("Zarr v{}", metadata.zarr_format)),
        ("type", format.dtype.to_string()),
        ("shape", shape(metadata)),
        ("size", units::size(size_bytes)),
        ("chunks", format!("{:?}", format.shape.0)),
        ("inner chunks", format.inner_shape().map_or("none".to_owned(), |shape| format!("{shape:?}"))),
        ("codecs", if metadata.codecs.is_empty() { "none".to_owned() } else { metadata.codecs.join(", ") }),
        ("fill value", fill.to_string()),
    ];
    let file = array.file_name()?;
    let mut text = units::one_line(&args.array.to_string());
    for (name, value) in rows {
        text += &format!("\n  {name:<14} {}", units::one_line(&value));
    }
    if let Some(file) = &file {
        text += &format!("\n  {:<14} {}", "in the file", units::one_line(file));
    }
    for (name, value) in &metadata.attributes {
        text += &format!("\n  {:<14} {}", units::one_line(name), units::one_line(&value.to_string()));
    }
    session.out.result(text, || {
        json!({
            "file": file, "array": args.array.to_string(), "zarr_format": metadata.zarr_format, "dtype": format.dtype.name(),
            "shape": metadata.shape, "dimensions": metadata.dimensions, "size_bytes": size_bytes,
            "chunk_shape": format.shape.0, "inner_chunk_shape": format.inner_shape(),
            "codecs": metadata.codecs, "fill_value": fill, "attributes": metadata.attributes,
        })
    })
}
