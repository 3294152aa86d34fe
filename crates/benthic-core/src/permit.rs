//! Limits how many long methods run at once in one process.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::available_parallelism;

static PERMITS_MAX: LazyLock<usize> =
    LazyLock::new(|| available_parallelism().map_or(1, |threads| threads.get().div_ceil(2).min(4)));

/// Permits for methods that take long, such as fragments of queries: half of the processors, at
/// most four. An OSD on a hard disk has five operation threads, so one stays free for plain reads
/// and writes. Every class has a `static` of its own.
#[derive(Debug, Default)]
pub struct Permits(AtomicUsize);

impl Permits {
    pub const fn new() -> Permits {
        Permits(AtomicUsize::new(0))
    }

    /// Takes a permit, or returns `None` if all are taken. The method then answers that it is busy.
    pub fn try_acquire(&'static self) -> Option<Permit> {
        let more = |taken| (taken < *PERMITS_MAX).then_some(taken + 1);
        self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).ok().map(|_| Permit(self))
    }
}

/// One of [`Permits`]; dropping it returns it.
#[derive(Debug)]
pub struct Permit(&'static Permits);

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::AcqRel);
    }
}
