//! The project's own rules as tests: dependencies between crates, file sizes, and forbidden
//! content.

use crate::project::{Dependency, File, Package, files, packages};

const SOURCE_LINES_MAX: usize = 800;
const COMMENT_COLUMNS_MAX: usize = 100;

/// The crates of the workspace, each with the workspace crates that it may use.
const CRATES: [(&str, &[&str]); 34] = [
    ("benthic-core", &[]),
    ("benthic-embedded", &["benthic-core"]),
    ("benthic-class-names", &[]),
    ("benthic-rados", &["benthic-core", "benthic-class-names"]),
    ("benthic-classes", &["benthic-core"]),
    ("benthic-index", &["benthic-core"]),
    ("benthic-parquet", &["benthic-core", "benthic-classes"]),
    (
        "benthic-fragment",
        &["benthic-core", "benthic-classes", "benthic-index", "benthic-parquet", "benthic-wasm"],
    ),
    ("benthic-table", &["benthic-core", "benthic-index"]),
    ("benthic-array", &["benthic-core"]),
    ("benthic-striped", &["benthic-core", "benthic-classes"]),
    ("benthic-psk", &["benthic-core"]),
    ("benthic-block", &["benthic-core", "benthic-classes", "benthic-psk"]),
    ("benthic-rbd", &["benthic-core", "benthic-block", "benthic-rados"]),
    ("benthic-ceph", &["benthic-core", "benthic-class-names", "benthic-rados"]),
    ("benthic-cls", &["benthic-core", "benthic-class-names"]),
    ("benthic-cls-array", &["benthic-core", "benthic-array", "benthic-cls"]),
    ("benthic-cls-library", &["benthic-core", "benthic-classes", "benthic-cls"]),
    ("benthic-cls-table", &["benthic-core", "benthic-fragment", "benthic-cls"]),
    ("benthic-cls-wasm", &["benthic-core", "benthic-classes", "benthic-wasm", "benthic-cls"]),
    ("benthic-wasm", &["benthic-core"]),
    ("benthic-wasm-test-classes", &["benthic-core", "benthic-classes"]),
    (
        "benthic-program",
        &[
            "benthic-class-names",
            "benthic-core",
            "benthic-classes",
            "benthic-embedded",
            "benthic-rados",
            "benthic-wasm",
        ],
    ),
    // The feature `gateway` adds a program, which needs benthic-program and benthic-parquet.
    ("benthic-s3", &["benthic-core", "benthic-classes", "benthic-parquet", "benthic-program"]),
    (
        "benthic-sql",
        &[
            "benthic-core",
            "benthic-classes",
            "benthic-fragment",
            "benthic-index",
            "benthic-table",
            "benthic-wasm",
        ],
    ),
    (
        "benthic-cli",
        &[
            "benthic-core",
            "benthic-block",
            "benthic-psk",
            "benthic-rbd",
            "benthic-ceph",
            "benthic-class-names",
            "benthic-classes",
            "benthic-program",
            "benthic-striped",
            "benthic-wasm",
        ],
    ),
    ("benthic-csi", &["benthic-core", "benthic-block", "benthic-rbd", "benthic-classes", "benthic-program"]),
    (
        "benthic-array-cli",
        &["benthic-core", "benthic-array", "benthic-classes", "benthic-program", "benthic-s3"],
    ),
    ("benthic-sql-server", &["benthic-core", "benthic-s3", "benthic-sql"]),
    (
        "benthic-sql-cli",
        &[
            "benthic-core",
            "benthic-program",
            "benthic-s3",
            "benthic-sql",
            "benthic-sql-server",
            "benthic-table",
        ],
    ),
    (
        "benthic-catalog",
        &[
            "benthic-classes",
            "benthic-core",
            "benthic-parquet",
            "benthic-program",
            "benthic-s3",
            "benthic-table",
        ],
    ),
    ("benthic-python", &["benthic-core", "benthic-array", "benthic-program", "benthic-sql", "benthic-table"]),
    ("benthic-c", &["benthic-classes", "benthic-core", "benthic-program"]),
    ("benthic-testkit", &["benthic-core"]),
];

