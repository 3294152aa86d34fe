//! Edits the CRUSH map in the text form that `crushtool` writes and reads. Only this form allows a
//! rule that takes several buckets.
//!
//! `crushtool` of 16.2 prints weights with three decimals, so a plain round trip through the text
//! would move data of all pools. This module therefore restores the weights from the dump and
//! [compares](difference) the compiled map with the original.

use super::crush::{Bucket, CrushMap};
use std::fmt::Write;

/// The additions of a site-first placement to a map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Addition {
    /// A new root and the buckets below it, if one is needed.
    pub root: Option<(String, Vec<String>)>,
    pub rule: String,
    /// The steps of the rule, without the word `step`.
    pub steps: Vec<String>,
}

const RULES: &str = "# rules\n";
const END: &str = "# end crush map";

/// The text with the exact weights of its map.
pub fn with_exact_weights(text: &str, crush: &CrushMap) -> String {
    let mut exact = String::with_capacity(text.len() * 2);
    let mut bucket: Option<&Bucket> = None;
    for line in text.lines() {
        if let Some((kind, name)) = line.strip_suffix(" {").and_then(|head| head.split_once(' ')) {
            bucket = if kind == "rule" { None } else { crush.bucket(name) };
        }
        let weight = item(line).and_then(|name| {
            let bucket = bucket?;
            bucket.items.iter().find(|item| crush.name(item.id) == Some(name)).map(|item| (name, item.weight))
        });
        match weight {
            Some((name, weight)) => {
                let _ = writeln!(exact, "\titem {name} weight {}", decimal(weight));
            }
            None => {
                exact.push_str(line);
                exact.push('\n');
            }
        }
    }
    exact
}

fn item(line: &str) -> Option<&str> {
    line.strip_prefix("\titem ")?.split(' ').next()
}

/// A decimal that the compiler turns back into this weight. The compiler truncates to 1/65536.
fn decimal(weight: u32) -> String {
    format!("{:.9}", (f64::from(weight) + 0.25) / 65_536.0)
}

/// The text with an additional root and rule. The caller ensures that their names are unused.
pub fn add(text: &str, crush: &CrushMap, addition: &Addition) -> String {
    let mut text = text.to_owned();
    if let (Some((name, below)), Some(at)) = (&addition.root, text.find(RULES)) {
        // The new root gets the type of an existing root, whatever that type is called.
        let kind = crush.roots().map(|root| (root.type_id, root.type_name.as_str())).max();
        let mut root =
            format!("{} {name} {{\n\talg straw2\n\thash 0\n", kind.map_or("root", |(_, kind)| kind));
        for item in below {
            let weight: u32 = crush
                .bucket(item)
                .map(|bucket| bucket.items.iter().map(|item| item.weight).sum())
                .unwrap_or_default();
            let _ = writeln!(root, "\titem {item} weight {}", decimal(weight));
        }
        text.insert_str(at, &(root + "}\n\n"));
    }
    let id = crush.rules.iter().map(|rule| rule.rule_id).max().unwrap_or(-1) + 1;
    let mut rule = format!("rule {} {{\n\tid {id}\n\ttype replicated\n", addition.rule);
    // Newer releases have no such limits.
    if text.contains("\tmin_size ") {
        rule.push_str("\tmin_size 1\n\tmax_size 10\n");
    }
    for step in &addition.steps {
        let _ = writeln!(rule, "\tstep {step}");
    }
    let at = text.find(END).unwrap_or(text.len());
    text.insert_str(at, &(rule + "}\n\n"));
    text
}

/// The text with other steps for an existing rule.
pub fn with_steps(text: &str, rule: &str, steps: &[String]) -> String {
    edit(
        text,
        |kind, name| kind == "rule" && name == rule,
        |block| {
            let kept = block.lines().filter(|line| !line.starts_with("\tstep ") && *line != "}");
            let mut new: String = kept.map(|line| format!("{line}\n")).collect();
            for step in steps {
                let _ = writeln!(new, "\tstep {step}");
            }
            new + "}\n"
        },
    )
}

/// The text without a rule and, if `root` is given, without that root.
pub fn remove(text: &str, rule: &str, root: Option<&str>) -> String {
    let ours = |kind: &str, name: &str| if kind == "rule" { name == rule } else { Some(name) == root };
    edit(text, ours, |_| String::new())
}

/// The text with changed blocks. `ours` selects blocks by kind and name.
fn edit(text: &str, ours: impl Fn(&str, &str) -> bool, change: impl Fn(&str) -> String) -> String {
    let mut edited = String::with_capacity(text.len());
    let mut block: Option<String> = None;
    for line in text.lines() {
        let head = line.strip_suffix(" {").and_then(|head| head.split_once(' '));
        if head.is_some_and(|(kind, name)| ours(kind, name)) {
            block = Some(String::new());
        }
        let to = block.as_mut().unwrap_or(&mut edited);
        to.push_str(line);
        to.push('\n');
        if line == "}"
            && let Some(block) = block.take()
        {
            edited.push_str(&change(&block));
        }
    }
    edited
}

/// The first difference between two maps, apart from the buckets and rules named in `ours`.
pub fn difference(old: &CrushMap, new: &CrushMap, ours: &[&str]) -> Option<String> {
    let is_ours = |name: &str| ours.contains(&name.split('~').next().unwrap_or(name));
    if (&old.devices, &old.types, &old.tunables, &old.choose_args)
        != (&new.devices, &new.types, &new.tunables, &new.choose_args)
    {
        return Some("its devices, types or tunables".to_owned());
    }
    let rules = |map: &'_ CrushMap| {
        map.rules.iter().filter(|rule| !is_ours(&rule.rule_name)).cloned().collect::<Vec<_>>()
    };
    if rules(old) != rules(new) {
        return Some("its other rules".to_owned());
    }
    let buckets = |map: &CrushMap| map.buckets.iter().filter(|bucket| !is_ours(&bucket.name)).count();
    let changed = old
        .buckets
        .iter()
        .filter(|bucket| !is_ours(&bucket.name))
        .find(|bucket| !new.buckets.iter().any(|other| same(bucket, other)));
    match changed {
        Some(bucket) => Some(format!("the bucket {}", bucket.name)),
        None => (buckets(old) != buckets(new)).then(|| "its other buckets".to_owned()),
    }
}

fn same(a: &Bucket, b: &Bucket) -> bool {
    // The compiler computes weights with 24 bits of precision.
    let near = |a: u32, b: u32| a.abs_diff(b) <= a >> 23;
    (a.id, &a.name, a.type_id, a.items.len()) == (b.id, &b.name, b.type_id, b.items.len())
        && a.items.iter().zip(&b.items).all(|(a, b)| a.id == b.id && near(a.weight, b.weight))
}

#[cfg(test)]
#[path = "text_tests.rs"]
mod tests;
