//! A pool: its namespaces, and the operations on its objects.

use crate::errors::{self, c_string};
use crate::ffi::IoCtx;
use crate::store::Shared;
use crate::{listing, read, write};
use async_trait::async_trait;
use benthic_core::{
    Action, ClassCall, Error, ErrorKind, ListPage, ListRequest, MethodFlags, ObjectId, Pool, ReadOp,
    ReadOutput, ReadReply, ReadStep, Result, WriteOp, WriteReply, WriteStep,
};
use bytes::Bytes;
use futures::channel::oneshot;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::sync::Arc;

/// Namespaces whose I/O contexts are kept.
const CONTEXTS_MAX: usize = 256;

/// The name that librados takes for all namespaces.
pub(crate) const ALL_NAMESPACES: &str = "\u{1}";

pub(crate) struct RadosPool {
    shared: Arc<Shared>,
    name: String,
    /// Of this pool and no later one with the same name.
    id: i64,
    contexts: Mutex<HashMap<String, Arc<IoCtx>>>,
}

impl RadosPool {
    pub fn new(shared: Arc<Shared>, name: String, id: i64) -> RadosPool {
        RadosPool { shared, name, id, contexts: Mutex::default() }
    }

    /// The I/O context of a namespace; objects are addressed through their namespace's.
    fn context(&self, namespace: &str) -> Result<Arc<IoCtx>> {
        if namespace == ALL_NAMESPACES {
            return Err(Error::new(
                ErrorKind::Unsupported,
                "Ceph keeps this namespace for itself; use another name",
            ));
        }
        if let Some(context) = self.contexts.lock().get(namespace) {
            return Ok(Arc::clone(context));
        }
        let context = self.open_context(namespace)?;
        let mut contexts = self.contexts.lock();
        if contexts.len() >= CONTEXTS_MAX {
            // Cheap to make again, and operations in flight hold theirs.
            contexts.clear();
        }
        contexts.insert(namespace.to_owned(), Arc::clone(&context));
        Ok(context)
    }

    fn open_context(&self, namespace: &str) -> Result<Arc<IoCtx>> {
        IoCtx::open(&self.shared.cluster, self.id, &c_string(namespace)?)
            .map_err(|number| errors::of_operation(number, Action::Read).with("pool", &self.name))
    }

    /// What the method does; `None` for a native class, which only the OSDs know.
    fn flags(&self, call: &ClassCall) -> Result<Option<MethodFlags>> {
        if !self.shared.class_names.contains(&call.class) {
            return Ok(None);
        }
        Ok(Some(self.shared.options.classes.method(&call.class, &call.method)?.flags))
    }

    async fn read_op(&self, object: &ObjectId, op: &ReadOp) -> Result<ReadReply> {
        op.check()?;
        let methods = op.steps.iter().filter_map(|step| match step {
            ReadStep::Exec(call) => Some(call),
            _ => None,
        });
        for call in methods {
            if self.flags(call)?.is_some_and(|flags| flags.contains(MethodFlags::WRITE)) {
                return Err(Error::new(
                    ErrorKind::InvalidArgument,
                    "a write method does not run in a read operation; use exec or a write operation",
                )
                .with("class", &call.class)
                .with("method", &call.method));
            }
        }
        self.send_read(object, op, false).await
    }

    /// Sends a read operation. A native method that it calls may change the object; whoever allows that says so, and
    /// gets `OutcomeUnknown` for a time-out.
    async fn send_read(&self, object: &ObjectId, op: &ReadOp, may_change: bool) -> Result<ReadReply> {
        let context = self.context(object.namespace())?;
        let plan = read::Plan::new(op, |call| self.wire_names(call))?;
        let answer = context.read(
            &c_string(object.name())?,
            plan.build(&context),
            self.shared.options.localized_reads,
        );
        let completed = answer.await.map_err(lost)?;
        read::reply(&plan, completed, may_change)
    }