/// Crates that tests and benchmarks may use in addition.
const TESTS_USE: [&str; 8] = [
    "benthic-ceph",
    "benthic-classes",
    "benthic-embedded",
    "benthic-index",
    "benthic-program",
    "benthic-rados",
    "benthic-testkit",
    "benthic-wasm",
];

/// The engines. Outside tests and benchmarks, only the crates below may name one.
const ENGINES: [&str; 2] = ["benthic-embedded", "benthic-rados"];
const MAY_NAME_AN_ENGINE: [&str; 3] = ["benthic-program", "benthic-ceph", "benthic-rbd"];

/// Crates with prefixes of names of dependencies that they must not have outside their tests.
const FORBIDDEN: [(&str, &[&str]); 5] = [
    ("benthic-core", &["tokio", "arrow", "librados", "rados"]),
    ("benthic-embedded", &["tokio"]),
    ("benthic-sql", COMMAND_LINE),
    ("benthic-python", COMMAND_LINE),
    ("benthic-c", COMMAND_LINE),
];
const COMMAND_LINE: &[&str] = &["clap", "indicatif", "rustyline"];

/// Prefixes of the paths that may contain `unsafe`.
const UNSAFE_PATHS: [&str; 6] = [
    "crates/benthic-c/",
    "crates/benthic-rados/",
    "crates/benthic-rbd/",
    "crates/benthic-psk/",
    "crates/benthic-cls",
    "crates/benthic-wasm/",
];

/// The files and folders of the root.
const ROOT: [&str; 23] = [
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
    "go",
    "java",
    "packaging",
    "pyproject.toml",
    "python",
    "rustfmt.toml",
];

#[test]
fn crates_use_only_what_the_table_allows() {
    check("the table of crates does not allow these dependencies", packages().iter().flat_map(edges));
}

#[test]
fn only_the_shared_layer_and_the_tools_for_ceph_name_an_engine() {
    check("a crate names an engine; open stores with benthic-program", packages().iter().flat_map(engines));
}

#[test]
fn every_crate_in_the_table_exists() {
    let packages = packages();
    let missing = CRATES.iter().filter(|(name, _)| !packages.iter().any(|package| package.name == *name));
    check(
        "these crates do not exist; remove them from the table",
        missing.map(|(name, _)| (*name).to_owned()),
    );
}

#[test]
fn libraries_have_no_heavy_dependencies() {
    check("these dependencies are too heavy for the crate", packages().iter().flat_map(heavy_dependencies));
}

#[test]
fn every_crate_uses_the_lints_of_the_workspace() {
    let packages = packages();
    let manifests =
        files().into_iter().filter(|file| packages.iter().any(|package| package.manifest == file.path));
    check(
        "add `[lints]` with `workspace = true` to the manifest",
        manifests.flat_map(|file| missing_lints(&file)),
    );
}

#[test]
fn unsafe_code_is_allowed_only_where_it_must_be() {
    check_files("unsafe code is forbidden here", unsafe_code);
}

#[test]
fn imports_have_no_globs() {
    check_files("import names instead of globs", glob_imports);
}

#[test]
fn every_crate_has_docs() {
    check_files("start the root of the crate with `//!` docs", missing_crate_docs);
}

#[test]
fn source_files_stay_short() {
    check_files("split the file", long_files);
}

#[test]
fn the_root_stays_small() {
    check_files("move it out of the root, or add it to the list", strangers_in_the_root);
}

#[test]
fn lines_have_no_tabs_and_no_blanks_at_the_end() {
    check_files("remove tabs and blanks at the end", stray_blanks);
}

#[test]
fn comments_wrap() {
    check_files("wrap the comment at 100 columns", wide_comments);
}

#[test]
fn no_code_reads_the_text_of_a_message() {
    check_files("give the error a `Reason` and match on it", decisions_by_text);
}

