//! Tags of snapshots, and rollback to one.

use crate::head::{Head, Operation, TAGS_MAX, check_index, drop_command};
use crate::ids::Id;
use crate::snapshot::{Snapshot, SnapshotSelector};
use crate::table::Table;
use benthic_core::{Error, Result};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Limit of a tag's name, in bytes of UTF-8.
pub const TAG_BYTES_MAX: usize = 100;

impl Table {
    /// Gives a snapshot a name, or moves the name from another one. A vacuum keeps snapshots with
    /// tags. Returns the snapshot's id.
    ///
    /// # Errors
    /// `InvalidArgument` for an invalid name; `LimitExceeded` for too many tags; `NotFound` if the
    /// snapshot does not exist; `Busy`.
    pub async fn tag(&self, name: &str, at: SnapshotSelector) -> Result<u64> {
        check_tag(name).map_err(|error| self.heads.add_context(error))?;
        let id = self.snapshot(at).await?.id();
        let add = |head: &mut Head| {
            if !head.snapshots.iter().any(|snapshot| snapshot.id == id) {
                return Err(Error::not_found("the snapshot was vacuumed meanwhile").with("snapshot", id));
            }
            head.tags.insert(name.to_owned(), id);
            if head.tags.len() > TAGS_MAX {
                let message = "the table has too many tags; remove one first";
                return Err(Error::limit_exceeded(message).with("tags_max", TAGS_MAX));
            }
            head.need_format_of_changes();
            Ok(())
        };
        self.commit(Id::draw(&self.environment)?, add).await.map(|_| id)
    }

    /// Removes a tag. Its snapshot stays until it is vacuumed.
    ///
    /// # Errors
    /// `NotFound` if the tag does not exist; `Busy`.
    pub async fn untag(&self, name: &str) -> Result<()> {
        // If the tag is gone after an attempt with an unknown outcome, this call has removed it.
        let mut removed = false;
        let remove = |head: &mut Head| {
            if !removed {
                head.snapshot_with_tag(name)?;
            }
            head.tags.remove(name);
            removed = true;
            Ok(())
        };
        self.commit(Id::draw(&self.environment)?, remove).await.map(|_| ())
    }

    /// The tags and their snapshots.
    ///
    /// # Errors
    /// `NotFound` if the table was dropped, `Corrupt`.
    pub async fn tags(&self) -> Result<BTreeMap<String, u64>> {
        Ok(self.head().await?.tags)
    }

    /// Adds a snapshot with the rows and columns of an earlier one. The snapshots in between stay.
    ///
    /// # Errors
    /// `NotFound` if the snapshot does not exist; `Unsupported` if an index has a column that the
    /// snapshot does not have; `Busy`.
    pub async fn rollback(&self, to: SnapshotSelector) -> Result<Snapshot> {
        let to = self.snapshot(to).await?.id();
        let (writer, now_ms) = (Id::draw(&self.environment)?, self.environment.unix_ms());
        let roll_back = |head: &mut Head| {
            if head.snapshots.iter().any(|snapshot| snapshot.writer == writer) {
                return Ok(());
            }
            let target = head.snapshots.iter().find(|snapshot| snapshot.id == to).cloned();
            let target = target.ok_or_else(|| {
                Error::not_found("the snapshot was vacuumed meanwhile").with("snapshot", to)
            })?;
            let schema = head.schema(target.schema);
            let schema = schema.ok_or_else(|| Error::internal("a snapshot has no schema"))?;
            if let Some(index) = head.indexes.iter().find(|index| check_index(index, schema).is_err()) {
                let message = format!(
                    "an index has a column that the snapshot does not have; drop the index first: {}",
                    drop_command(index)
                );
                let columns = index.columns.iter().filter_map(|id| head.current().ok()?.1.by_id(*id));
                let columns: Vec<&str> = columns.map(|column| column.name.as_str()).collect();
                return Err(Error::unsupported(message).with("index", columns.join(",")));
            }
            if head.layout.sort.iter().any(|id| schema.by_id(*id).is_none()) {
                let message = "the table is sorted by a column that the snapshot does not have; end the sort order first: \
                    benthic table rewrite POOL/TABLE --unsorted";
                return Err(Error::unsupported(message).with("snapshot", to));
            }
            let schema = schema.clone();
            head.layout.forget_columns(&schema);
            head.push_snapshot(Operation::Rollback, writer, now_ms, target.schema, target.lists);
            head.need_format_of_changes();
            Ok(())
        };
        let ((), head) = self.commit(writer, roll_back).await?;
        let head = Arc::new(head);
        let made = head.snapshots.iter().find(|snapshot| snapshot.writer == writer);
        Snapshot::new(self, &head, made.unwrap_or(head.current()?.0))
    }
}

fn check_tag(name: &str) -> Result<()> {
    let barred = |c: char| c.is_control() || c.is_whitespace();
    // A number would be a snapshot's id.
    match name.is_empty()
        || name.len() > TAG_BYTES_MAX
        || name.contains(barred)
        || name.starts_with(|c: char| c.is_ascii_digit())
    {
        true => {
            let message =
                "a tag has 1 to 100 bytes, no blanks or control characters, and does not begin with a digit";
            Err(Error::invalid_argument(message).with("tag", name))
        }
        false => Ok(()),
    }
}
