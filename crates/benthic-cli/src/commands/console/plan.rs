//! Reads the text of a query plan as a tree. Each line is a node; two more spaces at its beginning
//! make it a child of the line above. The part that runs beside the objects is in one line of its
//! own, `FragmentExec: objects=…, beside each: A <- B <- C, metrics=[…]`.

use serde_json::{Map, Value, json};

/// Limit of the depth: deeper nodes are siblings.
const SPACES_MAX: usize = 1_000;

/// The nodes of a plan that have no parent, as `name`, `details`, `metrics`, `place` and
/// `children`. The place is `client`, `objects`, or `both` if parts of a fragment ran in both
/// places.
pub fn parse(text: &str) -> Vec<Value> {
    let mut roots = Vec::new();
    // The nodes that are still open, each with the spaces before it.
    let mut open: Vec<(usize, Value)> = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let spaces = (line.len() - line.trim_start_matches(' ').len()).min(SPACES_MAX);
        while open.last().is_some_and(|(above, _)| *above >= spaces) {
            close(&mut open, &mut roots);
        }
        open.push((spaces, node(line.trim())));
    }
    while !open.is_empty() {
        close(&mut open, &mut roots);
    }
    roots
}

fn close(open: &mut Vec<(usize, Value)>, roots: &mut Vec<Value>) {
    let Some((_, node)) = open.pop() else { return };
    match open.last_mut().and_then(|(_, parent)| parent["children"].as_array_mut()) {
        Some(children) => children.push(node),
        None => roots.push(node),
    }
}

fn node(line: &str) -> Value {
    let (line, metrics) = match line
        .rsplit_once(", metrics=[")
        .and_then(|(line, rest)| Some((line, rest.strip_suffix(']')?)))
    {
        Some((line, metrics)) => (line, metrics_of(metrics)),
        None => (line, Map::new()),
    };
    let (name, details) = line.split_once(": ").unwrap_or((line.trim_end_matches(':'), ""));
    if name != "FragmentExec" {
        return json!({ "name": name, "details": details, "metrics": metrics, "place": "client", "children": [] });
    }
    let (details, beside) = details.split_once(", beside each: ").unwrap_or((details, ""));
    let count = |name: &str| metrics.get(name).and_then(Value::as_str).is_some_and(|count| count != "0");
    let place = match (count("objects_pushed"), count("objects_pulled")) {
        (true, true) => "both",
        (false, true) => "client",
        // A plan that has not run has no counts.
        _ => "objects",
    };
    let mut children = Vec::new();
    for part in beside.split(" <- ").collect::<Vec<_>>().into_iter().rev().filter(|part| !part.is_empty()) {
        let mut inner = node(part);
        inner["place"] = json!(place);
        inner["children"] = std::mem::take(&mut children).into();
        children = vec![inner];
    }
    json!({ "name": name, "details": details, "metrics": metrics, "place": place, "children": children })
}

/// `name=value` pairs. A value may contain commas and parentheses.
fn metrics_of(text: &str) -> Map<String, Value> {
    let mut metrics: Vec<(String, String)> = Vec::new();
    for part in text.split(", ") {
        match part.split_once('=') {
            Some((name, value)) => metrics.push((name.to_owned(), value.to_owned())),
            None => {
                if let Some((_, value)) = metrics.last_mut() {
                    value.push_str(", ");
                    value.push_str(part);
                }
            }
        }
    }
    metrics.into_iter().map(|(name, value)| (name, json!(value))).collect()
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
