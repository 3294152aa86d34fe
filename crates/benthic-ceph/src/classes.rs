//! Installs class libraries on the host of an OSD, and reads the OSD settings that apply to them.

use crate::cluster_client::ClusterClient;
use crate::cluster_state::OsdMap;
use crate::local::tools;
use benthic_class_names::is_library_name;
use benthic_core::{Action, Error, Result};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The symbol that ceph-osd looks up in a class library. A library that was built without Ceph's
/// headers does not have it.
const ENTRY_POINT: &[u8] = b"\0__cls_init\0";

/// OSDs run as a separate user, which must be able to read the library.
const MODE: u32 = 0o644;

const QUESTION_LIMIT: Duration = Duration::from_secs(15);

/// NAME of a file `libcls_NAME.so`.
///
/// # Errors
/// `InvalidArgument` for a file name of another form, and for a name of Ceph's own libraries.
pub fn library_name(library: &Path) -> Result<&str> {
    let file_name = library.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let name = file_name.strip_prefix("libcls_").and_then(|rest| rest.strip_suffix(".so"));
    name.filter(|name| is_library_name(name)).ok_or_else(|| {
        let message = "this is not the file name of a class library, or it is one of Ceph's own; name it libcls_NAME.so, with \
             lower-case letters, digits and _ in NAME";
        Error::invalid_argument(message)
        .with("file", library.display())
    })
}

/// Copies `libcls_NAME.so` into `class_dir` (the OSDs' `osd_class_dir`) and returns the installed
/// file's real path.
///
/// The installation is atomic for OSDs: it writes the file under another name, syncs it and renames
/// it. An installed file with the same content stays. OSDs that have loaded an older file of this
/// name keep using it until they restart: see [`running_older`].
///
/// # Errors
/// As [`library_name`]; `InvalidArgument` for a file that is not a class library; `NotFound`,
/// `PermissionDenied`, `LimitExceeded` (no space) and others from the file system.
pub fn install(library: &Path, class_dir: &Path) -> Result<PathBuf> {
    let name = library_name(library)?;
    install_file(&read_library(library)?, &format!("libcls_{name}.so"), class_dir)
}

/// Writes a file into `class_dir`, as [`install`] does, and returns its real path.
///
/// # Errors
/// As [`install`], from the file system.
pub fn install_file(content: &[u8], file_name: &str, class_dir: &Path) -> Result<PathBuf> {
    let cannot = |file: &Path, error| {
        Error::io(Action::Admin, "the file cannot be installed", error).with("file", file.display())
    };
    let class_dir = &fs::canonicalize(class_dir).map_err(|error| cannot(class_dir, error))?;
    let installed = class_dir.join(file_name);
    if fs::read(&installed).is_ok_and(|present| present == content) {
        allow_reading(&installed).map_err(|error| cannot(&installed, error))?;
        return Ok(installed);
    }
    // A starting OSD loads all files whose names begin with `libcls_`, so the temporary name does
    // not.
    let temporary = class_dir.join(format!(".{file_name}.{}.tmp", std::process::id()));
    let written = write_and_rename(content, &temporary, &installed);
    if written.is_err() {
        // Report the error of the write, not that of the cleanup.
        let _ = fs::remove_file(&temporary);
    }
    written.map_err(|error| cannot(&installed, error))?;
    Ok(installed)
}

/// Reads a library and checks that ceph-osd can find classes in it.
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
    Err(Error::invalid_argument("ceph-osd would find no classes in this file; if it was built without Ceph's headers, run `make ceph` and build it \
         again",
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
    if let Some(class_dir) = installed.parent() { File::open(class_dir)?.sync_all() } else { Ok(()) }
}

/// The processes on this machine that still run an older file than the one `installed`, a real path
/// as [`install`] returns it. Only root sees the processes of other users.
///
/// # Errors
/// Only if this machine's processes cannot be listed.
pub fn running_older(installed: &Path) -> Result<Vec<u32>> {
    // The kernel shows this name for a mapped file whose name now belongs to another file.
    let replaced = format!("{} (deleted)", installed.display());
    let mut pids = tools::pids()?;
    pids.retain(|pid| {
        // The file is empty or unreadable if the process has ended or belongs to another user.
        let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
        maps.lines().any(|line| line.ends_with(&replaced))
    });
    pids.sort_unstable();
    Ok(pids)
}

/// The OSD settings that apply to class libraries, as a running OSD has them.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Settings {
    /// The directory of the libraries on the OSD's host.
    #[serde(rename = "osd_class_dir")]
    pub class_dir: PathBuf,
    /// The libraries that OSDs load, separated by blanks; `*` for all.
    #[serde(rename = "osd_class_load_list")]
    pub load_list: String,
    /// The libraries that a client may call if its caps name none, separated by blanks; `*` for
    /// all.
    #[serde(rename = "osd_class_default_list")]
    pub default_list: String,
}

