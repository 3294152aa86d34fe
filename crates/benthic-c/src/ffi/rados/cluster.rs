//! Clusters: creating a client, its options, connecting it, and the cluster's pools.

use super::{Handle, Memory, ResultPointer, api, free, unsupported, void_api};
use crate::ffi::args::{Out, item, pool_name, text};
use crate::handles::HANDLES;
use crate::rados::cluster::Cluster;
use benthic_core::error::errno;
use benthic_core::{Error, Result};
use std::ffi::{c_char, c_int};
use std::sync::Arc;

const NAME_BYTES_MAX: usize = 256;
const OPTION_BYTES_MAX: usize = 4_096;
const ARGUMENTS_MAX: usize = 10_000;

/// `struct rados_cluster_stat_t`.
#[repr(C)]
pub struct ClusterStat {
    kib: u64,
    kib_used: u64,
    kib_avail: u64,
    num_objects: u64,
}

fn create(cluster: &Out<Handle>, name: &str) -> Result<c_int> {
    cluster.set_handle(Cluster::new(name)?)?;
    Ok(0)
}

fn cluster(handle: Handle) -> Result<Arc<Cluster>> {
    item(handle)
}

void_api! {
    fn rados_version(major: *mut c_int, minor: *mut c_int, extra: *mut c_int) {
        ResultPointer::new(major).set(3);
        ResultPointer::new(minor).set(0);
        ResultPointer::new(extra).set(0);
    }

    fn rados_shutdown(cluster: Handle) {
        if let Ok(cluster) = HANDLES.remove::<Cluster>(cluster as u64) {
            cluster.shut_down();
        }
    }

    fn rados_buffer_free(buffer: *mut c_char) {
        free(buffer.cast());
    }
}

