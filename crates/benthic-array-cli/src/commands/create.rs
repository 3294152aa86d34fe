//! `benthic array create`: makes arrays from a netCDF, HDF5 or GRIB file, or from a Zarr directory.

use super::{place, watch_progress};
use crate::directory::Directory;
use crate::load::{self, Layout};
use crate::reference::SourceFile;
use crate::source;
use benthic_array::{ArrayAddress, Compressor, WriteStats};
use benthic_core::{Error, Result};
use benthic_program::exit::{Failure, Outcome};
use benthic_program::progress::Progress;
use benthic_program::session::Session;
use benthic_program::store::blocking;
use benthic_program::units;
use clap::{Args, ValueEnum};
use serde_json::json;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Arguments of `benthic array create`.
#[derive(Args)]
#[command(after_help = "\
SOURCE is one of:
  FILE.nc           netCDF, classic or version 4
  FILE.nc:VARIABLE  one variable, and its coordinates
  FILE.h5           HDF5
  FILE.h5:/GROUP/X  one dataset, and the scales of its dimensions
  FILE.grib         GRIB, edition 1 or 2; FILE.grib:VARIABLE as for netCDF
  DIR               a Zarr directory; its files are copied unchanged

A file becomes a group with an array for each variable, and its groups become groups in it. The command skips texts, \
compound and other types that arrays lack, and prints what it skipped. Chunks that have only the fill value are not \
stored. Messages of a GRIB file with the same parameter, type of level and grid become one array.

The array appears when it is complete: its metadata are written last. The command fails if objects exist at PATH already; \
--overwrite removes them first. The old array is thus removed before the new one is complete. Repeat an interrupted command with \
--overwrite, which starts again. Two commands with the same PATH must not overlap if one has --overwrite.

Without --chunks, arrays keep the chunks of the file if these have 1 to 16 MiB; other chunks become about 4 MiB large. \
blosc means Blosc with zstd and a shuffle, which compresses numbers best.

--reference stores the file unchanged at PATH/FILE, and the arrays refer to it: their chunks are ranges of the file. \
Files of more than 32 MiB are several objects. Arrays whose chunks have at most 4 KiB are copied, and so are those with \
other filters than gzip, shuffle, fletcher32, zstd and Blosc, for which the command prints the reason. A message of a \
GRIB file is a chunk.

Examples:
  benthic array create climate/era5 --from era5.nc
  benthic array create climate/era5 --from era5.nc --reference
  benthic array create climate/forecast --from forecast.grib2 --reference
  benthic array create climate/t2m --from era5.nc:t2m --chunks 24,180,360
  benthic array create climate/era5 --from ./era5.zarr --overwrite")]
