//! Creates a new cluster.

use super::cluster::{Cluster, Watch};
use super::daemon::Daemon;
use super::layout;
use super::tools::{self, QUESTION_LIMIT, command};
use super::wait::join;
use benthic_core::{Action, Error, Result};
use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

/// Creating an OSD writes to its disk, which can be slow.
const MKFS_LIMIT: Duration = Duration::from_secs(120);

const ADMIN: &str = "client.admin";

/// Creates keys, the monitor map and the data of all daemons. Starts each daemon as soon as its
/// data exist.
///
/// OSDs load the libraries in `classes` when they start.
pub fn create(cluster: &Cluster, classes: &[PathBuf], watch: &mut Watch<'_>) -> Result<()> {
    watch("the keys")?;
    layout::fill(&cluster.dir, &cluster.marker)?;
    cluster.install(classes)?;
    make_keys(cluster)?;
    let first = cluster.daemons().into_iter().filter(|daemon| matches!(daemon, Daemon::Wan | Daemon::Mon));
    make_monitor(cluster)?;
    cluster.start_all(&first.collect::<Vec<_>>(), watch)?;
    cluster.launch(Daemon::Mgr)?;
    thread::scope(|scope| {
        let mut threads = Vec::new();
        for number in 0..cluster.marker.osds {
            watch(&format!("the monitor to register osd.{number}"))?;
            let uuid = register(cluster, number)?;
            // This OSD formats its disk while the monitor registers the next OSD.
            threads.push(scope.spawn(move || make_osd(cluster, number, &uuid)));
        }
        for (number, thread) in threads.into_iter().enumerate() {
            watch(&format!("osd.{number} to format its disk"))?;
            join(thread)?;
        }
        Ok(())
    })
}

/// Writes one keyring for all daemons and the administrator. Ceph's own tool generates the keys,
/// and no key is ever a command-line argument.
fn make_keys(cluster: &Cluster) -> Result<()> {
    let path = cluster.dir.join("keyring");
    File::options()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path)
        .map_err(|error| Error::io(Action::Write, "cannot create the keyring", error))?;
    let mut keys = vec![
        ("mon.".to_owned(), &["mon", "allow *"][..]),
        (ADMIN.to_owned(), &["mon", "allow *", "osd", "allow *", "mgr", "allow *", "mds", "allow *"]),
        (Daemon::Mgr.to_string(), &["mon", "allow profile mgr", "osd", "allow *"]),
    ];
    let osd = &["mon", "allow profile osd", "mgr", "allow profile osd", "osd", "allow *"];
    keys.extend((0..cluster.marker.osds).map(|number| (Daemon::Osd(number).to_string(), &osd[..])));
    for (entity, caps) in keys {
        let mut command = authtool(&path);
        command.args(["--gen-key", "-n", &entity]);
        for cap in caps.chunks(2) {
            command.arg("--cap").args(cap);
        }
        tools::run(&mut command, QUESTION_LIMIT)?;
    }
    Ok(())
}

fn make_monitor(cluster: &Cluster) -> Result<()> {
    let (conf, map) = (cluster.conf(), cluster.dir.join("monmap"));
    let address = cluster.marker.mon_address();
    let mut make_map = command("monmaptool", &conf);
    make_map
        .args(["--create", "--clobber", "--fsid", &cluster.marker.fsid, "--addv", "a", &address])
        .arg(&map);
    tools::run(&mut make_map, QUESTION_LIMIT)?;
    let mut mkfs = mkfs(cluster, Daemon::Mon);
    mkfs.arg("--monmap").arg(map).arg("--keyring").arg(cluster.dir.join("keyring"));
    tools::run(&mut mkfs, MKFS_LIMIT).map(drop).map_err(|error| cluster.explain(Daemon::Mon, error))
}

/// Registers an OSD with the monitor and returns the UUID for its disk.
fn register(cluster: &Cluster, number: u32) -> Result<String> {
    let uuid = layout::uuid()?;
    let mut print = authtool(&cluster.dir.join("keyring"));
    let secret = tools::run(print.args(["-p", "-n", &format!("osd.{number}")]), QUESTION_LIMIT)?;
    let secret = format!("{{\"cephx_secret\":\"{}\"}}", secret.trim());
    let mut register = command("ceph", &cluster.conf());
    register.args(["--connect-timeout", "10", "osd", "new", &uuid, &number.to_string(), "-i", "-"]);
    cluster.run_beside(Daemon::Mon, &mut register, Some(&secret), QUESTION_LIMIT)?;
    Ok(uuid)
}

fn make_osd(cluster: &Cluster, number: u32, uuid: &str) -> Result<()> {
    let osd = Daemon::Osd(number);
    let mut mkfs = mkfs(cluster, osd);
    cluster
        .run_beside(osd, mkfs.args(["--osd-uuid", uuid]), None, MKFS_LIMIT)
        .map_err(|error| cluster.explain(osd, error))?;
    cluster.launch(osd)
}

/// The daemon's own command line plus `--mkfs`. So code that stops the daemon also stops this
/// process.
fn mkfs(cluster: &Cluster, daemon: Daemon) -> Command {
    let mut command = tools::bare(daemon.program());
    command.args(daemon.args(&cluster.conf())).arg("--mkfs");
    command
}

fn authtool(keyring: &Path) -> Command {
    let mut command = tools::bare("ceph-authtool");
    command.arg(keyring);
    command
}