api! {
    fn rados_create(cluster: *mut Handle, id: *const c_char) {
        let cluster = Out::new(cluster, "cluster")?;
        let id = if id.is_null() { "admin" } else { text(id, "id", NAME_BYTES_MAX)? };
        create(&cluster, &format!("client.{id}"))
    }

    fn rados_create2(
        cluster: *mut Handle,
        _cluster_name: *const c_char,
        name: *const c_char,
        _flags: u64,
    ) {
        let cluster = Out::new(cluster, "cluster")?;
        let name = if name.is_null() { "client.admin" } else { text(name, "name", NAME_BYTES_MAX)? };
        create(&cluster, name)
    }

    fn rados_create_with_context(_cluster: *mut Handle, _context: Handle) {
        Err(unsupported("there is no CephContext without Ceph"))
    }

    fn rados_connect(cluster: Handle) {
        self::cluster(cluster)?.connect()?;
        Ok(0)
    }

    fn rados_conf_read_file(cluster: Handle, path: *const c_char) {
        let path = if path.is_null() { None } else { Some(text(path, "path", OPTION_BYTES_MAX)?) };
        self::cluster(cluster)?.read_file(path)?;
        Ok(0)
    }

    fn rados_conf_set(cluster: Handle, option: *const c_char, value: *const c_char) {
        let option = text(option, "option", NAME_BYTES_MAX)?;
        self::cluster(cluster)?.set_option(option, text(value, "value", OPTION_BYTES_MAX)?)?;
        Ok(0)
    }

    fn rados_conf_get(cluster: Handle, option: *const c_char, buffer: *mut c_char, len: usize) {
        let option = text(option, "option", NAME_BYTES_MAX)?;
        let Some(value) = self::cluster(cluster)?.option(option) else { return Ok(-errno::ENOENT) };
        Ok(if Memory::new(buffer, len).copy_text(&value)? < 0 { -errno::ENAMETOOLONG } else { 0 })
    }

    // Ceph's arguments mean nothing to a store, so all of them remain.
    fn rados_conf_parse_argv_remainder(
        cluster: Handle,
        argc: c_int,
        argv: *const *const c_char,
        remaining: *mut *const c_char,
    ) {
        self::cluster(cluster)?;
        let count = usize::try_from(argc).unwrap_or(0);
        if count > ARGUMENTS_MAX || count > 0 && (argv.is_null() || remaining.is_null()) {
            return Ok(-errno::EINVAL);
        }
        for at in 0..count {
            remaining.add(at).write(argv.add(at).read());
        }
        Ok(0)
    }

    fn rados_conf_parse_env(cluster: Handle, variable: *const c_char) {
        if !variable.is_null() {
            text(variable, "variable", NAME_BYTES_MAX)?;
        }
        self::cluster(cluster)?;
        Ok(0)
    }

    fn rados_cluster_stat(cluster: Handle, stat: *mut ClusterStat) {
        let stat = Out::new(stat, "result")?;
        let space = self::cluster(cluster)?.space()?;
        stat.set(ClusterStat {
            kib: space.kib,
            kib_used: space.used_kib,
            kib_avail: space.free_kib,
            num_objects: space.objects,
        });
        Ok(0)
    }

    fn rados_cluster_fsid(cluster: Handle, buffer: *mut c_char, len: usize) {
        Memory::new(buffer, len).copy_text(&self::cluster(cluster)?.fsid()?)
    }

    fn rados_wait_for_latest_osdmap(cluster: Handle) {
        self::cluster(cluster)?.store()?;
        Ok(0)
    }

    // The names, each with a NUL, and one more NUL. Returns how many bytes all of them take.
    fn rados_pool_list(cluster: Handle, buffer: *mut c_char, len: usize) {
        let mut names = Vec::new();
        for pool in self::cluster(cluster)?.pools()? {
            let needed = names.len() + pool.len() + 2;
            names.extend_from_slice(pool.as_bytes());
            names.push(0);
            if needed <= len {
                Memory::new(buffer, len).copy(&[&names, &[0][..]].concat())?;
            }
        }
        if names.is_empty() && len > 0 {
            Memory::new(buffer, len).copy(&[0])?;
        }
        Ok(c_int::try_from(names.len() + 1).unwrap_or(-errno::EOVERFLOW))
    }

    fn rados_inconsistent_pg_list(cluster: Handle, pool: i64, buffer: *mut c_char, len: usize) {
        self::cluster(cluster)?.pool_name(pool)?;
        if len > 0 {
            Memory::new(buffer, len).copy(&[0])?;
        }
        Ok(0)
    }

    fn rados_pool_reverse_lookup(cluster: Handle, id: i64, buffer: *mut c_char, len: usize) {
        Memory::new(buffer, len).copy_text(&self::cluster(cluster)?.pool_name(id)?)
    }

    fn rados_pool_create(cluster: Handle, name: *const c_char) {
        self::cluster(cluster)?.create_pool(pool_name(name)?)?;
        Ok(0)
    }

    // A directory has neither owners of pools nor placement rules.
    fn rados_pool_create_with_auid(cluster: Handle, name: *const c_char, _auid: u64) {
        self::cluster(cluster)?.create_pool(pool_name(name)?)?;
        Ok(0)
    }

    fn rados_pool_create_with_crush_rule(cluster: Handle, name: *const c_char, _rule: u8) {
        self::cluster(cluster)?.create_pool(pool_name(name)?)?;
        Ok(0)
    }

    fn rados_pool_create_with_all(cluster: Handle, name: *const c_char, _auid: u64, _rule: u8) {
        self::cluster(cluster)?.create_pool(pool_name(name)?)?;
        Ok(0)
    }

    fn rados_pool_delete(cluster: Handle, name: *const c_char) {
        self::cluster(cluster)?.remove_pool(pool_name(name)?)?;
        Ok(0)
    }

    // A pool without tiers is its own base.
    fn rados_pool_get_base_tier(cluster: Handle, pool: i64, base: *mut i64) {
        let base = Out::new(base, "base_tier")?;
        self::cluster(cluster)?.pool_name(pool)?;
        base.set(pool);
        Ok(0)
    }

    fn rados_ping_monitor(
        cluster: Handle,
        _monitor: *const c_char,
        _text: *mut *mut c_char,
        _len: *mut usize,
    ) {
        self::cluster(cluster)?;
        Err(Error::not_found("a directory has no monitors"))
    }
}

/// Returns a number for this client, 0 if the handle is not open.
///
/// # Safety
/// None; the handle is looked up.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rados_get_instance_id(cluster: Handle) -> u64 {
    item::<Cluster, _>(cluster).map_or(0, |cluster| cluster.instance)
}

/// Returns the id of a pool, or a negative errno.
///
/// # Safety
/// As in `librados.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rados_pool_lookup(cluster: Handle, name: *const c_char) -> i64 {
    let mut id = 0;
    let code = super::result(|| {
        // SAFETY: the caller's promises; see `librados.h`.
        id = self::cluster(cluster)?.pool_id(unsafe { pool_name(name)? })?;
        Ok(0)
    });
    if code < 0 { code.into() } else { id }
}
