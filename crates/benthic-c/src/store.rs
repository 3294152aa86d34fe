//! The stores and pools that a C program has open. Handles refer to them.

use crate::completion::Callbacks;
use crate::handles::Item;
use crate::runtime::wait;
use benthic_core::names::{check_namespace, check_pool_name, is_reserved_namespace};
use benthic_core::op::ClassCall;
use benthic_core::{Error, ErrorKind, Fetch, ListPage, ListRequest, ListToken, Namespaces, ObjectId, Result};
use benthic_program::log_panics;
use benthic_program::store::{OpenStore, open};
use bytes::Bytes;
use parking_lot::Mutex;
use std::sync::{Arc, Once};

/// An open store.
pub struct Store {
    /// `None` after the store was closed.
    opened: Mutex<Option<Arc<OpenStore>>>,
    pub callbacks: Callbacks,
}

/// An open pool, and the namespace of its objects.
pub struct Pool {
    pool: Arc<dyn benthic_core::Pool>,
    store: Arc<Store>,
    namespace: String,
}

impl Item for Store {
    const TYPE: &str = "benthic_store";
}

impl Item for Pool {
    const TYPE: &str = "benthic_pool";
}

impl Store {
    /// Opens a store, as the programs do.
    pub fn open(uri: &str, create: bool) -> Result<Store> {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| log_panics(false));
        let opened =
            wait(open(uri, create, benthic_classes::registry())).map_err(|error| match error.kind() {
                ErrorKind::NotFound if uri.starts_with("file:") => {
                    let message = "there is no store here; open it with `create` to create one";
                    Error::not_found(message).with("store", uri)
                }
                _ => error,
            })?;
        Ok(Store { opened: Mutex::new(Some(Arc::new(opened))), callbacks: Callbacks::default() })
    }

    /// # Errors
    /// `InvalidArgument` after the store was closed.
    pub fn open_store(&self) -> Result<Arc<OpenStore>> {
        self.opened
            .lock()
            .clone()
            .ok_or_else(|| Error::invalid_argument("the store of this handle is closed; open it again"))
    }

    /// Closes the store. Afterwards all acknowledged writes are on disk.
    ///
    /// # Errors
    /// Those of the last writes.
    pub fn close(&self) -> Result<()> {
        let opened = self.opened.lock().take();
        if let Some(opened) = opened { wait(opened.close()) } else { Ok(()) }
    }

    /// Opens a pool.
    ///
    /// # Errors
    /// `NotFound`, `InvalidArgument` for an invalid name.
    pub async fn pool(self: &Arc<Self>, name: &str, namespace: &str) -> Result<Pool> {
        check_pool_name(name)?;
        check_namespace(namespace)?;
        let pool = self.open_store()?.store.open_pool(name).await?;
        Ok(Pool { pool, store: Arc::clone(self), namespace: namespace.to_owned() })
    }
}

impl Pool {
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// The pool in the engine.
    ///
    /// # Errors
    /// `InvalidArgument` after the store was closed.
    pub fn engine(&self) -> Result<Arc<dyn benthic_core::Pool>> {
        self.store.open_store()?;
        Ok(Arc::clone(&self.pool))
    }

    pub fn object(&self, name: &str) -> Result<ObjectId> {
        ObjectId::in_namespace(self.namespace.clone(), name)
    }

    /// Names an object for writing.
    ///
    /// # Errors
    /// `PermissionDenied` if the namespace is reserved.
    pub fn writable(&self, name: &str) -> Result<ObjectId> {
        if is_reserved_namespace(&self.namespace) {
            let message = "this namespace is reserved for tables, images and other structures; single objects \
                           in it cannot be written";
            let error = Error::permission_denied(message);
            return Err(error.with("namespace", &self.namespace));
        }
        self.object(name)
    }

    /// Runs a method of a native or a deployed class.
    ///
    /// # Errors
    /// Those of [`benthic_core::Pool::exec`].
    pub async fn exec(&self, object: &str, call: ClassCall) -> Result<Bytes> {
        let (opened, object) = (self.store.open_store()?, self.object(object)?);
        call.check()?;
        if is_reserved_namespace(&self.namespace) {
            return self.pool.fetch(&object, Fetch::exec(call)).await.map(|(output, _)| output);
        }
        let (call, _) = opened.prepare_call(&*self.pool, Some(&object), call, Vec::new()).await?;
        call.run(&*self.pool, &object).await
    }

    /// Lists a page of the objects in the pool's namespace or in all namespaces that are not
    /// reserved.
    ///
    /// # Errors
    /// Those of [`benthic_core::Pool::list`].
    pub async fn list(
        &self,
        prefix: &str,
        all_namespaces: bool,
        after: Option<Bytes>,
        objects_max: usize,
    ) -> Result<ListPage> {
        let namespaces = match all_namespaces {
            true => Namespaces::All,
            false => Namespaces::One(self.namespace.clone()),
        };
        let request =
            ListRequest { namespaces, prefix: prefix.to_owned(), after: after.map(ListToken), objects_max };
        let mut page = self.engine()?.list(request).await?;
        if all_namespaces {
            page.objects.retain(|object| !is_reserved_namespace(object.namespace()));
        }
        Ok(page)
    }
}
