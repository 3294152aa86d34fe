//! The options of an engine.

use benthic_core::{ClassRegistry, Clock, MethodLimits, SystemClock};
use std::sync::Arc;

/// Options of the directory engine and the memory engine.
#[derive(Clone)]
pub struct Options {
    pub classes: ClassRegistry,
    pub method_limits: MethodLimits,
    /// Clock for modification times and deadlines.
    pub clock: Arc<dyn Clock>,
    pub workers: usize,
    /// Size of the write-ahead log that triggers a checkpoint.
    pub log_bytes_max: u64,
    /// Size of the key-value store's changes in memory that triggers a checkpoint. After a crash,
    /// opening the store makes these changes again.
    pub changes_bytes_max: u64,
    /// In a group of operations of this size, the data of further buffered operations is not copied
    /// into the log. One more sync, of the data where it is stored, takes less time than so large a
    /// copy.
    pub logged_bytes_max: u64,
    /// Cache for blocks of the key-value store.
    pub cache_bytes: u64,
    /// Maximum age of a buffered operation before it is written to the log.
    pub buffered_ms_max: u64,
}

impl Default for Options {
    fn default() -> Options {
        let cores = std::thread::available_parallelism().map_or(4, usize::from);
        Options {
            classes: ClassRegistry::new(),
            method_limits: MethodLimits::default(),
            clock: Arc::new(SystemClock),
            workers: (2 * cores).clamp(8, 64),
            log_bytes_max: 64 * 1024 * 1024,
            changes_bytes_max: 16 * 1024 * 1024,
            logged_bytes_max: 256 * 1024,
            cache_bytes: 32 * 1024 * 1024,
            buffered_ms_max: 200,
        }
    }
}

impl Options {
    #[must_use]
    pub fn with_classes(mut self, classes: ClassRegistry) -> Options {
        self.classes = classes;
        self
    }
}
