//! Power cuts and failing disks.
//!
//! A child process runs with a library between it and its files (`power/record.c`, compiled by the test with `cc`), which
//! writes down every change below one directory in the order of its effect. From the [`Record`] a [`Disk`] builds what a
//! power cut could have left at any point: what was synced, and of what was not any sectors and any names. The process
//! says in the same record what was acknowledged to it, and [`History`] compares.
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

/// Numbers that a seed makes (SplitMix64).
#[derive(Clone, Debug)]
pub struct Rng(pub u64);

impl Rng {
    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// A number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        (self.number() % end.max(1) as u64) as usize
    }

    /// One of `places` times true.
    pub fn one_in(&mut self, places: usize) -> bool {
        self.below(places) == 0
    }

    /// Bytes that do not repeat.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        let words = len.div_ceil(8);
        let mut bytes: Vec<u8> = (0..words).flat_map(|_| self.number().to_le_bytes()).collect();
        bytes.truncate(len);
        bytes
    }
}
