//! Pools and objects.

use crate::errors::to_exception;
use crate::ops;
use crate::runtime::wait;
use crate::slot::Slot;
use crate::store::Shared;
use benthic_core::names::is_reserved_namespace;
use benthic_core::{
    ClassCall, Error, ErrorKind, Fetch, ListRequest, ListToken, Namespaces, ObjectId, Result,
};
use benthic_program::collect::{OtherObject, check_none};
use benthic_program::deploy::{Deployment, undeploy};
use benthic_program::transfer::{Download, Replaced, upload};
use bytes::Bytes;
use pyo3::prelude::{Bound, PyAny, PyResult, Python};
use pyo3::types::{PyBytes, PyTuple};
use pyo3::{pyclass, pymethods};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Size of the first read, which is sent before the object's size is known.
const FIRST_BYTES: u64 = 1024 * 1024;
/// How often a read starts over because the object changed.
const ATTEMPTS: usize = 5;

#[pyclass(frozen)]
pub struct Pool {
    pool: Arc<Slot<OpenPool>>,
    namespace: String,
}

/// A pool, and its store, which describes the classes that run beside the pool's objects.
pub type OpenPool = (Arc<dyn benthic_core::Pool>, Arc<Shared>);

/// A page of a listing: namespaces and names, and the token of the next page.
type Page<'py> = (Vec<(String, String)>, Option<Bound<'py, PyBytes>>);

impl Pool {
    pub fn new(pool: Arc<Slot<OpenPool>>, namespace: String) -> Pool {
        Pool { pool, namespace }
    }

    fn open(&self) -> Result<Arc<dyn benthic_core::Pool>> {
        self.pool.get().map(|(pool, _)| pool)
    }

    fn object(&self, name: &str) -> Result<ObjectId> {
        ObjectId::in_namespace(self.namespace.clone(), name)
    }

    /// Names an object for writing; fails if the namespace is reserved.
    fn writable(&self, name: &str) -> Result<ObjectId> {
        if is_reserved_namespace(&self.namespace) {
            let message = "this namespace is reserved, for example for tables; use append or drop_table to change a table";
            let error = Error::permission_denied(message);
            return Err(error.with("namespace", &self.namespace));
        }
        self.object(name)
    }
}

