//! The project's own rules, as tests: who may use whom, how large a file gets, what does not belong in one.

use crate::project::{Dependency, File, Package, files, packages};

const SOURCE_LINES_MAX: usize = 800;

/// Which crates of ours a crate may use.
enum Uses {
    Only(&'static [&'static str]),
    /// All but the test kit.
    Anything,
}

/// The table of crates. A name that ends in `*` stands for all that start so.
const CRATES: [(&str, Uses); 16] = [
    ("benthic-core", Uses::Only(&[])),
    ("benthic-embedded", Uses::Only(&["benthic-core"])),
    ("benthic-class-names", Uses::Only(&[])),
    ("benthic-rados", Uses::Only(&["benthic-core", "benthic-class-names"])),
    ("benthic-classes", Uses::Only(&["benthic-core"])),
    ("benthic-index", Uses::Only(&["benthic-core"])),
    ("benthic-fragment", Uses::Only(&["benthic-core", "benthic-index"])),
    ("benthic-table", Uses::Only(&["benthic-core", "benthic-fragment", "benthic-index"])),
    (
        "benthic-cls*",
        Uses::Only(&[
            "benthic-core",
            "benthic-class-names",
            "benthic-classes",
            "benthic-fragment",
            "benthic-cls",
        ]),
    ),
    // The program takes what the programs share; the library names no engine.
    ("benthic-s3", Uses::Only(&["benthic-core", "benthic-classes", "benthic-cli"])),
    ("benthic-block", Uses::Only(&["benthic-core", "benthic-classes"])),
    ("benthic-ceph", Uses::Only(&["benthic-core", "benthic-class-names", "benthic-rados"])),
    ("benthic-testkit", Uses::Only(&["benthic-core"])),
    ("benthic-cli", Uses::Anything),
    ("benthic-sql", Uses::Anything),
    ("benthic-python", Uses::Anything),
];

/// What tests may use besides.
const TESTS_USE: [&str; 5] =
    ["benthic-testkit", "benthic-classes", "benthic-embedded", "benthic-ceph", "benthic-rados"];

/// Dependencies that a crate must not have outside its tests, by the start of their names.
const FORBIDDEN: [(&str, &[&str]); 2] =
    [("benthic-core", &["tokio", "arrow", "librados", "rados"]), ("benthic-embedded", &["tokio"])];

/// Where `unsafe` may be, by the start of the path.
const UNSAFE_MAY_BE_IN: [&str; 2] = ["crates/benthic-rados/", "crates/benthic-cls"];

/// What the root holds.
const ROOT: [&str; 20] = [
    ".ci",
    ".gitignore",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE",
    "Makefile",
    "README.md",
    "bench",
    "clippy.toml",
    "crates",
    "deny.toml",
    "docs",
    "examples",
    "fuzz",
    "pyproject.toml",
    "python",
    "rustfmt.toml",
];

#[test]
fn crates_use_only_what_the_table_allows() {
    check("the table of crates does not allow it", packages().iter().flat_map(edges));
}

#[test]
fn core_and_engine_stay_light() {
    check("a crate must do without it", packages().iter().flat_map(heavy_dependencies));
}

#[test]
fn every_crate_takes_the_lints_of_the_workspace() {
    let packages = packages();
    let manifests =
        files().into_iter().filter(|file| packages.iter().any(|package| package.manifest == file.path));
    check("write `[lints]` and `workspace = true`", manifests.flat_map(|file| missing_lints(&file)));
}

#[test]
fn unsafe_code_is_allowed_only_where_it_must_be() {
    check_files("unsafe code is forbidden here", unsafe_code);
}

#[test]
fn imports_name_what_they_import() {
    check_files("no glob imports", glob_imports);
}

#[test]
fn every_crate_says_what_it_is_for() {
    check_files("a crate's root starts with `//!`", missing_crate_docs);
}

#[test]
fn source_files_stay_short() {
    check_files("split the file", long_files);
}

#[test]
fn the_root_stays_small() {
    check_files("this does not belong in the root", strangers_in_the_root);
}

#[test]
fn lines_have_no_tabs_and_no_blanks_at_the_end() {
    check_files("blanks", stray_blanks);
}

#[test]
fn nothing_is_unfinished_or_of_one_machine() {
    check_files("finish it, or make it run anywhere", leftovers);
}

