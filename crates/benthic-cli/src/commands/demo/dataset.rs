//! The files of the demo: a directory of the user, or generated files together with those of a
//! clone. All functions block.

use crate::commands::cp::plan::{Plan, Target, below};
use benthic_core::{Error, Result};
use benthic_program::noise::Noise;
use benthic_program::{interrupt, local, units};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;
/// Largest generated file.
const GENERATED_BYTES_MAX: u64 = 64 * MIB;
/// Directories that builds, tools or a running cluster create. They do not belong to a clone.
const EXCLUDED_FROM_CLONE: [&str; 4] = [".git", ".venv", "target", "benthic-cluster"];
/// Block sizes of storage systems, where mistakes are likely. Each gets a file just below, at and
/// just above it.
const EDGES: [u64; 4] = [4 * KIB, 64 * KIB, MIB, 8 * MIB];
/// Special sizes: empty, one byte, odd numbers.
const ODD_SIZES: [u64; 6] = [0, 0, 1, 7, 333, 100_003];
const UNICODE_NAMES: [&str; 6] =
    ["Größe.txt", "日本語.dat", "emoji 🐟.bin", "e\u{301} decomposed", "space and 'quotes'", "back\\slash"];

/// Files, and the objects to store them in.
pub struct Dataset {
    pub plan: Plan,
    pub description: String,
    /// The directory of the generated files. Dropping it removes them.
    _generated: Option<TempDir>,
}

impl Dataset {
    /// All files below a directory, except the store if it is inside.
    pub fn of_directory(directory: &Path, store: Option<&Path>) -> Result<Dataset> {
        let plan = plan(&[("", directory)], &[], store);
        Dataset::new(plan, units::one_line_path(directory), None)
    }

    /// Generated files of about `total_bytes`, and the files of the clone that contains the current
    /// directory.
    pub fn generate(total_bytes: u64, store: Option<&Path>) -> Result<Dataset> {
        let temporary = std::env::temp_dir();
        let generated = tempfile::Builder::new().prefix("benthic-demo-").tempdir_in(&temporary);
        let generated =
            generated.map_err(local::failed("cannot create a directory for the files", &temporary))?;
        for (name, size_bytes) in generated_files(total_bytes) {
            if interrupt::is_set() {
                return Err(Error::unavailable("interrupted"));
            }
            let path = generated.path().join(&name);
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent).map_err(local::failed("cannot create the directory", parent))?;
            }
            let seed = name.bytes().fold(size_bytes, |seed, byte| seed.wrapping_mul(31) + u64::from(byte));
            let content = Noise::new(seed).bytes(usize::try_from(size_bytes).unwrap_or(usize::MAX));
            fs::write(&path, content).map_err(local::failed("cannot write the file", &path))?;
        }
        let clone = clone_root();
        let mut roots = vec![("generated/", generated.path())];
        let mut description = "generated files".to_owned();
        if let Some(clone) = &clone {
            roots.push(("clone/", clone));
            description =
                format!("generated files and those of the clone in {}", units::one_line_path(clone));
        }
        let plan = plan(&roots, &EXCLUDED_FROM_CLONE, store);
        Dataset::new(plan, description, Some(generated))
    }

    /// The paths that are skipped or refused, with the reason.
    pub fn skipped_and_refused(&self) -> Vec<String> {
        let refused = self.plan.refused.iter().map(|(path, error)| format!("skipped {path}: {error}"));
        let skipped = self.plan.skipped.iter().map(ToString::to_string);
        skipped.chain(refused).map(|text| units::no_control(&text)).collect()
    }

    fn new(plan: Plan, description: String, generated: Option<TempDir>) -> Result<Dataset> {
        if plan.uploads.is_empty() {
            let error = Error::not_found("there are no files to copy");
            return Err(error.with("data", description));
        }
        Ok(Dataset { plan, description, _generated: generated })
    }
}

fn plan(roots: &[(&str, &Path)], excluded: &[&str], store: Option<&Path>) -> Plan {
    let mut plan = Plan::default();
    for (prefix, root) in roots {
        plan.exclude(excluded.iter().map(|name| root.join(name)));
        plan.exclude(store.and_then(|store| below(store, root)).map(|inner| root.join(inner)));
        let target = Target { pool: String::new(), namespace: String::new(), prefix: (*prefix).to_owned() };
        plan.add_directory(root, &target);
    }
    plan
}

fn clone_root() -> Option<PathBuf> {
    let here = std::env::current_dir().ok()?;
    here.ancestors().find(|directory| directory.join(".git").exists()).map(Path::to_owned)
}

/// The names and sizes of the generated files: the special sizes first, then half of the remaining
/// bytes in large files, a quarter in medium and a quarter in small ones.
fn generated_files(total_bytes: u64) -> Vec<(String, u64)> {
    let edges = EDGES.iter().flat_map(|edge| [edge - 1, *edge, edge + 1]);
    let special = ODD_SIZES.into_iter().chain(edges).filter(|size_bytes| *size_bytes <= total_bytes / 8);
    let mut files: Vec<(String, u64)> =
        special.enumerate().map(|(index, size)| (format!("edges/{index:02}-{size}"), size)).collect();
    files.extend((0..).zip(UNICODE_NAMES).map(|(index, name)| (format!("names/{name}"), 100 * index)));
    let largest = GENERATED_BYTES_MAX.min(total_bytes / 8).max(1);
    if largest == GENERATED_BYTES_MAX {
        files.push(("large/64MiB".to_owned(), GENERATED_BYTES_MAX));
    }
    let mut noise = Noise::new(total_bytes);
    let mut left_bytes = total_bytes.saturating_sub(files.iter().map(|(_, size_bytes)| size_bytes).sum());
    for (kind, share, bytes_max) in
        [("large", 2, largest), ("middle", 2, largest.min(4 * MIB)), ("small", 1, largest.min(64 * KIB))]
    {
        let mut share_bytes = left_bytes / share;
        left_bytes -= share_bytes;
        for index in 0.. {
            if share_bytes == 0 {
                break;
            }
            let size_bytes = (1 + noise.below(bytes_max)).min(share_bytes);
            files.push((format!("{kind}/{:02}/{index:05}", index % 16), size_bytes));
            share_bytes -= size_bytes;
        }
    }
    files
}

#[cfg(test)]
#[path = "dataset_tests.rs"]
mod tests;
