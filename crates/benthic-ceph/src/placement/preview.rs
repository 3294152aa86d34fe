//! Predicts the placement of a CRUSH map with Ceph's own `crushtool` and `osdmaptool`, on copies of
//! the maps in a temporary directory.

use super::crush::CrushMap;
use crate::cluster_client::ClusterClient;
use crate::cluster_state::Pool;
use crate::local::tools;
use benthic_core::{Action, Error, ErrorKind, Result};
use serde_json::json;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;

pub(super) const PROGRAMS: [(&str, &str); 2] = [("crushtool", "ceph-base"), ("osdmaptool", "ceph-base")];
/// Time limit of a tool. A map of a thousand OSDs takes a few seconds.
const LIMIT: Duration = Duration::from_secs(120);

/// The OSDs of each placement group, the primary first.
pub type Mappings = BTreeMap<String, Vec<i32>>;

/// The OSDs that a rule chooses for each input, the primary first.
pub type Mapping = Vec<Vec<i32>>;

/// Copies of a cluster's OSD map and CRUSH map.
#[derive(Debug)]
pub struct Preview {
    dir: TempDir,
    files: u32,
}

impl Preview {
    /// Copies the cluster's present maps.
    ///
    /// # Errors
    /// As [`ClusterClient::ask_monitors`]; `Unavailable` if Ceph's tools are not installed.
    pub async fn read(client: &dyn ClusterClient) -> Result<Preview> {
        tools::require_helpers(&PROGRAMS, "benthic needs Ceph's own tools to compute the effect of a rule")?;
        let osdmap = client.ask_monitors(json!({ "prefix": "osd getmap" })).await?;
        let crush = client.ask_monitors(json!({ "prefix": "osd getcrushmap" })).await?;
        Preview::new(&osdmap, &crush)
    }

    pub(super) fn new(osdmap: &[u8], crush: &[u8]) -> Result<Preview> {
        let dir = TempDir::new().map_err(|error| cannot("create a directory", Path::new("TMPDIR"), error))?;
        let preview = Preview { dir, files: 0 };
        write(&preview.osdmap(), osdmap)?;
        write(&preview.crush(), crush)?;
        Ok(preview)
    }

    /// The cluster's CRUSH map as text. The text rounds weights: see [`super::text`].
    ///
    /// # Errors
    /// `Unavailable` if the tool fails.
    pub fn text(&self) -> Result<String> {
        tools::run(tools::bare("crushtool").arg("-d").arg(self.crush()), LIMIT)
    }

    /// Compiles the text of a CRUSH map.
    ///
    /// # Errors
    /// As [`text`](Preview::text).
    pub fn compile(&self, text: &str) -> Result<Vec<u8>> {
        let compiled = compile(self.dir.path(), text)?;
        fs::read(&compiled).map_err(|error| cannot("read", &compiled, error))
    }

    /// The content of a compiled CRUSH map.
    ///
    /// # Errors
    /// As [`text`](Preview::text).
    pub fn dump(&mut self, compiled: &[u8]) -> Result<CrushMap> {
        let file = self.file("crush");
        write(&file, compiled)?;
        let dump = tools::run(tools::bare("crushtool").arg("-i").arg(&file).arg("--dump"), LIMIT)?;
        CrushMap::parse(dump.as_bytes())
    }

    /// The placement of all placement groups by the cluster's CRUSH map, or by the map `instead`.
    ///
    /// # Errors
    /// As [`text`](Preview::text).
    pub fn mappings(&mut self, instead: Option<&[u8]>) -> Result<Mappings> {
        let map = self.file("osdmap");
        fs::copy(self.osdmap(), &map).map_err(|error| cannot("copy", &map, error))?;
        if let Some(compiled) = instead {
            let crush = self.file("crush");
            write(&crush, compiled)?;
            tools::run(tools::bare("osdmaptool").arg(&map).arg("--import-crush").arg(&crush), LIMIT)?;
        }
        let dump = tools::run(tools::bare("osdmaptool").arg(&map).arg("--test-map-pgs-dump"), LIMIT)?;
        Ok(parse_mappings(&dump))
    }

