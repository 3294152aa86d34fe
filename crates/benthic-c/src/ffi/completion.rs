//! Operations that run while the caller does something else.

use crate::completion::{Callback, Completion};
use crate::ffi::args::{Out, c_api, call, fail, free, item, object_name};
use crate::ffi::object::class_call;
use crate::ffi::{CompletionHandle, ErrorHandle, PoolHandle, ReadOpHandle, ReplyHandle, WriteOpHandle};
use crate::handles::HANDLES;
use crate::reply::Reply;
use crate::store::Pool;
use benthic_core::{Error, Result};
use std::ffi::{c_char, c_void};
use std::sync::Arc;
use std::time::Duration;

/// The library calls this function when an operation is complete, also after a failure or a
/// cancellation. It calls it once, on a thread of the library, perhaps before the function that
/// started the operation returns. The callback may call all functions of the library. A store calls
/// one callback at a time, so a callback that waits delays the others.
pub type CompletionCallback =
    Option<unsafe extern "C" fn(completion: *mut CompletionHandle, context: *mut c_void)>;

/// The context of a callback.
struct Context(*mut c_void);

// SAFETY: this library only passes it on; the caller promised that any thread may have it.
unsafe impl Send for Context {}

impl Context {
    fn pointer(&self) -> *mut c_void {
        self.0
    }
}

/// Starts an operation, and stores the handle of its completion.
fn start(
    pool: &Pool,
    changes: bool,
    work: impl Future<Output = Result<Reply>> + Send + 'static,
    callback: CompletionCallback,
    context: *mut c_void,
    completion: &Out<*mut CompletionHandle>,
) -> Result<()> {
    let started = Arc::<Completion>::default();
    let handle = HANDLES.add(Arc::clone(&started))?;
    let context = Context(context);
    let callback = callback.map(|callback| {
        Box::new(move || {
            // SAFETY: the caller promised that the callback may be called with its context.
            unsafe { callback(handle as *mut CompletionHandle, context.pointer()) }
        }) as Callback
    });
    // The callback may run before this function returns.
    completion.set(handle as *mut CompletionHandle);
    let outcome = started.start(&pool.store().callbacks, changes, work, callback);
    if outcome.is_err() {
        completion.set(std::ptr::null_mut());
        HANDLES.remove::<Completion>(handle)?;
    }
    outcome
}

c_api! {
    /// Starts a read operation. The operation may be changed and used again at once.
    fn benthic_read_op_start(
        pool: *mut PoolHandle,
        object: *const c_char,
        op: *const ReadOpHandle,
        callback: CompletionCallback,
        context: *mut c_void,
        completion: *mut *mut CompletionHandle,
    ) {
        let (object, completion) = (object_name(object)?, Out::new(completion, "completion")?);
        let (pool, op) = (item::<Pool, _>(pool)?, crate::ffi::read_op::get(op)?);
        let (engine, object) = (pool.engine()?, pool.object(object)?);
        let work = async move { engine.read(&object, op).await.map(Reply::from) };
        start(&pool, false, work, callback, context, &completion)
    }

    /// Starts a write operation. The operation may be changed and used again at once. Operations on
    /// one object that are in flight at the same time may run in any order.
    fn benthic_write_op_start(
        pool: *mut PoolHandle,
        object: *const c_char,
        op: *const WriteOpHandle,
        callback: CompletionCallback,
        context: *mut c_void,
        completion: *mut *mut CompletionHandle,
    ) {
        let (object, completion) = (object_name(object)?, Out::new(completion, "completion")?);
        let (pool, op) = (item::<Pool, _>(pool)?, crate::ffi::write_op::get(op)?);
        let (engine, object) = (pool.engine()?, pool.writable(object)?);
        let work = async move { engine.write(&object, op).await.map(Reply::from) };
        start(&pool, true, work, callback, context, &completion)
    }

    /// Starts a method of a class beside an object; see `benthic_exec`.
    fn benthic_exec_start(
        pool: *mut PoolHandle,
        object: *const c_char,
        class_name: *const c_char,
        method: *const c_char,
        input: *const c_void,
        len_bytes: usize,
        callback: CompletionCallback,
        context: *mut c_void,
        completion: *mut *mut CompletionHandle,
    ) {
        let (object, completion) = (object_name(object)?, Out::new(completion, "completion")?);
        let call = class_call(class_name, method, input, len_bytes)?;
        let pool = item::<Pool, _>(pool)?;
        let (own, object) = (Arc::clone(&pool), object.to_owned());
        let work = async move { own.exec(&object, call).await.map(Reply::of_data) };
        start(&pool, true, work, callback, context, &completion)
    }

    /// Waits until an operation is complete, at most for `timeout_ms`; a negative time-out waits as
    /// long as it takes. `complete` becomes true if the operation is complete. The callback may run
    /// later.
    fn benthic_completion_wait(completion: *const CompletionHandle, timeout_ms: i64, complete: *mut bool) {
        let complete = Out::new(complete, "complete")?;
        let timeout = u64::try_from(timeout_ms).ok().map(Duration::from_millis);
        complete.set(item::<Completion, _>(completion)?.wait(timeout));
        Ok(())
    }
}

/// Returns the outcome of an operation that is complete: stores its reply, or fails with the
/// operation's error. The caller frees the reply. Fails with `BENTHIC_KIND_BUSY` while the
/// operation is in flight.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn benthic_completion_result(
    completion: *const CompletionHandle,
    reply: *mut *mut ReplyHandle,
    error: *mut *mut ErrorHandle,
) -> i32 {
    let mut failure = None;
    let run = || {
        // SAFETY: the caller's promises; see `ffi`.
        let reply = unsafe { Out::new(reply, "reply")? };
        match item::<Completion, _>(completion)?.outcome() {
            None => Err(Error::busy("the operation is still in flight; wait for it")),
            Some(Ok(found)) => {
                reply.set(HANDLES.add(found)? as *mut ReplyHandle);
                Ok(())
            }
            Some(Err(found)) => {
                failure = Some(found);
                Ok(())
            }
        }
    };
    // SAFETY: as above.
    let kind = unsafe { call(error, run) };
    match failure {
        // SAFETY: as above.
        Some(failure) => unsafe { fail(error, failure) },
        None => kind,
    }
}

c_api! {
    /// Ends an operation early, unless it is complete. The operation then fails: a read operation
    /// with `BENTHIC_KIND_UNAVAILABLE`, any other one with `BENTHIC_KIND_OUTCOME_UNKNOWN`, because
    /// it may have happened. The callback runs as always.
    fn benthic_completion_cancel(completion: *const CompletionHandle) {
        item::<Completion, _>(completion)?.cancel();
        Ok(())
    }
}

/// Frees a completion. An operation in flight goes on, and its callback runs; the handle that the
/// callback gets is then not open any more. Does nothing for NULL. Returns
/// `BENTHIC_KIND_INVALID_ARGUMENT` if the handle is not open.
#[unsafe(no_mangle)]
pub extern "C" fn benthic_completion_free(completion: *mut CompletionHandle) -> i32 {
    free::<Completion, _>(completion)
}
