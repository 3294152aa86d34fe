//! Pages that need nothing else: no scripts, charts inline, light and dark.

const STYLE: &str = include_str!("report.css");

/// One bar of a chart: label, length, what stands behind it, and its class in the style sheet.
pub struct Bar {
    /// Above the bar.
    pub label: String,
    /// In any unit, the same for all bars of a chart.
    pub length: f64,
    /// Its length in words.
    pub value: String,
    /// storage, client or other.
    pub class: &'static str,
}

/// A page. The body is HTML, the title is not.
pub fn page(title: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=en><head><meta charset=utf-8>\
         <meta name=viewport content=\"width=device-width,initial-scale=1\">\
         <title>{}</title>\n<style>\n{STYLE}</style></head><body>\n{body}\n</body></html>\n",
        escape(title)
    )
}

/// Bars below each other, each with its label above it, so that the chart is readable on a phone.
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

/// A table; its cells are text.
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

/// A list of texts.
pub fn list(items: impl Iterator<Item = String>) -> String {
    let items: String = items.map(|item| format!("<li>{}</li>\n", escape(&item))).collect();
    format!("<ul>\n{items}</ul>")
}

/// Text as HTML.
pub fn escape(text: &str) -> String {
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
