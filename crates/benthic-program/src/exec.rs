//! Class calls with their result. A method that writes has no output, because an OSD returns none.
//! It may store its result in an attribute. The functions here find that attribute and read it.

use crate::collect::{OtherObject, check_none, collect};
use crate::reduce::Reducer;
use crate::store::OpenStore;
use benthic_core::{ClassCall, ClassInfo, Error, ErrorKind, ObjectId, Pool, Result};
use benthic_wasm::deployed::{DeployedClass, Version};
use benthic_wasm::{Call, Limits, Manifest, Module, ModuleId, Wasm, deployed};
use bytes::Bytes;

/// A placeholder object name for calls that do not depend on an object.
const ANY_OBJECT: &str = "benthic.describe";

impl OpenStore {
    /// The classes that a call may refer to: those of the store, and the named class if an external
    /// library provides it. Without an object, it asks any OSD of the pool about the named class.
    pub async fn classes_for_call(
        &self,
        pool: &str,
        object: Option<&ObjectId>,
        class: &str,
    ) -> Result<Vec<ClassInfo>> {
        let mut classes = self.store.classes().await?;
        if let Some(rados) = &self.rados {
            let any = ObjectId::new(ANY_OBJECT)?;
            // Ignore a missing pool here: opening it later fails with a similar name as a hint.
            match rados.class(pool, object.unwrap_or(&any), class).await {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                found => classes.extend(found.ok().flatten()),
            }
        }
        Ok(classes)
    }

    /// Prepares a call: of a native class if there is one of this name, otherwise of a class that
    /// is deployed to the pool. Reads the other objects that the method declares. Also returns the
    /// classes that the call may refer to.
    ///
    /// # Errors
    /// `Unsupported` if the deployed class has no such method, or for other objects with a native
    /// class; `InvalidArgument`, `NotFound` and `LimitExceeded` for wrong, missing and too large
    /// other objects; those of the pools.
    pub async fn prepare_call(
        &self,
        pool: &dyn Pool,
        object: Option<&ObjectId>,
        call: ClassCall,
        others: Vec<OtherObject>,
    ) -> Result<(PreparedCall, Vec<ClassInfo>)> {
        let mut classes = self.classes_for_call(pool.name(), object, &call.class).await?;
        if classes.iter().any(|class| class.name == call.class) {
            check_none(&call.class, &others)?;
            return Ok((PreparedCall::native(&classes, call), classes));
        }
        let prepared = match find_deployed(pool, &call.class).await? {
            None => {
                check_none(&call.class, &others)?;
                PreparedCall::native(&classes, call)
            }
            Some((class, version)) => {
                self.check_runs_modules(pool, object).await?;
                classes.extend(class.info());
                PreparedCall::module(&version.manifest, class.current, version.limits, None, call, others)
                    .await?
            }
        };
        Ok((prepared, classes))
    }
}

impl OpenStore {
    /// Checks that the store runs modules. Without an object, it asks any OSD of the pool.
    ///
    /// # Errors
    /// `Unsupported` if it does not.
    pub async fn check_runs_modules(&self, pool: &dyn Pool, object: Option<&ObjectId>) -> Result<()> {
        let classes = self.classes_for_call(pool.name(), object, Wasm::NAME).await?;
        if classes.iter().any(|class| class.name == Wasm::NAME) {
            return Ok(());
        }
        let message = "the OSDs have no library that runs WebAssembly; `benthic class install libcls_wasm_1.so` installs it";
        Err(Error::unsupported(message).with("pool", pool.name()))
    }
}

/// The class that is deployed to a pool under this name, and its current version.
async fn find_deployed(pool: &dyn Pool, name: &str) -> Result<Option<(DeployedClass, Version)>> {
    let class = match deployed::find(pool, name).await {
        // The pool has no omap, or the client may call methods only.
        Err(error) if matches!(error.kind(), ErrorKind::Unsupported | ErrorKind::PermissionDenied) => None,
        found => found?,
    };
    Ok(class.and_then(|class| {
        let version = class.version()?.clone();
        Some((class, version))
    }))
}

/// A method call that is ready to run beside any object: of a native class, or of a module.
#[derive(Clone)]
pub struct PreparedCall {
    call: ClassCall,
    result_xattr: Option<String>,
    module: Option<ModuleCall>,
}

#[derive(Clone)]
struct ModuleCall {
    id: ModuleId,
    limits: Limits,
    writes: bool,
    /// `None` if the pool has the module.
    wasm: Option<Bytes>,
}

impl PreparedCall {
    /// A call of a native class. `classes` are those that the store is known to have.
    pub fn native(classes: &[ClassInfo], call: ClassCall) -> PreparedCall {
        let class = classes.iter().find(|class| class.name == call.class);
        let method = class.and_then(|class| class.methods.iter().find(|method| method.name == call.method));
        let result_xattr = method.and_then(|method| method.result_xattr.clone());
        PreparedCall { call, result_xattr, module: None }
    }

