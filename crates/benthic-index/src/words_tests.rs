use super::{Search, TextQuery, tokenizer, words};
use proptest::prelude::prop;
use proptest::{prop_assert_eq, proptest};

fn matches(search: Search, query: &str, text: &str) -> bool {
    TextQuery::new(search, query).matches(text)
}

#[test]
fn words_are_those_of_unicode() {
    let found: Vec<&str> = words("Don't stop: 3.14 naïve_x café—20€ 珊瑚 (reef).").collect();
    assert_eq!(found, ["Don't", "stop", "3.14", "naïve_x", "café", "20", "珊", "瑚", "reef"]);
    assert_eq!(words(" \t.;!? — ").count(), 0);
    assert!(tokenizer().len() <= 64);
}

#[test]
fn searches_compare_whole_words_in_lower_case() {
    let text = "The Coral reef, and the CORAL bleaching of the Great Barrier Reef";
    for (search, query, expected) in [
        (Search::Words, "reef coral", true),
        (Search::Words, "cor", false),
        (Search::Words, "coral absent", false),
        (Search::Words, "Coral! Coral?", true),
        (Search::Words, "", false),
        (Search::Words, " - ", false),
        (Search::Phrase, "coral reef", true),
        (Search::Phrase, "reef coral", false),
        (Search::Phrase, "coral bleaching", true),
        (Search::Phrase, "barrier REEF", true),
        (Search::Phrase, "of the great", true),
        (Search::Prefixes, "cor bleach", true),
        (Search::Prefixes, "oral", false),
        (Search::Prefixes, "barriers", false),
    ] {
        assert_eq!(matches(search, query, text), expected, "{search:?} {query}");
    }
    for (query, text) in
        [("straße", "Straße"), ("οδός", "ΟΔΌΣ"), ("kelvin", "\u{212a}elvin"), ("ÉTÉ", "l été"), ("i̇x", "İX")]
    {
        assert!(matches(Search::Words, query, text), "{query}");
        assert!(matches(Search::Prefixes, query, text), "{query}");
        assert!(matches(Search::Phrase, query, text), "{query}");
    }
    // No folding beyond lower case: composed and decomposed characters differ.
    assert!(!matches(Search::Words, "été", "e\u{301}te\u{301}"));
}

/// The words of a text, by the obvious method.
fn plain(text: &str) -> Vec<String> {
    text.split(|char: char| !char.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_ascii_lowercase)
        .collect()
}

proptest! {
    #[test]
    fn a_search_agrees_with_the_obvious_method(text in "([abAB]{1,2} ?[ ,!] ?){0,12}", query in "([ab]{1,2} ){0,4}") {
        let (text_words, wanted) = (plain(&text), plain(&query));
        let some = !wanted.is_empty();
        prop_assert_eq!(
            matches(Search::Words, &query, &text),
            some && wanted.iter().all(|word| text_words.contains(word))
        );
        prop_assert_eq!(
            matches(Search::Prefixes, &query, &text),
            some && wanted.iter().all(|start| text_words.iter().any(|word| word.starts_with(start)))
        );
        prop_assert_eq!(
            matches(Search::Phrase, &query, &text),
            some && text_words.windows(wanted.len().max(1)).any(|part| part == wanted)
        );
    }

    /// A lookup compares keys, the function compares words: they must agree for every text.
    #[test]
    fn keys_agree_with_words(text in "\\PC{0,40}", rest in prop::sample::select(vec!["", "s", "ß", "Σ"])) {
        let text = format!("{text}{rest}");
        let (mut lower_case, mut key) = (String::new(), Vec::new());
        for word in words(&text) {
            super::write_key(word, &mut lower_case, &mut key);
            // The query is the word itself, if it is one word.
            let query = TextQuery::new(Search::Words, word);
            if let [range] = &query.keys()[..] {
                prop_assert_eq!(&range.low[..], &key[..], "{}", word);
            }
        }
    }
}
