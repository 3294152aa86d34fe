//! Reading files on a thread of its own, a few batches ahead.

use super::{Batch, Options, Source};
use benthic_core::{Error, ErrorKind, Result, WORKER_THREAD};
use benthic_table::TableSchema;
use std::path::PathBuf;
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// Batches that are read ahead.
const AHEAD: usize = 3;

/// A file to read.
pub enum Input {
    /// One that is open already.
    Open(PathBuf, Source),
    /// One that is opened when those before it are read.
    Path(PathBuf),
}

/// Batches of files, one file after the other.
pub struct Feed {
    from: Receiver<Result<(PathBuf, Batch)>>,
}

impl Feed {
    /// The next batch and the file that it is of; none at the end. Dropping it between loses nothing.
    ///
    /// # Errors
    /// As [`Source::open`] and [`Source::batches`]; nothing comes after an error.
    pub async fn next(&mut self) -> Result<Option<(PathBuf, Batch)>> {
        self.from.recv().await.transpose()
    }
}

/// Starts to read files for a table with these columns. Nobody waits for the thread: a read from a terminal or pipe cannot
/// be woken.
///
/// # Errors
/// `Unavailable` if there are no more threads.
pub fn feed(inputs: Vec<Input>, options: Options, known: TableSchema) -> Result<Feed> {
    let (to, from) = channel(AHEAD);
    let work = move || {
        if let Err(error) = read(inputs, &options, &known, &to) {
            // Nobody wants to hear it if nobody listens any more.
            let _ = to.blocking_send(Err(error));
        }
    };
    let started = std::thread::Builder::new().name(WORKER_THREAD.to_owned()).spawn(work);
    let failed = |error| Error::new(ErrorKind::Unavailable, "cannot start a thread").with_source(error);
    started.map(|_| Feed { from }).map_err(failed)
}

type Fed = Result<(PathBuf, Batch)>;

fn read(inputs: Vec<Input>, options: &Options, known: &TableSchema, to: &Sender<Fed>) -> Result<()> {
    for input in inputs {
        let (path, source) = match input {
            Input::Open(path, source) => (path, source),
            Input::Path(path) => {
                let source = Source::open(&path, options)?;
                (path, source)
            }
        };
        for batch in source.batches(known)? {
            if to.blocking_send(Ok((path.clone(), batch?))).is_err() {
                return Ok(());
            }
        }
    }
    Ok(())
}
