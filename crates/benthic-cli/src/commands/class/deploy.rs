//! `benthic class deploy|undeploy|rollback`: classes that are WebAssembly modules in a pool.

use benthic_core::{Error, Pool, Result};
use benthic_program::deploy::{self as program_deploy, Deployment};
use benthic_program::exit::Outcome;
use benthic_program::local;
use benthic_program::session::Session;
use benthic_program::store::blocking;
use benthic_program::units;
use benthic_wasm::deployed::{self, Action, DeployedClass};
use benthic_wasm::{Limits, ModuleId};
use clap::Args;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;

#[derive(Args)]
#[command(
    after_help = "The module is stored in the pool. Calls use the new version at once; earlier versions stay, and \
    `benthic class rollback` returns to one. In a Ceph cluster, the OSDs need the library libcls_wasm_1.so.\n\n\
    Examples:\n  benthic class deploy wordcount.wasm --pool logs\n  \
    benthic class deploy wordcount.wasm --pool logs --fuel 200000000 --memory 32MiB\n  \
    openssl genpkey -algorithm ed25519 -out deploy.pem && benthic class deploy wordcount.wasm --pool logs --key deploy.pem"
)]
pub struct DeployArgs {
    /// The module, as `benthic class build` makes it
    file: PathBuf,
    #[command(flatten)]
    pool: PoolArg,
    /// Sign the module with this Ed25519 key (PEM), for OSDs whose rules demand a signature
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Refuse a class with a method that does more
    #[arg(long, value_name = "ACCESS", default_value = "write")]
    allow: Access,
    /// Limit of a call: about one unit per instruction
    #[arg(long, value_name = "UNITS", default_value_t = Limits::default().fuel,
        value_parser = clap::value_parser!(u64).range(1..=Limits::MAX.fuel))]
    fuel: u64,
    /// Limit of a call's memory, at most 64MiB
    #[arg(long, value_name = "SIZE", default_value = "16MiB", value_parser = units::parse_size)]
    memory: u64,
}

/// The rights of the methods of a class.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Access {
    Read,
    Write,
}

#[derive(Args)]
pub struct PoolArg {
    /// The pool [default: the only pool of the store]
    #[arg(long, value_name = "POOL")]
    pub pool: Option<String>,
}

impl PoolArg {
    /// Opens the pool.
    pub async fn open(&self, session: &Session) -> Result<Arc<dyn Pool>> {
        if let Some(pool) = &self.pool {
            return session.pool(pool).await;
        }
        match &session.store().await?.list_pools().await?[..] {
            [only] => session.pool(only).await,
            pools => {
                let message = "name the pool with --pool POOL; `benthic pool ls` lists the pools";
                Err(Error::invalid_argument(message).with("pools", pools.len()))
            }
        }
    }
}

#[derive(Args)]
#[command(after_help = "Examples:\n  benthic class undeploy wordcount --pool logs\n  \
    benthic class undeploy wordcount --pool logs --version 3f2a")]
pub struct UndeployArgs {
    /// The class
    class: String,
    #[command(flatten)]
    pool: PoolArg,
    /// Only this version, by the beginning of its hash; calls must use another one
    #[arg(long, value_name = "HASH")]
    version: Option<String>,
}

#[derive(Args)]
#[command(after_help = "Examples:\n  benthic class rollback wordcount --pool logs\n  \
    benthic class rollback wordcount --pool logs --version 3f2a")]
pub struct RollbackArgs {
    /// The class
    class: String,
    #[command(flatten)]
    pool: PoolArg,
    /// The version to return to, by the beginning of its hash [default: the one deployed before the
    /// current one]
    #[arg(long, value_name = "HASH")]
    version: Option<String>,
}

pub async fn deploy(args: DeployArgs, session: &Session) -> Outcome {
    let file = args.file;
    let wasm = blocking(move || local::read_file(&file)).await?.data;
    let key_pem = match args.key {
        None => None,
        Some(file) => {
            let pem = blocking(move || local::read_file(&file)).await?.data;
            Some(String::from_utf8_lossy(&pem).into_owned())
        }
    };
    let pool = args.pool.open(session).await?;
    session.check_writable().await?;
    let (fuel, memory_bytes) = (Some(args.fuel), Some(args.memory));
    let may_write = args.allow == Access::Write;
    let deployment = Deployment { wasm, key_pem, fuel, memory_bytes, may_write };
    let class = session.deploy(&*pool, deployment).await?;
    let line = format_args!(
        "deployed {} {} to the pool {}\nnext: benthic exec {}/OBJECT {} METHOD",
        class.name,
        class.current.short(),
        pool.name(),
        pool.name(),
        class.name
    );
    session.out.result(line, || value(&class, pool.name()))
}

