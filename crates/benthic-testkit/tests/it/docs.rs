//! Links of the documentation: every relative link leads to a file and, if it names one, to a
//! heading, and the navigation of the site (docs/SUMMARY.md) has every page. The tests read only
//! files of the project.
//!
//! A code host and the site must show the same pages, so the rules here are those that both share:
//! a heading's anchor is its text in lower case, with `-` for blanks and without punctuation.

use crate::project::{File, files, packages, root};
use std::collections::{HashMap, HashSet};

const NAVIGATION: &str = "docs/SUMMARY.md";

/// Directories of the project. A code span that begins with one of them is the path of a file or a
/// directory.
const TREES: [&str; 6] = ["bench/", "crates/", "docs/", "examples/", "fuzz/", "python/"];

#[test]
fn links_lead_to_files_and_headings() {
    let pages = pages();
    let headings: HashMap<&str, HashSet<String>> =
        pages.iter().map(|page| (page.path.as_str(), anchors(&page.text))).collect();
    check(
        "these links are dead",
        pages.iter().flat_map(|page| dead_links(page, &headings, &|path| root().join(path).exists())),
    );
}

#[test]
fn paths_in_code_spans_exist() {
    check(
        "these files do not exist",
        pages().iter().flat_map(|page| missing_paths(page, &|path| root().join(path).exists())),
    );
}

#[test]
fn commands_name_targets_of_make_and_crates_that_exist() {
    let makefile = std::fs::read_to_string(root().join("Makefile")).unwrap();
    let targets = makefile.lines().filter_map(|line| line.split_once(':')).map(|(target, _)| target);
    let crates: Vec<String> = packages().into_iter().map(|package| package.name).collect();
    let known: HashSet<&str> = targets.chain(crates.iter().map(String::as_str)).collect();
    check("these do not exist", pages().iter().flat_map(|page| unknown_names(page, &known)));
}

#[test]
fn the_navigation_has_every_page() {
    let pages = pages();
    check("add these pages to docs/SUMMARY.md, each once", strays(&pages).into_iter());
}

#[test]
fn the_readme_and_the_glossary_stay_short() {
    let read = |path: &str| std::fs::read_to_string(root().join(path)).unwrap();
    assert!(read("README.md").lines().count() <= 120, "README.md has at most 120 lines");
    let terms = read("docs/glossary.md").lines().filter(|line| line.starts_with("- **")).count();
    assert!(terms <= 40, "docs/glossary.md has at most 40 terms terms={terms}");
}

