//! `benthic array`: the verbs for arrays, one file each.

mod create;
mod export;
mod fsck;
mod index;
mod info;
mod ls;
mod plot;
mod read;
mod reduce;
mod regrid;
mod rm;
mod serve;

use benthic_array::{Array, ArrayAddress, Place, ReadStats};
use benthic_core::pushdown::Pushdown;
use benthic_core::{Result, Store};
use benthic_program::exit::{Failure, Outcome};
use benthic_program::progress::Progress;
use benthic_program::session::Session;
use benthic_program::{interrupt, units};
use clap::{Args, Subcommand, ValueEnum};
use std::time::Duration;

/// Examples of `benthic array`.
pub const EXAMPLES: &str = "An array is a Zarr array, version 3 or 2: its metadata and chunks are objects.\n\nExamples:\n  \
    benthic array create climate/era5 --from era5.nc\n  \
    benthic array ls climate\n  \
    benthic array info climate/era5/t2m\n  \
    benthic array reduce climate/era5/t2m mean --where lat=10:40,lon=0:90 --over time --out mean.npy";

/// The verbs of `benthic array`.
#[derive(Subcommand)]
pub enum ArrayCommand {
    /// Create arrays from a netCDF, HDF5 or GRIB file, or from a Zarr directory
    Create(create::CreateArgs),
    /// Copy an array or group into a Zarr directory
    Export(export::ExportArgs),
    /// List arrays and groups
    Ls(ls::LsArgs),
    /// Show an array: type, shape, chunks, codecs, attributes
    Info(info::InfoArgs),
    /// Print or save a part of an array
    Read(read::ReadArgs),
    /// Reduce an array: sum, mean, minimum and others; in the OSDs where that is faster
    Reduce(reduce::ReduceArgs),
    /// Regrid the last dimensions of an array with the weights of a file
    Regrid(regrid::RegridArgs),
    /// Draw a table of an array, coarsened beside the chunks
    Plot(plot::PlotArgs),
    /// Decode all chunks of an array, and look for stray objects
    Fsck(fsck::FsckArgs),
    /// Store the range of values of each chunk, so that reductions with --values skip chunks
    Index(index::IndexArgs),
    /// Remove an array or group
    Rm(rm::RmArgs),
    /// Serve Reductionist's API, for PyActiveStorage: reductions of chunks of netCDF and HDF5 files
    Serve(serve::ServeArgs),
}

pub async fn run(command: ArrayCommand, session: &Session) -> Outcome {
    match command {
        ArrayCommand::Create(args) => create::run(args, session).await,
        ArrayCommand::Export(args) => export::run(args, session).await,
        ArrayCommand::Ls(args) => ls::run(args, session).await,
        ArrayCommand::Info(args) => info::run(args, session).await,
        ArrayCommand::Read(args) => read::run(args, session).await,
        ArrayCommand::Reduce(args) => reduce::run(args, session).await,
        ArrayCommand::Regrid(args) => regrid::run(args, session).await,
        ArrayCommand::Plot(args) => plot::run(args, session).await,
        ArrayCommand::Fsck(args) => fsck::run(args, session).await,
        ArrayCommand::Index(args) => index::run(args, session).await,
        ArrayCommand::Rm(args) => rm::run(args, session).await,
        ArrayCommand::Serve(args) => serve::run(args, session).await,
    }
}

async fn place(address: &ArrayAddress, session: &Session) -> Result<Place> {
    let pool = session.pool(&address.pool.pool).await?;
    Ok(Place { pool, namespace: address.pool.namespace.clone(), path: address.path.clone() })
}

async fn open(address: &ArrayAddress, session: &Session) -> Result<Array> {
    Array::open(place(address, session).await?).await
}

/// Where chunks are reduced.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum PushdownArg {
    /// The faster way, measured while the command runs; in an embedded store, in this process
    Auto,
    /// Beside the chunks
    Always,
    /// In this process
    Never,
}

impl PushdownArg {
    fn in_store(self, store: &dyn Store) -> Pushdown {
        let pushdown = match self {
            PushdownArg::Auto => Pushdown::Auto,
            PushdownArg::Always => Pushdown::Always,
            PushdownArg::Never => Pushdown::Never,
        };
        pushdown.in_store(store)
    }
}

/// Options of the verbs that read chunks.
#[derive(Args)]
pub struct ReadingArgs {
    /// Where chunks are decoded and reduced
    #[arg(long, value_enum, default_value_t = PushdownArg::Auto, value_name = "WHERE")]
    pushdown: PushdownArg,
    /// Print on stderr how many chunks were touched, where they were decoded, and the bytes moved
    #[arg(long)]
    stats: bool,
}

impl ReadingArgs {
    async fn pushdown(&self, session: &Session) -> Result<Pushdown> {
        Ok(self.pushdown.in_store(&*session.store().await?))
    }

    #[expect(clippy::print_stderr, reason = "stdout has the values")]
    fn print_stats(&self, stats: &ReadStats, session: &Session) {
        if self.stats && !session.out.is_json() {
            eprintln!(
                "{}, {} reduced or selected by the class, {} not stored, {} skipped, {} moved",
                units::count(stats.chunks(), "chunk"),
                stats.pushed_chunks(),
                stats.missing_chunks(),
                stats.pruned_chunks(),
                units::size(stats.moved_bytes()),
            );
        }
    }
}

/// Time between two updates of a progress bar.
const REFRESH: Duration = Duration::from_millis(200);

/// Runs a read with a progress bar. Fails after a signal.
async fn watch<T>(what: &str, stats: &ReadStats, run: impl Future<Output = Result<T>>) -> Outcome<T> {
    let progress = Progress::steps(what, 0);
    watch_with(|| progress.set_position(stats.done_chunks(), stats.chunks()), run).await
}

/// Runs work whose progress a counter tells. Fails after a signal.
async fn watch_progress<T>(
    progress: &Progress,
    done: impl Fn() -> u64,
    run: impl Future<Output = Result<T>>,
) -> Outcome<T> {
    let mut shown = 0;
    watch_with(
        || {
            let now = done();
            progress.advance(now - shown);
            shown = now;
        },
        run,
    )
    .await
}

async fn watch_with<T>(mut show: impl FnMut(), run: impl Future<Output = Result<T>>) -> Outcome<T> {
    let refresh = async {
        loop {
            tokio::time::sleep(REFRESH).await;
            show();
        }
    };
    tokio::select! {
        done = run => Ok(done?),
        () = interrupt::wait() => Err(Failure::Interrupted),
        () = refresh => Err(Failure::Interrupted),
    }
}
