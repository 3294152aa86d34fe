//! Simulated power cuts and disk failures.
//!
//! The test compiles a C library (`power/record.c`, with `cc`) and loads it into a child process
//! between the process and its files. The library records every change below one directory, in the
//! order in which the changes took effect. From this [`Record`], a [`Disk`] builds the trees that a
//! power cut could have left at any point: all synced changes, and any selection of unsynced
//! sectors and names. The process writes the acknowledgements that it received into the same
//! record, and [`History`] checks the reopened store against them.
//!
//! ```text
//! let record = Recorder::build(dir)?.run(command, &store_dir)?;
//! let mut disk = Disk::new(&record, Syncs::All);
//! disk.advance(point); disk.cut(&mut rng).write(&state_dir)?;
//! History::of(&record, actions).check(&store, point)?;
//! ```

mod disk;
mod history;
mod record;
mod workload;

pub use disk::{Cut, Disk, FileTree, Sync};
pub use history::History;
pub use record::{Call, Event, Fault, Record, Recorder};
pub use workload::{Action, Script, mark, run};
