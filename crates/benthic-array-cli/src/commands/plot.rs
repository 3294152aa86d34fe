//! `benthic array plot`: draws a table of an array, coarsened beside the chunks.

use super::{ReadingArgs, open, watch};
use crate::output::stats_json;
use crate::picture::Picture;
use crate::selection::{SelectionArgs, range};
use benthic_array::{
    Array, ArrayAddress, AxisRole, Bounded, Groups, NumberRange, ReadStats, Reduction, ReductionKind, Slice,
    Values,
};
use benthic_core::pushdown::Pushdown;
use benthic_core::{Error, ErrorKind, Result};
use benthic_program::exit::Outcome;
use benthic_program::local::NewFile;
use benthic_program::session::Session;
use benthic_program::units;
use clap::{Args, ValueEnum};
use colorous::Gradient;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use terminal_size::{Width, terminal_size};

/// The width of a printed picture if the output is no terminal.
const COLUMNS_DEFAULT: u64 = 80;
/// Limit on the lines of a printed picture.
const LINES_MAX: u64 = 40;
/// The values that a character shows, one above the other.
const VALUES_PER_LINE: u64 = 2;

/// Arguments of `benthic array plot`.
#[derive(Args)]
#[command(after_help = "\
Each pixel is the mean of a block of values, which is computed beside the chunks. The first dimension goes down and the second \
one to the right; if the first one has increasing coordinates, such as latitudes from south to north, it goes up. Missing \
values have no color. Without --out, the picture is printed with 24-bit colors.

Examples:
  benthic array plot climate/era5/t2m --select time=0
  benthic array plot climate/era5/t2m --select time=0 --where lat=30:60 --out t2m.png --colors turbo --range 250:310")]
pub struct PlotArgs {
    /// The array: POOL[:NS]/PATH
    array: ArrayAddress,
    #[command(flatten)]
    selection: SelectionArgs,
    /// Save the picture in this file
    #[arg(long, value_name = "FILE.png")]
    out: Option<PathBuf>,
    /// Pixels along the longer side of the file's picture, at most
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(16..=16_384))]
    pixels: u32,
    /// The colors from the smallest to the largest value
    #[arg(long, value_enum, default_value_t = Colors::Viridis)]
    colors: Colors,
    /// The values of the first and the last color; by default those of the picture
    #[arg(long, value_name = "MIN:MAX", value_parser = range, allow_hyphen_values = true)]
    range: Option<NumberRange>,
    #[command(flatten)]
    reading: ReadingArgs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Colors {
    Viridis,
    Magma,
    Turbo,
    Greys,
    /// Blue, white, red
    BlueRed,
}

impl Colors {
    /// The gradient, and whether it runs from the largest to the smallest value.
    fn gradient(self) -> (Gradient, bool) {
        match self {
            Colors::Viridis => (colorous::VIRIDIS, false),
            Colors::Magma => (colorous::MAGMA, false),
            Colors::Turbo => (colorous::TURBO, false),
            Colors::Greys => (colorous::GREYS, false),
            Colors::BlueRed => (colorous::RED_BLUE, true),
        }
    }
}