/// Every rule once on something that breaks it: a rule that finds nothing anywhere proves nothing.
#[test]
fn the_rules_find_what_breaks_them() {
    let file = |path: &str, text: &str| File { path: path.to_owned(), text: text.to_owned() };
    let package = |name: &str, dependency: &str, dev| Package {
        name: name.to_owned(),
        manifest: String::new(),
        dependencies: vec![Dependency { name: dependency.to_owned(), dev }],
    };
    assert_eq!(edges(&package("benthic-core", "benthic-embedded", false)).len(), 1);
    assert_eq!(edges(&package("benthic-core", "benthic-cls", true)).len(), 1);
    assert_eq!(edges(&package("benthic-core", "benthic-testkit", true)).len(), 0);
    assert_eq!(edges(&package("benthic-cli", "benthic-testkit", false)).len(), 1);
    assert_eq!(edges(&package("benthic-cls-table", "benthic-fragment", false)).len(), 0);
    assert_eq!(edges(&package("benthic-new", "serde", false)).len(), 1);
    assert_eq!(heavy_dependencies(&package("benthic-core", "arrow-array", false)).len(), 1);
    assert_eq!(heavy_dependencies(&package("benthic-embedded", "tokio", true)).len(), 0);
    assert_eq!(missing_lints(&file("crates/a/Cargo.toml", "[lints.rust]\nworkspace = true\n")).len(), 1);
    assert_eq!(
        missing_lints(&file("crates/a/Cargo.toml", "[package]\n\n[lints]\nworkspace = true\n")).len(),
        0
    );
    let allow = format!("//! A.\n#![allow({})]\n", ["unsafe", "_code"].concat());
    assert_eq!(unsafe_code(&file("crates/a/src/lib.rs", &allow)), ["crates/a/src/lib.rs:2: allowed"]);
    assert_eq!(unsafe_code(&file("crates/benthic-rados/src/ffi.rs", &allow)).len(), 0);
    let globs =
        format!("use a::{0};\npub use a::b::{0};\nuse c::{{\n    d::{0},\n}};\nlet x = a * b;\n", '*');
    assert_eq!(glob_imports(&file("a.rs", &globs)).len(), 3);
    assert_eq!(missing_crate_docs(&file("crates/a/src/lib.rs", "mod a;\n")).len(), 1);
    assert_eq!(missing_crate_docs(&file("crates/a/src/b.rs", "mod a;\n")).len(), 0);
    assert_eq!(long_files(&file("a.rs", &"\n".repeat(SOURCE_LINES_MAX + 1))).len(), 1);
    assert_eq!(long_files(&file("a.py", &"\n".repeat(SOURCE_LINES_MAX + 1))).len(), 1);
    assert_eq!(strangers_in_the_root(&file("notes.txt", "")).len(), 1);
    assert_eq!(strangers_in_the_root(&file("docs/notes.txt", "")).len(), 0);
    assert_eq!(stray_blanks(&file("a.md", "a \n\tb\nc\n")).len(), 2);
    let unfinished = format!("a\n// {}: b\n", ["TO", "DO"].concat());
    assert_eq!(leftovers(&file("a.rs", &unfinished)), ["a.rs:2: unfinished"]);
    assert_eq!(
        leftovers(&file("a.toml", &["x = \"/ro", "ot/x\""].concat())),
        ["a.toml:1: a path of one machine"]
    );
}

fn check(rule: &str, found: impl Iterator<Item = String>) {
    let found: Vec<String> = found.collect();
    assert!(found.is_empty(), "{rule}:\n{}", found.join("\n"));
}

fn check_files(rule: &str, find: fn(&File) -> Vec<String>) {
    check(rule, files().iter().flat_map(find));
}

