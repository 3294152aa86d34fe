//! Reads files on a separate thread, a few batches ahead.

use super::{Batch, Options, PoolObject, Source};
use benthic_core::{Error, Result, WORKER_THREAD};
use benthic_table::TableSchema;
use std::path::PathBuf;
use tokio::sync::mpsc::{Receiver, Sender, channel};

const AHEAD: usize = 3;

/// A file to read.
pub enum Input {
    Open(PathBuf, Source),
    /// A file to open after those before it were read.
    Path(PathBuf),
    /// An object, likewise.
    Object(PoolObject),
}

impl Input {
    /// Opens the input, and returns its name for messages.
    ///
    /// # Errors
    /// As [`Source::open`].
    pub fn open(self, options: &Options) -> Result<(PathBuf, Source)> {
        Ok(match self {
            Input::Open(path, source) => (path, source),
            Input::Path(path) => {
                let source = Source::open(&path, options)?;
                (path, source)
            }
            Input::Object(object) => (object.path(), Source::open_object(&object, options)?),
        })
    }
}

/// The batches of several files, one file after the other.
pub struct Feed {
    from: Receiver<Result<(PathBuf, Batch)>>,
}

impl Feed {
    /// The next batch and its file, or `None` at the end. Cancelling this call loses no batch.
    ///
    /// # Errors
    /// Errors of [`Source::open`] and [`Source::batches`]. Nothing follows an error.
    pub async fn next(&mut self) -> Result<Option<(PathBuf, Batch)>> {
        self.from.recv().await.transpose()
    }
}

/// Starts to read files for a table with these columns. The thread is never joined, because a read
/// from a terminal or pipe cannot be interrupted.
///
/// # Errors
/// `Unavailable` if the thread cannot be started.
pub fn feed(inputs: Vec<Input>, options: Options, known: TableSchema) -> Result<Feed> {
    let (to, from) = channel(AHEAD);
    let work = move || {
        if let Err(error) = read(inputs, &options, &known, &to) {
            // The receiver may be gone, and then nobody needs the error.
            let _ = to.blocking_send(Err(error));
        }
    };
    let started = std::thread::Builder::new().name(WORKER_THREAD.to_owned()).spawn(work);
    let failed = |error| Error::unavailable("cannot start a thread").with_source(error);
    started.map(|_| Feed { from }).map_err(failed)
}

type Fed = Result<(PathBuf, Batch)>;

fn read(inputs: Vec<Input>, options: &Options, known: &TableSchema, to: &Sender<Fed>) -> Result<()> {
    for input in inputs {
        let (path, source) = input.open(options)?;
        for batch in source.batches(known)? {
            if to.blocking_send(Ok((path.clone(), batch?))).is_err() {
                return Ok(());
            }
        }
    }
    Ok(())
}
