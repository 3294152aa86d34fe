//! Runs statements that change tables.

use super::statement::TableName;
use super::{ATTEMPTS_MAX, Change, Changed, change_rows, delete_everything, insert};
use crate::session::SqlSession;
use crate::work::Work;
use arrow::datatypes::Schema;
use benthic_core::{Error, ErrorKind, Result};
use benthic_table::{Definition, FileEntry, Snapshot, Table, WriterOptions, drop_table};
use parking_lot::Mutex;
use std::sync::Arc;

/// The table that a statement changes, in the snapshot that the statement sees.
pub struct Target {
    pub snapshot: Snapshot,
    pub name: TableName,
    /// The objects that the scan of the target reads.
    pub objects: Arc<Mutex<Vec<FileEntry>>>,
}

impl SqlSession {
    /// Runs a statement that changes a table. If another change comes first, runs it again.
    pub(crate) async fn change(&self, change: &Change, work: &Arc<Work>) -> Result<Changed> {
        work.note_change();
        let mut attempts = 1;
        loop {
            match self.try_change(change, work).await {
                Err(error) if error.kind() == ErrorKind::Conflict && attempts < ATTEMPTS_MAX => {
                    attempts += 1;
                }
                outcome => return outcome,
            }
        }
    }

    async fn try_change(&self, change: &Change, work: &Arc<Work>) -> Result<Changed> {
        let of_table =
            |name: &TableName, error: Error| error.with("table", format!("{}/{}", name.pool, name.table));
        match change {
            Change::Insert { table, columns, query } => {
                let snapshot = self.snapshot(&table.pool, &table.table).await?;
                let rows = self.start_part(query, work, None).await?;
                let writer = snapshot.table().writer(WriterOptions::default()).await?;
                let inserted = insert(writer, columns, rows, work).await;
                inserted.map_err(|error| of_table(table, error))
            }
            Change::Create { table, if_not_exists, query } => {
                let pool = self.pool(&table.pool).await?;
                let rows = self.start_part(query, work, None).await?;
                // As in other databases, a literal does not make its column NOT NULL.
                let schema = rows.schema();
                let fields = schema.fields().iter().map(|field| field.as_ref().clone().with_nullable(true));
                let definition = Definition::new(&Schema::new(fields.collect::<Vec<_>>()))?;
                let environment = self.settings.environment.clone();
                let created = Table::create(Arc::clone(&pool), &table.table, &definition, environment).await;
                let created = match created {
                    Err(error) if error.kind() == ErrorKind::AlreadyExists && *if_not_exists => {
                        let existing = self.snapshot(&table.pool, &table.table).await?;
                        return Ok(Changed { snapshot: existing.id(), ..Changed::default() });
                    }
                    created => created?,
                };
                let writer = created.writer(WriterOptions::default()).await?;
                let inserted = insert(writer, &[], rows, work).await;
                if inserted.is_err() {
                    // Nobody knows the table yet. If this fails, an empty table remains.
                    let dropped = drop_table(pool, &table.table, true, &self.settings.environment).await;
                    if let Err(left) = dropped {
                        tracing::warn!(%left, "an empty table remains; `benthic table drop` removes it");
                    }
                }
                inserted.map_err(|error| of_table(table, error))
            }
            Change::Rows(rows) => {
                let snapshot = self.snapshot(&rows.table.pool, &rows.table.table).await?;
                if rows.is_everything {
                    return delete_everything(&snapshot).await;
                }
                let columns = snapshot.schema().columns().iter().map(|column| column.name.as_str());
                let query =
                    rows.query(&columns.collect::<Vec<_>>()).map_err(|error| of_table(&rows.table, error))?;
                let objects = Arc::default();
                let target = Target {
                    snapshot: snapshot.clone(),
                    name: rows.table.clone(),
                    objects: Arc::clone(&objects),
                };
                let found = self.start_part(&query, work, Some(&target)).await?;
                let changed = change_rows(&snapshot, rows.operation, found, &objects, work).await;
                changed.map_err(|error| of_table(&rows.table, error))
            }
        }
    }
}
