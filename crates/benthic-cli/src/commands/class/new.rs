//! `benthic class new`: creates a project for a class from templates: a WebAssembly module
//! (`--lang`), or a native library.

use super::language::Language;
use benthic_class_names::{CEPH_CLASSES, is_library_name};
use benthic_core::{Error, Result};
use benthic_program::exit::Outcome;
use benthic_program::local::failed;
use benthic_program::session::Session;
use benthic_program::store::blocking;
use clap::Args;
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};

/// The source tree that this program was built from. A new class depends on crates in it.
const BUILT_FROM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The files of a new project: their paths and templates. `{name}`, `{tree}` and `{build}` are
/// replaced.
/// Templates use the name only in strings, paths and comments: as an identifier it could clash with
/// the code or be a Rust keyword.
const FILES: [(&str, &str); 6] = [
    ("Cargo.toml", include_str!("template/manifest.toml")),
    ("Makefile", include_str!("template/Makefile")),
    ("README.md", include_str!("template/README.md")),
    (".gitignore", include_str!("template/gitignore")),
    ("src/lib.rs", include_str!("template/lib.rs")),
    ("src/tests.rs", include_str!("template/tests.rs")),
];

/// The file that makes cargo reuse the crates that Benthic's build has compiled.
const CARGO_CONFIG: (&str, &str) = (".cargo/config.toml", include_str!("template/config.toml"));

const MODULE_FILES: [(&str, &str); 4] = [
    ("class.json", include_str!("module/class.json")),
    ("cases.json", include_str!("module/cases.json")),
    ("README.md", include_str!("module/README.md")),
    (".gitignore", include_str!("module/gitignore")),
];

#[derive(Args)]
#[command(
    after_help = "With --lang, the class is a WebAssembly module: users deploy it to a pool, and a faulty one fails its own call only. \
    Without --lang, it is a native library in Rust, which an administrator installs on every OSD's host.\n\n\
    A native project has a class with a method that reads and one that writes, and tests that run it in \
    memory, without Ceph. `make` in it builds the library for `benthic class install`.\n\n\
    Examples:\n  benthic class new wordcount --lang rust && benthic class build wordcount\n  \
    benthic class new mydigest && cd mydigest && make && benthic class install --cluster ../benthic-cluster"
)]
pub struct NewArgs {
    /// Name of the class and of the new directory: lower-case letters, digits and _
    name: String,
    /// The language of a WebAssembly module
    #[arg(long, value_name = "LANGUAGE", conflicts_with = "benthic")]
    lang: Option<Language>,
    /// Benthic's source tree [default: the one that this program was built from]
    #[arg(long, value_name = "DIR")]
    benthic: Option<PathBuf>,
}

pub async fn run(args: NewArgs, session: &Session) -> Outcome {
    check_name(&args.name)?;
    let name = args.name.clone();
    if let Some(language) = args.lang {
        let dir = blocking(move || create_module(&args.name, language)).await?;
        let (code, _) = language.files()[0];
        return session.out.result(
            format_args!(
                "created {name}: the code is in {name}/{code}, its description in {name}/class.json\n\
                 next: benthic class build {name}"
            ),
            || json!({ "class": name, "dir": dir }),
        );
    }
    let dir = blocking(move || create_project(&args.name, args.benthic.as_deref())).await?;
    session.out.result(
        format_args!(
            "created {name}: the code is in {name}/src/lib.rs\nnext: cd {name}; `make test` tests it, `make` builds it, \
             `benthic class install` installs it in OSDs"
        ),
        || json!({ "class": name, "dir": dir }),
    )
}

