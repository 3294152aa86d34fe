//! The directory of a cluster.
//!
//! ```text
//! DIR/benthic-cluster.json   the marker: this directory belongs to a cluster
//!     lock                   held by the command that changes the cluster
//!     ceph.conf  keyring  monmap
//!     sites/SITE.conf        for clients at a site
//!     mon.a/  mgr.a/  osd.N/ data of the daemons; osd.N/block is a sparse file
//!     classes/               links to the system's object classes
//!     log/  run/
//! ```

use super::daemon::Daemon;
use super::sites::Sites;
use benthic_core::{Action, Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};
use std::fs::{self, DirBuilder, File, TryLockError};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};

const MARKER: &str = "benthic-cluster.json";
const NEW_MARKER: &str = "benthic-cluster.json.new";
const LOCK: &str = "lock";
const SITES: &str = "sites";
const CLASSES: &str = "classes";
/// The directory of the sockets.
pub const RUN: &str = "run";
/// Types of CRUSH buckets, as Ceph numbers them.
const TYPE_OSD: u32 = 0;
const TYPE_DATACENTER: u32 = 8;
/// The path of a socket has at most 107 bytes. The longest socket name adds this many to the
/// directory.
const DIR_BYTES_MAX: usize = 107 - "/run/osd.99.asok".len();
/// Maximum size of an OSD. The file is sparse.
const OSD_BYTES: u64 = 20 << 30;

/// The description of the cluster in its directory.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Marker {
    pub format: u32,
    pub fsid: String,
    pub mon_port: u16,
    pub osds: u32,
    /// The sites of the daemons, if there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sites: Option<Sites>,
    /// False until the cluster has served once. An incomplete cluster is created again, because it
    /// cannot hold data yet.
    pub complete: bool,
}

impl Marker {
    /// Creates the marker of a new cluster, with a free port.
    pub fn new(osds: u32, sites: &[String], rtt_ms: u32, mbit_per_s: u32) -> Result<Marker> {
        let fsid = uuid()?;
        // Use ports below the kernel's ephemeral range. The search starts at a different port for
        // each cluster.
        let start = fsid.bytes().fold(0_u16, |hash, byte| hash.wrapping_mul(31).wrapping_add(byte.into()));
        let mon_port = (0..100)
            .map(|step| 20_000 + start.wrapping_add(step * 7) % 10_000)
            .find(|port| port_is_free(*port))
            .ok_or_else(|| Error::new(ErrorKind::Busy, "no free port found for the monitor; try again"))?;
        let sites = if sites.is_empty() { None } else { Some(Sites::new(sites, rtt_ms, mbit_per_s, &fsid)?) };
        Ok(Marker { format: 1, fsid, mon_port, osds, sites, complete: false })
    }

    /// The monitor's address, in Ceph's notation.
    pub fn mon_address(&self) -> String {
        format!("v2:{}:{}/0", self.address(Daemon::Mon), self.mon_port)
    }

    /// The cluster's Ceph daemons, in start order.
    pub fn daemons(&self) -> impl Iterator<Item = Daemon> + use<> {
        [Daemon::Mon, Daemon::Mgr].into_iter().chain((0..self.osds).map(Daemon::Osd))
    }

    fn address(&self, daemon: Daemon) -> Ipv4Addr {
        self.sites.as_ref().map_or(Ipv4Addr::LOCALHOST, |sites| sites.address(sites.site_of(daemon)))
    }

    /// Reads the marker of a directory; `None` if there is none.
    pub fn read(dir: &Path) -> Result<Option<Marker>> {
        let path = dir.join(MARKER);
        let text = match fs::read(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            read => read.map_err(|error| cannot("read", &path, error))?,
        };
        let broken = |message: &str| Error::new(ErrorKind::Corrupt, message).with("file", path.display());
        let marker: Marker = serde_json::from_slice(&text)
            .map_err(|error| broken("cannot parse the cluster's marker").with_source(error))?;
        if marker.format != 1 {
            return Err(
                broken("another version of benthic created the cluster").with("format", marker.format)
            );
        }
        Ok(Some(marker))
    }

    /// Writes the marker. Readers see the old or the new marker, never a part of it.
    pub fn write(&self, dir: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self).map_err(|error| {
            Error::new(ErrorKind::Internal, "cannot encode the marker").with_source(error)
        })?;
        let (path, temporary) = (dir.join(MARKER), dir.join(NEW_MARKER));
        fs::write(&temporary, text + "\n")
            .and_then(|()| fs::rename(&temporary, &path))
            .map_err(|error| cannot("write", &path, error))
    }
}