/// Runs every rule on a violation, because a rule that never finds one proves nothing.
#[test]
fn every_rule_of_the_docs_finds_a_violation() {
    let page = |path: &str, text: &str| File { path: path.to_owned(), text: text.to_owned() };
    let headings = HashMap::from([(
        "docs/a.md",
        anchors("# Why `a` waits\n```sh\n# no heading\n```\n## Why a waits\n"),
    )]);
    assert_eq!(headings["docs/a.md"], HashSet::from(["why-a-waits".to_owned(), "why-a-waits-1".to_owned()]));
    let exists = |path: &str| path == "docs/a.md" || path == "docs/b.png";
    let dead = |text: &str| dead_links(&page("docs/guide/b.md", text), &headings, &exists);
    assert!(dead("[a](../a.md), ![b](../b.png), [c](https://c.example/d)").is_empty());
    assert!(dead("[a\nb](../a.md#why-a-waits-1) `[x](no.md)`\n```\n[x](no.md)\n```\n").is_empty());
    assert_eq!(dead("\n[a](a.md)"), ["docs/guide/b.md:2: a.md"]);
    assert_eq!(dead("<img src=\"b.png\">"), ["docs/guide/b.md:1: b.png"]);
    assert_eq!(dead("[a](../a.md#no-heading)"), ["docs/guide/b.md:1: ../a.md#no-heading"]);
    assert_eq!(dead("[a](#here)"), ["docs/guide/b.md:1: #here"]);
    assert_eq!(dead("[a](../../../a.md)"), ["docs/guide/b.md:1: ../../../a.md"]);
    let missing = |text: &str| missing_paths(&page("README.md", text), &exists);
    assert!(missing("`docs/a.md`, `docs/NAME.md`, `crates/*/src`, `docs exist`").is_empty());
    assert_eq!(missing("see `docs/c.md`"), ["README.md:1: docs/c.md"]);
    let unknown =
        |text: &str| unknown_names(&page("README.md", text), &HashSet::from(["test", "benthic-core"]));
    assert!(
        unknown("`a` make b, `make test A=a`, `cargo test -p benthic-core`\n```\nmake test  # b\n```\n")
            .is_empty()
    );
    assert_eq!(unknown("\n`make tset`"), ["README.md:2: tset"]);
    assert_eq!(unknown("    make test tset   says"), ["README.md:1: tset"]);
    assert_eq!(unknown("```sh\ncargo doc -p benthic-cure\n```"), ["README.md:2: benthic-cure"]);
    let site =
        |navigation| strays(&[page(NAVIGATION, navigation), page("docs/a.md", ""), page("README.md", "")]);
    assert!(site("[Benthic](../README.md)\n- [A](a.md)\n").is_empty());
    assert_eq!(site("- [A](a.md)\n- [A again](a.md)\n"), ["docs/a.md: 2 times", "README.md: 0 times"]);
}

fn check(rule: &str, found: impl Iterator<Item = String>) {
    let found: Vec<String> = found.collect();
    assert!(found.is_empty(), "{rule}:\n{}", found.join("\n"));
}

/// All pages in Markdown, except the templates of new classes, whose links are those of another
/// project.
fn pages() -> Vec<File> {
    let mut pages = files();
    pages.retain(|file| file.is("md") && !file.path.contains("/src/commands/"));
    assert!(pages.len() > 30, "the pages were not found");
    pages
}

/// The pages of the site that the navigation does not have exactly once.
fn strays(pages: &[File]) -> Vec<String> {
    let navigation = pages.iter().find(|page| page.path == NAVIGATION).expect("there is a navigation");
    let entries: Vec<String> = targets(&navigation.text)
        .into_iter()
        .filter_map(|(_, target)| resolve(NAVIGATION, &target))
        .collect();
    let of_site = pages.iter().filter(|page| page.path.starts_with("docs/") || !page.path.contains('/'));
    of_site
        .filter(|page| page.path != NAVIGATION)
        .map(|page| (page, entries.iter().filter(|entry| **entry == page.path).count()))
        .filter(|(_, count)| *count != 1)
        .map(|(page, count)| format!("{}: {count} times", page.path))
        .collect()
}

fn dead_links(
    page: &File,
    headings: &HashMap<&str, HashSet<String>>,
    exists: &dyn Fn(&str) -> bool,
) -> Vec<String> {
    let own = anchors(&page.text);
    let is_alive = |target: &str| {
        if target.contains("://") || target.starts_with("mailto:") {
            return true;
        }
        let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
        let headings = match (file, resolve(&page.path, file)) {
            ("", _) => &own,
            (_, Some(path)) if exists(&path) => match headings.get(path.as_str()) {
                Some(headings) => headings,
                None => return anchor.is_empty(),
            },
            _ => return false,
        };
        anchor.is_empty() || headings.contains(anchor)
    };
    let dead = targets(&page.text).into_iter().filter(|(_, target)| !is_alive(target));
    dead.map(|(line, target)| format!("{}:{line}: {target}", page.path)).collect()
}