pub async fn undeploy(args: UndeployArgs, session: &Session) -> Outcome {
    let pool = args.pool.open(session).await?;
    session.check_writable().await?;
    let id = match &args.version {
        Some(version) => Some(find_version(&deployed::get(&*pool, &args.class).await?, version)?),
        None => None,
    };
    let removed = program_deploy::undeploy(&*pool, &args.class, id).await?;
    let versions = units::count(removed.len() as u64, "version");
    session.out.result(
        format_args!("removed {versions} of {} from the pool {}", args.class, pool.name()),
        || {
            let removed: Vec<String> = removed.iter().map(ModuleId::to_string).collect();
            json!({ "class": args.class, "pool": pool.name(), "removed": removed })
        },
    )
}

pub async fn rollback(args: RollbackArgs, session: &Session) -> Outcome {
    let pool = args.pool.open(session).await?;
    session.check_writable().await?;
    let class = deployed::get(&*pool, &args.class).await?;
    let id = match &args.version {
        Some(version) => find_version(&class, version)?,
        None => {
            let mut older =
                class.versions.iter().map(|(id, _)| *id).skip_while(|id| *id != class.current).skip(1);
            older.next().ok_or_else(|| {
                let message = "the class has no earlier version; --version selects any of its versions";
                Error::not_found(message).with("class", &args.class)
            })?
        }
    };
    program_deploy::select(&*pool, &args.class, id).await?;
    let class = deployed::get(&*pool, &args.class).await?;
    session
        .out
        .result(format_args!("calls of {} use {} now", class.name, id.short()), || value(&class, pool.name()))
}

/// `benthic class audit`: the latest changes of the deployed classes.
pub async fn audit(pool: &PoolArg, session: &Session) -> Outcome {
    let pool = pool.open(session).await?;
    for change in deployed::audit(&*pool).await? {
        let version = change.version.as_deref().map_or("all versions", |hash| hash.get(..12).unwrap_or(hash));
        let at = units::utc(change.unix_s.saturating_mul(1_000_000_000));
        let key = change.key.as_deref().and_then(|pem| pem.lines().nth(1));
        let signed = key.map_or("not signed".to_owned(), |key| format!("signed by {key}"));
        let signed = if change.action == Action::Deploy { format!(", {signed}") } else { String::new() };
        let action = json!(change.action);
        let line = format!(
            "{at}  {:<8}  {} {version} by {}{signed}",
            action.as_str().unwrap_or_default(),
            change.class,
            change.by
        );
        session.out.result(units::one_line(&line), || json!(change))?;
    }
    Ok(())
}

/// Lists the classes of a pool.
pub async fn list(pool: &dyn Pool, session: &Session) -> Outcome {
    for class in deployed::list(pool).await? {
        let (summary, version) = class
            .version()
            .map_or(("", 0), |version| (version.manifest.summary.as_str(), version.manifest.version));
        let versions = units::count(class.versions.len() as u64, "version");
        let line = format!(
            "{:<12} {summary} (version {version}, {}, {versions})",
            class.name,
            class.current.short()
        );
        session.out.result(units::one_line(&line), || value(&class, pool.name()))?;
    }
    Ok(())
}

/// The versions of a class, a line each.
pub fn versions(class: &DeployedClass) -> String {
    let line = |(id, version): &(ModuleId, deployed::Version)| {
        let is_current = if *id == class.current { ", current" } else { "" };
        let at = units::utc(version.deployed_unix_s.saturating_mul(1_000_000_000));
        format!(
            "\n  {}  version {}, {}, deployed {at}, fuel {}, memory {}{is_current}",
            id.short(),
            version.manifest.version,
            units::size(version.len_bytes),
            version.limits.fuel,
            units::size(version.limits.memory_bytes)
        )
    };
    class.versions.iter().map(line).collect()
}

fn find_version(class: &DeployedClass, start: &str) -> Result<ModuleId> {
    let mut found = class.versions.iter().map(|(id, _)| *id).filter(|id| id.to_string().starts_with(start));
    match (found.next(), found.next()) {
        (Some(id), None) => Ok(id),
        (None, _) => Err(deployed::no_such_version(&class.name).with("version", start)),
        (Some(_), Some(_)) => {
            let message = "several versions begin like this; give more digits";
            Err(Error::invalid_argument(message).with("class", &class.name).with("version", start))
        }
    }
}

/// The JSON form of a deployed class.
pub fn value(class: &DeployedClass, pool: &str) -> Value {
    let version = |(id, version): &(ModuleId, deployed::Version)| {
        json!({
            "hash": id.to_string(),
            "version": version.manifest.version,
            "deployed_unix_s": version.deployed_unix_s,
            "len_bytes": version.len_bytes,
            "fuel": version.limits.fuel,
            "memory_bytes": version.limits.memory_bytes,
        })
    };
    let mut value = json!(class.info());
    let methods = class.version().map_or(&[][..], |version| &version.manifest.methods);
    for (shown, method) in value["methods"].as_array_mut().into_iter().flatten().zip(methods) {
        shown["objects"] = json!(method.objects);
    }
    value["pool"] = json!(pool);
    value["current"] = json!(class.current.to_string());
    value["versions"] = class.versions.iter().map(version).collect();
    value
}