/// The real path of an existing directory. Checks that a cluster can be in it.
pub fn resolve(dir: &Path) -> Result<PathBuf> {
    let real = fs::canonicalize(dir).map_err(|error| cannot("open", dir, error))?;
    if !real.is_dir() {
        let message = "this is not a directory; name another with --dir";
        return Err(Error::new(ErrorKind::InvalidArgument, message).with("dir", dir.display()));
    }
    check_path(&real)?;
    Ok(real)
}

/// Rejects a directory whose path Ceph does not accept.
pub fn check_path(dir: &Path) -> Result<()> {
    let path = std::path::absolute(dir).map_err(|error| cannot("open", dir, error))?;
    let plain = |c: &u8| c.is_ascii_alphanumeric() || b"/._+@,-".contains(c);
    let text = path.as_os_str().as_encoded_bytes();
    let message = if !text.iter().all(plain) {
        "Ceph's configuration takes only letters, digits and /._+@,- in a path; use another --dir"
    } else if text.len() > DIR_BYTES_MAX {
        "the path is too long for the daemons' sockets; use a shorter --dir"
    } else {
        return Ok(());
    };
    Err(Error::new(ErrorKind::InvalidArgument, message).with("dir", path.display()))
}

/// Creates the directory if it does not exist.
pub fn make(dir: &Path) -> Result<()> {
    // The directory holds keys, so it is private.
    DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(|error| cannot("create", dir, error))
}

/// Whether a directory is empty, apart from a lock and a temporary marker.
pub fn is_unused(dir: &Path) -> Result<bool> {
    let entries = fs::read_dir(dir).map_err(|error| cannot("read", dir, error))?;
    Ok(entries.flatten().all(|entry| entry.file_name() == LOCK || entry.file_name() == NEW_MARKER))
}

/// Locks the cluster against changes by other commands, for the lifetime of the file.
pub fn lock(dir: &Path) -> Result<File> {
    let path = dir.join(LOCK);
    let file = File::options()
        .create(true)
        .append(true)
        .open(&path)
        .map_err(|error| cannot("open", &path, error))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            Err(Error::new(ErrorKind::Busy, "another command is changing this cluster; wait for it")
                .with("dir", dir.display()))
        }
        Err(TryLockError::Error(error)) => Err(cannot("lock", &path, error)),
    }
}

/// Removes the cluster's files: all of them, or all except the marker and the lock. Other files
/// stay.
pub fn clear(dir: &Path, keep_marker: bool) -> Result<()> {
    let ours = |name: &str| {
        [NEW_MARKER, "ceph.conf", "keyring", "monmap", SITES, "mon.a", "mgr.a", CLASSES, "log", RUN]
            .contains(&name)
            || name.strip_prefix("osd.").is_some_and(|number| number.parse::<u32>().is_ok())
    };
    for entry in fs::read_dir(dir).map_err(|error| cannot("read", dir, error))?.flatten() {
        if entry.file_name().to_str().is_some_and(ours) {
            remove(&entry.path())?;
        }
    }
    if !keep_marker {
        // Remove the marker last, so that an interrupted removal can be repeated.
        remove(&dir.join(LOCK))?;
        remove(&dir.join(MARKER))?;
    }
    Ok(())
}

fn remove(path: &Path) -> Result<()> {
    let is_dir = fs::symlink_metadata(path).is_ok_and(|found| found.is_dir());
    match if is_dir { fs::remove_dir_all(path) } else { fs::remove_file(path) } {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(cannot("remove", path, error)),
        _ => Ok(()),
    }
}

/// Creates the subdirectories, the links to the class libraries, and `ceph.conf`.
pub fn fill(dir: &Path, marker: &Marker) -> Result<()> {
    let osds = (0..marker.osds).map(|number| format!("osd.{number}"));
    for name in ["mon.a", "mgr.a", SITES, CLASSES, "log", RUN].map(str::to_owned).into_iter().chain(osds) {
        make(&dir.join(name))?;
    }
    link_classes(dir)?;
    let write =
        |path: &Path, text: String| fs::write(path, text).map_err(|error| cannot("write", path, error));
    let text = configuration(dir, marker);
    if let Some(sites) = &marker.sites {
        for (site, name) in sites.names.iter().enumerate() {
            let location = sites.crush_location(site);
            write(&site_conf(dir, name), format!("{text}crush_location = {location}\n"))?;
        }
    }
    write(&dir.join("ceph.conf"), text)
}

/// Creates the links to Ceph's class libraries that are missing. A newer release may have more.
pub fn link_classes(dir: &Path) -> Result<()> {
    let system = system_classes()?;
    for class in fs::read_dir(&system).map_err(|error| cannot("read", &system, error))?.flatten() {
        let link = class_dir(dir).join(class.file_name());
        match symlink(class.path(), &link) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            linked => linked.map_err(|error| cannot("create", &link, error))?,
        }
    }
    Ok(())
}

