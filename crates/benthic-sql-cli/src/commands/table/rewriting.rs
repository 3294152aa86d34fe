//! Writes groups of data objects again, with progress and a rate limit, for `compact` and `rewrite`.

use benthic_core::{Error, ErrorKind, Result};
use benthic_program::exit::Outcome;
use benthic_program::interrupt;
use benthic_program::progress::Progress;
use benthic_program::units::parse_size;
use benthic_table::{FileEntry, Table, WriterOptions};
use clap::Args;
use std::time::Duration;

/// Shorter waits add up before the program waits.
const WAIT_MIN: Duration = Duration::from_millis(20);

/// Limits of the work, for other users of the machine and the cluster.
#[derive(Args)]
pub struct LimitArgs {
    /// Read objects at most at this rate per second, such as 20MiB; about as much is written
    #[arg(long, value_name = "SIZE", value_parser = parse_rate)]
    rate: Option<u64>,
    /// Memory for rows that wait for their object to fill; encoding takes a few object sizes more
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "256MiB")]
    memory: u64,
}

fn parse_rate(text: &str) -> std::result::Result<u64, String> {
    match parse_size(text)? {
        0 => Err("the rate must be at least 1 byte a second".to_owned()),
        rate => Ok(rate),
    }
}

/// The objects that were written again.
#[derive(Default)]
pub struct Done {
    pub objects: u64,
    pub bytes: u64,
    pub commits: u64,
}

/// Writes the objects again, and commits one group after the other. After a failure or a signal, the
/// groups before it stay.
pub async fn rewrite_groups(
    table: &Table,
    groups: &[Vec<FileEntry>],
    label: &str,
    limits: &LimitArgs,
    done: &mut Done,
) -> Outcome {
    let progress = Progress::bytes(label, groups.iter().flatten().map(|entry| entry.bytes).sum());
    let buffer_bytes_max = usize::try_from(limits.memory).unwrap_or(usize::MAX);
    let options = WriterOptions { buffer_bytes_max, ..WriterOptions::default() };
    let mut debt = Duration::ZERO;
    let mut pace = async |bytes: u64| -> Result<()> {
        progress.advance(bytes);
        // Encoding never waits. Yield so that the task that watches for signals can run.
        tokio::task::yield_now().await;
        debt +=
            limits.rate.map_or(Duration::ZERO, |rate| Duration::from_secs_f64(bytes as f64 / rate as f64));
        if debt >= WAIT_MIN {
            tokio::select! {
                () = tokio::time::sleep(debt) => {}
                () = interrupt::wait() => {}
            }
            debt = Duration::ZERO;
        }
        interrupt::check().map_err(|_| Error::new(ErrorKind::Unavailable, "a signal ended the command"))
    };
    for group in groups {
        match table.rewrite(group, &options, &mut pace).await {
            Ok(replaced) => {
                done.objects += replaced.len() as u64;
                done.bytes += replaced.iter().map(|entry| entry.bytes).sum::<u64>();
                done.commits += u64::from(!replaced.is_empty());
            }
            Err(error) => {
                interrupt::check()?;
                return Err(error.into());
            }
        }
    }
    Ok(())
}
