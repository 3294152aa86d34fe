//! Formats a health report as text.

use benthic_ceph::health::report::{Finding, Numbers, Report, Severity, View};
use benthic_ceph::health::snapshot::Library;
use benthic_program::units;
use std::fmt::Write;

const ITEMS_SHOWN: usize = 8;
const UNKNOWN: &str = "not known";
const STALE: &str = " (stale: no manager answers)";

/// The report as text: the verdict, one line per number, and the findings.
pub fn page(report: &Report) -> String {
    let mut page = String::new();
    let mut line = |name: &str, text: String| {
        let _ = writeln!(page, "{name:<13} {}", units::no_control(&text));
    };
    let numbers = &report.numbers;
    line("verdict", verdict(report));
    line(
        "availability",
        match report.availability_percent {
            Some(percent) => format!("{percent}%; {}", availability_by_source(report)),
            None => UNKNOWN.to_owned(),
        },
    );
    if !report.fsid.is_empty() {
        line("monitors", monitors(numbers));
        line("manager", manager(numbers));
        line("OSDs", osds(report));
        line("PGs", pgs(report));
        line("objects", objects(report));
        line("space", space(report));
        line("latency", latency(numbers));
        line("scrubs", scrubs(numbers));
        line("versions", versions(numbers));
        line("classes", classes(numbers));
    }
    line("client", client(numbers));
    for finding in &report.findings {
        page.push('\n');
        page.push_str(&describe(finding));
    }
    page.trim_end().to_owned()
}

fn verdict(report: &Report) -> String {
    let counted = [(Severity::Error, "error"), (Severity::Warning, "warning"), (Severity::Info, "note")];
    let counts: Vec<String> = counted
        .into_iter()
        .map(|(severity, noun)| (report.count(severity) as u64, noun))
        .filter(|(count, _)| *count > 0)
        .map(|(count, noun)| units::count(count, noun))
        .collect();
    let counts = if counts.is_empty() { "nothing found".to_owned() } else { counts.join(", ") };
    let by_source = by_source(report, |view| view.verdict.map(|verdict| verdict.words().to_owned()), "");
    let ceph = report.ceph.as_ref().map(|ceph| format!("; Ceph says {ceph}")).unwrap_or_default();
    format!("{}: {counts}; {by_source}{ceph}", report.verdict.words())
}

fn availability_by_source(report: &Report) -> String {
    let percent = |view: &View| view.availability_percent.map(|percent| format!("{percent}%"));
    by_source(report, percent, if report.is_stale { STALE } else { "" })
}

/// The verdict of each source, and its age. `note` is about the monitors' data.
fn by_source(report: &Report, of: impl Fn(&View) -> Option<String>, note: &str) -> String {
    let sources = &report.sources;
    let says = |view: &View, note: &str| match of(view) {
        Some(text) => format!("{text} ({}){note}", age(view.age_s)),
        None => UNKNOWN.to_owned(),
    };
    let (monitors, own) = (says(&sources.monitors, note), says(&sources.benthic, ""));
    format!("by the monitors {monitors}, by Benthic's own requests {own}")
}

fn age(age_s: Option<u64>) -> String {
    match age_s {
        None | Some(0 | 1) => "now".to_owned(),
        Some(age_s) => format!("{age_s} s ago"),
    }
}

fn monitors(numbers: &Numbers) -> String {
    if !numbers.knows("monitors") {
        return UNKNOWN.to_owned();
    }
    let monitors = &numbers.monitors;
    let quorum: Vec<&str> =
        monitors.iter().filter(|(_, is_in)| **is_in).map(|(name, _)| name.as_str()).collect();
    let mut text = format!("{} of {} in quorum ({})", quorum.len(), monitors.len(), quorum.join(", "));
    if let Some(skew_ms) = numbers.clock_skew_ms_max {
        let _ = write!(text, ", clocks within {skew_ms:.1} ms");
    }
    text
}

fn manager(numbers: &Numbers) -> String {
    if !numbers.knows("manager") {
        return UNKNOWN.to_owned();
    }
    let standby = match numbers.managers_standby {
        0 => "none stands by".to_owned(),
        1 => "1 stands by".to_owned(),
        count => format!("{count} stand by"),
    };
    if let Some(name) = &numbers.manager { format!("{name}, {standby}") } else { "none is active".to_owned() }
}

fn osds(report: &Report) -> String {
    let numbers = &report.numbers;
    if !numbers.knows("osds") {
        return UNKNOWN.to_owned();
    }
    let up = numbers.osds.iter().filter(|osd| osd.up).count();
    let taking_data = numbers.osds.iter().filter(|osd| osd.takes_data).count();
    let answered = match &numbers.osd_answers {
        None => "answers to Benthic not known".to_owned(),
        Some(answers) => {
            let asked = answers.answered.len() + answers.silent.len();
            let age = age(report.sources.benthic.age_s);
            format!("{} of {asked} answered Benthic ({age})", answers.answered.len())
        }
    };
    let age = age(report.sources.monitors.age_s);
    format!("{up} up, {taking_data} in, of {}, say the monitors ({age}); {answered}", numbers.osds.len())
}

