//! Bindings to OpenSSL 3. All unsafe code of this crate is in this file.
//!
//! It relies on these promises of OpenSSL:
//!
//! - Any thread may use a context, and create sessions of it, once it is set up. A session
//!   belongs to one thread at a time.
//! - A session holds its context, and owns the two buffers (memory BIOs) that it was given.
//! - It calls the function that finds keys only while a session's handshake runs.
//! - Errors are in a queue of the thread, which the failed call has filled.

use crate::keys::Keys;
use benthic_core::{Error, Result};
use std::ffi::{CStr, c_char, c_int, c_long, c_uchar, c_uint, c_ulong, c_void};
use std::io;
use std::ptr::{NonNull, null_mut};
use std::sync::{Arc, OnceLock};

type Handle = *mut c_void;
type FindKey = extern "C" fn(Handle, *const c_char, *mut c_uchar, c_uint) -> c_uint;

/// Declares the functions to look up in the library.
macro_rules! functions {
    ($(fn $name:ident($($arg:ty),*) $(-> $ret:ty)?;)*) => {
        #[expect(non_snake_case, reason = "the names are OpenSSL's")]
        struct Api {
            $($name: unsafe extern "C" fn($($arg),*) $(-> $ret)?,)*
        }

        impl Api {
            fn load(library: &libloading::Library) -> std::result::Result<Api, libloading::Error> {
                // SAFETY: the signatures are those of OpenSSL's headers.
                unsafe { Ok(Api { $($name: *library.get(concat!(stringify!($name), "\0").as_bytes())?,)* }) }
            }
        }
    };
}

functions! {
    fn TLS_server_method() -> *const c_void;
    fn SSL_CTX_new(*const c_void) -> Handle;
    fn SSL_CTX_free(Handle);
    fn SSL_CTX_ctrl(Handle, c_int, c_long, *mut c_void) -> c_long;
    fn SSL_CTX_set_num_tickets(Handle, usize) -> c_int;
    fn SSL_CTX_set_ex_data(Handle, c_int, *mut c_void) -> c_int;
    fn SSL_CTX_get_ex_data(Handle, c_int) -> *mut c_void;
    fn SSL_CTX_set_psk_server_callback(Handle, FindKey);
    fn SSL_get_SSL_CTX(Handle) -> Handle;
    fn SSL_new(Handle) -> Handle;
    fn SSL_free(Handle);
    fn SSL_set_accept_state(Handle);
    fn SSL_set_bio(Handle, Handle, Handle);
    fn SSL_do_handshake(Handle) -> c_int;
    fn SSL_read(Handle, *mut c_void, c_int) -> c_int;
    fn SSL_write(Handle, *const c_void, c_int) -> c_int;
    fn SSL_shutdown(Handle) -> c_int;
    fn SSL_get_error(Handle, c_int) -> c_int;
    fn BIO_s_mem() -> *const c_void;
    fn BIO_new(*const c_void) -> Handle;
    fn BIO_free(Handle) -> c_int;
    fn BIO_read(Handle, *mut c_void, c_int) -> c_int;
    fn BIO_write(Handle, *const c_void, c_int) -> c_int;
    fn ERR_clear_error();
    fn ERR_get_error() -> c_ulong;
    fn ERR_error_string_n(c_ulong, *mut c_char, usize);
}

const SET_MIN_PROTO_VERSION: c_int = 123;
const TLS_1_3: c_long = 0x0304;
const SET_MODE: c_int = 33;
/// Frees the buffers of idle connections.
const RELEASE_BUFFERS: c_long = 0x10;
/// The index that OpenSSL reserves for the application's data.
const APP_DATA: c_int = 0;

const ERROR_WANT_READ: c_int = 2;
const ERROR_ZERO_RETURN: c_int = 6;

/// Opens OpenSSL once per process and never closes it: it has handlers for the process' end.
fn api() -> Result<&'static Api> {
    static API: OnceLock<std::result::Result<Api, String>> = OnceLock::new();
    let loaded = API.get_or_init(|| {
        // SAFETY: OpenSSL's initialisers have no preconditions.
        let library =
            unsafe { libloading::Library::new("libssl.so.3") }.map_err(|error| error.to_string())?;
        let api = Api::load(&library).map_err(|error| error.to_string());
        std::mem::forget(library);
        api
    });
    loaded.as_ref().map_err(|reason| {
        let message = "cannot open OpenSSL 3, which TLS with shared keys needs; install it (Debian: apt-get install libssl3)";
        Error::unsupported(message).with_source(reason.clone())
    })
}

