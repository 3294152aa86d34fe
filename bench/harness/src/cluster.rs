//! Ceph clusters that a benchmark starts with the `benthic` program.

use crate::Outcome;
use crate::process::{memory_mib, output, run};
use benthic_core::Store;
use benthic_program::store;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

/// A running cluster. Dropping it removes the cluster.
pub struct Cluster {
    benthic: PathBuf,
    dir: PathBuf,
}

impl Cluster {
    /// Starts a new cluster in the directory for temporary files, because the paths of sockets must
    /// be short. First it removes a cluster that a killed run left there.
    pub fn up(benthic: &Path, name: &str, args: &[&str]) -> Outcome<Cluster> {
        Cluster::up_with(benthic, name, args, &[])
    }

    /// As [`up`](Cluster::up), with variables in the environment of the daemons.
    pub fn up_with(
        benthic: &Path,
        name: &str,
        args: &[&str],
        environment: &[(&str, &str)],
    ) -> Outcome<Cluster> {
        let dir = std::env::temp_dir().join(format!("benthic-bench-{name}"));
        let cluster = Cluster { benthic: fs::canonicalize(benthic)?, dir };
        if cluster.dir.join("benthic-cluster.json").exists() {
            cluster.remove()?;
        }
        let mut up = cluster.benthic(["cluster", "up"]);
        run(up.args(args).arg("--dir").arg(&cluster.dir).envs(environment.iter().copied()))?;
        Ok(cluster)
    }

    pub fn benthic<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> Command {
        let mut command = Command::new(&self.benthic);
        command.args(args).env("BENTHIC_STORE", self.store());
        command
    }

    /// Runs `benthic --json` and parses its last line.
    pub fn json(&self, args: &[&str]) -> Outcome<Value> {
        let printed = output(self.benthic(["--json"]).args(args))?;
        let last = printed.trim_ascii().rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
        Ok(serde_json::from_slice(last)?)
    }

    /// Runs Ceph's own `ceph` program and parses its JSON.
    pub fn ceph(&self, args: &[&str]) -> Outcome<Value> {
        let printed =
            output(Command::new("ceph").arg("--conf").arg(self.conf()).args(args).args(["-f", "json"]))?;
        Ok(serde_json::from_slice(printed.trim_ascii()).unwrap_or(Value::Null))
    }

    /// Connects to the cluster, with the classes of this build.
    pub async fn connect(&self) -> Outcome<Arc<dyn Store>> {
        Ok(store::open(&self.store(), false, benthic_classes::registry()).await?.store)
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    pub fn conf(&self) -> PathBuf {
        self.dir.join("ceph.conf")
    }

    pub fn store(&self) -> String {
        format!("ceph:?conf={}", self.conf().display())
    }

    pub fn osd_mib(&self) -> Outcome<f64> {
        let status = self.json(&["cluster", "status", "--dir", &self.dir.to_string_lossy()])?;
        let mut all_mib = Vec::new();
        for daemon in status["daemons"].as_array().into_iter().flatten() {
            if daemon["name"].as_str().is_some_and(|name| name.starts_with("osd")) {
                let pid = daemon["pid"].as_u64().ok_or("an OSD does not run")?;
                all_mib.push(memory_mib(u32::try_from(pid)?, "VmRSS:")?);
            }
        }
        Ok(all_mib.iter().sum::<f64>() / all_mib.len().max(1) as f64)
    }

    fn remove(&self) -> Outcome {
        let name = self.dir.file_name().ok_or("the cluster's directory has no name")?;
        let mut down = self.benthic(["cluster", "down", "--remove", "--yes"]);
        run(down.arg(name).arg("--dir").arg(&self.dir))
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if let Err(error) = self.remove() {
            eprintln!("the cluster could not be removed: {error}");
        }
    }
}
