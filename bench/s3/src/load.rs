//! Load from several connections. Each connection sends its next request when it has the answer to
//! the last.

use crate::client::{Client, Target};
use bench_harness::{Latencies, Outcome, in_flight, seconds, start};
use std::cell::RefCell;
use std::error::Error;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::time::Duration;

#[derive(Default)]
pub struct Load {
    /// From the first request to the last answer.
    pub seconds: f64,
    total: Latencies,
    first_byte: Latencies,
}

/// The end of a load: the limit that is reached first.
#[derive(Clone, Copy)]
pub struct Until {
    pub seconds: f64,
    pub count: u64,
}

impl Load {
    pub fn count(&self) -> u64 {
        self.total.count()
    }

    pub fn per_second(&self) -> f64 {
        self.count() as f64 / self.seconds
    }

    pub fn p99_ms(&self) -> f64 {
        self.total.quantile_ms(0.99)
    }

    pub fn first_byte_ms(&self, quantile: f64) -> f64 {
        self.first_byte.quantile_ms(quantile)
    }
}

/// Runs `operation` on `connections` connections. It gets the number of the operation and returns
/// the time to the first byte.
pub async fn run(
    target: &Rc<Target>,
    connections: u64,
    until: Until,
    operation: impl AsyncFn(&mut Client, u64) -> Outcome<Duration>,
) -> Outcome<Load> {
    let load = RefCell::new(Load::default());
    let stopwatch = start();
    let is_over = |count| count >= until.count || seconds(stopwatch) >= until.seconds;
    let timed = async |client: &mut Client, number| {
        let stopwatch = start();
        let first_byte = operation(client, number).await?;
        let mut load = load.borrow_mut();
        load.first_byte.record(first_byte);
        load.total.record(stopwatch.elapsed());
        Ok::<_, Box<dyn Error>>(ControlFlow::Continue(()))
    };
    in_flight((0..connections).map(|_| Client::new(target)), is_over, timed).await?;
    Ok(Load { seconds: seconds(stopwatch), ..load.into_inner() })
}