#[pymethods]
impl Pool {
    /// Reads an object from an offset to its end. All bytes are of one version.
    fn get<'py>(&self, py: Python<'py>, name: &str, offset_bytes: u64) -> PyResult<Bound<'py, PyBytes>> {
        let data = wait(py, async || {
            let (pool, object) = (self.open()?, self.object(name)?);
            let mut attempt = 1;
            loop {
                match read_to_end(&*pool, &object, offset_bytes).await {
                    Err(error) if error.kind() == ErrorKind::Conflict && attempt < ATTEMPTS => attempt += 1,
                    read => return read,
                }
            }
        })?;
        Ok(PyBytes::new(py, &data))
    }

    fn get_range<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        offset_bytes: u64,
        len_bytes: u64,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let data =
            wait(py, async || self.open()?.read_range(&self.object(name)?, offset_bytes, len_bytes).await)?;
        Ok(PyBytes::new(py, &data))
    }

    fn put(&self, py: Python<'_>, name: &str, data: &Bound<'_, PyAny>) -> PyResult<u64> {
        let data = Bytes::from(ops::bytes(data)?);
        wait(py, async || upload(&*self.open()?, &self.writable(name)?, Replaced::Any, data, None).await)
    }

    /// Runs a read operation; returns the object's version and one output for each step.
    fn read<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        guards: Vec<Bound<'py, PyTuple>>,
        steps: Vec<Bound<'py, PyTuple>>,
    ) -> PyResult<(u64, Vec<Bound<'py, PyAny>>)> {
        let op = ops::read_op(&guards, &steps)?;
        let reply = wait(py, async || self.open()?.read(&self.object(name)?, op).await)?;
        let outputs = reply.outputs.iter().map(|output| ops::output(py, output)).collect::<PyResult<_>>()?;
        Ok((reply.version, outputs))
    }

    /// Runs a write operation; returns the object's version.
    fn write(
        &self,
        py: Python<'_>,
        name: &str,
        guards: Vec<Bound<'_, PyTuple>>,
        steps: Vec<Bound<'_, PyTuple>>,
        durable: bool,
    ) -> PyResult<u64> {
        let op = ops::write_op(&guards, &steps, durable)?;
        let reply = wait(py, async || self.open()?.write(&self.writable(name)?, op).await)?;
        Ok(reply.version)
    }

    fn exec<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        class: String,
        method: String,
        input: &Bound<'_, PyAny>,
        objects: BTreeMap<String, String>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let input = Bytes::from(ops::bytes(input)?);
        let output = wait(py, async || {
            let ((pool, store), object) = (self.pool.get()?, self.object(name)?);
            let other = |(name, object): (String, String)| {
                Ok(OtherObject { name, pool: Arc::clone(&pool), object: self.object(&object)? })
            };
            let others = objects.into_iter().map(other).collect::<Result<Vec<_>>>()?;
            let call = ClassCall { class, method, input };
            if is_reserved_namespace(&self.namespace) {
                check_none(&call.class, &others)?;
                return exec_read(&*pool, &object, call).await;
            }
            let (call, _) = store.opened().prepare_call(&*pool, Some(&object), call, others).await?;
            call.run(&*pool, &object).await
        })?;
        Ok(PyBytes::new(py, &output))
    }

    /// Deploys a class; returns its name and the hash of the version.
    fn deploy(
        &self,
        py: Python<'_>,
        wasm: &Bound<'_, PyAny>,
        key_pem: Option<String>,
        fuel: Option<u64>,
        memory_bytes: Option<u64>,
    ) -> PyResult<(String, String)> {
        let wasm = Bytes::from(ops::bytes(wasm)?);
        let deployment = Deployment { wasm, key_pem, fuel, memory_bytes, may_write: true };
        let class = wait(py, async || {
            let (pool, store) = self.pool.get()?;
            store.opened().deploy(&*pool, deployment).await
        })?;
        Ok((class.name, class.current.to_string()))
    }

    /// Removes a deployed class with all its versions.
    fn undeploy(&self, py: Python<'_>, class: &str) -> PyResult<()> {
        wait(py, async || undeploy(&*self.open()?, class, None).await).map(drop)
    }

    fn list<'py>(
        &self,
        py: Python<'py>,
        prefix: String,
        after: Option<Vec<u8>>,
        all_namespaces: bool,
    ) -> PyResult<Page<'py>> {
        let namespaces = match all_namespaces {
            true => Namespaces::All,
            false => Namespaces::One(self.namespace.clone()),
        };
        let after = after.map(|token| ListToken(token.into()));
        let request = ListRequest { namespaces, prefix, after, ..ListRequest::default() };
        let page = wait(py, async || self.open()?.list(request).await)?;
        let is_shown = |object: &&ObjectId| !all_namespaces || !is_reserved_namespace(object.namespace());
        let names = page.objects.iter().filter(is_shown);
        let names = names.map(|object| (object.namespace().to_owned(), object.name().to_owned())).collect();
        Ok((names, page.next.map(|token| PyBytes::new(py, &token.0))))
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.pool.close().map(drop)).map_err(|error| to_exception(&error))
    }
}

/// Reads an object from an offset to its end, in one round trip if the rest fits the first read.
async fn read_to_end(pool: &dyn benthic_core::Pool, object: &ObjectId, offset_bytes: u64) -> Result<Bytes> {
    let first = Fetch::stat().and(Fetch::read(offset_bytes, FIRST_BYTES));
    let ((stat, first), version) = pool.fetch(object, first).await?;
    let read_bytes = offset_bytes.saturating_add(first.len() as u64);
    if read_bytes >= stat.size_bytes {
        return Ok(first);
    }
    let download = Download::of_version(pool, object, version, stat.size_bytes);
    let mut download = download.skip_to(read_bytes);
    let mut data = Vec::with_capacity(usize::try_from(stat.size_bytes - offset_bytes).unwrap_or_default());
    data.extend_from_slice(&first);
    while let Some(range) = download.next().await? {
        data.extend_from_slice(&range);
    }
    Ok(data.into())
}

async fn exec_read(pool: &dyn benthic_core::Pool, object: &ObjectId, call: ClassCall) -> Result<Bytes> {
    pool.fetch(object, Fetch::exec(call)).await.map(|(output, _)| output)
}
