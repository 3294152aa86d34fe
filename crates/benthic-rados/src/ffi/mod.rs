//! Bindings to librados. All unsafe code of this crate is in this folder.
//!
//! This folder relies on these promises of librados:
//!
//! - Building an operation copies names, keys, values and data; it borrows only output buffers.
//! - librados writes to output buffers until the completion's callback begins, never after. The
//!   buffers belong to a [`Pending`], which lives until then, whether or not a caller still waits
//!   for the operation.
//! - librados calls a completion's callback exactly once if the submission returned 0 or more, else
//!   never.
//! - Operations that read and operations that write have one type, although the C interface has a
//!   function for each (`ObjectOperation` in librados_c.cc).
//! - Any thread may use handles of clusters and I/O contexts; only one thread at a time may use
//!   operations and cursors.

mod cluster;
mod cursor;
mod read_op;
mod write_op;

pub(crate) use cluster::{Cluster, Daemons};
pub(crate) use cursor::{Cursor, ListedObject};
pub(crate) use read_op::{ReadBuffers, ReadOp, StepOutput};
pub(crate) use write_op::{MethodResult, WriteOp};

use crate::call_timeouts::{CallTimeouts, CallTimer, Cancel};
use crate::in_flight::Permit;
use benthic_core::error::errno;
use benthic_core::{Error, ObjectAddress, ObjectId, Result};
use futures::channel::oneshot;
use parking_lot::Mutex;
use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int, c_uchar, c_void};
use std::ptr::null_mut;
use std::sync::{Arc, OnceLock};

/// The result of a librados call. The error is a positive errno.
pub(crate) type ErrnoResult<T> = std::result::Result<T, i32>;

type Handle = *mut c_void;
type Callback = extern "C" fn(Handle, *mut c_void);

/// One object in a listing, in librados' layout.
#[repr(C)]
#[derive(Clone, Copy)]
struct ListItem {
    name_len: usize,
    name: *const c_char,
    namespace_len: usize,
    namespace: *const c_char,
    locator_len: usize,
    locator: *const c_char,
}

/// `struct timespec` on 64-bit platforms. `rados_read_op_stat` writes only the seconds.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct Timespec {
    seconds: i64,
    nanoseconds: i64,
}

impl Timespec {
    /// Nanoseconds since 1970; 0 for earlier times.
    pub fn unix_ns(self) -> u64 {
        let seconds = u64::try_from(self.seconds).unwrap_or(0);
        seconds.saturating_mul(1_000_000_000).saturating_add(u64::try_from(self.nanoseconds).unwrap_or(0))
    }
}

/// Declares the functions to look up in the library: `rados_` and the name.
///
/// Those in `newer` do not exist in every supported release.
macro_rules! functions {
    ($(fn $name:ident($($arg:ty),*) $(-> $ret:ty)?;)* newer { $(fn $newer:ident($($newer_arg:ty),*);)* }) => {
        struct Api {
            $($name: unsafe extern "C" fn($($arg),*) $(-> $ret)?,)*
            $($newer: Option<unsafe extern "C" fn($($newer_arg),*)>,)*
        }

        impl Api {
            fn load(library: &libloading::Library) -> std::result::Result<Api, libloading::Error> {
                // SAFETY: the signatures are those of librados.h.
                unsafe {
                    Ok(Api {
                        $($name: *library.get(concat!("rados_", stringify!($name), "\0").as_bytes())?,)*
                        $($newer: library.get(concat!("rados_", stringify!($newer), "\0").as_bytes()).ok().map(|found| *found),)*
                    })
                }
            }
        }
    };
}

