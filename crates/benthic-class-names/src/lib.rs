//! The names under which ceph-osd knows classes and their libraries.
//!
//! Two crates need the list of Ceph's own classes: `benthic-rados`, which must not look for a
//! library of `rbd`, and `benthic-cls`, which refuses to build a library of that name. The client
//! cannot depend on the C++ shim, a library inside an OSD cannot depend on the client, and core
//! names no engine. So the names are a separate crate without dependencies.

const LIBRARY_NAME_BYTES_MAX: usize = 64;

/// The classes that Ceph itself ships, in 16.2 and in the releases before and after it. OSDs, RBD
/// images and gateways depend on them.
pub const CEPH_CLASSES: [&str; 28] = [
    "2pc_queue",
    "acl",
    "cas",
    "cephfs",
    "cmpomap",
    "crypto",
    "fifo",
    "hello",
    "journal",
    "kvs",
    "lock",
    "log",
    "lua",
    "numops",
    "otp",
    "queue",
    "rbd",
    "refcount",
    "replica_log",
    "rgw",
    "rgw_gc",
    "sdk",
    "sem_set",
    "statelog",
    "test_remote_reads",
    "timeindex",
    "user",
    "version",
];

/// Prefix that selects one of [`CEPH_CLASSES`] if one of our classes has the same name: `ceph.lock`
/// is Ceph's `lock`, and `lock` is ours. Engines without Ceph's classes do not know these names.
pub const CEPH_CLASS_PREFIX: &str = "ceph.";

/// Whether a class library may have this name: at most 64 lower-case letters, digits and `_`, and
/// none of [`CEPH_CLASSES`].
pub const fn is_library_name(name: &str) -> bool {
    let name = name.as_bytes();
    if name.is_empty() || name.len() > LIBRARY_NAME_BYTES_MAX {
        return false;
    }
    let mut at = 0;
    while at < name.len() {
        if !matches!(name[at], b'a'..=b'z' | b'0'..=b'9' | b'_') {
            return false;
        }
        at += 1;
    }
    let mut class = 0;
    while class < CEPH_CLASSES.len() {
        if same(name, CEPH_CLASSES[class].as_bytes()) {
            return false;
        }
        class += 1;
    }
    true
}

/// `==` for a `const fn`.
const fn same(a: &[u8], b: &[u8]) -> bool {
    let mut at = 0;
    while at < a.len() && at < b.len() && a[at] == b[at] {
        at += 1;
    }
    at == a.len() && at == b.len()
}

#[cfg(test)]
mod tests;
