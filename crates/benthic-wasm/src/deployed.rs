//! The classes that users deployed to a pool.
//!
//! In the namespace [`CLASSES_NAMESPACE`], the object `classes` has the records of all classes, and
//! `module/HASH` is a module. The records are an omap: `current/NAME` is the hash of the version
//! that calls use, and `version/NAME/HASH` describes a version ([`Version`], as JSON). `audit/N`
//! are the latest changes ([`Change`], as JSON), a ring of [`AUDIT_ENTRIES_MAX`] entries, and
//! `audit_next` is the number of the next one. A change and its entry are one write.
//!
//! A client that may write to the namespace may change all this, including the audit log. The OSD
//! itself decides what it runs: see [`rules`](crate::rules).
//!
//! There is no transaction over two objects. [`deploy`] writes the module before the records, and
//! [`undeploy`] the records before it removes modules. A crash in between leaves a module that no
//! record names; the next `deploy` of the same module uses it.

use crate::{Call, Function, Limits, MODULE_BYTES_MAX, Manifest, Module, ModuleId, Signatures, Wasm};
use benthic_core::names::CLASSES_NAMESPACE;
use benthic_core::{
    ClassCall, ClassInfo, Clock, Error, ErrorKind, Fetch, ObjectId, OmapPage, OptionalExtension, Pool,
    Result, WriteOp, limits,
};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

const RECORDS: &str = "classes";
const CURRENT_PREFIX: &str = "current/";
const VERSION_PREFIX: &str = "version/";
const MODULE_PREFIX: &str = "module/";
const AUDIT_PREFIX: &str = "audit/";
const AUDIT_NEXT: &str = "audit_next";
/// Limit of the entries of the audit log.
pub const AUDIT_ENTRIES_MAX: u64 = 1_000;
/// Limit of the attempts to write a change while other clients write theirs.
const ATTEMPTS_MAX: usize = 10;
/// Limit of the versions of a class. Two clients that deploy at the same time may exceed it by a
/// few; one omap page holds many more.
const VERSIONS_MAX: usize = 64;

/// The record of one version of a class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version {
    pub manifest: Manifest,
    /// Time of the deployment, in seconds since 1970, by the clock of the deploying client.
    pub deployed_unix_s: u64,
    pub len_bytes: u64,
    pub limits: Limits,
}

/// A change of the deployed classes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// By the clock of the client.
    pub unix_s: u64,
    /// The name that the client gave.
    pub by: String,
    pub action: Action,
    pub class: String,
    /// The hash of the version; none if all versions are removed.
    pub version: Option<String>,
    /// The public key (PEM) that the module's signature names.
    pub key: Option<String>,
}

/// A client's change of a deployed class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    Deploy,
    Rollback,
    Undeploy,
}

/// The client that changes the deployed classes, for the audit log.
#[derive(Clone, Copy)]
pub struct Actor<'a> {
    pub name: &'a str,
    pub clock: &'a dyn Clock,
}

impl Actor<'_> {
    fn unix_s(&self) -> u64 {
        self.clock.unix_ns() / 1_000_000_000
    }

    fn change(&self, action: Action, class: &str, version: Option<ModuleId>) -> Change {
        Change {
            unix_s: self.unix_s(),
            by: self.name.to_owned(),
            action,
            class: class.to_owned(),
            version: version.map(|id| id.to_string()),
            key: None,
        }
    }
}

/// A class in a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeployedClass {
    pub name: String,
    pub current: ModuleId,
    /// All versions, the newest first.
    pub versions: Vec<(ModuleId, Version)>,
}

impl DeployedClass {
    /// The version that calls use.
    pub fn version(&self) -> Option<&Version> {
        self.versions.iter().find(|(id, _)| *id == self.current).map(|(_, version)| version)
    }

    /// The description of the version that calls use.
    pub fn info(&self) -> Option<ClassInfo> {
        self.version().map(|version| version.manifest.info(&self.current.short()))
    }
}

