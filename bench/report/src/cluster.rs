//! A Ceph cluster of a benchmark's own, by the `benthic` program.

use crate::Outcome;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

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
        run(cluster.benthic(["cluster", "up"]).args(args).arg("--dir").arg(&cluster.dir))?;
        Ok(cluster)
    }

    /// A call of the program, on this cluster.
    pub fn benthic<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> Command {
        let mut command = Command::new(&self.benthic);
        command.args(args).env("BENTHIC_STORE", self.store());
        command
    }

    /// Its directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The configuration for clients.
    pub fn conf(&self) -> PathBuf {
        self.dir.join("ceph.conf")
    }

    /// Its address.
    pub fn store(&self) -> String {
        format!("ceph:?conf={}", self.conf().display())
    }

    /// Resident memory of its OSDs, on average.
    pub fn osd_mib(&self) -> Outcome<f64> {
        let output = self.benthic(["--json", "cluster", "status", "--dir"]).arg(&self.dir).output()?;
        let status: serde_json::Value = serde_json::from_slice(&output.stdout)?;
        let mut all_mib = Vec::new();
        for daemon in status["daemons"].as_array().into_iter().flatten() {
            if daemon["name"].as_str().is_some_and(|name| name.starts_with("osd")) {
                let process = fs::read_to_string(format!("/proc/{}/status", daemon["pid"]))?;
                let resident = process.lines().find_map(|line| line.strip_prefix("VmRSS:"));
                let kib = resident.and_then(|text| text.trim().trim_end_matches(" kB").parse::<f64>().ok());
                all_mib.push(kib.ok_or("an OSD has no resident memory")? / 1024.0);
            }
        }
        Ok(all_mib.iter().sum::<f64>() / all_mib.len().max(1) as f64)
    }

    fn remove(&self) -> Outcome {
        run(self.benthic(["cluster", "down", "--remove", "--dir"]).arg(&self.dir))
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if let Err(error) = self.remove() {
            eprintln!("the cluster could not be removed: {error}");
        }
    }
}

/// Runs a program to its end; what it prints goes to this program's standard error.
pub fn run(command: &mut Command) -> Outcome {
    let status = command.stdin(Stdio::null()).stdout(std::io::stderr()).status()?;
    if status.success() { Ok(()) } else { Err(format!("{command:?} failed: {status}").into()) }
}
