//! Deploys classes that are WebAssembly modules, for all programs.

use crate::store::OpenStore;
use benthic_class_names::CEPH_CLASSES;
use benthic_core::{Error, Pool, Result, SystemClock};
use benthic_wasm::deployed::{self, Actor, DeployedClass};
use benthic_wasm::{Limits, Module, ModuleId, SigningKey};
use bytes::Bytes;
use std::{env, fs};

/// A module to deploy.
pub struct Deployment {
    pub wasm: Bytes,
    /// An Ed25519 key (PEM) that signs the module.
    pub key_pem: Option<String>,
    /// Limits of a call; [`Limits::default`] where missing.
    pub fuel: Option<u64>,
    pub memory_bytes: Option<u64>,
    /// Whether its methods may write.
    pub may_write: bool,
}

impl OpenStore {
    /// Deploys a class to a pool. Calls use it at once.
    ///
    /// # Errors
    /// As [`deployed::deploy`]; `InvalidArgument` for a limit beyond [`Limits::MAX`] or a key that
    /// is not valid; `PermissionDenied` if a method writes and may not; `AlreadyExists` if a native
    /// class has the name.
    pub async fn deploy(&self, pool: &dyn Pool, deployment: Deployment) -> Result<DeployedClass> {
        let limits = limits(&deployment)?;
        let wasm = match &deployment.key_pem {
            Some(pem) => SigningKey::from_pem(pem)?.sign(&deployment.wasm)?.into(),
            None => deployment.wasm,
        };
        let module = Module::new(&wasm)?;
        let writing = module.manifest().methods.iter().find(|method| method.writes);
        if let Some(method) = writing.filter(|_| !deployment.may_write) {
            let message = "the method writes; `--allow write` deploys such a class";
            return Err(Error::permission_denied(message).with("method", &method.name));
        }
        let name = &module.manifest().class;
        if CEPH_CLASSES.contains(&name.as_str())
            || self.classes_for_call(pool.name(), None, name).await?.iter().any(|class| class.name == *name)
        {
            let message = "Benthic or Ceph has a class of this name, which calls would use; choose another";
            return Err(Error::already_exists(message).with("class", name));
        }
        deployed::deploy(pool, wasm, limits, actor(&actor_name())).await
    }
}

/// As [`deployed::undeploy`].
///
/// # Errors
/// Those of [`deployed::undeploy`].
pub async fn undeploy(pool: &dyn Pool, class: &str, version: Option<ModuleId>) -> Result<Vec<ModuleId>> {
    deployed::undeploy(pool, class, version, actor(&actor_name())).await
}

/// As [`deployed::select`].
///
/// # Errors
/// Those of [`deployed::select`].
pub async fn select(pool: &dyn Pool, class: &str, version: ModuleId) -> Result<()> {
    deployed::select(pool, class, version, actor(&actor_name())).await
}

fn limits(deployment: &Deployment) -> Result<Limits> {
    let default = Limits::default();
    let limits = Limits {
        fuel: deployment.fuel.unwrap_or(default.fuel),
        memory_bytes: deployment.memory_bytes.unwrap_or(default.memory_bytes),
    };
    if limits.clamped() != limits {
        let message = "the fuel or the memory of a call is larger than the engine allows";
        return Err(Error::invalid_argument(message)
            .with("fuel_max", Limits::MAX.fuel)
            .with("memory_bytes_max", Limits::MAX.memory_bytes));
    }
    Ok(limits)
}

fn actor(name: &str) -> Actor<'_> {
    Actor { name, clock: &SystemClock }
}

/// The user and the host, as the environment gives them.
fn actor_name() -> String {
    let user = env::var("USER").or_else(|_| env::var("LOGNAME")).unwrap_or_else(|_| "unknown".to_owned());
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("{user}@{}", host.trim())
}