fn missing_paths(page: &File, exists: &dyn Fn(&str) -> bool) -> Vec<String> {
    // The changelog also names removed commands.
    if page.path == "CHANGELOG.md" {
        return Vec::new();
    }
    let is_path = |span: &str| {
        TREES.iter().any(|tree| span.starts_with(tree))
            && span.chars().all(|char| char.is_alphanumeric() || "/._-".contains(char))
            && !span.split(['/', '.']).any(|part| part.chars().all(char::is_uppercase) && part.len() > 1)
    };
    let mut missing = Vec::new();
    for (line, text) in prose(&page.text) {
        let spans = text.split('`').skip(1).step_by(2);
        let wrong = spans.filter(|span| is_path(span) && !exists(span));
        missing.extend(wrong.map(|span| format!("{}:{line}: {span}", page.path)));
    }
    missing
}

/// Targets of make, and crates that cargo shall take, in commands: in code spans, and in blocks of
/// code.
fn unknown_names(page: &File, known: &HashSet<&str>) -> Vec<String> {
    // The changelog also names what was removed.
    if page.path == "CHANGELOG.md" {
        return Vec::new();
    }
    let prose: HashMap<usize, &str> = prose(&page.text).into_iter().collect();
    let is_name =
        |word: &&str| word.chars().all(|char| char.is_ascii_lowercase() || "-0123456789".contains(char));
    let mut unknown = Vec::new();
    for (line, text) in (1..).zip(page.text.lines()) {
        let is_code = !prose.contains_key(&line) || text.starts_with("    ");
        let commands: Vec<&str> =
            if is_code { vec![text] } else { text.split('`').skip(1).step_by(2).collect() };
        for command in commands {
            // A comment, or a description after several blanks, is no part of the command.
            let command = command.trim_start().split("  ").next().unwrap_or_default();
            let targets = command.strip_prefix("make ").unwrap_or_default().split(' ').take_while(is_name);
            let crates = command.split(" -p ").skip(1).filter_map(|rest| rest.split(' ').next());
            let ours = crates.filter(|name| name.starts_with("benthic-"));
            let wrong = targets.chain(ours).filter(|name| !name.is_empty() && !known.contains(name));
            unknown.extend(wrong.map(|name| format!("{}:{line}: {name}", page.path)));
        }
    }
    unknown
}

/// The lines outside fenced blocks, each with its number.
fn prose(text: &str) -> Vec<(usize, &str)> {
    let mut fenced = false;
    let mut lines = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            lines.push((index + 1, line));
        }
    }
    lines
}

/// The targets of links and pictures, each with the number of its line.
fn targets(text: &str) -> Vec<(usize, String)> {
    let mut targets = Vec::new();
    for (line, text) in prose(text) {
        // Text in code spans is no link; a link's own text may be a code span.
        let text: String = text.split('`').step_by(2).collect();
        for (open, close) in [("](", ')'), ("src=\"", '"'), ("href=\"", '"')] {
            let found = text.split(open).skip(1).filter_map(|rest| rest.split(close).next());
            targets.extend(found.map(|target| (line, target.to_owned())));
        }
    }
    targets
}

/// The anchors of all headings. A repeated one gets a number.
fn anchors(text: &str) -> HashSet<String> {
    let mut anchors = HashSet::new();
    let mut seen: HashMap<String, usize> = HashMap::new();
    for (_, line) in prose(text) {
        let title = line.trim_start_matches('#');
        if !line.starts_with('#') || !title.starts_with(' ') {
            continue;
        }
        let anchor: String = title
            .trim()
            .to_lowercase()
            .chars()
            .filter(|char| char.is_alphanumeric() || char.is_whitespace() || "-_".contains(*char))
            .map(|char| if char.is_whitespace() { '-' } else { char })
            .collect();
        let count = seen.entry(anchor.clone()).or_default();
        anchors.insert(if *count == 0 { anchor } else { format!("{anchor}-{count}") });
        *count += 1;
    }
    anchors
}

/// The path of a link's target, relative to the root, or nothing if it is outside the project.
fn resolve(page: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in target.trim_end_matches('/').split('/') {
        match part {
            "." | "" => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}
