//! `benthic array ls`: lists arrays and groups.

use super::place;
use benthic_array::{ArrayAddress, ArrayMetadata, Node};
use benthic_core::Error;
use benthic_program::exit::Outcome;
use benthic_program::session::Session;
use benthic_program::units;
use clap::Args;
use serde_json::json;

/// Arguments of `benthic array ls`.
#[derive(Args)]
#[command(after_help = "\
Lists nothing below an array. Looks at the names of all objects; in a directory, not at those of most chunks. An array \
whose metadata are damaged or have an unknown type or codec is printed without a type, and its error goes to stderr.

Examples:
  benthic array ls climate
  benthic array ls climate/era5 --json")]
pub struct LsArgs {
    /// The pool or group: POOL[:NS][/GROUP]
    place: ArrayAddress,
}

pub async fn run(args: LsArgs, session: &Session) -> Outcome {
    let place = place(&args.place, session).await?;
    let mut failed: Option<Error> = None;
    for entry in benthic_array::list(&place).await? {
        let address = ArrayAddress { pool: args.place.pool.clone(), path: entry.path.clone() };
        let name = units::one_line(&address.to_string());
        let (text, value) = match &entry.node {
            Ok(Node::Array(array)) => (
                format!("{:<8} {:<24} {name}", array.format.dtype, shape(array)),
                json!({
                    "array": address.to_string(), "node": "array", "dtype": array.format.dtype.name(),
                    "shape": array.shape, "dimensions": array.dimensions,
                }),
            ),
            Ok(Node::Group(_)) => (
                format!("{:<8} {:<24} {name}", "group", ""),
                json!({ "array": address.to_string(), "node": "group" }),
            ),
            Err(error) => (
                format!("{:<8} {:<24} {name}", "-", "-"),
                json!({
                    "array": address.to_string(), "node": "unreadable", "kind": error.kind().row().name,
                    "message": error.to_string(),
                }),
            ),
        };
        session.out.result(text, || value)?;
        if let Err(error) = entry.node {
            // The program reports the last error when it exits. Print the earlier ones here.
            if let Some(before) = failed.replace(error) {
                session.out.error(&before, None);
            }
        }
    }
    failed.map_or(Ok(()), |error| Err(error.into()))
}

/// The shape with the names of the dimensions: `(time=8760, lat=720, 3)`.
pub fn shape(array: &ArrayMetadata) -> String {
    let axes: Vec<String> = array
        .dimensions
        .iter()
        .zip(&array.shape)
        .map(|(name, len)| match name {
            Some(name) => format!("{}={len}", units::one_line(name)),
            None => len.to_string(),
        })
        .collect();
    format!("({})", axes.join(", "))
}
