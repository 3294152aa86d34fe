//! Tables that clients create, change and drop.

use super::{Catalog, Failure, no_such_namespace, shows};
use crate::commit::commit;
use crate::iceberg::definition;
use crate::iceberg::metadata::uuid;
use crate::iceberg::view::TableView;
use benthic_core::{Environment, Error, ErrorKind};
use benthic_s3::grants::Grant;
use benthic_table::{Table, drop_table};
use serde_json::{Value, json};

impl Catalog {
    /// Refuses a client that may not change tables of a pool.
    fn check_writes(&self, grant: &Grant, namespace: &str) -> Result<(), Failure> {
        if !shows(grant, namespace) {
            return Err(no_such_namespace(namespace));
        }
        if self.auth.may_write(&grant.account, namespace) {
            return Ok(());
        }
        let message =
            "the account may not change tables of the pool; the server's option --allow-writes permits it";
        let error = Error::new(ErrorKind::PermissionDenied, message);
        Err(Failure::of_table(error.with("account", &grant.account).with("pool", namespace)))
    }

    pub(super) async fn create(
        &self,
        grant: &Grant,
        namespace: &str,
        request: &Value,
    ) -> Result<Value, Failure> {
        self.check_writes(grant, namespace)?;
        let name =
            request["name"].as_str().ok_or_else(|| Failure::bad_request("the request has no `name`"))?;
        if request["stage-create"] == true {
            return Err(Failure::unsupported(
                "the catalog creates a table before its rows are written; create it, then insert the rows",
            ));
        }
        let definition = definition::of_request(request).map_err(Failure::of_table)?;
        let pool = self.views.store().open_pool(namespace).await?;
        Table::create(pool, name, &definition, Environment::default()).await.map_err(Failure::of_table)?;
        self.table(grant, namespace, name, None).await
    }

    pub(super) async fn drop(&self, grant: &Grant, namespace: &str, table: &str) -> Result<(), Failure> {
        self.check_writes(grant, namespace)?;
        let pool = self.views.store().open_pool(namespace).await?;
        drop_table(pool, table, false, &Environment::default()).await.map_err(Failure::of_table)?;
        Ok(())
    }

    pub(super) async fn change(
        &self,
        grant: &Grant,
        namespace: &str,
        table: &str,
        request: &Value,
    ) -> Result<Value, Failure> {
        self.check_writes(grant, namespace)?;
        let _slot = self.commits.acquire().await.map_err(|_| Failure::bad_request("the server stops"))?;
        let view = self.open(grant, namespace, table).await?;
        // A table that Iceberg cannot read has no manifests to compare with.
        view.metadata().map_err(Failure::of_table)?;
        for requirement in list(request, "requirements")? {
            check(requirement, &view)?;
        }
        let manifest_list = manifest_list(list(request, "updates")?)?;
        commit(&view, &self.staging, &manifest_list).await.map_err(Failure::of_commit)?;
        let view = self.open(grant, namespace, table).await?;
        let (location, metadata) = view.metadata().map_err(Failure::of_table)?;
        Ok(json!({ "metadata-location": location.uri(), "metadata": metadata }))
    }
}

fn list<'r>(request: &'r Value, name: &str) -> Result<&'r Vec<Value>, Failure> {
    request[name].as_array().ok_or_else(|| Failure::bad_request(&format!("the request has no list `{name}`")))
}

/// Checks that the table is still as the client knows it.
fn check(requirement: &Value, view: &TableView) -> Result<(), Failure> {
    let head = &view.head;
    let (snapshot, _) = head.current()?;
    let kind = requirement["type"].as_str().unwrap_or_default();
    let last_column = head.next_field_id.saturating_sub(1);
    let holds = match kind {
        "assert-table-uuid" => requirement["uuid"] == uuid(head.id),
        "assert-ref-snapshot-id" => {
            let id = match requirement["ref"].as_str() {
                Some("main") => Some(snapshot.id),
                Some(tag) => head.tags.get(tag).copied(),
                None => None,
            };
            requirement["snapshot-id"] == json!(id)
        }
        "assert-current-schema-id" => requirement["current-schema-id"] == snapshot.schema,
        "assert-last-assigned-field-id" => requirement["last-assigned-field-id"] == last_column,
        "assert-last-assigned-partition-id" => {
            requirement["last-assigned-partition-id"] == view.last_partition_id()
        }
        "assert-default-spec-id" => requirement["default-spec-id"] == 0,
        "assert-default-sort-order-id" => requirement["default-sort-order-id"] == 0,
        _ => {
            return Err(Failure::unsupported(&format!("the catalog does not know the requirement {kind:?}")));
        }
    };
    if holds {
        return Ok(());
    }
    let message =
        format!("the table has changed meanwhile: {kind} does not hold; read it again and repeat the change");
    Err(Failure::conflict(&message))
}

/// The manifest list that the updates make the current one.
fn manifest_list(updates: &[Value]) -> Result<String, Failure> {
    let mut added = Vec::new();
    let mut current = None;
    for update in updates {
        match update["action"].as_str().unwrap_or_default() {
            "add-snapshot" => added.push(&update["snapshot"]),
            "set-snapshot-ref" if update["ref-name"] == "main" && update["type"] == "branch" => {
                current = Some(&update["snapshot-id"]);
            }
            other => {
                return Err(Failure::unsupported(&format!(
                    "the catalog takes new snapshots of `main` in a commit, and no {other:?}; \
                     `benthic table` changes columns and tags"
                )));
            }
        }
    }
    // A snapshot before the last one says nothing that the last one does not say.
    let listed = added.iter().find(|added| current.is_some_and(|current| *current == added["snapshot-id"]));
    let listed = listed.and_then(|added| added["manifest-list"].as_str());
    listed.map(str::to_owned).ok_or_else(|| {
        Failure::bad_request("a commit must add a snapshot with a manifest list, and make it the current one")
    })
}
