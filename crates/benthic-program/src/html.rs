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

/// Builds a page. `body` is HTML; `title` is text, which this function escapes.
pub fn page(title: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=en><head><meta charset=utf-8>\
         <meta name=viewport content=\"width=device-width,initial-scale=1\">\
         <title>{}</title>\n<style>\n{STYLE}</style></head><body>\n{body}\n</body></html>\n",
        escape(title)
    )
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

/// Builds a table. The cells are text, which this function escapes.
pub fn table(heads: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let heads: String = heads.iter().map(|head| format!("<th>{}</th>", escape(head))).collect();
    let rows: String = rows
        .map(|row| {
            let cells: String = row.iter().map(|cell| format!("<td>{}</td>", escape(cell))).collect();
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
mod tests {
    use super::{Bar, chart, escape};

    #[test]
    fn names_are_escaped() {
        assert_eq!(escape("<a href=\"x\">&"), "&lt;a href=&quot;x&quot;&gt;&amp;");
        let bar = Bar { label: "<b>".to_owned(), length: 0.0, value: "0".to_owned(), class: "other" };
        let svg = chart(&[bar]);
        assert!(svg.contains("&lt;b&gt;") && !svg.contains("NaN"), "{svg}");
    }
}
