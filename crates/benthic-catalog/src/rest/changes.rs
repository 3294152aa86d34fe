//! Tables that clients create, change and drop.

use super::{Catalog, Failure, no_such_namespace};
use crate::auth::NO_WRITES;
use crate::commit::commit;
use crate::iceberg::metadata::{last_field_id, schema_json, uuid};
use crate::iceberg::view::TableView;
use crate::iceberg::{definition, evolution};
use benthic_core::{Environment, Error};
use benthic_s3::grants::Grant;
use benthic_table::head::Head;
use benthic_table::{Alter, SnapshotSelector, Table, drop_table};
use hyper::StatusCode;
use serde_json::{Value, json};

impl Catalog {
    /// Refuses a client that may not change tables of a pool.
    fn check_writes(&self, grant: &Grant, namespace: &str) -> Result<(), Failure> {
        if !grant.covers(namespace) {
            return Err(no_such_namespace(namespace));
        }
        if self.auth.may_write(&grant.account, namespace) {
            return Ok(());
        }
        let error = Error::permission_denied(NO_WRITES);
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
        let definition = definition::of_request(request).map_err(Failure::of_table)?;
        if request["stage-create"] == true {
            return self.stage(grant, namespace, name, &definition).await;
        }
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
        let changed = self.change_once(grant, namespace, table, request).await;
        changed.map_err(|failure| if replaces_rows(request) { failure.without_retry() } else { failure })
    }

    async fn change_once(
        &self,
        grant: &Grant,
        namespace: &str,
        table: &str,
        request: &Value,
    ) -> Result<Value, Failure> {
        let _slot = self.commits.acquire().await.map_err(|_| Failure::bad_request("the server stops"))?;
        let (requirements, updates) = (list(request, "requirements")?, list(request, "updates")?);
        let view = match self.open(grant, namespace, table).await {
            Err(missing) if missing.status == StatusCode::NOT_FOUND && is_new(requirements) => {
                self.create_with_rows(namespace, table, updates).await?;
                return self.answer_change(grant, namespace, table).await;
            }
            view => view?,
        };
        if is_new(requirements) {
            return Err(Failure::conflict("another client has created the table; read it"));
        }
        // A table that Iceberg cannot read has no manifests to compare with.
        view.metadata(self.format).map_err(Failure::of_table)?;
        for requirement in requirements {
            check(requirement, &view)?;
        }
        let changed = match requested_change(updates, &view.head)? {
            // Trino sends such a commit if a column has the new type already.
            Change::None => Ok(()),
            Change::Rows { manifest_list, only_appends } => {
                commit(&view, &self.staging, manifest_list, only_appends).await.map(drop)
            }
            Change::Columns(alters) => view.table().alter(&alters).await.map(drop),
            Change::Tag { name, snapshot } => {
                view.table().tag(name, SnapshotSelector::Id(snapshot)).await.map(drop)
            }
            Change::Untag { name } => view.table().untag(name).await,
            Change::Rollback { snapshot } => {
                view.table().rollback(SnapshotSelector::Id(snapshot)).await.map(drop)
            }
        };
        changed.map_err(Failure::of_commit)?;
        self.answer_change(grant, namespace, table).await
    }

    /// The answer after a change.
    async fn answer_change(&self, grant: &Grant, namespace: &str, table: &str) -> Result<Value, Failure> {
        let read = async {
            let view = self.open(grant, namespace, table).await?;
            view.metadata(self.format).map_err(Failure::of_table)
        };
        let (location, metadata) = read.await.map_err(Failure::after_commit)?;
        Ok(json!({ "metadata-location": location.uri(), "metadata": metadata }))
    }
}

fn list<'r>(request: &'r Value, name: &str) -> Result<&'r Vec<Value>, Failure> {
    request[name].as_array().ok_or_else(|| Failure::bad_request(&format!("the request has no list `{name}`")))
}

/// Whether a commit deletes or replaces rows, and so depends on the rows that the client has read.
fn replaces_rows(request: &Value) -> bool {
    let updates = request["updates"].as_array().into_iter().flatten();
    let mut added = updates.filter(|update| update["action"] == "add-snapshot");
    added.any(|update| update["snapshot"]["summary"]["operation"] != "append")
}

/// Whether a commit creates its table.
fn is_new(requirements: &[Value]) -> bool {
    requirements.iter().any(|requirement| requirement["type"] == "assert-create")
}