fn edges(package: &Package) -> Vec<String> {
    let fits = |pattern: &str| match pattern.strip_suffix('*') {
        Some(start) => package.name.starts_with(start),
        None => package.name == pattern,
    };
    let Some((_, uses)) = CRATES.iter().find(|(pattern, _)| fits(pattern)) else {
        return vec![format!("{}: not in the table; add it there and to ARCHITECTURE.md", package.name)];
    };
    let allowed = |dependency: &Dependency| {
        let name = dependency.name.as_str();
        (dependency.dev && TESTS_USE.contains(&name))
            || match uses {
                Uses::Only(names) => names.contains(&name),
                Uses::Anything => name != "benthic-testkit",
            }
    };
    let ours = package.dependencies.iter().filter(|dependency| dependency.name.starts_with("benthic-"));
    let edge = |dependency: &Dependency| {
        let kind = if dependency.dev { "dev-dependency" } else { "dependency" };
        format!("{}: {kind} {}", package.name, dependency.name)
    };
    ours.filter(|dependency| !allowed(dependency)).map(edge).collect()
}

fn heavy_dependencies(package: &Package) -> Vec<String> {
    let forbidden =
        FORBIDDEN.iter().filter(|(name, _)| *name == package.name).flat_map(|(_, starts)| *starts);
    let heavy = |start: &&str| {
        let found = package.dependencies.iter().filter(|found| !found.dev && found.name.starts_with(start));
        found.map(|found| format!("{}: {}", package.name, found.name)).collect::<Vec<_>>()
    };
    forbidden.flat_map(heavy).collect()
}

fn missing_lints(manifest: &File) -> Vec<String> {
    // The lints of the workspace forbid `unsafe` for good, so these crates spell out lints of their own.
    let has = manifest.text.contains("\n[lints]\nworkspace = true\n") || may_be_unsafe(manifest);
    if has { Vec::new() } else { vec![format!("{}: no lints", manifest.path)] }
}

fn may_be_unsafe(file: &File) -> bool {
    UNSAFE_MAY_BE_IN.iter().any(|start| file.path.starts_with(start))
}

fn unsafe_code(file: &File) -> Vec<String> {
    if may_be_unsafe(file) || !(file.is("rs") || file.is("toml")) {
        return Vec::new();
    }
    let name = ["unsafe", "_code"].concat();
    file.lines(|line| {
        let lowers = ["allow(", "expect(", "warn(", "= \"allow\"", "= \"warn\""];
        (line.contains(&name) && lowers.iter().any(|lower| line.contains(lower))).then_some("allowed")
    })
}

fn glob_imports(file: &File) -> Vec<String> {
    file.lines(|line| {
        let line = line.trim();
        let glob = ["::*;", "::*,", "::*}"].iter().any(|end| line.ends_with(end)) || line.ends_with("::*");
        (file.is("rs") && glob && !line.starts_with("//")).then_some("glob import")
    })
}

fn missing_crate_docs(file: &File) -> Vec<String> {
    let crate_root = file.path.ends_with("src/lib.rs") || file.path.ends_with("src/main.rs");
    if crate_root && !file.text.starts_with("//!") {
        vec![format!("{}:1: no docs", file.path)]
    } else {
        Vec::new()
    }
}

fn long_files(file: &File) -> Vec<String> {
    let lines = file.text.lines().count();
    if (file.is("rs") || file.is("py")) && lines > SOURCE_LINES_MAX {
        return vec![format!("{}:{lines}: lines={lines} lines_max={SOURCE_LINES_MAX}", file.path)];
    }
    Vec::new()
}

fn strangers_in_the_root(file: &File) -> Vec<String> {
    let top = file.path.split('/').next().unwrap();
    if ROOT.contains(&top) { Vec::new() } else { vec![format!("{}:1: not in the list", file.path)] }
}

fn stray_blanks(file: &File) -> Vec<String> {
    let checked = file.is("rs") || file.is("md") || file.is("py");
    file.lines(|line| match line {
        _ if !checked => None,
        _ if line.contains('\t') => Some("a tab"),
        _ if line.ends_with([' ', '\r']) => Some("blanks at the end"),
        _ => None,
    })
}

fn leftovers(file: &File) -> Vec<String> {
    // In pieces, so that this file does not find itself.
    let unfinished =
        [["TO", "DO"], ["FIX", "ME"], ["to", "do!("], ["unimpl", "emented!("]].map(|parts| parts.concat());
    let machine = [["/wo", "rk/"], ["/ro", "ot/"]].map(|parts| parts.concat());
    file.lines(|line| {
        let has = |words: &[String]| words.iter().any(|word| line.contains(word));
        match line {
            _ if has(&unfinished) => Some("unfinished"),
            _ if has(&machine) => Some("a path of one machine"),
            _ => None,
        }
    })
}
