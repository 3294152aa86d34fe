//! Reports of the table experiment: text for a terminal, JSON, and an HTML page.

use super::super::count;
use super::Findings;
use benthic_core::build;
use benthic_core::pushdown::Pushdown;
use benthic_program::html::{self, Bar, Figure, escape};
use benthic_program::measure::median;
use benthic_program::units;
use benthic_sql::experiment::{QueryRuns, WAYS};
use serde_json::{Value, json};
use std::time::Duration;

/// Name and color of a pushdown mode.
fn way(way: Pushdown) -> (&'static str, &'static str) {
    match way {
        Pushdown::Always => ("beside the objects", "storage"),
        Pushdown::Never => ("here", "client"),
        Pushdown::Auto => ("auto", "other"),
    }
}

fn times(measured: &QueryRuns) -> [Duration; WAYS.len()] {
    measured.runs.each_ref().map(|runs| median(runs.iter().map(|run| run.time).collect()))
}

fn moved_bytes(measured: &QueryRuns) -> [u64; WAYS.len()] {
    measured.runs.each_ref().map(|runs| median(runs.iter().map(|run| run.moved_bytes).collect()))
}

fn rows(measured: &QueryRuns) -> u64 {
    measured.runs.iter().flatten().next().map_or(0, |run| run.rows)
}

/// The text report: one line per query.
pub fn text(findings: &Findings) -> String {
    let mut text =
        format!("{:26} {:>10}  time beside, here, auto          moved beside, here, auto", "query", "rows");
    for measured in &findings.measured {
        let [beside, here, auto] = times(measured).map(|time| format!("{:.3} s", time.as_secs_f64()));
        let [moved_beside, moved_here, moved_auto] = moved_bytes(measured).map(units::size);
        text.push_str(&format!(
            "\n{:26} {:>10}  {beside:>9} {here:>9} {auto:>9}   {moved_beside:>10} {moved_here:>10} {moved_auto:>10}",
            measured.query.name,
            rows(measured),
        ));
    }
    text
}

/// The JSON report, with all runs.
pub fn json(findings: &Findings) -> Value {
    let queries = findings.measured.iter().map(|measured| {
        let ways = WAYS.iter().zip(&measured.runs).map(|(way, runs)| {
            json!({
                "pushdown": format!("{way:?}").to_lowercase(),
                "seconds": runs.iter().map(|run| run.time.as_secs_f64()).collect::<Vec<_>>(),
                "moved_bytes": runs.iter().map(|run| run.moved_bytes).collect::<Vec<_>>(),
            })
        });
        json!({
            "name": measured.query.name, "sql": measured.query.sql, "rows": rows(measured),
            "ways": ways.collect::<Vec<_>>(),
        })
    });
    json!({
        "store": findings.store, "pool": findings.pool, "scale": findings.scale,
        "table_rows": findings.lineitem.rows(), "table_objects": findings.lineitem.objects(),
        "table_bytes": findings.lineitem.data_bytes(), "queries": queries.collect::<Vec<_>>(),
    })
}

/// The HTML report.
pub fn page(findings: &Findings) -> String {
    let lineitem = &findings.lineitem;
    let shown = match findings.is_ceph {
        true => html::figures(&figures(findings)),
        false => "<p>This store is a directory on this machine. All queries run in the client, so the three modes do the \
                  same and differ only by chance. On a Ceph cluster they do not.</p>"
            .to_owned(),
    };
    let seconds = bars(
        findings,
        |measured| times(measured).map(|time| time.as_secs_f64()),
        |seconds| format!("{seconds:.3} s"),
    );
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the length of a bar"
    )]
    let moved = bars(
        findings,
        |measured| moved_bytes(measured).map(|moved| moved as f64),
        |moved| units::size(moved as u64),
    );
    let body = format!(
        "<h1>SQL beside the objects: the table experiment</h1>\n{shown}\n\
         <p>TPC-H at scale {}: lineitem has {} in {}, {} of Parquet. Each query runs beside the objects that accept \
         it, in the client (here) on the bytes that it needs, and in the faster place (auto); medians of {}, in turns. \
         All modes returned the same rows.</p>\n<p class=soft>{}; benthic {}</p>\n\
         <h2>Time</h2>\n{seconds}\n<h2>Bytes that moved</h2>\n<p>Objects and replies to the client, and \
         fragments to the objects.</p>\n{moved}\n<h2>All results</h2>\n{}\n<h2>The queries</h2>\n{}",
        findings.scale,
        count(lineitem.rows(), "row"),
        count(lineitem.objects(), "object"),
        units::size(lineitem.data_bytes()),
        count(findings.measured.first().map_or(0, |measured| measured.runs[0].len() as u64), "run"),
        escape(&findings.store),
        escape(build()),
        table(findings),
        html::list(
            findings
                .measured
                .iter()
                .map(|measured| format!("{}: {}", measured.query.name, measured.query.sql))
        ),
    );
    html::page("Benthic: the table experiment", &body)
}

