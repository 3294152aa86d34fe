use super::{escape, restore};
use benthic_testkit::random::Rng;
use benthic_testkit::seed;

/// The document with a text, as the gateway should answer.
fn expected(text: &str) -> String {
    let is_plain = |c: char| c >= ' ' || c == '\t' || c == '\n';
    let reference = |c: char| if is_plain(c) { c.to_string() } else { format!("&#x{:x};", u32::from(c)) };
    text.chars().map(reference).collect()
}

#[test]
fn control_characters_become_references() {
    assert_eq!(restore(&escape("a\u{1}b\r\n\t\u{0}\u{1f}".to_owned())), "a&#x1;b&#xd;\n\t&#x0;&#x1f;");
    assert_eq!(escape("reef 1/ä\u{E101}".to_owned()), "reef 1/ä\u{E101}");
    // Keys that look like an escape.
    for key in ["\u{E000}", "\u{E000}\u{E101}", "\u{E000}\u{E000}\u{E101}", "\u{1}\u{E000}\u{1}"] {
        assert_eq!(restore(&escape(key.to_owned())), expected(key));
    }
}

#[test]
fn no_text_is_taken_for_another() {
    let seed = seed::one();
    let mut random = Rng(seed);
    let alphabet = [
        'a',
        '\t',
        '\n',
        '\r',
        '\u{0}',
        '\u{1f}',
        '\u{E000}',
        '\u{E100}',
        '\u{E11F}',
        '\u{E120}',
        '\u{10FFFF}',
    ];
    for _ in 0..20_000 {
        let len = random.below(8);
        let text: String = (0..len).map(|_| alphabet[random.below(alphabet.len())]).collect();
        let escaped = escape(text.clone());
        let fits = |c: char| c >= ' ' || c == '\t' || c == '\n';
        assert!(escaped.chars().all(fits), "{}={seed}", seed::VARIABLE);
        assert_eq!(restore(&escaped), expected(&text), "{}={seed}", seed::VARIABLE);
    }
}
