//! The plan and its outcome, as text for people.

use super::plan::{Action, Plan, Step};
use benthic_ceph::hosts::inventory::LOAD_LIST;
use benthic_ceph::hosts::verify::OsdState;
use benthic_ceph::releases;
use benthic_program::units;
use serde_json::{Value, json};
use std::fmt::Write as _;

/// Digits of a checksum that identify a file for people.
const SHA_SHOWN: usize = 12;

/// `osd.0, osd.2`.
pub fn osds(ids: &[i32]) -> String {
    ids.iter().map(|id| format!("osd.{id}")).collect::<Vec<_>>().join(", ")
}

fn short(sha256: &str) -> &str {
    sha256.get(..SHA_SHOWN).unwrap_or(sha256)
}

/// The plan.
pub fn plan(plan: &Plan) -> String {
    let library = &plan.library;
    let mut text = if plan.undo {
        format!("undo the installation of library {}", library.name)
    } else {
        let size = units::size(library.content.len() as u64);
        format!("library {}, {size}, SHA-256 {}", library.name, short(&library.sha256))
    };
    let mut line = |line: String| {
        // Writing to a string cannot fail.
        let _ = write!(text, "\n{line}");
    };
    line(format!("cluster {}", units::one_line(&plan.fsid)));
    let mut last = "";
    for step in &plan.steps {
        if step.host != last {
            let (host, destination) = (units::one_line(&step.host), units::one_line(&step.destination));
            let versions = units::one_line(&step.versions.join(", "));
            line(format!("host {host} (ssh {destination}), Ceph {versions}"));
            if !step.down.is_empty() {
                line(format!("  down, so not verified: {}", osds(&step.down)));
            }
        }
        last = &step.host;
        line(format!("  {}: {}", units::one_line(&step.found.path), osds(&step.osds)));
        line(format!("    {}", effect(step)));
    }
    for missing in &plan.settings {
        let cannot = if missing.setting == LOAD_LIST {
            "load the library"
        } else {
            "let clients without a list call it"
        };
        let how = match &missing.command {
            Some(command) => format!("you run `{command}`"),
            None => format!(
                "you change it on the host, where it is set ({}), which takes precedence over `ceph config set`",
                units::one_line(&missing.value.source)
            ),
        };
        line(format!(
            "setting {}: these OSDs do not {cannot}: {}; {how}, and restart them",
            missing.setting,
            osds(&missing.osds)
        ));
    }
    if !plan.unknown_releases.is_empty() {
        let unknown = plan.unknown_releases.iter();
        let each: Vec<String> =
            unknown.map(|(osd, version)| format!("osd.{osd} ({})", units::one_line(version))).collect();
        line(format!(
            "release: this program was tested with Ceph {}, so an installation needs --force for {}",
            releases::tested(),
            each.join(", ")
        ));
    }
    let restarts = plan.restarts();
    if !restarts.is_empty() {
        line(format!("restart: {} will run the file from before until you restart them", osds(&restarts)));
    }
    if !plan.homeless.is_empty() {
        line(format!("not included, because never up: {}", osds(&plan.homeless)));
    }
    text
}

/// Describes the action on a directory.
fn effect(step: &Step) -> String {
    let found = &step.found;
    let build = match found.build.as_str() {
        "" => String::new(),
        build => format!(", build {}", units::one_line(build)),
    };
    let loaded = found.loaded.iter().filter(|loaded| !loaded.is_older);
    let loaded: Vec<i32> = loaded.filter_map(|loaded| loaded.osd).collect();
    let by = if loaded.is_empty() { String::new() } else { format!(", loaded by {}", osds(&loaded)) };
    let present = match &found.sha256 {
        Some(sha256) => format!("SHA-256 {}{build}{by}", units::one_line(short(sha256))),
        None => "no file".to_owned(),
    };
    match step.action {
        Action::Install if found.sha256.is_none() => "no file; the library is new here".to_owned(),
        Action::Install => format!("replaces {present}, which is kept for --undo"),
        Action::Keep => format!("has this library already ({present})"),
        Action::Restore => {
            let old = found.record.as_ref().and_then(|record| record.old.as_deref()).unwrap_or_default();
            format!("returns to SHA-256 {} from {present}", units::one_line(short(old)))
        }
        Action::Remove => format!("removes {present}"),
        Action::Nothing => format!("nothing to undo ({present})"),
    }
}

/// The outcome in a directory.
pub fn done(step: &Step, outcome: &str, states: &[(i32, OsdState)]) -> String {
    let outcome = outcome.replace('_', " ");
    let mut text =
        format!("{}: {outcome}, {}", units::one_line(&step.host), units::one_line(&step.found.path));
    for (osd, state) in states {
        let (_, words) = words(state);
        let build = match state {
            OsdState::Runs { build: Some(build) } | OsdState::RunsOlder { build: Some(build) } => {
                format!(", build {}", units::one_line(build))
            }
            _ => String::new(),
        };
        let _ = write!(text, "; osd.{osd} {words}{build}");
    }
    text
}

/// The name of a state in JSON, and its words.
fn words(state: &OsdState) -> (&'static str, &'static str) {
    match state {
        OsdState::Runs { .. } => ("runs", "runs it"),
        OsdState::RunsOlder { .. } => ("runs_older", "runs the file from before"),
        OsdState::Refuses => ("refuses", "refuses to load it"),
        OsdState::Unreachable => ("unreachable", "leads no placement group, so it was not called"),
    }
}

/// The JSON of an OSD's state.
pub fn state_json(osd: i32, state: &OsdState) -> Value {
    let build = match state {
        OsdState::Runs { build } | OsdState::RunsOlder { build } => build.as_deref(),
        OsdState::Refuses | OsdState::Unreachable => None,
    };
    json!({ "osd": osd, "state": words(state).0, "build": build })
}