/// The ratios of the client to the objects, over all queries.
fn figures(findings: &Findings) -> [Figure; 3] {
    let sum = |of: fn(&QueryRuns) -> [f64; WAYS.len()]| {
        let zero = [0.0; WAYS.len()];
        findings
            .measured
            .iter()
            .map(of)
            .fold(zero, |sum, next| std::array::from_fn(|way| sum[way] + next[way]))
    };
    #[expect(clippy::cast_precision_loss, reason = "a ratio for people")]
    let [moved_beside, moved_here, _] = sum(|measured| moved_bytes(measured).map(|moved| moved as f64));
    let [beside_s, here_s, auto_s] = sum(|measured| times(measured).map(|time| time.as_secs_f64()));
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a size for people")]
    let size = |moved: f64| units::size(moved as u64);
    let ratio = |here: f64, other: f64| here / other.max(1e-9);
    let seconds = format!("{beside_s:.3} s beside the objects, {here_s:.3} s here, for all queries");
    [
        Figure::of_ratio(
            ratio(moved_here, moved_beside),
            ["fewer", "more"],
            "bytes moved beside the objects",
            format!("{} beside the objects, {} here, for all queries", size(moved_beside), size(moved_here)),
        ),
        Figure::of_ratio(ratio(here_s, beside_s), ["less", "more"], "time beside the objects", seconds),
        Figure::of_ratio(
            ratio(here_s, auto_s),
            ["less", "more"],
            "time if each object's place is chosen (auto)",
            format!("{auto_s:.3} s, against {here_s:.3} s if all queries run here"),
        ),
    ]
}

/// One bar chart per query, each with its own scale, because only the modes are compared.
fn bars(
    findings: &Findings,
    of: impl Fn(&QueryRuns) -> [f64; WAYS.len()],
    format_value: impl Fn(f64) -> String,
) -> String {
    let mut charts = "<div class=charts>\n".to_owned();
    for measured in &findings.measured {
        let bars: Vec<Bar> = WAYS
            .into_iter()
            .zip(of(measured))
            .map(|(pushdown, length)| {
                let (label, class) = way(pushdown);
                Bar { label: label.to_owned(), length, value: format_value(length), class }
            })
            .collect();
        let name = escape(&measured.query.name);
        charts.push_str(&format!("<div><h3>{name}</h3>\n{}</div>\n", html::chart(&bars)));
    }
    charts + "</div>"
}

fn table(findings: &Findings) -> String {
    let heads = [
        "query",
        "rows",
        "time beside",
        "time here (/\u{a0}beside)",
        "time auto (/\u{a0}better)",
        "moved beside (/\u{a0}table)",
        "moved here",
        "moved auto",
    ];
    let rows = findings.measured.iter().map(|measured| {
        let [beside_s, here_s, auto_s] = times(measured).map(|time| time.as_secs_f64());
        let moved = moved_bytes(measured);
        #[expect(clippy::cast_precision_loss, reason = "a share for people")]
        let share = moved[0] as f64 / findings.lineitem.data_bytes() as f64;
        let [moved_beside, moved_here, moved_auto] = moved.map(units::size);
        vec![
            measured.query.name.clone(),
            rows(measured).to_string(),
            format!("{beside_s:.3} s"),
            format!("{here_s:.3} s ({:.2})", here_s / beside_s),
            format!("{auto_s:.3} s ({:.2})", auto_s / beside_s.min(here_s)),
            format!("{moved_beside} ({:.2}%)", share * 100.0),
            moved_here,
            moved_auto,
        ]
    });
    html::table(&heads, rows)
}
