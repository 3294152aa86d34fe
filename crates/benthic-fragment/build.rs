//! Names the build by the code that decides how a plan is encoded: this crate's code, that of
//! indexes, and the versions of all that it uses.

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::PathBuf;

fn main() {
    let mut files =
        vec![PathBuf::from("../../Cargo.lock"), PathBuf::from("src"), PathBuf::from("../benthic-index/src")];
    files.iter().for_each(|file| println!("cargo::rerun-if-changed={}", file.display()));
    let mut hash = DefaultHasher::new();
    while let Some(file) = files.pop() {
        if let Ok(entries) = fs::read_dir(&file) {
            let mut entries: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
            entries.sort();
            files.append(&mut entries);
        } else if let Ok(content) = fs::read(&file) {
            content.hash(&mut hash);
        }
    }
    println!("cargo::rustc-env=BENTHIC_FRAGMENT_SOURCES={:016x}", hash.finish());
}
