//! Self-contained HTML pages: no scripts, inline SVG charts, light and dark colour schemes.

const STYLE: &str = include_str!("report.css");

/// One bar of a chart.
pub struct Bar {
    /// Text above the bar.
    pub label: String,
    /// Length in any unit that all bars of the chart share.
    pub length: f64,
    /// The length as text.
    pub value: String,
    /// CSS class: storage, client or other.
    pub class: &'static str,
}

/// One of the figures at the top of a page.
pub struct Figure {
    /// The figure itself, such as `368×`.
    pub value: String,
    /// The meaning of the number, in a few words.
    pub label: String,
    /// The measurements behind it.
    pub detail: String,
}

impl Figure {
    /// A ratio of costs, the usual way to the way that is shown. `less` and `more` are the words
    /// for a ratio above 1, which is a gain, and below 1.
    pub fn of_ratio(ratio: f64, [less, more]: [&str; 2], what: &str, detail: String) -> Figure {
        let (ratio, word) = if ratio < 1.0 { (1.0 / ratio.max(1e-9), more) } else { (ratio, less) };
        let decimals = if ratio < 10.0 { 1 } else { 0 };
        Figure { value: format!("{ratio:.decimals$}×"), label: format!("{word} {what}"), detail }
    }
}

/// Builds a page. `body` is HTML; `title` is text, which this function escapes.
pub fn page(title: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=en><head><meta charset=utf-8>\
         <meta name=viewport content=\"width=device-width,initial-scale=1\">\
         <title>{}</title>\n<style>\n{STYLE}</style></head><body>\n{body}\n</body></html>\n",
        escape(title)
    )
}

/// Shows the figures side by side, or below each other on a phone. All of it is text, which this
/// function escapes.
pub fn figures(figures: &[Figure]) -> String {
    let figures: String = figures
        .iter()
        .map(|Figure { value, label, detail }| {
            let (value, label, detail) = (escape(value), escape(label), escape(detail));
            format!("<div><b>{value}</b> {label}<p class=soft>{detail}</p></div>\n")
        })
        .collect();
    format!("<div class=figures>\n{figures}</div>")
}

/// Draws an SVG chart of horizontal bars. Each label is above its bar, so that the chart is
/// readable on a phone.
pub fn chart(bars: &[Bar]) -> String {
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

/// Builds a table. The cells are text, which this function escapes. On a phone each row is a block
/// of lines, and each line begins with its column's head.
pub fn table(heads: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let labels = heads.iter().map(|head| escape(head));
    let heads: String = heads.iter().map(|head| format!("<th>{}</th>", escape(head))).collect();
    let rows: String = rows
        .map(|row| {
            let cells: String = row
                .iter()
                .zip(labels.clone())
                .map(|(cell, label)| format!("<td data-label=\"{label}\">{}</td>", escape(cell)))
                .collect();
            format!("<tr>{cells}</tr>\n")
        })
        .collect();
    format!("<div class=wide><table><thead><tr>{heads}</tr></thead><tbody>\n{rows}</tbody></table></div>")
}

/// Builds a bulleted list. The items are text, which this function escapes.
pub fn list(items: impl Iterator<Item = String>) -> String {
    let items: String = items.map(|item| format!("<li>{}</li>\n", escape(&item))).collect();
    format!("<ul>\n{items}</ul>")
}

/// Escapes text for HTML.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
#[path = "html_tests.rs"]
mod tests;
