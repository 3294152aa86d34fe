use super::{Addition, add, difference, remove, with_exact_weights, with_steps};
use crate::placement::tests::crush;

const TEXT: &str = include_str!("testdata/crush.txt");

fn addition() -> Addition {
    Addition {
        root: Some(("benthic-not-um".to_owned(), vec!["msu".to_owned(), "wsu".to_owned()])),
        rule: "benthic-um-first".to_owned(),
        steps: vec!["take um".to_owned(), "chooseleaf firstn 1 type host".to_owned(), "emit".to_owned()],
    }
}

#[test]
fn exact_weights_survive_the_text() {
    assert!(TEXT.contains("item osd.0 weight 0.019\n"), "the text is what crushtool printed");
    let exact = with_exact_weights(TEXT, &crush());
    assert!(exact.contains("\titem osd.0 weight 0.019489288\n"), "{exact}");
    let lines = |text: &str| {
        text.lines().map(|line| line.split(" weight").next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(lines(&exact), lines(TEXT), "nothing else is changed");
    for item in crush().buckets.iter().flat_map(|bucket| &bucket.items) {
        let text = super::decimal(item.weight);
        assert_eq!((text.parse::<f32>().unwrap() * 65_536.0) as u32, item.weight);
    }
    let large = (1_u32 << 24) - 1;
    assert_eq!((super::decimal(large).parse::<f32>().unwrap() * 65_536.0) as u32, large);
}

#[test]
fn removal_undoes_the_addition() {
    let added = add(TEXT, &crush(), &addition());
    let rule =
        "rule benthic-um-first {\n\tid 1\n\ttype replicated\n\tmin_size 1\n\tmax_size 10\n\tstep take um\n";
    assert!(added.contains(rule), "{added}");
    let root = "root benthic-not-um {\n\talg straw2\n\thash 0\n\titem msu weight 0.038974762\n";
    assert!(added.contains(root) && added.find(root) < added.find("# rules"), "{added}");
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(words(&remove(&added, "benthic-um-first", Some("benthic-not-um"))), words(TEXT));
    assert!(remove(&added, "benthic-um-first", None).contains(root), "the root may be another rule's too");
}

#[test]
fn a_copy_of_the_map_has_other_steps_for_a_rule() {
    let changed = with_steps(TEXT, "replicated_rule", &["take um".to_owned(), "emit".to_owned()]);
    assert!(changed.contains(
        "\tid 0\n\ttype replicated\n\tmin_size 1\n\tmax_size 10\n\tstep take um\n\tstep emit\n}\n"
    ));
    assert!(!changed.contains("step take default"));
    assert_eq!(with_steps(TEXT, "no-such-rule", &[]), TEXT);
}

#[test]
fn unexpected_changes_of_a_map_are_detected() {
    let old = crush();
    let mut new = old.clone();
    assert_eq!(difference(&old, &new, &[]), None);
    let ours = new.buckets[0].clone();
    new.buckets.push(super::Bucket { id: -99, name: "ours~hdd".to_owned(), ..ours });
    assert_eq!(difference(&old, &new, &["ours"]), None);
    assert!(difference(&old, &new, &["other"]).is_some());
    new.buckets[3].items[0].weight += 1;
    assert!(difference(&old, &new, &["ours"]).unwrap().contains(&old.buckets[3].name));
    let mut new = old.clone();
    new.rules[0].steps.pop();
    assert!(difference(&old, &new, &["ours"]).unwrap().contains("rules"));
}
