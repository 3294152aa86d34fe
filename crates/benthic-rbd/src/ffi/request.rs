//! Requests that do not block: reads, writes, zeroes and flushes.

use super::{ErrnoResult, Handle, RbdImage};
use benthic_block::Zeroes;
use benthic_core::error::errno;
use bytes::Bytes;
use futures::channel::oneshot;
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::ops::Deref;
use std::ptr::null_mut;

/// Keeps the space allocated, and stores zeros.
const THICK_PROVISION: c_int = 1;

thread_local! {
    /// Whether this thread runs a callback of librbd, which may drop the last handle of an image.
    pub(super) static IN_CALLBACK: Cell<bool> = const { Cell::new(false) };
}

pub(crate) enum Request {
    Read { offset_bytes: u64, len: usize },
    Write { offset_bytes: u64, data: Bytes },
    WriteZeroes { offset_bytes: u64, len: usize, zeroes: Zeroes },
    Flush,
}

/// A request in flight: the memory that librbd uses until it calls back.
pub(super) struct Pending<I> {
    image: I,
    request: Request,
    /// The bytes to read; empty for other requests.
    data: Vec<u8>,
    sender: oneshot::Sender<ErrnoResult<Vec<u8>>>,
}

/// Sends a request, and waits for it. The result has the bytes that were read. Dropping the future
/// does not cancel the request. `image` keeps the image open for as long as the request needs it.
pub(crate) async fn send<I>(image: I, request: Request) -> ErrnoResult<Vec<u8>>
where
    I: Deref<Target = RbdImage> + Send + 'static,
{
    submit(image, request).await.unwrap_or(Err(errno::EREMOTEIO))
}

fn submit<I>(image: I, request: Request) -> oneshot::Receiver<ErrnoResult<Vec<u8>>>
where
    I: Deref<Target = RbdImage> + Send + 'static,
{
    let (sender, receiver) = oneshot::channel();
    let (api, handle) = (image.pool.api, image.handle);
    let data = if let Request::Read { len, .. } = request { vec![0; len] } else { Vec::new() };
    let pending = Box::into_raw(Box::new(Pending { image, request, data, sender }));
    let mut completion = null_mut();
    // SAFETY: `pending` is a live box, and with it the image and the bytes. Either this function or
    // the callback takes the box, never both: librbd calls back if and only if it accepts the
    // request. A vector and shared bytes do not move with the box that has them.
    unsafe {
        let created = (api.aio_create_completion)(pending.cast(), completed::<I>, &mut completion);
        let result = match &(*pending).request {
            _ if created < 0 => created,
            Request::Read { offset_bytes, len } => {
                let start = (*pending).data.as_mut_ptr().cast();
                (api.aio_read)(handle, *offset_bytes, *len, start, completion)
            }
            Request::Write { offset_bytes, data } => {
                (api.aio_write)(handle, *offset_bytes, data.len(), data.as_ptr().cast(), completion)
            }
            Request::WriteZeroes { offset_bytes, len, zeroes } => {
                let flags = if *zeroes == Zeroes::Allocate { THICK_PROVISION } else { 0 };
                (api.aio_write_zeroes)(handle, *offset_bytes, *len, completion, flags, 0)
            }
            Request::Flush => (api.aio_flush)(handle, completion),
        };
        if result < 0 {
            let Pending { image, sender, .. } = *Box::from_raw(pending);
            if !completion.is_null() {
                (api.aio_release)(completion);
            }
            drop(image);
            // The send cannot fail: the receiver is still here.
            let _ = sender.send(Err(result.saturating_neg()));
        }
    }
    receiver
}

/// The callback of every request. A waker that panics ends the process, because unwinding into
/// librbd is not allowed.
extern "C" fn completed<I>(completion: Handle, pending: *mut c_void)
where
    I: Deref<Target = RbdImage> + Send + 'static,
{
    IN_CALLBACK.set(true);
    // SAFETY: `submit` created the box and left it to this call; the completion is live until it is
    // released.
    unsafe {
        let Pending { image, data, sender, .. } = *Box::from_raw(pending.cast::<Pending<I>>());
        let api = image.pool.api;
        let result = (api.aio_get_return_value)(completion);
        (api.aio_release)(completion);
        // Before the waiting task continues, which may close the image.
        drop(image);
        let answer = match usize::try_from(result) {
            Err(_) => Err(i32::try_from(-result).unwrap_or(errno::EIO)),
            // librbd reads less only behind the end of an image that shrinks at this moment.
            Ok(len) if len < data.len() => Err(errno::EINVAL),
            Ok(_) => Ok(data),
        };
        // The send fails if the future was dropped.
        drop(sender.send(answer));
    }
    IN_CALLBACK.set(false);
}
