//! Limits on the rate and the memory of loads, compactions and rewrites.

use benthic_program::interrupt;
use benthic_program::units::parse_size;
use benthic_table::WriterOptions;
use clap::Args;
use std::time::Duration;

/// Shorter waits add up before the program waits.
const WAIT_MIN: Duration = Duration::from_millis(20);

/// With less, objects would be small and would be compacted again.
const MEMORY_MIN: u64 = 16 * 1024 * 1024;

/// Limits of the work, for other users of the machine and the cluster.
#[derive(Args, Clone, Copy)]
pub struct LimitArgs {
    /// Read at most this many bytes per second, on average, such as 20MiB; a compaction or a
    /// rewrite writes about as much
    #[arg(long, value_name = "SIZE", value_parser = parse_rate)]
    rate: Option<u64>,
    /// Memory for rows that wait for their object to fill; the command takes about twice this, and
    /// a few objects
    #[arg(long, value_name = "SIZE", value_parser = parse_memory, default_value = "256MiB")]
    memory: u64,
}

impl LimitArgs {
    pub fn options(&self) -> WriterOptions {
        let buffer_bytes_max = usize::try_from(self.memory).unwrap_or(usize::MAX);
        WriterOptions { buffer_bytes_max, ..WriterOptions::default() }
    }

    pub fn throttle(&self) -> Throttle {
        Throttle { rate: self.rate, debt: Duration::ZERO }
    }
}

fn parse_memory(text: &str) -> Result<u64, String> {
    match parse_size(text)? {
        memory if memory < MEMORY_MIN => Err("the memory must be at least 16MiB".to_owned()),
        memory => Ok(memory),
    }
}

fn parse_rate(text: &str) -> Result<u64, String> {
    match parse_size(text)? {
        0 => Err("the rate must be at least 1 byte a second".to_owned()),
        rate => Ok(rate),
    }
}

/// Delays work so that it reads at most this many bytes per second.
pub struct Throttle {
    rate: Option<u64>,
    debt: Duration,
}

impl Throttle {
    /// Waits as long as reading these bytes may take, or until a signal.
    pub async fn wait(&mut self, bytes: u64) {
        let Some(rate) = self.rate else { return };
        self.debt += Duration::from_secs_f64(bytes as f64 / rate as f64);
        if self.debt >= WAIT_MIN {
            tokio::select! {
                () = tokio::time::sleep(self.debt) => {}
                () = interrupt::wait() => {}
            }
            self.debt = Duration::ZERO;
        }
    }
}
