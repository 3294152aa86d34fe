use super::nearest;
use strsim::levenshtein;

#[test]
fn only_similar_names_are_suggested() {
    assert_eq!(levenshtein("kitten", "sitting"), 3);
    assert_eq!(levenshtein("", "abc"), 3);
    assert_eq!(nearest("dta", ["data", "logs"].into_iter()), Some("data"));
    assert_eq!(nearest("photos", ["data", "logs"].into_iter()), None);
}