/// Checks that the table is still as the client knows it.
fn check(requirement: &Value, view: &TableView) -> Result<(), Failure> {
    let head = &view.head;
    let (snapshot, _) = head.current()?;
    let kind = requirement["type"].as_str().unwrap_or_default();
    let last_column = last_field_id(head);
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

/// The change that a request asks for: at most one, because each is one commit of the table.
enum Change<'u> {
    None,
    Rows { manifest_list: &'u str, only_appends: bool },
    Columns(Vec<Alter>),
    Tag { name: &'u str, snapshot: u64 },
    Untag { name: &'u str },
    Rollback { snapshot: u64 },
}

fn requested_change<'u>(updates: &'u [Value], head: &Head) -> Result<Change<'u>, Failure> {
    let (mut snapshots, mut main) = (Vec::new(), None);
    let (mut schemas, mut current_schema) = (Vec::new(), None);
    let mut changes = Vec::new();
    for update in updates {
        let name = update["ref-name"].as_str().unwrap_or_default();
        match (update["action"].as_str().unwrap_or_default(), update["type"].as_str()) {
            ("add-snapshot", _) => snapshots.push(&update["snapshot"]),
            ("set-snapshot-ref", Some("branch")) if name == "main" => main = Some(&update["snapshot-id"]),
            ("set-snapshot-ref", Some("tag")) if name != "main" => {
                if !update["max-ref-age-ms"].is_null() {
                    return Err(Failure::unsupported("a tag stays until it is removed; leave out its age"));
                }
                changes.push(Change::Tag { name, snapshot: known_snapshot(head, &update["snapshot-id"])? });
            }
            ("remove-snapshot-ref", _) => match head.tags.contains_key(name) {
                true => changes.push(Change::Untag { name }),
                false => return Err(Failure::bad_request(&format!("the table has no tag {name:?}"))),
            },
            ("add-schema", _) => schemas.push(&update["schema"]),
            ("set-current-schema", _) => current_schema = Some(&update["schema-id"]),
            (other, _) => {
                return Err(Failure::unsupported(&format!(
                    "the catalog takes new snapshots of `main`, other columns and tags in a commit, and no {other:?}"
                )));
            }
        }
    }
    match (snapshots.is_empty(), main) {
        (true, None) => {}
        (true, Some(to)) => changes.push(Change::Rollback { snapshot: known_snapshot(head, to)? }),
        (false, main) => {
            check_parents(&snapshots, head)?;
            let manifest_list = manifest_list(&snapshots, main)?;
            let only_appends = snapshots.iter().all(|added| added["summary"]["operation"] == "append");
            changes.push(Change::Rows { manifest_list, only_appends });
        }
    }
    if current_schema.is_some() || !schemas.is_empty() {
        changes.push(Change::Columns(columns(&schemas, current_schema, head)?));
    }
    let mut changes = changes.into_iter();
    match (changes.next(), changes.next()) {
        (change, None) => Ok(change.unwrap_or(Change::None)),
        (_, Some(_)) => Err(Failure::unsupported(
            "a commit changes rows, columns or one tag; make one commit of each change",
        )),
    }
}

/// A snapshot of the table that the catalog shows.
fn known_snapshot(head: &Head, id: &Value) -> Result<u64, Failure> {
    let known = head.snapshots.iter().find(|snapshot| *id == snapshot.id);
    let known = known.ok_or_else(|| Failure::bad_request(&format!("the table has no snapshot {id}")))?;
    if head.is_grouped(known) {
        return Err(Failure::unsupported(
            "the snapshot has column groups, which Iceberg does not have; use `benthic table rollback` or `benthic table tag`",
        ));
    }
    Ok(known.id)
}

/// Refuses added snapshots whose parent is not the current one: they would remove the rows that
/// other clients have added since. Clients need not send a requirement of the current snapshot.
fn check_parents(added: &[&Value], head: &Head) -> Result<(), Failure> {
    let current = head.current()?.0.id;
    let is_known =
        |parent: &Value| *parent == current || added.iter().any(|added| added["snapshot-id"] == *parent);
    match added.iter().all(|added| is_known(&added["parent-snapshot-id"])) {
        true => Ok(()),
        false => {
            Err(Failure::conflict("the table has changed meanwhile; read it again and repeat the change"))
        }
    }
}

/// The manifest list of the added snapshot that becomes the current one.
pub(super) fn manifest_list<'u>(added: &[&'u Value], current: Option<&Value>) -> Result<&'u str, Failure> {
    // A snapshot before the last one says nothing that the last one does not say.
    let listed = added.iter().find(|added| current.is_some_and(|current| *current == added["snapshot-id"]));
    listed.and_then(|added| added["manifest-list"].as_str()).ok_or_else(|| {
        Failure::bad_request("a commit must add a snapshot with a manifest list, and make it the current one")
    })
}

/// The changes of columns that make a schema the current one.
fn columns(added: &[&Value], current: Option<&Value>, head: &Head) -> Result<Vec<Alter>, Failure> {
    let current =
        current.ok_or_else(|| Failure::bad_request("the commit does not use the schema that it adds"))?;
    let named = added.iter().find(|added| added["schema-id"] == *current).copied();
    // -1 is the last one that the commit adds.
    let named = named.or_else(|| added.last().copied().filter(|_| *current == -1)).cloned();
    let earlier = || {
        let schema = head.schemas.iter().find(|schema| *current == schema.id);
        schema.ok_or_else(|| Failure::bad_request(&format!("the table has no schema {current}")))
    };
    let wanted = match named {
        Some(named) => named,
        None => schema_json(earlier()?).map_err(Failure::of_table)?,
    };
    let (_, schema) = head.current()?;
    let alters = evolution::changes(schema, head.next_field_id, &wanted).map_err(Failure::of_table)?;
    match alters.is_empty() {
        true => Err(Failure::bad_request("the table has these columns already")),
        false => Ok(alters),
    }
}