fn pgs(report: &Report) -> String {
    let numbers = &report.numbers;
    let Some(all) = numbers.pgs else { return UNKNOWN.to_owned() };
    let mut states: Vec<(&String, &u64)> = numbers.pgs_by_state.iter().collect();
    states.sort_by(|a, b| b.1.cmp(a.1));
    let states: Vec<String> = states.into_iter().map(|(state, count)| format!("{count} {state}")).collect();
    let silent = numbers.osd_answers.as_ref().map_or(0, |answers| answers.silent.len() as u64);
    let old = match silent {
        _ if report.is_stale => STALE.to_owned(),
        0 => String::new(),
        silent => {
            format!(
                " (the manager's last report; since then, {} did not answer)",
                units::count(silent, "OSD")
            )
        }
    };
    format!("{all}: {}{old}", states.join(", "))
}

fn stale(report: &Report) -> &'static str {
    if report.is_stale { STALE } else { "" }
}

fn objects(report: &Report) -> String {
    let numbers = &report.numbers;
    let count = |count: Option<u64>| count.map_or("?".to_owned(), |count| count.to_string());
    format!(
        "{}; replicas: {} degraded, {} misplaced; {} unfound{}; {} slow operations",
        count(numbers.objects),
        count(numbers.degraded_objects),
        count(numbers.misplaced_objects),
        count(numbers.unfound_objects),
        stale(report),
        count(numbers.slow_operations)
    )
}

fn space(report: &Report) -> String {
    let numbers = &report.numbers;
    let mut text = match (numbers.used_bytes, numbers.total_bytes) {
        (Some(used), Some(total)) => {
            format!("{} of {} used{}", units::size(used), units::size(total), stale(report))
        }
        _ => return UNKNOWN.to_owned(),
    };
    if let (Some(osd), Some(percent)) = (numbers.fullest_osd, numbers.fullest_percent) {
        let _ = write!(text, "; the fullest is osd.{osd} at {percent:.1}%");
        match (numbers.growth, numbers.full_in_days) {
            (_, Some(days)) => {
                let _ = write!(text, ", full in {days:.1} days at this rate");
            }
            ("not_growing", _) => text.push_str(", which does not grow"),
            _ => text.push_str("; a prediction needs readings an hour apart (--history FILE)"),
        }
    }
    text
}

fn latency(numbers: &Numbers) -> String {
    let disks = match numbers.commit_latency_ms_max {
        Some(ms) => format!("the slowest disk commits in {ms} ms"),
        None => "disks not known".to_owned(),
    };
    let probe = match &numbers.probe {
        None => "no probe (--probe-pool POOL)".to_owned(),
        Some(probe) => {
            let ms = |ms: Option<f64>| ms.map_or("failed".to_owned(), |ms| format!("{ms:.1} ms"));
            format!("probe in {}: write {}, read {}", probe.pool, ms(probe.write_ms), ms(probe.read_ms))
        }
    };
    format!("{disks}; {probe}")
}

fn scrubs(numbers: &Numbers) -> String {
    match (numbers.scrubbed_days_ago_max, numbers.deep_scrubbed_days_ago_max) {
        (Some(shallow), Some(deep)) => {
            format!("the oldest {shallow:.1} days ago, the oldest deep one {deep:.1} days ago")
        }
        _ => UNKNOWN.to_owned(),
    }
}

fn versions(numbers: &Numbers) -> String {
    let number = |version: &str| version.split(' ').nth(2).unwrap_or(version).to_owned();
    let each: Vec<String> =
        numbers.versions.iter().map(|(version, count)| format!("{} ({count})", number(version))).collect();
    if each.is_empty() { UNKNOWN.to_owned() } else { each.join(", ") }
}

fn classes(numbers: &Numbers) -> String {
    if !numbers.knows("libraries") {
        return UNKNOWN.to_owned();
    }
    let each = numbers.libraries.iter().map(|library: &Library| {
        let builds: Vec<String> = library
            .builds
            .iter()
            .map(|build| format!("{} in {}", build.build, osds_of(&build.osds)))
            .collect();
        format!("{} {}", library.name, builds.join(", "))
    });
    let each: Vec<String> = each.collect();
    if each.is_empty() { "no library built with Benthic in the OSDs".to_owned() } else { each.join("; ") }
}

fn osds_of(osds: &[i64]) -> String {
    units::count(osds.len() as u64, "OSD")
}

fn client(numbers: &Numbers) -> String {
    let Some(limits) = &numbers.client else { return UNKNOWN.to_owned() };
    let max = |max: Option<u64>| max.map_or("any number of".to_owned(), |max| max.to_string());
    format!(
        "may have {} open files and {} threads ({} in use)",
        max(limits.open_files_max),
        max(limits.threads_max),
        limits.threads
    )
}

fn describe(finding: &Finding) -> String {
    let stops = if finding.stops_io { ", stops I/O" } else { "" };
    let mut text = format!(
        "{}{stops}: {}: {}\n",
        finding.severity.word(),
        finding.name,
        units::no_control(&finding.what)
    );
    let unnamed: Vec<&str> =
        finding.which.iter().map(String::as_str).filter(|which| !finding.what.contains(which)).collect();
    if !unnamed.is_empty() {
        let shown = unnamed[..unnamed.len().min(ITEMS_SHOWN)].join(", ");
        let more = if unnamed.len() > ITEMS_SHOWN { ", …" } else { "" };
        let _ = writeln!(text, "  affected: {}{more}", units::no_control(&shown));
    }
    let _ = writeln!(text, "  next: {}", units::no_control(&finding.next));
    text
}

#[cfg(test)]
#[path = "text_tests.rs"]
mod tests;