#[test]
fn the_context_of_an_error_is_quoted_once() {
    check_files("give `with` the value itself; `Error` quotes it where it must", quoted_twice);
}

#[test]
fn public_items_are_documented() {
    check_files("document the item; only fields, variants and methods need no docs", undocumented_items);
}

#[test]
fn types_have_names_of_their_own() {
    check_files("say in the name of the type whose state it is, or what is known", vague_types);
}

#[test]
fn no_unfinished_code_and_no_paths_of_one_machine() {
    check_files("finish the code, and remove paths of one machine", leftovers);
}

/// Runs every rule on a violation, because a rule that never finds one proves nothing.
#[test]
fn every_rule_finds_a_violation() {
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
    assert_eq!(engines(&package("benthic-cli", "benthic-rados", false)).len(), 1);
    assert_eq!(engines(&package("benthic-cli", "benthic-rados", true)).len(), 0);
    assert_eq!(engines(&package("benthic-program", "benthic-rados", false)).len(), 0);
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
    let wide = format!("    /// {}\n", "word ".repeat(20));
    let code = format!("/// ```\n{wide}/// ```\n/// | {wide}// {}\n", "w".repeat(100));
    assert_eq!(wide_comments(&file("a.rs", &wide)).len(), 1);
    assert_eq!(wide_comments(&file("a.rs", &code)).len(), 0);
    assert_eq!(wide_comments(&file("a.rs", &format!("{code}x\n{wide}"))).len(), 1);
    let by_text = "if error.message().contains(\"full\") {\n";
    assert_eq!(decisions_by_text(&file("crates/a/src/b.rs", by_text)).len(), 1);
    assert_eq!(decisions_by_text(&file("crates/a/tests/it/b.rs", by_text)).len(), 0);
    let in_tests = format!("#[cfg(test)]\nmod tests {{\n    {by_text}");
    assert_eq!(decisions_by_text(&file("crates/a/src/b.rs", &in_tests)).len(), 0);
    let quoted = format!(".with(\"site\", format_args!(\"{{name{}}}\"))\n", ":?");
    assert_eq!(quoted_twice(&file("crates/a/src/b.rs", &quoted)).len(), 1);
    assert_eq!(
        undocumented_items(&file("crates/a/src/b.rs", "\n#[derive(Debug)]\npub struct A;\n")).len(),
        1
    );
    assert_eq!(
        undocumented_items(&file("crates/a/src/b.rs", "/// A.\n#[must_use]\npub fn a() {\n")).len(),
        0
    );
    assert_eq!(
        vague_types(&file("crates/a/src/b.rs", "pub struct State {\npub struct ImageState {\n")).len(),
        1
    );
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
    let Some((_, uses)) = CRATES.iter().find(|(name, _)| *name == package.name) else {
        return vec![format!("{}: not in the table; add it there and to ARCHITECTURE.md", package.name)];
    };
    let allowed = |dependency: &Dependency| {
        let name = dependency.name.as_str();
        uses.contains(&name) || (dependency.dev && TESTS_USE.contains(&name))
    };
    let ours = package.dependencies.iter().filter(|dependency| dependency.name.starts_with("benthic-"));
    let edge = |dependency: &Dependency| {
        let kind = if dependency.dev { "dev-dependency" } else { "dependency" };
        format!("{}: {kind} {}", package.name, dependency.name)
    };
    ours.filter(|dependency| !allowed(dependency)).map(edge).collect()
}

fn engines(package: &Package) -> Vec<String> {
    if MAY_NAME_AN_ENGINE.contains(&package.name.as_str()) {
        return Vec::new();
    }
    let named =
        package.dependencies.iter().filter(|found| !found.dev && ENGINES.contains(&found.name.as_str()));
    named.map(|found| format!("{}: {}", package.name, found.name)).collect()
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
    // Nothing can override the `forbid(unsafe_code)` of the workspace, so crates with `unsafe` have
    // their own lints.
    let has = manifest.text.contains("\n[lints]\nworkspace = true\n") || may_be_unsafe(manifest);
    if has { Vec::new() } else { vec![format!("{}: no lints", manifest.path)] }
}

