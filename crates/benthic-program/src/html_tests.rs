use super::{Bar, Figure, chart, escape, figures, table};

#[test]
fn a_loss_is_no_gain() {
    let shown = |ratio| {
        let figure = Figure::of_ratio(ratio, ["less", "more"], "time", String::new());
        format!("{} {}", figure.value, figure.label)
    };
    assert_eq!(
        [368.4, 9.94, 1.0, 0.5, 0.0].map(shown),
        ["368× less time", "9.9× less time", "1.0× less time", "2.0× more time", "1000000000× more time"]
    );
}

#[test]
fn names_are_escaped() {
    assert_eq!(escape("<a href=\"x\">&"), "&lt;a href=&quot;x&quot;&gt;&amp;");
    let figure = Figure { value: "<".into(), label: "&".into(), detail: "\"".into() };
    assert!(figures(&[figure]).contains("<b>&lt;</b> &amp;<p class=soft>&quot;</p>"));
    let row = vec!["<td>".to_owned()];
    let table = table(&["a\"b"], [row].into_iter());
    assert!(table.contains("<td data-label=\"a&quot;b\">&lt;td&gt;</td>"), "{table}");
    let bar = Bar { label: "<b>".to_owned(), length: 0.0, value: "0".to_owned(), class: "other" };
    let svg = chart(&[bar]);
    assert!(svg.contains("&lt;b&gt;") && !svg.contains("NaN"), "{svg}");
}