/// The error that a call of this thread has left.
fn last_error(api: &Api) -> io::Error {
    let mut text = [0; 256];
    // SAFETY: the array has the length that OpenSSL gets, and OpenSSL ends the text with NUL.
    let text = unsafe {
        (api.ERR_error_string_n)((api.ERR_get_error)(), text.as_mut_ptr(), text.len());
        CStr::from_ptr(text.as_ptr())
    };
    io::Error::new(io::ErrorKind::InvalidData, format!("TLS failed: {}", text.to_string_lossy()))
}

/// The OpenSSL context that all sessions of a server share.
pub(crate) struct Context {
    api: &'static Api,
    handle: NonNull<c_void>,
    /// The context points at them.
    _keys: Arc<Keys>,
}

// SAFETY: any thread may use a context that is set up; `Keys` is never changed.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

impl Context {
    pub(crate) fn new(keys: Keys) -> Result<Context> {
        let api = api()?;
        let keys = Arc::new(keys);
        let failed = || {
            Error::unsupported("OpenSSL does not offer TLS 1.3 with shared keys").with_source(last_error(api))
        };
        // SAFETY: no preconditions.
        let handle = unsafe {
            (api.ERR_clear_error)();
            NonNull::new((api.SSL_CTX_new)((api.TLS_server_method)()))
        };
        let context = Context { api, handle: handle.ok_or_else(failed)?, _keys: Arc::clone(&keys) };
        let handle = context.handle.as_ptr();
        // SAFETY: the context is valid. The keys live as long as it, and with it all sessions.
        let is_set = unsafe {
            (api.SSL_CTX_ctrl)(handle, SET_MODE, RELEASE_BUFFERS, null_mut());
            (api.SSL_CTX_set_psk_server_callback)(handle, find_key);
            (api.SSL_CTX_ctrl)(handle, SET_MIN_PROTO_VERSION, TLS_1_3, null_mut()) == 1
                && (api.SSL_CTX_set_num_tickets)(handle, 0) == 1
                && (api.SSL_CTX_set_ex_data)(handle, APP_DATA, Arc::as_ptr(&keys).cast_mut().cast()) == 1
        };
        if is_set { Ok(context) } else { Err(failed()) }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: the context is valid, and no session uses it any more.
        unsafe { (self.api.SSL_CTX_free)(self.handle.as_ptr()) };
    }
}

/// OpenSSL's question for the key of an identity. Returns the key's length, or 0 for none.
extern "C" fn find_key(
    session: Handle,
    identity: *const c_char,
    key: *mut c_uchar,
    key_bytes_max: c_uint,
) -> c_uint {
    let Ok(api) = api() else { return 0 };
    // SAFETY: OpenSSL calls with a valid session, whose context points at its keys.
    let keys = unsafe {
        (api.SSL_CTX_get_ex_data)((api.SSL_get_SSL_CTX)(session), APP_DATA).cast::<Keys>().as_ref()
    };
    if identity.is_null() {
        return 0;
    }
    // SAFETY: OpenSSL passes a string that ends with NUL.
    let identity = unsafe { CStr::from_ptr(identity) };
    let Some(found) = keys.and_then(|keys| keys.find(identity.to_bytes())) else { return 0 };
    if found.len() > key_bytes_max as usize {
        return 0;
    }
    // SAFETY: `key` has room for `key_bytes_max` bytes.
    unsafe { std::ptr::copy_nonoverlapping(found.as_ptr(), key, found.len()) };
    found.len() as c_uint
}

/// How a step of a session ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// With the number of bytes.
    Done(usize),
    /// It needs more bytes of the client.
    NeedsInput,
    /// The client has ended the session properly.
    Closed,
}

/// The TLS session of one connection. Its bytes go through two buffers: one for received bytes, and
/// one for bytes to send.
pub(crate) struct Session {
    handle: NonNull<c_void>,
    input: Handle,
    output: Handle,
    context: Arc<Context>,
}

