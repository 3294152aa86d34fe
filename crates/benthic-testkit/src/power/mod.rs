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
pub use record::{Event, Fault, Record, Recorder, What};
pub use workload::{Action, Script, mark, run};

/// A seeded random number generator (SplitMix64).
#[derive(Clone, Debug)]
pub struct Rng(pub u64);

impl Rng {
    /// Returns the next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// Returns a number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        (self.number() % end.max(1) as u64) as usize
    }

    /// Returns `true` with probability 1 / `places`.
    pub fn one_in(&mut self, places: usize) -> bool {
        self.below(places) == 0
    }

    /// Returns random bytes.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        let words = len.div_ceil(8);
        let mut bytes: Vec<u8> = (0..words).flat_map(|_| self.number().to_le_bytes()).collect();
        bytes.truncate(len);
        bytes
    }
}
