//! Compares the guide, its alerts and its dashboard with the code.

use super::{calls, metrics};
use serde_json::Value;
use std::fs;

fn guide(name: &str) -> String {
    fs::read_to_string(format!("{}/../../docs/guide/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

/// The words of a text that begin with a prefix.
fn words<'a>(text: &'a str, prefix: &'a str) -> impl Iterator<Item = &'a str> {
    let is_other = |c: char| !(c.is_ascii_alphanumeric() || c == '_');
    text.split(is_other).filter(move |word| word.starts_with(prefix) && word.len() > prefix.len())
}

fn is_metric(name: &str) -> bool {
    metrics::METRICS.iter().chain(&calls::METRICS).any(|metric| metric.name == name)
}

#[test]
fn every_alert_is_about_a_metric_that_exists() {
    let rules = guide("health-alerts.yml");
    let expressions: Vec<&str> =
        rules.lines().filter_map(|line| line.trim().strip_prefix("expr: ")).collect();
    assert_eq!(expressions.len(), rules.matches("- alert: ").count());
    for expression in expressions {
        let mut about = 0;
        for word in words(expression, "benthic_").chain(words(expression, "ceph_")) {
            assert!(is_metric(word), "{word} in {expression}");
            about += 1;
        }
        assert!(about > 0, "{expression}");
    }
}

#[test]
fn every_panel_of_the_dashboard_is_about_a_metric_that_exists() {
    let dashboard: Value = serde_json::from_str(&guide("health-dashboard.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    assert!(panels.len() > 10);
    let mut taken = Vec::new();
    for panel in panels {
        let place = |key| panel["gridPos"][key].as_u64().unwrap();
        for cell in (place("x")..place("x") + place("w"))
            .flat_map(|x| (place("y")..place("y") + place("h")).map(move |y| (x, y)))
        {
            assert!(cell.0 < 24 && !taken.contains(&cell), "{panel}");
            taken.push(cell);
        }
        for target in panel["targets"].as_array().unwrap() {
            let expression = target["expr"].as_str().unwrap();
            let named: Vec<_> = words(expression, "benthic_").chain(words(expression, "ceph_")).collect();
            assert!(named.iter().any(|word| is_metric(word)), "{expression}");
            for word in named {
                assert!(is_metric(word), "{word} in {expression}");
            }
        }
    }
}

#[test]
fn the_guide_explains_every_finding() {
    let guide = guide("health.md");
    let sources = [
        include_str!("judge/client.rs"),
        include_str!("judge/daemons.rs"),
        include_str!("judge/data.rs"),
        include_str!("judge/pgs.rs"),
    ];
    let mut names = 0;
    for source in sources {
        for literal in source.split('"').skip(1).step_by(2) {
            let is_name = literal.starts_with("Benthic") || literal.starts_with("Ceph");
            if is_name && !literal.contains(' ') {
                assert!(guide.contains(&format!("`{literal}`")), "{literal}");
                names += 1;
            }
        }
    }
    assert!(names > 30, "{names}");
}