// SAFETY: a session may move between threads; `&mut self` keeps two from using it at once.
unsafe impl Send for Session {}

impl Session {
    pub(crate) fn new(context: Arc<Context>) -> io::Result<Session> {
        let api = context.api;
        let failed = || io::Error::from(io::ErrorKind::OutOfMemory);
        // SAFETY: the context is valid. The session owns the buffers once it has them; before
        // that, they are freed here.
        unsafe {
            let handle = NonNull::new((api.SSL_new)(context.handle.as_ptr())).ok_or_else(failed)?;
            let (input, output) = ((api.BIO_new)((api.BIO_s_mem)()), (api.BIO_new)((api.BIO_s_mem)()));
            if input.is_null() || output.is_null() {
                (api.BIO_free)(input);
                (api.BIO_free)(output);
                (api.SSL_free)(handle.as_ptr());
                return Err(failed());
            }
            (api.SSL_set_bio)(handle.as_ptr(), input, output);
            (api.SSL_set_accept_state)(handle.as_ptr());
            Ok(Session { handle, input, output, context })
        }
    }

    pub(crate) fn handshake(&mut self) -> io::Result<Step> {
        // SAFETY: the session is valid.
        self.step(|api, session| unsafe { (api.SSL_do_handshake)(session) })
    }

    /// Decrypts bytes of the client.
    pub(crate) fn read(&mut self, data: &mut [u8]) -> io::Result<Step> {
        let len = c_int::try_from(data.len()).unwrap_or(c_int::MAX);
        // SAFETY: the session is valid, and the slice has at least the length that is passed.
        self.step(|api, session| unsafe { (api.SSL_read)(session, data.as_mut_ptr().cast(), len) })
    }

    /// Encrypts bytes for the client. `data` is not empty.
    pub(crate) fn write(&mut self, data: &[u8]) -> io::Result<Step> {
        let len = c_int::try_from(data.len()).unwrap_or(c_int::MAX);
        // SAFETY: as for `read`.
        self.step(|api, session| unsafe { (api.SSL_write)(session, data.as_ptr().cast(), len) })
    }

    /// Says to the client that nothing follows.
    pub(crate) fn close(&mut self) {
        let api = self.context.api;
        // SAFETY: the session is valid. A failure means that the session has already failed.
        unsafe {
            (api.ERR_clear_error)();
            (api.SSL_shutdown)(self.handle.as_ptr());
        }
    }

    /// Puts in the bytes that the client has sent.
    pub(crate) fn put_input(&mut self, data: &[u8]) -> io::Result<()> {
        let len = c_int::try_from(data.len()).unwrap_or(c_int::MAX);
        // SAFETY: the buffer belongs to the valid session; the slice has the length that is passed.
        let put = unsafe { (self.context.api.BIO_write)(self.input, data.as_ptr().cast(), len) };
        if put == len { Ok(()) } else { Err(io::ErrorKind::OutOfMemory.into()) }
    }

    /// Takes out the data for the client. Returns the number of bytes, 0 if there is nothing.
    pub(crate) fn take_output(&mut self, data: &mut [u8]) -> usize {
        let len = c_int::try_from(data.len()).unwrap_or(c_int::MAX);
        // SAFETY: as for `put_input`.
        let taken = unsafe { (self.context.api.BIO_read)(self.output, data.as_mut_ptr().cast(), len) };
        usize::try_from(taken).unwrap_or(0)
    }

    fn step(&mut self, call: impl FnOnce(&Api, Handle) -> c_int) -> io::Result<Step> {
        let (api, session) = (self.context.api, self.handle.as_ptr());
        // SAFETY: no preconditions.
        unsafe { (api.ERR_clear_error)() };
        let result = call(api, session);
        if let Ok(len @ 1..) = usize::try_from(result) {
            return Ok(Step::Done(len));
        }
        // SAFETY: the session is valid, and the result is that of its last call, in this thread.
        match unsafe { (api.SSL_get_error)(session, result) } {
            ERROR_WANT_READ => Ok(Step::NeedsInput),
            ERROR_ZERO_RETURN => Ok(Step::Closed),
            _ => Err(last_error(api)),
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // SAFETY: the session is valid and used by nobody else; its buffers are freed with it.
        unsafe { (self.context.api.SSL_free)(self.handle.as_ptr()) };
    }
}