/// Ceph's own libraries: the default of both lists in 16.2.
const USUAL_LIST: &str = "cephfs hello journal lock log numops otp rbd refcount rgw rgw_gc timeindex user version cas cmpomap \
                          queue 2pc_queue fifo";

/// Libraries that an OSD may have besides Ceph's own: those that its settings name, and those in
/// its `osd_class_dir` if that directory is on this machine. The manager knows the settings of a
/// running OSD. Whether OSDs have loaded them, and whether they are Benthic's, only the OSDs can
/// tell.
///
/// # Errors
/// As [`ClusterClient::ask_manager`].
pub async fn candidates(client: &dyn ClusterClient, osd: i32) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for setting in ["osd_class_load_list", "osd_class_default_list"] {
        let list = running_setting(client, osd, setting).await?;
        names.extend(list.split_whitespace().filter(|name| is_library_name(name)).map(str::to_owned));
    }
    names.extend(installed_in(Path::new(&running_setting(client, osd, "osd_class_dir").await?)));
    names.sort();
    names.dedup();
    Ok(names)
}

async fn running_setting(client: &dyn ClusterClient, osd: i32, key: &str) -> Result<String> {
    let question = json!({ "prefix": "config show", "who": format!("osd.{osd}"), "key": key });
    let answer = client.ask_manager(question).await?;
    Ok(String::from_utf8_lossy(&answer).trim().to_owned())
}

/// The names of the class libraries in a directory, without Ceph's own. Empty if it is not on this
/// machine.
pub fn installed_in(class_dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(class_dir).into_iter().flatten().flatten();
    entries.filter_map(|entry| library_name(Path::new(&entry.file_name())).ok().map(str::to_owned)).collect()
}

impl Settings {
    pub fn debian_default() -> Settings {
        Settings {
            class_dir: format!("/usr/lib/{}-linux-gnu/rados-classes", std::env::consts::ARCH).into(),
            load_list: USUAL_LIST.to_owned(),
            default_list: USUAL_LIST.to_owned(),
        }
    }

    /// Reads the settings from an OSD that is up, with the `ceph` program. Without `conf` or `id`
    /// (`client.x`), `ceph` uses its default configuration. This takes at most half a minute.
    ///
    /// # Errors
    /// `Unavailable` if there is no `ceph` program, no monitor answers, or no OSD is up.
    pub fn read(conf: Option<&Path>, id: Option<&str>) -> Result<Settings> {
        let map: OsdMap = ask(conf, id, &["osd", "dump"])?;
        let up = map
            .osds
            .iter()
            .find(|osd| osd.is_up())
            .ok_or_else(|| Error::unavailable("no OSD is up; `ceph osd tree` shows them"))?;
        ask(conf, id, &["tell", &format!("osd.{}", up.id), "config", "show"])
    }
}

/// The versions of Ceph that the OSDs of a cluster run, such as `ceph version 18.2.7 (…) reef
/// (stable)`.
///
/// # Errors
/// As [`Settings::read`].
pub fn osd_versions(conf: Option<&Path>, id: Option<&str>) -> Result<Vec<String>> {
    #[derive(Deserialize)]
    struct Versions {
        #[serde(default)]
        osd: BTreeMap<String, u64>,
    }
    let versions: Versions = ask(conf, id, &["versions"])?;
    Ok(versions.osd.into_keys().collect())
}

/// Asks a cluster with the `ceph` program.
fn ask<T: DeserializeOwned>(conf: Option<&Path>, id: Option<&str>, words: &[&str]) -> Result<T> {
    let mut command = match conf {
        Some(conf) => tools::command("ceph", conf),
        // Keep CEPH_CONF and CEPH_ARGS from the environment, as librados does.
        None => tools::with_environment("ceph"),
    };
    if let Some(id) = id {
        let full = if id.contains('.') { id.to_owned() } else { format!("client.{id}") };
        command.args(["-n", &full]);
    }
    command.args(["--connect-timeout", "10", "-f", "json"]).args(words);
    serde_json::from_str(&tools::run(&mut command, QUESTION_LIMIT)?)
        .map_err(|error| Error::unavailable("cannot parse the answer of `ceph`").with_source(error))
}

#[cfg(test)]
#[path = "classes_tests.rs"]
mod tests;
