//! Functions for features that a directory does not have. Each fails for any arguments: in the
//! calling conventions of Linux, a function may leave out arguments that it does not use.

use benthic_core::error::errno;
use std::ffi::{c_int, c_void};

macro_rules! fails {
    ($code:expr; $($name:ident)*) => {$(
        #[unsafe(no_mangle)]
        pub extern "C" fn $name() -> c_int {
            -$code
        }
    )*};
}

// Snapshots, watches, services, and facts that only daemons know.
fails! { errno::EOPNOTSUPP;
    rados_ioctx_snap_create
    rados_ioctx_selfmanaged_snap_create
    rados_ioctx_selfmanaged_snap_remove
    rados_ioctx_selfmanaged_snap_rollback
    rados_watch3
    rados_watch_check
    rados_unwatch2
    rados_watch_flush
    rados_notify2
    rados_aio_notify
    rados_notify_ack
    rados_decode_notify_response
    rados_service_register
    rados_service_update_status
    rados_monitor_log
    rados_monitor_log2
    rados_blocklist_add
    rados_getaddrs
}

// No pool has a snapshot, so none is found.
fails! { errno::ENOENT;
    rados_ioctx_snap_remove
    rados_ioctx_snap_rollback
    rados_ioctx_snap_lookup
    rados_ioctx_snap_get_name
    rados_ioctx_snap_get_stamp
}

/// Frees nothing: no notification was decoded.
#[unsafe(no_mangle)]
pub extern "C" fn rados_free_notify_response(_acks: *mut c_void, _count: usize, _timeouts: *mut c_void) {}
