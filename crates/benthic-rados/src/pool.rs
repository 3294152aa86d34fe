//! A pool: its namespaces and the operations on its objects.

use crate::connection::Shared;
use crate::errors::{c_string, lost};
use crate::ffi::IoCtx;
use crate::listing::{self, ALL_NAMESPACES};
use crate::{read, write};
use async_trait::async_trait;
use benthic_class_names::CEPH_CLASS_PREFIX;
use benthic_core::{
    ClassCall, Error, ExecOp, ListPage, ListRequest, MethodFlags, ObjectId, OptionalExtension, Pool, ReadOp,
    ReadReply, Result, WriteOp, WriteReply, WriteStep,
};
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::ffi::CString;
use std::sync::Arc;

/// Limit of cached I/O contexts, one per namespace.
const CONTEXTS_MAX: usize = 256;

pub(crate) struct RadosPool {
    shared: Arc<Shared>,
    name: String,
    /// Identifies this pool, not a later pool with the same name.
    id: i64,
    contexts: Mutex<HashMap<String, Arc<IoCtx>>>,
}

impl RadosPool {
    /// `context` is the I/O context of the default namespace.
    pub fn new(shared: Arc<Shared>, name: String, id: i64, context: Arc<IoCtx>) -> RadosPool {
        RadosPool { shared, name, id, contexts: Mutex::new(HashMap::from([(String::new(), context)])) }
    }

    pub fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    pub fn is_of_this_build(&self, call: &ClassCall) -> bool {
        self.shared.class_names.contains(&call.class)
    }

    /// The I/O context of a namespace, through which the objects in it are addressed.
    async fn context(&self, namespace: &str) -> Result<Arc<IoCtx>> {
        if namespace == ALL_NAMESPACES {
            return Err(Error::unsupported("Ceph reserves this namespace; use another name"));
        }
        if let Some(context) = self.contexts.lock().get(namespace) {
            return Ok(Arc::clone(context));
        }
        let context = self.open_context(namespace).await?;
        let mut contexts = self.contexts.lock();
        if contexts.len() >= CONTEXTS_MAX {
            // A context is cheap to open again, and operations in flight keep theirs alive.
            contexts.clear();
        }
        contexts.insert(namespace.to_owned(), Arc::clone(&context));
        Ok(context)
    }

    /// Opens the context on a thread: if the pool no longer exists, librados waits for a monitor.
    async fn open_context(&self, namespace: &str) -> Result<Arc<IoCtx>> {
        let (id, name, namespace) = (self.id, self.name.clone(), c_string(namespace)?);
        self.shared.run(move |shared| shared.open_context(id, &name, &namespace)).await
    }

