//! Tables that a client creates together with their first rows, as `CREATE TABLE … AS SELECT` does.
//!
//! The client first gets the metadata of a table that does not exist yet. It uploads files into the
//! table's folder, and then commits the table and its rows at once. The first request stores
//! nothing: the table's id is in the location that the client gets, and comes back with the commit.
//! A tag within the id shows that a server has drawn it for this name.

use super::changes::manifest_list;
use super::{Catalog, Failure};
use crate::commit::commit;
use crate::iceberg::definition;
use crate::iceberg::keys::{BUCKET, Folder};
use crate::iceberg::metadata::{table_metadata, uuid};
use crate::iceberg::view::TableView;
use benthic_core::{Environment, Error, ErrorKind, OptionalExtension};
use benthic_s3::grants::Grant;
use benthic_table::head::Head;
use benthic_table::{Definition, Table};
use serde_json::{Value, json};

impl Catalog {
    /// The metadata of a table that the client will create.
    pub(super) async fn stage(
        &self,
        grant: &Grant,
        namespace: &str,
        name: &str,
        definition: &Definition,
    ) -> Result<Value, Failure> {
        self.views.store().open_pool(namespace).await?;
        let found = TableView::open(&**self.views.store(), namespace, name).await.optional();
        if found.map_err(Failure::of_table)?.is_some() {
            let error = Error::already_exists("the table already exists");
            return Err(Failure::of_table(error.with("table", format!("{namespace}/{name}"))));
        }
        let id = self.auth.draw_table_id(namespace, name)?;
        let folder = Folder { pool: namespace.to_owned(), table: name.to_owned(), id };
        let now_ms = Environment::default().unix_ms();
        let head = Head::new(id, definition, id, now_ms).map_err(Failure::of_table)?;
        let first = head.current().map_err(Failure::of_table)?.0.id;
        let mut metadata = table_metadata(&folder, &head, first, self.format).map_err(Failure::of_table)?;
        // The client's snapshot will be the first one.
        if let Some(metadata) = metadata.as_object_mut() {
            metadata.remove("current-snapshot-id");
            metadata.insert("last-sequence-number".to_owned(), json!(0));
            metadata.insert("refs".to_owned(), json!({}));
            for name in ["snapshots", "snapshot-log"] {
                metadata.insert(name.to_owned(), json!([]));
            }
        }
        let config = self.config(grant, &folder);
        Ok(json!({
            "metadata": metadata,
            "config": config,
            "storage-credentials": [{ "prefix": format!("{}/", folder.location()), "config": config }],
        }))
    }

    /// Creates a table with the rows that a client has uploaded. If it fails, no table remains.
    pub(super) async fn create_with_rows(
        &self,
        namespace: &str,
        name: &str,
        updates: &[Value],
    ) -> Result<(), Failure> {
        let new = NewTable::of(updates)?;
        let folder = new.location.strip_prefix(&format!("s3://{BUCKET}/")).and_then(Folder::parse);
        let is_own =
            |folder: &Folder| folder.pool == namespace && folder.table == name && self.auth.drew(folder);
        let Some(Folder { id, .. }) = folder.filter(is_own) else {
            return Err(Failure::bad_request("the catalog has given no such location for the table"));
        };
        if new.uuid.is_some_and(|given| given != uuid(id)) {
            return Err(Failure::bad_request("the catalog has given another UUID for the table"));
        }
        let definition = definition::of_request(&new.request).map_err(Failure::of_table)?;
        let pool = self.views.store().open_pool(namespace).await?;
        let created = Table::create_as(pool, name, &definition, Environment::default(), id).await;
        let created = created.map_err(Failure::of_commit)?;
        let Some(manifest_list) = new.manifest_list else { return Ok(()) };
        let filled = async {
            let view = TableView::open(&**self.views.store(), namespace, name).await?;
            commit(&view, &self.staging, manifest_list, true).await
        };
        let Err(error) = filled.await else { return Ok(()) };
        if error.kind() != ErrorKind::OutcomeUnknown
            && let Err(left) = created.drop_unchanged().await
        {
            tracing::warn!(%left, "a table remains without these rows; `benthic table drop` removes it");
        }
        Err(Failure::of_commit(error))
    }
}

/// The definition of a table in the commit that creates it.
struct NewTable<'u> {
    location: &'u str,
    uuid: Option<&'u str>,
    /// The definition, as in a request to create a table.
    request: Value,
    manifest_list: Option<&'u str>,
}

impl<'u> NewTable<'u> {
    fn of(updates: &'u [Value]) -> Result<NewTable<'u>, Failure> {
        let (mut request, mut uuid, mut location) = (json!({}), None, None);
        let (mut snapshots, mut main) = (Vec::new(), None);
        for update in updates {
            match update["action"].as_str().unwrap_or_default() {
                "add-schema" => request["schema"] = update["schema"].clone(),
                "add-spec" => request["partition-spec"] = update["spec"].clone(),
                "add-sort-order" => request["write-order"] = update["sort-order"].clone(),
                "assign-uuid" => uuid = update["uuid"].as_str(),
                "set-location" => location = update["location"].as_str(),
                "add-snapshot" => snapshots.push(&update["snapshot"]),
                "set-snapshot-ref" if update["ref-name"] == "main" => main = Some(&update["snapshot-id"]),
                "upgrade-format-version" if update["format-version"].as_u64().is_some_and(|to| to <= 2) => {}
                // These name the added items, and properties are ignored as in other new tables.
                "set-current-schema" | "set-default-spec" | "set-default-sort-order" | "set-properties" => {}
                other => {
                    let message = format!("a new table has columns, partitioning and rows, and no {other:?}");
                    return Err(Failure::unsupported(&message));
                }
            }
        }
        // The files that the client has uploaded have these ids.
        let fields = request["schema"]["fields"].as_array();
        if fields.is_none_or(|fields| !(1_u64..).zip(fields).all(|(id, field)| field["id"] == id)) {
            let message = "the columns of a new table have the ids that the catalog has given; create the table before you \
                change its columns";
            return Err(Failure::unsupported(message));
        }
        let manifest_list = match snapshots.as_slice() {
            [] => None,
            snapshots => Some(manifest_list(snapshots, main)?),
        };
        let location = location.ok_or_else(|| Failure::bad_request("the new table has no location"))?;
        Ok(NewTable { location, uuid, request, manifest_list })
    }
}
