//! Load by a number of connections, each of which sends its next request when it has the answer to the last.

use crate::Outcome;
use crate::client::{Client, Target};
use futures::future::try_join_all;
use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// What came of it.
#[derive(Default)]
pub struct Load {
    /// Operations that were done.
    pub count: u64,
    /// From the first request to the last answer.
    pub seconds: f64,
    total: Vec<Duration>,
    first_byte: Vec<Duration>,
}

/// When a load ends.
#[derive(Clone, Copy)]
pub struct Until {
    /// After so long.
    pub seconds: f64,
    /// After so many operations.
    pub count: u64,
}

impl Load {
    /// Operations per second.
    pub fn per_second(&self) -> f64 {
        self.count as f64 / self.seconds
    }

    /// Milliseconds that 99 in 100 operations took at most.
    pub fn p99_ms(&self) -> f64 {
        percentile_ms(&self.total, 99)
    }

    /// Milliseconds to the first byte of the answer, of so many in 100 at most.
    pub fn first_byte_ms(&self, percent: usize) -> f64 {
        percentile_ms(&self.first_byte, percent)
    }
}

/// Runs `operation` on so many connections. It is given the number of the operation, and gives the time to the first byte.
pub async fn run(
    target: &Rc<Target>,
    connections: u64,
    until: Until,
    operation: impl AsyncFn(&mut Client, u64) -> Outcome<Duration>,
) -> Outcome<Load> {
    let next = Cell::new(0);
    let started_at = Instant::now();
    let workers = (0..connections).map(async |_| -> Outcome<Load> {
        let mut client = Client::new(target);
        let mut load = Load::default();
        while next.get() < until.count && started_at.elapsed().as_secs_f64() < until.seconds {
            let number = next.replace(next.get() + 1);
            let operation_started_at = Instant::now();
            load.first_byte.push(operation(&mut client, number).await?);
            load.total.push(operation_started_at.elapsed());
        }
        Ok(load)
    });
    let mut all = Load::default();
    for load in try_join_all(workers).await? {
        all.total.extend(load.total);
        all.first_byte.extend(load.first_byte);
    }
    all.seconds = started_at.elapsed().as_secs_f64();
    all.count = all.total.len() as u64;
    all.total.sort_unstable();
    all.first_byte.sort_unstable();
    Ok(all)
}

fn percentile_ms(sorted: &[Duration], percent: usize) -> f64 {
    let index = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
    sorted.get(index).map_or(0.0, |time| time.as_secs_f64() * 1_000.0)
}
