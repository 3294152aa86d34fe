//! Chooses the data objects that a compaction writes again.

use crate::list::FileEntry;
use crate::snapshot::Snapshot;
use benthic_core::Result;
use futures::stream::TryStreamExt;
use std::collections::BTreeMap;

/// Limit of the bytes that one commit of a compaction writes again.
const GROUP_BYTES_MAX: u64 = 1024 * 1024 * 1024;

impl Snapshot {
    /// The data objects that a compaction should write again, in groups. Each group has objects of
    /// one partition, and at most about 1 GiB, so that a compaction commits one group after the
    /// other. Chosen are objects with deleted rows, and objects below half of the target size if a
    /// partition has several of them. With `all`, every object is chosen.
    ///
    /// # Errors
    /// `NotFound` if the snapshot was vacuumed, `Corrupt`.
    pub async fn to_compact(&self, all: bool) -> Result<Vec<Vec<FileEntry>>> {
        let small_bytes = self.object_bytes_target() / 2;
        let mut partitions: BTreeMap<Option<i64>, Vec<FileEntry>> = BTreeMap::new();
        let mut entries = self.entries();
        while let Some(entry) = entries.try_next().await? {
            if all || entry.deleted.is_some() || entry.bytes < small_bytes {
                partitions.entry(entry.partition).or_default().push(entry);
            }
        }
        let mut groups = Vec::new();
        for entries in partitions.into_values() {
            let mut group: Vec<FileEntry> = Vec::new();
            let mut group_bytes = 0;
            for entry in entries {
                if group_bytes >= GROUP_BYTES_MAX {
                    groups.push(std::mem::take(&mut group));
                    group_bytes = 0;
                }
                group_bytes += entry.bytes;
                group.push(entry);
            }
            groups.push(group);
        }
        groups.retain(|group| all || group.len() > 1 || group.iter().any(|entry| entry.deleted.is_some()));
        Ok(groups)
    }
}
