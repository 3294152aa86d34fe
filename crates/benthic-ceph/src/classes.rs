//! Libraries of classes on the host of an OSD: putting one where OSDs find it, and what OSDs make of it.

use crate::cluster_state::OsdMap;
use crate::local::tools;
use benthic_class_names::is_library_name;
use benthic_core::{Action, Error, ErrorKind, Result};
use serde::Deserialize;
use std::fs::{self, File, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What ceph-osd looks for in a library; it is in no library that was built without Ceph's headers.
const ENTRY_POINT: &[u8] = b"\0__cls_init\0";

/// OSDs run as a user of their own.
const MODE: u32 = 0o644;

const QUESTION_LIMIT: Duration = Duration::from_secs(15);

/// NAME of a file `libcls_NAME.so`.
///
/// # Errors
/// `InvalidArgument` for a file name of another form, and for a name of Ceph's.
pub fn library_name(library: &Path) -> Result<&str> {
    let file_name = library.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let name = file_name.strip_prefix("libcls_").and_then(|rest| rest.strip_suffix(".so"));
    name.filter(|name| is_library_name(name)).ok_or_else(|| {
        Error::new(
            ErrorKind::InvalidArgument,
            "not the file name of a library of classes, or one of Ceph's own; call it libcls_NAME.so, with lower-case \
             letters, digits and _ in NAME",
        )
        .with("file", library.display())
    })
}

/// Copies `libcls_NAME.so` into `class_dir` (the OSDs' `osd_class_dir`) and returns its real path.
///
/// An OSD sees all of the file or nothing: it is written under another name, synced and renamed. A file that is there
/// already with the same content stays. OSDs that have loaded an older file of this name go on with it until they are
/// started again: see [`running_older`].
///
/// # Errors
/// As [`library_name`]; `InvalidArgument` for a file that is no library of classes; `NotFound`, `PermissionDenied`,
/// `LimitExceeded` (no space) and others from the file system.
pub fn install(library: &Path, class_dir: &Path) -> Result<PathBuf> {
    let name = library_name(library)?;
    let content = read_library(library)?;
    let cannot = |file: &Path, error| {
        Error::io(Action::Admin, "the library cannot be installed", error).with("file", file.display())
    };
    let class_dir = &fs::canonicalize(class_dir).map_err(|error| cannot(class_dir, error))?;
    let installed = class_dir.join(format!("libcls_{name}.so"));
    if fs::read(&installed).is_ok_and(|present| present == content) {
        allow_reading(&installed).map_err(|error| cannot(&installed, error))?;
        return Ok(installed);
    }
    // An OSD that starts loads all that begins with `libcls_`, so the temporary name does not.
    let temporary = class_dir.join(format!(".libcls_{name}.so.{}.tmp", std::process::id()));
    let written = write_and_rename(&content, &temporary, &installed);
    if written.is_err() {
        // The first error is the one to report.
        let _ = fs::remove_file(&temporary);
    }
    written.map_err(|error| cannot(&installed, error))?;
    Ok(installed)
}

/// Reads a library, if it is one that ceph-osd would find classes in.
///
/// # Errors
/// As [`install`].
pub fn read_library(library: &Path) -> Result<Vec<u8>> {
    let content = fs::read(library).map_err(|error| {
        Error::io(Action::Admin, "the library cannot be read", error).with("file", library.display())
    })?;
    let has_entry_point = content.windows(ENTRY_POINT.len()).any(|window| window == ENTRY_POINT);
    if content.starts_with(b"\x7fELF") && has_entry_point {
        return Ok(content);
    }
    Err(Error::new(
        ErrorKind::InvalidArgument,
        "ceph-osd would find no classes in it; if it was built without Ceph's headers, `make ceph` and build again",
    )
    .with("file", library.display()))
}

fn allow_reading(library: &Path) -> std::io::Result<()> {
    if fs::metadata(library)?.permissions().mode() & 0o777 == MODE {
        return Ok(());
    }
    fs::set_permissions(library, Permissions::from_mode(MODE))
}

fn write_and_rename(content: &[u8], temporary: &Path, installed: &Path) -> std::io::Result<()> {
    let mut file = File::create(temporary)?;
    file.write_all(content)?;
    file.set_permissions(Permissions::from_mode(MODE))?;
    file.sync_all()?;
    fs::rename(temporary, installed)?;
    match installed.parent() {
        Some(class_dir) => File::open(class_dir)?.sync_all(),
        None => Ok(()),
    }
}

/// The processes on this machine that run an older file of this name than the one that is `installed` now: its real
/// path, as [`install`] returns it. Processes of other users are left out, unless this one is root's.
///
/// # Errors
/// Only if this machine's processes cannot be listed.
pub fn running_older(installed: &Path) -> Result<Vec<u32>> {
    // The kernel names a mapped file so when its name was given to another.
    let replaced = format!("{} (deleted)", installed.display());
    let cannot = |error| Error::io(Action::Admin, "cannot read /proc", error);
    let mut pids = Vec::new();
    for entry in fs::read_dir("/proc").map_err(cannot)? {
        let name = entry.map_err(cannot)?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        // A process that ended meanwhile, or that is not ours, has nothing to read.
        let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
        if maps.lines().any(|line| line.ends_with(&replaced)) {
            pids.push(pid);
        }
    }
    pids.sort_unstable();
    Ok(pids)
}

/// The settings of the OSDs that libraries of classes depend on, as a running OSD has them.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Settings {
    /// Where OSDs look for libraries, on their own host.
    #[serde(rename = "osd_class_dir")]
    pub class_dir: PathBuf,
    /// Which libraries they load, separated by blanks; `*` for all.
    #[serde(rename = "osd_class_load_list")]
    pub load_list: String,
    /// Which libraries a client may call whose caps name none; `*` for all.
    #[serde(rename = "osd_class_default_list")]
    pub default_list: String,
}

