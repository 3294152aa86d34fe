//! Commands to monitors, and to daemons of which a store has none.

use super::{Handle, ResultPointer, api, malloc, unsupported};
use crate::ffi::args::{item, text};
use crate::rados::cluster::Cluster;
use crate::rados::code;
use crate::rados::command::{Answer, COMMAND_BYTES_MAX, run};
use benthic_core::{Error, Result};
use std::ffi::{c_char, c_int};

/// Where the output and the status of a command go, and their lengths.
type Outputs = [(*mut *mut c_char, *mut usize); 2];

/// Answers a command.
///
/// # Safety
/// The pointers are NULL or valid for writing.
unsafe fn answer(
    cluster: Handle,
    outputs: Outputs,
    run: impl FnOnce(&Cluster) -> Result<Answer>,
) -> Result<c_int> {
    // SAFETY: the caller's promise. Programs read the outputs of commands that failed, too.
    let places = outputs.map(|(text, len)| unsafe { (ResultPointer::new(text), ResultPointer::new(len)) });
    for (text, len) in &places {
        text.set(std::ptr::null_mut());
        len.set(0);
    }
    let cluster = item::<Cluster, _>(cluster)?;
    cluster.store()?;
    let failed = |error: Error| Answer { code: code(&error), output: String::new(), status: error.text() };
    let Answer { code, output, status } = run(&cluster).unwrap_or_else(failed);
    for ((text, len), content) in places.iter().zip([output, status]) {
        if content.is_empty() || text.0.is_null() || len.0.is_null() {
            continue;
        }
        // SAFETY: `malloc` returned room for the text, or NULL.
        unsafe {
            let copy = malloc(content.len()).cast::<u8>();
            if !copy.is_null() {
                std::ptr::copy_nonoverlapping(content.as_ptr(), copy, content.len());
                text.set(copy.cast());
                len.set(content.len());
            }
        }
    }
    Ok(code)
}

/// # Safety
/// As [`answer`].
unsafe fn refuse(cluster: Handle, outputs: Outputs) -> Result<c_int> {
    // SAFETY: the caller's promise.
    unsafe { answer(cluster, outputs, |_| Err(unsupported("a Benthic store has no such daemon"))) }
}

api! {
    fn rados_mon_command(
        cluster: Handle, command: *const *const c_char, count: usize, _in: Handle, _in_len: usize,
        out: *mut *mut c_char, out_len: *mut usize, status: *mut *mut c_char, status_len: *mut usize,
    ) {
        answer(cluster, [(out, out_len), (status, status_len)], |cluster| {
            if count != 1 || command.is_null() {
                return Err(Error::invalid_argument("a command is one JSON text"));
            }
            run(cluster, text(command.read_unaligned(), "cmd", COMMAND_BYTES_MAX)?)
        })
    }

    fn rados_mgr_command(
        cluster: Handle, _command: Handle, _count: usize, _in: Handle, _in_len: usize,
        out: *mut *mut c_char, out_len: *mut usize, status: *mut *mut c_char, status_len: *mut usize,
    ) {
        refuse(cluster, [(out, out_len), (status, status_len)])
    }

    fn rados_mon_command_target(
        cluster: Handle, _target: Handle, _command: Handle, _count: usize, _in: Handle, _in_len: usize,
        out: *mut *mut c_char, out_len: *mut usize, status: *mut *mut c_char, status_len: *mut usize,
    ) {
        refuse(cluster, [(out, out_len), (status, status_len)])
    }

    fn rados_mgr_command_target(
        cluster: Handle, _target: Handle, _command: Handle, _count: usize, _in: Handle, _in_len: usize,
        out: *mut *mut c_char, out_len: *mut usize, status: *mut *mut c_char, status_len: *mut usize,
    ) {
        refuse(cluster, [(out, out_len), (status, status_len)])
    }

    fn rados_osd_command(
        cluster: Handle, _osd: c_int, _command: Handle, _count: usize, _in: Handle, _in_len: usize,
        out: *mut *mut c_char, out_len: *mut usize, status: *mut *mut c_char, status_len: *mut usize,
    ) {
        refuse(cluster, [(out, out_len), (status, status_len)])
    }

    fn rados_pg_command(
        cluster: Handle, _pg: Handle, _command: Handle, _count: usize, _in: Handle, _in_len: usize,
        out: *mut *mut c_char, out_len: *mut usize, status: *mut *mut c_char, status_len: *mut usize,
    ) {
        refuse(cluster, [(out, out_len), (status, status_len)])
    }
}
