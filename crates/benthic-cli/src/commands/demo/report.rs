//! The findings as one HTML file that needs nothing else: no scripts, charts inline, light and dark.

use super::Findings;
use super::text::{self, WHAT_IS_REPEATED, WHAT_IT_MEANS};
use crate::units;
use benthic_core::BUILD;

const STYLE: &str = include_str!("report.css");

/// One bar of a chart: label, length, what stands behind it, and its class in the style sheet.
struct Bar {
    label: String,
    length: f64,
    value: String,
    class: &'static str,
}

/// The whole page.
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
        format!("<h2>Left out</h2>{}", list(findings.skipped.iter().cloned()))
    };
    format!(
        "<!doctype html>\n<html lang=en><head><meta charset=utf-8>\
         <meta name=viewport content=\"width=device-width,initial-scale=1\">\
         <title>Benthic: the active-storage experiment</title>\n<style>\n{STYLE}</style></head><body>\n\
         <h1>Code beside the data: the active-storage experiment</h1>\n\
         <p>{objects} objects, {} ({}), each digested with MD5 beside the object, at the client, and by \
         md5sum.</p>\n\
         <p class=soft>store {}, pool {}, {} jobs, benthic {}</p>\n\
         {verdict}\n<h2>The four phases</h2>\n{}\n\
         <h2>Throughput, MiB/s</h2>\n{}\n\
         <h2>Bytes that crossed the engine's boundary</h2>\n{}\n<p>{}</p>\n{}{skipped}\n</body></html>\n",
        units::size(bytes),
        escape(&findings.data),
        escape(&findings.store),
        escape(&findings.pool),
        findings.jobs,
        escape(BUILD),
        phase_table(findings),
        chart(&throughput(findings)),
        chart(&crossings(findings)),
        escape(WHAT_IT_MEANS),
        published(findings),
    )
}

fn phase_table(findings: &Findings) -> String {
    let rows = findings.phases.iter().map(|phase| {
        let (sent, received) = text::crossed(phase);
        vec![
            phase.name.to_owned(),
            phase.sizes.objects.to_string(),
            units::size(phase.sizes.bytes),
            format!("{:.2} s", phase.seconds),
            format!("{:.0}", units::per_s(phase.sizes.objects, phase.seconds)),
            format!("{:.1}", units::mib_per_s(phase.sizes.bytes, phase.seconds)),
            sent,
            received,
        ]
    });
    let heads = ["", "objects", "bytes", "time", "objects/s", "MiB/s", "to the store", "from the store"];
    table(&heads, rows)
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
        let (sent, received) = phase.crossed_bytes?;
        let crossed = sent + received;
        let value = units::size(crossed);
        Some(Bar { label: phase.name.to_owned(), length: crossed as f64, value, class })
    });
    bars.collect()
}

fn published(findings: &Findings) -> String {
    let rows = findings.published.iter().map(|row| {
        let storage = row.in_storage.seconds;
        vec![
            units::size(row.size_bytes),
            format!("{storage:.3} s"),
            row.calls.to_string(),
            format!("{:.3} s", row.durable.seconds),
            format!("{:.3} s", row.buffered.seconds),
            text::gain(row.durable.seconds, storage),
            text::gain(row.buffered.seconds, storage),
            units::size(row.in_storage.crossed_bytes),
            units::size(row.durable.crossed_bytes),
        ]
    });
    let heads = [
        "object",
        "in storage",
        "calls",
        "client, durable",
        "client, buffered",
        "gain, durable",
        "gain, buffered",
        "crossed, in storage",
        "crossed, client",
    ];
    let table = table(&heads, rows);
    let charts: String = findings
        .published
        .iter()
        .map(|row| {
            let runs = [
                ("in storage", &row.in_storage, "storage"),
                ("client, durable", &row.durable, "client"),
                ("client, buffered", &row.buffered, "other"),
            ];
            let bars = runs.map(|(label, run, class)| Bar {
                label: label.to_owned(),
                length: run.seconds,
                value: format!("{:.3} s", run.seconds),
                class,
            });
            format!("<h3>object of {}</h3>\n{}\n", units::size(row.size_bytes), chart(&bars))
        })
        .collect();
    format!(
        "<h2>The published form: one object, {} times stat + read + MD5 + set attribute</h2>\n\
         {table}\n<p>{}</p>\n{charts}",
        findings.repeat,
        escape(WHAT_IS_REPEATED)
    )
}

/// Bars below each other, each with its label above it, so that the chart is readable on a phone.
fn chart(bars: &[Bar]) -> String {
    const WIDTH: f64 = 360.0;
    const ROW: usize = 36;
    let longest = bars.iter().map(|bar| bar.length).fold(1e-9, f64::max);
    let mut svg =
        format!("<svg viewBox=\"0 0 {WIDTH} {}\" role=img aria-label=\"bar chart\">", bars.len() * ROW);
    for (index, bar) in bars.iter().enumerate() {
        let top = index * ROW;
        let width = (bar.length / longest * WIDTH).max(1.0);
        svg.push_str(&format!(
            "<text x=0 y={}>{}</text><text x={WIDTH} y={} text-anchor=end>{}</text>\
             <rect class={} x=0 y={} width={width:.1} height=12 rx=2 />",
            top + 13,
            escape(&bar.label),
            top + 13,
            escape(&bar.value),
            bar.class,
            top + 18,
        ));
    }
    svg + "</svg>"
}

fn table(heads: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let heads: String = heads.iter().map(|head| format!("<th>{}</th>", escape(head))).collect();
    let rows: String = rows
        .map(|row| {
            let cells: String = row.iter().map(|cell| format!("<td>{}</td>", escape(cell))).collect();
            format!("<tr>{cells}</tr>\n")
        })
        .collect();
    format!("<div class=wide><table><thead><tr>{heads}</tr></thead><tbody>\n{rows}</tbody></table></div>")
}

fn list(items: impl Iterator<Item = String>) -> String {
    let items: String = items.map(|item| format!("<li>{}</li>\n", escape(&item))).collect();
    format!("<ul>\n{items}</ul>")
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::{Bar, chart, escape};

    #[test]
    fn names_cannot_break_out_of_the_page() {
        assert_eq!(escape("<a href=\"x\">&"), "&lt;a href=&quot;x&quot;&gt;&amp;");
        let bar = Bar { label: "<b>".to_owned(), length: 0.0, value: "0".to_owned(), class: "other" };
        let svg = chart(&[bar]);
        assert!(svg.contains("&lt;b&gt;") && !svg.contains("NaN"), "{svg}");
    }
}