/// The path of the configuration for clients at a site: `ceph.conf` plus their CRUSH location.
pub fn site_conf(dir: &Path, site: &str) -> PathBuf {
    dir.join(SITES).join(format!("{site}.conf"))
}

/// The directory from which the OSDs load class libraries.
pub fn class_dir(dir: &Path) -> PathBuf {
    dir.join(CLASSES)
}

/// The directory of Ceph's own object classes, as the package installs them.
fn system_classes() -> Result<PathBuf> {
    let multiarch = fs::read_dir("/usr/lib").into_iter().flatten().flatten().map(|entry| entry.path());
    multiarch
        .chain(["/usr/lib".into(), "/usr/lib64".into()])
        .map(|lib| lib.join("rados-classes"))
        .find(|classes| classes.join("libcls_lock.so").exists())
        .ok_or_else(|| {
            Error::new(ErrorKind::Unavailable, "Ceph's object classes are missing; `make ceph` installs them")
        })
}

/// The text of `ceph.conf`, for all daemons and clients. It ends in the section of the clients.
fn configuration(dir: &Path, marker: &Marker) -> String {
    let Marker { fsid, osds, sites, .. } = marker;
    let (mon, size) = (marker.mon_address(), (*osds).min(3));
    let min_size = size.saturating_sub(1).max(1);
    let spread = sites.as_ref().is_some_and(Sites::spread_replicas);
    let replicas_by = if spread { TYPE_DATACENTER } else { TYPE_OSD };
    let places = places(marker);
    let dir = dir.display();
    format!(
        "# Written by benthic, for development and tests.
[global]
fsid = {fsid}
mon_host = {mon}
auth_cluster_required = cephx
auth_service_required = cephx
auth_client_required = cephx
keyring = {dir}/keyring
mon_data = {dir}/$name
mgr_data = {dir}/$name
osd_data = {dir}/$name
run_dir = {dir}/run
log_file = {dir}/log/$name.log
admin_socket = {dir}/run/$name.asok
pid_file =
crash_dir = {dir}/run

# One machine: replicas are on different OSDs (0), or on different datacenters (8) if there are enough sites. A single
# OSD may report a failed one.
osd_crush_chooseleaf_type = {replicas_by}
mon_osd_reporter_subtree_level = osd
mon_osd_min_down_reporters = 1

# Many small pools on few OSDs.
osd_pool_default_size = {size}
osd_pool_default_min_size = {min_size}
osd_pool_default_pg_num = 8
osd_pool_default_pgp_num = 8
osd_pool_default_pg_autoscale_mode = off
mon_max_pg_per_osd = 2000
mon_allow_pool_delete = true
mon_allow_pool_size_one = true
mon_warn_on_pool_no_redundancy = false
# Neither the longest configurable round trip nor a busy machine causes a warning.
mon_warn_on_slow_ping_time = 5000

# The cluster shares the disk with other programs.
mon_data_avail_warn = 2
mon_data_avail_crit = 1
bluestore_block_size = {OSD_BYTES}
osd_memory_target = 939524096

auth_allow_insecure_global_id_reclaim = false
mgr_initial_modules =
mgr_module_path = /usr/share/ceph/mgr
osd_class_dir = {dir}/classes
osd_class_load_list = *
osd_class_default_list = *

{places}
[client]
log_file =
admin_socket =
"
    )
}

/// The addresses of the daemons, and the CRUSH locations of the OSDs.
fn places(marker: &Marker) -> String {
    let Some(sites) = &marker.sites else {
        return "public_addr = 127.0.0.1\ncluster_addr = 127.0.0.1\n".to_owned();
    };
    let section = |daemon: Daemon| {
        let address = marker.address(daemon);
        let section = format!("[{daemon}]\npublic_addr = {address}\n");
        match (daemon, sites.site_of(daemon)) {
            (Daemon::Osd(_), Some(site)) => {
                let location = sites.crush_location(site);
                format!("{section}cluster_addr = {address}\ncrush_location = {location}\n")
            }
            _ => section,
        }
    };
    marker.daemons().map(section).collect()
}

/// A random UUID from the kernel.
pub fn uuid() -> Result<String> {
    let path = Path::new("/proc/sys/kernel/random/uuid");
    let text = fs::read_to_string(path).map_err(|error| cannot("read", path, error))?;
    Ok(text.trim().to_owned())
}

/// Whether a port of the loopback interface is unused.
pub fn port_is_free(port: u16) -> bool {
    TcpListener::bind(("127.0.0.1", port)).is_ok()
}

fn cannot(what: &str, path: &Path, error: std::io::Error) -> Error {
    Error::io(Action::Admin, format!("cannot {what} {}", path.display()), error)
}
