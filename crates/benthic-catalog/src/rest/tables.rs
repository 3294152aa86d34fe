//! Namespaces and tables.

use super::{Catalog, Failure, no_such_namespace};
use crate::iceberg::keys::{BUCKET, Folder, escape};
use crate::iceberg::view::TableView;
use benthic_core::Error;
use benthic_s3::grants::Grant;
use benthic_s3::identity::NewKey;
use benthic_table::Table;
use benthic_table::head::TableState;
use serde_json::{Map, Value, json};

impl Catalog {
    pub(super) async fn namespaces(&self, grant: &Grant, parent: Option<String>) -> Result<Value, Failure> {
        if let Some(parent) = parent.filter(|parent| !parent.is_empty()) {
            // A pool contains no pools.
            self.namespace(grant, &parent).await?;
            return Ok(json!({ "namespaces": [], "next-page-token": null }));
        }
        let pools = self.views.store().list_pools().await?;
        let shown = pools.into_iter().filter(|pool| grant.covers(pool)).map(|pool| json!([pool]));
        Ok(json!({ "namespaces": shown.collect::<Vec<_>>(), "next-page-token": null }))
    }

    pub(super) async fn namespace(&self, grant: &Grant, namespace: &str) -> Result<Value, Failure> {
        self.check_namespace(grant, namespace).await?;
        // Trino creates a table and its rows in one commit only if the namespace has a location.
        let location = format!("s3://{BUCKET}/{}", escape(namespace));
        Ok(json!({ "namespace": [namespace], "properties": { "location": location } }))
    }

    async fn check_namespace(&self, grant: &Grant, namespace: &str) -> Result<(), Failure> {
        let exists = grant.covers(namespace)
            && self.views.store().list_pools().await?.iter().any(|pool| pool == namespace);
        if exists { Ok(()) } else { Err(no_such_namespace(namespace)) }
    }

    pub(super) async fn tables(&self, grant: &Grant, namespace: &str) -> Result<Value, Failure> {
        self.check_namespace(grant, namespace).await?;
        let pool = self.views.store().open_pool(namespace).await?;
        let tables = Table::list(pool).await?;
        let is_live = |table: &benthic_table::TableEntry| {
            table.head.as_ref().is_ok_and(|head| head.state == TableState::Live)
        };
        let shown = tables.iter().filter(|table| is_live(table));
        let identifiers: Vec<Value> =
            shown.map(|table| json!({ "namespace": [namespace], "name": table.name })).collect();
        Ok(json!({ "identifiers": identifiers, "next-page-token": null }))
    }

    pub(super) async fn table(
        &self,
        grant: &Grant,
        namespace: &str,
        table: &str,
        snapshots: Option<String>,
    ) -> Result<Value, Failure> {
        let view = self.open(grant, namespace, table).await?;
        let (location, mut metadata) = view.metadata(self.format).map_err(Failure::of_table)?;
        if snapshots.as_deref() == Some("refs") {
            keep_snapshots_of_refs(&mut metadata);
        }
        let config = self.config(grant, &view.folder);
        Ok(json!({
            "metadata-location": location.uri(),
            "metadata": metadata,
            "config": config,
            "storage-credentials": [{ "prefix": format!("{}/", view.folder.location()), "config": config }],
        }))
    }

    pub(super) async fn credentials(
        &self,
        grant: &Grant,
        namespace: &str,
        table: &str,
    ) -> Result<Value, Failure> {
        let view = self.open(grant, namespace, table).await?;
        let config = self.config(grant, &view.folder);
        Ok(
            json!({ "storage-credentials": [{ "prefix": format!("{}/", view.folder.location()), "config": config }] }),
        )
    }

    pub(super) async fn open(
        &self,
        grant: &Grant,
        namespace: &str,
        table: &str,
    ) -> Result<TableView, Failure> {
        if !grant.covers(namespace) {
            let error = Error::not_found("no such table").with("table", format!("{namespace}/{table}"));
            return Err(Failure::of_table(error));
        }
        TableView::open(&**self.views.store(), namespace, table).await.map_err(Failure::of_table)
    }

    /// How clients read the files of a table, and upload others.
    pub(super) fn config(&self, grant: &Grant, folder: &Folder) -> Map<String, Value> {
        let writes = self.auth.may_write(&grant.account, &folder.pool);
        let NewKey { access_key, secret } = self.auth.temporary_key(folder, writes);
        let pairs = [
            ("s3.endpoint", self.url.as_str()),
            ("s3.access-key-id", &access_key),
            ("s3.secret-access-key", &secret),
            // Trino takes no temporary key without a session token.
            ("s3.session-token", &access_key),
            ("s3.path-style-access", "true"),
            ("s3.region", &self.region),
            ("client.region", &self.region),
        ];
        pairs.into_iter().map(|(key, value)| (key.to_owned(), Value::from(value))).collect()
    }
}

/// Removes the snapshots that no branch and no tag names.
fn keep_snapshots_of_refs(metadata: &mut Value) {
    let refs = metadata["refs"].as_object().map(Map::values);
    let named: Vec<Value> = refs.into_iter().flatten().map(|named| named["snapshot-id"].clone()).collect();
    if let Some(snapshots) = metadata["snapshots"].as_array_mut() {
        snapshots.retain(|snapshot| named.contains(&snapshot["snapshot-id"]));
    }
}
