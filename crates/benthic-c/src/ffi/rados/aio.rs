//! Completions: a program that starts an operation waits for its completion, or gives it a
//! callback.

use super::{Handle, api, void_api};
use crate::ffi::args::{Out, free, item};
use crate::handles::HANDLES;
use crate::rados::completion::Completion;
use std::ffi::c_void;
use std::sync::{Arc, OnceLock};

/// `rados_callback_t`.
type Callback = Option<unsafe extern "C" fn(completion: Handle, context: *mut c_void)>;

/// The callbacks of a completion, and their context.
struct Callbacks {
    callbacks: [Callback; 2],
    context: *mut c_void,
    completion: OnceLock<u64>,
}

// SAFETY: this library only passes the context on; the caller promised that any thread may have it.
unsafe impl Send for Callbacks {}
// SAFETY: as above.
unsafe impl Sync for Callbacks {}

impl Callbacks {
    fn call(&self) {
        let completion = self.completion.get().copied().unwrap_or_default() as Handle;
        for callback in self.callbacks.into_iter().flatten() {
            // SAFETY: the caller promised that the callback may be called with its context.
            unsafe { callback(completion, self.context) }
        }
    }
}

/// Creates a completion, and stores its handle.
fn create(context: *mut c_void, callbacks: [Callback; 2], out: &Out<Handle>) -> benthic_core::Result<i32> {
    let callbacks = Arc::new(Callbacks { callbacks, context, completion: OnceLock::new() });
    let called = Arc::clone(&callbacks);
    let handle = HANDLES.add(Arc::new(Completion::new(Box::new(move || called.call()))))?;
    callbacks.completion.get_or_init(|| handle);
    out.set(handle as Handle);
    Ok(0)
}

api! {
    fn rados_aio_create_completion(context: *mut c_void, complete: Callback, safe: Callback, out: *mut Handle) {
        create(context, [complete, safe], &Out::new(out, "pc")?)
    }

    fn rados_aio_create_completion2(context: *mut c_void, complete: Callback, out: *mut Handle) {
        create(context, [complete, None], &Out::new(out, "pc")?)
    }

    fn rados_aio_wait_for_complete(completion: Handle) {
        item::<Completion, _>(completion)?.wait();
        Ok(0)
    }

    fn rados_aio_wait_for_complete_and_cb(completion: Handle) {
        item::<Completion, _>(completion)?.wait_for_callback();
        Ok(0)
    }

    fn rados_aio_is_complete(completion: Handle) {
        Ok(item::<Completion, _>(completion)?.result().is_some().into())
    }

    fn rados_aio_get_return_value(completion: Handle) {
        Ok(item::<Completion, _>(completion)?.result().unwrap_or_default())
    }
}

void_api! {
    fn rados_aio_release(completion: Handle) {
        free::<Completion, _>(completion);
    }
}