functions! {
    fn create2(*mut Handle, *const c_char, *const c_char, u64) -> c_int;
    fn shutdown(Handle);
    fn conf_read_file(Handle, *const c_char) -> c_int;
    fn conf_set(Handle, *const c_char, *const c_char) -> c_int;
    fn conf_get(Handle, *const c_char, *mut c_char, usize) -> c_int;
    fn connect(Handle) -> c_int;
    fn pool_lookup(Handle, *const c_char) -> i64;
    fn pool_list(Handle, *mut c_char, usize) -> c_int;
    fn wait_for_latest_osdmap(Handle) -> c_int;
    fn mon_command(Handle, *const *const c_char, usize, *const c_char, usize, *mut *mut c_char, *mut usize, *mut *mut c_char, *mut usize) -> c_int;
    fn mgr_command(Handle, *const *const c_char, usize, *const c_char, usize, *mut *mut c_char, *mut usize, *mut *mut c_char, *mut usize) -> c_int;
    fn buffer_free(*mut c_char);
    fn ioctx_create2(Handle, i64, *mut Handle) -> c_int;
    fn ioctx_destroy(Handle);
    fn ioctx_set_namespace(Handle, *const c_char);
    fn aio_create_completion2(*mut c_void, Callback, *mut Handle) -> c_int;
    fn aio_get_return_value(Handle) -> c_int;
    fn aio_get_version(Handle) -> u64;
    fn aio_release(Handle);
    fn aio_cancel(Handle, Handle) -> c_int;
    fn aio_flush_async(Handle, Handle) -> c_int;
    fn aio_wait_for_complete_and_cb(Handle) -> c_int;
    fn create_write_op() -> Handle;
    fn release_write_op(Handle);
    fn write_op_assert_exists(Handle);
    fn write_op_assert_version(Handle, u64);
    fn write_op_cmpxattr(Handle, *const c_char, u8, *const c_char, usize);
    fn write_op_omap_cmp2(Handle, *const c_char, u8, *const c_char, usize, usize, *mut c_int);
    fn write_op_setxattr(Handle, *const c_char, *const c_char, usize);
    fn write_op_rmxattr(Handle, *const c_char);
    fn write_op_create(Handle, c_int, *const c_char);
    fn write_op_write(Handle, *const c_char, usize, u64);
    fn write_op_write_full(Handle, *const c_char, usize);
    fn write_op_append(Handle, *const c_char, usize);
    fn write_op_remove(Handle);
    fn write_op_truncate(Handle, u64);
    fn write_op_zero(Handle, u64, u64);
    fn write_op_omap_set2(Handle, *const *const c_char, *const *const c_char, *const usize, *const usize, usize);
    fn write_op_omap_rm_keys2(Handle, *const *const c_char, *const usize, usize);
    fn write_op_omap_clear(Handle);
    fn aio_write_op_operate(Handle, Handle, Handle, *const c_char, *mut c_void, c_int) -> c_int;
    fn create_read_op() -> Handle;
    fn release_read_op(Handle);
    fn read_op_assert_exists(Handle);
    fn read_op_assert_version(Handle, u64);
    fn read_op_cmpxattr(Handle, *const c_char, u8, *const c_char, usize);
    fn read_op_omap_cmp2(Handle, *const c_char, u8, *const c_char, usize, usize, *mut c_int);
    fn read_op_getxattrs(Handle, *mut Handle, *mut c_int);
    fn read_op_stat(Handle, *mut u64, *mut i64, *mut c_int);
    fn read_op_read(Handle, u64, usize, *mut c_char, *mut usize, *mut c_int);
    fn read_op_exec(Handle, *const c_char, *const c_char, *const c_char, usize, *mut *mut c_char, *mut usize, *mut c_int);
    fn read_op_omap_get_vals2(Handle, *const c_char, *const c_char, u64, *mut Handle, *mut c_uchar, *mut c_int);
    fn read_op_omap_get_vals_by_keys2(Handle, *const *const c_char, usize, *const usize, *mut Handle, *mut c_int);
    fn aio_read_op_operate(Handle, Handle, Handle, *const c_char, c_int) -> c_int;
    fn getxattrs_next(Handle, *mut *const c_char, *mut *const c_char, *mut usize) -> c_int;
    fn getxattrs_end(Handle);
    fn omap_get_next2(Handle, *mut *mut c_char, *mut *mut c_char, *mut usize, *mut usize) -> c_int;
    fn omap_get_end(Handle);
    fn object_list_begin(Handle) -> Handle;
    fn object_list_end(Handle) -> Handle;
    fn object_list_is_end(Handle, Handle) -> c_int;
    fn object_list_cursor_free(Handle, Handle);
    fn object_list_cursor_cmp(Handle, Handle, Handle) -> c_int;
    fn object_list(Handle, Handle, Handle, usize, *const c_char, usize, *mut ListItem, *mut Handle) -> c_int;
    fn object_list_free(usize, *mut ListItem);
    fn object_list_slice(Handle, Handle, Handle, usize, usize, *mut Handle, *mut Handle);
    newer {
        // Since release 17.
        fn read_op_stat2(Handle, *mut u64, *mut Timespec, *mut c_int);
    }
}