fn check_name(name: &str) -> Result<()> {
    let invalid = |message: &str| Err(Error::invalid_argument(message).with("class", name));
    if !name.starts_with(|first: char| first.is_ascii_lowercase()) {
        return invalid("the name of a class begins with a lower-case letter");
    }
    if CEPH_CLASSES.contains(&name) {
        return invalid("Ceph has a class of this name; choose another");
    }
    if name == "benthic" || benthic_classes::registry().describe().iter().any(|class| class.name == name) {
        return invalid("Benthic has a class of this name; choose another");
    }
    let version = name.rsplit_once('_').map_or("", |(_, version)| version);
    if !version.is_empty() && version.bytes().all(|byte| byte.is_ascii_digit()) {
        return invalid("a number at the end is the version of a library; leave it out here");
    }
    if !is_library_name(&format!("{name}_1")) {
        return invalid("the name of a class has at most 62 lower-case letters, digits and _");
    }
    Ok(())
}

fn create_project(name: &str, tree: Option<&Path>) -> Result<PathBuf> {
    let tree = find_tree(tree)?;
    let dir = empty_dir(name)?;
    let build_dir = shared_build_dir(&tree);
    for (file, template) in FILES.into_iter().chain(build_dir.is_some().then_some(CARGO_CONFIG)) {
        let text = template
            .replace("{name}", name)
            .replace("{tree}", &tree.display().to_string())
            .replace("{build}", build_dir.as_deref().unwrap_or_default());
        write_file(&dir.join(file), &text)?;
    }
    // Use the same versions of the same crates, which this machine already has.
    let lock = dir.join("Cargo.lock");
    fs::copy(tree.join("Cargo.lock"), &lock).map_err(failed("cannot write the file", &lock))?;
    Ok(std::path::absolute(&dir).unwrap_or(dir))
}

fn create_module(name: &str, language: Language) -> Result<PathBuf> {
    let dir = empty_dir(name)?;
    for (file, template) in MODULE_FILES.iter().chain(language.files()) {
        write_file(&dir.join(file), &template.replace("{name}", name))?;
    }
    Ok(std::path::absolute(&dir).unwrap_or(dir))
}

fn write_file(path: &Path, text: &str) -> Result<()> {
    let parent = path.parent().unwrap_or(path);
    fs::create_dir_all(parent).map_err(failed("cannot create the directory", parent))?;
    fs::write(path, text).map_err(failed("cannot write the file", path))
}

/// The directory of a new project, which is missing or empty.
fn empty_dir(name: &str) -> Result<PathBuf> {
    let dir = PathBuf::from(name);
    match fs::read_dir(&dir).map(|mut entries| entries.next().is_none()) {
        Ok(true) => Ok(dir),
        Ok(false) => {
            let message = "the directory exists and is not empty; choose another name";
            Err(Error::already_exists(message).with("path", dir.display()))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(dir),
        Err(error) => Err(failed("cannot read the directory", &dir)(error)),
    }
}

/// The directory in which cargo built this program, or else the source tree. `None` if the user may
/// not write there; the project then compiles everything itself.
fn shared_build_dir(tree: &Path) -> Option<String> {
    let program = std::env::current_exe().ok()?;
    let built_here = program.ancestors().nth(2).filter(|dir| dir.join("CACHEDIR.TAG").exists());
    let dir = built_here.map_or_else(|| tree.join("target"), Path::to_owned);
    fs::create_dir_all(&dir).ok()?;
    tempfile::tempfile_in(&dir).ok()?;
    dir.to_str().filter(|path| !path.contains(['"', '\\'])).map(ToOwned::to_owned)
}

fn find_tree(given: Option<&Path>) -> Result<PathBuf> {
    let tree = given.unwrap_or(Path::new(BUILT_FROM));
    let found =
        fs::canonicalize(tree).ok().filter(|tree| tree.join("crates/benthic-cls/Cargo.toml").exists());
    let message = match (found, given) {
        (Some(tree), _) if tree.to_str().is_some_and(|path| !path.contains(['"', '\\'])) => return Ok(tree),
        (Some(_), _) => {
            "a manifest cannot hold this path; move Benthic's source tree to a path without quotes and backslashes"
        }
        (None, Some(_)) => "this is not Benthic's source tree",
        (None, None) => {
            "the source tree that this program was built from is gone; name one with --benthic DIR"
        }
    };
    Err(Error::invalid_argument(message).with("tree", tree.display()))
}

#[cfg(test)]
#[path = "new_tests.rs"]
mod tests;