/// Deploys a class: stores the module, and makes it the version that calls use. A second call with
/// the same module replaces its limits and its time. If the engine runs modules, it first checks
/// that its rules allow this one.
///
/// # Errors
/// As [`Module::new`]; `PermissionDenied` by the rules; `LimitExceeded` if the class has too many
/// versions; those of the pool.
pub async fn deploy(pool: &dyn Pool, wasm: Bytes, limits: Limits, actor: Actor<'_>) -> Result<DeployedClass> {
    let module = Module::new(&wasm)?;
    pool.write(&records()?, WriteOp::new().create(false)).await?;
    check_rules(pool, &wasm, limits).await?;
    let (id, name) = (module.id(), module.manifest().class.clone());
    let earlier = find(pool, &name).await?;
    let is_new = !earlier.iter().flat_map(|class| &class.versions).any(|(known, _)| *known == id);
    if is_new && earlier.as_ref().is_some_and(|class| class.versions.len() >= VERSIONS_MAX) {
        let message =
            "the class has too many versions; `benthic class undeploy NAME --version HASH` removes one";
        return Err(Error::limit_exceeded(message).with("class", name).with("versions_max", VERSIONS_MAX));
    }
    // A later version has a later time, even if the clocks of two clients differ.
    let newest_unix_s =
        earlier.iter().flat_map(|class| &class.versions).map(|(_, version)| version.deployed_unix_s).max();
    let version = Version {
        manifest: module.manifest().clone(),
        deployed_unix_s: actor.unix_s().max(newest_unix_s.map_or(0, |newest| newest + 1)),
        len_bytes: wasm.len() as u64,
        limits: limits.clamped(),
    };
    let key = Signatures::read(&wasm)?.claimed_key().map(|key| key.to_pem());
    pool.write(&module_object(id)?, WriteOp::new().write_full(wasm)).await?;
    let entries = [(version_key(&name, id), encode(&version)?), current_entry(&name, id)];
    let change = Change { key, ..actor.change(Action::Deploy, &name, Some(id)) };
    write_change(pool, WriteOp::new().omap_set(entries), &change).await?;
    get(pool, &name).await
}

/// Asks the engine whether its rules let a module run.
///
/// # Errors
/// `PermissionDenied` if they do not; those of the pool.
pub async fn check_rules(pool: &dyn Pool, wasm: &Bytes, limits: Limits) -> Result<()> {
    let (module, input) = (ModuleId::of(wasm), Bytes::new());
    let call = Call { module, limits, method: String::new(), input, attached: Some(wasm.clone()) };
    let call = ClassCall::new(Wasm::NAME, "check", call.encode());
    match pool.exec(&records()?, call).await {
        // The engine does not run modules yet.
        Err(error) if error.kind() == ErrorKind::Unsupported => Ok(()),
        checked => checked.map(drop),
    }
}

/// Writes a change of the records and its entry of the audit log.
async fn write_change(pool: &dyn Pool, op: WriteOp, change: &Change) -> Result<()> {
    let change = encode(change)?;
    let mut attempts = 0;
    loop {
        let (found, _) = pool.fetch(&records()?, Fetch::omap_get([AUDIT_NEXT])).await?;
        let next = found.entries.into_iter().next().map(|(_, next)| next).unwrap_or_default();
        let number = std::str::from_utf8(&next).ok().and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
        let entry = format!("{AUDIT_PREFIX}{:03}", number % AUDIT_ENTRIES_MAX);
        let after = (number + 1).to_string();
        // The guard fails if another client writes an entry meanwhile.
        let op = op
            .clone()
            .cmp_omap(AUDIT_NEXT, next)
            .omap_set([(entry, change.clone()), (AUDIT_NEXT.to_owned(), Bytes::from(after))]);
        attempts += 1;
        match pool.write(&records()?, op).await {
            Err(error) if error.kind() == ErrorKind::Conflict && attempts < ATTEMPTS_MAX => {}
            written => return written.map(drop),
        }
    }
}

/// The latest changes, the newest last.
///
/// # Errors
/// `Corrupt` for a damaged entry; those of the pool.
pub async fn audit(pool: &dyn Pool) -> Result<Vec<Change>> {
    let entries = Fetch::omap_range(None, AUDIT_PREFIX, limits::OMAP_PAGE_ENTRIES_MAX);
    let next = Fetch::omap_get([AUDIT_NEXT]);
    let Some(((entries, next), _)) = pool.fetch(&records()?, entries.and(next)).await.optional()? else {
        return Ok(Vec::new());
    };
    let damaged = || Error::corrupt("the audit log is damaged");
    let next = next.entries.first().map_or(Ok(0), |(_, next)| {
        std::str::from_utf8(next).ok().and_then(|next| next.parse::<u64>().ok()).ok_or_else(damaged)
    })?;
    let change = |(_, json): &(Bytes, Bytes)| serde_json::from_slice(json).map_err(|_| damaged());
    let mut changes = entries.entries.iter().map(change).collect::<Result<Vec<Change>>>()?;
    if next > AUDIT_ENTRIES_MAX {
        changes.rotate_left(usize::try_from(next % AUDIT_ENTRIES_MAX).unwrap_or_default());
    }
    Ok(changes)
}

fn encode(record: &impl Serialize) -> Result<Bytes> {
    serde_json::to_vec(record)
        .map(Bytes::from)
        .map_err(|error| Error::internal("cannot encode the record").with_source(error))
}