const OPERATION_LOCALIZE_READS: c_int = 2;
const OPERATION_FULL_TRY: c_int = 64;

/// Opens librados once per process and never closes it: librados has threads of its own.
fn api() -> Result<&'static Api> {
    static API: OnceLock<std::result::Result<Api, String>> = OnceLock::new();
    let loaded = API.get_or_init(|| {
        // SAFETY: librados' initialisers have no preconditions.
        let library =
            unsafe { libloading::Library::new("librados.so.2") }.map_err(|error| error.to_string())?;
        let api = Api::load(&library).map_err(|error| error.to_string());
        std::mem::forget(library);
        api
    });
    loaded.as_ref().map_err(|reason| {
        let message =
            "cannot open librados; install Ceph's client library (Debian: apt-get install librados2)";
        Error::unsupported(message).with_source(reason.clone())
    })
}

thread_local! {
    /// Whether this thread runs a librados callback, which may drop the last handle of a cluster.
    static IN_CALLBACK: Cell<bool> = const { Cell::new(false) };
}

pub(crate) struct IoCtx {
    cluster: Arc<Cluster>,
    handle: Handle,
    pool: String,
}

// SAFETY: any thread may use a librados I/O context at any time; the namespace is set before the
// context is shared.
unsafe impl Send for IoCtx {}
// SAFETY: as above.
unsafe impl Sync for IoCtx {}

impl IoCtx {
    /// Opens a namespace of a pool. `pool` is the pool's name, for messages.
    pub fn open(
        cluster: &Arc<Cluster>,
        pool_id: i64,
        pool: &str,
        namespace: &CStr,
    ) -> ErrnoResult<Arc<IoCtx>> {
        let mut handle = null_mut();
        // SAFETY: the cluster lives as long as the context, which holds it.
        unsafe {
            check((cluster.api.ioctx_create2)(cluster.handle, pool_id, &mut handle))?;
            (cluster.api.ioctx_set_namespace)(handle, namespace.as_ptr());
        }
        Ok(Arc::new(IoCtx { cluster: Arc::clone(cluster), handle, pool: pool.to_owned() }))
    }

    /// The `rados_ioctx_t`, for another library of Ceph.
    pub fn as_ptr(&self) -> *mut c_void {
        self.handle
    }

    /// Blocks until the callbacks have ended that librados runs now or will run before this one. It
    /// runs the callbacks of a cluster one after the other. Callbacks must not call this.
    pub fn wait_for_callbacks(&self) {
        let api = self.cluster.api;
        let mut completion = null_mut();
        // SAFETY: the context is live, and the completion is until it is released.
        unsafe {
            (api.aio_create_completion2)(null_mut(), nothing, &mut completion);
            if (api.aio_flush_async)(self.handle, completion) >= 0 {
                (api.aio_wait_for_complete_and_cb)(completion);
            }
            (api.aio_release)(completion);
        }
    }

    /// The address of an object in this pool.
    pub fn address(&self, object: &ObjectId) -> ObjectAddress {
        ObjectAddress { pool: self.pool.clone(), object: object.clone() }
    }