pub struct CreateArgs {
    /// The new group: POOL[:NS]/PATH
    place: ArrayAddress,
    /// The file, a variable in it, or a Zarr directory
    #[arg(long, value_name = "SOURCE")]
    from: String,
    /// Lengths of a chunk, for arrays with this number of axes; other arrays get the default
    #[arg(long, value_name = "LEN,…", value_delimiter = ',')]
    chunks: Vec<NonZeroU64>,
    /// How chunks are compressed [default: blosc]
    #[arg(long, value_enum, value_name = "CODEC")]
    codec: Option<CodecArg>,
    /// Store the file unchanged, and refer to the chunks in it
    #[arg(long, conflicts_with_all = ["chunks", "codec"])]
    reference: bool,
    /// Remove all objects at PATH first: an array, a group, or the remains of an interrupted
    /// command
    #[arg(long)]
    overwrite: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum CodecArg {
    /// Blosc with zstd and a shuffle of bytes
    Blosc,
    Zstd,
    Gzip,
    /// No compression
    None,
}

impl From<CodecArg> for Compressor {
    fn from(codec: CodecArg) -> Compressor {
        match codec {
            CodecArg::Blosc => Compressor::Blosc,
            CodecArg::Zstd => Compressor::Zstd,
            CodecArg::Gzip => Compressor::Gzip,
            CodecArg::None => Compressor::None,
        }
    }
}

pub async fn run(args: CreateArgs, session: &Session) -> Outcome {
    if args.place.path.is_empty() {
        return Err(Failure::Usage("name the group to create: POOL[:NS]/PATH".to_owned()));
    }
    let (path, variable) = split(&args.from);
    if path.is_dir() && (!args.chunks.is_empty() || args.codec.is_some() || args.reference) {
        let message = "a Zarr directory is copied unchanged; --chunks, --codec and --reference are for netCDF, \
            HDF5 and GRIB files";
        return Err(Failure::Usage(message.to_owned()));
    }
    session.check_writable().await?;
    let place = place(&args.place, session).await?;
    let stats = Arc::new(WriteStats::default());
    let created = if path.is_dir() {
        if let Some(variable) = variable {
            return Err(Failure::Usage(format!(
                "a Zarr directory has no variables; use --from {}",
                path.join(&variable).display()
            )));
        }
        let directory = blocking(move || Directory::scan(&path)).await?;
        print_skipped(directory.skipped.iter(), session);
        let progress = Progress::bytes("copying", directory.size_bytes());
        let copy = directory.copy(&place, args.overwrite, &stats);
        watch_progress(&progress, || stats.done_bytes(), copy).await?
    } else {
        let file = args.reference.then(|| SourceFile::open(&path)).transpose()?;
        let (mut root, skipped) = {
            let path = path.clone();
            blocking(move || source::open(&path)).await?
        };
        if let Some(variable) = variable {
            root = root.select(&variable, &skipped)?;
            let attributes = format!("{}@", variable.trim_matches('/'));
            print_skipped(skipped.iter().filter(|skipped| skipped.path.starts_with(&attributes)), session);
        } else {
            print_skipped(skipped.iter(), session);
        }
        let layout = Layout {
            chunks: args.chunks.iter().map(|len| len.get()).collect(),
            compressor: args.codec.map_or(Compressor::Blosc, Compressor::from),
            file,
        };
        layout.check(&root)?;
        let plan = {
            let (place, stats) = (place.clone(), Arc::clone(&stats));
            blocking(move || load::Plan::new(&place, root, &layout, &stats)).await?
        };
        for copied in &plan.copied {
            let text = format!("copied {}: {}", copied.path, copied.reason);
            session.out.warning(units::no_control(&text));
        }
        let progress = Progress::bytes("writing", plan.size_bytes());
        watch_progress(&progress, || stats.done_bytes(), plan.run(&place, args.overwrite, &stats)).await?
    };
    let address = args.place.to_string();
    let mut text = format!(
        "{}: {}, {} stored with {}",
        units::one_line(&address),
        units::count(created.arrays, "array"),
        units::count(stats.chunks(), "chunk"),
        units::size(stats.stored_bytes()),
    );
    if let Some(file) = &created.file {
        text += &format!(
            "; {} in the file {}: {} with {}",
            units::count(created.in_file, "array"),
            units::one_line(&file.name),
            units::count(file.objects, "object"),
            units::size(file.size_bytes),
        );
    }
    session.out.result(text, || {
        let mut value = json!({
            "array": address, "arrays": created.arrays, "groups": created.groups, "chunks": stats.chunks(),
            "stored_bytes": stats.stored_bytes(), "bytes": stats.done_bytes(),
        });
        if let Some(file) = &created.file {
            value["arrays_in_file"] = json!(created.in_file);
            value["file"] =
                json!({ "object": file.name, "objects": file.objects, "size_bytes": file.size_bytes });
        }
        value
    })
}

fn print_skipped<'a>(skipped: impl Iterator<Item = &'a source::Skipped>, session: &Session) {
    skipped.for_each(|skipped| session.out.warning(units::no_control(&skipped.to_string())));
}

/// The path and the variable of a source. A file's name may have colons, too.
fn split(source: &str) -> (PathBuf, Option<String>) {
    if !Path::new(source).exists() {
        let mut colons = source.match_indices(':').map(|(at, _)| source.split_at(at));
        if let Some((path, variable)) = colons.find(|(path, _)| Path::new(path).exists()) {
            return (path.into(), Some(variable[1..].to_owned()));
        }
    }
    (source.into(), None)
}

impl Layout {
    /// Fails if `--chunks` fits no array.
    fn check(&self, root: &source::SourceGroup) -> Result<()> {
        if self.chunks.is_empty() || root.has_array_with(self.chunks.len()) {
            return Ok(());
        }
        let message = "no array has as many axes as --chunks has lengths";
        Err(Error::invalid_argument(message).with("lengths", self.chunks.len()))
    }
}
