//! I/O contexts: a pool and a namespace, on which a program runs operations.

use super::{Handle, Memory, api, void_api};
use crate::ffi::args::{Out, free, item, pool_name, text};
use crate::rados::cluster::Cluster;
use crate::rados::ioctx::Ioctx;
use benthic_core::error::errno;
use benthic_core::limits;
use std::ffi::{c_char, c_int, c_uint};
use std::ptr::null_mut;
use std::sync::Arc;

/// `struct rados_pool_stat_t`.
#[derive(Default)]
#[repr(C)]
pub struct PoolStat {
    num_bytes: u64,
    num_kb: u64,
    num_objects: u64,
    num_object_clones: u64,
    num_object_copies: u64,
    num_objects_missing_on_primary: u64,
    num_objects_unfound: u64,
    num_objects_degraded: u64,
    num_rd: u64,
    num_rd_kb: u64,
    num_wr: u64,
    num_wr_kb: u64,
    num_user_bytes: u64,
    compressed_bytes_orig: u64,
    compressed_bytes: u64,
    compressed_bytes_alloc: u64,
}

void_api! {
    fn rados_ioctx_destroy(io: Handle) {
        free::<Ioctx, _>(io);
    }

    // A locator selects the placement group, of which a directory has none.
    fn rados_ioctx_locator_set_key(_io: Handle, _key: *const c_char) {}

    fn rados_ioctx_set_namespace(io: Handle, namespace: *const c_char) {
        let namespace = match namespace.is_null() {
            true => "",
            false => text(namespace, "nspace", limits::NAMESPACE_BYTES_MAX)?,
        };
        item::<Ioctx, _>(io)?.set_namespace(namespace);
    }

    fn rados_ioctx_snap_set_read(io: Handle, snap: u64) {
        item::<Ioctx, _>(io)?.set_snap(snap);
    }

    // A directory has no flag that rejects writes to a full pool.
    fn rados_set_pool_full_try(_io: Handle) {}
    fn rados_unset_pool_full_try(_io: Handle) {}
}

api! {
    fn rados_ioctx_create(cluster: Handle, name: *const c_char, io: *mut Handle) {
        let io = Out::new(io, "ioctx")?;
        let name = pool_name(name)?;
        let (found, handle): (Arc<Cluster>, _) = (item(cluster)?, cluster as u64);
        io.set_handle(Ioctx::open(found, handle, name)?)?;
        Ok(0)
    }

    fn rados_ioctx_create2(cluster: Handle, id: i64, io: *mut Handle) {
        let io = Out::new(io, "ioctx")?;
        let (found, handle): (Arc<Cluster>, _) = (item(cluster)?, cluster as u64);
        let name = found.pool_name(id)?;
        io.set_handle(Ioctx::open(found, handle, &name)?)?;
        Ok(0)
    }

    // Counts the pool's objects and reads the size of each.
    fn rados_ioctx_pool_stat(io: Handle, stats: *mut PoolStat) {
        let stats = Out::new(stats, "stats")?;
        let (objects, bytes) = item::<Ioctx, _>(io)?.usage()?;
        stats.set(PoolStat {
            num_bytes: bytes,
            num_kb: bytes.div_ceil(1024),
            num_objects: objects,
            num_object_copies: objects,
            num_user_bytes: bytes,
            ..PoolStat::default()
        });
        Ok(0)
    }

    fn rados_ioctx_pool_requires_alignment2(io: Handle, requires: *mut c_int) {
        let requires = Out::new(requires, "req")?;
        item::<Ioctx, _>(io)?;
        requires.set(0);
        Ok(0)
    }

    fn rados_ioctx_pool_required_alignment2(io: Handle, alignment: *mut u64) {
        let alignment = Out::new(alignment, "alignment")?;
        item::<Ioctx, _>(io)?;
        alignment.set(0);
        Ok(0)
    }

    fn rados_ioctx_get_pool_name(io: Handle, buffer: *mut c_char, len: c_uint) {
        let io = item::<Ioctx, _>(io)?;
        Memory::new(buffer, len as usize).copy_text(io.pool.name())
    }

    fn rados_aio_flush(io: Handle) {
        item::<Ioctx, _>(io)?.flush();
        Ok(0)
    }

    fn rados_ioctx_snap_list(io: Handle, _snaps: *mut u64, _max: c_int) {
        item::<Ioctx, _>(io)?;
        Ok(0)
    }

    // No context writes in the view of a snapshot.
    fn rados_ioctx_selfmanaged_snap_set_write_ctx(io: Handle, _seq: u64, _snaps: *mut u64, count: c_int) {
        item::<Ioctx, _>(io)?;
        Ok(if count == 0 { 0 } else { -errno::EOPNOTSUPP })
    }
}

/// Returns the handle of the cluster, NULL if the handle is not open.
///
/// # Safety
/// None; the handle is looked up.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rados_ioctx_get_cluster(io: Handle) -> Handle {
    item::<Ioctx, _>(io).map_or(null_mut(), |io| io.cluster_handle as Handle)
}

/// Returns the id of the pool, or a negative errno.
///
/// # Safety
/// None; the handle is looked up.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rados_ioctx_get_id(io: Handle) -> i64 {
    item::<Ioctx, _>(io).map_or(-i64::from(errno::EINVAL), |io| io.id())
}

/// Returns the version that the last operation of the context read or made.
///
/// # Safety
/// None; the handle is looked up.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rados_get_last_version(io: Handle) -> u64 {
    item::<Ioctx, _>(io).map_or(0, |io| io.last_version())
}
