//! `include/benthic.h` and the lists of symbols are made from the functions in `src/ffi`.

use crate::libraries::{CRATE, exported};
use benthic_core::error::ERROR_TABLE;
use cbindgen::{Braces, Builder, Config, DocumentationStyle, Language, Style};
use std::collections::BTreeSet;
use std::fs;

/// With this variable set to 1, the test writes the header and the list instead of comparing them.
const WRITE: &str = "BENTHIC_WRITE_HEADER";

const ABOUT: &str = "/* Benthic for C: programmable object storage, on the embedded engine and on Ceph.
 *
 * Made from the functions in src/ffi; do not edit. docs/guide/c.md is the guide.
 *
 * Every function that can fail returns 0 (BENTHIC_KIND_OK) or the kind of the error, and stores an error
 * object in `*error`, unless `error` is NULL. The caller frees the error object. After a failure, no other
 * result was stored. No function uses errno.
 *
 * A handle looks like a pointer and is none: the library looks it up. So a handle that is NULL, closed or of
 * another type is the error BENTHIC_KIND_INVALID_ARGUMENT. All functions may be called by any number of
 * threads at the same time, also with the same handle.
 *
 * The caller promises the rest: a pointer is NULL, or valid for as many bytes as the call says; a text ends
 * with a NUL and is UTF-8. A pointer that is NULL where a function needs one is an error.
 *
 * A process that was forked after its parent used a store cannot use stores; calls fail with
 * BENTHIC_KIND_INVALID_ARGUMENT.
 */";

const SOURCES: [&str; 9] =
    ["mod", "error", "store", "object", "read_op", "write_op", "reply", "list", "completion"];

/// The source with the macro `c_api` expanded, which cbindgen cannot do.
fn expanded(source: &str) -> String {
    const FUNCTION: &str = "#[unsafe(no_mangle)] pub unsafe extern \"C\" fn ";
    const ERROR: &str = "error: *mut *mut ErrorHandle) -> i32 {\n";
    let mut text = String::new();
    let mut is_macro = false;
    for line in source.lines() {
        match line {
            "c_api! {" => is_macro = true,
            "}" if is_macro => is_macro = false,
            "    ) {" if is_macro => text.push_str(ERROR),
            _ => match line.strip_prefix("    fn ").filter(|_| is_macro) {
                None => text.extend([line, "\n"]),
                Some(function) => match function.strip_suffix(") {") {
                    Some(start) => text.extend([FUNCTION, start, ", ", ERROR]),
                    None => text.extend([FUNCTION, function, "\n"]),
                },
            },
        }
    }
    text
}

fn header() -> String {
    let mut config = Config {
        language: Language::C,
        header: Some(ABOUT.to_owned()),
        include_guard: Some("BENTHIC_H".to_owned()),
        cpp_compat: true,
        style: Style::Type,
        braces: Braces::SameLine,
        line_length: 110,
        documentation_style: DocumentationStyle::C99,
        no_includes: true,
        sys_includes: ["stdbool.h", "stddef.h", "stdint.h"].map(str::to_owned).to_vec(),
        usize_is_size_t: true,
        ..Config::default()
    };
    config.enumeration.rename_variants = cbindgen::RenameRule::QualifiedScreamingSnakeCase;
    let names = [
        ("StoreHandle", "benthic_store"),
        ("PoolHandle", "benthic_pool"),
        ("ReadOpHandle", "benthic_read_op"),
        ("WriteOpHandle", "benthic_write_op"),
        ("ReplyHandle", "benthic_reply"),
        ("PageHandle", "benthic_page"),
        ("CompletionHandle", "benthic_completion"),
        ("ErrorHandle", "benthic_error"),
        ("CompletionCallback", "benthic_completion_callback"),
        ("Kind", "benthic_kind"),
        ("Comparison", "benthic_comparison"),
    ];
    config.export.rename = names.map(|(rust, c)| (rust.to_owned(), c.to_owned())).into();
    config.export.include = vec!["Kind".to_owned(), "Comparison".to_owned()];
    config.function.args = cbindgen::Layout::Auto;
    // One file keeps the order: a module would be read where its parent names it.
    let text = |name: &&str| fs::read_to_string(format!("{CRATE}/src/ffi/{name}.rs")).unwrap();
    let text: String = SOURCES.iter().map(text).collect();
    let is_item =
        |line: &&str| !line.starts_with("//!") && !line.starts_with("#![") && !line.starts_with("mod ");
    let text = expanded(&text.lines().filter(is_item).collect::<Vec<_>>().join("\n"));
    let source = tempfile::NamedTempFile::new().unwrap();
    fs::write(source.path(), text).unwrap();
    let builder = Builder::new().with_config(config).with_src(source.path());
    let mut header = Vec::new();
    builder.generate().unwrap().write(&mut header);
    String::from_utf8(header).unwrap()
}

fn check(path: &str, made: &str) {
    let path = format!("{CRATE}/{path}");
    if std::env::var(WRITE).is_ok_and(|value| value == "1") {
        fs::write(&path, made).unwrap();
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == made, "{path} is out of date; run this test with {WRITE}=1 and commit the result");
}

/// The names of the functions that the header declares.
fn functions(header: &str) -> BTreeSet<String> {
    let words = header.split(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '(');
    let called = words.filter_map(|word| word.split_once('(')).map(|(name, _)| name);
    called.filter(|name| name.starts_with("benthic_")).map(str::to_owned).collect()
}

#[test]
fn the_header_and_the_list_of_symbols_are_those_of_the_functions() {
    let header = header();
    check("include/benthic.h", &header);
    let names: String = functions(&header).iter().map(|name| format!("\t\t{name};\n")).collect();
    check("benthic.map", &format!("BENTHIC_1 {{\n\tglobal:\n{names}\tlocal:\n\t\t*;\n}};\n"));
}

#[test]
fn the_library_exports_what_the_header_declares_under_its_version() {
    let expected = functions(&header()).into_iter().map(|name| format!("{name}@@BENTHIC_1")).collect();
    assert_eq!(exported("libbenthic.so.1"), expected);
}

#[test]
fn the_kinds_of_errors_have_the_numbers_of_the_exit_statuses() {
    let header = header();
    for row in &ERROR_TABLE {
        let line = format!("  BENTHIC_KIND_{} = {},\n", row.name.to_uppercase(), row.exit_status);
        assert!(header.contains(&line), "{line}");
    }
    assert_eq!(header.matches("  BENTHIC_KIND_").count(), ERROR_TABLE.len() + 1);
}
