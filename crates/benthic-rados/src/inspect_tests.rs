use super::{CALLS, FAILURES};

#[test]
fn the_queries_have_the_names_in_the_contract() {
    assert_eq!(CALLS.to_str().unwrap(), benthic_core::CALLS);
    assert_eq!(FAILURES.to_str().unwrap(), benthic_core::FAILURES);
}