    /// Sends a write operation. Dropping the future does not cancel the operation; its answer is
    /// then discarded. With `timeouts`, a late operation is cancelled.
    pub fn write(
        self: &Arc<Self>,
        object: &CStr,
        mut op: WriteOp,
        timeouts: Option<&CallTimeouts>,
    ) -> oneshot::Receiver<Completed<MethodResult>> {
        let handle = op.handle;
        let method = std::mem::take(&mut op.method);
        submit(self, method, op.permit.take(), timeouts, |api, completion| {
            // SAFETY: the operation, the context and the completion are live; librados copies the
            // object's name.
            unsafe {
                (api.aio_write_op_operate)(
                    handle,
                    self.handle,
                    completion,
                    object.as_ptr(),
                    null_mut(),
                    OPERATION_FULL_TRY,
                )
            }
        })
    }

    /// Sends a read operation, to the nearest replica if `localized`. With `timeouts`, a late
    /// operation is cancelled.
    pub fn read(
        self: &Arc<Self>,
        object: &CStr,
        mut op: ReadOp,
        localized: bool,
        timeouts: Option<&CallTimeouts>,
    ) -> oneshot::Receiver<Completed<ReadBuffers>> {
        let handle = op.handle;
        let buffers = ReadBuffers::take_from(&mut op);
        // A native method may write from a read operation; in a full pool that would block without
        // this flag.
        let flags = OPERATION_FULL_TRY | if localized { OPERATION_LOCALIZE_READS } else { 0 };
        submit(self, buffers, op.permit.take(), timeouts, |api, completion| {
            // SAFETY: as in `write`; the buffers belong to the pending operation.
            unsafe { (api.aio_read_op_operate)(handle, self.handle, completion, object.as_ptr(), flags) }
        })
    }
}

impl Drop for IoCtx {
    fn drop(&mut self) {
        // SAFETY: nothing uses the handle any more; librados keeps the context alive for operations
        // in flight.
        unsafe { (self.cluster.api.ioctx_destroy)(self.handle) };
    }
}

pub(crate) struct Completed<T> {
    /// 0 or more, or a negative errno.
    pub result: i32,
    pub version: u64,
    /// Whether the operation was late and therefore cancelled.
    pub is_cancelled: bool,
    pub buffers: T,
}

/// An operation in flight: the buffers that librados writes to, and the sender for the waiting
/// task.
struct Pending<T> {
    io: Arc<IoCtx>,
    buffers: T,
    permit: Option<Permit>,
    timer: Option<(Arc<Cancellable>, CallTimer)>,
    sender: oneshot::Sender<Completed<T>>,
}

/// The handles with which a thread cancels an operation in flight.
struct Cancellable {
    api: &'static Api,
    io: Handle,
    state: Mutex<CancelState>,
}

struct CancelState {
    /// `None` from the moment at which the callback begins.
    completion: Option<Handle>,
    is_cancelled: bool,
}

// SAFETY: any thread may use the handles of I/O contexts and completions.
unsafe impl Send for Cancellable {}
// SAFETY: as above; the lock guards the completion.
unsafe impl Sync for Cancellable {}

impl Cancel for Cancellable {
    /// librados drops the operation, so that it is never sent again, and completes it with
    /// ECANCELED. The OSD may still run it.
    fn cancel(&self) {
        let mut state = self.state.lock();
        let Some(completion) = state.completion else { return };
        // SAFETY: until the callback takes the completion out of the state, it has released neither
        // the completion nor the context. librados runs callbacks on a thread of its own, so this
        // call does not wait for one that waits for the lock.
        let result = unsafe { (self.api.aio_cancel)(self.io, completion) };
        state.is_cancelled = result >= 0;
    }
}

