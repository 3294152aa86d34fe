//! Putting a library where OSDs find it.

use benthic_core::{Action, Error, ErrorKind, Result};
use std::fs::{self, File, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

const NAME_BYTES_MAX: usize = 64;
/// What ceph-osd looks for in a library; it is in no library that was built without Ceph's headers.
const ENTRY_POINT: &[u8] = b"\0__cls_init\0";

/// The classes that Ceph brings along, those of 16.2 and of releases before and after it. OSDs, RBD images and gateways depend on them.
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

/// Whether a library may be called so: lower-case letters, digits and `_`, at most 64, and none of [`CEPH_CLASSES`].
pub const fn is_library_name(name: &str) -> bool {
    let name = name.as_bytes();
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
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

/// Copies `libcls_NAME.so` into `class_dir` (the OSDs' `osd_class_dir`) and returns where it is.
///
/// An OSD sees all of the file or nothing: it is written under another name, synced and renamed. OSDs that have loaded
/// an older file of this name go on with it until they are started again.
///
/// # Errors
/// `InvalidArgument` for a file name of another form, a name of Ceph's, or a file that is no library of classes;
/// `NotFound`, `PermissionDenied`, `LimitExceeded` (no space) and others from the file system.
pub fn install(library: &Path, class_dir: &Path) -> Result<PathBuf> {
    let file_name = library.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let name = file_name.strip_prefix("libcls_").and_then(|rest| rest.strip_suffix(".so"));
    if !name.is_some_and(is_library_name) {
        return Err(Error::new(
            ErrorKind::InvalidArgument,
            "not the file name of a library of classes, or one of Ceph's own; call it libcls_NAME.so, with lower-case \
             letters, digits and _ in NAME",
        )
        .with("file", library.display()));
    }
    let content = fs::read(library).map_err(|error| {
        Error::io(Action::Admin, "the library cannot be read", error).with("file", library.display())
    })?;
    let has_entry_point = content.windows(ENTRY_POINT.len()).any(|window| window == ENTRY_POINT);
    if !content.starts_with(b"\x7fELF") || !has_entry_point {
        return Err(Error::new(
            ErrorKind::InvalidArgument,
            "ceph-osd would find no classes in it; if it was built without Ceph's headers, `make ceph` and build again",
        )
        .with("file", library.display()));
    }
    let installed = class_dir.join(file_name);
    // An OSD that starts loads all that begins with `libcls_`, so the temporary name does not.
    let temporary = class_dir.join(format!(".{file_name}.{}.tmp", std::process::id()));
    let written = write_and_rename(&content, &temporary, &installed);
    if written.is_err() {
        // The first error is the one to report.
        let _ = fs::remove_file(&temporary);
    }
    written.map_err(|error| {
        Error::io(Action::Admin, "the library cannot be installed", error).with("file", installed.display())
    })?;
    Ok(installed)
}

fn write_and_rename(content: &[u8], temporary: &Path, installed: &Path) -> std::io::Result<()> {
    let mut file = File::create(temporary)?;
    file.write_all(content)?;
    file.set_permissions(Permissions::from_mode(0o644))?;
    file.sync_all()?;
    fs::rename(temporary, installed)?;
    match installed.parent() {
        Some(class_dir) => File::open(class_dir)?.sync_all(),
        None => Ok(()),
    }
}
