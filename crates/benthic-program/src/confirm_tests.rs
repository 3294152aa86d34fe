use super::{Change, Deletion, named};
use crate::exit::{Failure, Outcome};
use crate::output::Output;
use std::cell::Cell;

/// Confirms the deletion of the pool `photos` without a terminal. Returns whether the contents were
/// requested, and the outcome.
fn confirm(yes: Option<&str>, missing: Option<&str>, contents: &[&str]) -> (bool, Outcome) {
    let asked = Cell::new(false);
    let deletion = Deletion { noun: "pool", name: "photos", yes, missing };
    let out = Output::new(true);
    let outcome = futures::executor::block_on(deletion.confirm(&out, async || {
        asked.set(true);
        Ok(contents.iter().map(|item| (*item).to_owned()).collect())
    }));
    (asked.get(), outcome)
}

fn refusal(outcome: Outcome) -> String {
    match outcome {
        Err(Failure::Usage(message)) => message,
        other => panic!("{other:?}"),
    }
}

#[test]
fn without_a_terminal_only_the_right_name_confirms() {
    let (asked, outcome) = confirm(Some("photos"), None, &["1 object"]);
    assert!(!asked && outcome.is_ok(), "{outcome:?}");
    let (asked, outcome) = confirm(Some("photo"), None, &["1 object"]);
    assert!(!asked);
    assert_eq!(refusal(outcome), r#"the name of the pool is "photos", not "photo"; nothing was deleted"#);
    let refused = refusal(confirm(None, None, &["1 object", "1 table (t)"]).1);
    assert_eq!(
        refused,
        "this would delete pool photos for good: 1 object, 1 table (t); add --yes photos to confirm"
    );
    assert!(confirm(None, None, &[]).1.is_ok(), "nothing would be lost");
    assert!(confirm(Some("photo"), None, &[]).1.is_err());
}

#[test]
fn a_missing_option_is_not_replaced_by_the_name() {
    for yes in [None, Some("photos")] {
        let refused = refusal(confirm(yes, Some("--not-ours"), &["1 object"]).1);
        assert!(refused.ends_with("add --not-ours --yes photos to confirm"), "{refused}");
    }
}

#[test]
fn options_are_shown_as_a_shell_takes_them() {
    for (name, option) in [("a b", "--yes 'a b'"), ("-x", "--yes=-x")] {
        let deletion = Deletion { noun: "pool", name, yes: None, missing: None };
        assert!(deletion.refusal(&[]).contains(option), "{name}");
    }
}

#[test]
fn the_first_names_are_shown() {
    let names = |count: usize| (0..count).map(|number| format!("t{number}")).collect::<Vec<_>>();
    assert_eq!(named("table", &names(0), false), None);
    assert_eq!(named("table", &names(1), false).unwrap(), "1 table (t0)");
    assert_eq!(named("table", &names(6), true).unwrap(), "at least 6 tables (t0, t1, t2, t3, t4, …)");
}

#[test]
fn a_change_needs_its_name_too() {
    let confirm = |yes| {
        let change = Change { effect: "install library x_1 on 2 hosts", noun: "library", name: "x_1", yes };
        futures::executor::block_on(change.confirm(&Output::new(true)))
    };
    assert!(confirm(Some("x_1")).is_ok());
    assert_eq!(refusal(confirm(None)), "this would install library x_1 on 2 hosts; add --yes x_1 to confirm");
    assert!(refusal(confirm(Some("x_2"))).ends_with("nothing was changed"));
}