fn may_be_unsafe(file: &File) -> bool {
    UNSAFE_PATHS.iter().any(|start| file.path.starts_with(start))
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

/// Tables, code and long words may be wider.
fn wide_comments(file: &File) -> Vec<String> {
    let mut in_code = false;
    file.lines(|line| {
        let comment = line.trim_start();
        let text = comment.trim_start_matches('/').trim_start_matches('!').trim_start();
        let is_comment = file.is("rs") && comment.starts_with("//");
        let marks_code = is_comment && text.starts_with("```");
        in_code = is_comment && (in_code != marks_code);
        let is_wide = line.chars().count() > COMMENT_COLUMNS_MAX && text.contains(' ');
        (is_comment && is_wide && !in_code && !text.starts_with('|')).then_some("wide")
    })
}

/// Whether a file is part of a program or library and not of its tests.
fn is_shipped(file: &File) -> bool {
    let ours = file.path.starts_with("crates/") || file.path.starts_with("python/src/");
    let for_tests = ["/tests/", "/benches/", "/examples/", "/benthic-testkit/"];
    file.is("rs")
        && ours
        && !file.path.ends_with("tests.rs")
        && !for_tests.iter().any(|part| file.path.contains(part))
}

/// The file up to its test module.
fn without_tests(file: &File) -> File {
    let text = file.text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    File { path: file.path.clone(), text: text.to_owned() }
}

fn decisions_by_text(file: &File) -> Vec<String> {
    if !is_shipped(file) {
        return Vec::new();
    }
    let searches = ["contains", "starts_with", "ends_with"];
    without_tests(file).lines(|line| {
        let of = |text: &str| searches.iter().any(|search| line.contains(&format!("{text}.{search}(")));
        (of(".message()") || of("error.to_string()")).then_some("reads a message")
    })
}

fn quoted_twice(file: &File) -> Vec<String> {
    if !is_shipped(file) {
        return Vec::new();
    }
    file.lines(|line| (line.contains(".with(\"") && line.contains(":?}")).then_some("formats with Debug"))
}

fn undocumented_items(file: &File) -> Vec<String> {
    // Help texts document commands, and the Python package documents its native half.
    let exempt = ["/commands/", "/ffi", "benthic-cli/", "python/"];
    if !is_shipped(file) || exempt.iter().any(|part| file.path.contains(part)) {
        return Vec::new();
    }
    let file = without_tests(file);
    let lines: Vec<&str> = file.text.lines().collect();
    let is_item = |line: &str| {
        ["fn ", "async fn ", "const fn ", "struct ", "enum ", "trait "]
            .iter()
            .any(|item| line.strip_prefix("pub ").is_some_and(|rest| rest.starts_with(item)))
    };
    let is_documented = |at: usize| {
        let before = lines[..at].iter().rev();
        before
            .map(|line| line.trim())
            .find(|line| !is_attribute(line))
            .is_some_and(|line| line.starts_with("///"))
    };
    let items = (0..lines.len()).filter(|at| is_item(lines[*at]) && !is_documented(*at));
    items.map(|at| format!("{}:{}: {}", file.path, at + 1, lines[at])).collect()
}

fn vague_types(file: &File) -> Vec<String> {
    file.lines(|line| {
        let mut words = line.trim_start().split(|letter: char| !letter.is_alphanumeric());
        let is_type = words.any(|word| matches!(word, "struct" | "enum" | "trait"));
        (is_shipped(file) && is_type && matches!(words.next(), Some("State" | "Known")))
            .then_some("vague name")
    })
}

/// Whether a line is an attribute, or the end of one that takes several lines.
fn is_attribute(line: &str) -> bool {
    line.starts_with("#[") || line.starts_with("reason = ") || line == ")]"
}

fn leftovers(file: &File) -> Vec<String> {
    // The words are in pieces, so that the rule does not find them here.
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