/// Finds a class; `None` if the pool has none of this name.
///
/// # Errors
/// `Corrupt` for a damaged record; `Unsupported` for one of a newer build; those of the pool.
pub async fn find(pool: &dyn Pool, name: &str) -> Result<Option<DeployedClass>> {
    let current = Fetch::omap_get([current_key(name)]);
    let versions = Fetch::omap_range(None, version_prefix(name), limits::OMAP_PAGE_ENTRIES_MAX);
    let Some(((current, versions), _)) = pool.fetch(&records()?, current.and(versions)).await.optional()?
    else {
        return Ok(None);
    };
    let Some((_, current)) = current.entries.first() else { return Ok(None) };
    parse(name, current, &versions).map(Some).map_err(|error| error.with("class", name))
}

fn parse(name: &str, current: &[u8], versions: &OmapPage) -> Result<DeployedClass> {
    let damaged = || Error::corrupt("the record of the class is damaged");
    let current = std::str::from_utf8(current).ok().and_then(ModuleId::parse).ok_or_else(damaged)?;
    let version = |(key, json): &(Bytes, Bytes)| {
        let version = serde_json::from_slice::<Version>(json).map_err(|error| {
            // A manifest with fields that this build does not know.
            let json = serde_json::from_slice::<serde_json::Value>(json).unwrap_or_default();
            if !json["manifest"]["class"].is_string() {
                return damaged();
            }
            let message =
                "a newer Benthic deployed a version of this class; install that build of the program here";
            Error::unsupported(message).with_source(error)
        })?;
        Ok((id_of(key).ok_or_else(damaged)?, version))
    };
    let mut versions = versions.entries.iter().map(version).collect::<Result<Vec<_>>>()?;
    versions.sort_by_key(|(_, version)| std::cmp::Reverse(version.deployed_unix_s));
    let class = DeployedClass { name: name.to_owned(), current, versions };
    class.version().is_some().then_some(class).ok_or_else(damaged)
}

/// As [`find`]; `NotFound` if the pool has none of this name.
///
/// # Errors
/// Also those of [`find`].
pub async fn get(pool: &dyn Pool, name: &str) -> Result<DeployedClass> {
    find(pool, name).await?.ok_or_else(|| gone(name))
}

/// Lists the classes of a pool, sorted by name.
///
/// # Errors
/// As [`find`].
pub async fn list(pool: &dyn Pool) -> Result<Vec<DeployedClass>> {
    let (mut classes, mut after) = (Vec::new(), None);
    loop {
        let fetch = Fetch::omap_range(after, CURRENT_PREFIX, limits::OMAP_PAGE_ENTRIES_MAX);
        let Some((page, _)) = pool.fetch(&records()?, fetch).await.optional()? else { return Ok(classes) };
        for (key, _) in &page.entries {
            let name = String::from_utf8_lossy(&key[CURRENT_PREFIX.len()..]);
            classes.extend(find(pool, &name).await?);
        }
        match page.entries.last() {
            Some((last, _)) if page.more => after = Some(last.clone()),
            _ => return Ok(classes),
        }
    }
}

/// Reads a module.
///
/// # Errors
/// `NotFound` if the version is not deployed any more; those of the pool.
pub async fn fetch(pool: &dyn Pool, id: ModuleId) -> Result<Bytes> {
    pool.read_range(&module_object(id)?, 0, MODULE_BYTES_MAX as u64)
        .await
        .map_err(|error| error.with("module", id))
}

/// The method of the version that calls use, as a function of its input.
///
/// # Errors
/// `NotFound` if the class is not deployed; `Unsupported` if it has no such method;
/// `InvalidArgument` if the method writes or needs other objects; those of the pool.
pub async fn function(pool: &dyn Pool, class: &DeployedClass, method: &str) -> Result<Function> {
    let Some(version) = class.version() else { return Err(gone(&class.name)) };
    let refused =
        |kind, message| Err(Error::new(kind, message).with("class", &class.name).with("method", method));
    match version.manifest.method(method) {
        Ok(declared) if declared.writes => {
            let message = "the method writes, so it is not a function; `benthic exec` calls it";
            return refused(ErrorKind::InvalidArgument, message);
        }
        Ok(declared) if !declared.objects.is_empty() => {
            let message =
                "the method needs other objects, so it is not a function; `benthic exec --object` calls it";
            return refused(ErrorKind::InvalidArgument, message);
        }
        Ok(_) => {}
        Err(_) => {
            let message =
                "the class has no such method; `benthic class show CLASS --pool POOL` lists its methods";
            return refused(ErrorKind::Unsupported, message);
        }
    }
    let wasm = fetch(pool, class.current).await?;
    let mut function = Function {
        module: class.current,
        limits: version.limits,
        method: method.to_owned(),
        wasm,
        is_run_by_engine: false,
    };
    let check = ClassCall::new(Wasm::NAME, "check", function.to_call(Bytes::new()).encode());
    function.is_run_by_engine = match pool.exec(&records()?, check).await {
        Ok(_) => true,
        // The module is not cached in the OSD that has the records.
        Err(error) => error.kind() == ErrorKind::Busy,
    };
    Ok(function)
}

