//! A cluster of this benchmark's own, by the `benthic` program.

use crate::servers::run;
use crate::{Outcome, Setting};
use std::path::PathBuf;
use std::process::Command;

/// A running cluster, removed when it is dropped.
pub struct Cluster {
    benthic: PathBuf,
    dir: PathBuf,
}

impl Cluster {
    /// Starts a new one in the directory for temporary files, where paths are short enough for sockets. What a killed run
    /// left there goes first.
    pub fn up(setting: &Setting) -> Outcome<Cluster> {
        let dir = std::env::temp_dir().join("benthic-bench-s3");
        let cluster = Cluster { benthic: setting.benthic_s3.with_file_name("benthic"), dir };
        if cluster.dir.join("benthic-cluster.json").exists() {
            cluster.remove()?;
        }
        run(Command::new(&cluster.benthic)
            .args(["cluster", "up", "--osds", "3", "--dir"])
            .arg(&cluster.dir))?;
        Ok(cluster)
    }

    /// The configuration for clients.
    pub fn conf(&self) -> PathBuf {
        self.dir.join("ceph.conf")
    }

    /// Its address.
    pub fn store(&self) -> String {
        format!("ceph:?conf={}", self.conf().display())
    }

    fn remove(&self) -> Outcome {
        run(Command::new(&self.benthic).args(["cluster", "down", "--remove", "--dir"]).arg(&self.dir))
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if let Err(error) = self.remove() {
            eprintln!("the cluster could not be removed: {error}");
        }
    }
}