    /// A call of a module that is not deployed.
    ///
    /// # Errors
    /// As [`Module::new`]; `Unsupported` if the module has no such method; those of other objects,
    /// as [`OpenStore::prepare_call`].
    pub async fn of_module(
        wasm: Bytes,
        method: &str,
        input: Bytes,
        others: Vec<OtherObject>,
    ) -> Result<PreparedCall> {
        let module = Module::new(&wasm)?;
        let call = ClassCall::new(&module.manifest().class, method, input);
        let limits = Limits::default();
        PreparedCall::module(module.manifest(), module.id(), limits, Some(wasm), call, others).await
    }

    async fn module(
        manifest: &Manifest,
        id: ModuleId,
        limits: Limits,
        wasm: Option<Bytes>,
        mut call: ClassCall,
        others: Vec<OtherObject>,
    ) -> Result<PreparedCall> {
        let method = manifest.method(&call.method)?;
        call.input = collect(method, call.input, others).await?;
        let module = ModuleCall { id, limits, writes: method.writes, wasm };
        Ok(PreparedCall { call, result_xattr: method.result_xattr.clone(), module: Some(module) })
    }

    /// Prepares a call of a class that is deployed to a pool, without other objects; `None` if
    /// there is no such class.
    ///
    /// # Errors
    /// `Unsupported` if the class has no such method; those of the pool.
    pub async fn of_deployed(pool: &dyn Pool, call: ClassCall) -> Result<Option<PreparedCall>> {
        let Some((class, version)) = find_deployed(pool, &call.class).await? else { return Ok(None) };
        PreparedCall::module(&version.manifest, class.current, version.limits, None, call, Vec::new())
            .await
            .map(Some)
    }

    /// The class, the method and its input, which contains the other objects.
    pub fn call(&self) -> &ClassCall {
        &self.call
    }

    /// Whether the method is one of a module.
    pub fn is_module(&self) -> bool {
        self.module.is_some()
    }

    /// Whether the method of a module writes.
    pub fn module_writes(&self) -> bool {
        self.module.as_ref().is_some_and(|module| module.writes)
    }

    /// The module's hash; `None` for a native class.
    pub fn module_id(&self) -> Option<ModuleId> {
        self.module.as_ref().map(|module| module.id)
    }

    /// Fetches the module of a call from the pool to which its class is deployed, so that the call
    /// also runs in other pools. Does nothing for a native class.
    ///
    /// # Errors
    /// `PermissionDenied` if the rules of the pool's engine do not let the module run; those of the
    /// pool.
    pub async fn attach_module(&mut self, pool: &dyn Pool) -> Result<()> {
        if let Some(module) = &mut self.module
            && module.wasm.is_none()
        {
            let wasm = deployed::fetch(pool, module.id).await?;
            deployed::check_rules(pool, &wasm, module.limits).await?;
            module.wasm = Some(wasm);
        }
        Ok(())
    }

    /// Prepares the method of the same module that merges results.
    ///
    /// # Errors
    /// `Unsupported` for a native class, or if the module has no such method; `InvalidArgument` if
    /// the method does not merge results; those of the pool.
    pub async fn reducer(&mut self, pool: &dyn Pool, method: &str) -> Result<Reducer> {
        let Some(module) = &mut self.module else {
            let message = "only a WebAssembly class has a method that merges results";
            return Err(Error::unsupported(message).with("class", &self.call.class));
        };
        let wasm = match module.wasm.take() {
            Some(wasm) => wasm,
            None => deployed::fetch(pool, module.id).await?,
        };
        // Calls need not fetch it again.
        module.wasm = Some(wasm.clone());
        Reducer::new(wasm, module.limits, method).await
    }

    /// Runs the method beside an object, and returns its output or the content of the attribute
    /// that holds its result. Another call may replace the attribute between the two steps.
    ///
    /// # Errors
    /// Those of [`Pool::exec`] and of reading the attribute.
    pub async fn run(&self, pool: &dyn Pool, object: &ObjectId) -> Result<Bytes> {
        let output = match &self.module {
            None => pool.exec(object, self.call.clone()).await?,
            Some(module) => {
                let (method, input) = (self.call.method.clone(), self.call.input.clone());
                let call = Call { module: module.id, limits: module.limits, method, input, attached: None };
                let fetch = async || match &module.wasm {
                    Some(wasm) => Ok(wasm.clone()),
                    None => deployed::fetch(pool, module.id).await,
                };
                benthic_wasm::exec(pool, object, call, module.writes, fetch).await?
            }
        };
        if let Some(name) = &self.result_xattr { pool.get_xattr(object, name).await } else { Ok(output) }
    }
}
