//! Writes groups of data objects again, with progress and a rate limit, for `compact` and
//! `rewrite`.

use super::limits::LimitArgs;
use benthic_core::{Error, ErrorKind, Result};
use benthic_program::exit::Outcome;
use benthic_program::interrupt;
use benthic_program::progress::Progress;
use benthic_program::session::Session;
use benthic_sql::cluster::Cluster;
use benthic_table::{FileEntry, Rewritten, RowStream, Snapshot, Table, WriterOptions};
use futures::stream::{StreamExt, TryStreamExt};

/// The objects that were written again.
#[derive(Default)]
pub struct Done {
    pub objects: u64,
    pub bytes: u64,
    pub commits: u64,
    /// Groups that other changes of the table prevented.
    pub conflicts: u64,
    pub is_limited_by_memory: bool,
}

impl Done {
    /// Warns if the memory limit made small objects.
    pub fn warn(&self, session: &Session) {
        if self.is_limited_by_memory {
            let message = "objects are smaller than half of the table's object size, because the rows compress well and the \
                memory was full; a larger --memory makes larger objects";
            session.out.warning(message);
        }
    }
}

/// Fails after a signal.
fn goes_on() -> Result<()> {
    interrupt::check().map_err(|_| Error::unavailable("a signal ended the command"))
}

/// Writes the objects again, clustered if the user wants it, and commits one group after the other.
/// After a failure or a signal, the groups before it stay. If other changes of the table prevent a
/// group, the next one follows.
pub async fn rewrite_groups(
    table: &Table,
    groups: &[Vec<FileEntry>],
    cluster: Option<&Cluster>,
    label: &str,
    limits: &LimitArgs,
    done: &mut Done,
) -> Outcome {
    let progress = Progress::bytes(label, groups.iter().flatten().map(FileEntry::all_bytes).sum());
    let options = WriterOptions { keeps_order: cluster.is_some(), ..limits.options() };
    let mut throttle = limits.throttle();
    let mut pace = async |bytes: u64| -> Result<()> {
        progress.advance(bytes);
        // Reading may not wait. Yield so that the task that watches for signals can run.
        tokio::task::yield_now().await;
        throttle.wait(bytes).await;
        goes_on()
    };
    let mut order =
        async |snapshot: &Snapshot, objects: &[FileEntry], rows: RowStream| -> Result<RowStream> {
            match cluster {
                // The first sorted row comes after the last call of `pace`.
                Some(cluster) => Ok(cluster
                    .order(snapshot, objects, rows)
                    .await?
                    .and_then(async |batch| {
                        tokio::task::yield_now().await;
                        goes_on().map(|()| batch)
                    })
                    .boxed()),
                None => Ok(rows),
            }
        };
    for group in groups {
        match table.rewrite_in_order(group, &options, &mut order, &mut pace).await {
            Ok(Rewritten { replaced, is_limited_by_memory }) => {
                done.is_limited_by_memory |= is_limited_by_memory;
                done.objects += replaced.len() as u64;
                done.bytes += replaced.iter().map(FileEntry::all_bytes).sum::<u64>();
                done.commits += u64::from(!replaced.is_empty());
            }
            Err(error) if error.kind() == ErrorKind::Conflict => done.conflicts += 1,
            Err(error) => {
                interrupt::check()?;
                return Err(error.into());
            }
        }
    }
    Ok(())
}
