//! The connection to a cluster.

use super::{Api, ErrnoResult, Handle, IN_CALLBACK, api, check, copy};
use benthic_core::Result;
use std::ffi::CStr;
use std::ptr::{null, null_mut};

/// A client of a cluster. Dropping the last handle shuts it down.
pub(crate) struct Cluster {
    pub(super) api: &'static Api,
    pub(super) handle: Handle,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Daemons {
    Monitors,
    Manager,
}

// SAFETY: any thread may use a librados cluster handle at any time.
unsafe impl Send for Cluster {}
// SAFETY: as above.
unsafe impl Sync for Cluster {}

/// A handle on its way to the thread that shuts it down.
struct Closing {
    api: &'static Api,
    handle: Handle,
}

// SAFETY: as for `Cluster`, which owned the handle.
unsafe impl Send for Closing {}

impl Closing {
    fn shut_down(self) {
        // SAFETY: nothing uses the handle any more: every user held the `Cluster`.
        unsafe { (self.api.shutdown)(self.handle) };
    }
}

impl Cluster {
    /// Creates a client with the name `client.x`, not yet connected. The inner error is an errno.
    pub fn create(name: &CStr) -> Result<ErrnoResult<Cluster>> {
        let api = api()?;
        let mut handle = null_mut();
        // SAFETY: the out pointer is valid and the strings end in NUL.
        let result = unsafe { (api.create2)(&mut handle, c"ceph".as_ptr(), name.as_ptr(), 0) };
        Ok(check(result).map(|_| Cluster { api, handle }))
    }

    /// Reads a configuration file, or without `path` the files that Ceph's programs read.
    pub fn read_conf(&self, path: Option<&CStr>) -> ErrnoResult<()> {
        // SAFETY: the handle is live; a null path means the default files.
        check(unsafe { (self.api.conf_read_file)(self.handle, path.map_or(null(), CStr::as_ptr)) })
            .map(|_| ())
    }

    pub fn set_conf(&self, key: &CStr, value: &CStr) -> ErrnoResult<()> {
        // SAFETY: the handle is live and the strings end in NUL.
        check(unsafe { (self.api.conf_set)(self.handle, key.as_ptr(), value.as_ptr()) }).map(|_| ())
    }

    /// A setting of this client; `None` if librados does not know it, or if the value is long.
    pub fn conf(&self, key: &CStr) -> Option<String> {
        let mut value = [0_u8; 256];
        // SAFETY: the handle is live, the key ends in NUL, and the buffer has the stated length.
        let result =
            unsafe { (self.api.conf_get)(self.handle, key.as_ptr(), value.as_mut_ptr().cast(), value.len()) };
        check(result).ok()?;
        Some(CStr::from_bytes_until_nul(&value).ok()?.to_string_lossy().into_owned())
    }

    /// Connects; blocks for at most `client_mount_timeout`.
    pub fn connect(&self) -> ErrnoResult<()> {
        // SAFETY: the handle is live.
        check(unsafe { (self.api.connect)(self.handle) }).map(|_| ())
    }

    /// The id of a pool in the client's map.
    pub fn pool_id(&self, name: &CStr) -> ErrnoResult<i64> {
        // SAFETY: the handle is live and the string ends in NUL.
        let id = unsafe { (self.api.pool_lookup)(self.handle, name.as_ptr()) };
        if id < 0 { Err(i32::try_from(-id).unwrap_or(i32::MAX)) } else { Ok(id) }
    }

    /// The names of all pools in the client's map.
    pub fn pools(&self) -> ErrnoResult<Vec<Vec<u8>>> {
        let mut buffer = vec![0_u8; 64 * 1024];
        loop {
            // SAFETY: the buffer has the stated length.
            let result =
                unsafe { (self.api.pool_list)(self.handle, buffer.as_mut_ptr().cast(), buffer.len()) };
            let needed = check(result)? as usize;
            if needed <= buffer.len() {
                let names = buffer[..needed].split(|byte| *byte == 0).filter(|name| !name.is_empty());
                return Ok(names.map(<[u8]>::to_vec).collect());
            }
            buffer.resize(needed, 0);
        }
    }

    pub fn wait_for_map(&self) -> ErrnoResult<()> {
        // SAFETY: the handle is live.
        check(unsafe { (self.api.wait_for_latest_osdmap)(self.handle) }).map(|_| ())
    }

    /// Runs a command and returns its result, with the output, and its status line.
    pub fn command(&self, at: Daemons, command: &CStr, input: &[u8]) -> (ErrnoResult<Vec<u8>>, String) {
        let run = match at {
            Daemons::Monitors => self.api.mon_command,
            Daemons::Manager => self.api.mgr_command,
        };
        let commands = [command.as_ptr()];
        let (mut out, mut out_len, mut status, mut status_len) = (null_mut(), 0, null_mut(), 0);
        // SAFETY: all pointers are valid during the call; we free both buffers.
        unsafe {
            let result = run(
                self.handle,
                commands.as_ptr(),
                commands.len(),
                input.as_ptr().cast(),
                input.len(),
                &mut out,
                &mut out_len,
                &mut status,
                &mut status_len,
            );
            let output = copy(out, out_len);
            let text = String::from_utf8_lossy(&copy(status, status_len)).into_owned();
            for buffer in [out, status] {
                (self.api.buffer_free)(buffer);
            }
            (check(result).map(|_| output), text)
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let closing = Closing { api: self.api, handle: self.handle };
        if !IN_CALLBACK.get() {
            return closing.shut_down();
        }
        // The shutdown waits for the thread that runs the callback, so another thread must do it.
        // If no thread can start, the connection stays open until the process ends.
        drop(std::thread::Builder::new().name("rados-close".to_owned()).spawn(move || closing.shut_down()));
    }
}
