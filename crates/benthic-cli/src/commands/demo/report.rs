//! The results as one HTML file: the findings first, then all measurements.

use super::phases::Phase;
use super::published::Published;
use super::{Findings, text};
use benthic_core::build;
use benthic_program::html::{Bar, chart, escape, figures, list, page as html_page, table};
use benthic_program::units;

pub fn page(findings: &Findings) -> String {
    let verdict = if findings.mismatches.is_empty() {
        format!("<p>{}</p>", escape(&text::verdict(findings)))
    } else {
        let rows = findings.mismatches.iter().map(|mismatch| {
            format!(
                "{}: in storage {}, at the client {}, expected {}",
                mismatch.object, mismatch.in_storage, mismatch.at_client, mismatch.expected
            )
        });
        format!("<p class=bad>{} digests differ:</p>{}", findings.mismatches.len(), list(rows))
    };
    let skipped = if findings.skipped.is_empty() {
        String::new()
    } else {
        format!("<h2>Skipped files</h2>{}", list(findings.skipped.iter().cloned()))
    };
    let body = format!(
        "<h1>Code beside the data: the active-storage experiment</h1>\n\
         {verdict}\n{}\n\
         <p>Every object is digested with MD5 beside the object, at the client, and by md5sum. {}</p>\n\
         <p class=soft>{}; benthic {}</p>\n\
         <h2>Bytes that moved {}</h2>\n{}\n<p>{}</p>\n{}\
         <h2>All phases</h2>\n{}\n{skipped}",
        figures(&text::figures(findings)),
        escape(&text::totals(findings)),
        escape(&text::setting(findings)),
        escape(build()),
        if findings.ceph {
            "over the network"
        } else {
            "between the storage and the client, within one process"
        },
        chart(&bars_of_moved_bytes(findings)),
        escape(&text::explain_phases(findings)),
        published_table(findings),
        table(&text::PHASE_HEADS, findings.phases.iter().map(|phase| text::phase_cells(phase).into())),
    );
    html_page("Benthic: the active-storage experiment", &body)
}

#[expect(clippy::cast_precision_loss, reason = "the length of a bar")]
fn bars_of_moved_bytes(findings: &Findings) -> Vec<Bar> {
    let digests = findings.phases.iter().zip([None, Some("storage"), Some("client")]);
    let bars = digests.filter_map(|(phase, class)| {
        let moved = Phase::crossed_both_ways(phase)?;
        let (label, value) = (phase.name.to_owned(), units::size(moved));
        Some(Bar { label, length: moved as f64, value, class: class? })
    });
    bars.collect()
}

fn published_table(findings: &Findings) -> String {
    let rows = findings.published.iter().map(|row| {
        let in_storage = &row.in_storage;
        let at_client = row.at_client().map(|(_, run)| {
            format!("{:.3} s ({})", run.seconds, text::gain(run.seconds, in_storage.seconds))
        });
        let mut cells = vec![
            units::size(row.size_bytes),
            format!("{:.3} s ({})", in_storage.seconds, units::count(row.calls, "call")),
        ];
        cells.extend(at_client);
        cells.push(format!("{} / {}", in_storage.round_trips, row.durable.round_trips));
        cells.push(format!(
            "{} / {}",
            units::size(in_storage.crossed_bytes),
            units::size(row.durable.crossed_bytes)
        ));
        cells
    });
    let mut heads = vec!["object", "in storage"];
    heads.extend(
        findings.published.first().into_iter().flat_map(Published::at_client).map(|(label, _)| label),
    );
    heads.extend(["round trips: storage / client", "moved: storage / client"]);
    let charts: String = findings.published.iter().map(published_chart).collect();
    format!(
        "<h2>Time of the published form: one object, {} times stat + read + MD5 + set attribute</h2>\n\
         <p>{}</p>\n<div class=charts>\n{charts}</div>\n{}\n<p>{}</p>\n",
        findings.repeat,
        escape(text::PUBLISHED_FORM),
        table(&heads, rows),
        escape(&text::explain_repetitions(findings))
    )
}

fn published_chart(row: &Published) -> String {
    let in_storage = [("in storage", &row.in_storage)].into_iter();
    let bars: Vec<Bar> = in_storage
        .chain(row.at_client())
        .zip(["storage", "client", "other"])
        .map(|((label, run), class)| Bar {
            label: label.to_owned(),
            length: run.seconds,
            value: format!("{:.3} s", run.seconds),
            class,
        })
        .collect();
    format!("<div><h3>object of {}</h3>\n{}</div>\n", units::size(row.size_bytes), chart(&bars))
}