/// Makes an earlier version the one that calls use.
///
/// # Errors
/// `NotFound` if the pool has no such class or version.
pub async fn select(pool: &dyn Pool, name: &str, id: ModuleId, actor: Actor<'_>) -> Result<()> {
    let key = version_key(name, id);
    let (found, _) = pool.fetch(&records()?, Fetch::omap_get([key.clone()])).await?;
    let Some((_, version)) = found.entries.into_iter().next() else { return Err(no_such_version(name)) };
    // The guard fails if another client removes the version meanwhile.
    let op = WriteOp::new().cmp_omap(key, version).omap_set([current_entry(name, id)]);
    write_change(pool, op, &actor.change(Action::Rollback, name, Some(id))).await
}

/// Removes a class with all versions, or one version that calls do not use.
///
/// # Errors
/// `NotFound` if the pool has no such class or version; `Busy` if calls use the version.
pub async fn undeploy(
    pool: &dyn Pool,
    name: &str,
    id: Option<ModuleId>,
    actor: Actor<'_>,
) -> Result<Vec<ModuleId>> {
    let versions = Fetch::omap_range(None, version_prefix(name), limits::OMAP_PAGE_ENTRIES_MAX);
    let Some((page, _)) = pool.fetch(&records()?, versions).await.optional()? else { return Err(gone(name)) };
    // From the keys alone, so that a damaged record can be removed.
    let known = page.entries.iter().filter_map(|(key, _)| id_of(key));
    let removed: Vec<ModuleId> = known.filter(|known| id.is_none_or(|id| *known == id)).collect();
    if removed.is_empty() {
        return Err(if id.is_some() { no_such_version(name) } else { gone(name) });
    }
    let mut op = WriteOp::new();
    let mut keys: Vec<Bytes> = removed.iter().map(|id| version_key(name, *id)).collect();
    match id {
        None => keys.push(current_key(name)),
        Some(id) => {
            let class = get(pool, name).await?;
            if id == class.current {
                let message =
                    "calls use this version; deploy another or roll back first, or remove the whole class";
                return Err(Error::busy(message).with("class", name).with("version", id));
            }
            // The guard fails if another client selects the version meanwhile.
            let (key, current) = current_entry(name, class.current);
            op = op.cmp_omap(key, current);
        }
    }
    write_change(pool, op.omap_remove(keys), &actor.change(Action::Undeploy, name, id)).await?;
    for id in &removed {
        match pool.remove(&module_object(*id)?).await {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(removed)
}

/// The error for a class that a pool does not have.
pub fn gone(name: &str) -> Error {
    let message = "no such class in this pool; `benthic class ls --pool POOL` lists the deployed classes";
    Error::not_found(message).with("class", name)
}

/// The error for a version that the records of the class do not hold.
pub fn no_such_version(name: &str) -> Error {
    let message = "the class has no such version; `benthic class show CLASS --pool POOL` lists them";
    Error::not_found(message).with("class", name)
}

/// The version that a key of the records names.
fn id_of(key: &[u8]) -> Option<ModuleId> {
    ModuleId::parse(std::str::from_utf8(key).ok()?.rsplit('/').next()?)
}

fn version_prefix(name: &str) -> String {
    format!("{VERSION_PREFIX}{name}/")
}

fn current_key(name: &str) -> Bytes {
    Bytes::from(format!("{CURRENT_PREFIX}{name}"))
}

fn current_entry(name: &str, id: ModuleId) -> (Bytes, Bytes) {
    (current_key(name), Bytes::from(id.to_string()))
}

fn version_key(name: &str, id: ModuleId) -> Bytes {
    Bytes::from(format!("{VERSION_PREFIX}{name}/{id}"))
}

fn records() -> Result<ObjectId> {
    ObjectId::in_namespace(CLASSES_NAMESPACE, RECORDS)
}

fn module_object(id: ModuleId) -> Result<ObjectId> {
    ObjectId::in_namespace(CLASSES_NAMESPACE, format!("{MODULE_PREFIX}{id}"))
}