pub async fn run(args: PlotArgs, session: &Session) -> Outcome {
    if args.out.is_none() && session.out.is_json() {
        return Err(Error::invalid_argument("--json prints no picture; save it with --out FILE.png").into());
    }
    let array = open(&args.array, session).await?;
    let pushdown = args.reading.pushdown(session).await?;
    let slices = args.selection.resolve(&array, pushdown).await?;
    let [down, right] = shown_axes(&array, &slices)?;
    let limits = match args.out {
        Some(_) => [args.pixels.into(); 2],
        None => [
            LINES_MAX * VALUES_PER_LINE,
            terminal_size().map_or(COLUMNS_DEFAULT, |(Width(columns), _)| columns.into()),
        ],
    };
    let lens = [slices[down].count, slices[right].count];
    let neighbours = lens[0].div_ceil(limits[0]).max(lens[1].div_ceil(limits[1]));
    let mut axes = vec![AxisRole::Reduce {}; slices.len()];
    for axis in [down, right] {
        axes[axis] = AxisRole::Group { groups: Groups::of_neighbours(slices[axis].count, neighbours)? };
    }
    let (kind, decoding) = (ReductionKind::Mean {}, args.selection.decoding(&array)?);
    let reduction = Reduction { kind, axes: Bounded(axes), skip_nan: true, decoding };
    let stats = Arc::new(ReadStats::default());
    let means = watch("reducing", &stats, array.reduce(&slices, reduction, pushdown, &stats)).await?;
    let goes_up = goes_up(&array, down, slices[down], pushdown).await?;
    let picture = picture(&means, goes_up, args.range, args.colors)?;
    args.reading.print_stats(&stats, session);
    let Picture { columns, min, max, .. } = picture;
    let rows = picture.rows();
    let unit = array.metadata().attributes.get("units").and_then(Value::as_str).unwrap_or_default();
    let text = format!(
        "{}: {rows} × {columns} means of {neighbours} × {neighbours} values, with colors from {} to {} {unit}",
        args.array,
        short(min),
        short(max),
    );
    let text = units::one_line(text.trim_end());
    let Some(path) = args.out else {
        session.out.note(picture.text())?;
        return session.out.note(text);
    };
    let value_pixels = (args.pixels as usize / rows.max(columns)).max(1);
    NewFile::write_whole(&path, &picture.png(value_pixels)?)?;
    session.out.result(format!("{}\n{text}", units::one_line_path(&path)), || {
        json!({
            "array": args.array.to_string(), "out": path, "rows": rows, "columns": columns,
            "neighbours": neighbours, "min": min, "max": max, "stats": stats_json(&stats),
        })
    })
}

/// A number with six significant digits.
fn short(number: f64) -> f64 {
    format!("{number:.5e}").parse().unwrap_or(number)
}

/// The two axes of the picture.
fn shown_axes(array: &Array, slices: &[Slice]) -> Result<[usize; 2]> {
    let mut axes: Vec<usize> = (0..slices.len()).filter(|axis| slices[*axis].count != 1).collect();
    if axes.len() < 2 && slices.len() == 2 {
        axes = vec![0, 1];
    }
    let [down, right] = axes[..] else {
        let message = "a picture needs two dimensions with more than one position each; select one position \
                       along the others, for example with --select time=0";
        let dimensions: Vec<String> = array.metadata().dimensions.iter().flatten().cloned().collect();
        return Err(Error::invalid_argument(message).with("dimensions", dimensions.join(",")));
    };
    if slices[down].count == 0 || slices[right].count == 0 {
        return Err(Error::invalid_argument("the selection is empty; there is nothing to draw"));
    }
    Ok([down, right])
}

/// Whether the axis has coordinates that increase.
async fn goes_up(array: &Array, axis: usize, selected: Slice, pushdown: Pushdown) -> Result<bool> {
    if selected.count < 2 {
        return Ok(false);
    }
    let ends = Slice { step: (selected.count - 1) * selected.step, count: 2, ..selected };
    match array.coordinates(axis, ends, pushdown).await {
        Ok(coordinates) => Ok(coordinates.values.first() < coordinates.values.last()),
        // Without coordinates, positions go down.
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::InvalidArgument) => Ok(false),
        Err(error) => Err(error),
    }
}

fn picture(means: &Values, goes_up: bool, range: Option<NumberRange>, colors: Colors) -> Result<Picture> {
    let columns = means.shape.last().map_or(1, |columns| *columns as usize);
    let values: Vec<f64> = means.float64s().collect();
    let mut rows: Vec<&[f64]> = values.chunks(columns).collect();
    if goes_up {
        rows.reverse();
    }
    let finite = || values.iter().copied().filter(|value| value.is_finite());
    let (least, most) = (finite().fold(f64::INFINITY, f64::min), finite().fold(f64::NEG_INFINITY, f64::max));
    if least > most {
        return Err(Error::invalid_argument("all selected values are missing; there is nothing to draw"));
    }
    let range = range.unwrap_or(NumberRange { min: least, max: most });
    let end = |end: f64, default: f64| if end.is_finite() { end } else { default };
    let (gradient, is_reversed) = colors.gradient();
    // A given end may lie beyond all values.
    let (min, max) = (end(range.min, least.min(range.max)), end(range.max, most.max(range.min)));
    Ok(Picture { values: rows.concat(), columns, min, max, gradient, is_reversed })
}
