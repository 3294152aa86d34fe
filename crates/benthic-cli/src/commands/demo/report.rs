//! The results as one HTML file.

use super::phases::Phase;
use super::published::Published;
use super::{Findings, text};
use benthic_core::BUILD;
use benthic_program::html::{Bar, chart, escape, list, page as html_page, table};
use benthic_program::units;

pub fn page(findings: &Findings) -> String {
    let load = findings.phases.first();
    let (objects, bytes) = load.map_or((0, 0), |load| (load.sizes.objects, load.sizes.bytes));
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
         <p>{objects} objects, {} ({}), each digested with MD5 beside the object, at the client, and by \
         md5sum.</p>\n\
         <p class=soft>{}, benthic {}</p>\n\
         {verdict}\n<h2>The four phases</h2>\n{}\n\
         <h2>Throughput, MiB/s</h2>\n{}\n\
         <h2>Bytes that crossed the {}</h2>\n{}\n<p>{}</p>\n{}{skipped}",
        units::size(bytes),
        escape(&findings.data),
        escape(&text::setting(findings)),
        escape(BUILD),
        table(&text::PHASE_HEADS, findings.phases.iter().map(|phase| text::phase_cells(phase).into())),
        chart(&throughput(findings)),
        if findings.ceph { "network" } else { "engine's boundary" },
        chart(&crossings(findings)),
        escape(&text::explain_phases(findings)),
        published(findings),
    );
    html_page("Benthic: the active-storage experiment", &body)
}

fn throughput(findings: &Findings) -> Vec<Bar> {
    let bars = findings.phases.iter().zip(["other", "storage", "client", "other"]).map(|(phase, class)| {
        let mib_per_s = units::mib_per_s(phase.sizes.bytes, phase.seconds);
        Bar { label: phase.name.to_owned(), length: mib_per_s, value: format!("{mib_per_s:.1}"), class }
    });
    bars.collect()
}

#[expect(clippy::cast_precision_loss, reason = "the length of a bar")]
fn crossings(findings: &Findings) -> Vec<Bar> {
    let bars = findings.phases.iter().zip(["other", "storage", "client"]).filter_map(|(phase, class)| {
        let crossed = Phase::crossed_both_ways(phase)?;
        let value = units::size(crossed);
        Some(Bar { label: phase.name.to_owned(), length: crossed as f64, value, class })
    });
    bars.collect()
}

fn published(findings: &Findings) -> String {
    let rows = findings.published.iter().map(|row| {
        let mut cells = vec![
            units::size(row.size_bytes),
            format!("{:.3} s", row.in_storage.seconds),
            row.calls.to_string(),
        ];
        cells.extend(row.at_client().map(|(_, run)| format!("{:.3} s", run.seconds)));
        cells.extend(row.at_client().map(|(_, run)| text::gain(run.seconds, row.in_storage.seconds)));
        cells.push(units::size(row.in_storage.crossed_bytes));
        cells.push(units::size(row.durable.crossed_bytes));
        cells
    });
    let buffered = findings.published.iter().any(|row| row.buffered.is_some());
    let heads: &[&str] = if buffered {
        &[
            "object",
            "in storage",
            "calls",
            "client, durable",
            "client, buffered",
            "gain, durable",
            "gain, buffered",
            "crossed, in storage",
            "crossed, client",
        ]
    } else {
        &["object", "in storage", "calls", "client", "gain", "crossed, in storage", "crossed, client"]
    };
    let table = table(heads, rows);
    let charts: String = findings.published.iter().map(published_chart).collect();
    format!(
        "<h2>The published form: one object, {} times stat + read + MD5 + set attribute</h2>\n\
         {table}\n<p>{}</p>\n{charts}",
        findings.repeat,
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
    format!("<h3>object of {}</h3>\n{}\n", units::size(row.size_bytes), chart(&bars))
}