    /// The OSDs that a rule of the cluster's map chooses for the inputs from 0 up to, but not
    /// including, `inputs`. `weights` lists the OSDs whose reweight differs from 1.
    ///
    /// # Errors
    /// As [`text`](Preview::text).
    pub fn try_rule(
        &self,
        rule: i64,
        replicas: usize,
        inputs: u32,
        weights: &[(i32, f64)],
    ) -> Result<Mapping> {
        map_inputs(&self.crush(), rule, replicas, inputs, None, weights)
    }

    /// The OSDs that the rule of a pool chooses in a compiled map, for each placement group of the
    /// pool. `weights` as in [`try_rule`](Preview::try_rule).
    ///
    /// # Errors
    /// As [`text`](Preview::text).
    pub(super) fn try_compiled(
        &mut self,
        compiled: &[u8],
        pool: &Pool,
        replicas: usize,
        weights: &[(i32, f64)],
    ) -> Result<Mapping> {
        let file = self.file("crush");
        write(&file, compiled)?;
        let id = u32::try_from(pool.id).ok();
        map_inputs(&file, pool.crush_rule, replicas, pool.pg_num, id, weights)
    }

    fn osdmap(&self) -> PathBuf {
        self.dir.path().join("osdmap")
    }

    fn crush(&self) -> PathBuf {
        self.dir.path().join("crush")
    }

    fn file(&mut self, kind: &str) -> PathBuf {
        self.files += 1;
        self.dir.path().join(format!("{}.{kind}", self.files))
    }
}

/// Compiles the text of a CRUSH map into a file in the directory.
pub(super) fn compile(dir: &Path, text: &str) -> Result<PathBuf> {
    let (source, compiled) = (dir.join("compiled.txt"), dir.join("compiled.crush"));
    write(&source, text.as_bytes())?;
    tools::run(tools::bare("crushtool").arg("-c").arg(&source).arg("-o").arg(&compiled), LIMIT)?;
    Ok(compiled)
}

/// The OSDs that a rule of a map chooses for the inputs from 0 up to, but not including, `inputs`.
/// With a `pool`, the inputs stand for its placement groups. `weights` lists the OSDs whose
/// reweight differs from 1.
pub(super) fn map_inputs(
    crush: &Path,
    rule: i64,
    replicas: usize,
    inputs: u32,
    pool: Option<u32>,
    weights: &[(i32, f64)],
) -> Result<Mapping> {
    let mut command: Command = tools::bare("crushtool");
    command.arg("-i").arg(crush).args(["--test", "--show-mappings", "--min-x", "0", "--max-x"]);
    command.arg((inputs.saturating_sub(1)).to_string()).arg("--rule").arg(rule.to_string());
    command.arg("--num-rep").arg(replicas.to_string());
    if let Some(pool) = pool {
        command.arg("--pool-id").arg(pool.to_string());
    }
    for (osd, weight) in weights {
        command.arg("--weight").arg(osd.to_string()).arg(weight.to_string());
    }
    let shown = tools::run(&mut command, LIMIT)?;
    Ok(shown.lines().filter(|line| line.starts_with("CRUSH rule")).filter_map(osds).collect())
}

/// Parses the output of osdmaptool, tab-separated lines such as `1.2f [3,1,2] 3`. The tool prints
/// some lines more than once.
fn parse_mappings(dump: &str) -> Mappings {
    let pg = |line: &str| {
        let (pgid, rest) = line.split_once('\t')?;
        let (pool, seed) = pgid.split_once('.')?;
        let is_pg = pool.parse::<i64>().is_ok() && u32::from_str_radix(seed, 16).is_ok();
        is_pg.then_some((pgid.to_owned(), osds(rest)?))
    };
    dump.lines().filter_map(pg).collect()
}

/// The numbers in the last pair of brackets of a line.
fn osds(line: &str) -> Option<Vec<i32>> {
    let (_, inside) = line.rsplit_once('[')?;
    let (inside, _) = inside.split_once(']')?;
    inside.split(',').filter(|number| !number.is_empty()).map(|number| number.trim().parse().ok()).collect()
}

fn write(file: &Path, content: &[u8]) -> Result<()> {
    fs::write(file, content).map_err(|error| cannot("write", file, error))
}

fn cannot(what: &str, file: &Path, error: std::io::Error) -> Error {
    Error::io(Action::Admin, format!("cannot {what}"), error)
        .with_kind(ErrorKind::Unavailable)
        .with("file", file.display())
}

#[cfg(test)]
#[path = "preview_tests.rs"]
mod tests;
