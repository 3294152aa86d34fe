//! What an engine is opened with.

use benthic_core::{ClassRegistry, Clock, MethodLimits, SystemClock};
use std::sync::Arc;

/// Options of both engines.
#[derive(Clone)]
pub struct Options {
    /// The classes that run beside the objects.
    pub classes: ClassRegistry,
    /// What one method call may use.
    pub method_limits: MethodLimits,
    /// Where modification times and deadlines come from.
    pub clock: Arc<dyn Clock>,
    /// Threads that run operations.
    pub workers: usize,
    /// Size of the write-ahead log at which a checkpoint begins.
    pub log_bytes_max: u64,
    /// Memory for blocks of the key-value store.
    pub cache_bytes: u64,
    /// How long a buffered operation may wait before it is written out.
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
            cache_bytes: 32 * 1024 * 1024,
            buffered_ms_max: 200,
        }
    }
}

impl Options {
    /// The same options with these classes.
    #[must_use]
    pub fn with_classes(mut self, classes: ClassRegistry) -> Options {
        self.classes = classes;
        self
    }
}