fn submit<T: Send + 'static>(
    io: &Arc<IoCtx>,
    buffers: T,
    permit: Option<Permit>,
    timeouts: Option<&CallTimeouts>,
    operate: impl FnOnce(&Api, Handle) -> c_int,
) -> oneshot::Receiver<Completed<T>> {
    let api = io.cluster.api;
    let (sender, receiver) = oneshot::channel();
    let pending = Pending { io: Arc::clone(io), buffers, permit, timer: None, sender };
    let pending = Box::into_raw(Box::new(pending));
    let mut completion = null_mut();
    // SAFETY: `pending` is a live box. Either this function or the callback takes it, never both:
    // the callback is called if and only if the submission succeeds.
    unsafe {
        (api.aio_create_completion2)(pending.cast(), completed::<T>, &mut completion);
        (*pending).timer = timeouts.map(|timeouts| {
            let state = Mutex::new(CancelState { completion: Some(completion), is_cancelled: false });
            let op = Arc::new(Cancellable { api, io: io.handle, state });
            (Arc::clone(&op), timeouts.watch(op))
        });
        let result = operate(api, completion);
        if result < 0 {
            let Pending { buffers, timer, sender, .. } = *Box::from_raw(pending);
            let _ = stop_timer(timer);
            (api.aio_release)(completion);
            // The send cannot fail: the receiver is still here.
            let _ = sender.send(Completed { result, version: 0, is_cancelled: false, buffers });
        }
    }
    receiver
}

/// Ends the time of an operation that ended. Returns whether it was cancelled.
fn stop_timer(timer: Option<(Arc<Cancellable>, CallTimer)>) -> bool {
    let Some((op, timer)) = timer else { return false };
    drop(timer);
    let mut state = op.state.lock();
    state.completion = None;
    state.is_cancelled
}

/// The callback of every operation. It only hands the result to the waiting task, which reads the
/// outputs. A waker that panics ends the process, because unwinding into librados is not allowed.
extern "C" fn completed<T>(completion: Handle, pending: *mut c_void) {
    IN_CALLBACK.set(true);
    // SAFETY: `submit` created the box and left it to this call; the completion is live until it is
    // released.
    unsafe {
        let Pending { io, buffers, permit, timer, sender } = *Box::from_raw(pending.cast::<Pending<T>>());
        let api = io.cluster.api;
        let is_cancelled = stop_timer(timer);
        let result = (api.aio_get_return_value)(completion);
        let version = (api.aio_get_version)(completion);
        (api.aio_release)(completion);
        if let Some(mut permit) = permit
            && (result == -errno::ETIMEDOUT || is_cancelled)
        {
            permit.timed_out();
        }
        // Drop the context before the waiting task continues: that task may end the process, while
        // this thread would still be closing a connection.
        drop(io);
        // The send fails if the future was dropped; the buffers are then freed here.
        drop(sender.send(Completed { result, version, is_cancelled, buffers }));
    }
    IN_CALLBACK.set(false);
}

extern "C" fn nothing(_: Handle, _: *mut c_void) {}

unsafe extern "C" {
    #[link_name = "_exit"]
    safe fn exit_at_once(status: c_int) -> !;
}

/// Ends the process without running exit handlers of libraries.
///
/// For a program that has used a store and is done: an abandoned operation may still be in flight,
/// and librados' threads must not run while their static data are destroyed. Flushes nothing and
/// waits for no other thread.
pub fn end_process(status: u8) -> ! {
    exit_at_once(status.into())
}

/// Comparison operators, with librados' numbers.
#[derive(Clone, Copy)]
pub(crate) enum Operator {
    Eq = 1,
    Ne = 2,
    Gt = 3,
    Ge = 4,
    Lt = 5,
    Le = 6,
}

fn check(result: c_int) -> ErrnoResult<c_int> {
    if result < 0 { Err(result.saturating_neg()) } else { Ok(result) }
}

/// The address and length of bytes, for a call of librados.
fn parts(bytes: &[u8]) -> (*const c_char, usize) {
    (bytes.as_ptr().cast(), bytes.len())
}

/// Copies bytes that librados returned.
///
/// # Safety
/// `start` is null or points at `len` bytes.
unsafe fn copy(start: *const c_char, len: usize) -> Vec<u8> {
    if start.is_null() {
        return Vec::new();
    }
    // SAFETY: the caller guarantees `len` readable bytes.
    unsafe { std::slice::from_raw_parts(start.cast(), len) }.to_vec()
}
