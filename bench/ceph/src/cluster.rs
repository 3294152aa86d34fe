//! A cluster of this benchmark's own, by the `benthic` program.

use crate::Outcome;
use benthic_core::{Pool, Store};
use benthic_rados::{Options, RadosStore};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

/// A running cluster, removed when it is dropped.
pub struct Cluster {
    benthic: PathBuf,
    dir: PathBuf,
}

impl Cluster {
    /// Starts a new one in the directory for temporary files, where paths are short enough for sockets. What a killed run
    /// left there goes first.
    pub fn up(benthic: &Path, name: &str, args: &[&str]) -> Outcome<Cluster> {
        let dir = std::env::temp_dir().join(format!("benthic-bench-{name}"));
        let cluster = Cluster { benthic: fs::canonicalize(benthic)?, dir };
        if cluster.dir.join("benthic-cluster.json").exists() {
            cluster.remove()?;
        }
        let mut up = cluster.benthic(["cluster", "up"]);
        run(up.args(args).arg("--dir").arg(&cluster.dir))?;
        Ok(cluster)
    }

    /// A call of the program, on this cluster.
    pub fn benthic<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> Command {
        let mut command = Command::new(&self.benthic);
        command.args(args).env("BENTHIC_STORE", format!("ceph:?conf={}", self.conf().display()));
        command
    }

    /// The configuration for clients.
    pub fn conf(&self) -> PathBuf {
        self.dir.join("ceph.conf")
    }

    /// Puts a class where the OSDs look for it when it is first called.
    pub fn install(&self, library: &Path) -> Outcome {
        run(self.benthic(["class", "install"]).arg(library).arg("--cluster").arg(&self.dir))
    }

    /// Connects with the classes that this build knows.
    pub async fn connect(&self) -> Outcome<Arc<RadosStore>> {
        let options = Options { classes: benthic_classes::registry(), ..Options::default() };
        let conf = self.conf();
        Ok(tokio::task::spawn_blocking(move || RadosStore::connect(Some(&conf), None, options)).await??)
    }

    fn remove(&self) -> Outcome {
        run(self.benthic(["cluster", "down", "--remove"]).arg("--dir").arg(&self.dir))
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if let Err(error) = self.remove() {
            eprintln!("the cluster could not be removed: {error}");
        }
    }
}

/// A new pool.
pub async fn new_pool(store: &dyn Store, name: &str) -> Outcome<Arc<dyn Pool>> {
    store.create_pool(name).await?;
    Ok(store.open_pool(name).await?)
}

/// Runs a program to its end; what it prints goes to this program's standard error.
fn run(command: &mut Command) -> Outcome {
    let status = command.stdin(Stdio::null()).stdout(std::io::stderr()).status()?;
    if status.success() { Ok(()) } else { Err(format!("{command:?} failed: {status}").into()) }
}
