//! The console's requests for arrays: lists, descriptions and pictures. The program `benthic array`
//! computes them.

use crate::commands::console::Console;
use crate::commands::console::data::sandbox;
use crate::commands::console::query::Query;
use crate::commands::console::reply::{Reply, json_reply, whole};
use crate::commands::{other, serving};
use benthic_core::names::check_pool_name;
use benthic_core::{Action, Error, Result};
use benthic_program::store::blocking;
use hyper::StatusCode;
use serde_json::{Value, json};
use std::ffi::OsString;

const ARRAYS_MAX: usize = 10_000;
/// Pixels along the longer side of a picture.
const PIXELS: usize = 640;
const PICTURE_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// The arrays and groups of a pool.
pub async fn list(console: &Console<'_>, query: &Query) -> Result<Reply> {
    let pool = query.required("pool")?;
    check_pool_name(pool)?;
    let args = ["array", "ls", "--", pool].map(OsString::from).into();
    let printed = console.children.list(&other::ARRAY, args, ARRAYS_MAX).await?;
    Ok(json_reply(&json!({ "arrays": printed.values::<Value>()?, "truncated": printed.is_cut })))
}

pub async fn show(console: &Console<'_>, query: &Query) -> Result<Reply> {
    let args = ["array", "info", "--", query.required("array")?].map(OsString::from).into();
    Ok(json_reply(&console.children.run(&other::ARRAY, args, 1).await?.value()?))
}

/// A picture of a plane of an array. Beside the chunks, it computes the mean of the values of each
/// pixel.
pub async fn plot(console: &Console<'_>, query: &Query) -> Result<Reply> {
    let directory = tempfile::tempdir()
        .map_err(|error| Error::io(Action::Write, "cannot create a directory for the picture", error))?;
    let file = directory.path().join("plot.png");
    let mut args: Vec<OsString> = vec!["array".into(), "plot".into(), format!("--pixels={PIXELS}").into()];
    args.extend(["--out".into(), file.clone().into()]);
    if !query.text("select").is_empty() {
        args.push(format!("--select={}", query.text("select")).into());
    }
    args.extend(["--".into(), query.required("array")?.into()]);
    console.children.run(&other::ARRAY, args, 100).await?;
    let picture = blocking(move || {
        let failed = |error| Error::io(Action::Read, "cannot read the picture", error);
        if std::fs::metadata(&file).map_err(failed)?.len() > PICTURE_BYTES_MAX {
            return Err(Error::limit_exceeded("the picture is too large"));
        }
        std::fs::read(&file).map_err(failed)
    });
    Ok(sandbox(whole(serving::answer(StatusCode::OK, "image/png", picture.await?))))
}