    async fn write_op(&self, object: &ObjectId, op: &WriteOp) -> Result<WriteReply> {
        op.check()?;
        if op.guards.is_empty() && op.steps.is_empty() {
            return self.write_nothing(object).await;
        }
        let context = self.context(object.namespace())?;
        let mut needs_object = false;
        let mut method = None;
        if let Some(WriteStep::Exec(call)) = op.steps.first() {
            // A READ method alone is not called on a missing object; with other steps beside it an OSD would.
            needs_object = self.flags(call)?.is_some_and(|flags| !flags.contains(MethodFlags::WRITE));
            method = Some((call, self.wire_names(call)?));
        }
        let built = write::build(&context, op, method.as_ref().map(|(_, names)| names), needs_object)?;
        let completed = context.write(&c_string(object.name())?, built).await.map_err(lost)?;
        write::reply(&completed, method.map(|(call, _)| call))
    }

    /// An OSD refuses an operation without steps; what it answers is the version.
    async fn write_nothing(&self, object: &ObjectId) -> Result<WriteReply> {
        match self.send_read(object, &ReadOp::new(), false).await {
            Ok(reply) => Ok(WriteReply { version: reply.version }),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(WriteReply { version: 0 }),
            Err(error) => Err(error),
        }
    }

    async fn exec_call(&self, object: &ObjectId, call: &ClassCall) -> Result<Bytes> {
        let flags = self.flags(call)?;
        if flags.is_some_and(|flags| flags.contains(MethodFlags::WRITE)) {
            self.write_op(object, &WriteOp { steps: vec![call.clone().into()], ..WriteOp::new() }).await?;
            return Ok(Bytes::new());
        }
        let op = ReadOp { guards: Vec::new(), steps: vec![call.clone().into()] };
        op.check()?;
        // As librados' own exec: an OSD runs a native method that writes from a read operation too.
        let reply = self.send_read(object, &op, flags.is_none()).await?;
        match reply.outputs.into_iter().next() {
            Some(ReadOutput::Exec(output)) => Ok(output),
            _ => Err(Error::new(ErrorKind::Internal, "exec gave no output")),
        }
    }

    /// Class and method as the OSDs know them.
    fn wire_names(&self, call: &ClassCall) -> Result<(CString, CString)> {
        if self.shared.class_names.contains(&call.class) {
            let method = c_string(format!("{}.{}", call.class, call.method))?;
            return Ok((c_string(crate::CLASS_LIBRARY)?, method));
        }
        Ok((c_string(call.class.as_str())?, c_string(call.method.as_str())?))
    }
}

fn lost(_: oneshot::Canceled) -> Error {
    Error::new(ErrorKind::Internal, "librados dropped an operation")
}

/// The part of `bytes` that a C string can hold.
pub(crate) fn up_to_nul(bytes: &[u8]) -> CString {
    let len = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    let mut text = bytes[..len].to_vec();
    text.push(0);
    CStr::from_bytes_until_nul(&text).unwrap_or_default().to_owned()
}

#[async_trait]
impl Pool for RadosPool {
    fn name(&self) -> &str {
        &self.name
    }

    async fn read(&self, object: &ObjectId, op: ReadOp) -> Result<ReadReply> {
        self.read_op(object, &op).await.map_err(|error| error.with_op("read").with("object", object))
    }

    async fn write(&self, object: &ObjectId, op: WriteOp) -> Result<WriteReply> {
        self.write_op(object, &op).await.map_err(|error| error.with_op("write").with("object", object))
    }

    async fn exec(&self, object: &ObjectId, call: ClassCall) -> Result<Bytes> {
        self.exec_call(object, &call).await.map_err(|error| error.with_op("exec").with("object", object))
    }

    async fn list(&self, request: ListRequest) -> Result<ListPage> {
        let listing = listing::Listing::new(&request)?;
        let context = match listing.namespace() {
            Some(namespace) => self.context(namespace)?,
            None => self.open_context(ALL_NAMESPACES)?,
        };
        self.shared
            .blocking
            .run(move || listing.page(&context))
            .await
            .map_err(|error| error.with_op("list").with("pool", &self.name))
    }
}