/// Ceph's own, and the default of both lists in 16.2.
const USUAL_LIST: &str = "cephfs hello journal lock log numops otp rbd refcount rgw rgw_gc timeindex user version cas cmpomap \
                          queue 2pc_queue fifo";

impl Settings {
    /// What OSDs of Debian's packages have, unless somebody changed it.
    pub fn usual() -> Settings {
        Settings {
            class_dir: format!("/usr/lib/{}-linux-gnu/rados-classes", std::env::consts::ARCH).into(),
            load_list: USUAL_LIST.to_owned(),
            default_list: USUAL_LIST.to_owned(),
        }
    }

    /// Asks one of the OSDs that are up, through the `ceph` program, which reads its usual configuration where `conf` or
    /// `id` (`client.x`) is not given. Takes half a minute at most.
    ///
    /// # Errors
    /// `Unavailable` if there is no `ceph` program, no monitor answers, or no OSD is up.
    pub fn ask(conf: Option<&Path>, id: Option<&str>) -> Result<Settings> {
        let ask = |words: &[&str]| {
            let mut command = match conf {
                Some(conf) => tools::command("ceph", conf),
                // It may have CEPH_CONF or CEPH_ARGS in its environment, as librados has.
                None => tools::plain("ceph"),
            };
            if let Some(id) = id {
                let full = if id.contains('.') { id.to_owned() } else { format!("client.{id}") };
                command.args(["-n", &full]);
            }
            command.args(["--connect-timeout", "10", "-f", "json"]).args(words);
            tools::run(&mut command, QUESTION_LIMIT)
        };
        let strange = |error| {
            Error::new(ErrorKind::Unavailable, "the answer of `ceph` is not understood").with_source(error)
        };
        let map: OsdMap = serde_json::from_str(&ask(&["osd", "dump"])?).map_err(strange)?;
        let up =
            map.osds.iter().find(|osd| osd.is_up()).ok_or_else(|| {
                Error::new(ErrorKind::Unavailable, "no OSD is up; `ceph osd tree` shows them")
            })?;
        let shown = ask(&["tell", &format!("osd.{}", up.id), "config", "show"])?;
        serde_json::from_str(&shown).map_err(strange)
    }
}

#[cfg(test)]
#[path = "classes_tests.rs"]
mod tests;
