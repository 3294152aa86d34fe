//! The languages of WebAssembly modules: the files of a new project, and how to recognize a
//! project.

use benthic_core::{Error, Result};
use benthic_program::local::failed;
use std::fs;
use std::path::{Path, PathBuf};

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Language {
    Rust,
    C,
    Cpp,
    Zig,
    #[value(name = "assemblyscript")]
    AssemblyScript,
    Go,
}

/// The files by which a project of a language is recognized. C and C++ are recognized by their
/// endings.
const PROJECTS: [(&str, Language); 4] = [
    ("Cargo.toml", Language::Rust),
    ("main.zig", Language::Zig),
    ("main.ts", Language::AssemblyScript),
    ("go.mod", Language::Go),
];
const CPP_ENDINGS: [&str; 3] = ["cpp", "cc", "cxx"];

impl Language {
    /// The files of a new project, the code first.
    pub fn files(self) -> &'static [(&'static str, &'static str)] {
        const HEADER: (&str, &str) = ("benthic.h", benthic_wasm::GUEST_C);
        match self {
            Language::Rust => &[
                ("src/lib.rs", include_str!("module/lib.rs")),
                ("src/benthic.rs", benthic_wasm::GUEST_RUST),
                // It replaces the description for all languages, because it has a method more.
                ("class.json", include_str!("module/rust.json")),
                ("Cargo.toml", include_str!("module/Cargo.toml")),
                (".cargo/config.toml", include_str!("module/config.toml")),
            ],
            Language::C => &[("main.c", include_str!("module/main.c")), HEADER],
            Language::Cpp => &[("main.cpp", include_str!("module/main.cpp")), HEADER],
            Language::Zig => {
                &[("main.zig", include_str!("module/main.zig")), ("benthic.zig", benthic_wasm::GUEST_ZIG)]
            }
            Language::AssemblyScript => &[
                ("main.ts", include_str!("module/main.ts")),
                ("benthic.ts", benthic_wasm::GUEST_ASSEMBLYSCRIPT),
            ],
            Language::Go => &[
                ("main.go", include_str!("module/main.go")),
                ("benthic.go", benthic_wasm::GUEST_GO),
                ("go.mod", include_str!("module/go.mod")),
            ],
        }
    }

    /// The language of the project in a directory.
    ///
    /// # Errors
    /// `NotFound` if there is none.
    pub fn of_project(dir: &Path) -> Result<Language> {
        if let Some((_, language)) = PROJECTS.iter().find(|(file, _)| dir.join(file).exists()) {
            return Ok(*language);
        }
        let sources = c_sources(dir)?;
        if sources.is_empty() {
            let message = "there is no project in a known language here; `benthic class new NAME --lang rust` creates one";
            return Err(Error::not_found(message).with("dir", dir.display()));
        }
        Ok(if sources.iter().any(|source| is_cpp(source)) { Language::Cpp } else { Language::C })
    }
}

/// The source files in C and C++, relative to the directory.
pub fn c_sources(dir: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(dir).map_err(failed("cannot read the directory", dir))?;
    let paths = entries.flatten().map(|entry| PathBuf::from(entry.file_name()));
    let mut sources: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|end| end == "c") || is_cpp(path)).collect();
    sources.sort();
    Ok(sources)
}

fn is_cpp(path: &Path) -> bool {
    path.extension().is_some_and(|end| CPP_ENDINGS.iter().any(|cpp| end == *cpp))
}