    /// Looks up the libraries of the called classes that are not in this build.
    async fn find_libraries<'a>(
        &self,
        object: &ObjectId,
        calls: impl Iterator<Item = &'a ClassCall> + Send,
    ) -> Result<()> {
        for call in calls.filter(|call| !self.is_of_this_build(call)) {
            let context = self.context(object.namespace()).await?;
            let Shared { libraries, in_flight, .. } = &*self.shared;
            libraries.find(in_flight, &context, object, &call.class, Some(&call.method)).await?;
        }
        Ok(())
    }

    /// The flags of a method; `None` for a native class, which only the OSDs know.
    fn flags(&self, call: &ClassCall) -> Result<Option<MethodFlags>> {
        if !self.is_of_this_build(call) {
            return Ok(self.shared.libraries.method(call).map(|(_, flags)| flags));
        }
        Ok(Some(self.shared.options.classes.method(&call.class, &call.method)?.flags))
    }

    async fn read_op(&self, object: &ObjectId, op: &ReadOp) -> Result<ReadReply> {
        let len_bytes = op.check()?;
        let methods = op.steps.iter().filter_map(read::call);
        self.find_libraries(object, methods.clone()).await?;
        for call in methods {
            if self.flags(call)?.is_some_and(|flags| flags.contains(MethodFlags::WRITE)) {
                let message =
                    "a write method does not run in a read operation; use exec or a write operation";
                return Err(Error::invalid_argument(message)
                    .with("class", &call.class)
                    .with("method", &call.method));
            }
        }
        self.send_read(object, op, len_bytes, false).await
    }

    /// Sends a read operation that carries `len_bytes` bytes. A native method may change the object
    /// even in a read operation. A caller that permits this sets `may_change`; a time-out is then
    /// `OutcomeUnknown`.
    async fn send_read(
        &self,
        object: &ObjectId,
        op: &ReadOp,
        len_bytes: u64,
        may_change: bool,
    ) -> Result<ReadReply> {
        let context = self.context(object.namespace()).await?;
        let name = c_string(object.name())?;
        let plan = read::Plan::new(op, |call| self.wire_names(call))?;
        let native = op.steps.iter().filter_map(read::call).find(|call| !self.is_of_this_build(call));
        let permit = self.shared.in_flight.enter(len_bytes, context.address(object)).await?;
        let answer = context.read(
            &name,
            plan.build(&context).with_permit(permit),
            self.shared.options.localized_reads,
            native.map(|_| &self.shared.calls),
        );
        let completed = answer.await.map_err(lost)?;
        if let Some(call) = native.filter(|_| completed.is_cancelled) {
            return Err(self.late_call(&context, object, call).await);
        }
        match read::reply(&plan, completed, may_change) {
            Ok(reply) => Ok(reply),
            Err(failure) => {
                Err(self.explain(&context, object, op.steps.iter().find_map(read::call), failure).await)
            }
        }
    }

    async fn write_op(&self, object: &ObjectId, op: &WriteOp) -> Result<WriteReply> {
        let len_bytes = op.check()?;
        if op.guards.is_empty() && op.steps.is_empty() {
            return self.write_nothing(object).await;
        }
        let context = self.context(object.namespace()).await?;
        let mut needs_object = false;
        let mut method = None;
        if let Some(WriteStep::Exec(call)) = op.steps.first() {
            self.find_libraries(object, std::iter::once(call)).await?;
            // The contract does not call a READ method on a missing object. An OSD would, if other
            // steps stand beside it.
            needs_object = self.flags(call)?.is_some_and(|flags| !flags.contains(MethodFlags::WRITE));
            method = Some((call, self.wire_names(call)?));
        }
        let name = c_string(object.name())?;
        let permit = self.shared.in_flight.enter(len_bytes, context.address(object)).await?;
        let names = method.as_ref().map(|(_, names)| names);
        let call = method.as_ref().map(|(call, _)| *call);
        let native = call.filter(|call| !self.is_of_this_build(call));
        let answer = context.write(
            &name,
            write::build(&context, op, names, needs_object)?.with_permit(permit),
            native.map(|_| &self.shared.calls),
        );
        let completed = answer.await.map_err(lost)?;
        if let Some(call) = native.filter(|_| completed.is_cancelled) {
            return Err(self.late_call(&context, object, call).await);
        }
        match write::reply(&completed, call) {
            Ok(reply) => Ok(reply),
            Err(failure) => Err(self.explain(&context, object, call, failure).await),
        }
    }

    /// Handles an operation without guards and steps, which an OSD would refuse: reads only the
    /// version.
    async fn write_nothing(&self, object: &ObjectId) -> Result<WriteReply> {
        let reply = self.send_read(object, &ReadOp::new(), 0, false).await.optional()?;
        Ok(WriteReply { version: reply.map_or(0, |reply| reply.version) })
    }

    async fn exec_call(&self, object: &ObjectId, call: ClassCall) -> Result<Bytes> {
        let len_bytes = call.check()?;
        self.find_libraries(object, std::iter::once(&call)).await?;
        let flags = self.flags(&call)?;
        match call.into_op(flags.is_some_and(|flags| flags.contains(MethodFlags::WRITE))) {
            ExecOp::Write(op) => self.write_op(object, &op).await.map(|_| Bytes::new()),
            // As in librados' own exec: an OSD also runs a native method that writes from a read
            // operation.
            ExecOp::Read(fetch) => {
                let (op, outputs) = fetch.into_parts();
                let reply = self.send_read(object, &op, len_bytes, flags.is_none()).await?;
                outputs.of(reply).map(|(output, _)| output)
            }
        }
    }

    async fn list_page(&self, request: &ListRequest) -> Result<ListPage> {
        let listing = listing::Listing::new(request)?;
        let context = match listing.namespace() {
            Some(namespace) => self.context(namespace).await?,
            None => self.open_context(ALL_NAMESPACES).await?,
        };
        let limit = listing::PAGE_TIME + 2 * self.shared.options.osd_timeout();
        let clock = Arc::clone(&self.shared.options.clock);
        self.shared
            .blocking
            .run("the OSDs that list the objects", limit, move |_| listing.page(&context, &*clock))
            .await
    }

    fn at_object(&self, op: &'static str, object: &ObjectId, error: Error) -> Error {
        error.with_op(op).with("pool", &self.name).with("object", object)
    }

    /// The names under which the OSDs know the class and the method.
    pub fn wire_names(&self, call: &ClassCall) -> Result<(CString, CString)> {
        if self.is_of_this_build(call) {
            let method = c_string(format!("{}.{}", call.class, call.method))?;
            return Ok((c_string(crate::CLASS_LIBRARY)?, method));
        }
        if let Some((found, _)) = self.shared.libraries.method(call) {
            let method = c_string(format!("{}.{}", found.class.name, call.method))?;
            return Ok((c_string(found.library.as_str())?, method));
        }
        let class = call.class.strip_prefix(CEPH_CLASS_PREFIX).unwrap_or(&call.class);
        Ok((c_string(class)?, c_string(call.method.as_str())?))
    }
}

#[async_trait]
impl Pool for RadosPool {
    fn name(&self) -> &str {
        &self.name
    }

    async fn read(&self, object: &ObjectId, op: ReadOp) -> Result<ReadReply> {
        self.read_op(object, &op).await.map_err(|error| self.at_object("read", object, error))
    }

    async fn write(&self, object: &ObjectId, op: WriteOp) -> Result<WriteReply> {
        self.write_op(object, &op).await.map_err(|error| self.at_object("write", object, error))
    }

    async fn exec(&self, object: &ObjectId, call: ClassCall) -> Result<Bytes> {
        self.exec_call(object, call).await.map_err(|error| self.at_object("exec", object, error))
    }

    async fn list(&self, request: ListRequest) -> Result<ListPage> {
        self.list_page(&request).await.map_err(|error| error.with_op("list").with("pool", &self.name))
    }
}
